//! `pipeprof check`: test a kernel for a regression, with the exit codes of `git bisect run`.

use super::baseline;
use super::check_history;
use super::compare::available_memory;
use super::global::{UNTESTABLE, WRONG_CHECK};
use super::run::{GivenFlags, given_flags, outcome};
use super::sizing_args::SizingArgs;
use super::stored_runs;
use crate::compare::matrix;
use crate::compare::model::{RoleRow, Section, Step, Word};
use crate::compare::render::tables::function_name;
use crate::compare::render::terminal;
use crate::compare::{CompareOptions, Comparison, Input, compare};
use crate::document::{Outcome, Request};
use crate::report::files::Folder;
use crate::report::number;
use crate::report::terminal::text::shortened;
use crate::run::{RunOptions, exact};
use crate::util::decision::FLOOR;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{cancel, progress};
use crate::vm::image::Kernel;
use crate::vm::qemu;
use anyhow::{Context as _, Result, anyhow, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Test a kernel for a regression against a stored run
///
/// The exit codes suit `git bisect run`: 0 no regression, 1 regression (with the roles and functions), 125 not
/// testable or undecided (bisect skips the commit), 128 usage error (bisect stops). The kernel runs with the
/// baseline's workload and guest settings. Counted instructions are compared without scheduling. A regression is a change
/// whose whole interval is above the threshold; if the interval contains the threshold, the kernel is undecided.
/// --fail-below finds improvements instead: then the exit code is 1 for an improvement, and 0 otherwise.
///
/// Without --baseline, it stores one: `pipeprof check --kernel GOOD -o baseline` counts on one and on two CPUs.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Kernel to test: a bzImage, a .deb, or a series or release of `pipeprof kernel list` [default: the running one]
    #[arg(long, value_name = "PATH|NAME")]
    kernel: Option<String>,
    /// Mode of `pipeprof run`; an error if it differs from the baseline's [default: the baseline's, or write]
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Stored run to compare with: a run.json, its folder, or the folder that `check -o` wrote
    #[arg(long, value_name = "RUN", required_unless_present_any = ["output", "history"])]
    baseline: Option<PathBuf>,
    /// Store of a campaign (`pipeprof matrix`) to compare with: what its kernels have taken since the last step, in each
    /// of its workloads
    #[arg(long, value_name = "STORE", conflicts_with_all = ["baseline", "mode"])]
    history: Option<PathBuf>,
    /// Regression threshold: increase of instructions without scheduling (or of time) per KiB, in percent [default: 1%;
    /// with --fail-below: none]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Exit with 1 if they decreased by more than this, to bisect for an improvement [default: none]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_below: Option<f64>,
    /// What a mode that reads a file reads: a device such as /dev/zero, or `memory` (zeros in a memory file) [default: the
    /// baseline's]
    #[arg(long, value_name = "FILE")]
    source: Option<String>,
    #[command(flatten)]
    sizing: SizingArgs,
    /// Flags of `pipeprof run` that are not stored in the baseline, such as --run-flags '--time-limit 60'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "", hide_default_value = true)]
    run_flags: String,
    /// Folder to store the runs in [default: not stored]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
}

/// `--fail-above`, in percent.
const REGRESSION_THRESHOLD: f64 = 1.0;

/// Verdicts with exit code 1.
const REGRESSION: &str = "regression";
const IMPROVEMENT: &str = "improvement";
/// No change that matters.
pub(super) const SAME: &str = "no difference";
/// Neither.
pub(super) const UNDECIDED: &str = "undecided";

/// Whether a kernel called `name` can exist for other revisions.
///
/// # Errors
/// A usage error, so that a mistyped name does not make `git bisect run` skip every revision. If only the image is
/// missing, and its folder exists, this returns no error, because the build of that revision may have failed.
fn kernel(name: &str) -> Result<()> {
    let path = Path::new(name);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            bail!(UsageError::new(format!("--kernel {name}: the folder {} does not exist", folder.display())))
        }
        Some(_) if !path.is_dir() => Ok(()),
        _ if path.is_file() => Ok(()),
        _ => Kernel::find(name).map(drop).or_usage(),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(value) if (0.0..=1000.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not a percentage: use a form such as 1% or 0.5%")),
    }
}

impl CheckArgs {
    /// # Errors
    /// Never: an error is printed, and decides the exit code.
    pub(super) fn run(self) -> Result<ExitCode> {
        // A panic would exit with 101, which bisect takes for a regression.
        let done = std::panic::catch_unwind(|| self.perform());
        progress::clear();
        match done {
            Ok(Ok(code)) => Ok(code),
            Ok(Err(error)) if error.is::<UsageError>() => {
                progress::problem(&format!("{error:#}"));
                Ok(ExitCode::from(WRONG_CHECK))
            }
            // Above 128, so that `git bisect run` stops.
            Ok(Err(error)) if cancel::exit_code().is_some() => Err(error),
            Ok(Err(error)) => {
                progress::problem(&format!("the kernel could not be tested: {error:#}"));
                Ok(ExitCode::from(UNTESTABLE))
            }
            Err(_) => {
                crate::errln!("pipeprof: internal error; please report it");
                Ok(ExitCode::from(WRONG_CHECK))
            }
        }
    }

    fn perform(&self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let given = self.given()?;
        if self.kernel.is_some() {
            // Without QEMU no commit can be tested: stop the bisection instead of skipping all.
            qemu::version().or_usage()?;
        }
        if let Some(store) = &self.history {
            return check_history::perform(self, &given, store);
        }
        let Some(path) = &self.baseline else { return self.store(&given) };
        let baseline = stored_runs::column(path).map_err(|error| UsageError::new(format!("--baseline {error:#}")))?;
        let wanted = baseline
            .runs
            .iter()
            .map(|(_, run)| baseline::options(&given, &run.document))
            .collect::<Result<Vec<_>>>()?;
        let label = self.label()?;
        let (runs, problem) = self.measure(&wanted)?;
        if let Some(problem) = problem {
            // What was measured decides, wherever it is stored.
            progress::problem(&format!("{problem:#}"));
        }
        let runs = runs.into_iter().map(|run| (label.clone(), run)).collect();
        let inputs =
            [Input { label: Some("baseline".to_owned()), ..baseline }, Input { label: Some(label.clone()), runs }];
        let options = CompareOptions {
            command: super::command_line(),
            seed: 1,
            margin: self.margin(),
            ..CompareOptions::default()
        };
        let comparison = compare(&inputs, &options)?.comparison;
        self.judge(&comparison)
    }

    /// The name of the tested kernel, which can exist.
    ///
    /// # Errors
    /// A usage error, as [`kernel`].
    pub(super) fn label(&self) -> Result<String> {
        if let Some(name) = &self.kernel {
            self::kernel(name)?;
        }
        Ok(self.kernel.as_deref().unwrap_or("this kernel").to_owned())
    }

    /// Store a baseline.
    fn store(&self, given: &GivenFlags) -> Result<ExitCode> {
        let mut options = given.options.clone();
        let mut wanted = Vec::new();
        options.count_by_default();
        if options.exact() && !given.has("cpus") {
            wanted.extend(exact::CPUS.map(|cpus| {
                let mut options = options.clone();
                options.machine.cpus = Some(cpus);
                options
            }));
        } else {
            wanted.push(options);
        }
        if let (_, Some(problem)) = self.measure(&wanted)? {
            return Err(problem);
        }
        let folder = self.output.as_deref().unwrap_or(Path::new("."));
        crate::outln!("stored as a baseline: {}", folder.display());
        Ok(ExitCode::SUCCESS)
    }

    /// What the command line asks for, without the baseline.
    pub(super) fn given(&self) -> Result<GivenFlags> {
        let mut given = given_flags("--run-flags", &self.run_flags)?;
        let options = &mut given.options;
        if options.workload.mode.is_some() {
            bail!(UsageError::new("--run-flags contains --mode; give --mode to `pipeprof check` itself"));
        }
        if self.kernel.is_some() {
            if options.kernel.is_some() {
                bail!(UsageError::new("--kernel is given twice: remove it from --run-flags"));
            }
            options.kernel.clone_from(&self.kernel);
        }
        options.workload.mode.clone_from(&self.mode);
        self.sizing.apply(options);
        options.workload.set_source(self.source.as_deref());
        Ok(given)
    }

    /// Measure all of `wanted`, counted ones in parallel, and store them. Returns also why they are not where they should
    /// be.
    pub(super) fn measure(&self, wanted: &[RunOptions]) -> Result<(Vec<Outcome>, Option<anyhow::Error>)> {
        let requests =
            wanted.iter().map(|options| options.request(super::command_line())).collect::<Result<Vec<_>>>()?;
        let mode = requests.first().map_or("", |request| request.mode.as_str());
        let folder = match &self.output {
            Some(path) => Some(Folder::prepare(Some(path), &super::now(), mode).or_usage()?),
            None => None,
        };
        let parallel = wanted.iter().all(RunOptions::exact);
        let mut outcomes = std::thread::scope(|scope| {
            let failed = |_| Err(anyhow!("internal error: a thread panicked"));
            let mut results = Vec::new();
            for together in wanted.chunks(if parallel { jobs(wanted) } else { 1 }) {
                let running: Vec<_> = together.iter().map(|options| scope.spawn(|| outcome(options))).collect();
                results.extend(running.into_iter().map(|thread| thread.join().unwrap_or_else(failed)));
            }
            results.into_iter().collect::<Result<Vec<_>>>()
        })?;
        let Some(folder) = folder else { return Ok((outcomes, None)) };
        let kept = if let [outcome] = outcomes.as_mut_slice() {
            folder.write_or_rescue(outcome, Vec::new())?
        } else {
            let name = |(options, request): (&RunOptions, &Request)| {
                format!("{}-{}-cpu", request.mode.replace(' ', "-"), options.machine.cpus())
            };
            let names = distinct(wanted.iter().zip(&requests).map(name));
            let runs = names.into_iter().zip(&mut outcomes).map(|(name, outcome)| (name, outcome, Vec::new()));
            folder.write_each_or_rescue(runs, Vec::new())?
        };
        Ok((outcomes, kept.problem))
    }

    fn judge(&self, comparison: &Comparison) -> Result<ExitCode> {
        let steps: Vec<(&Section, &Step)> = comparison
            .sections
            .iter()
            .filter_map(|section| section.steps.first().map(|step| (section, step)))
            .collect();
        if steps.is_empty() {
            bail!("the baseline and the run have no mode in common");
        }
        let words: Vec<&str> = steps.iter().map(|(_, step)| self.word(step)).collect();
        let word = self.say(&words);
        print_changes(comparison, &steps);
        Ok(exit_code(word))
    }

    /// Print the verdict on all cases: the first that one of them has decides.
    pub(super) fn say(&self, words: &[&'static str]) -> &'static str {
        let ranks = [REGRESSION, IMPROVEMENT, UNDECIDED, "worse", "within the threshold", "better", SAME];
        let word = ranks.into_iter().find(|rank| words.contains(rank)).unwrap_or(SAME);
        let above = self.above().map(|limit| format!("+{limit} %"));
        let below = self.fail_below.map(|limit| format!("-{limit} %"));
        let limits: Vec<String> = above.into_iter().chain(below).collect();
        crate::outln!("{word} (threshold {})", limits.join(" and "));
        word
    }

    /// The verdict on a change by `worse` percent.
    pub(super) fn judged(&self, worse: f64) -> &'static str {
        judged(worse, self.above(), self.fail_below)
    }

    /// The regression threshold; none if only improvements are looked for.
    fn above(&self) -> Option<f64> {
        self.fail_above.or(self.fail_below.is_none().then_some(REGRESSION_THRESHOLD))
    }

    /// Changes within it do not matter: the smaller threshold.
    pub(super) fn margin(&self) -> f64 {
        let thresholds = self.above().into_iter().chain(self.fail_below);
        (thresholds.fold(f64::INFINITY, f64::min) / 100.0).max(FLOOR)
    }

    /// The verdict on one case.
    fn word(&self, step: &Step) -> &'static str {
        let change = (step.verdict.ratio - 1.0) * 100.0;
        match (step.verdict.word, step.verdict.uncertainty) {
            (Word::Same, _) => SAME,
            (Word::Undecided, _) => UNDECIDED,
            // Timed.
            (_, None) => self.judged(change),
            // Both ends of the interval must be on the same side of a threshold.
            (_, Some(half)) => {
                let ends = [change - 100.0 * half, change + 100.0 * half].map(|end| self.judged(end));
                if ends[0] == ends[1] { ends[0] } else { UNDECIDED }
            }
        }
    }
}

/// Guests that run at a time: both numbers of CPUs of a baseline always, and more if there is room.
fn jobs(wanted: &[RunOptions]) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = wanted.iter().map(|options| options.machine.memory).max().unwrap_or_default();
    matrix::default_jobs(cpus, available_memory(), memory).max(exact::CPUS.len())
}

/// Names of folders: a second run of the same mode and number of CPUs has another setting, and gets a number.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let same = all.iter().filter(|other| **other == name || other.starts_with(&format!("{name}-"))).count();
        all.push(if same == 0 { name } else { format!("{name}-{}", same + 1) });
    }
    all
}

/// The exit code of `git bisect run`.
pub(super) fn exit_code(word: &str) -> ExitCode {
    match word {
        REGRESSION | IMPROVEMENT => ExitCode::FAILURE,
        UNDECIDED => ExitCode::from(UNTESTABLE),
        _ => ExitCode::SUCCESS,
    }
}

/// The answers, and the roles and functions that changed.
pub(super) fn print_changes(comparison: &Comparison, steps: &[(&Section, &Step)]) {
    crate::out!("{}", terminal::answers(comparison, super::compare::extent().width));
    for (section, step) in steps {
        let changed = |row: &&RoleRow| row.delta != 0.0 && (row.certain || !step.exact());
        let mut rows = step.roles.iter().filter(changed).take(8).peekable();
        if rows.peek().is_some() {
            crate::outln!("{}, by role and function (self), {}:", section.title(), comparison.per_kib());
        }
        for row in rows {
            crate::outln!("  {:<44} {:>12}", row.title, number::signed(row.delta));
            for function in step.functions.iter().filter(|f| f.role == row.role && f.self_delta != 0.0).take(4) {
                crate::outln!(
                    "    {:<42} {:>12}",
                    shortened(&function_name(function), 60),
                    number::signed(function.self_delta)
                );
            }
        }
    }
    if comparison.caveats.iter().any(|caveat| caveat.text.contains("different builds")) {
        crate::outln!("  another build of pipeprof made the baseline: repeat its run with this build");
    }
}

/// The verdict on a real change by `worse` percent: a regression above the one threshold, an improvement below the other.
fn judged(worse: f64, above: Option<f64>, below: Option<f64>) -> &'static str {
    match above {
        Some(limit) if worse > limit => REGRESSION,
        _ if below.is_some_and(|limit| -worse > limit) => IMPROVEMENT,
        None if worse > 0.0 => "worse",
        Some(_) if worse <= 0.0 && below.is_none() => "better",
        _ => "within the threshold",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_several_settings_have_names_of_their_own() {
        let names = ["write-1-cpu", "write-2-cpu", "write-1-cpu", "write-1-cpu"].map(str::to_owned);
        assert_eq!(distinct(names.into_iter()), ["write-1-cpu", "write-2-cpu", "write-1-cpu-2", "write-1-cpu-3"]);
    }

    #[test]
    fn each_threshold_finds_its_direction() {
        for (worse, above, below, word) in [
            (1.2, Some(1.0), None, REGRESSION),
            (0.8, Some(1.0), None, "within the threshold"),
            (-5.0, Some(1.0), None, "better"),
            (-5.0, None, Some(1.0), IMPROVEMENT),
            (-0.8, None, Some(1.0), "within the threshold"),
            (5.0, None, Some(1.0), "worse"),
            (5.0, Some(1.0), Some(1.0), REGRESSION),
            (-5.0, Some(1.0), Some(1.0), IMPROVEMENT),
            (-0.5, Some(1.0), Some(1.0), "within the threshold"),
        ] {
            assert_eq!(judged(worse, above, below), word, "{worse} {above:?} {below:?}");
        }
    }
}

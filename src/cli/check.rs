//! `pipeprof check`: test a kernel for a regression, with the exit codes of `git bisect run`.

use super::check_commands::CommandArgs;
use super::check_comment::JudgedCase;
use super::check_history;
use super::check_rules::{CheckRules, exit_code, first_steps, print_changes};
use super::global::{UNTESTABLE, WRONG_CHECK};
use super::run::given_flags;
use super::sizing_args::SizingArgs;
use crate::compare::{Comparison, Input, stored};
use crate::result::{Measurement, Outcome};
use crate::run::MeasurePair as _;
use crate::run::exact;
use crate::studies::again::{again, measure_all};
use crate::studies::command_list::CommandList;
use crate::studies::given::GivenFlags;
use crate::studies::limits::LimitState;
use crate::studies::verdict::{CheckThresholds, CheckVerdict};
use crate::util::text::clean;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{cancel, progress};
use crate::vm::qemu;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Test a kernel for a regression against a stored run or pipeline
///
/// The exit codes suit `git bisect run`: 0 no regression, 1 regression (with the roles and functions), 125 not
/// testable or undecided (bisect skips the commit), 128 usage error (bisect stops). The kernel runs with the
/// baseline's workload and guest settings. Counted instructions are compared without scheduling. A regression is a change
/// whose whole interval is above the threshold; if the interval contains the threshold, the kernel is undecided. The same
/// holds for instructions of which each `rep` instruction (copying or clearing memory) counts once per 8 bytes.
/// --fail-below finds improvements instead: then the exit code is 1 for an improvement, and 0 otherwise.
///
/// Without --baseline, it stores one: `pipeprof check --kernel GOOD -o baseline` counts on one and on two CPUs.
///
/// With a command, it tests a program instead: `pipeprof check -o base -- 'cat big | ./wc'` counts every instruction of the
/// command, its own and the kernel's, and `pipeprof check --baseline base -- 'cat big | ./wc'` compares. The kernel is the
/// newest one that was fetched, and then the baseline's.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    rules: CheckRules,
    /// Mode of `pipeprof run`; an error if it differs from the baseline's [default: the baseline's, or write]
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    #[command(flatten)]
    commands: CommandArgs,
    /// Stored result to compare with: a result.json, its folder, the folder that `check -o` wrote, or the folder of a pipeline
    /// that `pipeprof record --collect insn` counted
    #[arg(long, value_name = "RUN", required_unless_present_any = ["output", "history", "against"])]
    baseline: Option<PathBuf>,
    /// Store of a campaign (`pipeprof matrix`) to compare with: what its kernels have taken since the last step, in each
    /// of its workloads
    #[arg(long, value_name = "STORE", conflicts_with_all = ["baseline", "mode"])]
    history: Option<PathBuf>,
    /// What a mode that reads a file reads: a device such as /dev/zero, or `memory` (zeros in a memory file) [default: the
    /// baseline's]
    #[arg(long, value_name = "FILE")]
    source: Option<String>,
    /// Run the pipeline of a stored recording that belongs to another user: in a guest, with the programs and files of this
    /// machine that it names
    #[arg(long)]
    run_stored_command: bool,
    #[command(flatten)]
    sizing: SizingArgs,
    /// Flags of `pipeprof run`: any for a new baseline, such as --run-flags '--calls 500'; with --baseline those that it
    /// does not store, such as --run-flags '--time-limit 60'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "", hide_default_value = true)]
    run_flags: String,
}

impl CheckArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        // A panic would exit with 101, which bisect takes for a regression.
        let what = if self.commands.are_given() { "the commands" } else { "the kernel" };
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
                progress::problem(&format!("{what} could not be tested: {error:#}"));
                Ok(ExitCode::from(UNTESTABLE))
            }
            Err(_) => {
                util::errln!("pipeprof: internal error; please report it");
                Ok(ExitCode::from(WRONG_CHECK))
            }
        }
    }

    fn perform(&self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let bench = self.commands.given()?;
        if !bench.commands.is_empty() {
            self.refuse_pairs()?;
            let compared = self.commands.compared(&bench, &self.rules, self.baseline.as_deref())?;
            return compared.map_or(Ok(ExitCode::SUCCESS), |comparison| self.judge(&comparison, &bench));
        }
        let given = self.given()?;
        if self.rules.kernel.is_some() {
            // Without QEMU no commit can be tested: stop the bisection instead of skipping all.
            qemu::version(self.rules.processor()).or_usage()?;
        }
        if let Some(store) = &self.history {
            return check_history::perform(&self.rules, &given, store, self.run_stored_command);
        }
        let Some(path) = &self.baseline else { return self.store(&given) };
        let baseline = stored::column(path).map_err(|error| UsageError::new(format!("--baseline {error:#}")))?;
        for (path, Outcome { document, .. }) in &baseline.runs {
            if document.target.workload().is_none() && document.ensemble.is_none() {
                let why = "no instructions were counted: record with --kernel and --collect insn";
                bail!(UsageError::new(format!("--baseline {path}: {why}")));
            }
        }
        let repeat = |(_, run): &(String, Outcome)| again(&given, run, self.run_stored_command);
        let wanted = baseline.runs.iter().map(repeat).collect::<Result<Vec<_>>>()?;
        let label = self.rules.label()?;
        let stored: Vec<_> = baseline.runs.iter().map(|(_, run)| run).collect();
        let runs = self.rules.measured(&wanted, &stored)?.into_iter().map(|run| (label.clone(), run)).collect();
        let inputs =
            [Input { label: Some("baseline".to_owned()), ..baseline }, Input { label: Some(label.clone()), runs }];
        self.judge(&self.rules.compared(&inputs)?, &bench)
    }

    /// Flags for pairs do not go with commands.
    fn refuse_pairs(&self) -> Result<()> {
        let given = [
            (self.mode.is_some(), "--mode"),
            (self.history.is_some(), "--history"),
            (self.source.is_some(), "--source"),
            (!self.run_flags.is_empty(), "--run-flags"),
            (self.sizing.is_given(), "--precision and --window-limit"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) => {
                bail!(UsageError::new(format!("{flag}: for pairs of a writer and a reader, and a command is given")))
            }
            None => Ok(()),
        }
    }

    /// Store a baseline.
    fn store(&self, given: &GivenFlags) -> Result<ExitCode> {
        let mut options = given.options.clone();
        let mut wanted = Vec::new();
        options.count_by_default();
        if options.exact() && !given.machine.cpus {
            wanted.extend(exact::CPUS.map(|cpus| {
                let mut options = options.clone();
                options.machine.cpus = Some(cpus);
                Measurement::Pair(Box::new(options))
            }));
        } else {
            wanted.push(Measurement::Pair(Box::new(options)));
        }
        if let (_, Some(problem)) = measure_all(&wanted, self.rules.output.as_deref(), &super::command_line())? {
            return Err(problem);
        }
        let folder = self.rules.output.as_deref().unwrap_or(Path::new("."));
        util::outln!("stored as a baseline: {}", folder.display());
        Ok(ExitCode::SUCCESS)
    }

    /// What the command line asks for, without the baseline.
    pub(super) fn given(&self) -> Result<GivenFlags> {
        let mut given = given_flags("--run-flags", &self.run_flags)?;
        let options = &mut given.options;
        if options.workload.mode.is_some() {
            bail!(UsageError::new("--run-flags contains --mode; give --mode to `pipeprof check` itself"));
        }
        if self.rules.kernel.is_some() {
            if options.kernel.is_some() {
                bail!(UsageError::new("--kernel is given twice: remove it from --run-flags"));
            }
            options.kernel.clone_from(&self.rules.kernel);
        }
        options.workload.mode.clone_from(&self.mode);
        self.sizing.apply(options);
        options.workload.set_source(self.source.as_deref());
        Ok(given)
    }

    fn judge(&self, comparison: &Comparison, bench: &CommandList) -> Result<ExitCode> {
        let steps = first_steps(comparison);
        if steps.is_empty() {
            bail!("the baseline and the run have no mode in common");
        }
        let thresholds = CheckThresholds { of_commands: bench.has_limits(), ..self.rules.thresholds() };
        let (mut cases, mut facts) = (Vec::new(), Vec::new());
        for (section, step) in &steps {
            let own = bench.limits(&section.mode).cloned().unwrap_or_default();
            let (verdict, fact) = thresholds.for_command(&own, step).verdict(section, step)?;
            let (verdict, limits) = thresholds.limited(verdict, &own, step);
            facts.extend(fact);
            let told = limits.iter().filter(|limit| limit.state != LimitState::Kept);
            facts.extend(told.map(|limit| format!("{}: {}", section.title(), limit.sentence())));
            cases.push(JudgedCase { section, step, verdict, limits });
        }
        if !self.rules.shown.json {
            self.rules.say(&thresholds, cases.iter().map(|case| case.verdict));
            if cases.len() > 1 && !bench.commands.is_empty() {
                let line = |case: &JudgedCase<'_>| format!("  {:<21} {}", case.verdict.text(), case.section.title());
                cases.iter().for_each(|case| util::outln!("{}", clean(&line(case))));
            }
            facts.into_iter().for_each(|fact| util::outln!("{}", clean(&fact)));
            print_changes(comparison, &steps, self.rules.role);
        }
        let verdict = CheckVerdict::worst(cases.iter().map(|case| case.verdict));
        self.rules.shown.write(comparison, cases, &thresholds)?;
        Ok(exit_code(verdict))
    }
}

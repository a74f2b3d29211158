//! `pipeprof check`: test a kernel for a regression, with the exit codes of `git bisect run`.

use super::baseline;
use super::global::{UNTESTABLE, WRONG_CHECK};
use super::run::{GivenFlags, given_flags, outcome};
use crate::compare::model::{Step, Word};
use crate::compare::render::terminal;
use crate::compare::{CompareOptions, Input, compare, text};
use crate::document::Outcome;
use crate::profile::Unit;
use crate::report::files::{self, Folder};
use crate::util::usage::UsageError;
use crate::util::{cancel, progress};
use anyhow::{Context as _, Result, anyhow, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Test a kernel for a regression against a stored run
///
/// The exit codes suit `git bisect run`: 0 no regression, 1 regression (with the roles and functions), 125 not
/// testable or inconclusive (bisect skips the commit), 128 usage error (bisect stops). The kernel runs with the
/// baseline's workload and guest settings.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Kernel to test: a bzImage, a .deb, or a series or release of `pipeprof kernel list` [default: the running one]
    #[arg(long, value_name = "PATH|NAME")]
    kernel: Option<String>,
    /// Mode of `pipeprof run`; an error if it differs from the baseline's [default: the baseline's]
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Stored run to compare with: a run.json or its folder
    #[arg(long, value_name = "RUN")]
    baseline: PathBuf,
    /// Regression threshold: increase of instructions (or time) per KiB, in percent
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    fail_above: f64,
    /// Flags of `pipeprof run` that are not stored in the baseline, such as --run-flags '--time-limit 60'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "", hide_default_value = true)]
    run_flags: String,
    /// Ignore scheduling, which varies by about 1 %: scheduler, wake-up, PSI, waiting, idle, ticks, interrupts,
    /// softirqs
    #[arg(long)]
    without_scheduling: bool,
    /// Folder to store the run in [default: not stored]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
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
        let step = self.step();
        progress::clear();
        match step {
            Ok((comparison, step)) => Ok(self.judge(&comparison, &step)),
            Err(error) if error.is::<UsageError>() => {
                eprintln!("pipeprof: {error:#}");
                Ok(ExitCode::from(WRONG_CHECK))
            }
            Err(error) => {
                eprintln!("pipeprof: the kernel could not be tested: {error:#}");
                Ok(ExitCode::from(UNTESTABLE))
            }
        }
    }

    fn step(&self) -> Result<(crate::compare::Comparison, Step)> {
        cancel::install().context("cannot install signal handlers")?;
        let given = self.given()?;
        let baseline = files::load(&self.baseline).map_err(|error| anyhow!("--baseline {error:#}"))?;
        if self.without_scheduling && baseline.document.unit != Unit::Instructions {
            bail!(UsageError::new(format!(
                "--without-scheduling requires exact counts: --baseline {} is timed; store one with --collect insn",
                self.baseline.display()
            )));
        }
        let outcome = self.measure(&given, &baseline)?;
        let label = self.kernel.as_deref().unwrap_or("this kernel").to_owned();
        let inputs = [
            Input { label: Some("baseline".to_owned()), runs: vec![(self.baseline.display().to_string(), baseline)] },
            Input { label: Some(label.clone()), runs: vec![(label, outcome)] },
        ];
        let options = CompareOptions { command: super::command_line(), seed: 1, ..CompareOptions::default() };
        let mut comparison = compare(&inputs, &options)?.comparison;
        let step = comparison
            .sections
            .first_mut()
            .and_then(|section| section.steps.pop())
            .with_context(|| format!("--baseline {}: its mode is not that of the run", self.baseline.display()))?;
        Ok((comparison, step))
    }

    /// What the command line asks for, without the baseline.
    fn given(&self) -> Result<GivenFlags> {
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
        Ok(given)
    }

    fn measure(&self, given: &GivenFlags, baseline: &Outcome) -> Result<Outcome> {
        let document = &baseline.document;
        let options = baseline::options(given, document)?;
        let folder = match &self.output {
            Some(path) => Some(Folder::prepare(Some(path), &super::now(), &document.mode)?),
            None => None,
        };
        let mut outcome = outcome(&options)?;
        if let Some(folder) = folder {
            folder.write(&mut outcome)?;
        }
        Ok(outcome)
    }

    fn judge(&self, comparison: &crate::compare::Comparison, step: &Step) -> ExitCode {
        let verdict = &step.verdict;
        let ratio = match step.without_scheduling {
            Some([before, after]) if self.without_scheduling && before > 0.0 => after / before,
            _ => verdict.ratio,
        };
        let worse = (ratio - 1.0) * 100.0;
        let word = match verdict.word {
            Word::Inconclusive => {
                eprintln!("pipeprof: the kernel could not be tested: {}", verdict.text);
                return ExitCode::from(UNTESTABLE);
            }
            Word::Same => "no difference",
            _ if worse > self.fail_above => "regression",
            _ if worse > 0.0 => "within the threshold",
            _ => "better",
        };
        let limit = text::value(self.fail_above);
        crate::outln!("{word} (threshold +{limit} %): {}", terminal::answer(step));
        for row in step.roles.iter().filter(|row| row.delta != 0.0).take(8) {
            crate::outln!("  {:<32} {:>12} {}", row.title, text::signed(row.delta), comparison.per_kib());
            for function in step.functions.iter().filter(|f| f.role == row.role && f.self_delta != 0.0).take(4) {
                crate::outln!(
                    "    {:<42} {:>12}",
                    terminal::function_name(function),
                    text::signed(function.self_delta)
                );
            }
        }
        if comparison.caveats.iter().any(|caveat| caveat.text.contains("different builds")) {
            crate::outln!("  another build of pipeprof made the baseline: repeat its run with this build");
        }
        ExitCode::from(u8::from(word == "regression"))
    }
}

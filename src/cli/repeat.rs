//! What `check` measures again on the tested kernel: the workload or the pipeline of a baseline.

use super::baseline;
use super::record::RecordArgs;
use super::run::{self, GivenFlags, split};
use crate::record::inside::{PipelinePlace, PreparedPipeline};
use crate::result::Outcome;
use crate::run::{RunOptions, WindowSizing};
use crate::util::usage::UsageError;
use crate::vm::GuestMachine;
use anyhow::{Context as _, Result};

/// A measurement to repeat.
pub(super) enum Repeat {
    Run(Box<RunOptions>),
    Pipeline(Box<RecordArgs>),
}

impl Repeat {
    /// Repeat `stored` with the flags of this command line.
    pub(super) fn of(given: &GivenFlags, stored: &Outcome) -> Result<Self> {
        if stored.document.target.workload().is_some() {
            return Ok(Self::Run(Box::new(baseline::options(given, &stored.document)?)));
        }
        let options = &given.options;
        if options.workload.mode.is_some() || options.sizing != WindowSizing::default() {
            let problem =
                "--mode, --precision and --window-limit are for runs, and the baseline is a recorded pipeline";
            return Err(UsageError::new(problem).into());
        }
        let kernel = options.kernel.clone();
        let kernel = kernel.with_context(|| UsageError::new("a pipeline is counted in a guest: add --kernel"))?;
        let words: Vec<String> =
            split(&stored.document.command)?.into_iter().skip_while(|word| word != "record").skip(1).collect();
        let mut args = RecordArgs::parse_words("the baseline's command", &words)?;
        args.guest.kernel = Some(kernel);
        Ok(Self::Pipeline(Box::new(args)))
    }

    /// The mode of a run, or the text of a pipeline.
    pub(super) fn name(&self) -> Result<String> {
        Ok(match self {
            Self::Run(options) => options.request(super::command_line())?.mode,
            Self::Pipeline(args) => args.counted()?.text(),
        })
    }

    /// Whether counts are measured, which no other guest disturbs.
    pub(super) fn is_exact(&self) -> bool {
        match self {
            Self::Run(options) => options.exact(),
            Self::Pipeline(_) => true,
        }
    }

    pub(super) fn machine(&self) -> &GuestMachine {
        match self {
            Self::Run(options) => &options.machine,
            Self::Pipeline(args) => &args.guest.machine,
        }
    }

    pub(super) fn measure(&self) -> Result<Outcome> {
        match self {
            Self::Run(options) => run::outcome(options),
            Self::Pipeline(args) => {
                let guest = args.guest(true)?.context("a guest has a kernel")?;
                let pipeline = args.counted()?;
                let prepared = PreparedPipeline::new(args.in_guest(&pipeline, PipelinePlace::without_input()?), guest)?;
                let (mut recorded, _) = prepared.record()?;
                prepared.add_counts(&mut recorded, args.counted_runs())?;
                recorded.document.command = super::command_line();
                Ok(recorded)
            }
        }
    }
}

//! The end of a recording, however it was observed: make a document of what was counted.

use crate::collect::samples::SampleNames;
use crate::collect::stacks::FileSymbols;
use crate::collect::user_code::{UserCode, UserFunctions};
use crate::kernel::info::KernelInfo;
use crate::kernel::symbols::Symbols;
use crate::record::model::{self, assemble};
use crate::record::observe::looks::SeenWaits;
use crate::record::observe::observer::AllCounts;
use crate::record::observe::path::PathEnds;
use crate::record::observe::timeline::TimelineRecorder;
use crate::record::observe::traced::StoppedTracing;
use crate::record::say::answer::{RecordedAnswer, answer};
use crate::record::start::described::described;
use crate::record::start::input::KeptInput;
use crate::record::start::launch::{Launcher, MadePipe};
use crate::record::start::running::RunningProcesses;
use crate::record::trials::trial::TrialOptions;
use crate::report::number::time;
use crate::result::{
    Document, Finding, FindingKind, MOST_WAITS, Outcome, PipelineCommand, RecordLevel, SCHEMA, Switches,
};
use crate::util::build;
use crate::util::text::grouped;
use crate::util::warning::{Warning, WarningCode};

/// Names for stacks, as far as they are needed.
#[derive(Debug, Default)]
pub(crate) struct RecordedSymbols {
    pub kernel: Option<Symbols>,
    pub user: Option<UserFunctions>,
}

impl RecordedSymbols {
    pub(crate) fn new(kernel: Option<Symbols>, code: Option<UserCode>) -> Self {
        Self { kernel, user: code.map(|code| code.finish(FileSymbols::with_debug_information())) }
    }
}

/// Measure `pipeline` with and without changes. If that fails, what was recorded is kept.
pub(crate) fn try_out(
    trials: &TrialOptions,
    pipeline: &PipelineCommand,
    input: &KeptInput,
    launcher: &Launcher,
    recording: &mut Document,
) {
    if let Err(error) = trials.run(pipeline, input, launcher, recording) {
        let text = format!("Nothing could be tried: {error:#}.");
        recording.findings.push(Finding::new(FindingKind::Trial, None, text));
    }
}

/// The warning that `--switches` did not store all waits.
fn not_stored(switches: &Switches) -> Option<Warning> {
    (switches.left_out > 0).then(|| Warning {
        code: WarningCode::SwitchesLeftOut,
        message: format!(
            "--switches stored the first {} waits and left out {}: the trace is complete until {}",
            grouped(MOST_WAITS as u64),
            grouped(switches.left_out),
            time(switches.until_ns as f64 / 1e9)
        ),
        action: "record for a shorter time (--duration), or attach when it matters (-p)".to_owned(),
    })
}

/// Add to `recording` what was counted, and the answer. `pipes` are those between the stages, `running` the processes that
/// were found at the start.
pub(crate) fn concluded(
    recording: Document,
    (mut counted, ended, mut path): AllCounts,
    (mut timeline, seen): (TimelineRecorder, Option<SeenWaits>),
    pipes: &[MadePipe],
    running: &RunningProcesses,
    symbols: &RecordedSymbols,
    traced: Option<StoppedTracing>,
) -> Outcome {
    timeline.add(&counted);
    ended.add_to(&mut counted);
    let counted = &counted;
    let samples = path.as_mut().map(|ends| std::mem::take(&mut ends.samples)).unwrap_or_default();
    let switches = path.as_mut().and_then(|ends| ends.switches.take());
    let [begin, _] = assemble::window(counted, path.as_ref().map(PathEnds::span));
    let (recording, index) = described(recording, counted, (path, seen), pipes, running);
    let mut recording = Document {
        schema: SCHEMA.to_owned(),
        version: build::version().to_owned(),
        kernel: KernelInfo::running(),
        timeline: timeline.finish(&index, &recording.channels),
        interrupted_ns: recording.interrupted_ns.map(|at| at.saturating_sub(begin)),
        ..recording
    };
    let switches = switches.map(|switches| switches.named(&index, &recording.channels, begin));
    recording.warnings.extend(switches.as_ref().and_then(not_stored));
    let RecordedAnswer { findings, cautions } = answer(&recording);
    (recording.findings, recording.cautions) = (findings, cautions);
    let stacks = recording.level == RecordLevel::Stacks;
    let mut recorded = Outcome { document: recording, switches, ..Outcome::default() };
    if let Some(kernel) = &symbols.kernel {
        recorded.off_cpu = stacks.then(|| model::off_cpu::folded(counted, kernel));
        let waits = counted.lock_waits.as_ref();
        recorded.document.lock_waits =
            waits.map(|waits| model::locks::by_caller(waits, &counted.sampled.traces, &index, kernel));
        let names = SampleNames::new(&counted.sampled, kernel, symbols.user.as_ref());
        model::sampling::add(&mut recorded, counted, &index, &names, &samples);
    }
    if let Some(traced) = traced {
        traced.add(&mut recorded, &index);
    }
    recorded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_are_not_stored_are_said() {
        let said = |left_out: u64| not_stored(&Switches { left_out, until_ns: 1_500_000_000, ..Switches::default() });
        let text = "--switches stored the first 300,000 waits and left out 12,345: the trace is complete until 1.50 s";
        assert_eq!(said(12_345).map(|warning| warning.message).as_deref(), Some(text));
        assert_eq!(said(0), None);
    }
}

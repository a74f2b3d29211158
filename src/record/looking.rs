//! Record by looks into /proc, where BPF programs may not be used or are not wanted.

use crate::collect::thread_events::ThreadEvents;
use crate::kernel::environment::Environment;
use crate::record::conclude::{RecordedSymbols, concluded, try_out};
use crate::record::observe::looks::Looks;
use crate::record::observe::others::ProgramTimes;
use crate::record::observe::proc::ProcRecorder;
use crate::record::observe::timeline::TimelineRecorder;
use crate::record::observe::user_pages::UserPages;
use crate::record::options::{RecordOptions, nanoseconds};
use crate::record::start;
use crate::record::start::input::KeptInput;
use crate::record::start::launch::{Launcher, MadePipe, PipelineSetup};
use crate::record::start::running::RunningProcesses;
use crate::record::waiting::wait;
use crate::result::{
    Document, MeasuredTarget, Observer, Outcome, PipelineCommand, ProcLooks, RecordLevel, RecordingTarget,
};
use crate::util::progress;
use crate::util::warning::{Warning, WarningCode};
use anyhow::{Result, anyhow, ensure};
use std::time::Duration;

/// Whether these options can be had without BPF programs.
pub(crate) fn is_possible(options: &RecordOptions) -> bool {
    let settings = &options.settings;
    !options.sampled && options.live.is_none() && settings.traced.is_none() && settings.level != RecordLevel::Stacks
}

/// Whether nothing else is wanted.
pub(crate) fn is_wanted(options: &RecordOptions) -> bool {
    options.settings.observer.is_some_and(Observer::only_looks)
}

/// perf's events, unless they were not wanted. Where they are not permitted, looks are enough, unless they were asked for.
fn events<T>(observer: Option<Observer>, open: impl FnOnce() -> Result<T, String>) -> Result<Option<T>> {
    match observer {
        Some(Observer::Proc) => Ok(None),
        Some(Observer::Perf) => Ok(Some(open().map_err(|why| anyhow!("--observe perf: {why}"))?)),
        _ => Ok(open().map_err(|why| progress::detail(|| why)).ok()),
    }
}

/// What is not seen because of `why`: an error of BPF programs.
fn warning(why: &anyhow::Error, seen: ProcLooks) -> Warning {
    let shares = if seen.events.is_none() { ", wake-ups and exact shares" } else { " and wake-ups" };
    let message = format!("calls, bytes{shares} are not recorded");
    Warning { code: WarningCode::LookedOnly, message, action: format!("{why:#}") }
}

/// What happens between the begin and the end of a recording.
struct WhileLooking {
    recorder: ProcRecorder,
    timeline: TimelineRecorder,
    looks: Looks,
    pages: UserPages,
}

impl WhileLooking {
    fn start(recorder: ProcRecorder) -> Self {
        let (timeline, looks, pages) = (TimelineRecorder::start(), Looks::start(), UserPages::default());
        Self { recorder, timeline, looks, pages }
    }

    fn step(&mut self) -> Duration {
        let Self { recorder, timeline, looks, pages } = self;
        recorder.step();
        timeline.step(|| Some(recorder.counts())).iter().for_each(|counts| pages.step(counts, |pid| pid));
        looks.step(recorder);
        recorder.due().min(timeline.due()).min(looks.due())
    }

    fn end(&mut self) {
        self.recorder.end_now();
        self.looks.finish(&mut self.recorder);
    }

    /// `why`: the reason why not by BPF programs, if they were wanted.
    fn conclude(
        self,
        recording: Document,
        why: Option<&anyhow::Error>,
        pipes: &[MadePipe],
        running: &RunningProcesses,
    ) -> Outcome {
        let Self { recorder, timeline, looks, pages } = self;
        let counts = recorder.counts();
        let (path, seen) = recorder.finish();
        let mut recording =
            Document { looks: Some(seen), level: RecordLevel::Sched, user_pipes: pages.found, ..recording };
        recording.warnings.extend(why.map(|why| warning(why, seen)));
        if seen.unreadable > seen.looks / 10 {
            recording.warnings.push(Warning {
                code: WarningCode::SleepsUnreadable,
                message: "what some of the processes sleep for cannot be read: another user's, or one with more rights"
                    .to_owned(),
                action: "record as their user, or as root".to_owned(),
            });
        }
        let counted = (counts, Default::default(), Some(path));
        let symbols = RecordedSymbols { kernel: None, user: None };
        concluded(recording, counted, (timeline, looks.seen), pipes, running, &symbols, None)
    }
}

/// Run `pipeline` and record it. `why`: the reason why not by BPF programs, if they were wanted.
pub(crate) fn record(
    pipeline: &PipelineCommand,
    options: RecordOptions,
    input: Option<KeptInput>,
    why: Option<anyhow::Error>,
) -> Result<Outcome> {
    let environment = Environment::now();
    let RecordOptions { settings, trials, streams, .. } = options;
    let launcher = Launcher::new()?;
    let setup = PipelineSetup { streams, pipe_bytes: settings.pipe_bytes, ..PipelineSetup::default() };
    let used = ProgramTimes::now();
    let mut recorder = ProcRecorder::start(events(settings.observer, ThreadEvents::of_children)?);
    let pipes = launcher.start(pipeline, setup, &mut |_| Ok(()))?;
    recorder.follow(launcher.pids(), false);
    if let Err(error) = start::launch::leave_stdio() {
        launcher.kill();
        return Err(error);
    }
    let mut meanwhile = WhileLooking::start(recorder);
    meanwhile.pages.look_at_new();
    let mut others = None;
    let (ended, ended_by_user) = wait(&launcher, settings.duration, |over| {
        if over {
            others.get_or_insert_with(|| {
                meanwhile.end();
                used.others_since(&meanwhile.recorder.living())
            });
        }
        Some(meanwhile.step())
    })?;
    let others = others.unwrap_or_else(|| used.others_since(&meanwhile.recorder.living()));
    meanwhile.recorder.end_now();
    let recording = Document {
        target: MeasuredTarget::Pipeline(pipeline.clone()),
        environment,
        exit_codes: ended.iter().map(|stage| stage.code).collect(),
        duration_ns: nanoseconds(ended_by_user.or(settings.duration)),
        others,
        ..Document::default()
    };
    let mut recorded = meanwhile.conclude(recording, why.as_ref(), &pipes, &RunningProcesses::default());
    if let Some(input) = input {
        try_out(&trials, pipeline, &input, &launcher, &mut recorded.document);
    }
    Ok(recorded)
}

/// Record processes that are running, and those that they start.
pub(crate) fn record_running(
    wanted: &RecordingTarget,
    options: &RecordOptions,
    why: Option<anyhow::Error>,
) -> Result<Outcome> {
    let environment = Environment::now();
    let duration = options.settings.duration;
    let mut running = RunningProcesses::find(wanted)?;
    let used = ProgramTimes::now();
    let mut recorder = ProcRecorder::start(None);
    recorder.follow(running.pids.iter().copied(), true);
    events(options.settings.observer, || recorder.read_events())?;
    ensure!(!recorder.living().is_empty(), "{}: none of its processes runs any more", running.target().text());
    let mut meanwhile = WhileLooking::start(recorder);
    running.wait(duration, |running| {
        let new = running.newcomers();
        new.iter().for_each(|place| meanwhile.recorder.join(running.pids[*place]));
        Some(meanwhile.step())
    });
    meanwhile.end();
    let others = used.others_since(&meanwhile.recorder.living());
    let recording = Document {
        target: running.target(),
        environment,
        duration_ns: nanoseconds(duration),
        others,
        warnings: running.unknown_pipes(),
        ..Document::default()
    };
    Ok(meanwhile.conclude(recording, why.as_ref(), &[], &running))
}

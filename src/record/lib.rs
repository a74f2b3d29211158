//! `pipeprof record`: run any pipeline, or follow one that is running, and say what its wall time was made of.
//!
//! Arrows go down: [`start`] has what starts a pipeline or finds one, [`observe`] what is seen of it, [`model`] what was seen as
//! data, and [`say`] what people read. [`trials`] measure changes. [`inside`] does so in a guest, where [`count`] counts
//! instructions, [`live`] shows what happens meanwhile, [`kept`] keeps the last time before something happens, and [`contents`] lists the files of a folder.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as record;
pub(crate) use {
    ::arch, ::collect, ::experiment, ::guest, ::kernel, ::process, ::profile, ::report, ::result, ::roles, ::run,
    ::util, ::vm, ::workload,
};

mod all;
mod conclude;
pub mod contents;
pub mod count;
pub mod inside;
mod kept;
mod live;
pub mod model;
mod observe;
mod options;
mod requested;
pub mod say;
mod start;
#[cfg(test)]
mod trace_tests;
pub mod trials;
mod waiting;

pub use crate::record::requested::MeasureRecording;
pub use crate::record::trials::remedy::ApplyRemedy;

pub use crate::record::model::names::process_names;
pub use crate::record::observe::traced::TracingCollector;
use crate::record::options::nanoseconds;
pub use crate::record::options::{RecordOptions, RecordSettings};
pub use crate::record::trials::trial::TrialOptions;
pub use crate::result::Remedy;

use crate::collect::thread_events::ThreadEvents;
use crate::collect::user_code::UserCode;
use crate::kernel::environment::Environment;
use crate::kernel::symbols::Symbols;
use crate::record::conclude::{RecordedSymbols, concluded, try_out};
use crate::record::live::LiveView;
use crate::record::live::output::LivePlace;
use crate::record::observe::looks::Looks;
use crate::record::observe::observer::Observe;
use crate::record::observe::others::ProgramTimes;
use crate::record::observe::proc::ProcRecorder;
use crate::record::observe::recorder::{Excerpts, Recorder};
use crate::record::observe::timeline::TimelineRecorder;
use crate::record::observe::traced::Tracing;
use crate::record::observe::user_pages::{self, UserPages};
use crate::record::options::give_up;
use crate::record::start::input::KeptInput;
pub use crate::record::start::launch::StageStreams;
use crate::record::start::launch::{Launcher, MadePipe, PipelineSetup, leave_stdio};
use crate::record::start::running::RunningProcesses;
use crate::record::waiting::wait;
use crate::result::{
    BusyProgram, Document, MeasuredTarget, Observer, Outcome, PathWhat, PipelineCommand, RecordLevel, RecordingTarget,
    UserPipes,
};
use anyhow::{Context as _, Result};
use std::time::Duration;

/// The findings and cautions of a recording.
#[cfg(any(test, fuzzing, feature = "testing"))]
pub fn answer_of(recording: &Document) -> Vec<String> {
    use crate::record::say::answer::{RecordedAnswer, answer};
    let RecordedAnswer { findings, cautions } = answer(recording);
    findings.into_iter().map(|finding| finding.text).chain(cautions).collect()
}

/// The parts of the critical path in words: `` `gzip` waiting for data in a pipe ``.
pub fn path_names(recording: &Document) -> Vec<String> {
    let labels = crate::record::model::labels::labels(recording);
    let parts = recording.path.iter().flat_map(|path| &path.parts);
    let kinds = parts.map(|part| (part.process, part.what, part.by.clone()));
    kinds.map(|kind| crate::record::say::words::described(recording, &labels, &kind, false)).collect()
}

/// What a thread does, in words.
pub fn state_name(what: PathWhat) -> &'static str {
    say::words::state(what)
}

/// Follow the critical path through the steps that `bytes` mean, and check it.
#[cfg(any(test, fuzzing, feature = "testing"))]
pub fn check_any_steps(bytes: &[u8]) {
    crate::record::observe::path::check_any_steps(bytes);
}

/// Attach what a recording needs, and detach it.
///
/// # Errors
/// Why nothing can be recorded here.
pub fn try_recorder() -> Result<()> {
    Recorder::start(RecordLevel::Calls, false, Excerpts::None, None, true).map(drop)
}

/// Whether perf's events of threads can be had here.
///
/// # Errors
/// Why the kernel refuses them, and what would help.
pub fn try_thread_events() -> Result<(), String> {
    ThreadEvents::of_children(None).map(drop)
}

/// The pipes that this user has open and the limit of their pages, with whether they use it up. `None` without a limit.
pub fn own_pipes() -> Option<(UserPipes, bool)> {
    user_pages::own().map(|user| {
        let used_up = user_pages::is_used_up(&user);
        (user, used_up)
    })
}

/// Run `pipeline` and record it, then measure it with and without changes. Afterwards this process has neither standard
/// input nor standard output.
pub fn record(pipeline: &PipelineCommand, mut options: RecordOptions) -> Result<Outcome> {
    let environment = Environment::now();
    let input = (!options.trials.is_empty()).then(|| KeptInput::keep(trials::trial::READ_ONCE)).transpose()?;
    if let (None, Some(place)) = (&options.streams, &options.live) {
        options.streams = place.streams()?;
    }
    let target = MeasuredTarget::Pipeline(pipeline.clone());
    let mut meanwhile = Meanwhile::start(&options, target, environment, None)?;
    give_up(options.needs_no_rights() && meanwhile.observer.needs_no_rights());
    let RecordOptions { settings, trials, streams, live, drop_rights, .. } = options;

    let launcher = Launcher::new()?;
    let setup = PipelineSetup { streams, pipe_bytes: settings.pipe_bytes, ..PipelineSetup::default() };
    let observer = &mut meanwhile.observer;
    let pipes = launcher.start(pipeline, setup, &mut |stage| observer.launching(Some(stage)))?;
    if let Err(error) = observer.launching(None).and_then(|()| leave_stdio()) {
        launcher.kill();
        return Err(error);
    }
    meanwhile.launched(launcher.pids(), pipes, live);
    let none = RunningProcesses::default();
    let (ended, ended_by_user) = wait(&launcher, settings.duration, |over| {
        if over && meanwhile.others.is_none() {
            // Without an answer of the kernel, the window ends with the recording.
            let _ = meanwhile.end();
            meanwhile.others = Some(meanwhile.programs.others_since(&meanwhile.observer.living()));
        }
        meanwhile.step(&none)
    })?;
    let killed = |signal: i32| ended.iter().any(|stage| i32::from(stage.code) == 128 + signal);
    meanwhile.recording.interrupted_ns = launcher.asked_at(killed);
    meanwhile.recording.exit_codes = ended.iter().map(|stage| stage.code).collect();
    meanwhile.recording.duration_ns = nanoseconds(ended_by_user.or(settings.duration));
    let recorded = meanwhile.conclude(&none);
    let mut recorded = recorded.context("the pipeline has ended, but what was recorded cannot be read")?;
    give_up(drop_rights && !trials.records());
    if let Some(input) = input {
        try_out(&trials, pipeline, &input, &launcher, &mut recorded.document);
    }
    Ok(recorded)
}

/// Record processes that are running, and those at the other ends of their pipes: for the duration of `options`, until an
/// interruption, or until all of `wanted` have ended. They are only watched.
pub(crate) fn record_running(wanted: &RecordingTarget, mut options: RecordOptions) -> Result<Outcome> {
    let environment = Environment::now();
    let mut running = RunningProcesses::find(wanted)?;
    let mut meanwhile = Meanwhile::start(&options, running.target(), environment, Some(&running.pids))?;
    meanwhile.observer.seize(&running)?;
    give_up(options.needs_no_rights() && meanwhile.observer.needs_no_rights());
    meanwhile.live = options.live.take().map(|place| LiveView::start(place, false));
    let duration = options.settings.duration;
    meanwhile.recording.duration_ns = nanoseconds(duration);
    running.wait(duration, |running| {
        let new = running.newcomers();
        meanwhile.observer.join(running, &new);
        meanwhile.step(running)
    });
    meanwhile.end()?;
    meanwhile.observer.read_last()?;
    meanwhile.recording.warnings = running.unknown_pipes();
    meanwhile.conclude(&running)
}

/// BPF programs, unless the user wants something else, or they are refused and looks are enough.
fn observer(options: &RecordOptions, running: bool) -> Result<Box<dyn Observe>> {
    let RecordOptions { settings, sampled, live, .. } = options;
    let RecordSettings { duration, level, observer, traced, switches, .. } = settings;
    let needs_programs = *sampled || *switches || live.is_some() || traced.is_some() || *level == RecordLevel::Stacks;
    let excerpts = if live.is_some() { Excerpts::Live } else { Excerpts::None };
    let programs = || {
        let mut recorder = Recorder::start(*level, *sampled, excerpts, *duration, running)?;
        if *switches {
            recorder.keep_switches();
        }
        anyhow::Ok(recorder)
    };
    let refused = match observer {
        Some(Observer::Perf | Observer::Proc) => None,
        Some(Observer::Bpf) | None => match programs() {
            Ok(recorder) => return Ok(Box::new(recorder)),
            Err(error) if observer.is_some() || needs_programs => return Err(error),
            Err(error) => Some(error),
        },
    };
    Ok(Box::new(ProcRecorder::start(*observer, refused, running)?))
}

/// What is done while processes are observed.
struct Meanwhile {
    observer: Box<dyn Observe>,
    /// What is known of it.
    recording: Document,
    /// Those between the stages.
    pipes: Vec<MadePipe>,
    timeline: TimelineRecorder,
    looks: Looks,
    pages: UserPages,
    programs: ProgramTimes,
    /// Once the window is over.
    others: Option<Vec<BusyProgram>>,
    kernel: Option<Symbols>,
    code: Option<UserCode>,
    tracing: Option<Tracing>,
    live: Option<LiveView>,
}

impl Meanwhile {
    /// `running`: the processes, if they run already.
    fn start(
        options: &RecordOptions,
        target: MeasuredTarget,
        environment: Environment,
        running: Option<&[u32]>,
    ) -> Result<Self> {
        let RecordSettings { level, traced, .. } = &options.settings;
        // Read first, so that nothing is lost if that is impossible.
        let needs_names = options.sampled || *level == RecordLevel::Stacks;
        let kernel = needs_names.then(Symbols::running).transpose()?;
        let observer = observer(options, running.is_some())?;
        let pids = running.unwrap_or_default();
        let tracing = traced.as_ref().map(|wanted| Tracing::start(wanted, pids)).transpose()?;
        Ok(Self {
            observer,
            recording: Document { target, environment, level: *level, ..Document::default() },
            pipes: Vec::new(),
            timeline: TimelineRecorder::start(),
            looks: Looks::start(),
            pages: UserPages::default(),
            programs: ProgramTimes::now(),
            others: None,
            kernel,
            code: options.sampled.then(|| UserCode::follow(pids.iter().copied())),
            tracing,
            live: None,
        })
    }

    /// The stages have been started.
    fn launched(&mut self, pids: Vec<u32>, pipes: Vec<MadePipe>, live: Option<LivePlace>) {
        self.observer.launched(pids, &pipes);
        self.tracing.iter().for_each(Tracing::started);
        self.pages.look_at_new();
        self.live = live.map(|place| LiveView::start(place, true));
        self.pipes = pipes;
    }

    /// Read what has happened, and show it. Returns when to do it again; `None` if the user wants it to end.
    fn step(&mut self, running: &RunningProcesses) -> Option<Duration> {
        let Self { observer, recording, pipes, timeline, looks, pages, code, live, .. } = self;
        let due = observer.step(&mut |ended, groups| {
            live.iter_mut().for_each(|live| live.end(ended));
            timeline.end(ended, groups);
        });
        let read = timeline.step(|| observer.counts());
        read.iter().for_each(|counts| pages.step(counts, |tgid| observer.id_here(tgid)));
        looks.step(&**observer);
        let mut due = due.min(timeline.due()).min(looks.due());
        due = due.min(code.as_mut().map_or(Duration::MAX, UserCode::step));
        if let Some(live) = live {
            live.step(&mut **observer, recording, pipes, running);
            due = due.min(live.due());
        }
        (!live.as_ref().is_some_and(LiveView::is_left)).then_some(due)
    }

    /// The window ends now.
    fn end(&mut self) -> Result<()> {
        let ended = self.observer.end_now();
        self.looks.finish(&mut *self.observer);
        ended
    }

    fn conclude(self, running: &RunningProcesses) -> Result<Outcome> {
        let Self { observer, recording, pipes, timeline, looks, pages, programs, others, .. } = self;
        drop(self.live);
        let others = others.unwrap_or_else(|| programs.others_since(&observer.living()));
        let mut recording = Document { others, user_pipes: pages.found, ..recording };
        let traced = self.tracing.map(Tracing::stop);
        let counted = observer.finish(&mut recording)?;
        let symbols = RecordedSymbols::new(self.kernel, self.code);
        Ok(concluded(recording, counted, (timeline, looks.seen), &pipes, running, &symbols, traced))
    }
}

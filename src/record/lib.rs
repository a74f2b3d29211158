//! `pipeprof record`: run any pipeline, or follow one that is running, and say what its wall time was made of.
//!
//! Arrows go down: [`start`] has what starts a pipeline or finds one, [`observe`] what is seen of it, [`model`] what was seen as
//! data, and [`say`] what people read. [`trials`] measure changes. [`inside`] does so in a guest, where [`count`] counts
//! instructions, [`live`] shows what happens meanwhile, [`kept`] keeps the last time before something happens, [`looking`] records without rights, and [`contents`] lists the files
//! of a folder.

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
mod looking;
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
use crate::record::observe::looks::Looks;
use crate::record::observe::others::ProgramTimes;
use crate::record::observe::recorder::{self, Excerpts};
use crate::record::observe::timeline::TimelineRecorder;
use crate::record::observe::traced::Tracing;
use crate::record::observe::user_pages::{self, UserPages};
use crate::record::start::input::KeptInput;
pub use crate::record::start::launch::StageStreams;
use crate::record::start::launch::{Launcher, MadePipe, PipelineSetup};
use crate::record::start::running::RunningProcesses;
use crate::record::waiting::wait;
use crate::result::{Document, MeasuredTarget, Outcome, PipelineCommand, RecordLevel, RecordingTarget, UserPipes};
use crate::util::{privileges, progress};
use anyhow::{Context as _, Result, bail};
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
    recorder::Recorder::start(RecordLevel::Calls, false, Excerpts::None, None, true).map(drop)
}

/// Whether perf's events of threads can be had here.
///
/// # Errors
/// Why the kernel refuses them, and what would help.
pub fn try_thread_events() -> Result<(), String> {
    ThreadEvents::of_children().map(drop)
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
pub fn record(pipeline: &PipelineCommand, options: RecordOptions) -> Result<Outcome> {
    let environment = Environment::now();
    let input = (!options.trials.is_empty()).then(|| KeptInput::keep(trials::trial::READ_ONCE)).transpose()?;
    if looking::is_wanted(&options) {
        return looking::record(pipeline, options, input, None);
    }
    let (kernel, mut recorder) = match start_recorder(&options, false) {
        Ok(started) => started,
        Err(error) if options.settings.observer.is_none() && looking::is_possible(&options) => {
            return looking::record(pipeline, options, input, Some(error));
        }
        Err(error) => return Err(error),
    };
    let RecordOptions { settings, trials, streams, sampled, live, drop_rights } = options;
    let RecordSettings { duration, level, pipe_bytes, traced, .. } = settings;
    let streams = match &live {
        Some(place) if streams.is_none() => place.streams()?,
        _ => streams,
    };
    let code = sampled.then(|| UserCode::follow([]));
    let tracing = traced.as_ref().map(|wanted| Tracing::start(wanted, &[])).transpose()?;
    // Detaching, and recording again, need them.
    give_up(drop_rights && tracing.is_none() && !trials.records());
    let launcher = Launcher::new()?;
    let setup = PipelineSetup { streams, pipe_bytes, ..PipelineSetup::default() };
    let used = ProgramTimes::now();
    let pipes = launcher.start(pipeline, setup, &mut |stage| recorder.launching(Some(stage)))?;
    if let Err(error) = recorder.launching(None).and_then(|()| start::launch::leave_stdio()) {
        launcher.kill();
        return Err(error);
    }
    tracing.iter().for_each(Tracing::started);
    let made = pipes.iter().map(|pipe| (pipe.inode, pipe.device)).zip(0..);
    recorder.know_ends(made.flat_map(|(pipe, stage)| [(pipe, true, stage), (pipe, false, stage + 1)]));
    let target = MeasuredTarget::Pipeline(pipeline.clone());
    let recording = Document { target, environment, level, ..Document::default() };
    let running = RunningProcesses::default();
    let live = live.map(|place| LiveView::start(place, true));
    let mut meanwhile = Meanwhile::start(code, live);
    let mut others = None;
    let (ended, ended_by_user) = wait(&launcher, duration, |over| {
        // Without an answer of the kernel, the window ends with the recording.
        if over {
            let _ = recorder.end_now();
            others.get_or_insert_with(|| {
                meanwhile.looks.finish(&mut recorder);
                used.others_since(&recorder.living())
            });
        }
        meanwhile.step(&mut recorder, &recording, &pipes, &running)
    })?;
    let Meanwhile { timeline, looks, code, live, pages } = meanwhile;
    drop(live);
    let others = others.unwrap_or_else(|| used.others_since(&recorder.living()));
    let tracing = tracing.map(Tracing::stop);
    let counted = recorder.finish(None).context("the pipeline has ended, but what was recorded cannot be read")?;
    let symbols = RecordedSymbols::new(kernel, code);
    let recording = Document {
        exit_codes: ended.iter().map(|stage| stage.code).collect(),
        duration_ns: nanoseconds(ended_by_user.or(duration)),
        others,
        user_pipes: pages.found,
        ..recording
    };
    let was_traced = tracing.is_some();
    let mut recorded = concluded(recording, counted, (timeline, looks.seen), &pipes, &running, &symbols, tracing);
    give_up(drop_rights && was_traced && !trials.records());
    if let Some(input) = input {
        try_out(&trials, pipeline, &input, &launcher, &mut recorded.document);
    }
    Ok(recorded)
}

/// The kernel's symbols, as far as they are needed, and the attached programs. `running`: for processes that run already.
fn start_recorder(options: &RecordOptions, running: bool) -> Result<(Option<Symbols>, recorder::Recorder)> {
    let RecordOptions { settings, sampled, live, .. } = options;
    let kernel = symbols(settings.level, *sampled)?;
    let excerpts = if live.is_some() { Excerpts::Live } else { Excerpts::None };
    Ok((kernel, recorder::Recorder::start(settings.level, *sampled, excerpts, settings.duration, running)?))
}

fn give_up(rights: bool) {
    if rights && !privileges::drop_attaching() {
        progress::detail(|| "rights that are no longer needed cannot be given up here".to_owned());
    }
}

/// What is done while a pipeline is recorded.
struct Meanwhile {
    timeline: TimelineRecorder,
    looks: Looks,
    code: Option<UserCode>,
    live: Option<LiveView>,
    pages: UserPages,
}

impl Meanwhile {
    fn start(code: Option<UserCode>, live: Option<LiveView>) -> Self {
        let (timeline, looks, pages) = (TimelineRecorder::start(), Looks::start(), UserPages::default());
        Self { timeline, looks, code, live, pages }
    }

    /// Read what has happened, and show it. Returns when to do it again; `None` if the user wants it to end.
    fn step(
        &mut self,
        recorder: &mut recorder::Recorder,
        recording: &Document,
        pipes: &[MadePipe],
        running: &RunningProcesses,
    ) -> Option<Duration> {
        let Self { timeline, looks, code, live, pages } = self;
        // Without an answer of the kernel, what has no room any more is counted as lost.
        if let Ok(Some((ended, groups))) = recorder.make_room() {
            live.iter_mut().for_each(|live| live.end(&ended));
            timeline.end(&ended, groups);
        }
        let more = recorder.step();
        timeline
            .step(|| recorder.read().ok())
            .iter()
            .for_each(|counts| pages.step(counts, |tgid| recorder.id_here(tgid)));
        looks.step(recorder);
        let mut due = if more { Duration::ZERO } else { timeline.due().min(looks.due()).min(recorder::ROOM_EVERY) };
        due = due.min(code.as_mut().map_or(Duration::MAX, UserCode::step));
        if let Some(live) = live {
            live.step(recorder, recording, pipes, running);
            due = due.min(live.due());
        }
        (!live.as_ref().is_some_and(LiveView::is_left)).then_some(due)
    }
}

/// Record processes that are running, and those at the other ends of their pipes: for the duration of `options`, until an
/// interruption, or until all of `wanted` have ended. They are only watched.
pub(crate) fn record_running(wanted: &RecordingTarget, mut options: RecordOptions) -> Result<Outcome> {
    let RecordOptions { sampled, drop_rights, .. } = options;
    let RecordSettings { duration, level, observer, .. } = options.settings;
    if looking::is_wanted(&options) {
        return looking::record_running(wanted, &options, None);
    }
    let environment = Environment::now();
    let mut running = RunningProcesses::find(wanted)?;
    let (kernel, mut recorder) = match start_recorder(&options, true) {
        Ok(started) => started,
        Err(error) if observer.is_none() && looking::is_possible(&options) => {
            return looking::record_running(wanted, &options, Some(error));
        }
        Err(error) => return Err(error),
    };
    let code = sampled.then(|| UserCode::follow(running.pids.iter().copied()));
    let traced = options.settings.traced.as_ref();
    let tracing = traced.map(|wanted| Tracing::start(wanted, &running.pids)).transpose()?;
    seize(&mut recorder, &running)?;
    give_up(drop_rights && tracing.is_none());
    let used = ProgramTimes::now();
    let target = running.target();
    let recording = Document { target, environment, level, duration_ns: nanoseconds(duration), ..Document::default() };
    let live = options.live.take().map(|place| LiveView::start(place, false));
    let mut meanwhile = Meanwhile::start(code, live);
    running.wait(duration, |running| {
        join(&mut recorder, running);
        meanwhile.step(&mut recorder, &recording, &[], running)
    });
    recorder.end_now()?;
    let Meanwhile { timeline, mut looks, code, live, pages } = meanwhile;
    looks.finish(&mut recorder);
    let last = recorder.read_last()?;
    drop(live);
    let others = used.others_since(&recorder.living());
    let tracing = tracing.map(Tracing::stop);
    let counted = recorder.finish(Some(last))?;
    let symbols = RecordedSymbols::new(kernel, code);
    let recording = Document { warnings: running.unknown_pipes(), others, user_pipes: pages.found, ..recording };
    Ok(concluded(recording, counted, (timeline, looks.seen), &[], &running, &symbols, tracing))
}

/// Follow the processes that were found.
fn seize(recorder: &mut recorder::Recorder, running: &RunningProcesses) -> Result<()> {
    let seized = recorder.seize(running.pids.iter().copied().zip(0..))?;
    let unseen = (0..).zip(running.asked()).find(|(stage, _)| !seized.contains(stage));
    match (unseen, &running.group) {
        (Some((_, pid)), None) => bail!(
            "-p {pid}: nothing of it can be recorded: it has just ended, or the kernel does not show it to BPF programs"
        ),
        // Of many, some may have just ended.
        (Some(_), Some(_)) if seized.is_empty() => {
            bail!("nothing of {} can be recorded: its processes have just ended", running.target().text())
        }
        _ => {}
    }
    recorder.know_ends(running.known_ends(&(0..running.pids.len()).collect::<Vec<_>>()));
    Ok(())
}

/// Follow the processes that have come into a cgroup.
fn join(recorder: &mut recorder::Recorder, running: &mut RunningProcesses) {
    let new = running.newcomers();
    // Without an answer of the kernel, they are not recorded.
    let _ = recorder.join(&running.pids, &new);
    recorder.know_ends(running.known_ends(&new));
}

/// The kernel's symbols, if they will be needed. They are read first, so that nothing is lost if that is impossible.
fn symbols(level: RecordLevel, sampled: bool) -> Result<Option<Symbols>> {
    let needed = sampled || level == RecordLevel::Stacks;
    Ok(needed.then(Symbols::running).transpose()?)
}

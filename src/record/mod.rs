//! `pipeprof record`: run any pipeline, or follow one that is running, and find which stage limits it and why.
//!
//! [`launch`] starts the stages, or [`running`] finds them; [`collect`] counts what they do by BPF programs,
//! [`assemble`] names what was counted, [`answer`] draws the conclusion, [`trial`] measures what a [`remedy`] would help,
//! and [`text`] prints it. [`model`] is the form of `record.json`.

mod answer;
mod assemble;
mod collect;
mod launch;
pub mod model;
pub(crate) mod pipeline;
mod raw;
mod remedy;
mod running;
mod stages;
pub(crate) mod text;
mod timeline;
pub(crate) mod timeline_svg;
pub(crate) mod trial;

pub use model::Recording;
pub use pipeline::PipelineCommand;
pub(crate) use remedy::Remedy;
pub(crate) use trial::TrialOptions;

use crate::kernel::environment::Environment;
use crate::kernel::info::KernelInfo;
use crate::util::build;
use crate::util::warning::Warning;
use anyhow::{Context as _, Result};
use launch::{Launcher, PipelineSetup};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use timeline::TimelineRecorder;
use trial::TrialInput;

/// The name of the document in its folder.
pub(crate) const RECORD_FILE: &str = "record.json";

/// Run `pipeline` and record it, then measure it with and without changes. Afterwards this process has neither standard
/// input nor standard output.
///
/// # Errors
/// When recording is not possible, or a program cannot be started.
pub(crate) fn record(pipeline: &PipelineCommand, trials: &TrialOptions) -> Result<Recording> {
    let environment = Environment::now();
    let input = (!trials.is_empty()).then(TrialInput::keep).transpose()?;
    let mut recorder = collect::Recorder::start()?;
    let launcher = Launcher::new()?;
    let pipes = launcher.start(pipeline, PipelineSetup::default(), &mut |stage| recorder.launching(Some(stage)))?;
    if let Err(error) = recorder.launching(None).and_then(|()| launch::leave_stdio()) {
        launcher.kill();
        return Err(error);
    }
    let mut timeline = TimelineRecorder::start();
    let statuses = std::thread::scope(|scope| {
        let (ended, ends) = std::sync::mpsc::channel::<()>();
        let waiting = scope.spawn(|| {
            let statuses = launcher.wait();
            drop(ended);
            statuses
        });
        while ends.recv_timeout(timeline.due()) == Err(RecvTimeoutError::Timeout) {
            timeline.step(&recorder);
        }
        waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let counted = recorder.finish().context("the pipeline has ended, but what was recorded cannot be read")?;
    let recording = Recording {
        pipeline: pipeline.clone(),
        exit_codes: statuses.into_iter().map(launch::exit_code).collect(),
        environment,
        ..Recording::default()
    };
    let mut recording = concluded(recording, &counted, timeline, &pipes, &[]);
    if let Some(input) = input {
        // What was recorded is kept.
        if let Err(error) = trials.run(pipeline, &input, &launcher, &mut recording) {
            recording.findings.push(format!("Nothing could be tried: {error:#}."));
        }
    }
    Ok(recording)
}

/// Record processes that are running, and those at the other ends of their pipes: for `duration`, until an interruption,
/// or until all of `pids` have ended. They are only watched.
///
/// # Errors
/// When recording is not possible, or one of the processes does not exist.
pub(crate) fn record_running(pids: &[u32], duration: Option<Duration>) -> Result<Recording> {
    let environment = Environment::now();
    let running = running::RunningProcesses::find(pids)?;
    let mut recorder = collect::Recorder::start()?;
    recorder.seize(running.pids.iter().copied().zip(0..))?;
    let mut timeline = TimelineRecorder::start();
    running.wait(duration, &mut timeline, &recorder);
    let counted = recorder.finish()?;
    let unknown = |(pid, why): &(u32, String)| Warning {
        code: "pipes-unknown".to_owned(),
        message: format!(
            "the pipes of process {pid} cannot be read ({why}), so the processes at their other ends are not known"
        ),
        action: "record as root, or name these processes with -p as well".to_owned(),
    };
    let recording = Recording {
        pids: pids.to_vec(),
        environment,
        warnings: running.unknown.iter().map(unknown).collect(),
        ..Recording::default()
    };
    Ok(concluded(recording, &counted, timeline, &[], &running.ends))
}

/// Add to `recording` what was counted, and the answer. `pipes` are those between the stages, `open` the ends of pipes
/// that were open at the start.
fn concluded(
    recording: Recording,
    counted: &collect::RecordedCounts,
    mut timeline: TimelineRecorder,
    pipes: &[launch::MadePipe],
    open: &[running::OpenEnd],
) -> Recording {
    timeline.add(counted);
    let assembled = assemble::assemble(counted, pipes, open);
    let mut recording = Recording {
        schema: model::RECORDING_SCHEMA.to_owned(),
        version: build::version().to_owned(),
        window_ns: assembled.window_ns,
        kernel: KernelInfo::running(),
        timeline: timeline.finish(&assembled.index, &assembled.pipes),
        processes: assembled.processes,
        pipes: assembled.pipes,
        skipped: counted.skipped,
        unseen_switches: counted.state.map_or(0, |state| state.unseen),
        warnings: recording.warnings.into_iter().chain(assembled.warnings).collect(),
        ..recording
    };
    let answer = answer::answer(&recording);
    recording.findings = answer.findings;
    recording.cautions = answer.cautions;
    recording
}

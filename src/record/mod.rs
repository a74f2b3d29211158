//! `pipeprof record`: run any pipeline, and find which stage limits it and why.
//!
//! [`launch`] starts the stages, [`collect`] counts what they do by BPF programs, [`assemble`] names what was counted,
//! [`answer`] draws the conclusion, and [`text`] prints it. [`model`] is the form of `record.json`.

mod answer;
mod assemble;
mod collect;
mod launch;
pub mod model;
pub(crate) mod pipeline;
mod raw;
mod stages;
pub(crate) mod text;

pub use model::Recording;
pub use pipeline::PipelineCommand;

use crate::kernel::environment::Environment;
use crate::kernel::info::KernelInfo;
use crate::util::build;
use anyhow::{Context as _, Result};

/// The name of the document in its folder.
pub(crate) const RECORD_FILE: &str = "record.json";

/// Run `pipeline` and record it. Afterwards this process has neither standard input nor standard output.
///
/// # Errors
/// When recording is not possible, or a program cannot be started.
pub(crate) fn record(pipeline: &PipelineCommand) -> Result<Recording> {
    let environment = Environment::now();
    let mut recorder = collect::Recorder::start()?;
    let stages = launch::start(pipeline, &mut recorder)?;
    let pipes = stages.pipes.clone();
    let statuses = stages.wait()?;
    let counted = recorder.finish().context("the pipeline has ended, but what was recorded cannot be read")?;
    let assembled = assemble::assemble(&counted, &pipes);
    let mut recording = Recording {
        schema: model::RECORDING_SCHEMA.to_owned(),
        version: build::version().to_owned(),
        pipeline: pipeline.clone(),
        exit_codes: statuses.into_iter().map(launch::exit_code).collect(),
        window_ns: assembled.window_ns,
        kernel: KernelInfo::running(),
        environment,
        processes: assembled.processes,
        pipes: assembled.pipes,
        skipped: counted.skipped,
        unseen_switches: counted.state.map_or(0, |state| state.unseen),
        warnings: assembled.warnings,
        ..Recording::default()
    };
    let answer = answer::answer(&recording);
    recording.findings = answer.findings;
    recording.cautions = answer.cautions;
    Ok(recording)
}

//! `pipeprof record`: run a pipeline and find which of its stages limits it, and why.

use crate::record::{self, PipelineCommand, RECORD_FILE, Recording};
use crate::report::files::Folder;
use crate::report::terminal::Style;
use crate::util::progress;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit code of shells for a program that does not exist.
const NOT_FOUND: u8 = 127;

/// Run a pipeline and find which of its stages limits it, and why
///
/// One word is run by `sh -c`; several words are run directly, with a literal '|' between stages:
///
///   pipeprof record -- 'xz -dc a.xz | tar -t'
///   pipeprof record -- xz -dc a.xz '|' tar -t
///
/// Standard input and output, signals and the exit code are those of the pipeline. The report goes to standard error.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RecordArgs {
    /// The pipeline
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Output folder [default: runs/TIME-record]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
}

impl RecordArgs {
    /// # Errors
    /// One line that names the flag or file and the way out. Nothing has run then, unless the line says so.
    pub(super) fn run(self) -> Result<ExitCode> {
        let pipeline = PipelineCommand::parse(&self.command)?;
        if let Some(program) = pipeline.missing() {
            progress::problem(&format!("cannot find the program {program}: nothing was run"));
            return Ok(ExitCode::from(NOT_FOUND));
        }
        let started = super::now();
        let folder = Folder::prepare(self.output.as_deref(), &started, "record")?;
        let recording = record::record(&pipeline)?;
        let recording = Recording { started, command: super::command_line(), ..recording };
        let mut json = serde_json::to_string_pretty(&recording).context("cannot write the recording as JSON")?;
        json.push('\n');
        folder.put(RECORD_FILE, json.as_bytes())?;
        let folder = folder.settle()?;
        eprint!("{}", record::text::render(&recording, Some(&folder), Style::of_stderr()));
        Ok(ExitCode::from(recording.exit_codes.last().copied().unwrap_or(0)))
    }
}

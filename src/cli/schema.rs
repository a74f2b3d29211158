//! `pipeprof schema`: the JSON Schema of `run.json`.

use anyhow::{Context as _, Result};
use std::io::Write as _;
use std::process::ExitCode;

/// Print the JSON Schema of run.json, as in docs/run.schema.json
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    /// Print it.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn run(&self) -> Result<ExitCode> {
        let text = crate::document::json_schema()?;
        std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")?;
        Ok(ExitCode::SUCCESS)
    }
}

//! `pipeprof schema`: the JSON Schema of `run.json`.

use anyhow::Result;
use std::process::ExitCode;

/// Print the JSON Schema of run.json
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {}

impl SchemaArgs {
    /// Print it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn run(&self) -> Result<ExitCode> {
        crate::out!("{}", crate::document::json_schema()?);
        Ok(ExitCode::SUCCESS)
    }
}

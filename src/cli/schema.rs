//! `pipeprof schema`: the JSON Schema of `result.json`.

use anyhow::Result;
use std::process::ExitCode;

/// Print the JSON Schema of result.json
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {}

impl SchemaArgs {
    /// Print it.
    #[expect(clippy::unused_self, reason = "as of every subcommand")]
    pub(super) fn run(&self) -> Result<ExitCode> {
        util::out!("{}", crate::result::JSON_SCHEMA);
        Ok(ExitCode::SUCCESS)
    }
}

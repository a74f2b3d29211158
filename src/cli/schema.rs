//! `pipeprof schema`: the JSON Schema of `result.json`.

use anyhow::Result;
use clap::ValueEnum;
use std::process::ExitCode;

/// Print the JSON Schema of result.json
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// The document of `pipeprof run`, or of `pipeprof record`
    #[arg(value_enum, default_value_t)]
    of: SchemaOf,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum SchemaOf {
    #[default]
    Run,
    Record,
}

impl SchemaArgs {
    /// Print it.
    pub(super) fn run(&self) -> Result<ExitCode> {
        let schema = match self.of {
            SchemaOf::Run => crate::result::json_schema()?,
            SchemaOf::Record => crate::record::model::json_schema()?,
        };
        crate::out!("{schema}");
        Ok(ExitCode::SUCCESS)
    }
}

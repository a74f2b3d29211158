//! `pipeprof annotate`: a function's instructions as they were executed, with the count of each.

use crate::profile::Side;
use crate::report::{annotate, files};
use crate::roles;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show a function's instructions as they were executed, with the count of each.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder that `pipeprof run --collect insn` wrote
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// A function of the kernel, such as pipe_write, or of pipeprof; with or without a compiler's suffix
    #[arg(value_name = "FUNCTION")]
    function: String,
    /// Count this side's executions only
    #[arg(long, value_enum)]
    side: Option<Whose>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Whose {
    Writer,
    Reader,
    Other,
}

impl Args {
    /// # Errors
    /// When the run has no code, or did not execute the function: then what it did execute that is called alike.
    pub fn run(self) -> Result<ExitCode> {
        let document = files::load_document(&self.run)?;
        let code = files::load_code(&self.run)?;
        let side = self.side.map(|side| match side {
            Whose::Writer => Side::Writer,
            Whose::Reader => Side::Reader,
            Whose::Other => Side::Other,
        });
        let wanted = self.function.as_str();
        let is = |name: &str| name == wanted || roles::base_name(name) == wanted;
        let mut found: Vec<_> = code.functions.iter().filter(|function| is(&function.name)).collect();
        if found.is_empty() {
            // By what the function is called on other kernels.
            let canonical = roles::canonical(wanted);
            found = code.functions.iter().filter(|function| roles::canonical(&function.name) == canonical).collect();
        }
        if found.is_empty() {
            let mut alike: Vec<&str> = code.functions.iter().map(|function| function.name.as_str()).collect();
            alike.retain(|name| name.contains(wanted));
            alike.dedup();
            alike.truncate(8);
            let alike = if alike.is_empty() { String::new() } else { format!("; alike: {}", alike.join(", ")) };
            bail!("'{wanted}' was not executed in {}{alike}", self.run.display());
        }
        let mut text = String::new();
        for function in found {
            text.push_str(&annotate::render(function, &code, &document.kernel.release, side));
        }
        crate::out!("{text}");
        Ok(ExitCode::SUCCESS)
    }
}

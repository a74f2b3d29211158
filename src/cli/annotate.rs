//! `pipeprof annotate`: show the executed instructions of a function, with counts.

use crate::collect::insn::source_lines;
use crate::profile::{ProcessName, listed};
use crate::report::annotate;
use crate::result;
use crate::result::code::SourceLines;
use crate::roles;
use crate::util::progress;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the executed instructions of a function, with their counts
#[derive(Debug, clap::Args)]
pub(crate) struct AnnotateArgs {
    /// A folder written by `pipeprof run --collect insn` or `pipeprof record --collect insn`
    #[arg(value_name = "DIR")]
    run: PathBuf,
    /// Function of the kernel or of a program, such as pipe_write; compiler suffixes are optional
    #[arg(value_name = "FUNCTION")]
    function: String,
    /// Count the executions of one process only: writer, reader or other; in a recording a stage, such as stage1-dd
    /// [default: all]
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
}

impl AnnotateArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let (document, code) = (result::open_document(&self.run)?, result::open_code(&self.run)?);
        let process = self.process.as_deref().map(ProcessName::new);
        if let Some(process) = process.filter(|process| !code.processes.contains(process)) {
            bail!("--process {process}: unknown process; known: {}", listed(code.processes.iter().copied()));
        }
        let wanted = self.function.as_str();
        let is = |name: &str| name == wanted || roles::base_name(name) == wanted;
        let mut found: Vec<_> = code.functions.iter().filter(|function| is(&function.name)).collect();
        if found.is_empty() {
            // The name may be another kernel's.
            let canonical = roles::canonical(wanted);
            found = code.functions.iter().filter(|function| roles::canonical(&function.name) == canonical).collect();
        }
        if found.is_empty() {
            let mut alike: Vec<&str> = code.functions.iter().map(|function| function.name.as_str()).collect();
            alike.retain(|name| name.contains(wanted));
            alike.dedup();
            alike.truncate(8);
            let alike = if alike.is_empty() { String::new() } else { format!("; similar names: {}", alike.join(", ")) };
            bail!("{}: function '{wanted}' was not executed{alike}", self.run.display());
        }
        let mut text = String::new();
        for function in found {
            let lines = source_lines::of(function, &code).unwrap_or_else(|error| {
                progress::note(&format!("no source lines: {error:#}"));
                SourceLines::default()
            });
            text.push_str(&annotate::render(function, &code, &document.kernel.release, process, &lines));
        }
        util::out!("{text}");
        Ok(ExitCode::SUCCESS)
    }
}

//! `pipeprof history`: a series of kernels as a page.

use crate::campaign::CellStore;
use crate::history::{self, render};
use crate::studies::sources::SourceSettings;
use crate::util::text::clean;
use crate::util::{cancel, progress};
use crate::vm::compile::CompilerName;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what each role took on a series of kernels, and where it changed
///
/// Reads the store of a campaign (`pipeprof matrix`). Writes a page with charts, and next to it the same as Markdown,
/// JSON and CSV, and a comparison of the two kernels of each step.
#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    /// Store of `pipeprof matrix run` or `pipeprof matrix merge`
    #[arg(value_name = "STORE")]
    store: PathBuf,
    /// File with the order of the kernels, oldest first: a label, a release or a commit at the beginning of each line, as
    /// `git log --reverse --oneline` prints them [default: by release]
    #[arg(long, value_name = "FILE")]
    order: Option<PathBuf>,
    /// File for the page
    #[arg(short, long, value_name = "FILE", default_value = "history.html")]
    output: PathBuf,
    /// Also build the source of each kernel with one configuration and one compiler, count it, and add it as `source alone`
    #[arg(long)]
    causes: bool,
    /// Configuration for --causes: a file, or a kernel of `pipeprof kernel list` [default: that of the newest kernel]
    #[arg(long, value_name = "FILE|KERNEL", requires = "causes")]
    config: Option<String>,
    /// Compiler for --causes, as of `pipeprof kernel build` [default: that of the oldest kernel]
    #[arg(long, value_name = "COMPILER", requires = "causes")]
    cc: Option<CompilerName>,
    /// Write no comparisons of the two kernels of each step
    #[arg(long)]
    no_comparisons: bool,
}

impl HistoryArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let store = CellStore::open(&self.store)?;
        let mut history = history::read::read(&store, self.order.as_deref(), super::command_line())?;
        if self.causes {
            SourceSettings { config: self.config, cc: self.cc }.add(&mut history, &store)?;
        }
        let compared = (!self.no_comparisons).then_some(&store);
        let written = render::write(&history, compared, &self.output)?;
        util::out!("{}", render::sentences::terminal(&history));
        let names: Vec<String> = written.iter().map(|path| clean(&path.display().to_string())).collect();
        progress::note(&format!("written: {}", names.join(", ")));
        Ok(ExitCode::SUCCESS)
    }
}

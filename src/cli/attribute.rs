//! `pipeprof attribute`: roles for profiles that other tools took.

use crate::import;
use crate::record::{self, contents};
use crate::report::files::{self, Folder};
use crate::report::terminal::Style;
use crate::roles::Skid;
use crate::util::streams::write_styled;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the roles of a profile that another tool took, such as perf
///
/// Reads the output of `perf script`, folded stacks, and profiles of pprof. Shows the roles of each command, with 95 %
/// intervals, and draws flame graphs by role. The folder is that of `pipeprof record`: `compare`, `flamegraph` and
/// `export` take it.
#[derive(Debug, clap::Args)]
pub(crate) struct AttributeArgs {
    /// Output of `perf script`, folded stacks with the command as first frame, or a compressed profile.proto (pprof)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Event to read, if perf recorded several [default: cycles, or else cpu-clock, or the one with most samples]; of pprof
    /// the kind of values [default: samples]
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Which function gets the samples that were due while interrupts were off
    #[arg(long, value_enum, default_value = "auto")]
    skid: SkidRule,
    /// Folder for the results [default: runs/TIME-attribute]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print result.json on stdout instead of the tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SkidRule {
    /// As for the event: cpu-clock for cpu-clock and task-clock, otherwise none
    Auto,
    /// The caller that had interrupts off: a clock takes its samples when they come back on
    CpuClock,
    /// The function in which they were taken
    None,
}

impl AttributeArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let started = super::now();
        let imported = import::read(&self.file, self.event.as_deref())?;
        let skid = match self.skid {
            SkidRule::Auto => imported.skid(),
            SkidRule::CpuClock => Skid::CpuClock,
            SkidRule::None => Skid::None,
        };
        let folder = Folder::prepare(self.output.as_deref(), &started, "attribute")?;
        let mut outcome = import::recording::outcome(&imported, &self.file.display().to_string(), skid);
        (outcome.document.started, outcome.document.command) = (started, super::command_line());
        let kept = folder.keep(&contents::files(&mut outcome, Vec::new())?);
        let document = outcome.document;
        if self.json {
            util::out!("{}", files::to_json(&document)?);
        } else {
            write_styled(&record::say::text::render(&document, kept.written.as_ref(), Style::of_stdout()));
        }
        match kept.problem {
            Some(problem) => bail!("{problem:#}"),
            None => Ok(ExitCode::SUCCESS),
        }
    }
}

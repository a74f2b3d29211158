//! `pipeprof attribute`: roles for profiles that other tools took.

use crate::import;
use crate::record::model::Recording;
use crate::record::{self, RECORD_FILE, graphs, html};
use crate::report::files::Folder;
use crate::report::terminal::Style;
use crate::roles::Skid;
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what the time of a profile was spent on that another tool took, such as perf
///
/// Reads the output of `perf script`, folded stacks, and profiles of pprof. Shows the roles of each command, with 95 % intervals, and draws
/// flame graphs by role. The folder is that of `pipeprof record`: `compare`, `flamegraph` and `export` take it.
#[derive(Debug, clap::Args)]
pub(crate) struct AttributeArgs {
    /// Output of `perf script`, folded stacks with the command as first frame, or a compressed profile.proto (pprof)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Event to read, if perf recorded several [default: cycles, or else cpu-clock, or the one with most samples]; of pprof
    /// the kind of values [default: samples]
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Whose time samples are that were due while interrupts were off
    #[arg(long, value_enum, default_value = "auto")]
    skid: SkidRule,
    /// Folder for the results [default: runs/TIME-attribute]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print record.json on stdout instead of the tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SkidRule {
    /// That of the event: cpu-clock for cpu-clock and task-clock, otherwise none
    Auto,
    /// The caller's that had interrupts off: a clock's samples are taken when they come back on
    CpuClock,
    /// That of the function in which they were taken
    None,
}

impl AttributeArgs {
    /// # Errors
    /// When the file cannot be read, or the results cannot be written.
    pub(super) fn run(self) -> Result<ExitCode> {
        let started = super::now();
        let imported = import::read(&self.file, self.event.as_deref())?;
        let skid = match self.skid {
            SkidRule::Auto => imported.skid(),
            SkidRule::CpuClock => Skid::CpuClock,
            SkidRule::None => Skid::None,
        };
        let folder = Folder::prepare(self.output.as_deref(), &started, "attribute")?;
        let (recording, profiles) = import::recording::recording(&imported, &self.file.display().to_string(), skid);
        let recording = Recording { started, command: super::command_line(), ..recording };
        let mut json = serde_json::to_string_pretty(&recording).context("cannot write the profile as JSON")?;
        json.push('\n');
        if self.json {
            crate::out!("{json}");
        }
        let mut files = vec![(RECORD_FILE.to_owned(), json.into_bytes())];
        let drawn = graphs::files(&recording, &profiles, None)?;
        files.push((html::PAGE_FILE.to_owned(), html::page(&recording, &drawn)?.into_bytes()));
        files.extend(drawn);
        let kept = folder.keep(&files);
        if !self.json {
            crate::out!("{}", record::text::render(&recording, kept.written.as_ref(), Style::of_stdout()));
        }
        match kept.problem {
            Some(problem) => bail!("{problem:#}"),
            None => Ok(ExitCode::SUCCESS),
        }
    }
}

//! `pipeprof record`: run a pipeline and say what its wall time was made of.

use super::guest_args::{GuestArgs, one_cpu};
use super::workload_args::parse_duration;
use crate::export::{self, ExportFormat, Exported};
use crate::record::inside::{self, GuestPipeline, PipelinePlace, PreparedPipeline};
use crate::record::sent_files::SentFile;
use crate::record::{self, RecordOptions, RecordSettings, Remedy, TracingCollector, TrialOptions, contents};
use crate::report::files::Folder;
use crate::report::terminal::Style;
use crate::result::{Collector, PipelineCommand, Probe, RecordLevel};
use crate::util::streams::write_printed;
use crate::util::usage::UsageError;
use crate::util::{cancel, progress};
use crate::vm::GuestOptions;
use anyhow::{Context as _, Result};
use clap::Args;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The exit code of shells for a program that does not exist.
const NOT_FOUND: u8 = 127;

/// Runs of each pipeline that is tried, by default and at least.
const TRIED_RUNS: u32 = 10;
const FEWEST_TRIED: u32 = 5;

/// Counted runs of a pipeline: the fewest with which the scatter of counts can be judged.
const COUNTED_RUNS: u32 = 3;

/// Record a pipeline: what its wall time was made of
///
/// One word is run by `sh -c`; several words are run directly, with a literal '|' between stages:
///
///   pipeprof record -- 'xz -dc a.xz | tar -t'
///   pipeprof record -- xz -dc a.xz '|' tar -t
///
/// Standard input and output, signals and the exit code are those of the pipeline. The report goes to standard error.
///
/// With -p, a pipeline that is running already is recorded, by the id of any of its processes:
///
///   pipeprof record -p 4711 --duration 5s
///
/// With --kernel, it runs in a guest with that kernel:
///
///   pipeprof record --kernel 6.12 --file a.xz -- 'xz -dc a.xz | tar -t'
///
/// With --try or --advise, the pipeline is then run again with and without a change, to measure what it helps:
///
///   pipeprof record --try pipe-size=1M -- 'xz -dc a.xz | tar -t'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, mut_arg("cpus", one_cpu))]
pub(crate) struct RecordArgs {
    /// The pipeline
    #[arg(last = true, required_unless_present = "pid", value_name = "COMMAND")]
    command: Vec<String>,
    /// Record these running processes and those at the other ends of their pipes; nothing of them is changed
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "command",
        value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Time to record. A pipeline that pipeprof started is then ended by SIGTERM [default: until the pipeline ends, with
    /// -p also until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<u64>,
    /// Show each second what happens: a screen, which `q` ends with the report, or lines where standard error is no
    /// terminal
    #[arg(long, conflicts_with = "kernel")]
    live: bool,
    /// How much to record; each level takes more time than the one before
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t)]
    level: RecordLevel,
    /// Size of the pipes between the stages, such as 1M [default: the kernel's, 64K]
    #[arg(long, value_name = "SIZE", value_parser = pipe_size, conflicts_with_all = ["pid", "remedies", "advise"])]
    pipe_size: Option<u64>,
    /// Measure the pipeline with and without a change, in turn: pipe-size=SIZE, pin (each stage on its CPU),
    /// stageN=COMMAND (another program as stage N), or program:A=B (B wherever a command begins with A); repeatable
    #[arg(long = "try", value_name = "CHANGE", value_parser = Remedy::parse, conflicts_with = "pid")]
    remedies: Vec<Remedy>,
    /// Try what the recording suggests
    #[arg(long, conflicts_with = "pid")]
    advise: bool,
    /// Runs of each for --try and --advise [default: 10]; counted runs for --collect insn, each started at another moment
    /// [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "pid")]
    runs: Option<u32>,
    /// Put a file or folder into the guest, at the same path or at DEST; a program comes with its libraries; repeatable
    #[arg(long = "file", value_name = "PATH[:DEST]", value_parser = SentFile::parse, requires = "kernel",
        help_heading = "Guest")]
    files: Vec<SentFile>,
    /// Put a file or folder on a disk of the guest, read-only, instead of into its memory; files that are too large for
    /// its memory go there in any case. The recording is then not exact; repeatable
    #[arg(long, value_name = "PATH[:DEST]", value_parser = SentFile::parse, requires = "kernel", help_heading = "Guest")]
    disk: Vec<SentFile>,
    #[command(flatten)]
    pub(super) guest: GuestArgs,
    /// Also collect what the processes execute, by role, with flame graphs
    #[arg(long, value_name = "COLLECTOR", value_enum)]
    collect: Option<PipelineCollector>,
    /// Functions that --collect kprobe probes: `roles` (the targets, and the functions of each role), `targets`
    /// (pipe_write, __alloc_pages, __mutex_lock, iov_iter_get_pages2), `all` (also those that only breakpoints reach), or
    /// a list of functions and roles [default: roles]
    #[arg(long, value_name = "roles|targets|all|LIST", requires = "collect")]
    probe: Option<Probe>,
    /// Also write a format of `pipeprof export` into the output folder; repeatable
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    export: Vec<ExportFormat>,
    /// Output folder [default: runs/TIME-record]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
}

/// The size of pipes, in the bounds of the axis of that name.
fn pipe_size(text: &str) -> Result<u64, String> {
    match Remedy::parse(&format!("pipe-size={text}"))? {
        Remedy::PipeSize(bytes) => Ok(bytes),
        _ => Err(format!("'{text}' is not a size")),
    }
}

/// What is collected besides the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PipelineCollector {
    /// Samples of the kernel's stacks, taken while the pipeline is recorded on this machine
    Sample,
    /// Calls and times of the kernel's functions that have a role (kprobes, fentry), while the pipeline is recorded
    Kprobe,
    /// Every call of a function of the kernel, as a call tree with times (function_graph), while the pipeline is recorded
    Fgraph,
    /// Every executed instruction, counted in a run of its own; with --kernel
    Insn,
}

impl PipelineCollector {
    fn collector(self) -> Collector {
        match self {
            Self::Sample => Collector::Sample,
            Self::Kprobe => Collector::Kprobe,
            Self::Fgraph => Collector::Fgraph,
            Self::Insn => Collector::Insn,
        }
    }
}

impl RecordArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let (pipeline, trials) = self.wanted()?;
        if let Some(program) = pipeline.as_ref().and_then(PipelineCommand::missing) {
            let problem = match program {
                "" => "the command is empty".to_owned(),
                program => format!("cannot find the program {program}"),
            };
            progress::problem(&format!("{problem}: nothing was run"));
            return Ok(ExitCode::from(NOT_FOUND));
        }
        let guest = self.guest(trials.is_empty())?;
        let started = super::now();
        let folder = Folder::prepare(self.output.as_deref(), &started, "record")?;
        let sampled = self.collect == Some(PipelineCollector::Sample);
        let (settings, live) = (self.settings(), self.live);
        let options = |trials| RecordOptions { settings, trials, streams: None, sampled, live, drop_rights: true };
        let mut recorded = match (&pipeline, guest) {
            (Some(pipeline), Some(guest)) => {
                cancel::install().context("cannot install signal handlers")?;
                let prepared = PreparedPipeline::new(self.in_guest(pipeline, PipelinePlace::here()?), guest)?;
                let (mut recorded, printed) = prepared.record()?;
                write_printed(&printed.output, &printed.errors);
                printed.notes.iter().for_each(|note| progress::note(note));
                if self.collect == Some(PipelineCollector::Insn)
                    && let Err(error) = prepared.add_counts(&mut recorded, self.counted_runs())
                {
                    if cancel::happened() {
                        return Err(error);
                    }
                    // What was recorded is kept.
                    recorded.document.findings.push(format!("Instructions could not be counted: {error:#}."));
                }
                recorded
            }
            (Some(pipeline), None) => record::record(pipeline, options(trials))?,
            (None, _) => {
                cancel::install().context("cannot install signal handlers")?;
                record::record_running(&self.pid, &options(TrialOptions::default()))?
            }
        };
        (recorded.document.started, recorded.document.command) = (started, super::command_line());
        let (exports, failed) = export::all(&self.export, &Exported::Result(&recorded));
        let files = contents::files(&mut recorded, exports)?;
        let recording = recorded.document;
        let kept = folder.keep(&files);
        crate::err!("{}", record::text::render(&recording, kept.written.as_ref(), Style::of_stderr()));
        if let Some(problem) = kept.problem {
            // The exit code is still that of the pipeline.
            progress::problem(&format!("{problem:#}"));
        }
        if let Some(error) = failed {
            progress::problem(&format!("{error:#}"));
        }
        // A pipeline that was ended on request has not failed.
        let code = recording.exit_codes.last().copied().filter(|_| !recording.was_limited());
        Ok(ExitCode::from(code.unwrap_or(0)))
    }

    /// The pipeline with the stages whose instructions are counted: what a shell runs would be one stage.
    pub(super) fn counted(&self) -> Result<PipelineCommand> {
        let pipeline = PipelineCommand::parse(&self.command)?;
        if let Some(program) = pipeline.missing().map(str::to_owned).or_else(|| pipeline.unknown_to_shell()) {
            let problem = if program.is_empty() {
                "a stage is empty".to_owned()
            } else {
                format!("there is no program {program}")
            };
            return Err(UsageError::new(problem).into());
        }
        let pipeline = pipeline.as_stages().unwrap_or(pipeline);
        self.check_pipe_size(&pipeline)?;
        Ok(pipeline)
    }

    fn check_pipe_size(&self, pipeline: &PipelineCommand) -> Result<()> {
        let Some(bytes) = self.pipe_size else { return Ok(()) };
        Remedy::PipeSize(bytes).changed(pipeline).map(drop).context("--pipe-size")
    }

    /// How often its instructions are counted.
    pub(super) fn counted_runs(&self) -> u32 {
        self.runs.unwrap_or(COUNTED_RUNS)
    }

    pub(super) fn in_guest<'a>(&'a self, pipeline: &'a PipelineCommand, place: PipelinePlace) -> GuestPipeline<'a> {
        GuestPipeline { pipeline, place, files: &self.files, disk: &self.disk, settings: self.settings() }
    }

    /// The files for the guest that are not in `folder`.
    pub(super) fn sent_from_outside(&self, folder: &Path) -> BTreeSet<PathBuf> {
        SentFile::outside(self.files.iter().chain(&self.disk), folder)
    }

    fn settings(&self) -> RecordSettings {
        let collector = self.collect.map(PipelineCollector::collector);
        let traced = collector
            .filter(|collector| [Collector::Kprobe, Collector::Fgraph].contains(collector))
            .map(|collector| TracingCollector { collector, probe: self.probe.clone().unwrap_or_default() });
        let duration = self.duration.map(Duration::from_nanos);
        RecordSettings { duration, level: self.level, pipe_bytes: self.pipe_size, traced }
    }

    /// The pipeline, unless it is running already, and the changes to try. Nothing is run.
    pub(super) fn wanted(&self) -> Result<(Option<PipelineCommand>, TrialOptions)> {
        let mut pipeline = (!self.command.is_empty()).then(|| PipelineCommand::parse(&self.command)).transpose()?;
        let runs = self.runs.unwrap_or(TRIED_RUNS);
        let trials = TrialOptions { remedies: self.remedies.clone(), advise: self.advise, runs: runs as usize };
        let counted = self.collect == Some(PipelineCollector::Insn);
        if trials.is_empty() && self.runs.is_some() && !counted {
            let problem = "--runs needs --try, --advise or --collect insn: a recording is one run";
            return Err(UsageError::new(problem).into());
        }
        if !trials.is_empty() && runs < FEWEST_TRIED {
            let problem = format!("--runs {runs}: fewer than {FEWEST_TRIED} runs cannot show a difference of times");
            return Err(UsageError::new(problem).into());
        }
        let by_stage = !trials.is_empty() || self.pipe_size.is_some() || counted;
        if let Some(line) = pipeline.as_mut().filter(|_| by_stage) {
            // What a shell runs would be one stage.
            *line = line.as_stages().unwrap_or_else(|| line.clone());
            trials.check(line)?;
            self.check_pipe_size(line)?;
        }
        if self.probe.is_some() && self.collect != Some(PipelineCollector::Kprobe) {
            return Err(UsageError::new("--probe requires --collect kprobe").into());
        }
        match (self.collect, &self.guest.kernel) {
            (Some(PipelineCollector::Insn), None) => {
                return Err(
                    UsageError::new("--collect insn counts in a guest: add --kernel, such as --kernel 6.12").into()
                );
            }
            (Some(PipelineCollector::Sample), Some(_)) => {
                return Err(UsageError::new(
                    "--collect sample samples on this machine: leave out --kernel, or count every instruction with \
                     --collect insn",
                )
                .into());
            }
            _ => {}
        }
        Ok((pipeline, trials))
    }

    /// The guest to record in, if one is asked for. `untried`: no change is to be tried.
    pub(super) fn guest(&self, untried: bool) -> Result<Option<GuestOptions>> {
        if self.guest.kernel.is_some() && !self.pid.is_empty() {
            return Err(UsageError::new("-p records processes of this machine: leave out --kernel").into());
        }
        if self.guest.kernel.is_some() && !untried {
            return Err(UsageError::new(
                "--try and --advise measure time, which an emulated guest does not show: leave out --kernel",
            )
            .into());
        }
        self.guest.options()
    }
}

/// Record a pipeline in this guest and print the answer for the host
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// What to record, as JSON
    sent: String,
}

impl InsideArgs {
    pub(super) fn run(&self) -> Result<ExitCode> {
        inside::record_inside(&self.sent)?;
        Ok(ExitCode::SUCCESS)
    }
}

//! `pipeprof record`: run a pipeline and say what its wall time was made of.

use super::choice_arg::{choice, export_format};
use super::guest_args::{GuestArgs, one_cpu, set};
use super::workload_args::parse_duration;
use crate::export::{self, ExportFormat, Exported};
use crate::record::MeasureRecording as _;
use crate::record::{self, contents, inside};
use crate::report::files::Folder;
use crate::report::terminal::Style;
use crate::result::{
    Collector, Keep, Observer, Outcome, PipelineCommand, Probe, RecordLevel, RecordingRequest, RecordingTarget, Remedy,
    SentFile, Until, UserContexts,
};
use crate::util::progress;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit code of shells for a program that does not exist.
const NOT_FOUND: u8 = 127;

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
///   pipeprof record --container web --duration 5s
///   pipeprof record --all --duration 5s
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
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Record these running processes and those at the other ends of their pipes; nothing of them is changed
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "command", group = "running",
        value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Record the processes of this cgroup and of those below, also those that come into it meanwhile: its folder, or its
    /// path as in /proc/PID/cgroup
    #[arg(long, value_name = "PATH", group = "running", conflicts_with = "command")]
    cgroup: Option<String>,
    /// Record the processes of a container of docker, podman, containerd, CRI-O, runc or LXC, by its name or the begin of its
    /// id; of a pod, POD/CONTAINER
    #[arg(long, value_name = "NAME|ID", group = "running", conflicts_with = "command")]
    container: Option<String>,
    /// Look at all processes of this machine: at which pipes and other channels time is lost, who waits for whom, and how much
    /// they move
    #[arg(long, group = "running", conflicts_with = "command")]
    all: bool,
    /// Time to record. A pipeline that pipeprof started is then ended by SIGTERM [default: until the pipeline ends, with
    /// -p also until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<u64>,
    /// Watch running processes and keep only the last TIME, until a condition of --until holds or SIGUSR1 comes; at least TIME
    /// is written, and at most three times as much
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "running", conflicts_with = "live")]
    keep: Option<u64>,
    /// What to wait for with --keep: `full TIME` (a thread has slept so long because a channel was full), `empty TIME`,
    /// `rate < SIZE` (so little was read from all channels in a second), `stopped` (a process is), or `exit` (one of those named has ended); repeatable
    #[arg(long, value_name = "CONDITION", value_parser = until, requires = "keep")]
    until: Vec<Until>,
    /// How often --keep writes before it ends, each time into a folder of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "keep")]
    repeat: Option<u32>,
    /// Show each second what happens: a screen, which `q` ends with the report, or lines where standard error is no
    /// terminal
    #[arg(long)]
    live: bool,
    /// How much to record; each level takes more time than the one before [default: calls]
    #[arg(long, value_name = "LEVEL", value_parser = choice::<RecordLevel>())]
    level: Option<RecordLevel>,
    /// Also store when each thread had a CPU, what it waited for and who woke it, for `pipeprof export --to perfetto`: the
    /// first 300,000 waits
    #[arg(long)]
    switches: bool,
    /// How to observe it [default: bpf; without the rights for that, perf, and without those, proc]
    #[arg(long, value_name = "HOW", value_parser = choice::<Observer>(), conflicts_with = "kernel")]
    observe: Option<Observer>,
    /// Size of the pipes between the stages, such as 1M [default: the kernel's, 64K]
    #[arg(long, value_name = "SIZE", value_parser = pipe_size, conflicts_with_all = ["running", "changes", "advise"])]
    pipe_size: Option<u64>,
    /// Measure the pipeline with and without a change, in turn: pipe-size=SIZE, pin (each stage on its CPU),
    /// stageN=COMMAND (another program as stage N), program:A=B (B wherever a command begins with A), or no-splice, no-vmsplice,
    /// no-tee, no-copy-file-range, no-sendfile (these calls fail with ENOSYS, or as in no-splice=EPERM; separated by commas);
    /// repeatable
    #[arg(long = "try", value_name = "CHANGE", value_parser = Remedy::parse, conflicts_with = "running")]
    changes: Vec<Remedy>,
    /// Try what the recording suggests
    #[arg(long, conflicts_with = "running")]
    advise: bool,
    /// Runs of each for --try and --advise [default: 10]; counted runs for --collect insn, each started at another moment
    /// [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "running")]
    runs: Option<u32>,
    /// Limits of --collect insn for calling contexts of user code in flame graphs: calls within one another (at most 256; 0:
    /// functions without callers), and the number of contexts. The rest is `[deeper]`; sums stay exact [default: 256,400000]
    #[arg(long, value_name = "DEPTH[,NUMBER]", value_parser = UserContexts::parse, conflicts_with = "running")]
    user_contexts: Option<UserContexts>,
    /// Put a file or folder into the guest, at the same path or at DEST; a program comes with its libraries; repeatable
    #[arg(long = "file", value_name = "PATH[:DEST]", value_parser = SentFile::parse, help_heading = "Guest")]
    files: Vec<SentFile>,
    /// Put a file or folder on a disk of the guest, read-only, instead of into its memory; files that are too large for
    /// its memory go there in any case. The recording is then not exact; repeatable
    #[arg(long, value_name = "PATH[:DEST]", value_parser = SentFile::parse, help_heading = "Guest")]
    disk: Vec<SentFile>,
    #[command(flatten)]
    pub(super) guest: GuestArgs,
    /// Also collect what the processes execute, by role, with flame graphs
    #[arg(long, value_name = "COLLECTOR", value_parser = choice::<Collector>())]
    collect: Option<Collector>,
    /// Functions that --collect kprobe probes: `roles` (the targets, and the functions of each role), `targets`
    /// (pipe_write, __alloc_pages, __mutex_lock, iov_iter_get_pages2), `all` (also those that only breakpoints reach), or
    /// a list of functions and roles [default: roles]
    #[arg(long, value_name = "roles|targets|all|LIST")]
    probe: Option<Probe>,
    /// Also write a format of `pipeprof export` into the output folder; repeatable
    #[arg(long, value_name = "FORMAT", value_parser = export_format(), help_heading = "Output")]
    export: Vec<ExportFormat>,
    /// Output folder [default: runs/TIME-record]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
}

fn until(text: &str) -> Result<Until, String> {
    Until::parse(text, parse_duration)
}

/// The size of pipes, in the bounds of the axis of that name.
fn pipe_size(text: &str) -> Result<u64, String> {
    match Remedy::parse(&format!("pipe-size={text}"))? {
        Remedy::PipeSize(bytes) => Ok(bytes),
        _ => Err(format!("'{text}' is not a size")),
    }
}

impl RecordArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut request = RecordingRequest::default();
        self.apply(&mut request)?;
        Ok(self.measured(&request)?.map_or_else(|code| code, |measured| measured.code))
    }

    /// Measure `request`, show and store it as these flags say.
    pub(super) fn measured(&self, request: &RecordingRequest) -> Result<Result<ShownRecording, ExitCode>> {
        let (pipeline, _) = request.wanted()?;
        if let Some(program) = pipeline.as_ref().and_then(PipelineCommand::missing) {
            let problem = match program {
                "" => "the command is empty".to_owned(),
                program => format!("cannot find the program {program}"),
            };
            progress::problem(&format!("{problem}: nothing was run"));
            return Ok(Err(ExitCode::from(NOT_FOUND)));
        }
        let is_several = request.keep.as_ref().is_some_and(|keep| keep.repeat > 1);
        // Refuse what cannot work before anything is recorded.
        let started = super::now();
        let mut first = (!is_several).then(|| self.folder(&started, None)).transpose()?;
        let mut shown = None;
        let mut number = 0;
        request.measure_each(self.live, &mut |recorded| {
            number += 1;
            let folder = match first.take() {
                Some(folder) => folder,
                None => self.folder(&super::now(), Some(number))?,
            };
            shown = Some(self.shown(recorded, folder, &started)?);
            Ok(())
        })?;
        if shown.is_none() {
            progress::note("it has ended before anything happened that --until waits for: nothing was written");
        }
        Ok(shown.ok_or(ExitCode::SUCCESS))
    }

    /// The output folder; of several recordings that of the one with this `number`.
    fn folder(&self, started: &str, number: Option<u32>) -> Result<Folder> {
        let path = match (&self.output, number) {
            (Some(path), Some(number)) => Some(path.join(number.to_string())),
            (path, _) => path.clone(),
        };
        Folder::prepare(path.as_deref(), started, "record")
    }

    /// Show and store what was recorded.
    fn shown(&self, mut recorded: Outcome, folder: Folder, started: &str) -> Result<ShownRecording> {
        (recorded.document.started, recorded.document.command) = (started.to_owned(), super::command_line());
        let (exports, failed) = export::all(&self.export, &Exported::Result(&recorded));
        let files = contents::files(&mut recorded, exports)?;
        let recording = &recorded.document;
        let kept = folder.keep(&files);
        util::err!("{}", record::say::text::render(recording, kept.written.as_ref(), Style::of_stderr()));
        if let Some(problem) = kept.problem {
            // The exit code is still that of the pipeline.
            progress::problem(&format!("{problem:#}"));
        }
        if let Some(error) = failed {
            progress::problem(&format!("{error:#}"));
        }
        // A pipeline that was ended on request has not failed.
        let code = recording.exit_codes.last().copied().filter(|_| !recording.was_limited());
        Ok(ShownRecording { code: ExitCode::from(code.unwrap_or(0)), outcome: recorded })
    }

    /// Set what was given.
    pub(super) fn apply(&self, request: &mut RecordingRequest) -> Result<()> {
        if !self.command.is_empty() {
            request.target = RecordingTarget::Pipeline(PipelineCommand::parse(&self.command)?);
        } else if !self.pid.is_empty() {
            request.target = RecordingTarget::Attached(self.pid.clone());
        } else if let Some(path) = &self.cgroup {
            request.target = RecordingTarget::Cgroup(path.clone());
        } else if let Some(name) = &self.container {
            request.target = RecordingTarget::Container(name.clone());
        } else if self.all {
            request.target = RecordingTarget::All;
        }
        self.guest.machine.apply(&mut request.machine);
        set(&mut request.level, self.level);
        request.switches |= self.switches;
        request.observer = self.observe.or(request.observer);
        request.kernel = self.guest.kernel.clone().or(request.kernel.take());
        request.duration_ns = self.duration.or(request.duration_ns);
        if let Some(ns) = self.keep {
            request.keep = Some(Keep { ns, until: self.until.clone(), repeat: self.repeat.unwrap_or(1) });
        }
        request.pipe_size = self.pipe_size.or(request.pipe_size);
        request.collect = self.collect.or(request.collect);
        request.probe = self.probe.clone().or(request.probe.take());
        request.runs = self.runs.or(request.runs);
        request.user_contexts = self.user_contexts.or(request.user_contexts);
        request.advise |= self.advise;
        for (given, value) in [(&self.files, &mut request.files), (&self.disk, &mut request.disk)] {
            if !given.is_empty() {
                value.clone_from(given);
            }
        }
        if !self.changes.is_empty() {
            request.changes.clone_from(&self.changes);
        }
        Ok(())
    }
}

/// A recording that was shown.
pub(super) struct ShownRecording {
    /// That of the pipeline.
    pub code: ExitCode,
    pub outcome: Outcome,
}

/// Record a pipeline in this guest and print the answer for the host
#[derive(Debug, Args)]
pub(crate) struct InsideArgs {
    /// What to record, as JSON; if left out, prepare to record
    sent: Option<String>,
}

impl InsideArgs {
    pub(super) fn run(&self) -> Result<ExitCode> {
        match &self.sent {
            Some(sent) => inside::record_inside(sent)?,
            None => inside::prepare_inside()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

//! `result.json`: the result of a measurement, its environment, and limits. docs/result.schema.json is generated from this
//! module. [`open()`] reads results.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as result;
pub(crate) use {::arch, ::experiment, ::kernel, ::process, ::profile, ::roles, ::util, ::workload};

mod awaited;
mod channels;
pub mod check;
pub mod code;
mod defaults;
pub mod ensemble;
mod failed;
mod finding;
mod locks;
mod machine;
mod measurement;
mod named_files;
mod open;
mod path;
mod pipeline;
mod probe;
mod recorded;
pub mod request;
pub mod stack_files;
mod streams;
mod switches;
pub mod target;
mod timeline;
mod trials;

pub use crate::kernel::environment::{Emulator, Environment};
pub use crate::kernel::info::KernelInfo;
pub use crate::process::{GotAsked, PipeEnd, PipeTotals, ProcessTotals, Processes, Throughput};
pub use crate::util::histogram::Log2Histogram;
pub use crate::util::warning::Warning;
pub use awaited::{
    AwaitedChannel, ChannelHolder, ChannelKind, EndedChild, EventSource, EventWait, LastLook, LastWait, SeenProcess,
};
pub use awaited::{StaleFile, WaitedFor};
pub use channels::{DEFAULT_SLOTS, DividedReader, DoubledBuffer, RecordedChannel, RecordedEnd};
pub use check::check;
use defaults::is_default;
pub use ensemble::{Ensemble, FoundSize, TriedSize, WindowCount};
pub use failed::{FailedProcess, InVain};
pub use finding::{Finding, FindingKind};
pub use locks::{HeldCalls, LockKind, LockUse};
pub use machine::{MachineChannel, MachineEnd, MachineView, StuckWait, WaitCause};
pub use measurement::{
    Accel, GuestMachine, Keep, Measurement, RecordingRequest, RecordingTarget, Remedy, RunOptions, SentFile, Trigger,
    Until, UserContexts, WindowSizing,
};
pub use measurement::{RefusableCall, RefusalError, RefusedCall};
pub use measurement::{stage_text, words_of};
pub use named_files::{NameError, NameUse, NamedFile, ProcessLife};
pub use open::{open, open_document, parse};
pub use open::{open_all, open_code};
pub use path::PathKind;
pub use path::{CriticalPath, PathCeiling, PathPart, PathWakes, PathWhat};
pub use probe::Probe;
pub use recorded::{
    BusyProgram, FullDevice, FullTable, HeldBy, LeftProcesses, LockWait, LockedFile, MANY_IN_ONE, Observer, PipeHolder,
    ProcLooks, ProcessRefusal, ProcessWords, ReadFile, RecordLevel, RecordedProcess, SHELLS, UnrecordedProcess,
    UsedPort, UserPipes, WaitReason, WaitTotal, Zombies, applet,
};
pub use request::{Collector, Loader, Request, Selection};
pub use stack_files::LARGEST;
pub use streams::{FileHole, RecordedStream};
pub use switches::{MOST_WAITS, SWITCHES, StoredThread, Switches, ThreadWait};
pub use target::{Container, ImportedFrom, MeasuredTarget, PipelineCommand, ProcessGroup};
pub use timeline::{Timeline, TimelinePipe, TimelineProcess};
pub use trials::{MovedBytes, RefusalOutcome, RefusedProgram};
pub use trials::{Trial, TrialRuns, TrialVerdict, Trials};

use crate::experiment::Ending;
use crate::kernel::resolve::Resolution;
use crate::profile::{
    ByProcess, ClassifiedStacks, CycleModel, Folded, ProcessName, Profile, RoleShare, Unit, WindowPart,
};
use crate::roles::{RoleId, Skid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `schema` of documents that this version writes: a name and a number. The number increases with each change that
/// an older reader would misinterpret.
pub const SCHEMA: &str = "pipeprof.result/1";

/// The name of a result in its folder.
pub const RESULT_FILE: &str = "result.json";

/// What executed the instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutedOn {
    #[default]
    Hardware,
    Kvm,
    /// Emulated: times are not meaningful.
    Tcg,
}

impl ExecutedOn {
    /// What executes this process, as far as the processor says: KVM and hardware are one here.
    pub fn here() -> Self {
        if arch::is_emulated() { Self::Tcg } else { Self::Hardware }
    }
}

/// A result, with the parts that apply to its target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    pub schema: String,
    /// pipeprof's version and build: `0.1.0 (build 1a2b3c4d)`.
    pub version: String,
    /// UTC, RFC 3339; the only time of day in the document.
    pub started: String,
    pub command: String,
    /// What was asked for: `pipeprof repeat` measures it again. Absent for what another tool took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Measurement>,
    /// What was measured, in titles: the mode of a built-in pair, a pipeline as it was typed, the processes, or a file.
    pub mode: String,
    pub target: MeasuredTarget,
    pub kernel: KernelInfo,
    pub executed_on: ExecutedOn,
    /// Unit of the attribution's weights.
    pub unit: Unit,
    pub environment: Environment,
    /// Whether the processes ran in a memory cgroup of their own, to which pages are charged; guests only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memcg: Option<bool>,
    pub throughput: Throughput,
    /// Totals of each process of a built-in pair, and of each stage of a counted pipeline.
    pub processes: Processes,
    pub attribution: Attribution,
    /// Calls and times of probed functions.
    pub functions: Vec<FunctionCalls>,
    /// Of each stage of a counted pipeline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system_calls: Vec<SystemCallCount>,
    pub symbols: Vec<Resolution>,
    pub collectors: Vec<CollectorReport>,
    /// Raw values of each measurement, in the order in which they ran.
    pub runs: Vec<PairRecord>,
    pub warnings: Vec<Warning>,
    /// How the run ended; absent if the number of runs was fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Exact counts: all windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ensemble: Option<Ensemble>,
    /// The model of estimated cycles; instruction profiles only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_model: Option<CycleModel>,
    /// Exact counts: what was executed while the pipe's locks were held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockUse>,
    /// The exit code of each stage of a pipeline; 128 and the signal's number for a killed one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exit_codes: Vec<u8>,
    /// How much was recorded; absent for `calls`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub level: RecordLevel,
    /// If it was made of looks into /proc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<ProcLooks>,
    /// The time after which the recording was to end, ns, if it was limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// When a signal asked pipeprof to end, as Ctrl-C does, from the begin of the window, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_ns: Option<u64>,
    /// Why it was written, if only its last time was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// Files and folders that a guest had on a disk. A disk answers at moments that depend on this machine, so the
    /// recording of an emulated guest is then not exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_disk: Vec<String>,
    /// Programs outside the recording that used the CPUs meanwhile, the largest part first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<BusyProgram>,
    /// What was recorded of each process, in the order of their start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<RecordedProcess>,
    /// The recorded channels, in the order of their first writer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<RecordedChannel>,
    /// What was written to files, and read from files that were a standard input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<RecordedStream>,
    /// What was done with names of files that several processes used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_files: Vec<NamedFile>,
    /// The processes that did that, and those that had started them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lives: Vec<ProcessLife>,
    /// Processes that ended with another exit code than 0, in this order, the first 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedProcess>,
    /// The pipes of a user who had used up all pages, if a pipe was small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_pipes: Option<UserPipes>,
    /// Who waited for whom shortly before its end, if a process of it slept long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_look: Option<LastLook>,
    /// If all processes of the machine were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineView>,
    /// What its time was made of; absent if nothing was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<CriticalPath>,
    /// The answer, in the order in which it is printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Reasons to doubt the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// Events (calls, switches, wake-ups) for which the kernel skipped a program, because it preempted the program on that
    /// CPU for another thread. They may be of processes outside the pipeline. What was recorded is exact if this is 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skipped: u64,
    /// Switches to threads of the pipeline that were not seen. Such a thread counts as running from its next system call
    /// or the next switch away from it; its calls and sleeps are counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unseen_switches: u64,
    /// What happened when.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeline: Timeline,
    /// Runs with and without changes, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<Trials>,
    /// Waits for locks of the kernel, longest first, with `--level stacks`; absent if the kernel does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_waits: Option<Vec<LockWait>>,
    /// Other files in the same folder: `writer.folded`.
    pub files: Vec<String>,
}

impl Document {
    /// Whether the recording ended because its time was over.
    pub fn was_limited(&self) -> bool {
        self.duration_ns.is_some_and(|duration| self.processes.window_ns >= duration)
    }

    /// Whether the end of the recording is not that of its processes: its time was over, or they were running before it.
    pub fn is_excerpt(&self) -> bool {
        self.was_limited() || !self.target.pids().is_empty()
    }

    /// Whether its processes went on when it ended, or were ended then.
    pub fn is_cut_off(&self) -> bool {
        self.is_excerpt() || self.interrupted_ns.is_some()
    }

    /// Whether a process that ended at `end_ns` can have done so because the recording was interrupted.
    pub fn ended_by_interruption(&self, end_ns: u64) -> bool {
        // The signal reaches both at once, and who notes when can be late.
        const LATE_NS: u64 = 50_000_000;
        self.interrupted_ns.is_some_and(|at| end_ns + LATE_NS >= at)
    }

    /// The sentences of the answer.
    pub fn sentences(&self) -> Vec<&str> {
        self.findings.iter().map(|finding| finding.text.as_str()).collect()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// The collector whose profile was attributed.
    pub collector: String,
    /// Processes with shares; [`ProcessName::OTHER`] in instruction profiles only. Of a counted pipeline, these are its
    /// stages in the first run.
    pub processes: ByProcess<Vec<RoleShare>>,
    /// Of a counted pipeline: what pipeprof, which starts the stages, and everything else executed meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<u64>,
}

impl Attribution {
    /// The shares of one process; may be empty.
    pub fn of(&self, name: ProcessName) -> &[RoleShare] {
        self.processes.get(name).map_or(&[], Vec::as_slice)
    }

    /// The weight of one process.
    pub fn weight(&self, name: ProcessName) -> u64 {
        self.of(name).iter().map(|share| share.weight).sum()
    }

    /// All shares of the target's processes.
    pub fn of_target(&self) -> impl Iterator<Item = &RoleShare> {
        self.processes.of_target().flat_map(|(_, shares)| shares)
    }
}

/// System calls of one kind by one process, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemCallCount {
    pub process: ProcessName,
    /// `write`.
    pub name: String,
    /// In the first counted run.
    pub calls: u64,
    /// Fewest and most in all counted runs.
    pub range: [u64; 2],
    /// What the first run executed in the kernel's function and below it: without entering and leaving the kernel.
    pub instructions: u64,
    /// Those that failed in the recorded run, which is another one; absent if they were not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// What calls that move bytes moved in the recorded run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl SystemCallCount {
    /// No calls of `name` by `process`.
    pub fn none(process: ProcessName, name: &str) -> Self {
        Self { process, name: name.to_owned(), calls: 0, range: [0; 2], instructions: 0, errors: None, bytes: None }
    }
}

/// Calls of one probed function by one process, inside the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCalls {
    /// `writer`, `reader` or `other`.
    pub process: ProcessName,
    pub role: RoleId,
    pub symbol: String,
    /// `fentry`, `kprobe`, `hardware-breakpoint`, `insn`.
    pub how: String,
    pub calls: u64,
    /// Wall time with callees; absent if only calls were counted.
    pub total_ns: Option<u64>,
    /// Wall time without probed callees.
    pub self_ns: Option<u64>,
    /// `self_ns` without the calibrated cost of the probes; absent if that cost is 20 % or more.
    pub corrected_self_ns: Option<u64>,
    /// Calls by duration: element i counts those of 2^i to 2^(i+1)-1 ns.
    pub log2_ns: Log2Histogram,
    /// Returns that the kernel did not report.
    pub missed: u64,
}

impl FunctionCalls {
    /// Zero calls of `symbol`, a function of `role`, by `process`, counted by `how`.
    pub fn none(process: ProcessName, role: RoleId, symbol: &str, how: &str) -> Self {
        Self {
            process,
            role,
            symbol: symbol.to_owned(),
            how: how.to_owned(),
            calls: 0,
            total_ns: None,
            self_ns: None,
            corrected_self_ns: None,
            log2_ns: Log2Histogram::default(),
            missed: 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectorReport {
    pub name: Collector,
    pub status: Status,
    /// Why the status is not `ok`.
    pub reason: Option<String>,
    /// Number of samples, probe hits, calls or instructions.
    pub samples: u64,
    pub lost: u64,
    /// Samples whose leaf has no symbol or role.
    pub unresolved: u64,
    /// Whether samples that are due while interrupts are off are taken later; absent if it takes no stacks.
    pub skid: Option<Skid>,
    /// Cost in percent of elapsed time; absent if not measured.
    pub cost_percent: Option<f64>,
    pub cost_ci95: Option<[f64; 2]>,
    /// Notes for the user: `cpu-clock at 4999 Hz`, `loaded by libbpf`.
    pub notes: Vec<String>,
}

impl CollectorReport {
    /// Of a collector that lost nothing, with this number of samples.
    pub fn ok(name: Collector, samples: u64) -> Self {
        Self {
            name,
            status: Status::Ok,
            reason: None,
            samples,
            lost: 0,
            unresolved: 0,
            skid: None,
            cost_percent: None,
            cost_ci95: None,
            notes: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Ok,
    /// Incomplete; see the reason.
    Partial,
    Unavailable,
    Failed,
}

/// Raw values of one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairRecord {
    /// The enabled collectors; empty for an unprofiled run.
    pub collectors: Vec<String>,
    pub processes: Processes,
}

/// A result: the document (`result.json`), and the stacks on which its attribution is based.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub document: Document,
    /// The user whose file the document is; absent for what was just measured.
    #[serde(skip)]
    pub owner: Option<u32>,
    pub profiles: Vec<Profile>,
    /// Exact profiles of several windows: those of each window, in the order of the document's runs, with the parts of each
    /// window weighed (docs/exactness.md, "Bursts"). Stored in a separate file, and not sent from guests.
    #[serde(skip)]
    pub windows: Vec<Vec<Profile>>,
    /// What the parts of each window executed, in the order of `windows`; empty if that is not known.
    #[serde(skip)]
    pub parts: Vec<Vec<WindowPart>>,
    /// Exact profiles only: instructions by class, which give estimated cycles. Neither stored nor sent from guests.
    #[serde(skip)]
    pub classes: ByProcess<ClassifiedStacks>,
    /// Exact profiles only: the executed code. Stored in a separate file, and not sent from guests.
    #[serde(skip)]
    pub code: Option<code::ExecutedCode>,
    /// A recording's: microseconds asleep by stack, with [`RecordLevel::Stacks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_cpu: Option<Folded>,
    /// A recording's: nanoseconds of the critical path by process, what it did, and sampled functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_path: Option<Folded>,
    /// A recording's, with `--switches`. Stored in a separate file, and not sent from guests.
    #[serde(skip)]
    pub switches: Option<Switches>,
}

impl Outcome {
    /// The profiles that are compared with those of other runs: of the window that is shown, with its parts weighed if
    /// several were counted.
    pub fn shown_window(&self) -> &[Profile] {
        let shown = self.document.ensemble.as_ref().and_then(|ensemble| self.windows.get(ensemble.shown));
        shown.map_or(&self.profiles, Vec::as_slice)
    }
}

/// Whether `collector`, which becomes part of a file name and may come from a guest, is a plain word.
pub fn is_plain(collector: &str) -> bool {
    !collector.is_empty() && collector.chars().all(|c| c.is_ascii_alphanumeric())
}

/// The JSON Schema of [`Document`], as text. A test makes it anew: what does so is a megabyte of the program otherwise.
pub const JSON_SCHEMA: &str = include_str!("../../docs/result.schema.json");

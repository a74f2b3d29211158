//! `result.json`: what the processes of a pipeline did, and what went through its pipes.

use super::collect::RecordLevel;
use super::path::model::CriticalPath;
use super::pipeline::PipelineCommand;
pub use super::reason::WaitReason;
use crate::kernel::environment::Environment;
use crate::kernel::info::KernelInfo;
use crate::kernel::resolve::Resolution;
use crate::profile::{RoleShare, SchedulingWeight};
use crate::result::{CollectorReport, ExecutedOn};
use crate::util::warning::Warning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The `schema` of documents that this version writes. The number increases with each change that an older reader
/// would misinterpret.
pub(crate) const RECORDING_SCHEMA: &str = "pipeprof.record/1";

/// The JSON Schema of [`Recording`], as text: docs/record.schema.json.
///
/// # Errors
/// Never, unless JSON cannot represent the schema.
pub fn json_schema() -> anyhow::Result<String> {
    let mut schema = schemars::schema_for!(Recording);
    schema.insert("title".to_owned(), "pipeprof result.json of a recording".into());
    schema.insert("$id".to_owned(), RECORDING_SCHEMA.into());
    let mut text = serde_json::to_string_pretty(&schema)?;
    text.push('\n');
    Ok(text)
}

/// A pipe holds this many slots (pages of 4 KiB) unless someone changes it: include/linux/pipe_fs_i.h,
/// `PIPE_DEF_BUFFERS`.
pub(crate) const DEFAULT_SLOTS: u64 = 16;

/// One recorded pipeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    pub schema: String,
    /// pipeprof's version and build.
    pub version: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// The whole command line.
    pub command: String,
    pub pipeline: PipelineCommand,
    /// The processes that were asked for, if they were running before: `pipeline` is empty then.
    pub pids: Vec<u32>,
    /// The exit code of each stage; 128 and the signal's number for a killed one.
    pub exit_codes: Vec<u8>,
    /// From the start of the first program to the end of the last, ns.
    pub window_ns: u64,
    pub level: RecordLevel,
    /// The time after which the recording was to end, ns, if it was limited.
    pub duration_ns: Option<u64>,
    pub kernel: KernelInfo,
    pub environment: Environment,
    pub executed_on: ExecutedOn,
    /// Files and folders that a guest had on a disk. A disk answers at moments that depend on this machine, so the
    /// recording of an emulated guest is then not exact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_disk: Vec<String>,
    /// Programs outside the recording that used the CPUs meanwhile, the largest part first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<BusyProgram>,
    /// In the order of their start.
    pub processes: Vec<RecordedProcess>,
    /// In the order of their first writer.
    pub pipes: Vec<RecordedPipe>,
    /// What its time was made of; absent if nothing was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<CriticalPath>,
    /// The answer in sentences, as printed, for readers: programs read `path` and the counts.
    pub findings: Vec<String>,
    /// Reasons to doubt the answer.
    pub cautions: Vec<String>,
    /// Events (calls, switches, wake-ups) for which the kernel skipped a program, because it preempted the program on that
    /// CPU for another thread. They may be of processes outside the pipeline. What was recorded is exact if this is 0.
    pub skipped: u64,
    /// Switches to threads of the pipeline that were not seen. Such a thread counts as running from its next system call
    /// or the next switch away from it; its calls and sleeps are counted.
    pub unseen_switches: u64,
    /// What was not recorded.
    pub warnings: Vec<Warning>,
    /// What happened when.
    pub timeline: Timeline,
    /// Runs with and without changes, if they were asked for.
    pub trials: Option<Trials>,
    /// Waits for locks of the kernel, longest first, with `--level stacks`; absent if the kernel does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_waits: Option<Vec<LockWait>>,
    /// What the stages executed, if it was counted.
    pub instructions: Option<RecordedInstructions>,
    /// What the processes executed, if it was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<RecordedSamples>,
    /// The file that the samples come from, if another tool took them: there is nothing else then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedFrom>,
}

/// Processes of one program that were not recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusyProgram {
    /// As in /proc/PID/comm.
    pub name: String,
    /// Of the time of all CPUs, 0 to 1.
    pub share: f64,
}

/// A profile that another tool took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedFrom {
    /// The file.
    pub file: String,
    /// `perf script` or `folded stacks`.
    pub format: String,
    /// What was sampled, such as `cpu-clock`, if the file says so.
    pub event: Option<String>,
}

/// Waits for locks at which threads sleep, wanted by one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockWait {
    /// Index in `processes`.
    pub process: usize,
    /// The function of the kernel that wanted the lock.
    pub caller: String,
    pub count: u64,
    /// Spinning and asleep, of all threads.
    pub ns: u64,
}

/// What the processes executed at the ticks of a clock, while they were recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedSamples {
    /// Those with samples, in the order of `processes`.
    pub processes: Vec<ProcessSamples>,
    /// What the collector says of its samples.
    pub collector: CollectorReport,
}

/// The samples of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSamples {
    /// Index in `processes`.
    pub process: usize,
    /// The name in files: `stage1-dd`, or `dd` in a shell.
    pub name: String,
    pub samples: u64,
    /// By role, largest first. KiB are those that the process moved through pipes.
    pub roles: Vec<RoleShare>,
}

/// The instructions of a pipeline, counted by the emulator in a run of its own, in which nothing was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedInstructions {
    /// CPUs of the guest.
    pub cpus: u32,
    /// In the order of the pipeline.
    pub stages: Vec<StageInstructions>,
    /// Executed by pipeprof, which starts the stages, and by everything else meanwhile.
    pub others: u64,
    /// What the collector says of its counts.
    pub collector: CollectorReport,
    /// The functions of each role on this kernel.
    pub symbols: Vec<Resolution>,
}

/// What the processes of one stage executed, with their children and threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageInstructions {
    /// The name in files: `stage1-dd`.
    pub name: String,
    pub instructions: u64,
    /// Bytes that instructions with a `rep` prefix copied, cleared or searched; each of them counts once. Absent in older
    /// recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rep_bytes: Option<u64>,
    /// Without the part that depends on the schedule, in each counted run. All else here is of the first.
    pub runs: Vec<u64>,
    /// The part that depends on the schedule.
    pub scheduling: SchedulingWeight,
    /// By role, largest first. KiB are those that the stage moved through pipes.
    pub roles: Vec<RoleShare>,
}

impl Recording {
    /// Whether the recording ended because its time was over.
    #[must_use]
    pub fn was_limited(&self) -> bool {
        self.duration_ns.is_some_and(|duration| self.window_ns >= duration)
    }
}

/// What processes and pipes did over time, in slices. Each array has one value per slice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Lengths of the slices, from the begin of the window on, ns.
    pub slice_ns: Vec<u64>,
    pub processes: Vec<TimelineProcess>,
    /// Those that were used; of more than 256, those that moved most.
    pub pipes: Vec<TimelinePipe>,
}

/// Shares of each slice, of all threads of a process: more than 1 with several threads. The rest are other sleeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineProcess {
    /// Index in `processes`.
    pub process: usize,
    pub running: Vec<f64>,
    /// Without a CPU.
    pub runnable: Vec<f64>,
    /// Asleep because a pipe was empty.
    pub empty: Vec<f64>,
    /// Asleep because a pipe was full.
    pub full: Vec<f64>,
}

impl TimelineProcess {
    pub(super) fn new(process: usize, slices: usize) -> Self {
        let [running, runnable, empty, full] = std::array::from_fn(|_| vec![0.0; slices]);
        Self { process, running, runnable, empty, full }
    }
}

/// A pipe over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelinePipe {
    /// Index in `pipes`.
    pub pipe: usize,
    /// Bytes written in each slice.
    pub bytes: Vec<u64>,
    /// Mean part of its slots in use, 0 to 1: all of them while a writer waits for room, none while a reader waits for
    /// data, otherwise as read after calls. Absent if nothing happened.
    pub filled: Vec<Option<f64>>,
}

/// Runs of the pipeline as it is, and of changed ones, in turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trials {
    pub unchanged: TrialRuns,
    pub tried: Vec<Trial>,
    /// Share of CPU time that other programs used meanwhile, 0 to 1.
    pub others: Option<f64>,
}

/// The runs of one pipeline: nothing was recorded during them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRuns {
    /// From the start of the first program to the end of the last, s.
    pub seconds: Vec<f64>,
    /// CPU time of all processes, s.
    pub cpu_seconds: Vec<f64>,
}

/// One change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// As it is typed: `pipe-size=1M`.
    pub change: String,
    pub runs: TrialRuns,
    /// Median of its times by the median of the unchanged pipeline's.
    pub ratio: Option<f64>,
    /// Bootstrap interval of the ratio.
    pub ci95: Option<[f64; 2]>,
    pub verdict: TrialVerdict,
    /// Why it could not be measured.
    pub failed: Option<String>,
}

/// What a change does to the time of a pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialVerdict {
    Faster,
    Slower,
    /// The interval is within 5 %.
    Same,
    #[default]
    Undecided,
    Failed,
}

/// A program in a process. Several processes that ran the same program on the same pipes are one, and so are many that ran
/// it on pipes of the same kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedProcess {
    /// The name of the program, as in /proc/PID/comm.
    pub name: String,
    /// The stage that it belongs to, from 0.
    pub stage: u32,
    /// In the initial PID namespace.
    pub pids: Vec<u32>,
    pub threads: u64,
    pub forks: u64,
    pub execs: u64,
    /// From the begin of the window, ns.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Of all its processes, from the begin to the end of each; absent in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lived_ns: Option<u64>,
    /// Time on a CPU, of all threads.
    pub cpu_ns: u64,
    /// Its part in user space, 0 to 1, as the kernel accounts it by ticks; absent if it ran for less than a few ticks, or
    /// has not ended.
    pub user_share: Option<f64>,
    /// Runnable, but waiting for a CPU.
    pub runnable_ns: u64,
    pub preemptions: u64,
    /// System calls.
    pub calls: u64,
    /// Calls of io_uring_enter. What io_uring reads and writes is not seen.
    pub io_uring_calls: u64,
    /// The number of the signal that killed it, or one of its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u32>,
    /// Whether the kernel killed it for lack of memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
    /// Sleeps outside of pipes, by reason.
    pub waits: BTreeMap<WaitReason, WaitTotal>,
    /// Who stopped or traced it, as far as that was seen: names as in /proc/PID/comm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_by: BTreeMap<WaitReason, BTreeSet<String>>,
}

/// The sleeps for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitTotal {
    pub ns: u64,
    pub count: u64,
}

/// A pipe or FIFO.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedPipe {
    pub inode: u64,
    /// The device of its file system.
    pub device: u32,
    /// The stage that writes it and the one that reads it, if pipeprof made it.
    pub between: Option<[u32; 2]>,
    /// Its capacity in slots of one page, as first seen, as last seen, and the least.
    pub slots: Option<[u64; 3]>,
    /// Mean number of slots in use after a call, of those calls at which it was read.
    pub mean_filled: Option<f64>,
    pub writers: Vec<RecordedEnd>,
    pub readers: Vec<RecordedEnd>,
    /// Processes that had it open for writing when the recording of a running pipeline began, but were not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_writers: Vec<UnrecordedProcess>,
    /// The same for reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_readers: Vec<UnrecordedProcess>,
}

/// A process at the same side of a pipe as a recorded one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnrecordedProcess {
    /// In the PID namespace of pipeprof.
    pub pid: u32,
    /// As in /proc/PID/comm; empty if unknown.
    pub name: String,
}

/// One side of a pipe, used by one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedEnd {
    /// Index in `processes`.
    pub process: usize,
    pub bytes: u64,
    /// Calls by kind: `read`, `write`, `splice`, `vmsplice`, `tee`, `sendfile`.
    pub calls: BTreeMap<String, u64>,
    /// Calls that moved fewer bytes than requested.
    pub short: u64,
    pub eagain: u64,
    pub epipe: u64,
    pub errors: u64,
    /// Bytes requested, in sum. Zero for vectors, whose sizes are not read.
    pub requested: u64,
    /// Calls by size: element i counts those of 2^i to 2^(i+1)-1 bytes.
    pub log2_sizes: Vec<u64>,
    /// Sleeps because the pipe was empty (readers) or full (writers).
    pub sleeps: u64,
    pub blocked_ns: u64,
    /// Runnable after such a sleep, but waiting for a CPU.
    pub runnable_ns: u64,
    /// Sleeps for the pipe's lock.
    pub lock_sleeps: u64,
    pub lock_ns: u64,
    /// Wake-ups that it sent to the other side.
    pub wakes: u64,
    /// Sleeps that ended without anything moved in the pipe, followed by another in the same call.
    pub needless: u64,
}

impl RecordedEnd {
    /// All calls.
    #[must_use]
    pub fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }
}

impl RecordedPipe {
    /// Bytes read, or, if no reader was recorded, written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let sum = |ends: &[RecordedEnd]| ends.iter().map(|end| end.bytes).sum::<u64>();
        sum(&self.readers).max(sum(&self.writers))
    }

    /// The ends of both sides.
    pub fn ends(&self) -> impl Iterator<Item = &RecordedEnd> {
        self.writers.iter().chain(&self.readers)
    }

    /// Whether anything was done with it.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.ends().any(|end| end.all_calls() + end.sleeps > 0)
    }
}

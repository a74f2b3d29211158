//! Warnings: a stable code, what happened, what to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A warning about a result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    pub code: WarningCode,
    pub message: String,
    /// What the user can do; empty if nothing helps.
    pub action: String,
}

/// What a warning is about; `samples-lost` in documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarningCode {
    /// With `--verify`, the reader got other bytes.
    VerifyFailed,
    /// Fewer huge pages than asked for.
    HugePagesMissing,
    /// A busy loop took the CPU of the other process.
    Spinning,
    /// Both processes had one CPU.
    OneCpu,
    /// A process did other work than was asked for.
    WorkloadChanged,
    /// The pipe is smaller than asked for.
    PipeSmall,
    /// There is no throughput under emulation.
    Emulated,
    /// A collector slowed the workload so much that its shares are not shown.
    TooCostly,
    /// A collector lost events.
    Lost,
    /// Other programs used the CPUs.
    Busy,
    /// What an earlier run left behind was removed.
    LeftBehind,
    /// A setting of the kernel could not be restored.
    NotRestored,
    ReturnsMissed,
    ProbeEventsLost,
    CallsLost,
    SamplesLost,
    StacksNotRecorded,
    ThreadsNotWatched,
    CallsNotTimed,
    ExecNotFollowed,
    /// What executes the guest, and why not another.
    Accelerator,
    /// QEMU's threads could not be put in order.
    Turns,
    /// The guest was booted, not restored.
    Snapshot,
    /// Nothing went through the pipes.
    NoPipes,
    /// The pipes of a process cannot be read.
    PipesUnknown,
    /// It was recorded by looks into /proc, because BPF programs are not possible.
    LookedOnly,
    /// What other users' processes sleep for may not be read.
    SleepsUnreadable,
    /// The critical path did not add up.
    PathWrong,
    SwitchesUnseen,
    /// More waits than `--switches` stores.
    SwitchesLeftOut,
    EventsSkipped,
    ThreadsNotRecorded,
    ProcessesNotRecorded,
    CallsNotRecorded,
    /// The kernel refused the programs that see io_uring's requests.
    RingsNotRecorded,
    SleepsNotRecorded,
    /// The critical path is unknown for a time.
    StepsLost,
}

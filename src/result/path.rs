//! The stored form of the critical path.

use super::recorded::WaitReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the time was made of. Followed backwards from the end of the pipeline: at each moment, the one thing that held up
/// the end. Its parts add up to the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CriticalPath {
    /// Longest first.
    pub parts: Vec<PathPart>,
    /// Lengths of the slices of time, from the begin of the window on, ns.
    pub slice_ns: Vec<u64>,
    /// Wake-ups and switches that could not be recorded. Where they are missing, the path is unknown.
    pub lost_steps: u64,
    /// How long it would take if one process cost nothing, shortest first: of those that are much of the path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ceilings: Vec<PathCeiling>,
    /// Which process of the recording woke which other one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakes: Vec<PathWakes>,
}

/// The wake-ups of one process by another. Each array has one value per slice of the path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathWakes {
    /// Index in `recorded`: who woke.
    pub from: usize,
    /// Index in `recorded`: who was woken.
    pub to: usize,
    pub counts: Vec<u64>,
    /// When the first one was, from the begin of the window on, ns; absent where there was none.
    pub first_ns: Vec<Option<u64>>,
}

/// The pipeline without what one process costs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathCeiling {
    /// Index in `recorded`.
    pub process: usize,
    /// The time that is left, ns.
    pub ns: u64,
}

/// One part of the path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathPart {
    /// Index in `recorded`; absent if it is no process of the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<usize>,
    #[serde(flatten)]
    pub what: PathWhat,
    /// Who had the CPU, who carried on what a process of the recording did, or who ended a sleep, if that is no process
    /// of the recording: as in /proc/PID/comm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub ns: u64,
    /// Its time in each slice.
    pub slices: Vec<u64>,
}

/// What distinguishes parts: process, what it did, and the other name.
pub type PathKind = (Option<usize>, PathWhat, Option<String>);

/// What the end of the pipeline waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum PathWhat {
    /// The process ran.
    OnCpu,
    /// The process could run, but had no CPU yet.
    ForCpu,
    /// The process could run, but its cgroup had used up its quota of CPU time.
    Throttled,
    /// The process slept for something that no process of the recording ended.
    Asleep { reason: WaitReason },
    /// For data in a pipe, likewise.
    PipeEmpty,
    /// For room in a pipe, likewise.
    PipeFull,
    /// For the lock of a pipe, likewise.
    PipeLock,
    /// A thread of the kernel, or a process outside of the recording, that one of its processes had woken.
    Outside,
    /// Before the first event of this process.
    Begin,
    /// After the last event.
    End,
    /// Further parts, each of them small.
    Others,
    /// Not known, because events are missing.
    #[default]
    Unknown,
}

//! What `record --all` saw of the whole machine.

use crate::awaited::{ChannelHolder, ChannelKind, SeenProcess};
use crate::defaults::is_default;
use crate::recorded::WaitReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All processes, and the channels between them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineView {
    /// How often /proc was looked into, and the CPU time that it took, ns.
    pub looks: u64,
    pub cpu_ns: u64,
    /// Processes at the last look, without workers of the kernel.
    pub processes: u64,
    /// Of these, processes whose files could not be read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unreadable: u64,
    /// Processes, or channels, that were left out, because there were too many.
    #[serde(default, skip_serializing_if = "is_default")]
    pub left_out: u64,
    /// Bytes moved through pipes and sockets that no process had open at any look; absent if bytes were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_bytes: Option<u64>,
    /// Those at which most time was lost first, then those through which most was moved.
    pub channels: Vec<MachineChannel>,
}

/// A pipe, or one direction of another channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineChannel {
    pub kind: ChannelKind,
    /// As in `channels`.
    pub inode: u64,
    pub device: u32,
    /// The path of a FIFO or a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub writers: MachineEnd,
    pub readers: MachineEnd,
    /// Bytes that were read, or of which only the write was seen; absent if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of a pipe: slots in use at the last look, and all; absent if they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<[u32; 2]>,
    /// For how long a thread waited for room, and for how long one waited for data.
    pub full_ns: u64,
    pub empty_ns: u64,
    /// The part of these that is lost: for room; for data of who is stopped or waits himself for room, or for each other; and
    /// for data of who runs, if some came.
    pub lost_ns: u64,
    /// A wait that took at least half of the window and had not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<StuckWait>,
}

/// The processes that have one end of a channel open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineEnd {
    /// The first ones, by process id.
    pub holders: Vec<ChannelHolder>,
    /// How many there are more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub more: u64,
}

/// A wait in which nothing happened, and who could end it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StuckWait {
    pub process: SeenProcess,
    /// It waits for room, not for data.
    pub room: bool,
    /// For how long it was seen.
    pub ns: u64,
    /// Over how many waits of others the cause is away.
    pub steps: u32,
    pub cause: WaitCause,
}

/// The process at which a chain of waits ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// Nobody is known who could end it.
    #[default]
    Unknown,
    /// They all wait for each other, or for themselves.
    Circle(Vec<SeenProcess>),
    /// A process that is stopped.
    Stopped(SeenProcess),
    /// A process that runs, or waits for a CPU or a disk.
    Runs(SeenProcess),
    /// A process that sleeps for something else.
    Sleeps { process: SeenProcess, reason: Option<WaitReason> },
}

impl WaitCause {
    /// The process, if it is one.
    pub fn process(&self) -> Option<&SeenProcess> {
        match self {
            Self::Unknown | Self::Circle(_) => None,
            Self::Stopped(process) | Self::Runs(process) | Self::Sleeps { process, .. } => Some(process),
        }
    }
}

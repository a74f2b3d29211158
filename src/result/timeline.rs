//! What processes and pipes did over time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Index in `recorded`.
    pub process: usize,
    pub running: Vec<f64>,
    /// Without a CPU.
    pub runnable: Vec<f64>,
    /// Asleep because a pipe was empty.
    pub empty: Vec<f64>,
    /// Asleep because a pipe was full.
    pub full: Vec<f64>,
    /// Of `runnable`: throttled by the CPU quota of its cgroup. Empty if it never was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<f64>,
    /// Stopped by a signal such as SIGSTOP. Empty if it never was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<f64>,
}

impl TimelineProcess {
    pub fn new(process: usize, slices: usize) -> Self {
        let [running, runnable, empty, full] = std::array::from_fn(|_| vec![0.0; slices]);
        Self { process, running, runnable, empty, full, throttled: Vec::new(), stopped: Vec::new() }
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

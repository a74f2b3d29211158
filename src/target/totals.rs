//! What the processes of a target did inside their window: bytes, calls, times, counters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Null under emulation.
    pub median_gib_s: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    /// Median absolute deviation, GiB/s.
    pub mad_gib_s: Option<f64>,
    /// GiB/s of each pair without collectors; empty under emulation.
    pub runs: Vec<f64>,
    /// Pairs further than 3 scaled MADs from the median; they are kept.
    pub outliers: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Processes {
    /// Sums over all writers where there are several.
    pub writer: ProcessTotals,
    pub reader: ProcessTotals,
    /// From the first writer's first call to the last process's end, monotonic raw clock.
    #[serde(default)]
    pub window_ns: u64,
    /// Each process apart, by pipe; empty where one writer and one reader share one pipe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairTotals>,
}

impl Processes {
    /// GiB/s that arrived at the readers within the window.
    #[must_use]
    pub fn gib_s(&self) -> f64 {
        gib_s(self.reader.bytes, self.window_ns)
    }
}

/// The processes around one pipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairTotals {
    /// From its first writer's first call to its last process's end.
    pub window_ns: u64,
    pub writers: Vec<ProcessTotals>,
    pub readers: Vec<ProcessTotals>,
}

impl PairTotals {
    /// GiB/s through this pipe.
    #[must_use]
    pub fn gib_s(&self) -> f64 {
        gib_s(self.readers.iter().map(|reader| reader.bytes).sum(), self.window_ns)
    }
}

fn gib_s(bytes: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { bytes as f64 / f64::from(1 << 30) / (ns as f64 / 1e9) }
}

/// What one process did inside its window. Counts of the median pair without collectors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessTotals {
    pub bytes: u64,
    /// System calls of the hot loop, polls and EAGAINs included.
    pub calls: u64,
    /// Calls that moved less than asked.
    pub short: u64,
    /// Calls that answered EAGAIN.
    pub eagain: u64,
    pub elapsed_ns: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// The CPU it was pinned to.
    pub cpu: Option<u32>,
    /// The pipe's capacity as the kernel says it (F_GETPIPE_SZ).
    pub pipe_size: u64,
    /// Huge pages got and asked for, in bytes.
    pub huge_pages: Option<GotAsked>,
    /// Hardware counters by name (`cycles`, `instructions`).
    pub counters: BTreeMap<String, u64>,
    /// Why there are none: `not available here: ...`.
    pub counters_reason: Option<String>,
    /// Bytes checked by `--verify`; absent without it.
    pub verified_bytes: Option<u64>,
    /// What `--verify` found wrong: torn or reused pages with their offsets.
    pub verify_errors: Vec<String>,
    /// What it had to do otherwise than asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ProcessTotals {
    /// Several processes as one: counts are added, `elapsed_ns` is the longest, `cpu` is there where all agree.
    #[must_use]
    pub fn sum<'a>(processes: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut processes = processes.into_iter();
        let mut sum = processes.next().cloned().unwrap_or_default();
        for other in processes {
            sum.bytes += other.bytes;
            sum.calls += other.calls;
            sum.short += other.short;
            sum.eagain += other.eagain;
            sum.elapsed_ns = sum.elapsed_ns.max(other.elapsed_ns);
            sum.user_ns += other.user_ns;
            sum.system_ns += other.system_ns;
            sum.voluntary_switches += other.voluntary_switches;
            sum.involuntary_switches += other.involuntary_switches;
            sum.minor_faults += other.minor_faults;
            sum.major_faults += other.major_faults;
            sum.cpu = sum.cpu.filter(|&cpu| other.cpu == Some(cpu));
            sum.pipe_size = sum.pipe_size.min(other.pipe_size);
            sum.huge_pages = match (sum.huge_pages, other.huge_pages) {
                (Some(a), Some(b)) => Some(GotAsked { got: a.got + b.got, asked: a.asked + b.asked }),
                (a, b) => a.or(b),
            };
            for (name, value) in &other.counters {
                *sum.counters.entry(name.clone()).or_default() += value;
            }
            sum.counters_reason = sum.counters_reason.or_else(|| other.counters_reason.clone());
            sum.verified_bytes = match (sum.verified_bytes, other.verified_bytes) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
            sum.verify_errors.extend(other.verify_errors.iter().cloned());
            for note in &other.notes {
                if !sum.notes.contains(note) {
                    sum.notes.push(note.clone());
                }
            }
        }
        sum
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GotAsked {
    pub got: u64,
    pub asked: u64,
}

//! Totals of a target's processes in their window: bytes, calls, times, counters.

use crate::profile::{ByProcess, ProcessName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Null under emulation.
    pub median_gib_s: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    /// Median absolute deviation, GiB/s.
    pub mad_gib_s: Option<f64>,
    /// GiB/s of each unprofiled run; empty under emulation.
    pub runs: Vec<f64>,
    /// Runs further than 3 scaled MADs from the median; they are included.
    pub outliers: u32,
}

/// The totals of all processes of a target, and of the pipes between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Processes {
    /// In the order in which bytes flow. Processes of one name are summed.
    pub totals: ByProcess<ProcessTotals>,
    /// From the first call to the end of the last process, monotonic raw clock.
    pub window_ns: u64,
    /// Each pipe separately; empty for one pipe between two processes, which the totals describe completely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipes: Vec<PipeTotals>,
}

static NOTHING: LazyLock<ProcessTotals> = LazyLock::new(ProcessTotals::default);

impl Processes {
    /// The totals of `name`; zeros if there is no such process.
    pub fn of(&self, name: ProcessName) -> &ProcessTotals {
        self.totals.get(name).unwrap_or(&NOTHING)
    }

    /// The totals of this name, inserted if missing.
    pub fn of_mut(&mut self, name: ProcessName) -> &mut ProcessTotals {
        self.totals.get_or_default(name)
    }

    /// The first process, which has no pipe before it.
    pub fn first(&self) -> &ProcessTotals {
        self.totals.values().next().unwrap_or(&NOTHING)
    }

    /// The last process, which has no pipe after it.
    pub fn last(&self) -> &ProcessTotals {
        self.totals.values().next_back().unwrap_or(&NOTHING)
    }

    /// GiB/s that arrived at the last process within the window.
    pub fn gib_s(&self) -> f64 {
        gib_s(self.last().bytes, self.window_ns)
    }
}

/// One pipe and the processes at its two ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeTotals {
    /// From the first call at its writing end to the end of its last process.
    pub window_ns: u64,
    pub from: PipeEnd,
    pub to: PipeEnd,
}

/// The processes at one end of a pipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeEnd {
    /// Their name.
    pub process: ProcessName,
    /// Each process separately.
    pub totals: Vec<ProcessTotals>,
}

impl PipeTotals {
    /// GiB/s through this pipe.
    pub fn gib_s(&self) -> f64 {
        gib_s(self.to.totals.iter().map(|reader| reader.bytes).sum(), self.window_ns)
    }
}

fn gib_s(bytes: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { bytes as f64 / f64::from(1 << 30) / (ns as f64 / 1e9) }
}

/// Totals of one process in its window; in a document, those of the median unprofiled run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessTotals {
    pub bytes: u64,
    /// System calls of the hot loop, polls and EAGAINs included.
    pub calls: u64,
    /// Calls that moved fewer bytes than requested.
    pub short: u64,
    /// Calls that returned EAGAIN.
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
    /// The pipe's capacity as reported by the kernel (F_GETPIPE_SZ).
    pub pipe_size: u64,
    /// Huge pages obtained and requested, in bytes.
    pub huge_pages: Option<GotAsked>,
    /// Hardware counters by name (`cycles`, `instructions`). Of a stage that an emulator counted: `instructions`, the bytes
    /// that instructions with a `rep` prefix copied, cleared or searched (`rep_bytes`), each of which counts once, and
    /// `page_faults`.
    pub counters: BTreeMap<String, u64>,
    /// The reason if there are none: `not available here: ...`.
    pub counters_reason: Option<String>,
    /// Bytes checked by `--verify`; absent without it.
    pub verified_bytes: Option<u64>,
    /// Errors found by `--verify`: torn or reused pages with their offsets.
    pub verify_errors: Vec<String>,
    /// How it deviated from the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ProcessTotals {
    /// Sum several processes: counts are added, `elapsed_ns` is the maximum, `cpu` is present if it is the same for
    /// all.
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

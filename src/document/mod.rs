//! `run.json`: what a run measured, on what, and how far to believe it. docs/run.schema.json is made from here.

pub mod code;
pub mod request;

pub use crate::kernel::environment::{Emulator, Environment};
pub use crate::kernel::info::KernelInfo;
pub use request::{Collector, Loader, Request, Selection};

use crate::kernel::roles::{Resolution, Skew};
use crate::profile::{Profile, RoleShare, Unit};
use crate::workload::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `schema` of documents that this version writes: a name, and a number that rises with every change that a
/// reader of the old form would misread.
pub const SCHEMA: &str = "pipeprof.run/1";

/// What executed the instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutedOn {
    Hardware,
    Kvm,
    /// Emulated: its clock says nothing about speed.
    Tcg,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    pub schema: String,
    /// pipeprof's version and build: `0.1.0 (build 1a2b3c4d)`.
    pub version: String,
    /// UTC, RFC 3339; the only time of day in the document.
    pub started: String,
    pub command: String,
    pub mode: String,
    pub workload: Spec,
    pub kernel: KernelInfo,
    pub executed_on: ExecutedOn,
    /// What the attribution's weights count.
    pub unit: Unit,
    pub environment: Environment,
    pub throughput: Throughput,
    pub processes: Processes,
    pub attribution: Attribution,
    /// Calls and times of probed functions.
    pub functions: Vec<FunctionCalls>,
    pub symbols: Vec<Resolution>,
    pub collectors: Vec<CollectorReport>,
    /// Raw values of every pair, in the order in which they ran.
    pub runs: Vec<PairRecord>,
    pub warnings: Vec<Warning>,
    /// Files beside this one, by content: `writer.folded`.
    pub files: Vec<String>,
}

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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// Which collector's profile was attributed.
    pub collector: String,
    pub writer: Vec<RoleShare>,
    pub reader: Vec<RoleShare>,
    /// Instruction profiles only: what neither executed.
    pub other: Vec<RoleShare>,
}

/// Calls of one probed function by one side, inside the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCalls {
    /// `writer`, `reader` or `other`.
    pub side: String,
    pub role: String,
    pub symbol: String,
    /// `kprobe`, `hardware-breakpoint`, `insn`.
    pub how: String,
    pub calls: u64,
    /// Wall time inside, callees included; absent where only calls were counted.
    pub total_ns: Option<u64>,
    /// Wall time inside, less that of probed callees.
    pub self_ns: Option<u64>,
    /// `self_ns` less the calibrated cost of the probes; absent where that would be 20 % or more.
    pub corrected_self_ns: Option<u64>,
    /// Calls by duration: element i counts those of 2^i to 2^(i+1)-1 ns.
    pub log2_ns: Vec<u64>,
    /// Returns that the kernel did not report.
    pub missed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectorReport {
    pub name: Collector,
    pub status: Status,
    /// Why it is not `ok`.
    pub reason: Option<String>,
    /// Samples, probe hits, calls or instructions taken.
    pub samples: u64,
    pub lost: u64,
    /// Samples whose leaf has no symbol or role.
    pub unresolved: u64,
    /// Whether its samples pile up where interrupts come back on; absent where it took no stacks.
    #[serde(default)]
    pub skew: Option<Skew>,
    /// Slow-down that it causes, per cent of elapsed time; absent where not measured.
    pub cost_percent: Option<f64>,
    pub cost_ci95: Option<[f64; 2]>,
    /// More for people: `cpu-clock at 4999 Hz`, `loaded by libbpf`.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// Gave something, not all: see the reason.
    Partial,
    Unavailable,
    Failed,
}

/// One pair's raw values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairRecord {
    /// The collectors that watched it; empty for a pair alone.
    pub collectors: Vec<String>,
    pub processes: Processes,
}

/// Something that the reader of a number has to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable, in kebab case: `samples-lost`.
    pub code: String,
    pub message: String,
    /// What to do about it; empty where there is nothing to do.
    pub action: String,
}

/// All that a run yields: the document (`run.json`) and the stacks that its attribution was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub document: Document,
    pub profiles: Vec<Profile>,
    /// Exact profiles only: the executed code. A file of its own, not sent from guests.
    #[serde(skip)]
    pub code: Option<code::ExecutedCode>,
}

/// The JSON Schema of [`Document`], as text: docs/run.schema.json.
///
/// # Errors
/// Never, as long as the schema has a form in JSON.
pub fn json_schema() -> anyhow::Result<String> {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("title".to_owned(), "pipeprof run.json".into());
    schema.insert("$id".to_owned(), SCHEMA.into());
    let mut text = serde_json::to_string_pretty(&schema)?;
    text.push('\n');
    Ok(text)
}

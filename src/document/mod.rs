//! `run.json`: what a run measured, on what, and how far to believe it. docs/run.schema.json is made from here.

pub mod code;
mod pair;
pub mod request;

pub use crate::kernel::environment::{Emulator, Environment};
pub use crate::kernel::info::KernelInfo;
pub use crate::target::{GotAsked, PipeEnd, PipeTotals, ProcessTotals, Processes, Throughput};
pub use crate::util::histogram::Log2Histogram;
pub use crate::util::warning::Warning;
pub use request::{Collector, Loader, Request, Selection};

use crate::experiment::Ending;
use crate::kernel::resolve::Resolution;
use crate::profile::{ByProcess, ProcessName, Profile, RoleShare, Unit};
use crate::roles::{RoleId, Skid};
use crate::workload::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    #[serde(with = "pair::processes")]
    #[schemars(with = "pair::processes::ProcessesSchema")]
    pub processes: Processes,
    #[serde(with = "pair::attribution")]
    #[schemars(with = "pair::attribution::AttributionSchema")]
    pub attribution: Attribution,
    /// Calls and times of probed functions.
    pub functions: Vec<FunctionCalls>,
    pub symbols: Vec<Resolution>,
    pub collectors: Vec<CollectorReport>,
    /// Raw values of every pair, in the order in which they ran.
    pub runs: Vec<PairRecord>,
    pub warnings: Vec<Warning>,
    /// What ended the run; absent where its number of runs was fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Files beside this one, by content: `writer.folded`.
    pub files: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// Which collector's profile was attributed.
    pub collector: String,
    /// Processes that have any share; [`ProcessName::OTHER`] in instruction profiles only.
    pub processes: ByProcess<Vec<RoleShare>>,
}

impl Attribution {
    /// The shares of one process; empty where there are none.
    #[must_use]
    pub fn of(&self, name: ProcessName) -> &[RoleShare] {
        self.processes.get(name).map_or(&[], Vec::as_slice)
    }

    /// All shares of the target's processes.
    pub fn of_target(&self) -> impl Iterator<Item = &RoleShare> {
        self.processes.of_target().flat_map(|(_, shares)| shares)
    }
}

/// Calls of one probed function by one process, inside the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCalls {
    /// `writer`, `reader` or `other`.
    #[serde(rename = "side")]
    pub process: ProcessName,
    pub role: RoleId,
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
    pub log2_ns: Log2Histogram,
    /// Returns that the kernel did not report.
    pub missed: u64,
}

impl FunctionCalls {
    /// No calls yet of `symbol`, which stands for `role`, by `process`; counted by `how`.
    #[must_use]
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
    /// Why it is not `ok`.
    pub reason: Option<String>,
    /// Samples, probe hits, calls or instructions taken.
    pub samples: u64,
    pub lost: u64,
    /// Samples whose leaf has no symbol or role.
    pub unresolved: u64,
    /// Whether samples that are due while interrupts are off are taken later; absent where it took no stacks.
    #[serde(default, alias = "skew")]
    pub skid: Option<Skid>,
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
    #[serde(with = "pair::processes")]
    #[schemars(with = "pair::processes::ProcessesSchema")]
    pub processes: Processes,
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

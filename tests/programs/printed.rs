//! What the programs print as JSON, and the tests read.

use pipeprof::util::warning::WarningCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A collector's results for the family.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Found {
    pub complete: bool,
    pub reason: Option<String>,
    /// Calls of `pipe_write` by all watched processes.
    pub writes: u64,
    /// Timed calls: returns in the histogram.
    pub returns: u64,
    pub missed: u64,
    /// Weight of the stacks, by process.
    pub weights: BTreeMap<String, u64>,
    pub samples: u64,
    /// The CPU time of the whole family.
    pub cpu_ns: u64,
    pub notes: Vec<String>,
    /// Code and message of each warning.
    pub warnings: Vec<(WarningCode, String)>,
}

/// Kernel objects created by collectors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KernelObjects {
    /// BPF programs, by name.
    pub programs: Vec<String>,
    /// tracefs instances.
    pub instances: Vec<String>,
    /// Probes defined in tracefs.
    pub probes: Vec<String>,
    /// The tracer at the top of tracefs, if it is not `nop`.
    pub tracer: Option<String>,
}

impl KernelObjects {
    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What was found while a collector was armed, and after a signal ended it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub armed: KernelObjects,
    pub after: KernelObjects,
}

/// What was found, and when.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Story {
    pub before: KernelObjects,
    /// By signal.
    pub ended: Vec<Ended>,
    pub after_next: KernelObjects,
    /// Notes and warnings of the next run.
    pub next_notes: Vec<String>,
}

//! What is measured: processes and the pipes between them. The built-in pair ([`crate::workload`]) is one target.

pub mod pipeline;
mod totals;

pub use totals::{GotAsked, PipeEnd, PipeTotals, ProcessTotals, Processes, Throughput};

use crate::profile::{ByProcess, ProcessName};

/// The processes to watch, alive and waiting at the gate of their window, in the order of the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    pub processes: Vec<WatchedProcess>,
}

/// The process ids that go by one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedProcess {
    pub name: ProcessName,
    pub pids: Vec<u32>,
}

impl Watched {
    /// One process.
    #[must_use]
    pub fn one(name: ProcessName, pid: u32) -> Self {
        Self { processes: vec![WatchedProcess { name, pids: vec![pid] }] }
    }

    /// All process ids with their names.
    pub fn all(&self) -> impl Iterator<Item = (u32, ProcessName)> {
        self.processes.iter().flat_map(|process| process.pids.iter().map(|pid| (*pid, process.name)))
    }

    /// The process ids that go by `name`.
    #[must_use]
    pub fn pids(&self, name: ProcessName) -> &[u32] {
        self.processes.iter().find(|process| process.name == name).map_or(&[], |process| &process.pids)
    }

    /// Nothing yet of each process, in the order of the target.
    #[must_use]
    pub fn by_process<T: Default>(&self) -> ByProcess<T> {
        self.processes.iter().map(|process| (process.name, T::default())).collect()
    }
}

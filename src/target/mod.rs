//! What is measured: processes and the pipes between them. The built-in pair ([`crate::workload`]) is one target.

pub mod pipeline;
mod settle;
mod totals;

pub use totals::{GotAsked, PipeEnd, PipeTotals, ProcessTotals, Processes, Throughput};

use crate::profile::{ByProcess, ProcessName};
use anyhow::Result;

/// Something that can be measured any number of times.
pub trait Target {
    /// Start its processes and bring them to their gate: alive, ready, suspended.
    ///
    /// # Errors
    /// What this machine refuses, or an interruption.
    fn start(&self) -> Result<Box<dyn Running>>;
}

/// The processes of a target, at their gate or beyond. Dropping it kills and reaps those that it started.
pub trait Running {
    /// Who the processes are, for collectors.
    fn watched(&self) -> Watched;

    /// Open the gate: the window begins.
    ///
    /// # Errors
    /// When a process has gone, or on interruption.
    fn release(&mut self) -> Result<()>;

    /// [`Self::release`] at a round time of the clock, when the kernel has come to rest. In a deterministic guest, timers
    /// then fall at the same places of every window.
    ///
    /// # Errors
    /// As [`Self::release`].
    fn release_settled(&mut self) -> Result<()> {
        settle::wait()?;
        self.release()
    }

    /// Wait for the end of the window. The processes stay, asleep, until collectors have left them.
    ///
    /// # Errors
    /// What a process reports, a window that does not end, or an interruption.
    fn wait_for_end(&mut self) -> Result<()>;

    /// As [`Self::wait_for_end`]; then what each process did. They end.
    ///
    /// # Errors
    /// As [`Self::wait_for_end`].
    fn wait(&mut self) -> Result<Processes>;
}

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

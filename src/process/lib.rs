//! Targets: processes to measure, and the pipes between them. The built-in workload (`workload`) is one.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {::profile, ::util};

mod pair;
mod phase;
pub mod settle;
mod totals;

pub use phase::Phase;
pub use totals::{GotAsked, PipeEnd, PipeTotals, ProcessTotals, Processes, Throughput};

use crate::profile::{ByProcess, ProcessName};
use anyhow::Result;
use std::collections::BTreeMap;

/// Something that can be measured any number of times.
pub trait Target {
    /// Start its processes and wait until they are ready and suspended. A target with a warm-up extends it by the
    /// phase's share.
    fn start(&self, phase: Phase) -> Result<Box<dyn Running>>;

    /// As [`Self::start`], for a window of some milliseconds, in which the processes make the same calls. `None` if that
    /// is not possible.
    ///
    /// # Errors
    /// As [`Self::start`].
    fn start_short(&self) -> Result<Option<Box<dyn Running>>> {
        Ok(None)
    }
}

/// The processes of a target, suspended or running. Dropping this kills and reaps those that it started.
pub trait Running {
    /// The processes, for collectors.
    fn watched(&self) -> Watched;

    /// Release the processes: the window begins.
    fn release(&mut self) -> Result<()>;

    /// [`Self::release`] at a round time of the clock, when the kernel is idle. In a deterministic guest, timers then
    /// fire at the same points of every window of this phase.
    ///
    /// # Errors
    /// As [`Self::release`].
    fn release_settled(&mut self, phase: Phase) -> Result<()> {
        settle::wait(phase)?;
        self.release()
    }

    /// Wait for the end of the window. The processes then sleep until collectors have detached.
    ///
    /// # Errors
    /// An error of a process, a window that does not end, or an interruption.
    fn wait_for_end(&mut self) -> Result<()>;

    /// [`Self::wait_for_end`], then end the processes and return their totals.
    ///
    /// # Errors
    /// As [`Self::wait_for_end`].
    fn wait(&mut self) -> Result<Processes>;
}

/// The processes to watch, alive and suspended, in the order of the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    pub processes: Vec<WatchedProcess>,
    /// Whether each process that they start has counts of its own, and each program that one of them executes. Their names
    /// are known afterwards ([`Programs`]).
    pub programs: bool,
}

/// The process ids of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedProcess {
    pub name: ProcessName,
    pub pids: Vec<u32>,
}

impl Watched {
    /// One process.
    pub fn one(name: ProcessName, pid: u32) -> Self {
        Self { processes: vec![WatchedProcess { name, pids: vec![pid] }], programs: false }
    }

    /// All process ids with their names.
    pub fn all(&self) -> impl Iterator<Item = (u32, ProcessName)> {
        self.processes.iter().flat_map(|process| process.pids.iter().map(|pid| (*pid, process.name)))
    }

    /// The process ids of `name`.
    pub fn pids(&self, name: ProcessName) -> &[u32] {
        self.processes.iter().find(|process| process.name == name).map_or(&[], |process| &process.pids)
    }

    /// An empty value for each process, in the order of the target.
    pub fn by_process<T: Default>(&self) -> ByProcess<T> {
        self.processes.iter().map(|process| (process.name, T::default())).collect()
    }
}

/// A program in a process: the process id in the initial PID namespace, and the bytes of the program's name as two
/// numbers, as /proc/PID/comm has it.
pub type ProgramId = (u32, [u64; 2]);

/// The programs that watched processes were and became.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// Their names in results. What is not here is not part of the target.
    pub names: BTreeMap<ProgramId, ProcessName>,
    /// What each of [`Watched::processes`] was at the start.
    pub first: Vec<ProgramId>,
}

impl Programs {
    /// Whether this is the id of a process, and not that of another thread.
    pub fn has_process(&self, id: u32) -> bool {
        self.names.range((id, [0; 2])..).next().is_some_and(|((process, _), _)| *process == id)
    }
}

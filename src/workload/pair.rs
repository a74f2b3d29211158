//! Access to the built-in workload's two processes in a target.

use crate::process::{ProcessTotals, Processes};
use crate::profile::ProcessName;

impl Processes {
    /// The two processes of the built-in workload around one pipe.
    #[must_use]
    pub fn of_pair(writer: ProcessTotals, reader: ProcessTotals, window_ns: u64) -> Self {
        let totals = [(ProcessName::WRITER, writer), (ProcessName::READER, reader)];
        Self { totals: totals.into_iter().collect(), window_ns, pipes: Vec::new() }
    }

    /// Totals of all writers.
    #[must_use]
    pub fn writer(&self) -> &ProcessTotals {
        self.of(ProcessName::WRITER)
    }

    /// Totals of all readers.
    #[must_use]
    pub fn reader(&self) -> &ProcessTotals {
        self.of(ProcessName::READER)
    }
}

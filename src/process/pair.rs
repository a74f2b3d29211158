//! Access to the built-in workload's two processes in a target.

use super::{ProcessTotals, Processes};
use crate::profile::ProcessName;

impl Processes {
    /// The two processes of the built-in workload around one pipe.
    pub fn of_pair(writer: ProcessTotals, reader: ProcessTotals, window_ns: u64) -> Self {
        let totals = [(ProcessName::WRITER, writer), (ProcessName::READER, reader)];
        Self { totals: totals.into_iter().collect(), window_ns, pipes: Vec::new() }
    }

    pub fn writer(&self) -> &ProcessTotals {
        self.of(ProcessName::WRITER)
    }

    pub fn reader(&self) -> &ProcessTotals {
        self.of(ProcessName::READER)
    }

    /// CPU time of a process per KiB that the reader got, in ns.
    pub fn cpu_per_kib(&self, process: ProcessName) -> f64 {
        let process = self.of(process);
        (process.user_ns + process.system_ns) as f64 / (self.reader().bytes.max(1) as f64 / 1024.0)
    }

    /// Calls of writer and reader per MiB that the reader got.
    pub fn calls_per_mib(&self) -> [f64; 2] {
        let mib = self.reader().bytes.max(1) as f64 / f64::from(1 << 20);
        [self.writer(), self.reader()].map(|process| process.calls as f64 / mib)
    }
}

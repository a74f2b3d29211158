//! What is measured: processes and the pipes between them. The built-in pair ([`crate::workload`]) is one target.

mod totals;

pub use totals::{GotAsked, PairTotals, ProcessTotals, Processes, Throughput};

/// The processes to watch, alive and waiting at the gate of their window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    pub writers: Vec<u32>,
    pub readers: Vec<u32>,
}

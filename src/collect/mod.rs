//! Collectors: what watches a pair while it moves bytes. One module each; [`Collect`] is what they have in common.

use crate::document::{FunctionCalls, Status, Warning};
use crate::profile::{Folded, Side, Unit};
use anyhow::Result;

pub use crate::workload::Watched;

/// A collector. `arm` is called once both processes wait at the gate, `finish` once both have ended their window.
/// Dropping it at any time leaves nothing behind in the kernel.
pub trait Collect {
    /// Attach to `watched`. What cannot be attached is said in [`Collected::reason`] where the rest still gives
    /// something.
    ///
    /// # Errors
    /// When nothing at all can be collected: the reason, and what would help.
    fn arm(&mut self, watched: &Watched) -> Result<()>;

    /// Detach and hand over.
    ///
    /// # Errors
    /// When what was collected cannot be read.
    fn finish(&mut self) -> Result<Collected>;
}

/// What a collector hands over of one pair.
#[derive(Debug, Clone)]
pub struct Collected {
    pub status: Status,
    pub reason: Option<String>,
    pub unit: Unit,
    pub stacks: Vec<(Side, Folded)>,
    pub functions: Vec<FunctionCalls>,
    pub samples: u64,
    pub lost: u64,
    pub unresolved: u64,
    pub notes: Vec<String>,
    pub warnings: Vec<Warning>,
}

//! Stacks, folding, attribution to roles; without input or output.

pub(crate) mod attribution;
pub(crate) mod cycles;
pub(crate) mod folded;
pub(crate) mod process;
mod schedule;

pub use attribution::{Attributor, Moved, RoleShare, attribute};
pub use cycles::{ClassCounts, ClassifiedStacks, CycleModel, RoleCycles};
pub use folded::Folded;
pub use process::{ByProcess, ProcessName, listed};
pub use schedule::SchedulingWeight;

use crate::roles::Skid;
use serde::{Deserialize, Serialize};

/// Unit of a profile's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Samples,
    Instructions,
    Nanoseconds,
    /// Instructions priced by a model ([`CycleModel`]).
    EstimatedCycles,
}

/// One collector's stacks of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub process: ProcessName,
    /// The collector's name: `sample`, `insn`, `fgraph`.
    pub collector: String,
    pub unit: Unit,
    /// The skid of its samples.
    #[serde(alias = "skew")]
    pub skid: Skid,
    pub stacks: Folded,
}

//! Pure: stacks, folding, attribution to roles. No file, no process, no kernel is touched here.

pub mod attribution;
pub mod folded;

pub use attribution::{Moved, RoleShare, attribute};
pub use folded::Folded;

use crate::roles::Skew;
use serde::{Deserialize, Serialize};

/// Whose stacks a profile holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Writer,
    Reader,
    /// What neither of them executed: idle, kernel threads, the controller.
    Other,
}

impl Side {
    /// The name in file names and stacks: `writer`, `reader`, `other`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Reader => "reader",
            Self::Other => "other",
        }
    }
}

/// What the weights of a profile count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    Samples,
    Instructions,
    Nanoseconds,
}

/// One collector's stacks of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub side: Side,
    /// The collector's name: `sample`, `insn`, `fgraph`.
    pub collector: String,
    pub unit: Unit,
    /// Where its stacks pile up.
    pub skew: Skew,
    pub stacks: Folded,
}

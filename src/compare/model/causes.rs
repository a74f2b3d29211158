//! Why two kernels differ: the parts of source, configuration and compiler.

use crate::roles::RoleId;
use serde::{Deserialize, Serialize};

/// What a kernel is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum CausePart {
    Source,
    Configuration,
    Compiler,
}

impl CausePart {
    /// In the order of the columns of a split.
    pub const ALL: [Self; 3] = [Self::Source, Self::Configuration, Self::Compiler];

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The change between two kernels in one mode, split by cause: kernels were built in which one thing after the other is
/// that of the second kernel. Per KiB, without the roles that depend on scheduling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseSplit {
    /// The two kernels, as they were given.
    pub kernels: [String; 2],
    /// What differs, before and after.
    pub differing: Vec<CauseNames>,
    /// In how many orders the three were changed.
    pub orders: usize,
    /// The kernels as they were built from their parts.
    pub before: f64,
    pub after: f64,
    pub total: CauseRow,
    /// Largest change first.
    pub roles: Vec<CauseRow>,
    /// How much the rebuilt kernels differ from the kernels that are compared, before and after; absent if they are
    /// the same kernels.
    pub(crate) residuals: [Option<CauseResidual>; 2],
}

/// One part that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseNames {
    pub part: CausePart,
    pub before: String,
    pub after: String,
}

/// A kernel as it was rebuilt, compared with the kernel itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseResidual {
    /// The kernel's label.
    pub label: String,
    /// The kernel itself, per KiB without scheduling.
    pub image: f64,
    pub rebuilt: f64,
    /// The role with the largest difference, and that difference, per KiB.
    pub role: String,
    pub(crate) role_delta: f64,
}

/// The change of the total or of one role, split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseRow {
    /// Absent for the total.
    pub role: Option<RoleId>,
    pub title: String,
    pub colour: String,
    /// The change between the rebuilt kernels.
    pub delta: f64,
    /// In the order of `CausePart::ALL`.
    pub parts: [CauseValue; 3],
    /// How much a part differs between orders at most: the largest value less the smallest.
    pub order: f64,
}

/// What one cause contributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CauseValue {
    /// The mean over the orders.
    pub delta: f64,
    /// Half the range over the orders, and what the windows leave open.
    pub uncertainty: f64,
    /// Whether the value is larger than its uncertainty.
    pub certain: bool,
}

//! Attribution: every stack goes to exactly one role, that of its deepest frame that has one.

use super::Folded;
use serde::{Deserialize, Serialize};

/// What one role took of one side's profile. The shares of one side sum to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoleShare {
    /// The role's id, such as `page-alloc`.
    pub role: String,
    /// The frames by which stacks went to this role, heaviest first.
    pub symbols: Vec<String>,
    /// Part of the side's total weight, 0 to 1.
    pub share: f64,
    /// 95 % interval of the share; absent where the weights are exact.
    pub share_ci95: Option<[f64; 2]>,
    /// The weight itself, in the profile's unit.
    pub weight: u64,
    /// Nanoseconds per KiB moved; absent in instruction profiles and under emulation.
    pub ns_per_kib: Option<f64>,
    /// Instructions per KiB moved; instruction profiles only.
    pub instructions_per_kib: Option<f64>,
    /// Instructions per system call of this side; instruction profiles only.
    pub instructions_per_call: Option<f64>,
    /// Calls of the role's probed functions per MiB moved; absent where nothing counted them.
    pub calls_per_mib: Option<f64>,
}

/// Attribute all stacks of `folded`. Roles come heaviest first; those with no weight are left out.
#[must_use]
pub fn attribute(folded: &Folded) -> Vec<RoleShare> {
    let _ = folded;
    todo!("attribution")
}

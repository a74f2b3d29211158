//! Warnings: a stable code, what happened, what to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A warning about a result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable identifier in kebab case: `samples-lost`.
    pub code: String,
    pub message: String,
    /// What the user can do; empty if nothing helps.
    pub action: String,
}

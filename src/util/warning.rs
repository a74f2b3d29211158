//! Warnings: a stable code, what happened, what to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that the reader of a number has to know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable, in kebab case: `samples-lost`.
    pub code: String,
    pub message: String,
    /// What to do about it; empty where there is nothing to do.
    pub action: String,
}

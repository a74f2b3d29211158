//! What a comparison says about its columns: settings, warnings, and what is missing.

use serde::{Deserialize, Serialize};

/// A setting that differs between columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `kernel.release`, `CONFIG_PREEMPT`, `workload.buffer_size`.
    pub what: String,
    /// Why it matters to pipes; for a configuration option, what shows that it does. Empty if unknown.
    pub matters: String,
    /// Configuration options: the modes to which it was shown to matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<String>,
    /// One value per column; `-` if it has none, `unknown` for options of an unknown configuration.
    pub values: Vec<String>,
}

/// A setting that is the same in all columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    pub what: String,
    pub value: String,
}

/// A warning, with the affected columns and cases (empty for all).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Caveat {
    pub text: String,
    pub columns: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<CaveatCase>,
}

impl Caveat {
    /// One that holds for everything.
    pub(crate) fn general(text: String) -> Self {
        Self { text, columns: Vec::new(), cases: Vec::new() }
    }
}

/// A mode, with the number of CPUs if the comparison has several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CaveatCase {
    pub mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
}

/// A column and mode without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingCell {
    pub column: String,
    pub mode: String,
    /// Of the guest, if the comparison measures several numbers of CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    pub reason: String,
}

//! Processes that failed, or were to end and did not.

use crate::defaults::is_default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a signal that ends a process by default did not end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InVain {
    /// It ignores it (SIG_IGN).
    Ignored,
    /// It has a handler.
    Handled,
    /// It has blocked it, and it is pending.
    Blocked,
    /// It is process 1 of its PID namespace and has no handler.
    Init,
}

/// One process that ended with an exit code other than 0: the row that it belongs to may be that of several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedProcess {
    /// Index in `recorded`.
    pub process: usize,
    /// In the PID namespace of pipeprof; in the initial one if it has none there.
    pub pid: u32,
    /// Who forked it; 0 if that was not seen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent: u32,
    /// Its command line: the first 192 bytes. Empty if it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    pub exit_code: u8,
    /// From when it executed that program to its end, from the begin of the window, ns.
    pub lived_ns: [u64; 2],
    /// Writes to its standard error.
    #[serde(default, skip_serializing_if = "is_default")]
    pub errors: u64,
    /// Whether its standard error was /dev/null: a failure is expected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// Whether its standard input or output was a channel that is not that of who started it, as in a pipeline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub piped: bool,
    /// Whether the same command line was executed again after its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Whether the same process started another one while it ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
}

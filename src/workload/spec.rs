//! What to run: the axes of a workload. A mode is a named setting of them (see [`crate::workload::modes`]).

use serde::{Deserialize, Serialize};

/// The call that puts bytes into the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Writer {
    Write,
    Vmsplice,
    Splice,
}

/// The call that takes bytes out of the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Reader {
    Read,
    Splice,
}

/// How much one pair moves inside its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    Bytes(u64),
    /// Nanoseconds of the monotonic raw clock.
    DurationNs(u64),
    /// System calls of the writer: what deterministic guests count by.
    Calls(u64),
}

/// Which CPUs the two processes are bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// Two CPUs of this machine, chosen from its topology; one CPU for both where there is only one.
    Auto,
    None,
    Cpus {
        writer: u32,
        reader: u32,
    },
}

/// A workload, all axes settled. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spec {
    pub writer: Writer,
    pub reader: Reader,
    pub huge_pages: bool,
    pub busy_loop: bool,
    pub poll: bool,
    pub gift: bool,
    pub mlock: bool,
    pub no_touch: bool,
    pub contiguous: bool,
    pub buffer_size: u64,
    /// What the pipe is set to; absent: the writer's choice (one half for vmsplice, the kernel's default else).
    pub pipe_size: Option<u64>,
    pub amount: Amount,
    pub pin: Pin,
    pub verify: bool,
    /// Bytes moved before the window opens.
    pub warmup_bytes: u64,
}

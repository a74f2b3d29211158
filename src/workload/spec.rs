//! Types of a workload's axes ([`super::axes`]), and values derived from them.

pub use super::axes::Spec;
use serde::{Deserialize, Serialize};

/// Bytes of a page on x86-64.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of a huge page.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;
/// The default source of `splice`, `read-write` and `stdio` writers.
pub(crate) const DEFAULT_SOURCE: &str = "/dev/zero";

/// The name of a source that every kernel can splice from: zeros in a file in memory.
pub const MEMORY_SOURCE: &str = "memory";

/// The call that puts bytes into the pipe.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
    strum::EnumMessage,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Writer {
    /// write(2) of one buffer
    Write,
    /// vmsplice(2) of two halves of a buffer, alternately
    Vmsplice,
    /// splice(2) from the source
    Splice,
    /// read(2) from the source, then write(2), as cat does
    ReadWrite,
    /// fgetc and fputc through libc's buffers
    Stdio,
}

impl Writer {
    /// Whether it takes its bytes from a file.
    pub fn has_source(self) -> bool {
        matches!(self, Self::Splice | Self::ReadWrite | Self::Stdio)
    }

    /// Whether the kernel copies its bytes into pages that it allocates.
    pub fn copies(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite | Self::Stdio)
    }
}

/// The call that takes bytes out of the pipe.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
    strum::EnumMessage,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Reader {
    /// read(2), and count
    Read,
    /// splice(2) into /dev/null
    Splice,
    /// read(2), then write(2) to /dev/null, as dd does
    ReadWrite,
}

/// The amount to move in the window of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Through the pipe, by all its writers together.
    Bytes(u64),
    /// Nanoseconds of the monotonic clock.
    DurationNs(u64),
    /// Transfers (calls that move bytes into the pipe) of each writer, for deterministic guests.
    Calls(u64),
}

/// The CPUs of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// Two CPUs of this machine, chosen by topology; or the only CPU for both.
    Auto,
    None,
    Cpus {
        writer: u32,
        reader: u32,
    },
}

impl Spec {
    /// Bytes of one block: the size of the writer's call. Half of the buffer for vmsplice.
    pub fn block(&self) -> u64 {
        match self.writer {
            Writer::Vmsplice => self.buffer_size / 2,
            _ => self.buffer_size,
        }
    }

    /// Bytes that the reader requests in one call.
    pub(crate) fn reader_block(&self) -> u64 {
        self.reader_buffer_size.unwrap_or(self.buffer_size)
    }

    /// Size to set for the pipe; `None` keeps the kernel's default. For vmsplice: the largest pipe (a power of two of
    /// pages) that is not larger than one half, so that a half in the pipe has displaced the other one.
    pub(crate) fn pipe_target(&self) -> Option<u64> {
        match (self.pipe_size, self.writer) {
            (Some(size), _) => Some(size),
            (None, Writer::Vmsplice) => Some((1 << self.block().max(PAGE).ilog2()).min(1 << 31)),
            (None, _) => None,
        }
    }
}

//! The parts of a workload that are not plain numbers, and what follows from its axes ([`super::axes`]).

pub use super::axes::Spec;
use serde::{Deserialize, Serialize};

/// Bytes of a page on the only architecture there is here.
pub const PAGE: u64 = 4096;
/// Bytes of a huge page.
pub const HUGE_PAGE: u64 = 2 << 20;
/// The source of `splice`, `read-write` and `stdio` writers where none is given.
pub const DEFAULT_SOURCE: &str = "/dev/zero";

/// The call that puts bytes into the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Writer {
    /// write(2) of one buffer
    Write,
    /// vmsplice(2) of two halves of a buffer in turn
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
    #[must_use]
    pub fn has_source(self) -> bool {
        matches!(self, Self::Splice | Self::ReadWrite | Self::Stdio)
    }
}

/// The call that takes bytes out of the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Reader {
    /// read(2), and count
    Read,
    /// splice(2) into /dev/null
    Splice,
    /// read(2), then write(2) to /dev/null, as dd does
    ReadWrite,
}

/// How much one pair moves inside its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Through the pipe, by all its writers together.
    Bytes(u64),
    /// Nanoseconds of the monotonic clock.
    DurationNs(u64),
    /// Transfers (calls that move bytes into the pipe) of each writer: what deterministic guests count by.
    Calls(u64),
}

/// Which CPUs the processes are bound to.
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

impl Spec {
    /// Bytes of one block of the writer: what one call is asked to move. Half a buffer for vmsplice.
    #[must_use]
    pub fn block(&self) -> u64 {
        match self.writer {
            Writer::Vmsplice => self.buffer_size / 2,
            _ => self.buffer_size,
        }
    }

    /// Bytes that the reader asks for in one call.
    #[must_use]
    pub fn reader_block(&self) -> u64 {
        self.reader_buffer_size.unwrap_or(self.buffer_size)
    }

    /// What the pipe is to be set to; `None` leaves the kernel's default. For vmsplice the largest size that a pipe
    /// can have (a power of two of pages) without being larger than one half, whence a half that went in whole has
    /// pushed the other out.
    #[must_use]
    pub fn pipe_target(&self) -> Option<u64> {
        match (self.pipe_size, self.writer) {
            (Some(size), _) => Some(size),
            (None, Writer::Vmsplice) => Some((1 << self.block().max(PAGE).ilog2()).min(1 << 31)),
            (None, _) => None,
        }
    }
}

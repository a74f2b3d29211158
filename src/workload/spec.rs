//! What to run: the axes of a workload. A mode is a named setting of them (see [`crate::workload::modes`]).

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
    /// Bytes moved before the window opens, by each writer, rounded up to whole blocks.
    pub warmup_bytes: u64,
    /// The reader's buffer; absent: as large as the writer's.
    #[serde(default)]
    pub reader_buffer_size: Option<u64>,
    /// What `splice`, `read-write` and `stdio` writers read from; absent: /dev/zero.
    #[serde(default)]
    pub source: Option<PathBuf>,
    /// A planted regression: the writer makes one system call more (a write of nothing) per so many transfers.
    #[serde(default)]
    pub extra_call_every: Option<u64>,
    /// Independent pipes at once.
    #[serde(default = "one")]
    pub pairs: u32,
    /// Writers on each pipe.
    #[serde(default = "one")]
    pub writers: u32,
    /// Readers on each pipe.
    #[serde(default = "one")]
    pub readers: u32,
    /// Tests only: lets a vmsplice pipe be larger than one half, so that pages are overwritten while in the pipe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsafe_pipe: bool,
}

fn one() -> u32 {
    1
}

/// `--mode write` for one second.
impl Default for Spec {
    fn default() -> Self {
        Self {
            writer: Writer::Write,
            reader: Reader::Read,
            huge_pages: false,
            busy_loop: false,
            poll: false,
            gift: false,
            mlock: false,
            no_touch: false,
            contiguous: false,
            buffer_size: 256 << 10,
            pipe_size: None,
            amount: Amount::DurationNs(1_000_000_000),
            pin: Pin::Auto,
            verify: false,
            warmup_bytes: 32 << 20,
            reader_buffer_size: None,
            source: None,
            extra_call_every: None,
            pairs: 1,
            writers: 1,
            readers: 1,
            unsafe_pipe: false,
        }
    }
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

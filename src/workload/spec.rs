//! A workload: the types of its axes ([`super::axes`]), their defaults, and values derived from them.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Bytes of a page on x86-64.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of a huge page.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;
/// The default source of `splice`, `read-write` and `stdio` writers.
pub(crate) const DEFAULT_SOURCE: &str = "/dev/zero";

/// The name of a source that every kernel can splice from: zeros in a file in memory.
pub const MEMORY_SOURCE: &str = "memory";

/// The call that puts bytes into the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
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
    /// io_uring's WRITE of buffers
    IoUring,
    /// io_uring's SPLICE from the source
    IoUringSplice,
}

impl Writer {
    /// Whether it takes its bytes from a file.
    pub fn has_source(self) -> bool {
        matches!(self, Self::Splice | Self::ReadWrite | Self::Stdio | Self::IoUringSplice)
    }

    /// Whether the kernel copies its bytes into pages that it allocates.
    fn copies(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite | Self::Stdio | Self::IoUring)
    }

    /// Whether its requests go through a ring.
    pub fn has_ring(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringSplice)
    }
}

/// The call that takes bytes out of the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Reader {
    /// read(2), and count
    Read,
    /// splice(2) into /dev/null
    Splice,
    /// read(2), then write(2) to /dev/null, as dd does
    ReadWrite,
    /// io_uring's READ, and count
    IoUring,
    /// io_uring's READ_MULTISHOT into buffers provided in advance, and count
    IoUringMultishot,
    /// io_uring's SPLICE into /dev/null
    IoUringSplice,
}

impl Reader {
    /// Whether its requests go through a ring.
    pub fn has_ring(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringMultishot | Self::IoUringSplice)
    }

    /// Whether it looks at the bytes, so that they can be checked.
    pub(crate) fn sees_bytes(self) -> bool {
        matches!(self, Self::Read | Self::IoUring | Self::IoUringMultishot)
    }
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

/// A workload with values for all axes. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spec {
    /// Whether an emulator counts the instructions: then the kernel's own counter, if it has one, counts those of the CPU, not
    /// of each process, which would cost instructions at each switch.
    #[serde(skip)]
    pub counted: bool,
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
    /// Size to set for the pipe; absent: one half of the buffer for vmsplice, otherwise the kernel's default.
    pub pipe_size: Option<u64>,
    pub amount: Amount,
    pub pin: Pin,
    pub verify: bool,
    /// Bytes moved by each writer before the window, rounded up to whole blocks.
    pub warmup_bytes: u64,
    /// The reader's buffer; absent: as large as the writer's.
    pub reader_buffer_size: Option<u64>,
    /// File that `splice`, `read-write` and `stdio` writers read from; absent: /dev/zero.
    pub source: Option<PathBuf>,
    /// An artificial regression: the writer makes one additional system call (an empty write) per this many transfers.
    pub extra_call_every: Option<u64>,
    /// Number of independent pipes.
    pub pairs: u32,
    /// Writers on each pipe.
    pub writers: u32,
    /// Readers on each pipe.
    pub readers: u32,
    /// Offset of the buffers from the start of a page, in bytes.
    pub buffer_offset: u64,
    /// Requests to io_uring in one call.
    #[serde(default = "one")]
    pub batch: u32,
    /// Whether buffers are registered with the ring.
    #[serde(default)]
    pub registered_buffers: bool,
    /// Whether files are registered with the ring.
    #[serde(default)]
    pub registered_files: bool,
    /// Whether a thread of the kernel polls the ring for requests.
    #[serde(default)]
    pub sqpoll: bool,
    /// Whether completions are processed only when the process waits for them.
    #[serde(default)]
    pub defer_taskrun: bool,
    /// Whether programs' fallbacks move the bytes: vmsplice is writev, and splice is read and write.
    #[serde(default)]
    pub without_splice: bool,
    /// Tests only: lets a vmsplice pipe be larger than one half, so that pages are overwritten while in the pipe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsafe_pipe: bool,
}

/// `--mode write` for one second.
impl Default for Spec {
    fn default() -> Self {
        Self {
            counted: false,
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
            buffer_offset: 0,
            batch: 1,
            registered_buffers: false,
            registered_files: false,
            sqpoll: false,
            defer_taskrun: false,
            without_splice: false,
            unsafe_pipe: false,
        }
    }
}

/// The batch of results that were stored before there was one.
fn one() -> u32 {
    1
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

    /// Whether the kernel copies the writer's bytes into pages that it allocates.
    pub fn copies(&self) -> bool {
        self.without_splice || self.writer.copies()
    }

    /// Whether requests of the writer or of the reader go through a ring.
    pub fn has_ring(&self) -> bool {
        self.writer.has_ring() || self.reader.has_ring()
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

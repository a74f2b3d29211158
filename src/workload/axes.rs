//! The axes of a workload: [`Spec`] with its defaults, and [`AXES`], which has one row for each of them.
//!
//! To add an axis, add a field, its default and its row here, and let [`super::worker`] act on it. The row makes the
//! flags of `run` and `sweep`, their help and errors, the name of a mode with overrides (`write (buffer-size=4K)`),
//! and its text in comparisons.

use super::axis::{Axis, AxisKind, choices};
use super::spec::{Amount, PAGE, Pin, Reader, Writer};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Maximum size of one call (the kernel limits it to 2 GiB less a page).
const LARGEST_BUFFER: u64 = 1 << 30;
/// Maximum of F_SETPIPE_SZ.
const LARGEST_PIPE: u64 = 1 << 31;
/// Maximum number of processes of one kind, so that a typing error does not fill the process table.
const MOST_PROCESSES: u64 = 256;

/// A workload with values for all axes. Sizes are in bytes.
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
    /// Tests only: lets a vmsplice pipe be larger than one half, so that pages are overwritten while in the pipe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsafe_pipe: bool,
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
            buffer_offset: 0,
            unsafe_pipe: false,
        }
    }
}

/// Whether any process has a buffer: splice to splice has none.
fn buffered(spec: &Spec) -> bool {
    spec.writer != Writer::Splice || spec.reader != Reader::Splice
}

fn vmsplice(spec: &Spec) -> bool {
    spec.writer == Writer::Vmsplice
}

fn not_stdio(spec: &Spec) -> bool {
    spec.writer != Writer::Stdio
}

const NO_BUFFER: &str = "splice to splice has no buffer; remove this flag";
const INSIDE_LIBC: &str = "--writer stdio makes its calls inside libc; use only one of the two";

/// All axes, in the order of help texts and of names.
pub static AXES: &[Axis] = &[
    Axis::new("writer", AxisKind::Choice(choices::<Writer>), "The call that puts bytes into the pipe")
        .matters("the path through the kernel"),
    Axis::new("reader", AxisKind::Choice(choices::<Reader>), "The call that takes bytes out of the pipe")
        .matters("the path through the kernel"),
    Axis::new(
        "huge-pages",
        AxisKind::Switch,
        "Use 2 MiB pages for the buffers; the number obtained is verified and reported",
    )
    .needs(buffered, NO_BUFFER),
    Axis::new("busy-loop", AxisKind::Switch, "Never sleep: use non-blocking calls, and retry at once")
        .needs(not_stdio, INSIDE_LIBC),
    Axis::new("poll", AxisKind::Switch, "Call poll(2) on the pipe before each call").needs(not_stdio, INSIDE_LIBC),
    Axis::new("gift", AxisKind::Switch, "Pass SPLICE_F_GIFT to vmsplice, SPLICE_F_MOVE to splice")
        .needs(|spec| vmsplice(spec) || spec.reader == Reader::Splice, "requires --writer vmsplice or --reader splice"),
    Axis::new("mlock", AxisKind::Switch, "Lock the buffers into memory with mlock(2)").needs(buffered, NO_BUFFER),
    Axis::new("no-touch", AxisKind::Switch, "Leave the buffers untouched: every page is the kernel's zero page")
        .needs(buffered, NO_BUFFER),
    Axis::new(
        "contiguous",
        AxisKind::Switch,
        "Put the two halves of the vmsplice buffer next to each other, not in two mappings without a common page table",
    )
    .needs(vmsplice, "requires --writer vmsplice"),
    Axis::new(
        "buffer-size",
        AxisKind::Size { least: 1, most: LARGEST_BUFFER },
        "Size of the writer's buffer; one call moves all of it, or one half with vmsplice",
    )
    .matters("bytes per call"),
    Axis::new("reader-buffer-size", AxisKind::Size { least: 1, most: LARGEST_BUFFER }, "Size of the reader's buffer")
        .unset("the same as --buffer-size")
        .matters("bytes per call of the reader"),
    Axis::new(
        "buffer-offset",
        AxisKind::Size { least: 0, most: PAGE - 1 },
        "Offset of the buffers from the start of a page, to measure unaligned copies",
    )
    .needs(
        |spec| !vmsplice(spec) && buffered(spec),
        "requires --writer write, read-write or stdio, or --writer splice with --reader read or read-write",
    )
    .matters("how buffers are aligned for copying"),
    Axis::new(
        "pipe-size",
        AxisKind::Size { least: 1, most: LARGEST_PIPE },
        "Capacity of the pipe; the kernel rounds up to a power of two of pages",
    )
    .unset("the kernel's 64K; for vmsplice one half of the buffer")
    .matters("bytes that fit into the pipe"),
    Axis::new(
        "source",
        AxisKind::File,
        "File that --writer splice, read-write and stdio read from, repeatedly; `memory` is a file of zeros in memory",
    )
    .unset("/dev/zero")
    .needs(|spec| spec.writer.has_source(), "requires --writer splice, read-write or stdio")
    .not_swept(),
    Axis::new(
        "pairs",
        AxisKind::Count { least: 1, most: MOST_PROCESSES },
        "Number of independent pipes, each on its own CPUs",
    ),
    Axis::new("writers", AxisKind::Count { least: 1, most: MOST_PROCESSES }, "Number of writers on each pipe"),
    Axis::new("readers", AxisKind::Count { least: 1, most: MOST_PROCESSES }, "Number of readers on each pipe"),
    Axis::new(
        "extra-call-every",
        AxisKind::Count { least: 1, most: u64::MAX },
        "Artificial regression: make one additional system call per N transfers",
    )
    .unset("no such call")
    .needs(not_stdio, INSIDE_LIBC)
    .not_swept()
    .hidden(),
];

//! The axes of a workload: [`AXES`] has one row for each of them, and [`Overrides`] has values of some.
//!
//! To add an axis, add a field of [`Spec`] and its default, its row here, and let [`super::worker`] act on it. The row makes the
//! flags of `run` and `sweep`, their help and errors, the name of a mode with overrides (`write (buffer-size=4K)`),
//! and its text in comparisons.

use super::axis::{Axis, AxisKind, Value, choices};
use super::modes::Mode;
use super::spec::{PAGE, Reader, Spec, Writer};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum size of one call (the kernel limits it to 2 GiB less a page).
const LARGEST_BUFFER: u64 = 1 << 30;
/// Maximum of F_SETPIPE_SZ.
const LARGEST_PIPE: u64 = 1 << 31;
/// Maximum number of processes of one kind, so that a typing error does not fill the process table.
const MOST_PROCESSES: u64 = 256;

/// Most requests in one call.
const LARGEST_BATCH: u64 = 1024;

/// Whether any process has a buffer: splice to splice has none.
fn buffered(spec: &Spec) -> bool {
    let spliced = (
        matches!(spec.writer, Writer::Splice | Writer::IoUringSplice),
        matches!(spec.reader, Reader::Splice | Reader::IoUringSplice),
    );
    spliced != (true, true) || spec.without_splice
}

/// Whether a program calls vmsplice or splice.
fn splices(spec: &Spec) -> bool {
    matches!(spec.writer, Writer::Vmsplice | Writer::Splice) || spec.reader == Reader::Splice
}

/// Whether io_uring is given the address of a buffer.
fn ring_buffers(spec: &Spec) -> bool {
    spec.writer == Writer::IoUring || spec.reader == Reader::IoUring
}

fn vmsplice(spec: &Spec) -> bool {
    spec.writer == Writer::Vmsplice
}

fn not_stdio(spec: &Spec) -> bool {
    spec.writer != Writer::Stdio
}

/// Whether each call is made, and can be refused, on its own.
fn own_calls(spec: &Spec) -> bool {
    not_stdio(spec) && !spec.has_ring()
}

const NO_BUFFER: &str = "splice to splice has no buffer; remove this flag";
const RING: &str = "requires a writer or a reader io-uring";
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
        .needs(own_calls, "requires a writer that is not stdio, and no io-uring, whose requests the kernel repeats"),
    Axis::new("poll", AxisKind::Switch, "Call poll(2) on the pipe before each call").needs(not_stdio, INSIDE_LIBC),
    Axis::new("gift", AxisKind::Switch, "Pass SPLICE_F_GIFT to vmsplice, SPLICE_F_MOVE to splice")
        .needs(
            |spec| (vmsplice(spec) || spec.reader == Reader::Splice) && !spec.without_splice,
            "requires --writer vmsplice or --reader splice, and no --without-splice",
        ),
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
        "requires --writer write, read-write, stdio or io-uring, or a writer that splices with a reader that does not",
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
        "File that --writer splice, read-write, stdio and io-uring-splice read from, repeatedly; `memory` is a file of zeros in memory",
    )
    .unset("/dev/zero")
    .needs(|spec| spec.writer.has_source(), "requires --writer splice, read-write, stdio or io-uring-splice")
    .not_swept(),
    Axis::new(
        "pairs",
        AxisKind::Count { least: 1, most: MOST_PROCESSES },
        "Number of independent pipes, each on its own CPUs",
    ),
    Axis::new("writers", AxisKind::Count { least: 1, most: MOST_PROCESSES }, "Number of writers on each pipe"),
    Axis::new("readers", AxisKind::Count { least: 1, most: MOST_PROCESSES }, "Number of readers on each pipe"),
    Axis::new(
        "batch",
        AxisKind::Count { least: 1, most: LARGEST_BATCH },
        "Requests to io_uring in one call, one after the other, each with a buffer of its own",
    )
    .needs(|spec| spec.has_ring(), RING)
    .matters("requests per call"),
    Axis::new("registered-buffers", AxisKind::Switch, "Register the buffers of io-uring, so that no request pins pages")
        .needs(ring_buffers, "requires --writer io-uring or --reader io-uring"),
    Axis::new(
        "registered-files",
        AxisKind::Switch,
        "Register the files of io-uring, so that no request looks up a descriptor",
    )
    .needs(|spec| spec.has_ring(), RING),
    Axis::new("sqpoll", AxisKind::Switch, "Let threads of the kernel poll for requests to io-uring (SQPOLL)")
        .needs(|spec| spec.has_ring(), RING),
    Axis::new(
        "defer-taskrun",
        AxisKind::Switch,
        "Let io-uring complete requests only in the process's own calls (DEFER_TASKRUN; Linux 6.1 or newer)",
    )
    .needs(|spec| spec.has_ring() && !spec.sqpoll, "requires a writer or a reader io-uring without --sqpoll"),
    Axis::new(
        "without-splice",
        AxisKind::Switch,
        "Move the bytes as programs do where the kernel refuses: writev for vmsplice, read and write for splice",
    )
    .needs(splices, "requires --writer vmsplice or splice, or --reader splice")
    .matters("whether pages are copied"),
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

impl Axis {
    /// The axis whose flag is `--name`.
    pub fn find(name: &str) -> Option<&'static Self> {
        AXES.iter().find(|axis| axis.name == name)
    }

    /// The axis of the field `field` of `workload` in `result.json`.
    pub fn of_field(field: &str) -> Option<&'static Self> {
        Self::find(&field.replace('_', "-"))
    }
}

/// Values of some axes, which override those of a mode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "BTreeMap<String, Value>")]
pub struct Overrides(BTreeMap<String, Value>);

impl Overrides {
    /// Override `axis`. Returns its former value.
    pub fn put(&mut self, axis: &Axis, value: Value) -> Option<Value> {
        self.0.insert(axis.name.to_owned(), value)
    }

    /// Override what `others` override.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The value of the axis `name`, if it is overridden.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Set these axes in `spec`.
    pub fn apply(&self, spec: &mut Spec) -> Result<()> {
        AXES.iter().try_for_each(|axis| match self.get(axis.name) {
            Some(value) => axis.set(spec, value),
            None => Ok(()),
        })
    }
}

impl TryFrom<BTreeMap<String, Value>> for Overrides {
    type Error = String;
    fn try_from(values: BTreeMap<String, Value>) -> Result<Self, String> {
        match values.keys().find(|name| Axis::find(name).is_none()) {
            Some(name) => Err(format!("unknown axis '{name}'")),
            None => Ok(Self(values)),
        }
    }
}

/// The name of `mode` for headings, with the axes in which `spec` differs from it: `write (buffer-size=4K)`.
pub(crate) fn name_with_overrides(mode: &Mode, spec: &Spec) -> String {
    let preset = mode.spec();
    let overrides: Vec<String> = AXES
        .iter()
        .filter_map(|axis| {
            let value = axis.value(spec).filter(|value| Some(value) != axis.value(&preset).as_ref())?;
            Some(format!("{}={}", axis.name, axis.format(&value)))
        })
        .collect();
    if overrides.is_empty() { mode.name.to_owned() } else { format!("{} ({})", mode.name, overrides.join(", ")) }
}

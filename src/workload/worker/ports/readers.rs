//! Ports that take bytes out of the pipe.

use super::{Run, run_hot, within};
use crate::workload::spec::Amount;
use crate::workload::wire::WorkerPart;
use crate::workload::worker::buffer::Mapping;
use crate::workload::worker::hot::{self, HotOptions, Port, Tally};
use crate::workload::worker::stamp::Checker;
use anyhow::{Context, Result};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};

/// What a reader does with the bytes read.
pub(crate) trait Sink {
    fn take(&mut self, bytes: &[u8]);
    fn other_calls(&mut self) -> u64 {
        0
    }
    fn verified(&self) -> Option<(u64, Vec<String>)> {
        None
    }
}

/// Does nothing: the loop counts the bytes.
pub(crate) struct CountOnly;
impl Sink for CountOnly {
    #[inline(always)]
    fn take(&mut self, _: &[u8]) {}
}

/// Compares the bytes with the expected stream.
pub(crate) struct Check(pub Checker);
impl Sink for Check {
    fn take(&mut self, bytes: &[u8]) {
        self.0.check(bytes);
    }
    fn verified(&self) -> Option<(u64, Vec<String>)> {
        Some(self.0.verdict())
    }
}

/// Writes the bytes to /dev/null, which accepts all of them.
pub(crate) struct Copy {
    _null: File,
    fd: RawFd,
    calls: u64,
}

impl Copy {
    pub(crate) fn new(null: File) -> Self {
        Self { fd: null.as_raw_fd(), _null: null, calls: 0 }
    }
}

impl Sink for Copy {
    #[inline(always)]
    fn take(&mut self, bytes: &[u8]) {
        self.calls += 1;
        // SAFETY: the slice is valid for its length.
        unsafe { libc::write(self.fd, bytes.as_ptr().cast(), bytes.len()) };
    }
    fn other_calls(&mut self) -> u64 {
        std::mem::take(&mut self.calls)
    }
}

/// Open /dev/null for writing.
pub(crate) fn null() -> Result<File> {
    File::options().write(true).open("/dev/null").context("cannot open /dev/null")
}

/// read(2) from the pipe.
pub(crate) struct Read<S> {
    end: RawFd,
    buffer: Mapping,
    sink: S,
}

impl<S: Sink> Read<S> {
    pub(crate) fn new(end: RawFd, buffer: Mapping, sink: S) -> Self {
        Self { end, buffer, sink }
    }
}

impl<S: Sink> Port for Read<S> {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        let len = within(self.buffer.size(), limit);
        // SAFETY: `len` bytes are within the buffer.
        (len as u64, unsafe { libc::read(self.end, self.buffer.as_ptr().cast(), len) })
    }

    #[inline(always)]
    fn moved(&mut self, count: u64) {
        self.sink.take(&self.buffer.bytes()[..count as usize]);
    }

    fn other_calls(&mut self) -> u64 {
        self.sink.other_calls()
    }

    fn name(&self) -> String {
        "read".into()
    }
}

impl<S: Sink> Run for Read<S> {
    run_hot!();
    fn mappings(&self) -> Vec<&Mapping> {
        vec![&self.buffer]
    }
    fn verified(&self) -> Option<(u64, Vec<String>)> {
        self.sink.verified()
    }
}

/// splice(2) from the pipe into /dev/null.
pub(crate) struct SpliceOut {
    end: RawFd,
    null: File,
    block: usize,
    flags: libc::c_uint,
}

impl SpliceOut {
    pub(crate) fn new(end: RawFd, null: File, block: usize, flags: libc::c_uint) -> Self {
        Self { end, null, block, flags }
    }
}

impl Port for SpliceOut {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        let len = within(self.block, limit);
        let nowhere = std::ptr::null_mut();
        // SAFETY: no offsets are passed.
        (len as u64, unsafe { libc::splice(self.end, nowhere, self.null.as_raw_fd(), nowhere, len, self.flags) })
    }

    #[inline(always)]
    fn moved(&mut self, _: u64) {}

    fn name(&self) -> String {
        "splice to /dev/null".into()
    }
}

impl Run for SpliceOut {
    run_hot!();
    fn mappings(&self) -> Vec<&Mapping> {
        Vec::new()
    }
}

//! Ports that put bytes into the pipe.

use super::{Run, run_hot, within};
use crate::util::regular;
use crate::workload::spec::{Amount, DEFAULT_SOURCE, MEMORY_SOURCE, PAGE, Spec};
use crate::workload::wire::WorkerPart;
use crate::workload::worker::buffer::Mapping;
use crate::workload::worker::hot::{self, HotOptions, Port, Tally};
use crate::workload::worker::stamp;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};

/// Writes one buffer repeatedly with write(2).
pub(crate) struct Write<const VERIFY: bool> {
    end: RawFd,
    buffer: Mapping,
    /// Bytes of the stream written; counted only if they are stamped.
    position: u64,
    /// Bytes of the buffer written since it was stamped.
    offset: usize,
}

impl<const VERIFY: bool> Write<VERIFY> {
    pub(crate) fn new(end: RawFd, buffer: Mapping) -> Self {
        Self { end, buffer, position: 0, offset: 0 }
    }
}

impl<const VERIFY: bool> Port for Write<VERIFY> {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        if VERIFY && self.offset == 0 {
            stamp::fill(self.buffer.bytes_mut(), self.position);
        }
        let offset = if VERIFY { self.offset } else { 0 };
        let len = within(self.buffer.size() - offset, limit);
        // SAFETY: `len` bytes from `offset` are within the buffer.
        (len as u64, unsafe { libc::write(self.end, self.buffer.as_ptr().add(offset).cast(), len) })
    }

    #[inline(always)]
    fn moved(&mut self, count: u64) {
        if VERIFY {
            self.position += count;
            self.offset = (self.offset + count as usize) % self.buffer.size();
        }
    }

    fn name(&self) -> String {
        "write".into()
    }
}

impl<const VERIFY: bool> Run for Write<VERIFY> {
    run_hot!();
    fn mappings(&self) -> Vec<&Mapping> {
        vec![&self.buffer]
    }
}

/// The two halves that vmsplice uses alternately.
pub(crate) struct Halves {
    mappings: Vec<Mapping>,
    starts: [*mut u8; 2],
    len: usize,
}

impl Halves {
    /// Two buffers of `len` bytes.
    pub(crate) fn apart([a, b]: [Mapping; 2], len: usize) -> Self {
        Self { starts: [a.as_ptr(), b.as_ptr()], mappings: vec![a, b], len }
    }

    /// One buffer of twice `len` bytes.
    pub(crate) fn contiguous(both: Mapping, len: usize) -> Self {
        let start = both.as_ptr();
        debug_assert_eq!(both.size(), 2 * len);
        // SAFETY: the buffer has twice `len` bytes.
        let second = unsafe { start.add(len) };
        Self { starts: [start, second], mappings: vec![both], len }
    }
}

/// vmsplice(2) of two halves alternately.
///
/// The pipe keeps references to the pages, not copies. A half is reused only after the other one is completely in the
/// pipe, and the pipe holds no more than one half: by then, no page of the first is left in it. A call that took less
/// than a half is followed by calls for its rest.
///
/// `COPIED`: writev(2) of the same instead, as in a kernel whose vmsplice copies, and in programs whose vmsplice is refused.
pub(crate) struct Vmsplice<const VERIFY: bool, const COPIED: bool> {
    end: RawFd,
    halves: Halves,
    flags: libc::c_uint,
    half: usize,
    offset: usize,
    position: u64,
}

impl<const VERIFY: bool, const COPIED: bool> Vmsplice<VERIFY, COPIED> {
    pub(crate) fn new(end: RawFd, halves: Halves, flags: libc::c_uint) -> Self {
        Self { end, halves, flags, half: 0, offset: 0, position: 0 }
    }
}

impl<const VERIFY: bool, const COPIED: bool> Port for Vmsplice<VERIFY, COPIED> {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        let start = self.halves.starts[self.half];
        if VERIFY && self.offset == 0 {
            // SAFETY: a half has `len` bytes, and nothing else in this process refers to them now.
            let half = unsafe { std::slice::from_raw_parts_mut(start, self.halves.len) };
            stamp::fill(half, self.position);
        }
        let len = within(self.halves.len - self.offset, limit);
        // SAFETY: `len` bytes from `offset` are within the half.
        let from = libc::iovec { iov_base: unsafe { start.add(self.offset) }.cast(), iov_len: len };
        // SAFETY: the vector outlives the call, and the pages stay mapped while this process lives.
        let answer = unsafe {
            if COPIED {
                libc::writev(self.end, &raw const from, 1)
            } else {
                libc::vmsplice(self.end, &raw const from, 1, self.flags)
            }
        };
        (len as u64, answer)
    }

    #[inline(always)]
    fn moved(&mut self, count: u64) {
        self.offset += count as usize;
        if self.offset == self.halves.len {
            self.offset = 0;
            self.half ^= 1;
        }
        if VERIFY {
            self.position += count;
        }
    }

    fn name(&self) -> String {
        if COPIED { "writev".into() } else { "vmsplice".into() }
    }
}

impl<const VERIFY: bool, const COPIED: bool> Run for Vmsplice<VERIFY, COPIED> {
    run_hot!();
    fn mappings(&self) -> Vec<&Mapping> {
        self.halves.mappings.iter().collect()
    }
}

/// A file that a writer reads from beginning to end, repeatedly.
pub(crate) struct Source {
    pub file: File,
    name: String,
}

impl Source {
    pub(crate) fn open(spec: &Spec) -> Result<Self> {
        let path = spec.source.as_deref().unwrap_or(DEFAULT_SOURCE.as_ref());
        let name = path.display().to_string();
        if name == MEMORY_SOURCE {
            return Ok(Self { file: zeros(usize::try_from(spec.block())?)?, name });
        }
        let file = regular::open_source(path).with_context(|| format!("--source {name}"))?;
        let kind = file.metadata().with_context(|| format!("--source {name}"))?;
        ensure!(!kind.is_file() || kind.len() > 0, "--source {name}: the file is empty; give one that is not");
        Ok(Self { file, name })
    }

    fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn rewind(&self) -> bool {
        // SAFETY: a plain system call on a descriptor that this owns.
        unsafe { libc::lseek(self.fd(), 0, libc::SEEK_SET) == 0 }
    }
}

/// splice(2) from a file into the pipe.
pub(crate) struct SpliceIn {
    end: RawFd,
    source: Source,
    pub(super) block: usize,
    flags: libc::c_uint,
    /// Size of a file that ends, spliced from `offset` to its end and again from its beginning; 0 for a device.
    pub(super) size: u64,
    pub(super) offset: libc::loff_t,
    note: Option<String>,
}

impl SpliceIn {
    pub(crate) fn new(end: RawFd, mut source: Source, block: usize, flags: libc::c_uint) -> Result<Self> {
        let mut note = None;
        if let Err(error) = try_splice(&source.file) {
            // 5.10 is such a kernel: its /dev/zero has no splice_read.
            ensure!(
                source.name == DEFAULT_SOURCE && error.raw_os_error() == Some(libc::EINVAL),
                "--source {}: this kernel cannot splice from it ({error}); choose a regular file",
                source.name
            );
            source = Source { file: zeros(block)?, name: "a memory file of zeros".into() };
            note = Some("this kernel cannot splice from /dev/zero: using a memory file of zeros".to_owned());
        }
        let kind = source.file.metadata().with_context(|| format!("--source {}", source.name))?;
        let size = if kind.is_file() { kind.len() } else { 0 };
        Ok(Self { end, source, block, flags, size, offset: 0, note })
    }

    /// The descriptor of its source.
    pub(super) fn fd(&self) -> RawFd {
        self.source.fd()
    }
}

/// Splice one byte of `file` into a temporary pipe, without moving the file's position.
fn try_splice(file: &File) -> std::io::Result<()> {
    let (_read, write) = rustix::pipe::pipe()?;
    let mut offset: libc::loff_t = 0;
    // SAFETY: the offset outlives the call.
    let count = unsafe {
        libc::splice(
            file.as_raw_fd(),
            &raw mut offset,
            write.as_raw_fd(),
            std::ptr::null_mut(),
            1,
            libc::SPLICE_F_NONBLOCK,
        )
    };
    if count < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Create a file in memory with at least `len` zeros, in whole pages.
fn zeros(len: usize) -> Result<File> {
    use std::io::Write as _;
    let file = rustix::fs::memfd_create(c"pipeprof-zeros", rustix::fs::MemfdFlags::CLOEXEC)
        .context("cannot create a memory file of zeros; give a regular file with --source")?;
    let mut file = File::from(file);
    // Write the zeros instead of only setting the size, so that the pages exist.
    file.write_all(&vec![0; len.next_multiple_of(PAGE as usize)]).context("cannot fill a memory file of zeros")?;
    Ok(file)
}

impl Port for SpliceIn {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        let len = within(self.block, limit);
        let offset = if self.size == 0 { std::ptr::null_mut() } else { &raw mut self.offset };
        // SAFETY: the offset, where one is passed, outlives the call.
        let answer = unsafe { libc::splice(self.source.fd(), offset, self.end, std::ptr::null_mut(), len, self.flags) };
        (len as u64, answer)
    }

    #[inline(always)]
    fn moved(&mut self, _: u64) {
        if self.size != 0 && self.offset as u64 >= self.size {
            self.offset = 0;
        }
    }

    fn name(&self) -> String {
        format!("splice from {}", self.source.name)
    }
}

impl Run for SpliceIn {
    run_hot!();
    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
    fn mappings(&self) -> Vec<&Mapping> {
        Vec::new()
    }
}

/// read(2) from a file, write(2) to the pipe.
pub(crate) struct ReadWrite {
    end: RawFd,
    source: Source,
    buffer: Mapping,
    filled: usize,
    offset: usize,
    others: u64,
    source_failed: bool,
}

impl ReadWrite {
    pub(crate) fn new(end: RawFd, source: Source, buffer: Mapping) -> Self {
        Self { end, source, buffer, filled: 0, offset: 0, others: 0, source_failed: false }
    }

    #[inline(always)]
    fn read(&mut self, len: usize) -> isize {
        self.others += 1;
        // SAFETY: `len` is no more than the buffer's length.
        unsafe { libc::read(self.source.fd(), self.buffer.as_ptr().cast(), len) }
    }
}

impl Port for ReadWrite {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        if self.offset == self.filled {
            let len = within(self.buffer.size(), limit);
            let mut count = self.read(len);
            if count == 0 {
                self.others += 1;
                if self.source.rewind() {
                    count = self.read(len);
                }
            }
            self.source_failed = count <= 0;
            if self.source_failed {
                return (len as u64, count);
            }
            (self.filled, self.offset) = (count as usize, 0);
        }
        let len = within(self.filled - self.offset, limit);
        // SAFETY: `len` bytes from `offset` are within the buffer.
        (len as u64, unsafe { libc::write(self.end, self.buffer.as_ptr().add(self.offset).cast(), len) })
    }

    #[inline(always)]
    fn moved(&mut self, count: u64) {
        self.offset += count as usize;
    }

    fn other_calls(&mut self) -> u64 {
        std::mem::take(&mut self.others)
    }

    fn name(&self) -> String {
        if self.source_failed { format!("read from {}", self.source.name) } else { "write".into() }
    }
}

impl Run for ReadWrite {
    run_hot!();
    fn mappings(&self) -> Vec<&Mapping> {
        vec![&self.buffer]
    }
}

//! Ports that move bytes by io_uring.

use super::readers::Sink;
use super::{Run, SpliceIn, run_hot, within};
use crate::workload::spec::{Amount, Spec};
use crate::workload::wire::WorkerPart;
use crate::workload::worker::buffer::Mapping;
use crate::workload::worker::hot::{self, HotOptions, Port, Tally};
use crate::workload::worker::ring::{NOWHERE, Operation, ProvidedBuffers, Ring, call_failed, failed};
use crate::workload::worker::stamp;
use anyhow::Result;
use io_uring::squeue::Flags;
use io_uring::{cqueue, opcode, types};
use std::fs::File;
use std::os::fd::{AsRawFd as _, RawFd};

/// The registered buffer of a port.
const WHOLE: u16 = 0;

const WRITE: Operation = Operation {
    code: opcode::Write::CODE,
    name: "WRITE",
    since: "5.6",
    flag: "--writer io-uring",
    instead: "--writer write",
};

/// Writes its buffers, one request each. A request begins when the one before it has written all of its buffer; if that one
/// did not, the kernel cancels the rest of the batch, which the next call repeats.
pub(crate) struct UringWrite<const VERIFY: bool> {
    ring: Ring,
    end: types::Fd,
    buffers: Mapping,
    fixed: bool,
    block: usize,
    asked: Vec<usize>,
    position: u64,
    offset: usize,
}

impl<const VERIFY: bool> UringWrite<VERIFY> {
    pub(crate) fn new(end: RawFd, block: usize, spec: &Spec) -> Result<Self> {
        let buffers = Mapping::new(block * spec.batch as usize, spec)?;
        let ring = Ring::new(spec, WRITE, &[end], Some(&buffers))?;
        Ok(Self {
            end: ring.file(0, end),
            ring,
            buffers,
            fixed: spec.registered_buffers,
            block,
            asked: Vec::with_capacity(spec.batch as usize),
            position: 0,
            offset: 0,
        })
    }
}

impl<const VERIFY: bool> Port for UringWrite<VERIFY> {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        if VERIFY && self.offset == 0 {
            stamp::fill(self.buffers.bytes_mut(), self.position);
        }
        let from = if VERIFY { self.offset } else { 0 };
        let until = from + within(self.buffers.size() - from, limit);
        self.asked.clear();
        let mut at = from;
        while at < until {
            let len = (self.block - at % self.block).min(until - at);
            // SAFETY: `len` bytes from `at` are within the mapping.
            let start = unsafe { self.buffers.as_ptr().add(at) };
            let entry = if self.fixed {
                opcode::WriteFixed::new(self.end, start, len as u32, WHOLE).build()
            } else {
                opcode::Write::new(self.end, start, len as u32).build()
            };
            at += len;
            let chain = if at < until { Flags::IO_LINK } else { Flags::empty() };
            self.ring.queue(entry, self.asked.len(), chain);
            self.asked.push(len);
        }
        ((until - from) as u64, together(self.ring.complete(self.asked.len()), &self.asked))
    }

    #[inline(always)]
    fn moved(&mut self, count: u64) {
        if VERIFY {
            self.position += count;
            self.offset = (self.offset + count as usize) % self.buffers.size();
        }
    }

    fn name(&self) -> String {
        "io_uring WRITE".into()
    }
}

/// The bytes of a batch up to the first request that did not move all of its own.
#[inline(always)]
fn together(results: std::io::Result<&[i32]>, asked: &[usize]) -> isize {
    let results = match results {
        Ok(results) => results,
        Err(error) => return call_failed(&error),
    };
    let mut all = 0;
    for (&result, &asked) in results.iter().zip(asked) {
        if result < 0 {
            return if all > 0 { all } else { failed(-result) };
        }
        all += result as isize;
        if (result as usize) < asked {
            break;
        }
    }
    all
}

impl<const VERIFY: bool> Run for UringWrite<VERIFY> {
    run_hot!();
    fn release(&mut self) -> Result<()> {
        self.ring.release()
    }
    fn mappings(&self) -> Vec<&Mapping> {
        vec![&self.buffers]
    }
}

const READ: Operation = Operation {
    code: opcode::Read::CODE,
    name: "READ",
    since: "5.6",
    flag: "--reader io-uring",
    instead: "--reader read",
};

/// Reads into its buffers, one request each. They are taken in their order, whatever each of them got.
pub(crate) struct UringRead<S> {
    ring: Ring,
    end: types::Fd,
    buffers: Mapping,
    fixed: bool,
    block: usize,
    /// Bytes of each buffer that were read.
    read: Vec<usize>,
    sink: S,
}

impl<S: Sink> UringRead<S> {
    pub(crate) fn new(end: RawFd, block: usize, spec: &Spec, sink: S) -> Result<Self> {
        let buffers = Mapping::new(block * spec.batch as usize, spec)?;
        let ring = Ring::new(spec, READ, &[end], Some(&buffers))?;
        let read = Vec::with_capacity(spec.batch as usize);
        Ok(Self { end: ring.file(0, end), ring, buffers, fixed: spec.registered_buffers, block, read, sink })
    }
}

impl<S: Sink> Port for UringRead<S> {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        let until = within(self.buffers.size(), limit);
        let (mut at, mut count) = (0, 0);
        while at < until {
            let len = self.block.min(until - at);
            // SAFETY: `len` bytes from `at` are within the mapping.
            let start = unsafe { self.buffers.as_ptr().add(at) };
            let entry = if self.fixed {
                opcode::ReadFixed::new(self.end, start, len as u32, WHOLE).build()
            } else {
                opcode::Read::new(self.end, start, len as u32).build()
            };
            at += len;
            // A short read does not end a chain of this kind.
            let chain = if at < until { Flags::IO_HARDLINK } else { Flags::empty() };
            self.ring.queue(entry, count, chain);
            count += 1;
        }
        let results = match self.ring.complete(count) {
            Ok(results) => results,
            Err(error) => return (until as u64, call_failed(&error)),
        };
        self.read.clear();
        let mut all = 0;
        for &result in results {
            if result < 0 {
                return (until as u64, if all > 0 { all } else { failed(-result) });
            }
            self.read.push(result as usize);
            all += result as isize;
        }
        (until as u64, all)
    }

    #[inline(always)]
    fn moved(&mut self, _: u64) {
        for (index, &count) in self.read.iter().enumerate() {
            let start = index * self.block;
            self.sink.take(&self.buffers.bytes()[start..start + count]);
        }
    }

    fn name(&self) -> String {
        "io_uring READ".into()
    }
}

impl<S: Sink> Run for UringRead<S> {
    run_hot!();
    fn mappings(&self) -> Vec<&Mapping> {
        vec![&self.buffers]
    }
    fn verified(&self) -> Option<(u64, Vec<String>)> {
        self.sink.verified()
    }
}

const READ_MULTISHOT: Operation = Operation {
    code: opcode::ReadMulti::CODE,
    name: "READ_MULTISHOT",
    since: "6.7",
    flag: "--reader io-uring-multishot",
    instead: "--reader io-uring",
};

/// Reads by one request that completes once for each buffer, until no buffer is left.
pub(crate) struct UringMultishot<S> {
    ring: Ring,
    end: types::Fd,
    provided: ProvidedBuffers,
    block: usize,
    /// Whether the request still reads.
    armed: bool,
    /// The latest buffers and their bytes.
    read: Vec<(u16, usize)>,
    sink: S,
}

impl<S: Sink> UringMultishot<S> {
    pub(crate) fn new(end: RawFd, block: usize, spec: &Spec, sink: S) -> Result<Self> {
        let ring = Ring::new(spec, READ_MULTISHOT, &[end], None)?;
        let count = u16::try_from(spec.batch)?.next_power_of_two();
        let provided = ProvidedBuffers::new(&ring, spec, block, count)?;
        let read = Vec::with_capacity(usize::from(count));
        Ok(Self { end: ring.file(0, end), ring, provided, block, armed: false, read, sink })
    }
}

impl<S: Sink> Port for UringMultishot<S> {
    #[inline(always)]
    fn call(&mut self, _: u64) -> (u64, isize) {
        loop {
            if !self.armed {
                let entry = opcode::ReadMulti::new(self.end, 0, self.provided.group()).build();
                self.ring.queue(entry, 0, Flags::empty());
                self.armed = true;
            }
            let ring = self.ring.io();
            if let Err(error) = ring.submit_and_wait(1)
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                return (self.block as u64, call_failed(&error));
            }
            let (mut all, mut ended, mut error) = (0, false, 0);
            for done in ring.completion() {
                self.armed = cqueue::more(done.flags());
                match (done.result(), cqueue::buffer_select(done.flags())) {
                    (count @ 1.., Some(id)) => {
                        self.read.push((id, count as usize));
                        all += count as isize;
                    }
                    // No buffer was left: those that are taken now are given back first.
                    (result, _) if result == -libc::ENOBUFS => {}
                    (result, id) => {
                        if let Some(id) = id {
                            self.read.push((id, 0));
                        }
                        (ended, error) = (result == 0, -result);
                    }
                }
            }
            let asked = (self.read.len() * self.block) as u64;
            match (all, ended, error) {
                (1.., _, _) => return (asked, all),
                (_, true, _) => return (asked, 0),
                (_, _, 1..) => return (asked, failed(error)),
                _ => {}
            }
        }
    }

    #[inline(always)]
    fn moved(&mut self, _: u64) {
        for &(id, count) in &self.read {
            self.sink.take(self.provided.bytes(id, count));
            self.provided.give(id);
        }
        self.provided.publish();
        self.read.clear();
    }

    fn name(&self) -> String {
        "io_uring READ_MULTISHOT".into()
    }
}

impl<S: Sink> Run for UringMultishot<S> {
    run_hot!();
    fn mappings(&self) -> Vec<&Mapping> {
        vec![self.provided.mapping()]
    }
    fn verified(&self) -> Option<(u64, Vec<String>)> {
        self.sink.verified()
    }
}

const SPLICE_IN: Operation = Operation {
    code: opcode::Splice::CODE,
    name: "SPLICE",
    since: "5.7",
    flag: "--writer io-uring-splice",
    instead: "--writer splice",
};

const SPLICE_OUT: Operation = Operation { flag: "--reader io-uring-splice", instead: "--reader splice", ..SPLICE_IN };

/// Splices from a file into the pipe.
pub(crate) struct UringSpliceIn {
    ring: Ring,
    end: RawFd,
    /// What [`SpliceIn`] would splice.
    from: SpliceIn,
    asked: Vec<usize>,
    batch: usize,
}

impl UringSpliceIn {
    pub(crate) fn new(end: RawFd, from: SpliceIn, spec: &Spec) -> Result<Self> {
        let ring = Ring::new(spec, SPLICE_IN, &[end, from.fd()], None)?;
        let batch = spec.batch as usize;
        Ok(Self { ring, end, from, asked: Vec::with_capacity(batch), batch })
    }
}

impl Port for UringSpliceIn {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        self.asked.clear();
        let (size, mut left, mut offset) = (self.from.size, limit, self.from.offset);
        while left > 0 && self.asked.len() < self.batch {
            let mut len = within(self.from.block, left);
            let mut at = NOWHERE;
            if size > 0 {
                // What is spliced from a file does not go beyond its end.
                at = offset;
                len = within(len, size - offset as u64);
                offset = if offset as u64 + len as u64 == size { 0 } else { offset + len as i64 };
            }
            left -= len as u64;
            let last = left == 0 || self.asked.len() + 1 == self.batch;
            let entry = self.ring.splice((1, self.from.fd(), at), (0, self.end), len);
            self.ring.queue(entry, self.asked.len(), if last { Flags::empty() } else { Flags::IO_LINK });
            self.asked.push(len);
        }
        (self.asked.iter().sum::<usize>() as u64, together(self.ring.complete(self.asked.len()), &self.asked))
    }

    #[inline(always)]
    fn moved(&mut self, count: u64) {
        if self.from.size > 0 {
            self.from.offset = ((self.from.offset as u64 + count) % self.from.size) as i64;
        }
    }

    fn name(&self) -> String {
        format!("io_uring's {}", self.from.name())
    }
}

impl Run for UringSpliceIn {
    run_hot!();
    fn release(&mut self) -> Result<()> {
        self.ring.release()
    }
    fn note(&self) -> Option<&str> {
        self.from.note()
    }
    fn mappings(&self) -> Vec<&Mapping> {
        Vec::new()
    }
}

/// Splices from the pipe into /dev/null.
pub(crate) struct UringSpliceOut {
    ring: Ring,
    end: RawFd,
    null: File,
    block: usize,
    batch: usize,
}

impl UringSpliceOut {
    pub(crate) fn new(end: RawFd, null: File, block: usize, spec: &Spec) -> Result<Self> {
        let ring = Ring::new(spec, SPLICE_OUT, &[end, null.as_raw_fd()], None)?;
        Ok(Self { ring, end, null, block, batch: spec.batch as usize })
    }
}

impl Port for UringSpliceOut {
    #[inline(always)]
    fn call(&mut self, limit: u64) -> (u64, isize) {
        let (mut asked, mut count) = (0, 0);
        while asked < limit && count < self.batch {
            let len = within(self.block, limit - asked);
            asked += len as u64;
            let last = asked == limit || count + 1 == self.batch;
            let entry = self.ring.splice((0, self.end, NOWHERE), (1, self.null.as_raw_fd()), len);
            self.ring.queue(entry, count, if last { Flags::empty() } else { Flags::IO_HARDLINK });
            count += 1;
        }
        let results = match self.ring.complete(count) {
            Ok(results) => results,
            Err(error) => return (asked, call_failed(&error)),
        };
        let mut all = 0;
        for &result in results {
            if result < 0 {
                return (asked, if all > 0 { all } else { failed(-result) });
            }
            all += result as isize;
        }
        (asked, all)
    }

    #[inline(always)]
    fn moved(&mut self, _: u64) {}

    fn name(&self) -> String {
        "io_uring SPLICE to /dev/null".into()
    }
}

impl Run for UringSpliceOut {
    run_hot!();
    fn mappings(&self) -> Vec<&Mapping> {
        Vec::new()
    }
}

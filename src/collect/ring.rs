//! Reads a BPF ring buffer: one page with the reader's position, one with the writers', and the records, which are mapped
//! twice in a row so that none of them is cut (kernel/bpf/ringbuf.c).

use anyhow::{Context as _, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The kernel's pages on this processor.
const PAGE: usize = 4096;

/// Before each record: its length, with these bits, and its page. Records begin at multiples of the same size.
const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// A ring buffer that BPF programs write.
#[derive(Debug)]
pub(crate) struct StepRing {
    size: usize,
    /// The page of this process's position.
    read: *mut u8,
    /// The page of the programs' position, followed by the records.
    written: *const u8,
}

impl StepRing {
    /// Map the ring of `size` bytes.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn map(ring: BorrowedFd<'_>, size: usize) -> Result<Self> {
        let refused = "cannot map a BPF ring buffer";
        let (read, write) = (ProtFlags::READ, ProtFlags::WRITE);
        // SAFETY: new mappings at addresses that the kernel chooses.
        let own =
            unsafe { mmap(std::ptr::null_mut(), PAGE, read | write, MapFlags::SHARED, ring, 0) }.context(refused)?;
        // SAFETY: as above.
        let rest = unsafe { mmap(std::ptr::null_mut(), PAGE + 2 * size, read, MapFlags::SHARED, ring, PAGE as u64) };
        match rest {
            Ok(written) => Ok(Self { size, read: own.cast(), written: written.cast() }),
            Err(error) => {
                // SAFETY: it was mapped above, and nothing refers to it.
                let _ = unsafe { munmap(own, PAGE) };
                Err(error).context(refused)
            }
        }
    }

    fn positions(&self) -> (&AtomicU64, &AtomicU64) {
        // SAFETY: both pages are mapped as long as `self`, and are shared with the kernel as such numbers.
        unsafe { (&*self.read.cast(), &*self.written.cast()) }
    }

    /// Bytes that have not been read.
    #[must_use]
    pub(crate) fn available(&self) -> u64 {
        let (read, written) = self.positions();
        written.load(Ordering::Acquire) - read.load(Ordering::Relaxed)
    }

    /// Read what has been written until now.
    pub(crate) fn read(&mut self, mut record: impl FnMut(&[u8])) {
        let (read, written) = self.positions();
        let mut at = read.load(Ordering::Relaxed);
        let end = written.load(Ordering::Acquire);
        while at < end {
            let place = PAGE + (at as usize & (self.size - 1));
            // SAFETY: a record begins here, because `at` is a position between those of reader and writers.
            let header: &AtomicU32 = unsafe { &*self.written.add(place).cast() };
            let length = header.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let bytes = (length & !DISCARDED) as usize;
            if length & DISCARDED == 0 {
                // SAFETY: the record is complete, within the mapping, and not changed before the position has passed it.
                record(unsafe { std::slice::from_raw_parts(self.written.add(place + HEADER), bytes) });
            }
            at += (bytes + HEADER).next_multiple_of(HEADER) as u64;
            read.store(at, Ordering::Release);
        }
    }
}

impl Drop for StepRing {
    fn drop(&mut self) {
        // SAFETY: they were mapped with these lengths, and no slice of them outlives a call of `read`.
        unsafe {
            let _ = munmap(self.read.cast(), PAGE);
            let _ = munmap(self.written.cast_mut().cast(), PAGE + 2 * self.size);
        }
    }
}

//! The ring buffer of a perf event (perf_event_open(2), "MMAP layout"): the kernel writes records, this process reads
//! them.

use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages for records, unless more are asked for: a power of two.
pub(super) const DATA_PAGES: usize = 32;

/// Bytes of two records of the largest kind that matters here.
const LARGE: u64 = 96;

/// A mapped ring. The event ends when this is dropped.
#[derive(Debug)]
pub(super) struct PerfRing {
    memory: NonNull<u8>,
    page: usize,
    /// Pages for records.
    pages: usize,
    event: OwnedFd,
}

/// One record: its type, flags (`misc`), and what follows its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PerfRecord {
    pub kind: u32,
    pub(crate) misc: u16,
    pub body: Vec<u8>,
}

impl PerfRing {
    /// Map the ring of `event`, with room for this many pages of records: a power of two.
    pub(super) fn new(event: OwnedFd, pages: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            mmap(
                std::ptr::null_mut(),
                (1 + pages) * page,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &event,
                0,
            )
        }?;
        let memory = NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mmap returned no address"))?;
        Ok(Self { memory, page, pages, event })
    }

    /// The event whose ring it is.
    pub(super) fn event(&self) -> &OwnedFd {
        &self.event
    }

    fn head(&self) -> &AtomicU64 {
        self.counter(std::mem::offset_of!(perf_event_mmap_page, data_head))
    }

    fn tail(&self) -> &AtomicU64 {
        self.counter(std::mem::offset_of!(perf_event_mmap_page, data_tail))
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is a perf_event_mmap_page, which the kernel reads and writes as this process does here;
        // its fields of 64 bits are aligned.
        unsafe { self.memory.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Hand over the records written since the last call. Returns whether there was no room for one more: the kernel says that
    /// records were lost only before the next one.
    pub(super) fn drain(&mut self, mut each: impl FnMut(PerfRecord)) -> bool {
        let head = self.head().load(Ordering::Acquire);
        let begin = self.tail().load(Ordering::Relaxed);
        let mut tail = begin;
        while tail < head {
            let mut header = [0; size_of::<perf_event_header>()];
            self.copy(tail, &mut header);
            let [kind0, kind1, kind2, kind3, misc0, misc1, size0, size1] = header;
            let size = usize::from(u16::from_le_bytes([size0, size1]));
            let Some(rest) = size.checked_sub(header.len()) else { break };
            let mut body = vec![0; rest];
            self.copy(tail + header.len() as u64, &mut body);
            let kind = u32::from_le_bytes([kind0, kind1, kind2, kind3]);
            each(PerfRecord { kind, misc: u16::from_le_bytes([misc0, misc1]), body });
            tail += size as u64;
        }
        self.tail().store(head, Ordering::Release);
        let until_now = self.head().load(Ordering::Acquire) - begin;
        until_now + LARGE > (self.pages * self.page) as u64
    }

    /// Copy what is at `position` of the endless stream of which the ring holds the last part.
    fn copy(&self, position: u64, into: &mut [u8]) {
        let length = self.pages * self.page;
        let start = (position % length as u64) as usize;
        // A record can go on at the begin of the ring.
        let (to_end, from_begin) = into.split_at_mut(into.len().min(length - start));
        for (part, offset) in [(to_end, start), (from_begin, 0)] {
            // SAFETY: both parts are within the mapping, and the kernel does not write before the tail has passed them.
            unsafe { self.memory.add(self.page + offset).copy_to_nonoverlapping(non_null(part), part.len()) };
        }
    }
}

fn non_null(bytes: &mut [u8]) -> NonNull<u8> {
    NonNull::from(bytes).cast()
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no reference to it remains.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), (1 + self.pages) * self.page) };
    }
}

//! Reading the configuration device by DMA: QEMU writes a page at a time, where a port of x86-64 gives a byte and a register of
//! arm64 8 bytes. Under emulation, a byte from a port costs some 70 ns. QEMU: docs/specs/fw_cfg.rst, "Guest-side DMA Interface".

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::pipe::{IoSliceRaw, SpliceFlags, fcntl_setpipe_size, pipe, vmsplice};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{Ordering, fence};

/// Pages that are filled before they are copied. The last one is for the command.
const PAGES: usize = 64;

/// The bit of the command to read. What is left of the command after it is 0, or has the bit of errors.
const READ: u32 = 2;

/// The present bit and the page frame number of an entry of /proc/PID/pagemap (kernel: admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// Memory that the device writes. The kernel cannot move it, because a pipe refers to its pages.
pub(super) struct DmaBuffer {
    at: *mut u8,
    page: usize,
    /// Physical addresses of the pages.
    addresses: Vec<u64>,
    /// What keeps the pages where they are.
    pipe: (OwnedFd, OwnedFd),
}

impl DmaBuffer {
    /// `None` if this kernel does not say where its pages are.
    pub(super) fn new() -> Option<Self> {
        let page = rustix::param::page_size();
        let length = PAGES * page;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE);
        let pipe = pipe().ok()?;
        fcntl_setpipe_size(&pipe.1, length).ok()?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, flags) }.ok()?.cast::<u8>();
        let mut buffer = Self { at, page, addresses: Vec::new(), pipe };
        // SAFETY: the slice is the mapping, whose pages the pipe only refers to: nobody reads it.
        let given = unsafe {
            let all = std::slice::from_raw_parts_mut(at, length);
            vmsplice(&buffer.pipe.1, &[IoSliceRaw::from_slice_mut(all)], SpliceFlags::NONBLOCK)
        };
        let mut entries = vec![0; PAGES * 8];
        let pagemap = File::open("/proc/self/pagemap").ok()?;
        pagemap.read_exact_at(&mut entries, (at as usize / page * 8) as u64).ok()?;
        let address = |entry: &[u8; 8]| {
            let entry = u64::from_ne_bytes(*entry);
            (entry & PRESENT > 0 && entry & FRAME > 0).then_some((entry & FRAME) * page as u64)
        };
        buffer.addresses = entries.as_chunks().0.iter().map(address).collect::<Option<Vec<u64>>>()?;
        (given == Ok(length)).then_some(buffer)
    }

    /// Read the next bytes of the selected entry. `start` gives the device the address of a command. Returns whether the device
    /// could do all of it.
    pub(super) fn read(&self, bytes: &mut [u8], start: impl Fn(u64)) -> bool {
        let room = (PAGES - 1) * self.page;
        bytes.chunks_mut(room).all(|part| {
            let filled = self
                .addresses
                .iter()
                .zip(part.chunks(self.page))
                .all(|(to, page)| self.done(&start, page.len() as u32, *to));
            // SAFETY: the mapping has more bytes than the part, and the device has written them.
            part.copy_from_slice(unsafe { std::slice::from_raw_parts(self.at, part.len()) });
            filled
        })
    }

    /// Let the device write so many bytes to a physical address, which it has when this returns.
    fn done(&self, start: &impl Fn(u64), length: u32, address: u64) -> bool {
        let command = [&READ.to_be_bytes()[..], &length.to_be_bytes(), &address.to_be_bytes()].concat();
        // SAFETY: the last page is for the command, and is mapped and aligned. QEMU may write it whenever it is started.
        unsafe {
            let place = self.at.add((PAGES - 1) * self.page);
            std::ptr::copy_nonoverlapping(command.as_ptr(), place, command.len());
            fence(Ordering::SeqCst);
            start(self.addresses[PAGES - 1]);
            fence(Ordering::SeqCst);
            place.cast::<u32>().read_volatile() == 0
        }
    }
}

impl Drop for DmaBuffer {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and nothing refers to it. If it fails, it stays mapped.
        let _ = unsafe { munmap(self.at.cast(), PAGES * self.page) };
    }
}

//! A ring of io_uring: set up as the axes ask, with errors that name the flag and the way out.

use super::buffer::Mapping;
use crate::workload::spec::Spec;
use anyhow::{Context, Result, anyhow, ensure};
use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, Probe, opcode, types};
use std::io;
use std::os::fd::RawFd;

/// How long the kernel's thread polls a ring without requests before it sleeps.
const SQPOLL_IDLE_MS: u32 = 10;

/// The offset of a request on a pipe or a device.
pub(crate) const NOWHERE: i64 = -1;

/// An operation, and what to say if the kernel does not have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) code: u8,
    pub(crate) name: &'static str,
    /// The version of Linux that has it first.
    pub(crate) since: &'static str,
    /// The flag that asks for it.
    pub(crate) flag: &'static str,
    /// What to use instead.
    pub(crate) instead: &'static str,
}

pub(crate) struct Ring {
    ring: IoUring,
    registered_files: bool,
    /// The results of the latest requests, in their order.
    results: Vec<i32>,
}

impl Ring {
    /// Set up a ring for `spec` on which `operation` can be used with `files`, and with `buffer` if requests have its addresses.
    pub(crate) fn new(spec: &Spec, operation: Operation, files: &[RawFd], buffer: Option<&Mapping>) -> Result<Self> {
        let mut builder = IoUring::builder();
        if spec.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        }
        if spec.defer_taskrun {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        // The polling thread may complete a request before it gives its place back, so there have to be twice as many.
        let places = spec.batch.next_power_of_two() << u32::from(spec.sqpoll);
        let ring = builder.build(places).map_err(|error| refusal(spec, operation, &error))?;
        let mut probe = Probe::new();
        // Kernels before 5.6 have no probe, and none of the operations.
        let probed = ring.submitter().register_probe(&mut probe).is_ok() && probe.is_supported(operation.code);
        ensure!(
            probed,
            "{}: this kernel's io_uring has no {}, which came with Linux {}; use {}",
            operation.flag,
            operation.name,
            operation.since,
            operation.instead
        );
        if spec.sqpoll && !spec.registered_files {
            ensure!(
                ring.params().is_feature_sqpoll_nonfixed(),
                "--sqpoll: this kernel polls only registered files (before Linux 5.11); add --registered-files"
            );
        }
        if spec.registered_files {
            ring.submitter()
                .register_files(files)
                .map_err(|error| anyhow!("--registered-files: the kernel refuses to register the pipe ({error})"))?;
        }
        if let Some(buffer) = buffer.filter(|_| spec.registered_buffers) {
            let whole = libc::iovec { iov_base: buffer.as_ptr().cast(), iov_len: buffer.size() };
            // SAFETY: the buffer's owner drops the ring first.
            unsafe { ring.submitter().register_buffers(&[whole]) }.map_err(|error| {
                anyhow!(
                    "--registered-buffers: cannot register {} bytes ({error}): raise the limit with `ulimit -l`, or use a smaller --buffer-size or --batch",
                    buffer.size()
                )
            })?;
        }
        let results = vec![0; spec.batch as usize];
        Ok(Self { ring, registered_files: spec.registered_files, results })
    }

    /// Give back the registered files, which would keep the pipe open for its reader.
    pub(crate) fn release(&mut self) -> Result<()> {
        if self.registered_files {
            self.ring.submitter().unregister_files().context("--registered-files: cannot give back the pipe")?;
        }
        Ok(())
    }

    /// What requests name the `index`th of the ring's files by, whose descriptor is `fd`.
    pub(crate) fn file(&self, index: i32, fd: RawFd) -> types::Fd {
        types::Fd(if self.registered_files { index } else { fd })
    }

    /// A request to splice `len` bytes: each end is one of the ring's files, by its index and its descriptor.
    pub(crate) fn splice(&self, from: (u32, RawFd, i64), to: (u32, RawFd), len: usize) -> Entry {
        let (from_index, from, offset) = from;
        let (to_index, to) = to;
        if self.registered_files {
            let (from, to) = (types::Fixed(from_index), types::Fixed(to_index));
            opcode::Splice::new(from, offset, to, NOWHERE, len as u32).build()
        } else {
            opcode::Splice::new(types::Fd(from), offset, types::Fd(to), NOWHERE, len as u32).build()
        }
    }

    /// Queue `entry` as request `number` of the next [`Self::complete`].
    #[inline(always)]
    pub(crate) fn queue(&mut self, entry: Entry, number: usize, mut flags: Flags) {
        flags.set(Flags::FIXED_FILE, self.registered_files);
        let entry = entry.flags(flags).user_data(number as u64);
        // SAFETY: the caller's buffers are valid until the request has completed.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // The ring has a place for each request of a batch, and the kernel has taken those of the last one.
        assert!(pushed.is_ok(), "the ring is full");
    }

    /// Submit what is queued, and wait until all `count` requests have completed. Returns their results in their order.
    #[inline(always)]
    pub(crate) fn complete(&mut self, count: usize) -> io::Result<&[i32]> {
        let mut left = count;
        while left > 0 {
            match self.ring.submit_and_wait(left) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            for done in self.ring.completion() {
                if let Some(result) = self.results.get_mut(done.user_data() as usize) {
                    *result = done.result();
                    left -= 1;
                }
            }
        }
        Ok(&self.results[..count])
    }

    /// The ring itself, for requests that complete more than once.
    pub(crate) fn io(&mut self) -> &mut IoUring {
        &mut self.ring
    }
}

/// What a call returns for the result of a request: -1 with `errno` set on failure.
#[cold]
#[inline(never)]
pub(crate) fn failed(error: i32) -> isize {
    // SAFETY: the location is this thread's own.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// The same for an error of the call.
#[cold]
#[inline(never)]
pub(crate) fn call_failed(error: &io::Error) -> isize {
    failed(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Whether a seccomp profile applies to this process.
fn is_filtered() -> bool {
    const FILTER: &str = "2";
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == FILTER))
}

/// Why there is no ring.
fn refusal(spec: &Spec, operation: Operation, error: &io::Error) -> anyhow::Error {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let disabled = disabled.ok().and_then(|text| text.trim().parse::<u8>().ok()).unwrap_or(0);
    let flag = operation.flag;
    match error.raw_os_error() {
        Some(libc::ENOSYS) if is_filtered() => anyhow!(
            "{flag}: io_uring is not available here ({error}): a seccomp profile applies, which may refuse it: allow io_uring_setup in the profile of the container or service, or use --mode write"
        ),
        Some(libc::ENOSYS) => anyhow!("{flag}: this kernel has no io_uring ({error}); use --mode write"),
        Some(libc::EPERM) if disabled > 0 => anyhow!(
            "{flag}: io_uring is forbidden here (kernel.io_uring_disabled is {disabled}): run `sysctl kernel.io_uring_disabled=0` as root, or use --mode write"
        ),
        Some(libc::EPERM) if spec.sqpoll => anyhow!(
            "--sqpoll: not allowed ({error}): before Linux 5.11 it requires root; run as root, or remove --sqpoll"
        ),
        Some(libc::EPERM | libc::EACCES) => anyhow!(
            "{flag}: io_uring is forbidden here ({error}): allow io_uring_setup in the seccomp profile of the container or service, or use --mode write"
        ),
        Some(libc::EINVAL) if spec.defer_taskrun => {
            anyhow!("--defer-taskrun: this kernel does not have it, which came with Linux 6.1; remove it")
        }
        Some(libc::ENOMEM) => {
            anyhow!(
                "{flag}: no memory for the ring ({error}): raise the limit with `ulimit -l`, or use a smaller --batch"
            )
        }
        _ => anyhow!("{flag}: cannot set up a ring ({error}); use --mode write"),
    }
}

/// Buffers that the kernel chooses from, in a ring that it shares with this process.
pub(crate) struct ProvidedBuffers {
    /// The entries, in a page of their own.
    entries: Mapping,
    buffers: Mapping,
    each: usize,
    count: u16,
    tail: u16,
}

/// The group of all provided buffers.
const GROUP: u16 = 0;

impl ProvidedBuffers {
    /// Provide `count` buffers, a power of two, of `each` bytes to `ring`.
    pub(crate) fn new(ring: &Ring, spec: &Spec, each: usize, count: u16) -> Result<Self> {
        let plain = Spec { buffer_offset: 0, huge_pages: false, no_touch: false, ..Spec::default() };
        let bytes = usize::from(count) * size_of::<types::BufRingEntry>();
        let mut entries = Mapping::new(bytes, &plain)?;
        entries.bytes_mut().fill(0);
        let buffers = Mapping::new(each * usize::from(count), spec)?;
        // SAFETY: the entries are aligned to a page, and live as long as the ring: both belong to one port, which the
        // process keeps until its end.
        unsafe { ring.ring.submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, count, GROUP, 0) }
            .context("--reader io-uring-multishot: cannot provide buffers; use --reader io-uring")?;
        let mut provided = Self { entries, buffers, each, count, tail: 0 };
        for id in 0..count {
            provided.give(id);
        }
        provided.publish();
        Ok(provided)
    }

    pub(crate) fn group(&self) -> u16 {
        GROUP
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.buffers
    }

    /// The first `len` bytes of buffer `id`.
    pub(crate) fn bytes(&self, id: u16, len: usize) -> &[u8] {
        let start = usize::from(id) * self.each;
        &self.buffers.bytes()[start..start + len]
    }

    /// Let the kernel use buffer `id` from the next [`Self::publish`] on.
    #[inline(always)]
    pub(crate) fn give(&mut self, id: u16) {
        let index = usize::from(self.tail & (self.count - 1));
        let address = self.buffers.as_ptr() as u64 + (usize::from(id) * self.each) as u64;
        // SAFETY: the mapping has `count` entries, and the kernel reads only those before the tail.
        let entry = unsafe { &mut *self.entries.as_ptr().cast::<types::BufRingEntry>().add(index) };
        entry.set_addr(address);
        entry.set_len(self.each as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Tell the kernel of the buffers that were given.
    #[inline(always)]
    pub(crate) fn publish(&mut self) {
        // SAFETY: the tail is in the mapping's first entry, aligned, and only this process writes it.
        unsafe {
            let tail = types::BufRingEntry::tail(self.entries.as_ptr().cast()).cast_mut();
            std::sync::atomic::AtomicU16::from_ptr(tail).store(self.tail, std::sync::atomic::Ordering::Release);
        }
    }
}

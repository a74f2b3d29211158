//! The hot loop: only the system call, and the counting of what it transferred.

use crate::arch::marker;
use crate::workload::spec::Amount;
use crate::workload::wire::WorkerPart;
use anyhow::{Context, Result, anyhow};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options that have their own instance of the loop, so that they cost nothing when off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HotOptions {
    /// The descriptor and the event to poll for before each transfer.
    pub poll: Option<(RawFd, libc::c_short)>,
    /// Make one additional system call after this many transfers.
    pub(crate) extra_every: Option<u64>,
    pub(crate) extra_fd: RawFd,
}

/// What a loop counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub bytes: u64,
    pub calls: u64,
    pub short: u64,
    pub eagain: u64,
    /// Monotonic raw clock in ns, read just before and after the loop.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// A call moved nothing and did not fail: there is no more data.
    pub ended: bool,
}

/// A way to move bytes, one call at a time.
pub(crate) trait Port {
    /// Make one call that moves at most `limit` (1 or more) bytes. Returns the bytes requested and the call's result:
    /// -1 with `errno` set on failure.
    fn call(&mut self, limit: u64) -> (u64, isize);

    /// `count` bytes were moved.
    fn moved(&mut self, count: u64);

    /// Calls made in addition to [`Self::call`] since this was last read.
    fn other_calls(&mut self) -> u64 {
        0
    }

    /// The name of the call for error messages, such as `write`. Used after a failure.
    fn name(&self) -> String;
}

/// The other end of the pipe was closed. The process that held it reports why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reader closed the pipe")]
pub(crate) struct OtherEndGone;

/// When a loop ends by itself. End of file ends every loop.
trait Stop {
    /// Called after the loop's clock was read, so that the clock shows no less than the timer's time.
    fn begin(&self) -> Result<()> {
        Ok(())
    }
    /// Bytes that the next call may move; 0 ends the loop.
    fn limit(&self) -> u64;
    fn moved(&mut self, count: u64);
}

struct Bytes(u64);
impl Stop for Bytes {
    #[inline(always)]
    fn limit(&self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn moved(&mut self, count: u64) {
        self.0 -= count;
    }
}

struct Calls(u64);
impl Stop for Calls {
    #[inline(always)]
    fn limit(&self) -> u64 {
        if self.0 == 0 { 0 } else { u64::MAX }
    }
    #[inline(always)]
    fn moved(&mut self, _: u64) {
        self.0 -= 1;
    }
}

/// Ends the loop after this time, ns.
struct Timer(u64);
impl Stop for Timer {
    fn begin(&self) -> Result<()> {
        start_timer(self.0)
    }
    #[inline(always)]
    fn limit(&self) -> u64 {
        if timer_rang() { 0 } else { u64::MAX }
    }
    #[inline(always)]
    fn moved(&mut self, _: u64) {}
}

static RANG: AtomicBool = AtomicBool::new(false);

extern "C" fn ring(_: libc::c_int) {
    RANG.store(true, Ordering::Relaxed);
}

/// Whether the window's time is over.
#[inline(always)]
pub(crate) fn timer_rang() -> bool {
    RANG.load(Ordering::Relaxed)
}

/// Handle SIGALRM by setting the flag. Interrupted calls are restarted, and end because the other process still runs.
pub(crate) fn install_timer() -> Result<()> {
    // SAFETY: all-zero is a valid sigaction; the handler only stores to an atomic.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ring as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) != 0
    };
    if failed { Err(std::io::Error::last_os_error()).context("--duration: cannot install its timer") } else { Ok(()) }
}

/// Set the flag after `ns`.
pub(crate) fn start_timer(ns: u64) -> Result<()> {
    let value = libc::timeval {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        // Round up: a timer of zero would never fire.
        tv_usec: i64::try_from((ns % 1_000_000_000).div_ceil(1000).min(999_999)).unwrap_or(0),
    };
    let timer = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: the structure outlives the call.
    let failed = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) } != 0;
    if failed { Err(std::io::Error::last_os_error()).context("--duration: too long for a timer") } else { Ok(()) }
}

/// The monotonic raw clock, ns.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call; this clock exists since Linux 2.6.28.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Move `amount` through `port`. `window` is set for the measured window and absent for the warm-up.
pub(super) fn run(
    port: &mut impl Port,
    amount: Amount,
    window: Option<WorkerPart>,
    options: &HotOptions,
) -> Result<Tally> {
    match amount {
        Amount::Bytes(bytes) => choose(port, Bytes(bytes), window, options),
        Amount::Calls(calls) => choose(port, Calls(calls), window, options),
        Amount::DurationNs(ns) => choose(port, Timer(ns), window, options),
    }
}

fn choose(port: &mut impl Port, stop: impl Stop, window: Option<WorkerPart>, options: &HotOptions) -> Result<Tally> {
    match (options.poll.is_some(), options.extra_every.is_some()) {
        (false, false) => around::<_, _, false, false>(port, stop, window, options),
        (true, false) => around::<_, _, true, false>(port, stop, window, options),
        (false, true) => around::<_, _, false, true>(port, stop, window, options),
        (true, true) => around::<_, _, true, true>(port, stop, window, options),
    }
}

/// Read the clock and execute the markers around the loop.
fn around<P: Port, S: Stop, const POLL: bool, const EXTRA: bool>(
    port: &mut P,
    stop: S,
    window: Option<WorkerPart>,
    options: &HotOptions,
) -> Result<Tally> {
    port.other_calls();
    let begin_ns = now_ns();
    stop.begin()?;
    mark_begin(window);
    let result = hot::<P, S, POLL, EXTRA>(port, stop, options);
    mark_end(window);
    let end_ns = now_ns();
    let mut tally = result?;
    tally.calls += port.other_calls();
    Ok(Tally { begin_ns, end_ns, ..tally })
}

/// Tell the instruction collector that the window begins.
#[inline(always)]
pub(crate) fn mark_begin(window: Option<WorkerPart>) {
    match window {
        Some(WorkerPart::Writer) => marker::emit::<{ marker::begin(marker::WRITER) }>(),
        Some(WorkerPart::Reader) => marker::emit::<{ marker::begin(marker::READER) }>(),
        None => {}
    }
}

/// Tell it that the window ends.
#[inline(always)]
pub(crate) fn mark_end(window: Option<WorkerPart>) {
    match window {
        Some(WorkerPart::Writer) => marker::emit::<{ marker::end(marker::WRITER) }>(),
        Some(WorkerPart::Reader) => marker::emit::<{ marker::end(marker::READER) }>(),
        None => {}
    }
}

#[inline(never)]
fn hot<P: Port, S: Stop, const POLL: bool, const EXTRA: bool>(
    port: &mut P,
    mut stop: S,
    options: &HotOptions,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let (poll_fd, events) = options.poll.unwrap_or((-1, 0));
    let every = options.extra_every.unwrap_or(u64::MAX);
    let mut until_extra = every;
    loop {
        let limit = stop.limit();
        if limit == 0 {
            return Ok(tally);
        }
        if POLL {
            let mut wanted = libc::pollfd { fd: poll_fd, events, revents: 0 };
            // SAFETY: the structure outlives the call. If poll fails, the next transfer fails too.
            unsafe { libc::poll(&raw mut wanted, 1, -1) };
            tally.calls += 1;
        }
        let (asked, answer) = port.call(limit);
        tally.calls += 1;
        if answer > 0 {
            let count = answer as u64;
            tally.bytes += count;
            tally.short += u64::from(count < asked);
            stop.moved(count);
            port.moved(count);
            if EXTRA {
                until_extra -= 1;
                if until_extra == 0 {
                    until_extra = every;
                    // SAFETY: the kernel reads nothing from the pointer.
                    unsafe { libc::write(options.extra_fd, std::ptr::null(), 0) };
                    tally.calls += 1;
                }
            }
        } else if answer == 0 {
            tally.ended = true;
            return Ok(tally);
        } else if without_bytes(port, &mut tally)? {
            std::hint::spin_loop();
        }
    }
}

/// Decide after a call that moved nothing whether to retry.
#[cold]
#[inline(never)]
fn without_bytes(port: &impl Port, tally: &mut Tally) -> Result<bool> {
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => {
            tally.eagain += 1;
            Ok(true)
        }
        Some(libc::EINTR) => Ok(true),
        Some(libc::EPIPE) => Err(OtherEndGone.into()),
        _ => Err(anyhow!("{}: {error}", port.name())),
    }
}

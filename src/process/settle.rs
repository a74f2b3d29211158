//! Round times of the clock, at which deterministic guests release their windows and start pipelines.

use super::Phase;
use crate::util::cancel;
use anyhow::{Context as _, Result};
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Wait until the clock that counts from boot reaches a multiple of 16 s, at least two seconds from now, and then for
/// the phase's share of a tick. In a deterministic guest, the kernel's timers then fire at the same points of each
/// window of this phase, however long the start took.
/// The kernel has also finished work that it delays by a second: it disables the static branches of a closed perf
/// event (kernel/events/core.c, `perf_sched_delayed`), which changes its code. An idle emulator waits at almost no
/// cost.
///
/// # Errors
/// On interruption, or when the clock cannot be waited for.
pub fn wait(phase: Phase) -> Result<()> {
    let now = clock_gettime(ClockId::Monotonic);
    let at = Timespec { tv_sec: settled(now.tv_sec), tv_nsec: phase.tick_offset_ns() };
    loop {
        cancel::check()?;
        match clock_nanosleep_absolute(ClockId::Monotonic, &at) {
            Err(Errno::INTR) => {}
            waited => return waited.context("cannot wait for the clock"),
        }
    }
}

/// The second in which to release a target that is ready in second `now`.
fn settled(now: i64) -> i64 {
    (now + 3 + 15) / 16 * 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_released_at_round_times_at_least_two_seconds_away() {
        for (now, at) in [(0, 16), (4, 16), (13, 16), (14, 32), (15, 32), (29, 32), (30, 48)] {
            assert_eq!(settled(now), at, "{now}");
        }
    }
}

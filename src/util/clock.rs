//! The clock of the kernel's events.

use rustix::time::{ClockId, clock_gettime};

/// The clock of BPF programs and of perf's events, ns. It counts from the boot.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

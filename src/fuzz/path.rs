//! Steps of recorded processes.

use crate::record;

/// Steps from which the critical path follows, each in a few bytes: what the kernel's programs report, in any order.
///
/// Properties: the parts of the path add up to the window; no clock goes back; leaving out a process never makes it longer.
///
/// # Panics
/// If one does not hold.
pub fn path_steps(bytes: &[u8]) {
    record::check_any_steps(bytes);
}

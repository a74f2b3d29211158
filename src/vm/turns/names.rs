//! What turns.c and this program agree on. The build script reads this file, too.

/// The variable of the environment with the number of the descriptor at which turns.c counts.
pub(crate) const COUNTER: &str = "PIPEPROF_TURNS";

/// What it adds when it is loaded into QEMU.
pub(crate) const LOADED: u64 = 1;

/// What it adds when the thread of the guest's CPUs takes turns with the others.
pub(crate) const TAKEN: u64 = 1 << 32;

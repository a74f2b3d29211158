//! What a part of the path is.

use crate::record::observe::raw::{PR_FROZEN, PR_IN_INTERRUPT, PR_STOPPED, PrRun};
use crate::record::observe::reason::why;
use crate::result::{PathWhat, WaitReason};

/// No process of the recording.
pub(crate) const NOBODY: u32 = u32::MAX;

/// The name of a program, as the kernel has it.
pub(crate) type Name = [u64; 2];

/// As the programs mix inode and device.
pub(crate) fn pipe_number((inode, device): (u64, u32)) -> u64 {
    inode ^ u64::from(device) << 32
}

/// The step that these bytes are; `None` if they are of another length.
pub(super) fn read<T: bytemuck::AnyBitPattern>(step: &[u8]) -> Option<T> {
    bytemuck::try_pod_read_unaligned(step).ok()
}

/// What a part of the path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PartKey {
    /// Index of a process of the follower.
    pub process: u32,
    pub what: PathWhat,
    /// Zeros if unknown.
    pub by: Name,
}

/// Part of a process without a name of who else is concerned.
pub(crate) fn part(process: u32, what: PathWhat) -> PartKey {
    PartKey { process, what, by: [0; 2] }
}

/// Whether this is a thread of the kernel that only executes interrupts which have no time at once.
pub(crate) fn is_soft_interrupt(name: &Name) -> bool {
    bytemuck::bytes_of(name).starts_with(b"ksoftirqd/")
}

/// Whether a thread that slept for this was kept from running, whoever let it go.
pub(crate) fn is_held(call: u32) -> bool {
    [PR_STOPPED, PR_FROZEN].contains(&(call as usize))
}

/// What a thread slept for that woke in this context.
pub(crate) fn asleep(step: &PrRun, context: u32) -> PathWhat {
    if step.pipe != 0 {
        return at_pipe(step.detail >> 8 & 1 == 1, step.detail >> 9 & 1 == 1);
    }
    let reason = match (why(step.call, step.detail >> 4 & 0xf), context as usize) {
        // Its time was over.
        (WaitReason::Thread | WaitReason::Signal, PR_IN_INTERRUPT) => WaitReason::Timer,
        (reason, _) => reason,
    };
    PathWhat::Asleep { reason }
}

/// What a thread sleeps for at a pipe.
pub(crate) fn at_pipe(writes: bool, locked: bool) -> PathWhat {
    match (locked, writes) {
        (true, _) => PathWhat::PipeLock,
        (_, true) => PathWhat::PipeFull,
        _ => PathWhat::PipeEmpty,
    }
}

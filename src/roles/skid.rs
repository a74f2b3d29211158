//! Skid: where samples of `cpu-clock` land whose timer was due while interrupts were off, and whose time that was.
//!
//! The timer cannot fire then. Such a sample is taken at the instruction that turns interrupts on again, and its stack
//! still shows who had them off: the caller of that function. Its role gets the sample.

use super::{Attributable, FrameFact};
use serde::{Deserialize, Serialize};

/// Whether samples of a profile that are due while interrupts are off are taken later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Skid {
    /// Exact profiles, and samples of a hardware counter, whose overflow is a non-maskable interrupt on x86.
    #[default]
    None,
    /// Samples of `cpu-clock`, whose timer cannot fire while interrupts are off, and those of a hardware counter on arm64, whose
    /// interrupt can be masked.
    CpuClock,
}

/// Functions in which interrupts come back on, by their names without suffix.
pub(super) const LEAVES: &[&str] = &[
    RELEASE,
    "_raw_spin_unlock_irq",
    "__raw_spin_unlock_irqrestore",
    "__raw_spin_unlock_irq",
    "_raw_read_unlock_irqrestore",
    "_raw_read_unlock_irq",
    "_raw_write_unlock_irqrestore",
    "_raw_write_unlock_irq",
    "finish_task_switch",
    "raw_spin_rq_unlock_irq",
    "__local_irq_enable",
    "arch_local_irq_restore",
    "arch_local_irq_enable",
    "native_restore_fl",
    "native_irq_enable",
];

/// How a wait queue's lock is released.
const RELEASE: &str = "_raw_spin_unlock_irqrestore";

/// A function that calls [`RELEASE`] last does so by a jump: its frame is gone when interrupts come back on, and the
/// lock seems to be released by its caller. `pipe_write` and `pipe_read` release no lock by [`RELEASE`] themselves, and
/// call two functions that end so. Disassembled kernels (docs/kernels.md):
///
/// - up to 6.4, `__wake_up_common_lock` releases the lock in a loop, with a frame of its own, and only `finish_wait`
///   jumps;
/// - from 6.5 on, `__wake_up_sync_key` jumps too. It has interrupts off for all of a wake-up, `finish_wait` for a dozen
///   instructions: nearly all samples are the wake-up's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailCall(&'static str);

impl TailCall {
    const CALLERS: [&'static str; 2] = ["pipe_write", "pipe_read"];

    /// The function whose frame is missing in a profile of these stacks.
    pub fn of<'a, S>(mut stacks: impl Iterator<Item = S>) -> Self
    where
        S: DoubleEndedIterator<Item = &'a str>,
    {
        let visible = |stack: S| {
            let mut callers = stack.rev();
            callers.next() == Some(RELEASE) && callers.next() == Some("__wake_up_common_lock")
        };
        Self(if stacks.any(visible) { "finish_wait" } else { "__wake_up_sync_key" })
    }

    /// The function that `caller` called, and that jumped to `function`.
    pub(super) fn between<F: Attributable>(self, caller: F, function: F) -> Option<&'static str> {
        (function.is(FrameFact::ReleasesWaitQueue) && caller.is(FrameFact::CallsJumping)).then_some(self.0)
    }

    /// Whether `function`, a name without suffix, is the one that such a function jumps to.
    pub(super) fn is_target(function: &str) -> bool {
        function == RELEASE
    }

    /// Whether `caller` calls a function that ends in such a jump.
    pub(super) fn is_caller(caller: &str) -> bool {
        Self::CALLERS.contains(&super::canonical(caller))
    }

    /// Put the missing frame back into the stack of `frames`, root first.
    pub fn restore(self, frames: &mut Vec<&str>) {
        let release = frames.iter().position(|frame| *frame == RELEASE);
        let caller = release.and_then(|at| frames.get(at.checked_sub(1)?));
        if let (Some(at), Some(missing)) = (release, caller.and_then(|caller| self.between(*caller, RELEASE))) {
            frames.insert(at, missing);
        }
    }
}

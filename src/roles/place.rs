//! Which role a stack belongs to: the rules, for stacks of names and for stacks of [`FrameFacts`].

use super::frame::{Attributable, FrameFact};
use super::skid::TailCall;
use super::tables::{TABLES, Tables, by_id};
use super::{Role, RoleId, function_name, is_kernel_entry};

/// What a stack's weight goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed<F> {
    pub role: &'static Role,
    /// The frame that decided it.
    pub frame: F,
    /// Whether the sample was taken where interrupts came back on, and went to the caller that had them off.
    pub interrupts_off: bool,
}

impl Attributable for &str {
    fn named(name: &'static str) -> Self {
        name
    }

    fn role(self) -> Option<usize> {
        TABLES.index_of_frame(self)
    }

    fn is(self, fact: FrameFact) -> bool {
        match fact {
            FrameFact::StartsKernel => is_kernel_entry(self),
            FrameFact::EnablesInterrupts => TABLES.skid.contains(function_name(self)),
            FrameFact::ReleasesWaitQueue => TailCall::is_target(function_name(self)),
            FrameFact::CallsJumping => TailCall::is_caller(self),
        }
    }
}

/// All answers for one name. A large profile has few names in many stacks, so that looking up each name once is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFacts {
    role: Option<usize>,
    /// By number of [`FrameFact`].
    facts: [bool; 4],
}

impl FrameFacts {
    pub fn of(name: &str) -> Self {
        Self { role: name.role(), facts: FrameFact::ALL.map(|fact| name.is(fact)) }
    }
}

impl Attributable for FrameFacts {
    fn named(name: &'static str) -> Self {
        Self::of(name)
    }

    fn role(self) -> Option<usize> {
        self.role
    }

    fn is(self, fact: FrameFact) -> bool {
        self.facts[fact as usize]
    }
}

/// The role of a whole stack, root first, and the frame that decided it: its deepest frame with a role; `user` where the
/// stack never enters the kernel, `other-kernel` where no frame has a role. For exact profiles; samples of cpu-clock need
/// [`place`] with a tail call.
pub fn of_stack<'a>(frames: impl DoubleEndedIterator<Item = &'a str> + Clone) -> (&'static Role, &'a str) {
    let placed = place(frames, None);
    (placed.role, placed.frame)
}

/// The role of a stack of `frames`, root first, as [`of_stack`] does. With `tail_call` it is a sample of cpu-clock. Where
/// interrupts come back on, such a sample goes to the role of the caller that had them off; `tail_call` names the caller
/// whose frame is missing. A sample that shows no caller with a role goes to [`RoleId::IrqOff`].
pub fn place<F: Attributable>(
    frames: impl DoubleEndedIterator<Item = F> + Clone,
    tail_call: Option<TailCall>,
) -> Placed<F> {
    let tables = &*TABLES;
    let leaf = frames.clone().next_back().unwrap_or_else(|| F::named(""));
    let exactly = |role, frame| Placed { role, frame, interrupts_off: false };
    let Some(kernel) = kernel_part(frames) else {
        return exactly(by_id(RoleId::User), leaf);
    };
    let Some(tail_call) = tail_call.filter(|_| leaf.is(FrameFact::EnablesInterrupts)) else {
        let (role, frame) = tables.of_frames(kernel.rev()).unwrap_or((by_id(RoleId::OtherKernel), leaf));
        return exactly(role, frame);
    };
    let callers = || kernel.clone().rev().skip(1);
    let missing = callers().next().and_then(|caller| tail_call.between(caller, leaf));
    let found = tables.of_frames(missing.map(F::named).into_iter().chain(callers()));
    // The entry code releases no lock: functions between it and the leaf are missing.
    let (role, frame) = found
        .filter(|(_, frame)| !frame.is(FrameFact::StartsKernel))
        .or_else(|| leaf.role().map(|index| (&tables.roles[index], leaf)))
        .unwrap_or((by_id(RoleId::IrqOff), leaf));
    Placed { role, frame, interrupts_off: true }
}

/// The kernel's part of a stack, from its first entry frame on.
fn kernel_part<F: Attributable, I: Iterator<Item = F> + Clone>(mut frames: I) -> Option<I> {
    loop {
        let rest = frames.clone();
        if frames.next()?.is(FrameFact::StartsKernel) {
            return Some(rest);
        }
    }
}

impl Tables {
    /// The role of the first of `frames`, deepest first, that has one, and that frame.
    fn of_frames<F: Attributable>(&'static self, frames: impl Iterator<Item = F>) -> Option<(&'static Role, F)> {
        let mut frames = frames.filter_map(|frame| Some((frame.role()?, frame)));
        let (index, frame) = frames.next()?;
        let role = &self.roles[index];
        if self.within.iter().any(|within| within.role == role.id)
            && let Some((around, _)) = frames.find(|(around, _)| *around != index)
        {
            let around = self.roles[around].id;
            let found = self.within.iter().find(|within| within.role == role.id && within.inside == around);
            if let Some(within) = found {
                return Some((by_id(within.becomes), frame));
            }
        }
        Some((role, frame))
    }
}

//! What attribution asks of a frame.

/// What is true of a frame, or is not.
#[derive(Debug, Clone, Copy)]
pub enum FrameFact {
    /// The kernel's part of a stack starts with it.
    StartsKernel,
    /// Interrupts come back on in it.
    EnablesInterrupts,
    /// [`super::TailCall::is_target`]
    ReleasesWaitQueue,
    /// [`super::TailCall::is_caller`]
    CallsJumping,
}

impl FrameFact {
    /// In the order of their numbers.
    pub(super) const ALL: [Self; 4] =
        [Self::StartsKernel, Self::EnablesInterrupts, Self::ReleasesWaitQueue, Self::CallsJumping];
}

/// What attribution asks of a frame.
pub trait Attributable: Copy {
    fn named(name: &'static str) -> Self;
    /// Index of its role in the tables.
    fn role(self) -> Option<usize>;
    fn is(self, fact: FrameFact) -> bool;
}

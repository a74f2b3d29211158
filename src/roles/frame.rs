//! What attribution asks of a frame.

/// What attribution asks of a frame.
pub(crate) trait Attributable: Copy {
    fn named(name: &'static str) -> Self;
    /// Index of its role in the tables.
    fn role(self) -> Option<usize>;
    /// Whether the kernel's part of a stack starts with it.
    fn starts_kernel(self) -> bool;
    /// Whether interrupts come back on in it.
    fn enables_interrupts(self) -> bool;
    /// [`super::TailCall::is_target`]
    fn releases_wait_queue(self) -> bool;
    /// [`super::TailCall::is_caller`]
    fn calls_jumping(self) -> bool;
}

//! Roles: the purposes of kernel work, independent of symbols. `roles.toml` holds what each role's functions are called on
//! which kernel.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use ::arch;
#[cfg(test)]
pub(crate) use ::util;

mod frame;
mod id;
mod names;
mod place;
mod preempt;
mod role;
mod skid;
mod tables;

pub use crate::arch::{KERNEL, is_kernel_entry};
pub use frame::{Attributable, FrameFact};
pub use id::RoleId;
pub use id::UNKNOWN_ROLE;
pub use names::{base_name, canonical, function_name, is_cold, names_of};
pub use place::{FrameFacts, Placed, of_stack, place};
pub use preempt::{AFTER_SWITCH, preempts};
pub use role::{Pattern, Role};
pub use skid::{Skid, TailCall};
pub use tables::of_frame;
pub use tables::{all, by_id};

/// Roles that take what they take because of who runs when: which process sleeps, is preempted or finds the mutex taken,
/// where ticks fall. An
/// exact count repeats them too, but a single instruction elsewhere can shift them by a per cent.
pub const SCHEDULING: [RoleId; 11] = [
    RoleId::Scheduler,
    RoleId::WakeUp,
    RoleId::Psi,
    RoleId::Wait,
    RoleId::MutexSlow,
    RoleId::MutexSpin,
    RoleId::MutexSleep,
    RoleId::Idle,
    RoleId::Timer,
    RoleId::Irq,
    RoleId::Softirq,
];

#[cfg(test)]
mod tests;

//! Roles: what kernel time is spent on, by purpose and not by symbol. The tables beside this file, one per area,
//! hold what each role's functions are called on which kernel; this file reads them.
//!
//! To add a role, add a row to the table of its area. To add an area, add a file and a line in [`AREAS`]. Give a role
//! to functions that stand for a purpose, never to helpers that several purposes share (spin locks, `memset`, list
//! checks, return thunks): a helper without a role is booked to whoever called it.

mod copy;
mod entry;
mod irq;
mod lock;
mod memory;
mod names;
mod other;
mod pipe;
mod syscall;
mod time;
mod wait;

pub use entry::{KERNEL, is_kernel_entry};
pub use irq::IRQ_OFF;
pub use names::{base_name, canonical, function_name, is_cold, names_of};
pub use other::{OTHER_KERNEL, USER};
/// Roles that take what they take because of who runs when: which process sleeps or is preempted, where ticks fall. An
/// exact count repeats them too, but a single instruction elsewhere can shift them by a per cent.
pub const SCHEDULING: [&str; 8] = ["scheduler", "wake-up", "psi", "wait", "idle", "timer", "irq", "softirq"];

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The tables, in the order of legends: the way of a byte from user space through the pipe, then all the rest.
const AREAS: &[&[Role]] = &[
    other::USER_ROLES,
    syscall::ROLES,
    pipe::ROLES,
    copy::ROLES,
    memory::ROLES,
    lock::ROLES,
    wait::ROLES,
    time::ROLES,
    irq::ROLES,
    other::ROLES,
];

/// A purpose that kernel time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// Stable, in kebab case: `page-alloc`.
    pub id: &'static str,
    /// For people: `page allocation`.
    pub title: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Fill in a flame graph, `#rrggbb`.
    pub colour: &'static str,
    /// What the articles called it; empty where they did not.
    pub article_name: &'static str,
    /// Frames that book a stack to this role when they are its deepest frame with a role.
    pub frames: &'static [Pattern],
    /// Functions to probe, best first; the first that this kernel has and that is hit is taken.
    pub candidates: &'static [&'static str],
}

/// How a frame's name is matched, after [`function_name`]. Full names win over prefixes, long prefixes over short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Exact(&'static str),
    Prefix(&'static str),
}

/// A role that means something else when the nearest other role around it is a certain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Within {
    role: &'static str,
    inside: &'static str,
    becomes: &'static str,
}

/// All refinements.
fn within() -> impl Iterator<Item = &'static Within> {
    lock::WITHIN.iter().chain(pipe::WITHIN)
}

/// Whether the samples of a profile pile up where interrupts come back on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Skew {
    /// Exact profiles, and samples of a hardware counter, whose overflow is a non-maskable interrupt on x86.
    #[default]
    None,
    /// Samples of `cpu-clock`, whose timer cannot fire while interrupts are off.
    CpuClock,
}

struct Tables {
    roles: Vec<Role>,
    /// Index into `roles` by full name.
    exact: HashMap<&'static str, usize>,
    /// Prefixes and indices by first byte, longest prefix first.
    prefixes: Vec<Vec<(&'static str, usize)>>,
    by_id: HashMap<&'static str, usize>,
    skewed: HashMap<&'static str, ()>,
    user: usize,
    other: usize,
    irq_off: usize,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let roles: Vec<Role> = AREAS.concat();
        let by_id: HashMap<_, _> = roles.iter().enumerate().map(|(index, role)| (role.id, index)).collect();
        let mut exact = HashMap::new();
        let mut prefixes = vec![Vec::new(); 256];
        for (index, role) in roles.iter().enumerate() {
            for pattern in role.frames {
                match *pattern {
                    Pattern::Exact(name) => {
                        exact.insert(name, index);
                    }
                    Pattern::Prefix(prefix) => {
                        let first = prefix.bytes().next().unwrap_or(0);
                        prefixes[usize::from(first)].push((prefix, index));
                    }
                }
            }
        }
        for list in &mut prefixes {
            list.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        }
        let index = |id: &str| by_id.get(id).copied().unwrap_or(0);
        Tables {
            user: index(USER),
            other: index(OTHER_KERNEL),
            irq_off: index(IRQ_OFF),
            skewed: irq::SKEWED_LEAVES.iter().map(|name| (*name, ())).collect(),
            roles,
            exact,
            prefixes,
            by_id,
        }
    })
}

impl Tables {
    fn index_of_frame(&self, frame: &str) -> Option<usize> {
        let name = function_name(frame);
        self.exact.get(name).copied().or_else(|| {
            let first = name.bytes().next()?;
            self.prefixes[usize::from(first)].iter().find(|(prefix, _)| name.starts_with(prefix)).map(|found| found.1)
        })
    }
}

/// All roles, in the order of legends and tables.
#[must_use]
pub fn all() -> &'static [Role] {
    &tables().roles
}

/// The role with this id.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Role> {
    let tables = tables();
    tables.by_id.get(id).map(|index| &tables.roles[*index])
}

/// The role that a kernel frame of this name stands for, if any (suffixes understood).
#[must_use]
pub fn of_frame(frame: &str) -> Option<&'static Role> {
    let tables = tables();
    tables.index_of_frame(frame).map(|index| &tables.roles[index])
}

/// The role of a whole stack, root first and joined by `;`, and the frame that decided it: its deepest frame with a
/// role; `user` where the stack never enters the kernel, `other-kernel` where no frame has a role. For exact
/// profiles; for samples of cpu-clock see [`of_stack_with`].
#[must_use]
pub fn of_stack(stack: &str) -> (&'static Role, &str) {
    of_stack_with(stack, Skew::None)
}

/// [`of_stack`] for a profile skewed by `skew`: of samples of cpu-clock, a stack that ends where interrupts come back on
/// goes to `irq-off`, decided by the frame that had them off.
#[must_use]
pub fn of_stack_with(stack: &str, skew: Skew) -> (&'static Role, &str) {
    let tables = tables();
    let leaf = stack.rsplit(';').next().unwrap_or(stack);
    let Some(kernel) = kernel_part(stack) else {
        return (&tables.roles[tables.user], leaf);
    };
    if skew == Skew::CpuClock && tables.skewed.contains_key(function_name(leaf)) {
        let caller = kernel.rsplit(';').nth(1).unwrap_or(leaf);
        return (&tables.roles[tables.irq_off], caller);
    }
    let mut frames = kernel.rsplit(';').filter_map(|frame| Some((tables.index_of_frame(frame)?, frame)));
    let Some((index, frame)) = frames.next() else {
        return (&tables.roles[tables.other], leaf);
    };
    let role = &tables.roles[index];
    if within().any(|within| within.role == role.id)
        && let Some((around, _)) = frames.find(|(around, _)| *around != index)
    {
        let around = tables.roles[around].id;
        let found = within().find(|within| within.role == role.id && within.inside == around);
        if let Some(becomes) = found.and_then(|within| by_id(within.becomes)) {
            return (becomes, frame);
        }
    }
    (role, frame)
}

/// The kernel's part of a stack, from its first entry frame on.
fn kernel_part(stack: &str) -> Option<&str> {
    let mut start = 0;
    for frame in stack.split(';') {
        if is_kernel_entry(frame) {
            return Some(&stack[start..]);
        }
        start += frame.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests;

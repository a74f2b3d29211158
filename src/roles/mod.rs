//! Roles: the purposes of kernel work, independent of symbols. The tables in this folder, one per area, hold what each
//! role's functions are called on which kernel; this file reads them.
//!
//! To add a role, add its id in `id.rs` and a row to the table of its area. To add an area, add a file and a line in
//! [`AREAS`]. Give a role to functions that stand for a purpose, never to helpers that several purposes share (spin
//! locks, `memset`, list checks, return thunks): the time of a helper without a role goes to its caller.

mod copy;
mod id;
mod irq;
mod lock;
mod memory;
mod names;
mod other;
mod pipe;
mod place;
mod preempt;
mod skid;
mod syscall;
mod time;
mod wait;

pub(crate) use crate::arch::{KERNEL, is_kernel_entry};
pub use id::RoleId;
pub(crate) use id::UNKNOWN_ROLE;
pub use names::{base_name, canonical, function_name, is_cold, names_of};
pub(crate) use place::{Attributable, FrameFacts, Placed, of_stack, place};
pub(crate) use preempt::preempts;
pub use skid::{Skid, TailCall};
/// Roles that take what they take because of who runs when: which process sleeps or is preempted, where ticks fall. An
/// exact count repeats them too, but a single instruction elsewhere can shift them by a per cent.
pub(crate) const SCHEDULING: [RoleId; 8] = [
    RoleId::Scheduler,
    RoleId::WakeUp,
    RoleId::Psi,
    RoleId::Wait,
    RoleId::Idle,
    RoleId::Timer,
    RoleId::Irq,
    RoleId::Softirq,
];

use std::collections::{HashMap, HashSet};
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
    pub id: RoleId,
    /// For people: `page allocation`.
    pub title: &'static str,
    /// What a process in it does, to follow "spends 12 % of its time": `allocating pages`.
    pub doing: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Fill in a flame graph, `#rrggbb`.
    pub colour: &'static str,
    /// What the articles called it; empty where they did not.
    pub article_name: &'static str,
    /// A stack goes to this role when its deepest frame with a role is one of these.
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
    role: RoleId,
    inside: RoleId,
    becomes: RoleId,
}

/// All refinements.
fn within() -> impl Iterator<Item = &'static Within> {
    lock::WITHIN.iter().chain(pipe::WITHIN)
}

struct Tables {
    roles: Vec<Role>,
    /// Index into `roles` by full name.
    exact: HashMap<&'static str, usize>,
    /// Prefixes and indices by first byte, longest prefix first.
    prefixes: Vec<Vec<(&'static str, usize)>>,
    skid: HashSet<&'static str>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let roles: Vec<Role> = AREAS.concat();
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
        Tables { roles, exact, prefixes, skid: skid::LEAVES.iter().copied().collect() }
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
pub(crate) fn all() -> &'static [Role] {
    &tables().roles
}

/// Where each id's row is: the area, and the row in it.
const PLACES: [(usize, usize); RoleId::ALL.len()] = {
    let mut places = [(0, 0); RoleId::ALL.len()];
    let mut rows = [0; RoleId::ALL.len()];
    let mut area = 0;
    while area < AREAS.len() {
        let mut row = 0;
        while row < AREAS[area].len() {
            let id = AREAS[area][row].id as usize;
            places[id] = (area, row);
            rows[id] += 1;
            row += 1;
        }
        area += 1;
    }
    let mut id = 0;
    while id < rows.len() {
        assert!(rows[id] == 1, "each id of `RoleId` needs exactly one row in the tables");
        id += 1;
    }
    places
};

/// The role with this id.
#[must_use]
pub(crate) fn by_id(id: RoleId) -> &'static Role {
    let (area, row) = PLACES[id as usize];
    &AREAS[area][row]
}

/// The role of a kernel frame with this name, if any. Compiler suffixes are ignored.
#[must_use]
pub fn of_frame(frame: &str) -> Option<&'static Role> {
    let tables = tables();
    tables.index_of_frame(frame).map(|index| &tables.roles[index])
}

#[cfg(test)]
mod tests;

//! The tables of all areas, and roles by id and by function.

use super::role::{Pattern, Role, Within};
use super::{RoleId, copy, function_name, irq, lock, memory, other, pipe, skid, syscall, time, wait};
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

/// All refinements.
pub(super) fn within() -> impl Iterator<Item = &'static Within> {
    lock::WITHIN.iter().chain(pipe::WITHIN)
}

pub(super) struct Tables {
    pub roles: Vec<Role>,
    /// Index into `roles` by full name.
    exact: HashMap<&'static str, usize>,
    /// Prefixes and indices by first byte, longest prefix first.
    prefixes: Vec<Vec<(&'static str, usize)>>,
    pub skid: HashSet<&'static str>,
}

pub(super) fn tables() -> &'static Tables {
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
    pub(super) fn index_of_frame(&self, frame: &str) -> Option<usize> {
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

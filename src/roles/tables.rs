//! `roles.toml`, and roles by id and by function.

use super::role::{Pattern, Role, Within};
use super::{RoleId, function_name, skid};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The form of `roles.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    pub role: Vec<Role>,
    pub within: Vec<Within>,
}

/// How the functions of system calls are called on arm64 and on x86-64 (`SYSCALL_DEFINEx`, asm/syscall_wrapper.h). The tables
/// have the latter.
const ARM64_CALL: &str = "__arm64_sys_";
const X86_CALL: &str = "__x64_sys_";

pub(super) struct Tables {
    /// In the order of [`RoleId`].
    pub roles: Vec<Role>,
    pub within: Vec<Within>,
    /// Index into `roles` by full name.
    exact: HashMap<&'static str, usize>,
    /// Prefixes and indices by first byte, longest prefix first.
    prefixes: Vec<Vec<(&'static str, usize)>>,
    pub skid: HashSet<&'static str>,
}

pub(super) static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    // The tests parse it, too.
    let Stored { role: roles, within } = toml::from_str(include_str!("roles.toml")).unwrap_or_default();
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
    let skid = skid::LEAVES.iter().copied().collect();
    Tables { roles, within, exact, prefixes, skid }
});

impl Tables {
    pub(super) fn index_of_frame(&self, frame: &str) -> Option<usize> {
        let name = function_name(frame);
        if let Some(call) = name.strip_prefix(ARM64_CALL) {
            return self.index_of_frame(&[X86_CALL, call].concat());
        }
        self.exact.get(name).copied().or_else(|| {
            let first = name.bytes().next()?;
            self.prefixes[usize::from(first)].iter().find(|(prefix, _)| name.starts_with(prefix)).map(|found| found.1)
        })
    }
}

/// All roles, in the order of legends and tables.
pub fn all() -> &'static [Role] {
    &TABLES.roles
}

pub fn by_id(id: RoleId) -> &'static Role {
    &TABLES.roles[id as usize]
}

/// The role of a kernel frame with this name, if any. Compiler suffixes are ignored.
pub fn of_frame(frame: &str) -> Option<&'static Role> {
    TABLES.index_of_frame(frame).map(|index| &TABLES.roles[index])
}

//! Roles: the purposes of kernel work, independent of symbols. `roles.toml` holds what each role's functions are called on
//! which kernel; this file reads it.

mod id;
mod names;
mod place;
mod preempt;
mod skid;

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

use serde::{Deserialize, Deserializer};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// A text of the tables, which exist once, until the program ends.
type Text = &'static str;

/// A purpose that kernel time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    pub id: RoleId,
    /// For people: `page allocation`.
    #[serde(deserialize_with = "text")]
    pub title: Text,
    /// What a process in it does, to follow "spends 12 % of its time": `allocating pages`.
    #[serde(deserialize_with = "text")]
    pub doing: Text,
    /// One sentence.
    #[serde(deserialize_with = "text")]
    pub about: Text,
    /// Fill in a flame graph, `#rrggbb`.
    #[serde(deserialize_with = "text")]
    pub colour: Text,
    /// What the articles called it; empty where they did not.
    #[serde(default, rename = "article", deserialize_with = "text")]
    pub article_name: Text,
    /// A stack goes to this role when its deepest frame with a role is one of these.
    #[serde(default, deserialize_with = "patterns")]
    pub frames: &'static [Pattern],
    /// Functions to probe, best first; the first that this kernel has and that is hit is taken.
    #[serde(default, deserialize_with = "names")]
    pub candidates: &'static [Text],
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
    String::deserialize(deserializer).map(|text| &*text.leak())
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static [Text], D::Error> {
    text(deserializer).map(|names| &*names.split_whitespace().collect::<Vec<_>>().leak())
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static [Pattern], D::Error> {
    let pattern = |name: &Text| name.strip_suffix('*').map_or(Pattern::Exact(name), Pattern::Prefix);
    names(deserializer).map(|names| &*names.iter().map(pattern).collect::<Vec<_>>().leak())
}

/// How a frame's name is matched, after [`function_name`]. Full names win over prefixes, long prefixes over short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Exact(&'static str),
    Prefix(&'static str),
}

/// A role that means something else when the nearest other role around it is a certain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Within {
    role: RoleId,
    inside: RoleId,
    becomes: RoleId,
}

/// The form of `roles.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    role: Vec<Role>,
    within: Vec<Within>,
    /// Each with the names of one function on several kernels.
    renames: Vec<String>,
}

struct Tables {
    /// In the order of [`RoleId`].
    roles: Vec<Role>,
    within: Vec<Within>,
    renames: Vec<Vec<&'static str>>,
    /// The first name of a function that was renamed, by the others.
    renamed: HashMap<&'static str, &'static str>,
    /// Index into `roles` by full name.
    exact: HashMap<&'static str, usize>,
    /// Prefixes and indices by first byte, longest prefix first.
    prefixes: Vec<Vec<(&'static str, usize)>>,
    skid: HashSet<&'static str>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    // The tests parse it, too.
    let Stored { role: roles, within, renames } = toml::from_str(include_str!("roles.toml")).unwrap_or_default();
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
    let group = |names: String| names.leak().split_whitespace().collect::<Vec<_>>();
    let renames: Vec<Vec<&str>> = renames.into_iter().map(group).collect();
    let renamed = renames.iter().flat_map(|group| group.iter().skip(1).map(|name| (*name, group[0]))).collect();
    let skid = skid::LEAVES.iter().copied().collect();
    Tables { roles, within, renames, renamed, exact, prefixes, skid }
});

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
pub(crate) fn all() -> &'static [Role] {
    &TABLES.roles
}

pub(crate) fn by_id(id: RoleId) -> &'static Role {
    &TABLES.roles[id as usize]
}

/// The role of a kernel frame with this name, if any. Compiler suffixes are ignored.
pub fn of_frame(frame: &str) -> Option<&'static Role> {
    TABLES.index_of_frame(frame).map(|index| &TABLES.roles[index])
}

#[cfg(test)]
mod tests;

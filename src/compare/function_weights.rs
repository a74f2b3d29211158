//! The functions of a measure: what is known of each, and how they are gathered from stacks.

use crate::profile::ProcessName;
use crate::profile::folded::is_kernel_entry;
use crate::roles::{self, Role, RoleId};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A row's identity: function `name` (canonical) of `role` in `process`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub process: ProcessName,
    pub role: RoleId,
    pub name: String,
}

/// The weight of one function, in the profile's unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FunctionWeight {
    pub own: u64,
    /// With callees.
    pub whole: u64,
    /// The kernel's own names.
    pub names: BTreeSet<String>,
    /// Self weight by call path, in canonical names, kernel entry first.
    pub paths: BTreeMap<String, u64>,
    /// Canonical names of its callers.
    pub callers: BTreeSet<String>,
}

impl FunctionWeight {
    /// Add the same function of another window.
    pub(super) fn merge(&mut self, other: &Self) {
        self.own += other.own;
        self.whole += other.whole;
        for (path, weight) in &other.paths {
            match self.paths.get_mut(path) {
                Some(sum) => *sum += weight,
                None => drop(self.paths.insert(path.clone(), *weight)),
            }
        }
        for (own, others) in [(&mut self.names, &other.names), (&mut self.callers, &other.callers)] {
            for name in others.iter().filter(|name| !own.contains(*name)).collect::<Vec<_>>() {
                own.insert(name.clone());
            }
        }
    }
}

/// What is known of a kernel function by its name in a stack.
#[derive(Debug, Clone, Copy)]
struct KnownFrame<'a> {
    canonical: &'a str,
    base: &'a str,
    role: Option<&'static Role>,
}

/// A [`FunctionWeight`] of names that belong to stacks.
#[derive(Debug, Default)]
struct GatheredWeight<'a> {
    own: u64,
    whole: u64,
    names: BTreeSet<&'a str>,
    paths: HashMap<String, u64>,
    callers: BTreeSet<&'a str>,
}

/// The functions of one process, while its stacks are gone through: each name is looked at once, and none is copied.
#[derive(Debug, Default)]
pub(super) struct GatheredFunctions<'a> {
    frames: HashMap<&'a str, KnownFrame<'a>, RandomState>,
    functions: HashMap<(RoleId, &'a str), GatheredWeight<'a>, RandomState>,
}

impl<'a> GatheredFunctions<'a> {
    /// Add the stack of `frames`; `own_role`: that of its last one.
    pub(super) fn add(&mut self, frames: &[&'a str], weight: u64, own_role: RoleId) {
        let kernel = frames.iter().position(|frame| is_kernel_entry(frame));
        let Some(last) = frames.len().checked_sub(1) else { return };
        // Names of user code are unchanged.
        let Some(start) = kernel else {
            let entry = self.functions.entry((own_role, frames[last])).or_default();
            entry.own += weight;
            entry.whole += weight;
            entry.names.insert(roles::base_name(frames[last]));
            *entry.paths.entry(frames.join(";")).or_insert(0) += weight;
            return;
        };
        let known = |frame: &&'a str| {
            *self.frames.entry(*frame).or_insert_with(|| KnownFrame {
                canonical: roles::canonical(frame),
                base: roles::base_name(frame),
                role: roles::of_frame(frame),
            })
        };
        let known: Vec<KnownFrame<'_>> = frames[start..].iter().map(known).collect();
        let last = known.len() - 1;
        // Weight with callees: each function once per stack and role; the role is that of the stack up to this function.
        let mut role: Option<&'static Role> = None;
        let mut seen: Vec<(RoleId, &str)> = Vec::with_capacity(known.len());
        for (index, frame) in known.iter().enumerate() {
            role = frame.role.or(role);
            let id = if index == last { own_role } else { role.map_or(RoleId::OtherKernel, |role| role.id) };
            let key = (id, frame.canonical);
            let is_new = !seen.contains(&key);
            if !is_new && index < last {
                continue;
            }
            let entry = self.functions.entry(key).or_default();
            entry.names.insert(frame.base);
            if is_new {
                seen.push(key);
                entry.whole += weight;
                entry.callers.extend(index.checked_sub(1).map(|caller| known[caller].canonical));
            }
            if index == last {
                entry.own += weight;
                let path: Vec<&str> = known.iter().map(|frame| frame.canonical).collect();
                *entry.paths.entry(path.join(";")).or_insert(0) += weight;
            }
        }
    }

    /// Add all to `functions` of `process`.
    pub(super) fn put_into(self, functions: &mut BTreeMap<Key, FunctionWeight>, process: ProcessName) {
        for ((role, name), gathered) in self.functions {
            let entry = functions.entry(Key { process, role, name: name.to_owned() }).or_default();
            entry.own += gathered.own;
            entry.whole += gathered.whole;
            entry.names.extend(gathered.names.into_iter().map(str::to_owned));
            entry.callers.extend(gathered.callers.into_iter().map(str::to_owned));
            for (path, weight) in gathered.paths {
                *entry.paths.entry(path).or_insert(0) += weight;
            }
        }
    }
}

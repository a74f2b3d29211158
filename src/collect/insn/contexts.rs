//! Calling contexts under the names of functions, and the roles of stacks that end in them.

use super::names::Names;
use super::raw::{Block, BlockCount, Raw, Root};
use crate::arch::decoded;
use crate::profile::folded::{KERNEL, frame_name};
use crate::roles::{self, RoleId};
use std::collections::{BTreeMap, HashMap};

/// Frame for contexts entered before the window, whose outer callers are unknown.
pub(crate) const UNFOLLOWED: &str = "[since before the window]";

/// Frame of instructions of the processes whose context could not be followed.
pub(crate) const UNATTRIBUTED: &str = "[unattributed]";

/// The callers of a context, outermost first.
pub(super) fn prefix(raw: &Raw, names: &Names, node: u32) -> Vec<String> {
    let mut path = Vec::new();
    raw.path(node, &mut path);
    let start = match raw.root(node) {
        Some(Root::Unfollowed) => &[KERNEL, UNFOLLOWED][..],
        Some(Root::Unattributed(_)) => &[KERNEL, UNATTRIBUTED],
        _ => &[],
    };
    let called = path.into_iter().map(|address| frame_name(&names.function(address).name).into_owned());
    start.iter().map(|name| (*name).to_owned()).chain(called).collect()
}

/// The roles of the stacks of one window.
pub(super) struct Contexts<'a> {
    pub raw: &'a Raw,
    pub names: &'a Names,
    prefixes: HashMap<u32, Vec<String>>,
    roles: HashMap<(u32, Option<u64>), RoleId>,
}

impl<'a> Contexts<'a> {
    pub(super) fn new(raw: &'a Raw, names: &'a Names) -> Self {
        Self { raw, names, prefixes: HashMap::new(), roles: HashMap::new() }
    }

    /// The role of the stack of `node`, and below it the function that contains `leaf`, if given.
    pub(super) fn role(&mut self, node: u32, leaf: Option<u64>) -> RoleId {
        let start = leaf.map(|leaf| self.names.function(leaf).start.unwrap_or(leaf));
        if let Some(role) = self.roles.get(&(node, start)) {
            return *role;
        }
        let prefix = self.prefixes.entry(node).or_insert_with(|| prefix(self.raw, self.names, node));
        let leaf = leaf.map(|leaf| frame_name(&self.names.function(leaf).name).into_owned());
        let role = roles::of_stack(prefix.iter().chain(&leaf).map(String::as_str)).0.id;
        self.roles.insert((node, start), role);
        role
    }
}

/// The executed instructions of a count: their addresses and code.
pub(super) fn executed<'r>(raw: &'r Raw, count: &BlockCount) -> impl Iterator<Item = (u64, &'r [u8])> {
    let block = raw.blocks.get(count.block as usize);
    block.into_iter().flat_map(Block::instructions).take(count.to.into()).skip(count.from.into())
}

/// How often each process entered each role: calls of the role's functions by functions of other roles. By the place of
/// the process.
pub(super) fn entered(contexts: &mut Contexts<'_>) -> BTreeMap<(usize, RoleId), u64> {
    let (raw, names) = (contexts.raw, contexts.names);
    let start = |address| names.function(address).start.filter(|start| *start == address && address >> 63 == 1);
    // By context and function: entries, and of these jumps from other functions, which are tail calls.
    let mut entries: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let mut jumps: BTreeMap<(u32, u64, u64), u64> = BTreeMap::new();
    for count in &raw.counts {
        if !matches!(raw.root(count.node), Some(Root::Process(_) | Root::Unattributed(_))) {
            continue;
        }
        for (address, code) in executed(raw, count) {
            if start(address).is_some() {
                *entries.entry((count.node, address)).or_default() += count.times;
            }
            if matches!(code.first(), Some(0xe9 | 0xeb)) {
                let target = decoded(code, address).near_branch_target();
                if start(target).is_some() && names.function(target).start != names.function(address).start {
                    *jumps.entry((count.node, target, address)).or_default() += count.times;
                }
            }
        }
    }
    let mut entered: BTreeMap<(usize, RoleId), u64> = BTreeMap::new();
    for ((node, function), times) in entries {
        // Functions without a role enter none: not the code that returns from an interrupt, either.
        let name = names.function(function).name;
        if roles::is_cold(&name) || roles::of_frame(&name).is_none() {
            continue;
        }
        let Some(root) = raw.root(node) else { continue };
        let role = contexts.role(node, Some(function));
        let mut called = times;
        let mut from_outside = 0;
        for ((_, _, from), times) in jumps.range((node, function, 0)..=(node, function, u64::MAX)) {
            called = called.saturating_sub(*times);
            from_outside += if contexts.role(node, Some(*from)) == role { 0 } else { *times };
        }
        from_outside += if contexts.role(node, None) == role { 0 } else { called };
        if from_outside > 0 {
            *entered.entry((root.place(raw.processes), role)).or_default() += from_outside;
        }
    }
    entered
}

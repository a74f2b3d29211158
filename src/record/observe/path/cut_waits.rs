//! Waits for a child that ended before the child did: by a signal, as the one that ends a recording. What the time was spent
//! on is what the child was doing meanwhile.

use super::chain::Chain;
use super::parts::PartKey;
use crate::record::observe::raw::PrWho;
use crate::result::{PathWhat, WaitReason};
use std::collections::BTreeMap;

/// By slice, the time of each part, ns.
pub(super) type SliceParts = BTreeMap<u64, BTreeMap<u32, u64>>;

/// The parts of a path by slice.
pub(super) fn sliced(chain: &Chain) -> SliceParts {
    chain.slices().into_iter().map(|(slice, parts)| (slice, parts.iter().copied().collect())).collect()
}

/// Put what a child did in place of each wait for it that its path has all of. In slices of which such a wait is a part, the child's
/// parts keep their ratio. `parts`: by their number; `of_children`: by the number of a process, the path that ends at its last child.
pub(super) fn resolve_cut_waits(
    slices: &mut SliceParts,
    parts: &[(Option<PrWho>, PartKey)],
    of_children: &BTreeMap<u32, Chain>,
) {
    let waits = |key: &PartKey| key.what == PathWhat::Asleep { reason: WaitReason::Child };
    let mut done = Vec::new();
    // A child can itself have waited for one.
    while let Some((number, process)) = slices.values().flat_map(BTreeMap::keys).find_map(|number| {
        let (_, key) = parts.get(*number as usize)?;
        (waits(key) && !done.contains(number)).then_some((*number, key.process))
    }) {
        done.push(number);
        let Some(of_child) = of_children.get(&process).map(sliced) else { continue };
        let last = slices.iter().rev().find(|(_, parts)| parts.contains_key(&number)).map(|(slice, _)| slice);
        if last.is_none_or(|last| of_child.keys().next_back().is_none_or(|end| end < last)) {
            continue;
        }
        for (slice, parts) in &mut *slices {
            let instead = of_child.get(slice).filter(|like| like.values().any(|ns| *ns > 0));
            let Some((instead, ns)) = instead.zip(parts.remove(&number)) else { continue };
            add_in_ratio(parts, instead, ns);
        }
    }
}

/// Add `ns`, divided as `like` is.
fn add_in_ratio(parts: &mut BTreeMap<u32, u64>, like: &BTreeMap<u32, u64>, ns: u64) {
    let mut left = ns;
    let mut of_rest: u64 = like.values().sum();
    for (part, of_part) in like.iter().filter(|(_, of_part)| **of_part > 0) {
        // The last one gets all that is left, so that nothing is lost by rounding.
        let share = (u128::from(left) * u128::from(*of_part) / u128::from(of_rest)) as u64;
        *parts.entry(*part).or_default() += share;
        (left, of_rest) = (left - share, of_rest - of_part);
    }
}

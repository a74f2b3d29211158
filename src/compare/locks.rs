//! What is done while the pipe's locks are held, before and after.

use super::case::CaseMeasure;
use super::measure::as_f64;
use super::model::{HeldChange, LockChange};
use crate::profile::ProcessName;
use crate::result::{HeldCalls, LockKind, LockUse};
use crate::roles::{self, RoleId};
use std::collections::BTreeSet;

/// Calls per call of the first process that differ by less are the same.
const SMALL: f64 = 0.05;

/// Whether a number per call of the first process changed.
pub fn differ([before, after]: [f64; 2]) -> bool {
    (before - after).abs() > SMALL
}

impl HeldChange {
    /// Whether calls moved into or out of the lock, or their number changed.
    pub fn changed(&self) -> bool {
        differ(self.held) || differ(self.all)
    }

    /// Whether calls moved into or out of the lock.
    pub fn moved(&self) -> bool {
        let outside = [0, 1].map(|side| self.all[side] - self.held[side]);
        self.changed() && differ(outside) && self.held[0].max(self.held[1]) > SMALL
    }
}

/// The use of locks by the processes of both.
pub fn changes(sides: [&CaseMeasure; 2]) -> Vec<LockChange> {
    let per_call = |side: usize, count: u64| as_f64(count) / as_f64(sides[side].first_calls().max(1));
    let keys: BTreeSet<(LockKind, ProcessName)> =
        sides.iter().flat_map(|side| &side.locks).map(|one| (one.lock, one.process)).collect();
    let change = |(lock, process): (LockKind, ProcessName)| {
        let uses = sides.map(|side| side.locks.iter().find(|one| one.lock == lock && one.process == process));
        let value = |side: usize, of: fn(&LockUse) -> u64| uses[side].map_or(0.0, |one| per_call(side, of(one)));
        let known = |side: usize| uses[side].is_none_or(|one| one.unknown == 0);
        LockChange {
            process,
            lock,
            taken: [0, 1].map(|side| value(side, |one| one.taken)),
            instructions: [0, 1].map(|side| known(side).then(|| value(side, |one| one.without_scheduling))),
            calls: calls(uses, &per_call),
        }
    };
    let mut changes: Vec<LockChange> = keys.into_iter().map(change).collect();
    // In the order in which bytes flow.
    changes.sort_by_key(|change| (change.lock, sides[0].totals.place(change.process)));
    changes
}

/// For each role, the calls of the function that most represents it.
fn calls(uses: [Option<&LockUse>; 2], per_call: &dyn Fn(usize, u64) -> f64) -> Vec<HeldChange> {
    let ids: BTreeSet<RoleId> = uses.into_iter().flatten().flat_map(LockUse::roles).collect();
    let mut rows: Vec<HeldChange> = ids
        .into_iter()
        .filter_map(|role| {
            let both = [0, 1].map(|side: usize| uses[side].and_then(|one| one.of_role(role)));
            let named = both[0].or(both[1])?;
            let value = |side: usize, of: fn(&HeldCalls) -> u64| both[side].map_or(0.0, |one| per_call(side, of(one)));
            Some(HeldChange {
                role,
                title: roles::by_id(role).title.to_owned(),
                function: roles::canonical(&named.function).to_owned(),
                held: [0, 1].map(|side| value(side, |one| one.held)),
                all: [0, 1].map(|side| value(side, |one| one.all)),
            })
        })
        .collect();
    rows.sort_by(|a, b| b.all[0].total_cmp(&a.all[0]).then(b.all[1].total_cmp(&a.all[1])).then(a.role.cmp(&b.role)));
    rows
}

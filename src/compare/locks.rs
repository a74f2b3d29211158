//! What is done while the pipe's locks are held, before and after.

use super::measure::as_f64;
use super::model::{HeldChange, LockChange};
use crate::profile::ProcessName;
use crate::report::number;
use crate::result::{HeldCalls, LockKind, LockUse, Outcome};
use crate::roles::{self, RoleId};
use std::collections::BTreeSet;

/// Calls per call of the first process that differ by less are the same.
const SMALL: f64 = 0.05;

impl HeldChange {
    /// Whether calls moved into or out of the lock, or their number changed.
    #[must_use]
    pub(crate) fn changed(&self) -> bool {
        let differ = |[before, after]: [f64; 2]| (before - after).abs() > SMALL;
        differ(self.held) || differ(self.all)
    }
}

/// The use of locks by the processes of both runs.
#[must_use]
pub(crate) fn changes(before: &Outcome, after: &Outcome) -> Vec<LockChange> {
    let runs = [before, after];
    let per_call = |side: usize, count: u64| as_f64(count) / as_f64(runs[side].document.processes.first().calls.max(1));
    let keys: BTreeSet<(LockKind, ProcessName)> =
        runs.iter().flat_map(|run| &run.document.locks).map(|one| (one.lock, one.process)).collect();
    let mut changes = Vec::new();
    for (lock, process) in keys {
        let of = |run: &'_ Outcome| -> Option<LockUse> {
            run.document.locks.iter().find(|one| one.lock == lock && one.process == process).cloned()
        };
        let uses = runs.map(of);
        let value =
            |side: usize, of: fn(&LockUse) -> u64| uses[side].as_ref().map_or(0.0, |one| per_call(side, of(one)));
        let known = |side: usize| uses[side].as_ref().is_none_or(|one| one.unknown == 0);
        let instructions = |side: usize| known(side).then(|| value(side, |one| one.without_scheduling));
        changes.push(LockChange {
            process,
            lock,
            taken: [0, 1].map(|side| value(side, |one| one.taken)),
            instructions: [instructions(0), instructions(1)],
            calls: calls(&uses, &per_call),
        });
    }
    // In the order in which bytes flow.
    let place = |process| before.document.processes.totals.place(process);
    changes.sort_by_key(|change| (change.lock, place(change.process)));
    changes
}

/// For each role, the calls of the function that most represents it.
fn calls(uses: &[Option<LockUse>; 2], per_call: &dyn Fn(usize, u64) -> f64) -> Vec<HeldChange> {
    let ids: BTreeSet<RoleId> = uses.iter().flatten().flat_map(LockUse::roles).collect();
    let mut rows: Vec<HeldChange> = ids
        .into_iter()
        .filter_map(|role| {
            let both = [0, 1].map(|side: usize| uses[side].as_ref().and_then(|one| one.of_role(role)));
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

impl LockChange {
    /// `Under the pipe's mutex the writer executes 53,733 instructions per call of the writer, before 66,521 (-19.2 %)`,
    /// and what moved out of it or into it; `None` if nothing changed.
    #[must_use]
    pub(crate) fn text(&self, first: ProcessName) -> Option<String> {
        let name = match self.lock {
            LockKind::Mutex => "the pipe's mutex",
            LockKind::Spinlock => "spin locks of the pipe's functions",
        };
        let who = self.process;
        let mut parts = Vec::new();
        let (before, after) = (self.taken[0], self.taken[1]);
        let taken = (before - after).abs() > SMALL;
        match (self.lock, self.instructions) {
            (LockKind::Mutex, [Some(before), Some(after)]) => parts.push(format!(
                "under {name} the {who} executes {} instructions per call of the {first}, before {} ({})",
                number::exact(after.round()),
                number::exact(before.round()),
                number::change_of(before, after)
            )),
            _ if taken => parts.push(format!(
                "the {who} takes {name} {} times per call of the {first}, before {}",
                number::count(after),
                number::count(before)
            )),
            _ => return None,
        }
        if self.lock == LockKind::Mutex {
            let count = number::count;
            for row in self.calls.iter().filter(|row| row.changed()) {
                let outside = [0, 1].map(|side| row.all[side] - row.held[side]);
                if (outside[0] - outside[1]).abs() > SMALL && row.held[0].max(row.held[1]) > SMALL {
                    parts.push(format!(
                        "{}: {} of {} calls under it, before {} of {}",
                        row.title,
                        count(row.held[1]),
                        count(row.all[1]),
                        count(row.held[0]),
                        count(row.all[0])
                    ));
                }
            }
        }
        Some(format!("{}.", crate::util::text::capitalized(&parts.join("; "))))
    }
}

//! Shares of samples by role, before and after.

use crate::result::{Attribution, Collector, Document};
use crate::roles::{self, RoleId};
use crate::util::stats;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A role's share of the samples of one process, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ShareChange {
    pub process: String,
    pub role: RoleId,
    /// Parts of the samples of the process, 0 to 1.
    pub shares: [f64; 2],
    /// The 95 % interval of their difference, if samples are independent of one another.
    pub difference_ci95: [f64; 2],
}

impl ShareChange {
    /// After minus before.
    pub(crate) fn difference(&self) -> f64 {
        self.shares[1] - self.shares[0]
    }

    /// Whether the interval excludes a difference of zero.
    pub(crate) fn is_certain(&self) -> bool {
        let [low, high] = self.difference_ci95;
        low > 0.0 || high < 0.0
    }
}

/// The changes in processes that were sampled in both, by name: those that are certain first, and the largest of them.
pub(super) fn share_changes(documents: [&Document; 2]) -> Vec<ShareChange> {
    if documents.iter().any(|document| document.attribution.collector != Collector::Sample.name()) {
        return Vec::new();
    }
    let [before, after] = documents.map(|document| &document.attribution);
    let mut changes = Vec::new();
    for process in before.processes.names().filter(|process| after.processes.get(*process).is_some()) {
        let weights = |attribution: &Attribution| -> BTreeMap<RoleId, u64> {
            attribution.of(process).iter().map(|share| (share.role, share.weight)).collect()
        };
        let [old, new] = [weights(before), weights(after)];
        let all: BTreeSet<RoleId> = old.keys().chain(new.keys()).copied().collect();
        changes.extend(all.into_iter().map(|role| {
            let part = |weights: &BTreeMap<RoleId, u64>| weights.get(&role).copied().unwrap_or(0);
            let counts = [(part(&old), before.weight(process)), (part(&new), after.weight(process))];
            ShareChange {
                process: process.to_string(),
                role,
                shares: counts.map(|(part, whole)| part as f64 / whole.max(1) as f64),
                difference_ci95: stats::difference_of_proportions(counts),
            }
        }));
    }
    let size = |change: &ShareChange| change.difference().abs();
    changes.sort_by(|a, b| b.is_certain().cmp(&a.is_certain()).then_with(|| size(b).total_cmp(&size(a))));
    changes
}

/// `` `dd` spends 25 % instead of 17 % of its time on a CPU allocating pages (+6.1 to +9.9 points). ``
pub(super) fn largest(changes: &[ShareChange]) -> String {
    let Some(change) = changes.first().filter(|change| change.is_certain()) else {
        return "No share of a role differs by more than chance explains.".to_owned();
    };
    let [before, after] = change.shares.map(|share| 100.0 * share);
    let [low, high] = change.difference_ci95.map(|end| 100.0 * end);
    format!(
        "`{}` spends {after:.0} % instead of {before:.0} % of its time on a CPU {} ({low:+.1} to {high:+.1} points).",
        change.process,
        roles::by_id(change.role).doing
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Folded, Moved, ProcessName, Unit, attribute};
    use crate::roles::Skid;

    fn samples(stacks: &[(&str, u64)]) -> Document {
        let mut folded = Folded::new();
        stacks.iter().for_each(|(stack, weight)| folded.add(*stack, *weight));
        let roles = attribute(&folded, Unit::Samples, Skid::None, &Moved::default());
        let mut document = Document::default();
        Collector::Sample.name().clone_into(&mut document.attribution.collector);
        document.attribution.processes.insert(ProcessName::new("dd"), roles);
        document
    }

    #[test]
    fn the_largest_certain_change_is_the_answer() {
        let [copy, write] = ["dd;main;[kernel];pipe_write;copy_page_from_iter", "dd;main;[kernel];pipe_write"];
        let before = samples(&[(copy, 100), (write, 900)]);
        let after = samples(&[(copy, 300), (write, 700)]);
        let changes = share_changes([&before, &after]);
        assert_eq!(changes.len(), 2);
        let text = largest(&changes);
        assert_eq!(
            text,
            "`dd` spends 70 % instead of 90 % of its time on a CPU in pipe_write itself (-23.4 to -16.6 points)."
        );
        assert_eq!(
            largest(&share_changes([&before, &before])),
            "No share of a role differs by more than chance explains."
        );
        // Few samples prove nothing.
        let few = |a, b| samples(&[(copy, a), (write, b)]);
        assert!(!share_changes([&few(1, 9), &few(3, 7)]).iter().any(ShareChange::is_certain));
    }
}

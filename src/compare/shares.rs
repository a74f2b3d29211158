//! Shares of samples by role, before and after.

use super::measure::Measure;
use super::model::ShareChange;
use crate::roles::{self, RoleId};
use crate::util::stats;
use std::collections::BTreeSet;

impl ShareChange {
    /// After minus before.
    pub fn difference(&self) -> f64 {
        self.shares[1] - self.shares[0]
    }

    /// Whether the interval excludes a difference of zero.
    pub(crate) fn is_certain(&self) -> bool {
        let [low, high] = self.difference_ci95;
        low > 0.0 || high < 0.0
    }
}

/// The changes in processes that were sampled in both: those that are certain first, and the largest of them.
pub(super) fn share_changes([before, after]: [&Measure; 2]) -> Vec<ShareChange> {
    let mut changes = Vec::new();
    for (process, old) in before.processes.of_target() {
        let Some(new) = after.processes.get(process) else { continue };
        let all: BTreeSet<RoleId> = old.roles.keys().chain(new.roles.keys()).copied().collect();
        changes.extend(all.into_iter().map(|role| {
            let counts = [old, new].map(|of| (of.roles.get(&role).copied().unwrap_or(0), of.weight));
            ShareChange {
                process,
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
    use crate::profile::{Folded, ProcessName, Profile, Unit};
    use crate::result::{Collector, Document, Outcome};
    use crate::roles::Skid;

    fn samples(stacks: &[(&str, u64)]) -> Measure {
        let mut profile = Profile {
            process: ProcessName::new("dd"),
            collector: Collector::Sample.name().to_owned(),
            unit: Unit::Samples,
            skid: Skid::None,
            stacks: Folded::new(),
        };
        stacks.iter().for_each(|(stack, weight)| profile.stacks.add(*stack, *weight));
        let mut document = Document::default();
        Collector::Sample.name().clone_into(&mut document.attribution.collector);
        Measure::of(&[&Outcome { document, profiles: vec![profile], ..Outcome::default() }], 1).unwrap()
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

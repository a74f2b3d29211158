//! Why the verdict on one change is not the same on all numbers of CPUs.

use super::model::{CpuReason, CpuSplit, CpuSplitRole, Section, Step, SwitchRates, Word};
use crate::roles::{self, RoleId, SCHEDULING};
use std::collections::BTreeSet;

/// Roles are named until they explain so much of the difference.
const EXPLAINED: f64 = 0.67;

/// But at most so many.
const NAMED: usize = 3;

/// Rates of switches differ if one is this many times the other ...
const OTHER_RATE: f64 = 1.25;

/// ... and by at least so many per MiB.
const LEAST_RATE: f64 = 1.0;

/// The steps of each mode, those of two columns together.
pub fn groups(sections: &[Section]) -> Vec<Vec<(&Section, &Step)>> {
    let mut modes: Vec<&str> = sections.iter().map(|section| section.mode.as_str()).collect();
    modes.dedup();
    let mut groups = Vec::new();
    for mode in modes {
        let sections: Vec<&Section> = sections.iter().filter(|section| section.mode == mode).collect();
        let Some(first) = sections.first() else { continue };
        for step in &first.steps {
            let same = |other: &&Step| (other.from, other.to) == (step.from, step.to);
            let found = sections.iter().filter_map(|section| Some((*section, section.steps.iter().find(same)?)));
            groups.push(found.collect());
        }
    }
    groups
}

/// The steps whose verdicts differ by the number of CPUs, and by more than their intervals.
pub(crate) fn splits(sections: &[Section]) -> Vec<CpuSplit> {
    groups(sections).iter().filter_map(|all| split(all)).collect()
}

fn split(all: &[(&Section, &Step)]) -> Option<CpuSplit> {
    let by_change = |a: &&(&Section, &Step), b: &&(&Section, &Step)| a.1.verdict.ratio.total_cmp(&b.1.verdict.ratio);
    let (least, most) = (all.iter().min_by(by_change)?, all.iter().max_by(by_change)?);
    let (low, high) = (&least.1.verdict, &most.1.verdict);
    let is_apart = high.ratio - low.ratio > low.uncertainty? + high.uncertainty?;
    if low.word == high.word || !is_apart {
        return None;
    }
    let mut ends = [*least, *most];
    ends.sort_by_key(|(section, _)| section.cpus);
    let switches = [switches(ends[0])?, switches(ends[1])?];
    let roles = roles_of(ends.map(|(_, step)| step));
    let is_decided = |end: usize| ends[end].1.verdict.word != Word::Undecided;
    let of_pages = |role: &CpuSplitRole| matches!(role.role, RoleId::PageAlloc | RoleId::PageFree);
    let reason = match switches.map(SwitchRates::differ) {
        [true, false] if is_decided(1) => CpuReason::Schedule,
        [false, true] if is_decided(0) => CpuReason::Schedule,
        [false, false] if roles.first().is_some_and(of_pages) => CpuReason::PageLists,
        _ => CpuReason::Roles,
    };
    let (section, step) = ends[0];
    let cpus = [section.cpus?, ends[1].0.cpus?];
    Some(CpuSplit { mode: section.mode.clone(), from: step.from, to: step.to, cpus, reason, roles, switches })
}

/// The roles whose changes differ most, in the direction in which the totals differ.
fn roles_of(steps: [&Step; 2]) -> Vec<CpuSplitRole> {
    let ids: BTreeSet<RoleId> = steps.iter().flat_map(|step| step.roles.iter().map(|row| row.role)).collect();
    let of = |step: &Step, role| step.roles.iter().find(|row| row.role == role).map_or(0.0, |row| row.delta);
    let total = steps[1].verdict.delta - steps[0].verdict.delta;
    let gap = |role: &CpuSplitRole| (role.deltas[1] - role.deltas[0]) * total.signum();
    let ids = ids.into_iter().filter(|id| !SCHEDULING.contains(id));
    let role = |role| CpuSplitRole {
        role,
        title: roles::by_id(role).title.to_owned(),
        deltas: steps.map(|step| of(step, role)),
    };
    let mut found: Vec<CpuSplitRole> = ids.map(role).filter(|role| gap(role) > 0.0).collect();
    found.sort_by(|a, b| gap(b).total_cmp(&gap(a)));
    let mut explained = 0.0;
    let needed = found.iter().take_while(|role| {
        let is_needed = explained < EXPLAINED * total.abs();
        explained += gap(role);
        is_needed
    });
    let needed = needed.count().min(NAMED);
    found.truncate(needed);
    found
}

/// How often the processes sleep and are preempted, before and after.
fn switches((section, step): (&Section, &Step)) -> Option<SwitchRates> {
    let exact = |column: usize| section.cells.get(column)?.as_ref()?.exact.as_ref();
    let (before, after) = (exact(step.from)?, exact(step.to)?);
    Some(SwitchRates {
        sleeps: [before.sleeps_per_mib, after.sleeps_per_mib],
        preemptions: [before.preemptions_per_mib, after.preemptions_per_mib],
    })
}

impl SwitchRates {
    /// Whether the processes are switched at another rate than before.
    pub fn differ(self) -> bool {
        self.sleeps_differ() || differ(self.preemptions)
    }

    pub(crate) fn sleeps_differ(self) -> bool {
        differ(self.sleeps)
    }
}

fn differ([before, after]: [f64; 2]) -> bool {
    let (less, more) = (before.min(after), before.max(after));
    more >= OTHER_RATE * less && more - less >= LEAST_RATE
}

//! The windows of an exact run as measures, and what they say about the uncertainty of its values.

use super::measure::Measure;
use super::model::Outlier;
use crate::roles::{self, RoleId, SCHEDULING};
use crate::util::decision;
use std::collections::BTreeSet;

impl Measure {
    /// The smallest and the largest value of `of` in any window.
    pub(crate) fn span(&self, of: &dyn Fn(&Self) -> f64) -> [f64; 2] {
        let own = of(self);
        self.windows.iter().map(of).fold([own, own], |[low, high], value| [low.min(value), high.max(value)])
    }
}

/// As [`decision::FLOOR`], for one role or function, as a part of the total. Most repeat exactly in every window.
pub(crate) const PART_FLOOR: f64 = 0.0001;

/// Half the width of the interval of a change, from the windows of both sides; `None` if one has a single window.
fn uncertainty(before: &Measure, after: &Measure, of: &dyn Fn(&Measure) -> f64) -> Option<f64> {
    decision::half_width(&values(before, of), &values(after, of))
}

/// `of` each window.
pub(crate) fn values(measure: &Measure, of: &dyn Fn(&Measure) -> f64) -> Vec<f64> {
    measure.windows.iter().map(of).collect()
}

/// The least uncertainty of the change of a role or function, per KiB.
pub(crate) fn least_of_part(before: &Measure) -> f64 {
    PART_FLOOR * before.without_scheduling()
}

/// Whether the change of a role or function is larger than its uncertainty. Without several windows, the floor of the total
/// decides.
pub(crate) fn certain_part(before: &Measure, after: &Measure, of: &dyn Fn(&Measure) -> f64) -> bool {
    let change = (of(after) - of(before)).abs();
    match uncertainty(before, after, of) {
        Some(half) => change > half.max(least_of_part(before)),
        None => change > decision::FLOOR * before.without_scheduling(),
    }
}

/// Windows below which no outlier is looked for.
const WINDOWS: usize = 4;

/// An outlier is this many times as far from its neighbour as the other windows are apart.
const APART: f64 = 4.0;

/// The window of `measure` that makes its span wide, if a single one does, by more than [`decision::FLOOR`].
pub(crate) fn outlier(measure: &Measure) -> Option<Outlier> {
    let mut windows: Vec<&Measure> = measure.windows.iter().collect();
    if windows.len() < WINDOWS {
        return None;
    }
    windows.sort_by(|a, b| a.without_scheduling().total_cmp(&b.without_scheduling()));
    let value = |window: &&Measure| window.without_scheduling();
    // By which the first or the last window is away from the others, and the others.
    let (first, last) = (windows.split_first()?, windows.split_last()?);
    let away = |(one, others): (&&Measure, &[&Measure])| {
        let ends = [others.first().map(value)?, others.last().map(value)?];
        let distance = ends.map(|end| (value(one) - end).abs());
        let gap = distance[0].min(distance[1]);
        let clear = gap > APART * (ends[1] - ends[0]) && gap > decision::FLOOR * measure.without_scheduling();
        clear.then_some((ends, gap))
    };
    let (one, (others, _)) = [first, last]
        .into_iter()
        .filter_map(|(one, others)| Some((*one, away((one, others))?)))
        .max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let part = |measure: &Measure, role: RoleId| -> f64 {
        measure.processes.of_target().map(|(process, _)| measure.role(process, role)).sum()
    };
    let roles: BTreeSet<RoleId> = one.processes.of_target().flat_map(|(_, part)| part.roles.keys().copied()).collect();
    let (role, delta) = roles
        .into_iter()
        .filter(|role| !SCHEDULING.contains(role))
        .map(|role| (role, part(one, role) - part(measure, role)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some(Outlier { value: one.without_scheduling(), others, role, title: roles::by_id(role).title.to_owned(), delta })
}

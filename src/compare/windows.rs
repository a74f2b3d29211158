//! The windows of an exact run as measures, and what they say about the uncertainty of its values.

use super::inline::Dropped;
use super::measure::{Measure, add, as_f64};
use crate::document::{Document, Outcome, Processes};
use crate::profile::{Profile, SchedulingWeight};

/// The smallest uncertainty of a change without scheduling, as a part of the total: one refill of a page list more or
/// less, the largest move seen on one CPU with one window per run. With five windows, the median of no run on one CPU
/// moved by more than 0.001 % under changes that cannot matter (docs/exactness.md).
pub(crate) const FLOOR: f64 = 0.0017;

/// Sleeps and preemptions of the target's processes in a window, and their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowSchedule {
    pub sleeps: u64,
    pub preemptions: u64,
    pub weight: SchedulingWeight,
}

impl WindowSchedule {
    /// Instructions per sleep: preparing to wait, both switches, and the wake-up. `None` without sleeps.
    #[must_use]
    pub(crate) fn per_sleep(&self) -> Option<f64> {
        (self.sleeps > 0).then(|| as_f64(self.weight.sleeps) / as_f64(self.sleeps))
    }

    /// Instructions per preemption. `None` without preemptions.
    #[must_use]
    pub(crate) fn per_preemption(&self) -> Option<f64> {
        (self.preemptions > 0).then(|| as_f64(self.weight.preemptions) / as_f64(self.preemptions))
    }
}

/// The windows of `outcome`, an exact run, without the frames of `dropped`; the shown window if there is only one.
#[must_use]
pub(crate) fn measures(outcome: &Outcome, dropped: &Dropped) -> Vec<Measure> {
    let document = &outcome.document;
    if outcome.windows.is_empty() {
        return of_window(document, &document.processes, &outcome.profiles, dropped).into_iter().collect();
    }
    let windows = outcome.windows.iter().zip(&document.runs);
    windows.filter_map(|(profiles, run)| of_window(document, &run.processes, profiles, dropped)).collect()
}

fn of_window(document: &Document, processes: &Processes, profiles: &[Profile], dropped: &Dropped) -> Option<Measure> {
    let mut measure = Measure::default();
    add(&mut measure, document, processes, profiles, dropped);
    measure.scale_counts();
    let any = measure.processes.of_target().next().is_some();
    any.then_some(measure)
}

impl Measure {
    /// The smallest and the largest value of `of` in any window.
    pub(crate) fn span(&self, of: &dyn Fn(&Self) -> f64) -> [f64; 2] {
        let own = of(self);
        self.windows.iter().map(of).fold([own, own], |[low, high], value| [low.min(value), high.max(value)])
    }
}

/// As [`FLOOR`], for one role or function, as a part of the total. Most repeat exactly in every window.
pub(crate) const PART_FLOOR: f64 = 0.0001;

fn uncertainty(before: &Measure, after: &Measure, of: &dyn Fn(&Measure) -> f64, floor: f64) -> f64 {
    let width = |measure: &Measure| {
        let [low, high] = measure.span(of);
        high - low
    };
    let least = floor * before.without_scheduling();
    width(before).max(width(after)).max(least)
}

/// The uncertainty of the change without scheduling, per KiB: the larger span, and at least [`FLOOR`].
pub(crate) fn of_total(before: &Measure, after: &Measure) -> f64 {
    uncertainty(before, after, &Measure::without_scheduling, FLOOR)
}

/// The least uncertainty of the change of a role or function, per KiB.
pub(crate) fn least_of_part(before: &Measure) -> f64 {
    PART_FLOOR * before.without_scheduling()
}

/// The uncertainty of the change of a role or function, per KiB.
pub(crate) fn of_part(before: &Measure, after: &Measure, of: &dyn Fn(&Measure) -> f64) -> f64 {
    uncertainty(before, after, of, PART_FLOOR)
}

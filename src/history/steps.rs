//! Find changes: the fewest segments of a series, each of which one value could explain.

use super::{CountSpan, HistoryPoint, HistoryStep};
use crate::compare::model::RolePart;
use crate::roles::{self, RoleId, SCHEDULING};
use crate::util::decision::FLOOR;
use std::collections::BTreeSet;

/// The steps of a line.
///
/// The counts of a kernel have an interval ([`CountSpan::interval`]), and [`margin`] on both sides. A segment ends where its
/// kernels' intervals have no value in common any more: between two kernels, that is where a comparison of them would say
/// `more` or `fewer`. Taking each segment as long as possible gives the fewest (it is the greedy stabbing of intervals by
/// points). A slow drift within the intervals thus becomes a step as soon as no value fits all of it, and noise within
/// them never does.
pub fn steps(points: &[HistoryPoint]) -> Vec<HistoryStep> {
    let totals: Vec<CountSpan> = points.iter().map(|point| point.without_scheduling).collect();
    let margins: Vec<f64> = totals.iter().map(margin).collect();
    let of_total: BTreeSet<usize> = changes(&totals, &margins).into_iter().collect();
    let known: BTreeSet<RoleId> = points.iter().flat_map(|point| point.roles.keys().copied()).collect();
    let mut roles: Vec<(usize, RolePart)> = Vec::new();
    for role in known.into_iter().filter(|role| !SCHEDULING.contains(role)) {
        let spans: Vec<CountSpan> =
            points.iter().map(|point| point.roles.get(&role).copied().unwrap_or_default()).collect();
        // As large a part of the whole as for the sum: smaller changes of roles are in the comparison.
        for at in changes(&spans, &margins) {
            let delta = spans[at].value - spans[at - 1].value;
            roles.push((at, RolePart { role, title: roles::by_id(role).title.to_owned(), delta }));
        }
    }
    let places: BTreeSet<usize> = of_total.iter().copied().chain(roles.iter().map(|(at, _)| *at)).collect();
    let step = |at: usize| {
        let (before, after) = (&points[at - 1], &points[at]);
        let value = before.without_scheduling.value;
        let delta = after.without_scheduling.value - value;
        let mut changed: Vec<RolePart> =
            roles.iter().filter(|(place, _)| *place == at).map(|(_, change)| change.clone()).collect();
        changed.sort_by(|left, right| right.delta.abs().total_cmp(&left.delta.abs()));
        HistoryStep {
            before: before.kernel,
            after: after.kernel,
            delta,
            relative: if value > 0.0 { delta / value } else { 0.0 },
            of_total: of_total.contains(&at),
            roles: changed,
        }
    };
    places.into_iter().map(step).collect()
}

/// What is added to the interval of a sum on both sides.
pub(super) fn margin(sum: &CountSpan) -> f64 {
    FLOOR / 2.0 * sum.value
}

/// The places at which a new segment begins. `margins`: what is added to each interval on both sides.
pub(super) fn changes(spans: &[CountSpan], margins: &[f64]) -> Vec<usize> {
    let mut places = Vec::new();
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    for (place, (span, margin)) in spans.iter().zip(margins).enumerate() {
        let [from, to] = span.interval();
        let own = (from - margin, to + margin);
        (low, high) = (low.max(own.0), high.min(own.1));
        if low > high {
            places.push(place);
            (low, high) = own;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(values: &[[f64; 2]]) -> Vec<CountSpan> {
        values
            .iter()
            .map(|[low, high]| CountSpan {
                value: (low + high) / 2.0,
                low: *low,
                high: *high,
                half: (high - low) / 2.0,
            })
            .collect()
    }

    fn found(values: &[[f64; 2]], margin: f64) -> Vec<usize> {
        changes(&spans(values), &vec![margin; values.len()])
    }

    #[test]
    fn a_segment_is_what_one_value_explains() {
        assert_eq!(found(&[[1.0, 1.0]; 4], 0.0), [0usize; 0]);
        assert_eq!(found(&[[1.0, 1.0], [2.0, 2.0], [2.0, 2.0], [1.0, 1.0]], 0.0), [1, 3]);
        // Wide windows overlap: no step.
        assert_eq!(found(&[[1.0, 3.0], [2.0, 4.0], [3.0, 5.0]], 0.0), [0usize; 0]);
        // A drift: neighbours overlap, all together do not.
        assert_eq!(found(&[[1.0, 2.0], [1.8, 2.8], [2.6, 3.6]], 0.0), [2]);
        // A margin on both sides hides what it is as large as.
        assert_eq!(found(&[[1.0, 1.0], [1.2, 1.2]], 0.1), [0usize; 0]);
        assert_eq!(found(&[[1.0, 1.0], [1.3, 1.3]], 0.1), [1]);
        assert_eq!(found(&[], 0.0), [0usize; 0]);
    }

    fn point(kernel: usize, roles: &[(RoleId, f64)]) -> HistoryPoint {
        let span = |value: f64| CountSpan::of(&[value]);
        let sum: f64 = roles.iter().filter(|(role, _)| !SCHEDULING.contains(role)).map(|(_, value)| value).sum();
        HistoryPoint {
            kernel,
            without_scheduling: span(sum),
            roles: roles.iter().map(|(role, value)| (*role, span(*value))).collect(),
            ..HistoryPoint::default()
        }
    }

    #[test]
    fn a_step_names_its_roles_and_offsets_are_steps_too() {
        let [alloc, free, wait] = [RoleId::PageAlloc, RoleId::PageFree, RoleId::Wait];
        let points = [
            point(0, &[(alloc, 100.0), (free, 50.0), (wait, 10.0)]),
            // Scheduling alone, and less than a comparison can tell.
            point(1, &[(alloc, 100.1), (free, 50.0), (wait, 90.0)]),
            point(2, &[(alloc, 130.0), (free, 45.0), (wait, 90.0)]),
            point(3, &[(alloc, 125.0), (free, 50.0), (wait, 10.0)]),
        ];
        let steps = steps(&points);
        let [rise, offset] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((rise.before, rise.after, rise.of_total), (1, 2, true));
        assert_eq!(rise.roles.iter().map(|role| role.role).collect::<Vec<_>>(), [alloc, free]);
        assert!((rise.delta - 24.9).abs() < 1e-9 && (rise.relative - 24.9 / 150.1).abs() < 1e-9);
        assert_eq!((offset.before, offset.of_total, offset.delta), (2, false, 0.0));
        assert_eq!(offset.roles.len(), 2);
    }
}

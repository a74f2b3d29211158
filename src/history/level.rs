//! Compare a new kernel with a series: with all kernels since the last step, not with one of them.

use super::steps::{changes, margin};
use super::{CountSpan, HistoryLine};
use crate::util::decision::{Decision, FLOOR, decide};

/// What a workload has taken since its last step. Counts without scheduling, per KiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesLevel {
    /// Index of the kernel with which it begins.
    pub since: usize,
    /// Kernels of which it consists.
    pub kernels: usize,
    /// The least and the greatest count of any of their windows.
    pub low: f64,
    pub high: f64,
    /// What their intervals cover together.
    interval: [f64; 2],
}

impl SeriesLevel {
    /// The level of `line`; `None` without points.
    pub fn of(line: &HistoryLine) -> Option<Self> {
        let spans: Vec<CountSpan> = line.points.iter().map(|point| point.without_scheduling).collect();
        let kernels = spans.len();
        let first = changes(&spans, &spans.iter().map(margin).collect::<Vec<_>>()).pop().unwrap_or(0);
        let since = line.points.get(first)?.kernel;
        let hull = |of: fn(&CountSpan) -> [f64; 2]| {
            let ends = spans[first..kernels].iter().map(of);
            ends.fold([f64::INFINITY, f64::NEG_INFINITY], |all, [from, to]| [all[0].min(from), all[1].max(to)])
        };
        let [low, high] = hull(|span| [span.low, span.high]);
        Some(Self { since, kernels: kernels - first, low, high, interval: hull(CountSpan::interval) })
    }

    /// Whether the interval of a new kernel is above that of the level, below it, or on it within `margin`.
    pub fn decision(&self, new: &CountSpan, margin: f64) -> Decision {
        // How far each end of it is from the ends of the level.
        let beyond = |end: f64| new.interval().map(|value| value / end.max(f64::MIN_POSITIVE) - 1.0);
        let [below, above] = self.interval.map(beyond);
        match (decide(above, FLOOR, margin), decide(below, FLOOR, margin)) {
            (Decision::More, _) => Decision::More,
            (_, Decision::Fewer) => Decision::Fewer,
            _ => decide([below[0].min(0.0), above[1].max(0.0)], FLOOR, margin),
        }
    }

    /// By how much `new` is beyond the level, in percent of its nearer end: 0 inside.
    pub fn beyond(&self, new: f64) -> f64 {
        let end = new.clamp(self.low, self.high);
        if end > 0.0 { (new / end - 1.0) * 100.0 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::HistoryPoint;
    use super::*;

    fn span(low: f64, high: f64) -> CountSpan {
        CountSpan { value: (low + high) / 2.0, low, high, half: (high - low) / 2.0 }
    }

    fn line(spans: &[(f64, f64)]) -> HistoryLine {
        let point = |(kernel, (low, high)): (usize, &(f64, f64))| HistoryPoint {
            kernel,
            without_scheduling: span(*low, *high),
            ..HistoryPoint::default()
        };
        HistoryLine { points: spans.iter().enumerate().map(point).collect(), ..HistoryLine::default() }
    }

    #[test]
    fn a_kernel_is_compared_with_all_since_the_last_step() {
        let line = line(&[(400.0, 400.0), (500.0, 501.0), (500.5, 502.0)]);
        let level = SeriesLevel::of(&line).unwrap();
        assert_eq!((level.since, level.kernels, level.low, level.high), (1, 2, 500.0, 502.0));
        let decision = |low: f64, high: f64| level.decision(&span(low, high), 0.01);
        assert_eq!((decision(500.2, 500.9), level.beyond(501.0)), (Decision::Same, 0.0));
        // Beyond the range of one of them, and of all.
        assert_eq!(decision(502.1, 502.3), Decision::Same);
        assert_eq!((decision(510.0, 511.0), decision(400.0, 400.0)), (Decision::More, Decision::Fewer));
        assert!((level.beyond(510.0) - 100.0 * 8.0 / 502.0).abs() < 1e-9);
        assert!((level.beyond(490.0) + 2.0).abs() < 1e-9);
        // Windows that range over more than the margin decide nothing.
        assert_eq!(decision(480.0, 520.0), Decision::Undecided);
        assert_eq!(decision(501.0, 520.0), Decision::Undecided);
        assert_eq!(SeriesLevel::of(&HistoryLine { points: Vec::new(), ..line }), None);
    }
}

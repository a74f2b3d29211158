//! Compare a new kernel with a series: with all kernels since the last step, not with one of them.

use super::steps::{changes, margin};
use super::{CountSpan, HistoryLine};

/// What a workload has taken since its last step, and whether a new count fits it. Counts without scheduling, per KiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SeriesLevel {
    /// Index of the kernel with which it begins.
    pub since: usize,
    /// Kernels of which it consists.
    pub kernels: usize,
    /// The least and the greatest count of any of their windows.
    pub low: f64,
    pub high: f64,
    /// Whether the new count is a step.
    pub changed: bool,
}

impl SeriesLevel {
    /// The level of `line`, and whether the count `new` is another; `None` without points.
    #[must_use]
    pub(crate) fn of(line: &HistoryLine, new: &CountSpan) -> Option<Self> {
        let mut spans: Vec<CountSpan> = line.points.iter().map(|point| point.without_scheduling).collect();
        spans.push(*new);
        let kernels = line.points.len();
        let steps = changes(&spans, &spans.iter().map(margin).collect::<Vec<_>>());
        let changed = steps.last() == Some(&kernels);
        let first = steps.into_iter().rfind(|place| *place < kernels).unwrap_or(0);
        let since = line.points.get(first)?.kernel;
        let (low, high) = spans[first..kernels]
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), span| (low.min(span.low), high.max(span.high)));
        let kernels = kernels - first;
        Some(Self { since, kernels, low, high, changed })
    }

    /// By how much `new` is beyond the level, in percent of its nearer end: 0 inside.
    #[must_use]
    pub(crate) fn beyond(&self, new: f64) -> f64 {
        let end = new.clamp(self.low, self.high);
        if end > 0.0 { (new / end - 1.0) * 100.0 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::HistoryPoint;
    use super::*;
    use std::collections::BTreeMap;

    fn span(low: f64, high: f64) -> CountSpan {
        CountSpan { value: low, low, high }
    }

    fn line(spans: &[(f64, f64)]) -> HistoryLine {
        let point = |(kernel, (low, high)): (usize, &(f64, f64))| HistoryPoint {
            kernel,
            cell: String::new(),
            windows: 1,
            without_scheduling: span(*low, *high),
            total: span(*low, *high),
            roles: BTreeMap::new(),
        };
        HistoryLine {
            pipeline: false,
            mode: "write".into(),
            cpus: 1,
            setting: String::new(),
            points: spans.iter().enumerate().map(point).collect(),
            steps: Vec::new(),
        }
    }

    #[test]
    fn a_kernel_is_compared_with_all_since_the_last_step() {
        let line = line(&[(400.0, 400.0), (500.0, 501.0), (500.5, 502.0)]);
        let same = SeriesLevel::of(&line, &span(500.2, 500.9)).unwrap();
        assert_eq!((same.since, same.kernels, same.low, same.high, same.changed), (1, 2, 500.0, 502.0, false));
        assert_eq!(same.beyond(501.0), 0.0);
        // Beyond the range of one of them, and of all.
        let more = SeriesLevel::of(&line, &span(510.0, 511.0)).unwrap();
        assert!(more.changed && (more.beyond(510.0) - 100.0 * 8.0 / 502.0).abs() < 1e-9);
        assert!(SeriesLevel::of(&line, &span(400.0, 400.0)).unwrap().changed);
        assert!((more.beyond(490.0) + 2.0).abs() < 1e-9);
        assert_eq!(SeriesLevel::of(&HistoryLine { points: Vec::new(), ..line }, &span(1.0, 1.0)), None);
    }
}

//! The progress of an experiment, with an estimate of the time left.

use std::time::Duration;

/// The progress of an experiment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of results, including failures and results of earlier calls.
    pub done: usize,
    /// Number of planned results. It grows while a stop rule needs more.
    pub of: usize,
    /// Estimated from the times of finished cells; absent before the first one, and if the end is unknown.
    pub left: Option<Duration>,
}

impl Progress {
    /// `3/60, 40 s left`, with the number of the result being measured.
    pub fn next_text(&self) -> String {
        let place = format!("{}/{}", (self.done + 1).min(self.of), self.of);
        // Shorter times would pass before they are read.
        match self.left.filter(|left| *left >= Duration::from_secs(2)) {
            None => place,
            Some(left) => format!("{place}, {} left", roughly(left)),
        }
    }
}

fn roughly(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Times of finished cells, by lane.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    lanes: Vec<(Duration, u32)>,
}

impl Times {
    pub(super) fn new(lanes: usize) -> Self {
        Self { lanes: vec![(Duration::ZERO, 0); lanes] }
    }

    pub(super) fn add(&mut self, lane: usize, took: Duration) {
        if let Some((sum, count)) = self.lanes.get_mut(lane) {
            *sum += took;
            *count += 1;
        }
    }

    /// Time for `wanted` further results of each lane, `jobs` at a time. A result is assumed to take as long as the
    /// lane's earlier ones, or those of all lanes if it has none.
    pub(super) fn left(&self, wanted: impl Iterator<Item = usize>, jobs: usize) -> Option<Duration> {
        let (sum, count) = self.lanes.iter().fold((Duration::ZERO, 0), |(s, c), (sum, count)| (s + *sum, c + count));
        let mean = sum.checked_div(count)?;
        let mut left = Duration::ZERO;
        for ((sum, count), wanted) in self.lanes.iter().zip(wanted) {
            let each = sum.checked_div(*count).unwrap_or(mean);
            left += each * u32::try_from(wanted).unwrap_or(u32::MAX);
        }
        Some(left / u32::try_from(jobs.max(1)).unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_what_each_lane_took() {
        let mut times = Times::new(3);
        assert_eq!(times.left([1, 1, 1].into_iter(), 1), None, "nothing is known before the first result");
        times.add(0, Duration::from_secs(10));
        times.add(1, Duration::from_secs(2));
        times.add(1, Duration::from_secs(4));
        // 2 × 10 s, 1 × 3 s, and 3 × the mean of all, 16 s / 3.
        assert_eq!(times.left([2, 1, 3].into_iter(), 1).unwrap().as_secs(), 38);
        assert_eq!(times.left([2, 1, 3].into_iter(), 2).unwrap().as_secs(), 19);
    }

    #[test]
    fn words() {
        let text = |left| Progress { done: 2, of: 60, left }.next_text();
        assert_eq!(text(None), "3/60");
        assert_eq!(text(Some(Duration::from_millis(900))), "3/60");
        assert_eq!(text(Some(Duration::from_secs(40))), "3/60, 40 s left");
        assert_eq!(text(Some(Duration::from_secs(61))), "3/60, 2 min left");
        assert_eq!(text(Some(Duration::from_secs(3_720))), "3/60, 1 h 2 min left");
    }
}

//! How far an experiment is, and how long it may still take.

use std::time::Duration;

/// How far an experiment is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Results that are there, failed ones and those of an earlier call included.
    pub done: usize,
    /// Results that are planned. It grows while a stop rule asks for more.
    pub of: usize,
    /// Estimated from the times of finished cells; absent before the first and where the end cannot be foreseen.
    pub left: Option<Duration>,
}

impl Progress {
    /// `3/60, 40 s left`.
    #[must_use]
    pub fn text(&self) -> String {
        self.words(self.done)
    }

    /// As [`Self::text`], with the number of the result that is measured now.
    #[must_use]
    pub fn next_text(&self) -> String {
        self.words((self.done + 1).min(self.of))
    }

    fn words(&self, number: usize) -> String {
        let place = format!("{number}/{}", self.of);
        // Less than this is over before it is read.
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

    /// Time for as many further results of each lane as `wanted` gives, `jobs` at a time: those of a lane take as long
    /// as its earlier ones, or as those of all lanes where it has none.
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
        let text = |left| Progress { done: 3, of: 60, left }.text();
        assert_eq!(text(None), "3/60");
        assert_eq!(text(Some(Duration::from_millis(900))), "3/60");
        assert_eq!(text(Some(Duration::from_secs(40))), "3/60, 40 s left");
        assert_eq!(text(Some(Duration::from_secs(61))), "3/60, 2 min left");
        assert_eq!(text(Some(Duration::from_secs(3_720))), "3/60, 1 h 2 min left");
    }
}

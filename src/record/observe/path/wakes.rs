//! Which process woke which other one, how often, and when first, by slice of time.

use std::collections::BTreeMap;

/// Most pairs of processes.
const PAIRS: usize = 1024;

/// The wake-ups of one process by one other in a slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SliceWakes {
    pub slice: u64,
    /// The time of the first one, ns.
    pub first: u64,
    pub count: u64,
}

/// By the waker and the one that it wakes, in the order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimedWakes(BTreeMap<(u32, u32), Vec<SliceWakes>>);

impl TimedWakes {
    /// Count a wake-up at `at`, in this slice. Later pairs of processes than there is room for are not counted.
    pub(crate) fn add(&mut self, pair: (u32, u32), at: u64, slice: u64) {
        if self.0.len() >= PAIRS && !self.0.contains_key(&pair) {
            return;
        }
        let slices = self.0.entry(pair).or_default();
        match slices.last_mut() {
            Some(last) if last.slice == slice => last.count += 1,
            _ => slices.push(SliceWakes { slice, first: at, count: 1 }),
        }
    }

    /// Join each two slices.
    pub(crate) fn join(&mut self) {
        for slices in self.0.values_mut() {
            slices.iter_mut().for_each(|wakes| wakes.slice /= 2);
            slices.dedup_by(|wakes, before| {
                let same = wakes.slice == before.slice;
                before.count += if same { wakes.count } else { 0 };
                same
            });
        }
    }

    /// Each pair with its slices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ((u32, u32), &[SliceWakes])> {
        self.0.iter().map(|(pair, slices)| (*pair, &slices[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_are_counted_by_pair_and_slice() {
        let mut wakes = TimedWakes::default();
        for (at, slice) in [(10, 0), (11, 0), (25, 1), (49, 2)] {
            wakes.add((1, 2), at, slice);
        }
        wakes.add((2, 1), 12, 0);
        wakes.join();
        let of = |slice, first, count| SliceWakes { slice, first, count };
        let all: Vec<_> = wakes.iter().map(|(pair, slices)| (pair, slices.to_vec())).collect();
        assert_eq!(all, [((1, 2), vec![of(0, 10, 3), of(1, 49, 1)]), ((2, 1), vec![of(0, 12, 1)])]);
    }
}

//! When samples were taken, by slice of time, to distinguish those of the path from the others.

use crate::record::observe::raw::{PR_SAMPLES, PrSample, PrSampled};
use std::collections::BTreeMap;

/// How often each place was found, by slice of the path, in the order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimedSamples(BTreeMap<PrSample, Vec<(u64, u64)>>);

impl TimedSamples {
    /// Count a sample in this slice. As the map of the programs, it has room for so many places.
    pub(crate) fn add(&mut self, step: &PrSampled, slice: u64) {
        if self.0.len() >= PR_SAMPLES && !self.0.contains_key(&step.sample) {
            return;
        }
        let slices = self.0.entry(step.sample).or_default();
        match slices.last_mut() {
            Some((last, count)) if *last == slice => *count += 1,
            _ => slices.push((slice, 1)),
        }
    }

    /// Join each two slices.
    pub(crate) fn join(&mut self) {
        for slices in self.0.values_mut() {
            slices.iter_mut().for_each(|(slice, _)| *slice /= 2);
            slices.dedup_by(|(slice, count), (before, sum)| {
                let same = slice == before;
                *sum += if same { *count } else { 0 };
                same
            });
        }
    }

    /// Each place with its slices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PrSample, &[(u64, u64)])> {
        self.0.iter().map(|(sample, slices)| (*sample, &slices[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observe::raw::PrWho;

    #[test]
    fn samples_are_counted_by_place_and_slice() {
        let step = |trace| {
            let who = PrWho { stage: 0, tgid: 7, name: [1, 0] };
            let sample = PrSample { who, trace, user_trace: 0, pid: 7 };
            PrSampled { kind: 0, spare: 0, at: 0, sample }
        };
        let mut samples = TimedSamples::default();
        for (trace, slice) in [(5, 0), (5, 0), (6, 1), (5, 1), (5, 2), (5, 3), (6, 5)] {
            samples.add(&step(trace), slice);
        }
        let all = |samples: &TimedSamples| -> Vec<(u64, Vec<(u64, u64)>)> {
            samples.iter().map(|(sample, slices)| (sample.trace, slices.to_vec())).collect()
        };
        assert_eq!(all(&samples), [(5, vec![(0, 2), (1, 1), (2, 1), (3, 1)]), (6, vec![(1, 1), (5, 1)])]);
        samples.join();
        assert_eq!(all(&samples), [(5, vec![(0, 3), (1, 2)]), (6, vec![(0, 1), (2, 1)])]);
    }
}

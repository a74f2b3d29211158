//! Histograms of durations in powers of two, as bcc's and bpftrace's `hist()` print them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts by duration: element i counts durations of 2^i to 2^(i+1)-1 ns; 0 ns counts in element 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Log2Histogram(pub Vec<u64>);

impl Log2Histogram {
    /// Count one duration in ns.
    pub fn add(&mut self, ns: u64) {
        let bucket = ns.max(1).ilog2() as usize;
        if self.0.len() <= bucket {
            self.0.resize(bucket + 1, 0);
        }
        self.0[bucket] += 1;
    }

    /// Add the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    /// All durations counted.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// A bound that at least the part `quantile` (0 to 1) of all durations stays below, ns: the upper end of the bucket in
    /// which the quantile lies. `None` where nothing was counted.
    pub fn below(&self, quantile: f64) -> Option<u64> {
        let wanted = quantile * self.count() as f64;
        let mut seen = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            seen += count;
            if seen > 0 && seen as f64 >= wanted {
                return 1u64.checked_shl(u32::try_from(bucket).ok()? + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_ends_of_buckets() {
        let mut histogram = Log2Histogram::default();
        assert_eq!(histogram.below(0.5), None);
        for ns in [0, 1, 2, 3, 100, 1000] {
            histogram.add(ns);
        }
        assert_eq!(histogram.0, [2, 2, 0, 0, 0, 0, 1, 0, 0, 1]);
        assert_eq!(
            (histogram.below(0.5), histogram.below(0.8), histogram.below(0.99)),
            (Some(4), Some(128), Some(1024))
        );
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.count(), twice.below(0.5)), (12, Some(4)));
    }
}

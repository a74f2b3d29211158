//! The cost of a collector: how much slower per byte its runs are than the unprofiled runs of the same block.

use crate::result::PairRecord;
use crate::util::stats;

/// Nanoseconds of the window per byte that reached the reader; `None` without bytes.
pub(crate) fn ns_per_byte(pair: &PairRecord) -> Option<f64> {
    let (bytes, window) = (pair.processes.last().bytes, pair.processes.window_ns);
    (bytes > 0 && window > 0).then(|| window as f64 / bytes as f64)
}

/// Cost in percent and its 95 % interval, from (unprofiled, profiled) values of the same block. `None` without values.
/// The interval needs six: fewer have no distribution-free 95 % interval of the median.
pub fn percent(pairs: &[(f64, f64)]) -> Option<(f64, Option<[f64; 2]>)> {
    let slowdowns: Vec<f64> = pairs.iter().map(|(alone, watched)| (watched / alone - 1.0) * 100.0).collect();
    let median = stats::median(&slowdowns)?;
    Some((median, stats::median_ci95(&slowdowns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_takes_a_tenth_longer_costs_ten_per_cent() {
        let pairs: Vec<(f64, f64)> = (0..8).map(|i| (1.0 + f64::from(i), 1.1 * (1.0 + f64::from(i)))).collect();
        let (median, interval) = percent(&pairs).unwrap();
        assert!((median - 10.0).abs() < 1e-9);
        let [low, high] = interval.unwrap();
        assert!(low <= median && median <= high);
        assert_eq!(percent(&[]), None);
    }
}

//! Statistics for small, skewed samples: medians with intervals, ratios, rank tests. Distributions come from
//! `statrs`.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Normal, StudentsT};

/// Quantile of the normal distribution with 2.5 % in each tail.
const Z95: f64 = 1.959_963_984_540_054;

/// Factor that makes a median absolute deviation estimate the standard deviation of a normal distribution,
/// 1 / quantile(3/4).
pub(crate) const MAD_SCALE: f64 = 1.482_602_218_505_602;

/// The values in ascending order, without NaNs.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median_of_sorted(values: &[f64]) -> Option<f64> {
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 { Some(upper) } else { Some((values.get(middle - 1)? + upper) / 2.0) }
}

/// The median; `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

/// The item whose `key` is the median of all keys (the lower median), as the representative run of a cell. `None` if
/// there are no items.
pub fn median_by<'a, T>(items: impl IntoIterator<Item = &'a T>, key: impl Fn(&T) -> f64) -> Option<&'a T> {
    let mut items: Vec<&T> = items.into_iter().collect();
    items.sort_by(|a, b| key(a).total_cmp(&key(b)));
    items.get(items.len().saturating_sub(1) / 2).copied()
}

/// The median absolute deviation from the median, unscaled.
pub fn mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    median(&values.iter().map(|value| (value - centre).abs()).collect::<Vec<_>>())
}

/// Number of values further than 3 scaled MADs from the median (the Hampel identifier).
pub fn outliers(values: &[f64]) -> usize {
    match (median(values), mad(values)) {
        (Some(centre), Some(mad)) => {
            values.iter().filter(|value| (*value - centre).abs() > 3.0 * MAD_SCALE * mad).count()
        }
        _ => 0,
    }
}

/// The distribution-free 95 % interval of the median: the order statistics k and n+1-k, k the largest with
/// P(Binomial(n, 1/2) < k) <= 2.5 % (David and Nagaraja, Order Statistics, 3rd ed., 7.1). `None` for fewer than six
/// values: no such interval exists.
pub fn median_ci95(values: &[f64]) -> Option<[f64; 2]> {
    let values = sorted(values);
    let n = values.len();
    let binomial = Binomial::new(0.5, n as u64).ok()?;
    let k = (1..=n / 2).take_while(|k| binomial.cdf(*k as u64 - 1) <= 0.025).last()?;
    Some([values[k - 1], values[n - k]])
}

/// The 95 % interval of the proportion `part` / `whole` (Wilson 1927, J. Am. Stat. Assoc. 22, 209).
pub fn wilson(part: u64, whole: u64) -> [f64; 2] {
    if whole == 0 {
        return [0.0, 1.0];
    }
    let n = whole as f64;
    let p = part as f64 / n;
    let z2 = Z95 * Z95;
    let centre = p + z2 / (2.0 * n);
    let half = Z95 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    [((centre - half) / scale).max(0.0), ((centre + half) / scale).min(1.0)]
}

/// The 95 % interval of the difference of two proportions, the second minus the first, each a part and a whole
/// (Newcombe 1998, Statistics in Medicine 17, 873, method 10).
pub fn difference_of_proportions([first, second]: [(u64, u64); 2]) -> [f64; 2] {
    let share = |(part, whole): (u64, u64)| part as f64 / whole.max(1) as f64;
    let [[low1, high1], [low2, high2]] = [first, second].map(|(part, whole)| wilson(part, whole));
    let (p1, p2) = (share(first), share(second));
    let difference = p2 - p1;
    [difference - (p2 - low2).hypot(high1 - p1), difference + (high2 - p2).hypot(p1 - low1)]
}

/// Quantile of Student's t with 2.5 % in each tail; `None` without a degree of freedom.
pub fn student_t95(degrees: usize) -> Option<f64> {
    student_t(degrees, 0.95)
}

/// Quantile of Student's t for an interval with this confidence; `None` without a degree of freedom.
pub(crate) fn student_t(degrees: usize, confidence: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, degrees as f64).ok()?.inverse_cdf((1.0 + confidence) / 2.0))
}

/// Half the width of the interval of the difference of two means, with this confidence, such as 0.99 (Welch, The
/// generalization of "Student's" problem, Biometrika 1947). `None` for fewer than two values on a side.
pub(crate) fn half_width_of_difference(a: &[f64], b: &[f64], confidence: f64) -> Option<f64> {
    // The variance of the mean, and its degrees of freedom.
    let of = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (values.len() >= 2).then_some((variance / n, n - 1.0))
    };
    let ((first, first_freedom), (second, second_freedom)) = (of(a)?, of(b)?);
    let sum = first + second;
    if sum == 0.0 {
        return Some(0.0);
    }
    let freedom = sum.powi(2) / (first.powi(2) / first_freedom + second.powi(2) / second_freedom);
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf((1.0 + confidence) / 2.0);
    Some(t * sum.sqrt())
}

/// The same of values that belong together, each of `a` with the one of `b` at its place (Student, The probable error of a mean,
/// Biometrika 1908). `None` for fewer than two, or another number on each side.
pub(crate) fn half_width_of_pairs(a: &[f64], b: &[f64], confidence: f64) -> Option<f64> {
    if a.len() < 2 || a.len() != b.len() {
        return None;
    }
    let n = a.len() as f64;
    let differences = || a.iter().zip(b).map(|(a, b)| b - a);
    let mean = differences().sum::<f64>() / n;
    let variance = differences().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some(student_t(a.len() - 1, confidence)? * (variance / n).sqrt())
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub ratio: f64,
    pub ci95: [f64; 2],
}

/// Number of bootstrap resamples: enough to make the ends of an interval stable in the third digit.
const RESAMPLES: usize = 10_000;

/// median(`a`) / median(`b`) with its 95 % percentile bootstrap interval (Efron and Tibshirani, An Introduction to
/// the Bootstrap, ch. 13). Equal input and `seed` give equal output. `None` if a sample is empty or a median of `b`
/// is 0.
pub fn ratio_of_medians(a: &[f64], b: &[f64], seed: u64) -> Option<Ratio> {
    let relate = |a: f64, b: f64| (b != 0.0).then(|| a / b);
    let (a, b) = (sorted(a), sorted(b));
    let ratio = relate(median_of_sorted(&a)?, median_of_sorted(&b)?)?;
    let mut random = SmallRng::seed_from_u64(seed);
    let mut resampled = |values: &[f64], scratch: &mut Vec<f64>| {
        scratch.clear();
        scratch.extend((0..values.len()).map(|_| values[random.random_range(0..values.len())]));
        scratch.sort_by(f64::total_cmp);
        median_of_sorted(scratch)
    };
    let mut scratch = Vec::with_capacity(a.len().max(b.len()));
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let top = resampled(&a, &mut scratch)?;
        let bottom = resampled(&b, &mut scratch)?;
        ratios.extend(relate(top, bottom));
    }
    ratios.sort_by(f64::total_cmp);
    let at = |quantile: f64| ratios.get(((ratios.len() as f64 - 1.0) * quantile).round() as usize).copied();
    Some(Ratio { ratio, ci95: [at(0.025)?, at(0.975)?] })
}

/// The rank test is exact up to this many pairs of values, if there are no ties.
const EXACT_PAIRS: usize = 2_500;

/// Two-sided p of the Mann-Whitney U test that `a` and `b` come from one distribution (Mann and Whitney 1947). Exact
/// for small samples without ties; otherwise the normal approximation, corrected for ties and continuity (Hollander,
/// Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed., 4.1). `None` if a sample is empty.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (sorted(a), sorted(b));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut all: Vec<(f64, bool)> = a.iter().map(|v| (*v, true)).chain(b.iter().map(|v| (*v, false))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (n, m) = (a.len(), b.len());
    let mut rank_sum = 0.0;
    let mut ties = 0.0;
    let mut start = 0;
    for group in all.chunk_by(|x, y| x.0 == y.0) {
        let size = group.len();
        let rank = start as f64 + (size as f64 + 1.0) / 2.0;
        rank_sum += rank * group.iter().filter(|(_, of_a)| *of_a).count() as f64;
        ties += (size as f64).powi(3) - size as f64;
        start += size;
    }
    let u = rank_sum - (n * (n + 1)) as f64 / 2.0;
    let mean = (n * m) as f64 / 2.0;
    if ties == 0.0 && n * m <= EXACT_PAIRS {
        let low = u.min((n * m) as f64 - u).round() as usize;
        let counts = u_counts(n, m);
        let all: f64 = counts.iter().sum();
        let tail: f64 = counts.iter().take(low + 1).sum();
        return Some((2.0 * tail / all).min(1.0));
    }
    let total = (n + m) as f64;
    let variance = mean / 6.0 * ((total + 1.0) - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    let z = ((u - mean).abs() - 0.5).max(0.0) / variance.sqrt();
    Some((2.0 * Normal::standard().sf(z)).min(1.0))
}

/// For U = 0, 1, 2, ...: the number of arrangements of `n` and `m` values without ties that have this U. These are
/// the coefficients of the Gaussian binomial, the product over i of (1 - q^(m+i)) / (1 - q^i).
fn u_counts(n: usize, m: usize) -> Vec<f64> {
    let mut counts = vec![0.0; n * m + 1];
    counts[0] = 1.0;
    for i in 1..=n {
        for u in (m + i..counts.len()).rev() {
            counts[u] -= counts[u - m - i];
        }
        for u in i..counts.len() {
            counts[u] += counts[u - i];
        }
    }
    counts
}

/// Holm's step-down correction of a family of p values (Holm 1979, Scand. J. Stat. 6, 65), in the order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|x, y| p[*x].total_cmp(&p[*y]));
    let mut corrected = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p[index] * (p.len() - rank) as f64).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-4, "{a} is not {b}");
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
        assert_eq!(outliers(&[1.0, 1.1, 0.9, 1.0, 1.05, 9.0]), 1);
        assert_eq!(median_by(&[('a', 3.0), ('b', 1.0), ('c', 2.0), ('d', 4.0)], |item| item.1), Some(&('c', 2.0)));
        assert_eq!(median_by(&[] as &[f64], |value| *value), None);
    }

    #[test]
    fn intervals_of_medians_are_order_statistics() {
        // The standard table: n = 5 has no interval, 6 to 8 use the extremes, 9 the second from each end, 20 the
        // sixth.
        let up_to = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
        assert_eq!(median_ci95(&up_to(5)), None);
        assert_eq!(median_ci95(&up_to(6)), Some([1.0, 6.0]));
        assert_eq!(median_ci95(&up_to(8)), Some([1.0, 8.0]));
        assert_eq!(median_ci95(&up_to(9)), Some([2.0, 8.0]));
        assert_eq!(median_ci95(&up_to(20)), Some([6.0, 15.0]));
    }

    #[test]
    fn wilson_is_the_published_interval() {
        // R: prop.test(81, 263, correct = FALSE)
        let [low, high] = wilson(81, 263);
        close(low, 0.2553);
        close(high, 0.3662);
        assert_eq!(wilson(0, 10)[0], 0.0);
        assert!(wilson(10, 10)[1] > 0.9999);
    }

    #[test]
    fn rank_test_is_exact_where_it_can_be() {
        // R: wilcox.test(c(1,2,3), c(4,5,6)) p = 0.1; 5 against 5 apart: 2 / choose(10, 5)
        close(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap(), 0.1);
        close(mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]).unwrap(), 2.0 / 252.0);
        // R: wilcox.test(c(0.80,0.83,1.89,1.04,1.45,1.38,1.91,1.64,0.73,1.46), c(1.15,0.88,0.90,0.74,1.21)) p = 0.2544
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        close(mann_whitney(&x, &[1.15, 0.88, 0.90, 0.74, 1.21]).unwrap(), 0.2544);
        assert_eq!(mann_whitney(&[1.0; 9], &[1.0; 9]), Some(1.0));
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }

    #[test]
    fn the_approximation_meets_the_exact_test() {
        let a: Vec<f64> = (0..50).map(|i| f64::from(i) * 1.01).collect();
        let b: Vec<f64> = (0..50).map(|i| f64::from(i) + 8.3).collect();
        let exact = mann_whitney(&a, &b).unwrap();
        let with_a_tie = mann_whitney(&[&a[..], &[25.0, 25.0]].concat(), &b).unwrap();
        assert!((exact - with_a_tie).abs() < 0.03, "{exact} {with_a_tie}");
    }

    #[test]
    fn holm_steps_down() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (value, expected) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            close(*value, expected);
        }
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn differences_have_welchs_interval() {
        // SciPy 1.17: ttest_ind(a, b, equal_var=False).confidence_interval(0.99)
        let (a, b) = ([27.5, 21.0, 19.0, 23.6, 17.0], [27.1, 22.0, 20.8, 23.4, 28.4]);
        close(half_width_of_difference(&a, &b, 0.99).unwrap(), 7.982_795_246_377);
        assert_eq!(half_width_of_difference(&[1.0; 5], &[2.0; 5], 0.99), Some(0.0));
        assert_eq!(half_width_of_difference(&[1.0], &[2.0; 5], 0.99), None);
    }

    #[test]
    fn ratios_are_seeded_and_cover() {
        let a: Vec<f64> = (0..21).map(|i| 10.0 + f64::from(i) * 0.1).collect();
        let b: Vec<f64> = (0..21).map(|i| 5.0 + f64::from(i) * 0.05).collect();
        let ratio = ratio_of_medians(&a, &b, 7).unwrap();
        assert_eq!(ratio, ratio_of_medians(&a, &b, 7).unwrap());
        close(ratio.ratio, 2.0);
        assert!(ratio.ci95[0] < 2.0 && 2.0 < ratio.ci95[1] && ratio.ci95[1] - ratio.ci95[0] < 0.4, "{ratio:?}");
        assert_eq!(ratio_of_medians(&a, &[0.0], 7), None);
        assert_eq!(ratio_of_medians(&[], &a, 7), None);
    }
}

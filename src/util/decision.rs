//! What the interval of a change says: the one rule for verdicts, on counts and on times.

use super::stats;
use serde::Serialize;

/// The smallest change of counts without scheduling that is reported as one, as a part of the total: one refill of a page
/// list more or less, the largest move seen on one CPU with one window of 100 MiB per run. Weighed windows move less on one
/// CPU (docs/exactness.md, "A grid that nothing was tuned for").
pub const FLOOR: f64 = 0.0017;

/// Changes of counts within this part do not matter, if the user does not say otherwise.
pub const MARGIN: f64 = 0.01;

/// The confidence of intervals of changes of counts. There are many verdicts, and each may stop somebody's work.
const CONFIDENCE: f64 = 0.99;

/// The confidence of those of roles and functions. About 15 roles are looked at for each verdict: together, they are as rarely
/// wrong as it is (Bonferroni).
const CONFIDENCE_OF_PART: f64 = 1.0 - (1.0 - CONFIDENCE) / 15.0;

/// Advice is to count at most so many windows.
const MOST_WINDOWS: usize = 100;

/// What is known about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    More,
    Fewer,
    /// No change larger than the margin.
    Same,
    Undecided,
}

/// Decide from the interval of a change, as a part of the value before. `floor`: smaller changes are never reported as
/// such. `margin`: changes within it do not matter to the user.
pub fn decide([low, high]: [f64; 2], floor: f64, margin: f64) -> Decision {
    if low > floor {
        Decision::More
    } else if high < -floor {
        Decision::Fewer
    } else if low >= -margin && high <= margin {
        Decision::Same
    } else {
        Decision::Undecided
    }
}

/// How the windows of two sides belong together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WindowOrder {
    /// One is as good as the other.
    #[default]
    Any,
    /// Each begins in the same state as the one of the same number on the other side, and may vary with it.
    Paired,
}

/// Half the width of the interval of the difference of counts, from the windows of both sides, in their unit. 0 if all windows
/// are equal one by one: the same kernel again gives the same counts. `None` if one side has a single window.
pub fn half_width(windows: [&[f64]; 2], order: WindowOrder) -> Option<f64> {
    half_width_with(windows, order, CONFIDENCE)
}

/// [`half_width`] of one of many roles or functions.
pub fn half_width_of_part(windows: [&[f64]; 2], order: WindowOrder) -> Option<f64> {
    half_width_with(windows, order, CONFIDENCE_OF_PART)
}

/// The confidence of each of two intervals of which one is taken (Bonferroni).
fn of_either(confidence: f64) -> f64 {
    (1.0 + confidence) / 2.0
}

fn half_width_with([before, after]: [&[f64]; 2], order: WindowOrder, confidence: f64) -> Option<f64> {
    if !before.is_empty() && before == after {
        return Some(0.0);
    }
    if order == WindowOrder::Any {
        return stats::half_width_of_difference(before, after, confidence);
    }
    // Programs that vary by themselves, as with a random seed, vary in pairs too. So the narrower of two intervals is taken.
    let confidence = of_either(confidence);
    let any = stats::half_width_of_difference(before, after, confidence)?;
    Some(stats::half_width_of_pairs(before, after, confidence).map_or(any, |pairs| pairs.min(any)))
}

/// The part of one side in [`half_width`], if the windows of the other side are as far apart. 0 for a single window.
pub fn half_of_one(windows: &[f64]) -> f64 {
    stats::half_width_of_difference(windows, windows, CONFIDENCE).unwrap_or(0.0) / 2.0
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CountChange {
    /// As a part of the value before.
    pub change: f64,
    /// Half the width of its interval; `None` if one side has a single window.
    pub half: Option<f64>,
    pub decision: Decision,
    /// The number of windows that would decide it; `None` if that is decided, unknown or too many.
    pub enough: Option<f64>,
}

impl CountChange {
    /// From the values and the windows before and after; `margin` as that of [`decide`]. `doubt`: half the width of the
    /// interval of what windows do not show, in their unit.
    pub fn new(values: [f64; 2], windows: [&[f64]; 2], order: WindowOrder, doubt: f64, margin: f64) -> Self {
        let before = values[0].max(f64::MIN_POSITIVE);
        let change = if values[0] == values[1] { 0.0 } else { (values[1] - values[0]) / before };
        let part = |half: f64| if values[0] > 0.0 { half / before } else { 0.0 };
        let of_windows = half_width(windows, order).map(part);
        let doubt = part(doubt);
        let half = of_windows.map(|half| half.hypot(doubt));
        let decision = match half {
            Some(half) => decide([change - half, change + half], FLOOR, margin),
            None if change == 0.0 => Decision::Same,
            None => Decision::Undecided,
        };
        // Until zero and the floor are excluded, or all is within the margin, whichever is nearer. What windows leave open
        // narrows with the square root of their number, and the doubt does not.
        let wanted = (change.abs() - FLOOR).max(margin - change.abs());
        let square = if wanted > doubt { wanted.powi(2) - doubt.powi(2) } else { 0.0 };
        let least = windows[0].len().min(windows[1].len());
        let enough = of_windows
            .filter(|_| decision == Decision::Undecided && square > 0.0)
            .and_then(|half| windows_for(half, least, order, square.sqrt()));
        Self { change, half, decision, enough }
    }
}

/// How many windows of one side are enough to decide any change to another side whose windows are as far apart: half the
/// interval is then so narrow that each change is either larger than [`FLOOR`] or within [`MARGIN`].
pub fn windows_that_decide(windows: &[f64]) -> usize {
    let mean = windows.iter().sum::<f64>() / windows.len().max(1) as f64;
    let Some(half) = stats::half_width_of_difference(windows, windows, of_either(CONFIDENCE)).map(|half| half / mean)
    else {
        return windows.len();
    };
    let wanted = (MARGIN - FLOOR) / 2.0;
    if half.is_nan() || half <= wanted {
        return windows.len();
    }
    windows_for(half, windows.len(), WindowOrder::Any, wanted).map_or(MOST_WINDOWS, |enough| enough as usize)
}

/// How many windows narrow an interval to the half width `wanted`, if so many give `half`; `None` if too many. A tenth narrower,
/// because the next windows may vary more than these.
fn windows_for(half: f64, windows: usize, order: WindowOrder, wanted: f64) -> Option<f64> {
    let freedom = |windows: usize| match order {
        WindowOrder::Any => 2 * (windows - 1),
        WindowOrder::Paired => windows - 1,
    };
    let width = |windows: usize| {
        stats::student_t(freedom(windows), CONFIDENCE).map(|quantile| quantile / (windows as f64).sqrt())
    };
    let now = width(windows)?;
    (windows + 1..=MOST_WINDOWS)
        .find(|more| width(*more).is_some_and(|then| half * then / now <= 0.9 * wanted))
        .map(|windows| windows as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_vary_need_more_of_them() {
        let of = |scatter: f64| windows_that_decide(&[1e6, 1e6 + scatter, 1e6 - scatter]);
        assert_eq!([0.0, 500.0, 900.0].map(of), [3; 3]);
        assert_eq!([1_500.0, 2_500.0].map(of), [6, 11]);
        assert_eq!((of(100_000.0), windows_that_decide(&[1e6])), (MOST_WINDOWS, 1));
        // As many as it says, of the same scatter, decide whether half a percent is a change.
        let six = [1e6, 1e6 + 1_500.0, 1e6 - 1_500.0, 1e6, 1e6 + 1_500.0, 1e6 - 1_500.0];
        for change in [1.0, 1.003, 1.005, 1.006, 1.007, 1.01, 1.05] {
            let other = six.map(|count| count * change + 1.0);
            let mean = |windows: &[f64]| windows.iter().sum::<f64>() / 6.0;
            let decided = CountChange::new([mean(&six), mean(&other)], [&six, &other], WindowOrder::Any, 0.0, MARGIN);
            assert_ne!(decided.decision, Decision::Undecided, "{change}: {decided:?}");
        }
    }

    #[test]
    fn counts_are_decided_from_their_windows() {
        let of = |before: &[f64], after: &[f64]| {
            CountChange::new([before[0], after[0]], [before, after], WindowOrder::Any, 0.0, MARGIN)
        };
        assert_eq!(of(&[100.0; 3], &[102.0; 3]).decision, Decision::More);
        assert_eq!(of(&[100.0, 99.0, 101.0], &[100.0, 99.0, 101.0]).half, Some(0.0));
        // A single window has no interval, but may be equal.
        assert_eq!((of(&[100.0], &[102.0]).decision, of(&[100.0], &[102.0]).half), (Decision::Undecided, None));
        assert_eq!(of(&[100.0], &[100.0; 2]).decision, Decision::Same);
        let wide = of(&[100.0, 101.0, 99.0], &[102.0, 103.0, 101.0]);
        assert_eq!(wide.decision, Decision::Undecided);
        assert!(wide.enough.is_some_and(|enough| (4.0..30.0).contains(&enough)), "{wide:?}");
        assert_eq!(of(&[100.0, 150.0, 50.0], &[101.0, 151.0, 51.0]).enough, None);
        // More windows narrow what windows leave open, and nothing else.
        let doubted =
            |doubt| CountChange::new([100.0, 99.4], [&[100.0, 100.1], &[99.4, 99.5]], WindowOrder::Any, doubt, MARGIN);
        assert_eq!([doubted(0.3).decision, doubted(0.6).decision], [Decision::Undecided; 2]);
        assert!(doubted(0.3).enough.is_some() && doubted(0.6).enough.is_none());
    }

    #[test]
    fn windows_that_vary_together_are_compared_one_by_one() {
        let of = |after: &[f64]| {
            let before = [1847.0, 1902.0, 1871.0];
            let change = |order| CountChange::new([before[0], after[0]], [&before, after], order, 0.0, MARGIN);
            [change(WindowOrder::Any), change(WindowOrder::Paired)]
        };
        let [any, paired] = of(&[1887.0, 1942.5, 1911.0]);
        assert_eq!((any.decision, paired.decision), (Decision::Undecided, Decision::More), "{any:?} {paired:?}");
        // What does not vary together is not narrower for it.
        let [any, paired] = of(&[1910.0, 1850.0, 1890.0]);
        assert_eq!(any.decision, Decision::Undecided);
        assert!(paired.half > any.half, "{any:?} {paired:?}");
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        for (interval, expected) in [
            ([0.003, 0.004], Decision::More),
            ([-0.004, -0.003], Decision::Fewer),
            ([0.001, 0.004], Decision::Same),
            ([-0.009, 0.009], Decision::Same),
            ([-0.001, 0.011], Decision::Undecided),
            ([-1.11, 1.11], Decision::Undecided),
            // Certain, and larger than the margin.
            ([0.02, 0.5], Decision::More),
            ([f64::NAN, f64::NAN], Decision::Undecided),
        ] {
            assert_eq!(decide(interval, 0.002, 0.01), expected, "{interval:?}");
        }
    }
}

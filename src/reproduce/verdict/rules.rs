//! The rules: the range of measured values that counts as reproduced, and what a 95 % interval says about it.

use super::{Reading, number};
use crate::util::stats;
use crate::util::text::signed;
use serde::{Deserialize, Serialize};

/// What a measurement says about an article's figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureVerdict {
    Reproduced,
    NotReproduced,
    /// The 95 % interval straddles a bound of the tolerance.
    Undecided,
    /// A speed or a time that another machine has; no claim depends on it.
    AnotherMachine,
    /// Not possible on this machine.
    NotTestable,
    /// The same figure in other words as that of another row, which is judged.
    JudgedElsewhere,
}

impl FigureVerdict {
    /// Its name, and its style on the page.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Self::Reproduced => ["reproduced", "yes"],
            Self::NotReproduced => ["not reproduced", "no"],
            Self::Undecided => ["undecided", "open"],
            Self::AnotherMachine => ["another machine", "elsewhere"],
            Self::NotTestable => ["not testable", "untestable"],
            Self::JudgedElsewhere => ["-", "elsewhere"],
        }
    }
}

/// Ratios closer to 1 than this have no direction.
const EFFECT: f64 = 0.02;

/// Whether an interval lies inside the tolerance, outside of it, or straddles a bound. A value without an interval is an
/// interval of no width.
pub fn decide(measured: [f64; 2], tolerance: [f64; 2]) -> FigureVerdict {
    match () {
        () if measured[0].is_nan() || measured[1].is_nan() => FigureVerdict::NotReproduced,
        () if measured[0] >= tolerance[0] && measured[1] <= tolerance[1] => FigureVerdict::Reproduced,
        () if measured[1] < tolerance[0] || measured[0] > tolerance[1] => FigureVerdict::NotReproduced,
        () => FigureVerdict::Undecided,
    }
}

/// The 95 % interval of a reading's value: its own, or that of the median of its runs; minimum to maximum if they are too
/// few for one.
pub fn interval(reading: &Reading) -> [f64; 2] {
    reading.interval.or_else(|| stats::median_ci95(&reading.runs)).unwrap_or_else(|| reading.range())
}

/// The verdict and its reason: `what` was measured, `rule` is allowed.
fn answer(reading: &Reading, tolerance: [f64; 2], what: &str, rule: &str) -> (FigureVerdict, String) {
    let interval = interval(reading);
    let verdict = decide(interval, tolerance);
    let mut why = format!("{what}; {rule}");
    if verdict == FigureVerdict::Undecided {
        let [low, high] = interval.map(number);
        why = format!("{why}; the 95 % CI, {low} to {high}, {}", straddled(tolerance));
    }
    (verdict, why)
}

/// What an interval does that is neither inside nor outside.
fn straddled([least, most]: [f64; 2]) -> String {
    let range = if least.is_finite() { format!("{} to {}", number(least), number(most)) } else { number(most) };
    format!("straddles the tolerance ({range})")
}

/// A speed or a time is within a factor of the article's. If it is not, that says something of the machines, and nothing of
/// the article's claims.
pub fn factor(measured: &Reading, article: f64, factor: f64) -> (FigureVerdict, String) {
    let what = format!("{} times the article's value", number(measured.value / article));
    match answer(measured, band(article, factor), &what, &format!("tolerance: a factor of {factor}")) {
        (FigureVerdict::NotReproduced, why) => (FigureVerdict::AnotherMachine, why),
        other => other,
    }
}

/// The value is within a percentage of the article's.
pub fn percent(measured: &Reading, article: f64, percent: f64) -> (FigureVerdict, String) {
    let what = format!("{} %", signed((measured.value / article - 1.0) * 100.0));
    let off = article.abs() * percent / 100.0;
    answer(measured, [article - off, article + off], &what, &format!("tolerance: ±{percent} %"))
}

/// A share is within percentage points of the article's, and at most half of the article's share away: otherwise a share
/// of 0 would reproduce a small one.
pub fn points(measured: &Reading, article: f64, points: f64) -> (FigureVerdict, String) {
    let off = points.min(article / 2.0);
    let what = format!("{} percentage points", signed(measured.value - article));
    let rule = format!("tolerance: ±{}", (off * 100.0).round() / 100.0);
    answer(measured, [article - off, article + off], &what, &rule)
}

/// A claim: the value lies between `least` and `most`.
pub(crate) fn claim(measured: &Reading, least: f64, most: f64) -> (FigureVerdict, String) {
    let rule =
        if least.is_finite() { format!("expected: {least} to {most}") } else { format!("expected: at most {most}") };
    answer(measured, [least, most], &number(measured.value), &rule)
}

/// The ratio of `measured` to `base` has the direction of the `article`'s, and is within `factor` of it.
pub fn ratio(measured: &Reading, base: &Reading, article: f64, factor: f64, name: &str) -> (FigureVerdict, String) {
    let ratio = measured.value / base.value;
    let [low, high] = (measured.runs.len() >= 3 && base.runs.len() >= 3)
        .then(|| stats::ratio_of_medians(&measured.runs, &base.runs, 1))
        .flatten()
        .map_or([ratio, ratio], |ratio| ratio.ci95);
    let mut times = number(ratio);
    if low < high {
        times = format!("{times} [{}, {}]", number(low), number(high));
    }
    let band = band(article, factor);
    // An article's ratio of about 1 has no direction.
    let tolerance = match article {
        article if article > 1.0 + EFFECT => [band[0].max(1.0 + EFFECT), band[1]],
        article if article < 1.0 - EFFECT => [band[0], band[1].min(1.0 - EFFECT)],
        _ => band,
    };
    let verdict = decide([low, high], tolerance);
    let why = match verdict {
        FigureVerdict::Reproduced => format!("within a factor of {factor}"),
        FigureVerdict::NotReproduced if high < band[0] || low > band[1] => {
            format!("more than a factor of {factor} apart")
        }
        FigureVerdict::NotReproduced if (low - 1.0).abs() <= EFFECT && (high - 1.0).abs() <= EFFECT => {
            "no difference on this machine".to_owned()
        }
        FigureVerdict::NotReproduced => "opposite direction on this machine".to_owned(),
        _ => format!("the 95 % CI {}", straddled(tolerance)),
    };
    (verdict, format!("{times} times {name}; article: {} times; {why}", number(article)))
}

fn band(article: f64, factor: f64) -> [f64; 2] {
    [article / factor, article * factor]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ExecutedOn;
    use FigureVerdict::{AnotherMachine as Elsewhere, NotReproduced as No, Reproduced as Yes, Undecided as Open};

    fn of(runs: &[f64]) -> Reading {
        Reading::median(runs.to_vec(), "x", ExecutedOn::Hardware, "").unwrap()
    }

    fn share(value: f64, interval: [f64; 2]) -> Reading {
        Reading { interval: Some(interval), ..of(&[value]) }
    }

    #[test]
    fn an_interval_is_in_or_out_or_too_wide() {
        for (ours, verdict) in [
            ([1.0, 2.0], Yes),
            ([1.2, 1.2], Yes),
            ([0.9, 1.1], Open),
            ([1.9, 2.1], Open),
            ([0.5, 3.0], Open),
            ([0.5, 0.9], No),
            ([2.1, 9.0], No),
            ([f64::NAN, 1.5], No),
        ] {
            assert_eq!(decide(ours, [1.0, 2.0]), verdict, "{ours:?}");
        }
    }

    #[test]
    fn figures_within_a_factor() {
        for (runs, verdict) in [
            (&[10.0][..], Yes),
            (&[5.0, 19.0, 12.0], Yes),
            (&[4.0, 12.0, 12.0], Open),
            (&[3.0, 4.0, 4.5], Elsewhere),
            (&[21.0; 9], Elsewhere),
        ] {
            assert_eq!(factor(&of(runs), 10.0, 2.0).0, verdict, "{runs:?}");
        }
    }

    #[test]
    fn counts_within_per_cents() {
        for (runs, verdict) in
            [(&[101.9][..], Yes), (&[98.1, 100.0, 101.0], Yes), (&[100.0, 103.0], Open), (&[102.1], No), (&[97.9], No)]
        {
            assert_eq!(percent(&of(runs), 100.0, 2.0).0, verdict, "{runs:?}");
        }
    }

    #[test]
    fn shares_within_points_but_never_by_being_nothing() {
        assert_eq!(points(&share(42.0, [41.0, 43.0]), 40.0, 5.0).0, Yes);
        assert_eq!(points(&share(44.0, [42.0, 46.0]), 40.0, 5.0).0, Open);
        assert_eq!(points(&share(46.0, [45.5, 46.5]), 40.0, 5.0).0, No);
        // Two points either way of 1.17 % would be all of it.
        assert_eq!(points(&share(0.0, [0.0, 0.1]), 1.17, 2.0).0, No);
        assert_eq!(points(&share(1.0, [0.8, 1.3]), 1.17, 2.0).0, Yes);
        assert_eq!(points(&share(0.7, [0.4, 1.3]), 1.17, 2.0).0, Open);
    }

    #[test]
    fn claims_have_a_lower_end_too_where_they_say_how_much() {
        assert_eq!(claim(&of(&[0.5]), 0.25, 0.75).0, Yes);
        assert_eq!(claim(&of(&[0.08]), 0.25, 0.75).0, No);
        assert_eq!(claim(&of(&[0.8]), 0.25, 0.75).0, No);
        assert_eq!(claim(&share(0.7, [0.6, 0.9]), 0.25, 0.75).0, Open);
        assert_eq!(claim(&of(&[0.0]), f64::NEG_INFINITY, 0.05).0, Yes);
        assert_eq!(claim(&of(&[0.06]), f64::NEG_INFINITY, 0.05).0, No);
    }

    #[test]
    fn ratios_by_their_intervals_and_their_direction() {
        let base = of(&[10.0, 10.1, 9.9]);
        for (runs, theirs, verdict, why) in [
            (&[20.0, 20.2, 19.9][..], 2.0, Yes, "within a factor"),
            // 0.6 to 1.6 times where 2 is theirs and 1.33 to 3 allowed.
            (&[6.0, 15.0, 16.0], 2.0, Open, "the 95 % CI straddles"),
            (&[35.0, 35.0, 35.0], 2.0, No, "more than a factor of 1.5 apart"),
            (&[8.0, 8.1, 8.2], 2.0, No, "more than a factor of 1.5 apart"),
            // Within the factor of theirs, and yet not what they say.
            (&[8.5, 8.6, 8.7], 1.1, No, "opposite direction"),
            (&[10.0, 10.0, 10.0], 1.1, No, "no difference"),
            (&[9.6, 10.9, 11.5], 1.1, Open, "the 95 % CI straddles"),
            (&[10.9, 11.0, 11.1], 1.1, Yes, "within a factor"),
            // Theirs have no direction.
            (&[9.0, 10.0, 11.0], 1.0, Yes, "within a factor"),
        ] {
            let (answer, text) = ratio(&of(runs), &base, theirs, 1.5, "base");
            assert_eq!(answer, verdict, "{runs:?} to {theirs}: {text}");
            assert!(text.contains(why), "{text} lacks {why}");
        }
    }

    #[test]
    fn intervals_come_from_the_runs() {
        assert_eq!(interval(&of(&[1.0, 2.0, 9.0])), [1.0, 9.0]);
        assert_eq!(interval(&of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])), [2.0, 8.0]);
        assert_eq!(interval(&share(3.0, [2.5, 3.5])), [2.5, 3.5]);
    }
}

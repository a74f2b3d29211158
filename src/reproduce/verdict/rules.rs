//! The rules: what range of ours is allowed, and what an interval says of it.

use super::{Reading, Verdict, number};
use crate::util::stats;

/// Ratios closer to 1 than this have no direction: the minimum effect that is claimed at all.
const EFFECT: f64 = 0.02;

/// What an interval of ours says of what is allowed: wholly within, wholly without, or too wide to tell. A value
/// without an interval is one of no width.
#[must_use]
pub fn decide(ours: [f64; 2], allowed: [f64; 2]) -> Verdict {
    match () {
        () if ours[0].is_nan() || ours[1].is_nan() => Verdict::NotReproduced,
        () if ours[0] >= allowed[0] && ours[1] <= allowed[1] => Verdict::Reproduced,
        () if ours[1] < allowed[0] || ours[0] > allowed[1] => Verdict::NotReproduced,
        () => Verdict::Undecided,
    }
}

/// The 95 % interval of a reading's value: its own, or that of the median of its runs; from least to greatest where
/// they are too few for one.
#[must_use]
pub fn interval(reading: &Reading) -> [f64; 2] {
    reading.interval.or_else(|| stats::median_ci95(&reading.runs)).unwrap_or_else(|| reading.range())
}

/// The rule's answer, with the reason in words: `what` was seen, `rule` is allowed.
fn answer(ours: [f64; 2], allowed: [f64; 2], what: &str, rule: &str) -> (Verdict, String) {
    let verdict = decide(ours, allowed);
    let noise = match verdict {
        Verdict::Undecided => {
            let [low, high] = ours.map(number);
            let [least, most] = allowed.map(number);
            format!("; too noisy here: {low} to {high} reaches both in and out of {least} to {most}")
        }
        _ => String::new(),
    };
    (verdict, format!("{what}; {rule}{noise}"))
}

/// The figure itself is within a factor of theirs.
#[must_use]
pub fn factor(ours: &Reading, theirs: f64, factor: f64) -> (Verdict, String) {
    let what = format!("{} times theirs", number(ours.value / theirs));
    answer(interval(ours), band(theirs, factor), &what, &format!("{factor} times either way is allowed"))
}

/// The figure itself is within so many per cent of theirs.
#[must_use]
pub fn percent(ours: &Reading, theirs: f64, percent: f64) -> (Verdict, String) {
    let what = format!("{:+.1} %", (ours.value / theirs - 1.0) * 100.0);
    let off = theirs.abs() * percent / 100.0;
    answer(interval(ours), [theirs - off, theirs + off], &what, &format!("{percent} % is allowed"))
}

/// A share is within so many points of theirs, and no more than half of theirs away: of a small share, a few points
/// would let nothing at all pass.
#[must_use]
pub fn points(ours: &Reading, theirs: f64, points: f64) -> (Verdict, String) {
    let allowed = points.min(theirs / 2.0);
    let what = format!("{:+.1} points", ours.value - theirs);
    let rule = format!("{} are allowed", (allowed * 100.0).round() / 100.0);
    answer(interval(ours), [theirs - allowed, theirs + allowed], &what, &rule)
}

/// A claim: ours is no less than `least` and no more than `most`.
#[must_use]
pub fn claim(ours: &Reading, least: f64, most: f64) -> (Verdict, String) {
    let value = number(ours.value);
    let rule = if least > f64::NEG_INFINITY {
        format!("{least} to {most} is allowed")
    } else {
        format!("no more than {most} is allowed")
    };
    answer(interval(ours), [least, most], &value, &rule)
}

/// The ratio of `ours` to `base` has the direction of `theirs`, and is within `factor` of it.
#[must_use]
pub fn ratio(ours: &Reading, base: &Reading, theirs: f64, factor: f64, name: &str) -> (Verdict, String) {
    let ratio = ours.value / base.value;
    let interval = (ours.runs.len() >= 3 && base.runs.len() >= 3)
        .then(|| stats::ratio_of_medians(&ours.runs, &base.runs, 1))
        .flatten()
        .map_or([ratio, ratio], |ratio| ratio.ci95);
    let span = match interval {
        [low, high] if low < high => format!("{} [{}, {}]", number(ratio), number(low), number(high)),
        _ => number(ratio),
    };
    let figures = format!("{span} times \"{name}\", theirs {} times", number(theirs));
    let band = band(theirs, factor);
    // Theirs being the same within the effect makes any direction of ours within the factor a match.
    let allowed = match theirs {
        theirs if theirs > 1.0 + EFFECT => [band[0].max(1.0 + EFFECT), band[1]],
        theirs if theirs < 1.0 - EFFECT => [band[0], band[1].min(1.0 - EFFECT)],
        _ => band,
    };
    let [low, high] = interval;
    let verdict = decide(interval, allowed);
    let why = match verdict {
        Verdict::Reproduced => format!("within the factor of {factor} allowed"),
        Verdict::NotReproduced if high < band[0] || low > band[1] => {
            format!("apart by more than the factor of {factor} allowed")
        }
        Verdict::NotReproduced if (low - 1.0).abs() <= EFFECT && (high - 1.0).abs() <= EFFECT => {
            "no difference here".to_owned()
        }
        Verdict::NotReproduced => "the other way round here".to_owned(),
        _ => format!(
            "too noisy here, as the interval reaches both in and out of the {} to {} allowed",
            number(allowed[0]),
            number(allowed[1])
        ),
    };
    (verdict, format!("{figures}: {why}"))
}

fn band(theirs: f64, factor: f64) -> [f64; 2] {
    [theirs / factor, theirs * factor]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ExecutedOn;
    use Verdict::{NotReproduced as No, Reproduced as Yes, Undecided as Open};

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
            (&[3.0, 4.0, 4.5], No),
            (&[21.0; 9], No),
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
            (&[20.0, 20.2, 19.9][..], 2.0, Yes, "within the factor"),
            // 0.6 to 1.6 times where 2 is theirs and 1.33 to 3 allowed.
            (&[6.0, 15.0, 16.0], 2.0, Open, "too noisy"),
            (&[35.0, 35.0, 35.0], 2.0, No, "apart by more"),
            (&[8.0, 8.1, 8.2], 2.0, No, "apart by more"),
            // Within the factor of theirs, and yet not what they say.
            (&[8.5, 8.6, 8.7], 1.1, No, "the other way round"),
            (&[10.0, 10.0, 10.0], 1.1, No, "no difference"),
            (&[9.6, 10.9, 11.5], 1.1, Open, "too noisy"),
            (&[10.9, 11.0, 11.1], 1.1, Yes, "within the factor"),
            // Theirs have no direction.
            (&[9.0, 10.0, 11.0], 1.0, Yes, "within the factor"),
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

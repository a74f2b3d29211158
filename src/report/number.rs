//! Numbers in tables, sentences and pictures: the only place that decides on digits, signs and units.

use crate::util::text::{factor, rounded, signed as signed_text};

/// A measured number with three or four digits.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match () {
        () if !value.is_finite() => "-".to_owned(),
        // Avoid "-0".
        () if value == 0.0 => "0".to_owned(),
        () if size >= 10_000.0 => rounded(value),
        () if size >= 100.0 => format!("{value:.0}"),
        () if size >= 10.0 => format!("{value:.1}"),
        () if size >= 0.1 => format!("{value:.2}"),
        () if size >= 0.001 => format!("{value:.4}"),
        () => format!("{value:.1e}"),
    }
}

/// A measured time: `1.52 s`, `47.4 ms`, `310 µs`.
pub fn time(seconds: f64) -> String {
    let (time, unit) = in_unit(seconds);
    format!("{time} {unit}")
}

/// The begin and the end of a time: `0 to 84.0 ms`, `84.0 ms to 0.12 s`.
pub fn from_to(from: f64, to: f64) -> String {
    let ((from, unit), (_, last)) = (in_unit(from), in_unit(to));
    let unit = if from == "0" || unit == last { String::new() } else { format!(" {unit}") };
    format!("{from}{unit} to {}", time(to))
}

fn in_unit(seconds: f64) -> (String, &'static str) {
    match seconds.abs() {
        size if size >= 0.1 || size == 0.0 => (number(seconds), "s"),
        size if size >= 0.001 => (number(seconds * 1e3), "ms"),
        _ => (number(seconds * 1e6), "µs"),
    }
}

/// A counted number, such as instructions per KiB: `631.41`, `12,345`, `0.0370`; `0` for what would be `0.0000`.
pub fn exact(value: f64) -> String {
    let size = value.abs();
    match () {
        () if size < 0.000_05 => "0".to_owned(),
        () if size >= 10_000.0 => rounded(value),
        () if size >= 0.095 => format!("{value:.2}"),
        () => format!("{value:.4}"),
    }
}

/// A count that may be a fraction, such as calls per call: `48`, `4.01`.
pub fn count(count: f64) -> String {
    if (count - count.round()).abs() < 0.005 { rounded(count) } else { exact(count) }
}

/// A difference of counted numbers: like [`exact`], with its sign; zero has none.
pub fn signed(change: f64) -> String {
    match exact(change) {
        shown if change > 0.0 && shown != "0" => format!("+{shown}"),
        shown => shown,
    }
}

/// A part of a whole: `12 %`, `<1 %`.
pub fn percent(share: f64) -> String {
    match share {
        small if small > 0.0 && small < 0.01 => "<1 %".to_owned(),
        share => format!("{:.0} %", 100.0 * share),
    }
}

/// A part of a whole that someone chose: `1 %`, `0.5 %`, `2.31 %`.
pub fn part(part: f64) -> String {
    let percent = format!("{:.2}", part * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// A ratio as a change in percent, or as a factor if it is large: `+3.1 %`, `34.7 times`; `0 %` for what would be
/// `+0.0000 %`.
pub fn change(ratio: f64) -> String {
    if let Some(times) = factor(ratio) {
        return times;
    }
    let change = (ratio - 1.0) * 100.0;
    match () {
        () if !ratio.is_finite() => "new".to_owned(),
        // What would be "-0.0000 %".
        () if change.abs() < 0.000_05 => "0 %".to_owned(),
        () if change.abs() < 0.005 => format!("{change:+.4} %"),
        () if change.abs() < 0.05 => format!("{change:+.2} %"),
        () => format!("{change:+.1} %"),
    }
}

/// An interval of ratios as changes: `-30.0 to -20.0 %`, `8.0 to 34.7 times`.
pub fn changes([low, high]: [f64; 2]) -> String {
    let percent = |ratio: f64| signed_text((ratio - 1.0) * 100.0);
    match factor(high) {
        Some(times) => format!("{} to {times}", number(low)),
        None => format!("{} to {} %", percent(low), percent(high)),
    }
}

/// A ratio in words: `25.0 % less time`, `3.1 % more time`, `34.7 times the time`.
pub fn more_or_less(ratio: f64, less: &str, what: &str) -> String {
    match factor(ratio) {
        Some(times) => format!("{times} the {what}"),
        None => format!("{:.1} % {} {what}", (ratio - 1.0).abs() * 100.0, if ratio < 1.0 { less } else { "more" }),
    }
}

/// The change from `before` to `after` in percent; `new` or `gone` if one is missing.
pub fn change_of(before: f64, after: f64) -> String {
    match () {
        () if before == after => "0 %".to_owned(),
        () if before == 0.0 => "new".to_owned(),
        () if after == 0.0 => "gone".to_owned(),
        () => change(after / before),
    }
}

/// An uncertainty as a part of the whole: `±0.17 %`; at least 0.01 %, unless nothing varies.
pub fn margin(part: f64) -> String {
    match (part * 100.0).max(0.01) {
        _ if part == 0.0 => "±0 %".to_owned(),
        small if small < 1.0 => format!("±{small:.2} %"),
        percent => format!("±{percent:.1} %"),
    }
}

/// ` (±0.17 %)`; nothing if it is unknown, or nothing varies.
pub fn in_parentheses(half: Option<f64>) -> String {
    half.filter(|half| *half > 0.0).map(|half| format!(" ({})", margin(half))).unwrap_or_default()
}

/// An interval, with one value if both ends are shown alike: `90.31 to 90.32`.
pub fn span(ends: [f64; 2], shown: impl Fn(f64) -> String) -> String {
    let [low, high] = ends.map(shown);
    if low == high { low } else { format!("{low} to {high}") }
}

/// How often per MiB: `31.9`, `0.08`.
pub fn rate(rate: f64) -> String {
    if rate >= 10.0 { format!("{rate:.1}") } else { format!("{rate:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_of_their_size() {
        assert_eq!([1.52, 0.1, 0.0474, 0.00031, 0.0].map(time), ["1.52 s", "0.10 s", "47.4 ms", "310 µs", "0 s"]);
        assert_eq!(from_to(0.0, 0.084), "0 to 84.0 ms");
        assert_eq!(from_to(0.084, 0.12), "84.0 ms to 0.12 s");
        assert_eq!(from_to(0.12, 0.5), "0.12 to 0.50 s");
    }

    #[test]
    fn large_changes_are_factors() {
        assert_eq!([0.5, 1.031, 9.9, 34.682].map(change), ["-50.0 %", "+3.1 %", "+890.0 %", "34.7 times"]);
        assert_eq!(change_of(2.0, 69.364), "34.7 times");
        assert_eq!([[0.7, 0.8], [8.0, 34.682]].map(changes), ["-30.0 to -20.0 %", "8.00 to 34.7 times"]);
        let words = [0.75, 1.031, 34.682].map(|ratio| more_or_less(ratio, "less", "time"));
        assert_eq!(words, ["25.0 % less time", "3.1 % more time", "34.7 times the time"]);
    }

    #[test]
    fn a_change_too_small_to_show_has_no_sign() {
        assert_eq!([0.00004, -0.00004, 0.0, 0.0001, -2.5].map(signed), ["0", "0", "0", "+0.0001", "-2.50"]);
        assert_eq!([1.0 - 4e-7, 1.0 + 4e-7, 1.0 - 1e-6].map(change), ["0 %", "0 %", "-0.0001 %"]);
    }
}

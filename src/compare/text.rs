//! Format numbers alike in all outputs of a comparison.

use crate::util::text::rounded;

/// A value per KiB or per call: `631.41`, `12,345`, `0.037`.
#[must_use]
pub(crate) fn value(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if size >= 10_000.0 {
        rounded(value)
    } else if size >= 0.095 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// A change: like [`value`], with its sign; zero has none.
#[must_use]
pub(crate) fn signed(change: f64) -> String {
    if change > 0.0 { format!("+{}", value(change)) } else { value(change) }
}

/// A ratio as a change in percent: `+3.1 %`.
#[must_use]
pub(crate) fn percent(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "new".to_owned();
    }
    let change = (ratio - 1.0) * 100.0;
    if change == 0.0 {
        "0 %".to_owned()
    } else if change.abs() < 0.05 {
        format!("{change:+.4} %")
    } else {
        format!("{change:+.1} %")
    }
}

/// An uncertainty as a part of the whole: `±0.17 %`; at least 0.01 %, unless nothing varies.
#[must_use]
pub(crate) fn margin(part: f64) -> String {
    if part == 0.0 {
        return "±0 %".to_owned();
    }
    let percent = (part * 100.0).max(0.01);
    if percent < 1.0 { format!("±{percent:.2} %") } else { format!("±{percent:.1} %") }
}

/// A part of the whole: `1 %`, `0.5 %`, `2.31 %`.
#[must_use]
pub(crate) fn part(part: f64) -> String {
    let percent = format!("{:.2}", part * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// ` (±0.17 %)`; nothing if it is unknown, or nothing varies.
#[must_use]
pub(crate) fn in_parentheses(half: Option<f64>) -> String {
    half.filter(|half| *half > 0.0).map(|half| format!(" ({})", margin(half))).unwrap_or_default()
}

/// How often per MiB: `31.9`, `0.08`.
#[must_use]
pub(crate) fn rate(rate: f64) -> String {
    if rate >= 10.0 { format!("{rate:.1}") } else { format!("{rate:.2}") }
}

/// Calls per call: `48`, `4.01`.
#[must_use]
pub(crate) fn count(count: f64) -> String {
    if (count - count.round()).abs() < 0.005 { rounded(count) } else { value(count) }
}

/// `90.31 to 90.32`.
#[must_use]
pub(crate) fn span([low, high]: [f64; 2]) -> String {
    let (low, high) = (value(low), value(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// The change from `before` to `after` in percent; `new` or `gone` if one is missing.
#[must_use]
pub(crate) fn change(before: f64, after: f64) -> String {
    if before == after {
        "0 %".to_owned()
    } else if before == 0.0 {
        "new".to_owned()
    } else if after == 0.0 {
        "gone".to_owned()
    } else {
        percent(after / before)
    }
}

/// `text`, cut to `width` characters; `..` at the end shows the cut.
#[must_use]
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(2)).collect();
    format!("{kept}..")
}

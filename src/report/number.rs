//! Format numbers for tables and sentences.

use crate::util::text::rounded;

/// A number with three or four digits.
#[must_use]
pub(crate) fn number(value: f64) -> String {
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

//! Verdicts on counted instructions. No statistics: every difference is real.

use super::measure::Measure;
use super::model::{Verdict, Word};
use super::text;

/// Compare two counted runs.
#[must_use]
pub(crate) fn verdict(before: &Measure, after: &Measure) -> Verdict {
    let weight = |measure: &Measure| u128::from(measure.weight());
    // Cross-multiplied, so that rounding cannot make equal counts differ.
    let (old, new) = (weight(before) * u128::from(after.bytes), weight(after) * u128::from(before.bytes));
    let word = match new.cmp(&old) {
        std::cmp::Ordering::Less => Word::Fewer,
        std::cmp::Ordering::Equal => Word::Same,
        std::cmp::Ordering::Greater => Word::More,
    };
    let (a, b) = (before.total(), after.total());
    let (delta, ratio) = if word == Word::Same { (0.0, 1.0) } else { (b - a, if a > 0.0 { b / a } else { f64::NAN }) };
    let text = match word {
        Word::Same => {
            format!("no difference: exactly {} instructions per KiB before and after", text::value(a))
        }
        _ => format!(
            "{} instructions per KiB ({}), {} to {}",
            text::signed(delta),
            text::percent(ratio),
            text::value(a),
            text::value(b)
        ),
    };
    Verdict {
        word,
        before: a,
        after: b,
        delta,
        ratio,
        ci95: None,
        p: None,
        p_holm: None,
        noise_floor: None,
        noise_from: String::new(),
        pairs: [1, 1],
        boots: [1, 1],
        more_runs: None,
        text,
    }
}

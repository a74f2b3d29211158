//! What is compared, and how.

use super::model::MissingCell;
use super::timed::Boots;
use crate::document::Outcome;
use crate::experiment::Ending;

/// One column's runs: one per mode and boot.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// What to call it; absent: what tells it from the others.
    pub label: Option<String>,
    /// Where each run comes from, and the run.
    pub runs: Vec<(String, Outcome)>,
}

/// Which columns are set against which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Against {
    /// Each against the one before it, and the last against the first.
    #[default]
    Previous,
    /// Each against the first.
    First,
}

/// How to compare.
#[derive(Debug, Clone, Default)]
pub struct CompareOptions {
    pub command: String,
    pub against: Against,
    /// Of bootstraps and shuffles.
    pub seed: u64,
    /// The first column's second measurement, where there is one.
    pub control: Option<Input>,
    /// What was asked for and could not be measured.
    pub missing: Vec<MissingCell>,
    /// What ended the measurement, where a stop rule was given.
    pub ending: Option<Ending>,
}

/// The runs of a column in `mode`.
#[must_use]
pub fn of_mode<'a>(input: &'a Input, mode: &str) -> Vec<&'a Outcome> {
    input.runs.iter().map(|(_, outcome)| outcome).filter(|outcome| base_mode(&outcome.document.mode) == mode).collect()
}

/// A mode without the axes that override it: `write` of `write (buffer-size=64K)`. What overrides is a difference
/// between columns, not another mode.
#[must_use]
pub fn base_mode(mode: &str) -> &str {
    mode.split(" (").next().unwrap_or(mode)
}

/// Nanoseconds per KiB of every pair, by boot.
#[must_use]
pub fn boots(runs: &[&Outcome]) -> Boots {
    runs.iter().map(|outcome| pair_times(outcome)).filter(|boot| !boot.is_empty()).collect()
}

/// Nanoseconds per KiB of every pair of a run that no collector watched.
#[must_use]
pub fn pair_times(outcome: &Outcome) -> Vec<f64> {
    let speeds = outcome.document.throughput.runs.iter().filter(|gib_s| **gib_s > 0.0);
    speeds.map(|gib_s| 1e9 / gib_s / f64::from(1 << 20)).collect()
}

//! The inputs and options of a comparison.

use super::model::MissingCell;
use crate::experiment::Ending;
use crate::profile::CycleModel;
use crate::result::{Document, Measurement, Outcome};
use crate::util::decision::MARGIN;
use crate::workload::WorkloadRequest;

/// The label of what is measured now, beside what is stored.
pub const NOW: &str = "now";

/// One column's times: ns per KiB of each run, by boot.
pub(crate) type Boots = Vec<Vec<f64>>;

/// One column's runs, one per mode and boot.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Its label; absent: derived from the differences between columns.
    pub label: Option<String>,
    /// Source and run.
    pub runs: Vec<(String, Outcome)>,
}

/// Which columns are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Against {
    /// Each with the previous one, and the last with the first
    #[default]
    Previous,
    /// Each with the first
    First,
}

/// How to compare.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    pub command: String,
    pub against: Against,
    /// Seed of bootstraps and shuffles.
    pub seed: u64,
    /// The second measurement of the first column, if any.
    pub control: Option<Input>,
    /// What could not be measured.
    pub missing: Vec<MissingCell>,
    /// How the measurement ended, if a stop rule was given.
    pub ending: Option<Ending>,
    /// The model of estimated cycles; absent: that of the first run.
    pub cycle_model: Option<CycleModel>,
    /// Changes of counts within it are `same`, as a part of the value before.
    pub margin: f64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            command: String::new(),
            against: Against::default(),
            seed: 0,
            control: None,
            missing: Vec::new(),
            ending: None,
            cycle_model: None,
            margin: MARGIN,
        }
    }
}

/// The runs of a column in `mode`, on `cpus` if given.
pub(crate) fn of_case<'a>(input: &'a Input, mode: &str, cpus: Option<u32>) -> Vec<&'a Outcome> {
    let wanted =
        |document: &Document| case_name(document) == mode && cpus.is_none_or(|cpus| document.environment.cpus == cpus);
    input.runs.iter().map(|(_, outcome)| outcome).filter(|outcome| wanted(&outcome.document)).collect()
}

/// The mode that was asked for, without its overrides, which are differences between columns and not other modes. A
/// pipeline is a case of its own.
pub fn case_name(document: &Document) -> &str {
    match &document.request {
        Some(Measurement::Pair(options)) => options.workload.mode.as_deref().unwrap_or(WorkloadRequest::DEFAULT_MODE),
        _ => &document.mode,
    }
}

/// Nanoseconds per KiB of each run, by boot.
pub fn boots(runs: &[&Outcome]) -> Boots {
    runs.iter().map(|outcome| pair_times(outcome)).filter(|boot| !boot.is_empty()).collect()
}

/// Nanoseconds per KiB of each unprofiled run; of a pipeline, ms of those that were not recorded, or else of the recorded
/// one.
pub(crate) fn pair_times(outcome: &Outcome) -> Vec<f64> {
    let document = &outcome.document;
    if document.target.workload().is_none() {
        return match &document.trials {
            Some(trials) => trials.unchanged.seconds.iter().map(|seconds| seconds * 1e3).collect(),
            None => Some(document.processes.window_ns as f64 / 1e6).filter(|ms| *ms > 0.0).into_iter().collect(),
        };
    }
    let speeds = outcome.document.throughput.runs.iter().filter(|gib_s| **gib_s > 0.0);
    speeds.map(|gib_s| 1e9 / gib_s / f64::from(1 << 20)).collect()
}

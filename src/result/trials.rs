//! Runs of a pipeline with and without changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs of the pipeline as it is, and of changed ones, in turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trials {
    pub unchanged: TrialRuns,
    pub tried: Vec<Trial>,
    /// Share of CPU time that other programs used meanwhile, 0 to 1.
    pub others: Option<f64>,
}

/// The runs of one pipeline: nothing was recorded during them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRuns {
    /// From the start of the first program to the end of the last, s.
    pub seconds: Vec<f64>,
    /// CPU time of all processes, s.
    pub cpu_seconds: Vec<f64>,
}

/// One change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// As it is typed: `pipe-size=1M`.
    pub change: String,
    pub runs: TrialRuns,
    /// Median of its times by the median of the unchanged pipeline's.
    pub ratio: Option<f64>,
    /// Bootstrap interval of the ratio.
    pub ci95: Option<[f64; 2]>,
    pub verdict: TrialVerdict,
    /// Why it could not be measured.
    pub failed: Option<String>,
}

/// What a change does to the time of a pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialVerdict {
    Faster,
    Slower,
    /// The interval is within 5 %.
    Same,
    #[default]
    Undecided,
    Failed,
}

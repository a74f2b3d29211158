//! Runs of a pipeline with and without changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// If system calls were refused: the programs that had called them, from one recorded run with and one without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Vec<RefusedProgram>>,
}

/// A program of which system calls were refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedProgram {
    /// As in /proc/PID/comm. Processes of one name are one.
    pub name: String,
    /// How many calls were refused, by system call.
    pub refused: BTreeMap<String, u64>,
    /// Calls that moved bytes, at files of any kind, by system call: in the run as it is, and in that with the refusal.
    pub before: BTreeMap<String, MovedBytes>,
    pub after: BTreeMap<String, MovedBytes>,
    pub outcome: RefusalOutcome,
    /// In the run with the refusal, unless it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u32>,
    /// A line of standard error about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// Calls, and the bytes that they moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedBytes {
    pub calls: u64,
    pub bytes: u64,
}

/// What a program does without a system call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusalOutcome {
    /// It moves as much by others.
    #[default]
    FellBack,
    /// It ends with an error.
    Failed,
    /// It ends as before, but has moved less.
    MovedLess,
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

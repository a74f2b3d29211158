//! What a sweep stores: `sweep.json`.

use crate::experiment::Ending;
use crate::result::ExecutedOn;
use crate::util::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `schema` of `sweep.json`.
pub const SCHEMA: &str = "pipeprof.sweep/1";

/// An axis of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepAxis {
    /// Its flag without dashes: `buffer-size`.
    pub name: String,
    /// As typed.
    pub values: Vec<String>,
}

impl SweepAxis {
    /// The axes of combinations, each with its values in the order in which they come.
    pub fn all<'a>(values: impl Iterator<Item = &'a (String, String)>) -> Vec<Self> {
        let mut axes: Vec<Self> = Vec::new();
        for (name, value) in values {
            match axes.iter_mut().find(|axis| axis.name == *name) {
                Some(axis) if axis.values.contains(value) => {}
                Some(axis) => axis.values.push(value.clone()),
                None => axes.push(Self { name: name.clone(), values: vec![value.clone()] }),
            }
        }
        axes
    }
}

/// `sweep.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub schema: String,
    /// pipeprof's version.
    pub version: String,
    pub command: String,
    pub executed_on: ExecutedOn,
    /// `GiB/s`, or `instructions per KiB` (writer and reader); of pipelines, `s` or `million instructions`.
    pub unit: String,
    pub kernel: String,
    pub cpu: String,
    pub axes: Vec<SweepAxis>,
    pub cells: Vec<SweepCell>,
    /// Part of the CPUs' time that other programs used meanwhile, 0 to 1; absent for counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// How it ended, if a stop rule was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// One combination, measured. Counts are those of the median run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepCell {
    pub labels: BTreeMap<String, String>,
    /// In the sweep's unit, one per run.
    pub runs: Vec<f64>,
    pub median: Option<f64>,
    pub mad: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub(crate) writer_calls_per_mib: Option<f64>,
    pub(crate) reader_calls_per_mib: Option<f64>,
    /// User and system time of the writer; absent under emulation.
    pub(crate) writer_ns_per_kib: Option<f64>,
    pub(crate) reader_ns_per_kib: Option<f64>,
    pub(crate) instructions_per_writer_call: Option<f64>,
    /// CPU time of all stages of a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Millions of instructions of all stages in user code, in the kernel, and those of the latter that depend on the
    /// schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_minstr: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_minstr: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_minstr: Option<f64>,
    /// How the run differed from the request.
    pub caveats: Vec<String>,
    /// The reason if it was not measured.
    pub reason: Option<String>,
}

impl SweepCell {
    /// Compute what follows from its runs.
    pub(super) fn summarise(&mut self) {
        self.median = stats::median(&self.runs);
        self.mad = stats::mad(&self.runs).filter(|_| self.runs.len() > 1);
        self.ci95 = stats::median_ci95(&self.runs);
    }
}

//! Sweeps: any axes of a workload, all combinations, one table and one chart.
//!
//! [`measure()`] runs them with [`crate::experiment`], this file defines the results, and [`show`] formats them.

mod measure;
mod show;

pub(crate) use measure::{SweepCombination, SweepPlan, measure};

use crate::experiment::Ending;
use crate::result::ExecutedOn;
use crate::workload::grid::Grid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `schema` of `sweep.json`.
pub(crate) const SCHEMA: &str = "pipeprof.sweep/1";

/// An axis of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SweepAxis {
    /// Its flag without dashes: `buffer-size`.
    pub name: String,
    /// As typed.
    pub values: Vec<String>,
}

impl SweepAxis {
    /// The axes of `grid`.
    #[must_use]
    pub(crate) fn all(grid: &Grid) -> Vec<Self> {
        grid.axes().into_iter().map(|(name, values)| Self { name, values }).collect()
    }
}

/// `sweep.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sweep {
    pub schema: String,
    /// pipeprof's version.
    pub version: String,
    pub command: String,
    pub executed_on: ExecutedOn,
    /// `GiB/s`, or `instructions per KiB` (writer and reader).
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
pub(crate) struct SweepCell {
    pub labels: BTreeMap<String, String>,
    /// In the sweep's unit, one per run.
    pub runs: Vec<f64>,
    pub median: Option<f64>,
    pub mad: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub writer_calls_per_mib: Option<f64>,
    pub reader_calls_per_mib: Option<f64>,
    /// User and system time of the writer; absent under emulation.
    pub writer_ns_per_kib: Option<f64>,
    pub reader_ns_per_kib: Option<f64>,
    pub instructions_per_writer_call: Option<f64>,
    /// How the run differed from the request.
    pub caveats: Vec<String>,
    /// The reason if it was not measured.
    pub reason: Option<String>,
}

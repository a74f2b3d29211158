//! What one part returns: readings of the facts, more tables, charts and graphs. Stored as JSON when the part ends, so
//! that an interrupted reproduction keeps it.

use super::facts::Facts;
use super::verdict::{Missing, Readings};
use crate::report::chart::Chart;
use crate::result::{Environment, KernelInfo};
use serde::{Deserialize, Serialize};

/// The `schema` of a part's file: its number rises with every change that makes older files misleading.
pub const SCHEMA: &str = "pipeprof.reproduce/2";

/// A finished part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartResult {
    pub schema: String,
    /// pipeprof's version.
    pub version: String,
    pub part: String,
    /// What a resumed reproduction has to agree with: see [`super::lab::key`].
    pub key: String,
    /// Something failed that a resumed reproduction tries again.
    pub again: bool,
    /// UTC, RFC 3339.
    pub started: String,
    pub seconds: f64,
    pub kernel: KernelInfo,
    pub environment: Environment,
    /// Share of CPU time that other programs used just before the part began, 0 to 1. The load average of `environment`
    /// includes the part before.
    pub busy: Option<f64>,
    #[serde(flatten)]
    pub found: PartOutput,
}

/// What a part found; [`super::run()`] adds where and when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartOutput {
    pub readings: Readings,
    /// Results in sentences.
    pub findings: Vec<String>,
    pub tables: Vec<ExtraTable>,
    pub charts: Vec<Chart>,
    pub graphs: Vec<DiffGraph>,
    /// What a reader has to know to interpret the figures.
    pub notes: Vec<String>,
}

impl PartOutput {
    /// Make readings that are not finite missing ones, and leave out such points of charts: a ratio to a run that moved
    /// nothing has no value, and cannot be stored.
    pub(super) fn keep_finite(&mut self) {
        for reading in self.readings.values_mut() {
            if reading.as_ref().is_ok_and(|reading| !reading.is_finite()) {
                *reading = Err(Missing::new("a run that it is computed of moved nothing", ""));
            }
        }
        for series in self.charts.iter_mut().flat_map(|chart| &mut chart.series) {
            series.points.retain(|point| point.y.is_finite());
        }
    }
}

/// A table beyond those of the articles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraTable {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Unit, n, spread, what executed it.
    pub note: String,
}

impl ExtraTable {
    /// A table without rows; `header` as in Markdown: `rung | GiB/s`.
    pub fn new(title: impl Into<String>, header: &str, note: impl Into<String>) -> Self {
        let header = header.split(" | ").map(str::to_owned).collect();
        Self { title: title.into(), header, rows: Vec::new(), note: note.into() }
    }

    /// Add a row; cells that are missing at its end stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.header.len(), String::new());
        self.rows.push(row);
    }
}

/// A differential flame graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiffGraph {
    /// A file name without ending.
    pub id: String,
    pub title: String,
    pub about: String,
    pub svg: String,
}

/// A finished reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct Reproduction {
    pub facts: Facts,
    pub parts: Vec<PartResult>,
    /// Requested parts that are missing because of an interruption or an error.
    pub unfinished: Vec<String>,
    pub command: String,
}

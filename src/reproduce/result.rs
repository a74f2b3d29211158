//! What one part leaves behind: readings beside the facts, further tables, charts and graphs. Written as JSON when the
//! part ends, so that an interrupted reproduction keeps it.

use super::verdict::Readings;
use crate::document::{Environment, KernelInfo};
use crate::report::chart::Chart;
use serde::{Deserialize, Serialize};

/// The `schema` of a part's file: its number rises with every change that makes older files misleading.
pub const SCHEMA: &str = "pipeprof.reproduce/2";

/// A finished part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartResult {
    pub schema: String,
    /// pipeprof's version.
    pub version: String,
    pub part: String,
    /// What a resumed reproduction has to agree with: see [`super::lab::key`].
    pub key: String,
    /// Something failed that a resumed reproduction tries again.
    #[serde(default)]
    pub again: bool,
    /// UTC, RFC 3339.
    pub started: String,
    pub seconds: f64,
    pub kernel: KernelInfo,
    pub environment: Environment,
    /// How much of its CPUs' time others used just before the part began, 0 to 1. The load of the environment cannot tell:
    /// the part before is in it.
    #[serde(default)]
    pub busy: Option<f64>,
    pub readings: Readings,
    /// In a few sentences: what this machine says.
    pub findings: Vec<String>,
    pub tables: Vec<ExtraTable>,
    pub charts: Vec<Chart>,
    pub graphs: Vec<Graph>,
    /// What a reader has to know to read the figures right.
    pub notes: Vec<String>,
}

/// What a part hands over; [`super::run`] adds where and when.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Yield {
    pub readings: Readings,
    pub findings: Vec<String>,
    pub tables: Vec<ExtraTable>,
    pub charts: Vec<Chart>,
    pub graphs: Vec<Graph>,
    pub notes: Vec<String>,
}

/// A table of ours beyond what the articles printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraTable {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Unit, n, spread, what executed it.
    pub note: String,
}

impl ExtraTable {
    #[must_use]
    pub fn new(title: impl Into<String>, header: &[&str], note: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            header: header.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
            note: note.into(),
        }
    }
}

/// A flame graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// A file name without ending.
    pub id: String,
    pub title: String,
    pub about: String,
    pub svg: String,
}

//! A series of kernels: what each role of a workload took on each of them, and where it changed.
//!
//! [`read`] makes a [`History`] of the cells of a store ([`crate::campaign`]), in the order of [`order`]. [`steps`] finds the
//! changes, [`neighbours`] compares the two kernels of each, and [`render`] shows all of it; [`level`] compares a new kernel
//! with it.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as history;
pub(crate) use {::campaign, ::compare, ::kernel, ::report, ::result, ::roles, ::util, ::vm};

pub mod level;
pub(crate) mod neighbours;
pub mod order;
pub mod read;
pub mod render;
pub mod steps;

use crate::compare::model::{RolePart, section_title};
use crate::roles::RoleId;
use crate::util::decision;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `schema` of `history.json`.
pub(crate) const HISTORY_SCHEMA: &str = "pipeprof.history/1";

/// What several workloads took on a series of kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub schema: String,
    /// pipeprof's version and build.
    pub version: String,
    pub command: String,
    /// What executed the guests: QEMU's version and build.
    pub(crate) emulators: Vec<String>,
    /// In their order.
    pub kernels: Vec<HistoryKernel>,
    /// What the lines of the source alone were built with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourceSeries>,
    pub lines: Vec<HistoryLine>,
}

/// The sources of the series, built with one configuration and one compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSeries {
    /// Whose configuration: a kernel or a file. Each source has given options that it does not know, or that are new to it,
    /// its own values.
    pub configuration: String,
    pub compiler: String,
    pub kernels: Vec<SourceKernel>,
}

/// A source that was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceKernel {
    /// Index of the kernel whose source it is.
    pub kernel: usize,
    /// Its version, such as `6.12.118`; of a tree, where it is.
    pub source: String,
    /// The release of what was built.
    pub release: String,
}

/// A kernel of the series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryKernel {
    pub label: String,
    pub release: String,
    /// SHA-256 of its image.
    pub sha256: String,
    /// The compiler that built it, such as `gcc 14.2.0`; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub compiler: String,
}

/// One workload on all kernels that ran it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryLine {
    pub mode: String,
    pub cpus: u32,
    /// Other settings; may be empty.
    pub setting: String,
    /// Whether it is a recorded pipeline, and `mode` its text: the counts are those of the kernel in all its stages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pipeline: bool,
    /// Whether it is of the kernels of [`SourceSeries`], not of the series' own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) source_alone: bool,
    pub points: Vec<HistoryPoint>,
    pub steps: Vec<HistoryStep>,
}

/// One kernel's counts, of all processes together, per KiB.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// Index of the kernel.
    pub kernel: usize,
    /// The cell's id; the release, where a source was built.
    pub cell: String,
    /// Number of counted windows, or of runs of a pipeline.
    pub windows: usize,
    /// Instructions without the roles that depend on scheduling.
    pub without_scheduling: CountSpan,
    pub total: CountSpan,
    pub roles: BTreeMap<RoleId, CountSpan>,
}

/// A count in the median window, or in the first run of a pipeline, and the least and the greatest of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CountSpan {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Its part in the uncertainty of a change: half of what [`decision::half_width`] gives for two kernels whose windows
    /// are as far apart as its own. 0 for a single window.
    pub half: f64,
}

/// A change between two neighbours that is larger than what their windows explain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryStep {
    /// Indexes of the kernels.
    pub before: usize,
    pub after: usize,
    /// Of the instructions without scheduling, per KiB.
    pub delta: f64,
    /// As a part of the value before.
    pub relative: f64,
    /// Whether the sum itself has changed; otherwise roles have, and offset each other.
    pub of_total: bool,
    /// The roles that changed, largest first, per KiB.
    pub roles: Vec<RolePart>,
}

impl History {
    /// The fewest and the most windows of any count.
    pub fn windows(&self) -> [usize; 2] {
        let runs = || self.lines.iter().filter(|line| !line.pipeline);
        let counts = || runs().flat_map(|line| &line.points).map(|point| point.windows);
        [counts().min().unwrap_or(0), counts().max().unwrap_or(0)]
    }

    /// The workload of `line` on the sources alone, if they were counted.
    pub fn alone(&self, line: &HistoryLine) -> Option<&HistoryLine> {
        let workload = |line: &HistoryLine| (line.mode.clone(), line.cpus, line.setting.clone(), line.pipeline);
        self.lines.iter().find(|other| other.source_alone && !line.source_alone && workload(other) == workload(line))
    }

    /// The label of the kernel with this index; empty if the index is too large.
    pub fn label(&self, kernel: usize) -> &str {
        self.kernels.get(kernel).map_or("", |kernel| &kernel.label)
    }
}

impl HistoryLine {
    /// The first and the last kernel; `None` if there is one only.
    pub fn ends(&self) -> Option<[&HistoryPoint; 2]> {
        let ends = [self.points.first()?, self.points.last()?];
        (self.points.len() > 1).then_some(ends)
    }

    /// Whose instructions these are.
    pub fn counted(&self) -> &'static str {
        if self.pipeline { "the kernel in all stages" } else { "writer and reader" }
    }

    /// `write, 2 CPUs, 64K`.
    pub fn title(&self) -> String {
        let setting = self.shown_setting();
        let setting = if setting.is_empty() { String::new() } else { format!(", {setting}") };
        format!("{}{setting}", section_title(&self.mode, Some(self.cpus)))
    }

    /// `64K, source alone`; empty if there is nothing to say.
    pub(crate) fn shown_setting(&self) -> String {
        let alone = self.source_alone.then_some("source alone");
        let parts = [Some(self.setting.as_str()).filter(|setting| !setting.is_empty()), alone];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl CountSpan {
    /// The values of windows; the first is the shown one.
    fn of(values: &[f64]) -> Self {
        let value = values.first().copied().unwrap_or(0.0);
        let (low, high) = values.iter().fold((value, value), |(low, high), next| (low.min(*next), high.max(*next)));
        Self { value, low, high, half: decision::half_of_one(values) }
    }

    /// The same with what windows do not show, half the width of its interval.
    fn doubted(self, doubt: f64) -> Self {
        Self { half: self.half.hypot(doubt), ..self }
    }

    /// The values that it does not differ from: intervals of two kernels that meet are undecided or the same.
    pub fn interval(&self) -> [f64; 2] {
        [self.value - self.half, self.value + self.half]
    }
}

//! Workloads that are measured in turn, and what can be read off their runs.

use crate::report::chart::Point;
use crate::result::{ExecutedOn, Processes, Warning};
use crate::run::bench::{Missing, Taken};
use crate::util::stats;
use crate::util::text::counted;
use crate::util::warning::WarningCode;
use crate::workload::{self, Spec};
use serde::{Deserialize, Serialize};

/// A figure of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// In `unit`; the median if there are several.
    pub value: f64,
    pub unit: String,
    /// One value per run; one value for an exact count.
    pub runs: Vec<f64>,
    /// 95 % interval of a share or of a ratio, if `runs` do not give one.
    pub interval: Option<[f64; 2]>,
    /// What a ratio is relative to, if that is not the reading of another fact: other runs of the same experiment, in
    /// `unit`.
    pub base: Option<Vec<f64>>,
    pub executed_on: ExecutedOn,
    /// How it was obtained, for the report: `median of 5 runs`.
    pub how: String,
}

impl Reading {
    /// The median of `runs`; `None` without runs.
    pub fn median(runs: Vec<f64>, unit: &str, executed_on: ExecutedOn, how: &str) -> Option<Self> {
        let value = stats::median(&runs)?;
        Some(Self { runs, ..Self::single(value, unit, executed_on, how) })
    }

    /// A single value that repetition would not change, or that already combines many.
    pub fn single(value: f64, unit: &str, executed_on: ExecutedOn, how: &str) -> Self {
        let (unit, how) = (unit.to_owned(), how.to_owned());
        Self { value, unit, runs: vec![value], interval: None, base: None, executed_on, how }
    }

    /// Whether all of its values are numbers.
    pub fn is_finite(&self) -> bool {
        let intervals = self.interval.iter().flatten().chain(self.base.iter().flatten());
        self.runs.iter().chain(intervals).chain([&self.value]).all(|value| value.is_finite())
    }

    /// Minimum and maximum of its runs.
    pub fn range(&self) -> [f64; 2] {
        self.runs.iter().fold([self.value; 2], |[least, most], run| [least.min(*run), most.max(*run)])
    }

    /// Median absolute deviation as a percentage of the median: `±3.4 %`; `None` if nothing varies.
    pub fn spread(&self) -> Option<String> {
        let mad = stats::mad(&self.runs).filter(|mad| *mad > 0.0 && self.value != 0.0)?;
        Some(format!("±{:.1} %", mad / self.value * 100.0))
    }

    /// As a point of a chart, with its minimum and maximum.
    pub fn point(&self, label: impl Into<String>) -> Point {
        Point { label: label.into(), y: self.value, span: Some(self.range()) }
    }

    /// The same in another unit; `None` if the units cannot be converted.
    pub fn convert(&self, unit: &str) -> Option<Self> {
        const GB_PER_GIB: f64 = 1.073_741_824;
        let factor = match (self.unit.as_str(), unit) {
            (from, to) if from == to => 1.0,
            ("GiB/s", "GB/s") => GB_PER_GIB,
            ("GB/s", "GiB/s") => 1.0 / GB_PER_GIB,
            _ => return None,
        };
        let all = |values: &[f64]| values.iter().map(|value| value * factor).collect::<Vec<f64>>();
        Some(Self {
            value: self.value * factor,
            unit: unit.to_owned(),
            runs: all(&self.runs),
            interval: self.interval.map(|ends| ends.map(|end| end * factor)),
            base: self.base.as_deref().map(all),
            ..self.clone()
        })
    }
}

/// One contestant of a race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contestant {
    pub id: String,
    pub spec: Spec,
}

/// What a contestant did.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Raced {
    pub id: String,
    pub spec: Spec,
    /// One per run.
    pub pairs: Vec<Processes>,
    pub executed_on: ExecutedOn,
    /// Why it could not run.
    pub failed: Option<String>,
}

/// What all contestants did.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Race(pub Vec<Raced>);

/// The reason for a missing value of a workload that did not get its huge pages: that is another experiment.
pub(crate) fn without_huge_pages(warnings: &[Warning], command: &str) -> Option<Missing> {
    let warning = warnings.iter().find(|warning| warning.code == WarningCode::HugePagesMissing)?;
    Some(Missing::new(format!("{}: {}", warning.message, warning.action), command))
}

impl Race {
    /// What the contestant called `id` did.
    pub(crate) fn get(&self, id: &str) -> Taken<&Raced> {
        let missing = || Missing::new(format!("{id} was not measured"), "pipeprof reproduce");
        self.0.iter().find(|raced| raced.id == id).ok_or_else(missing)
    }

    /// [`Raced::speed`] of the contestant called `id`.
    pub(crate) fn speed(&self, id: &str) -> Taken<Reading> {
        self.get(id)?.speed()
    }

    /// The number of runs of each contestant.
    pub(crate) fn runs(&self) -> u64 {
        self.0.iter().map(|raced| raced.pairs.len() as u64).max().unwrap_or(0)
    }
}

impl Raced {
    /// GiB/s at the reader.
    pub(crate) fn speed(&self) -> Taken<Reading> {
        self.reading("GiB/s", "", |pair| Some(pair.gib_s()))
    }

    /// The speed, and the run of the median speed.
    pub(crate) fn measured(&self) -> Taken<(Reading, &Processes)> {
        let speed = self.speed()?;
        let typical = stats::median_by(&self.pairs, Processes::gib_s);
        typical.map(|pair| (speed, pair)).ok_or_else(|| Missing::new("no run succeeded", self.command()))
    }

    /// A value that depends on time.
    pub(crate) fn reading(&self, unit: &str, what: &str, of: impl Fn(&Processes) -> Option<f64>) -> Taken<Reading> {
        let reading = self.count(unit, what, of)?;
        if self.executed_on == ExecutedOn::Tcg {
            return Err(Missing::new("not available: emulated clock", self.command()));
        }
        Ok(reading)
    }

    /// A value that does not depend on time, so that emulation does not change it.
    pub(crate) fn count(&self, unit: &str, what: &str, of: impl Fn(&Processes) -> Option<f64>) -> Taken<Reading> {
        if let Some(why) = &self.failed {
            return Err(Missing::new(why.clone(), self.command()));
        }
        let caveats = self.caveats();
        if let Some(missing) = without_huge_pages(&caveats, &self.command()) {
            return Err(missing);
        }
        let runs: Vec<f64> = self.pairs.iter().filter_map(of).collect();
        let mut how = counted(runs.len() as u64, "run");
        if runs.len() > 1 {
            how = format!("median of {how}");
        }
        if !what.is_empty() {
            how = format!("{how}, {what}");
        }
        for caveat in caveats {
            how = format!("{how}, but {}", caveat.message);
        }
        Reading::median(runs, unit, self.executed_on, &how)
            .ok_or_else(|| Missing::new("no run succeeded", self.command()))
    }

    /// The differences between what was requested and what happened, each kind once.
    pub(crate) fn caveats(&self) -> Vec<Warning> {
        workload::caveats_of_all(&self.spec, &self.pairs)
    }

    fn command(&self) -> String {
        workload::command::run(&self.spec, "--runs 9 --collect none")
    }
}

//! What the contestants of a race did, and what can be read off it.

use super::lab::Taken;
use super::verdict::{Missing, Reading};
use crate::document::{ExecutedOn, Processes, Warning};
use crate::profile::ProcessName;
use crate::util::stats;
use crate::workload::{self, HUGE_PAGES_MISSING, Spec};
use serde::{Deserialize, Serialize};

/// One contestant of a race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contestant {
    pub id: String,
    pub spec: Spec,
}

/// What a contestant did.
#[derive(Debug, Clone, PartialEq)]
pub struct Raced {
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
pub struct Race(pub Vec<Raced>);

/// The reason for a missing value of a workload that did not get its huge pages: that is another experiment.
#[must_use]
pub fn without_huge_pages(warnings: &[Warning], command: &str) -> Option<Missing> {
    let warning = warnings.iter().find(|warning| warning.code == HUGE_PAGES_MISSING)?;
    Some(Missing::new(format!("{}: {}", warning.message, warning.action), command))
}

/// CPU time of a process per KiB that the reader got, in ns.
#[must_use]
pub fn cpu_per_kib(pair: &Processes, process: ProcessName) -> f64 {
    let process = pair.of(process);
    (process.user_ns + process.system_ns) as f64 / (pair.reader().bytes.max(1) as f64 / 1024.0)
}

/// Calls of writer and reader per MiB that the reader got.
#[must_use]
pub fn calls_per_mib(pair: &Processes) -> [f64; 2] {
    let mib = pair.reader().bytes.max(1) as f64 / f64::from(1 << 20);
    [pair.writer(), pair.reader()].map(|process| process.calls as f64 / mib)
}

impl Race {
    /// What the contestant called `id` did.
    ///
    /// # Errors
    /// If it was not in the race.
    pub fn get(&self, id: &str) -> Taken<&Raced> {
        let missing = || Missing::new(format!("{id} was not measured"), "pipeprof reproduce");
        self.0.iter().find(|raced| raced.id == id).ok_or_else(missing)
    }

    /// [`Raced::speed`] of the contestant called `id`.
    ///
    /// # Errors
    /// Why there is none, and how to get one.
    pub fn speed(&self, id: &str) -> Taken<Reading> {
        self.get(id)?.speed()
    }

    /// The number of runs of each contestant.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.0.iter().map(|raced| raced.pairs.len()).max().unwrap_or(0)
    }
}

impl Raced {
    /// GiB/s at the reader.
    ///
    /// # Errors
    /// Why there is none, and how to get one.
    pub fn speed(&self) -> Taken<Reading> {
        self.reading("GiB/s", "", |pair| Some(pair.gib_s()))
    }

    /// The speed, and the run of the median speed.
    ///
    /// # Errors
    /// Why there is none, and how to get one.
    pub fn measured(&self) -> Taken<(Reading, &Processes)> {
        let speed = self.speed()?;
        let typical = stats::median_by(&self.pairs, Processes::gib_s);
        typical.map(|pair| (speed, pair)).ok_or_else(|| Missing::new("no run succeeded", self.command()))
    }

    /// A value that depends on time.
    ///
    /// # Errors
    /// Why there is none, and how to get one.
    pub fn reading(&self, unit: &str, what: &str, of: impl Fn(&Processes) -> Option<f64>) -> Taken<Reading> {
        let reading = self.count(unit, what, of)?;
        if self.executed_on == ExecutedOn::Tcg {
            return Err(Missing::new("not available: emulated clock", self.command()));
        }
        Ok(reading)
    }

    /// A value that does not depend on time, so that emulation does not change it.
    ///
    /// # Errors
    /// Why there is none, and how to get one.
    pub fn count(&self, unit: &str, what: &str, of: impl Fn(&Processes) -> Option<f64>) -> Taken<Reading> {
        if let Some(why) = &self.failed {
            return Err(Missing::new(why.clone(), self.command()));
        }
        let caveats = self.caveats();
        if let Some(missing) = without_huge_pages(&caveats, &self.command()) {
            return Err(missing);
        }
        let runs: Vec<f64> = self.pairs.iter().filter_map(of).collect();
        let mut how = format!("median of {}", counted(runs.len(), "run"));
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
    #[must_use]
    pub fn caveats(&self) -> Vec<Warning> {
        workload::caveats_of_all(&self.spec, &self.pairs)
    }

    fn command(&self) -> String {
        workload::command::run(&self.spec, "--runs 9 --collect none")
    }
}

/// A number and a noun.
#[must_use]
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

//! What contestants of a race did, and what can be read off it.

use super::lab::Taken;
use super::verdict::{Missing, Reading};
use crate::document::{ExecutedOn, Processes, Warning};
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Raced {
    pub id: String,
    pub spec: Spec,
    pub pairs: Vec<Processes>,
    pub executed_on: ExecutedOn,
    /// Why it could not run.
    pub failed: Option<String>,
}

/// What one lane of [`super::lab::Lab::interleaved`] did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneRuns {
    pub pairs: Vec<Processes>,
    /// Why it could not run.
    pub failed: Option<String>,
}

/// Why there is no figure of what had to do without its huge pages: it is another experiment.
#[must_use]
pub fn without_huge_pages(warnings: &[Warning], command: &str) -> Option<Missing> {
    let warning = warnings.iter().find(|warning| warning.code == HUGE_PAGES_MISSING)?;
    Some(Missing::new(format!("{}: {}", warning.message, warning.action), command))
}

impl Raced {
    /// What `contestant` did in its lane.
    #[must_use]
    pub fn of(contestant: &Contestant, lane: LaneRuns, executed_on: ExecutedOn) -> Self {
        let Contestant { id, spec } = contestant.clone();
        Self { id, spec, pairs: lane.pairs, executed_on, failed: lane.failed }
    }

    /// GiB/s at the reader.
    ///
    /// # Errors
    /// Why there is none here, and how to get one.
    pub fn speed(&self) -> Taken<Reading> {
        self.reading("GiB/s", "", |pair| Some(pair.gib_s()))
    }

    /// A reading of something that takes time.
    ///
    /// # Errors
    /// Why there is none here, and how to get one.
    pub fn reading(&self, unit: &str, what: &str, of: impl Fn(&Processes) -> Option<f64>) -> Taken<Reading> {
        let command = workload::command::run(&self.spec, "--runs 9 --collect none");
        if let Some(why) = &self.failed {
            return Err(Missing::new(why.clone(), command));
        }
        let caveats = self.caveats();
        if let Some(missing) = without_huge_pages(&caveats, &command) {
            return Err(missing);
        }
        if self.executed_on == ExecutedOn::Tcg {
            return Err(Missing::new("emulated: its clock says nothing about speed", command));
        }
        let runs: Vec<f64> = self.pairs.iter().filter_map(of).collect();
        let comma = if what.is_empty() { "" } else { ", " };
        let mut how = format!("median of {} fresh pairs{comma}{what}", runs.len());
        for caveat in caveats {
            how.push_str(", but ");
            how.push_str(&caveat.message);
        }
        Reading::median(runs, unit, self.executed_on, &how).ok_or_else(|| Missing::new("no pair ran", command))
    }

    /// Where what ran was not what was asked for, each kind once.
    #[must_use]
    pub fn caveats(&self) -> Vec<Warning> {
        workload::caveats_of_all(&self.spec, &self.pairs)
    }

    /// The pair of the median speed.
    #[must_use]
    pub fn typical(&self) -> Option<&Processes> {
        stats::median_by(&self.pairs, Processes::gib_s)
    }
}

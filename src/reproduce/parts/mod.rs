//! The parts of a reproduction. To add one: a file beside this, a line in [`PARTS`], its facts in `facts.json`.

mod buffers;
mod cat;
mod ladder;
mod memory;
mod profiles;
mod scale;

use super::facts::{Fact, Facts};
use super::lab::Lab;
use super::result::Yield;
use super::stacks;
use super::verdict::{Missing, Reading, Readings};
use crate::document::{Collector, ExecutedOn, Loader, Request, Selection};
use crate::profile::Folded;
use crate::util::stats;
use crate::workload::Spec;
use anyhow::Result;

/// One part.
pub trait Part: Sync {
    /// Its name on the command line.
    fn id(&self) -> &'static str;
    /// For headings.
    fn title(&self) -> &'static str;
    /// One line for `--help`.
    fn about(&self) -> &'static str;
    /// Measure.
    ///
    /// # Errors
    /// On interruption, or when results cannot be kept; what cannot be measured is a [`Missing`] reading.
    fn run(&self, lab: &Lab<'_>, facts: &Facts) -> Result<Yield>;
}

/// All parts, in the order of the report.
pub const PARTS: &[&dyn Part] =
    &[&ladder::Ladder, &memory::Memory, &buffers::Buffers, &cat::Cat, &profiles::Profiles, &scale::Scale];

/// The part called `id`.
#[must_use]
pub fn find(id: &str) -> Option<&'static dyn Part> {
    PARTS.iter().find(|part| part.id() == id).copied()
}

/// A request for `spec`.
#[must_use]
pub fn request(name: &str, spec: &Spec, collect: Vec<Collector>, runs: u32) -> Request {
    let collectors: Vec<&str> = collect.iter().map(|collector| collector.name()).collect();
    let list = if collectors.is_empty() { "none".to_owned() } else { collectors.join(",") };
    Request {
        mode: name.to_owned(),
        workload: spec.clone(),
        collect: Selection::List(collect),
        loader: Loader::default(),
        runs,
        seed: 1,
        memcg: true,
        command: super::commands::run(spec, &format!("--runs {runs} --collect {list}")),
    }
}

/// Every fact of the tables `ids` is missing for the same reason.
fn all_missing(readings: &mut Readings, facts: &Facts, ids: &[&str], missing: &Missing) {
    for fact in ids.iter().filter_map(|id| facts.table(id)).flat_map(|table| &table.rows) {
        readings.insert(fact.id.clone(), Err(missing.clone()));
    }
}

/// The share of sampled stacks that `fact` is about, with its interval; `None` of no samples.
fn share_reading<'a>(
    profiles: impl IntoIterator<Item = &'a Folded, IntoIter: Clone>,
    fact: &Fact,
    executed_on: ExecutedOn,
    whose: &str,
) -> Option<Reading> {
    let profiles = profiles.into_iter();
    let samples: u64 = profiles.clone().map(Folded::total).sum();
    let share = stacks::share(profiles, fact)?;
    let part = (share / 100.0 * samples as f64).round() as u64;
    let interval = stats::wilson(part, samples).map(|share| share * 100.0);
    let how = format!("{samples} samples of {whose}");
    Some(Reading { interval: Some(interval), ..Reading::single(share, "%", executed_on, &how) })
}

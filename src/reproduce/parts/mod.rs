//! The parts of a reproduction. To add one: a file beside this, a line in [`PARTS`], its facts in `facts.json`.

mod buffers;
mod cat;
mod ladder;
mod memory;
mod profiles;
mod scale;

use super::facts::Facts;
use super::lab::Lab;
use super::result::Yield;
use super::verdict::{Missing, Readings};
use crate::document::{Collector, Loader, Request, Selection};
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

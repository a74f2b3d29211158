//! What can be exported, and how its stacks become [`Samples`].

use super::phases::phases;
use super::samples::{SampledProcess, Samples, SamplesBuilder};
use crate::compare::model::{self, Comparison};
use crate::profile::{Profile, Unit, cycles};
use crate::record::process_names;
use crate::report::files;
use crate::result::code::ExecutedCode;
use crate::result::{self, Document, ExecutedOn, Outcome};
use crate::sweep::{self, Sweep};
use crate::util::{regular::document_at, stored_json};
use anyhow::{Result, bail};
use std::path::Path;

/// A result of pipeprof, stored or just measured.
#[derive(Debug, Clone, Copy)]
pub enum Exported<'a> {
    Result(&'a Outcome),
    Comparison(&'a Comparison),
    Sweep(&'a Sweep),
}

/// What `write` makes of the result at `path`: a folder, or the document in it.
///
/// # Errors
/// When it is missing, damaged, or of another kind; and those of `write`.
pub fn with_stored<T>(path: &Path, write: impl FnOnce(&Exported<'_>) -> Result<T>) -> Result<T> {
    if let Some(document) = document_at(path, COMPARISON) {
        return write(&Exported::Comparison(&stored_json::load(&document, "a comparison", model::SCHEMA)?));
    }
    if let Some(document) = document_at(path, SWEEP) {
        return write(&Exported::Sweep(&stored_json::load(&document, "a sweep", sweep::SCHEMA)?));
    }
    write(&Exported::Result(&result::open(path)?))
}

impl Exported<'_> {
    /// Its stacks.
    pub fn samples(&self) -> Result<Samples> {
        if matches!(self, Self::Comparison(_) | Self::Sweep(_)) {
            bail!("it contains tables, but no stacks: choose the format csv, or give the folder of one run");
        }
        let samples = self.all();
        if samples.samples.is_empty() {
            bail!("it contains no stacks: run or record it with a collector (--collect)");
        }
        Ok(samples)
    }

    /// Its stacks, if it has any, and what its processes did over time.
    pub(super) fn all(&self) -> Samples {
        match self {
            Self::Result(outcome) => of_result(outcome),
            Self::Comparison(_) | Self::Sweep(_) => Samples::default(),
        }
    }
}

/// The names of documents in their folders.
const COMPARISON: &str = "report.json";
const SWEEP: &str = "sweep.json";

fn of_result(outcome: &Outcome) -> Samples {
    let document = &outcome.document;
    let mut builder = SamplesBuilder::default();
    builder.samples = Samples {
        title: files::title(document),
        version: document.version.clone(),
        release: document.kernel.release.clone(),
        started: document.started.clone(),
        duration_ns: duration_ns(document),
        ..Samples::default()
    };
    builder.know(functions(outcome.code.as_ref()));
    let names = process_names(document);
    for (index, (process, name)) in document.recorded.iter().zip(&names).enumerate() {
        builder.samples.processes.push(SampledProcess {
            name: name.to_string(),
            pid: process.pids.first().copied().unwrap_or(0),
            begin_ns: process.begin_ns,
            phases: phases(document, index),
        });
    }
    if document.recorded.is_empty() {
        for name in document.processes.totals.names() {
            builder.process(name.as_str());
        }
    }
    let (main, further): (Vec<&Profile>, Vec<&Profile>) =
        outcome.profiles.iter().partition(|profile| profile.collector == document.attribution.collector);
    for profile in main.into_iter().chain(further) {
        let cpu_ns = (profile.unit == Unit::Samples && document.executed_on != ExecutedOn::Tcg).then(|| {
            if let Some(at) = names.iter().position(|name| *name == profile.process) {
                return document.recorded[at].cpu_ns;
            }
            let runs = document.runs.iter().filter(|run| run.collectors.contains(&profile.collector));
            runs.map(|run| run.processes.of(profile.process)).map(|totals| totals.user_ns + totals.system_ns).sum()
        });
        add(&mut builder, profile, cpu_ns);
    }
    if let Some(sleeps) = &outcome.off_cpu {
        let value = builder.value("off_cpu", "microseconds");
        // Sleeps have the name of the program, which several processes can have.
        builder.add_sleeps(sleeps, value, |program| {
            let mut own = document.recorded.iter().zip(&names).filter(|(process, _)| process.name == program);
            match (own.next(), own.next()) {
                (Some((_, name)), None) => name.to_string(),
                _ => program.to_owned(),
            }
        });
    }
    builder.finish()
}

/// Add a profile, with the CPU time of its process if that is known.
fn add(builder: &mut SamplesBuilder, profile: &Profile, cpu_ns: Option<u64>) {
    let (name, unit) = match (profile.unit, profile.collector.as_str()) {
        (Unit::Samples, "sample") => ("samples", "count"),
        (Unit::Instructions, "insn") => ("instructions", "count"),
        (Unit::EstimatedCycles, cycles::NAME) => ("estimated_cycles", "count"),
        (Unit::Nanoseconds, collector) => (collector, "nanoseconds"),
        (_, collector) => (collector, "count"),
    };
    let value = builder.value(name, unit);
    let time = cpu_ns.filter(|ns| *ns > 0).map(|ns| (builder.value("cpu", "nanoseconds"), ns));
    builder.add(profile, value, time);
}

/// The names and addresses of executed functions.
fn functions(code: Option<&ExecutedCode>) -> impl Iterator<Item = (&str, u64)> {
    code.into_iter().flat_map(|code| &code.functions).map(|function| (function.name.as_str(), function.address))
}

/// The windows in which the profile was made: of an exact run the one that is shown, otherwise all together.
fn duration_ns(document: &Document) -> u64 {
    if !document.recorded.is_empty() {
        return document.processes.window_ns;
    }
    if let Some(shown) = document.ensemble.as_ref().and_then(|ensemble| document.runs.get(ensemble.shown)) {
        return shown.processes.window_ns;
    }
    let profiled = document.runs.iter().filter(|run| run.collectors.contains(&document.attribution.collector));
    profiled.fold(0, |sum, run| sum.saturating_add(run.processes.window_ns))
}

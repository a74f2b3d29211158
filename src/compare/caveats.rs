//! The caveats of a comparison.

use super::columns::config_known;
use super::input::Input;
use super::model::{Caveat, Method};
use crate::result::{Document, Status};
use crate::roles::{self, RoleId, Skid};
use crate::util::text::clean;
use crate::workload::spec::MEMORY_SOURCE;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

/// Caveats of the method, and the warnings of the runs.
pub fn caveats(inputs: &[Input], labels: &[&str], method: Method) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let for_all = |text: &str| Caveat { text: text.to_owned(), columns: Vec::new() };
    match method {
        Method::Exact => {
            caveats.push(for_all(
                "Instructions are not time: caches, memory bandwidth and parallel CPUs do not count. A copy by `rep movsb` \
                 is one instruction for any number of bytes.",
            ));
            caveats.push(for_all(
                "Emulated (QEMU TCG): counts are exact and repeat to the last instruction. A kernel that selects code \
                 by CPU features selects it for the emulated CPU.",
            ));
        }
        Method::Timed => caveats.push(for_all(
            "The verdict is on elapsed time per KiB of unprofiled runs. Values by role and function are the summed CPU \
             time of writer and reader from sampled runs: they can exceed the elapsed time.",
        )),
        Method::Recorded => {
            let runs = || inputs.iter().flat_map(|input| &input.runs).map(|(_, run)| run);
            let timed = runs().any(|run| run.document.target.imported().is_none()).then_some(
                "Recording takes time itself. Parts of the wall time, pipes and processes are those of one recording, and \
                 another one of the same pipeline differs.",
            );
            let sampled = runs().any(|run| !run.profiles.is_empty());
            let sampled = sampled.then_some("Shares of samples are compared as if samples were independent.");
            caveats.extend(timed.into_iter().chain(sampled).map(for_all));
        }
    }
    if sources(inputs).any(|source| source == Some(MEMORY_SOURCE.as_ref())) {
        let some = sources(inputs).any(|source| source != Some(MEMORY_SOURCE.as_ref()));
        caveats.push(for_all(if some {
            "Some columns read from a file of zeros in memory, others from elsewhere: give all the same --source."
        } else {
            "All columns read from a file of zeros in memory (--source memory), from which every kernel can splice."
        }));
    }
    let unknown = |input: &Input| input.runs.first().is_some_and(|(_, outcome)| !config_known(&outcome.document));
    let unknown: Vec<bool> = inputs.iter().map(unknown).collect();
    if unknown.contains(&true) {
        let all = unknown.iter().all(|unknown| *unknown);
        let named = unknown.iter().zip(labels).filter(|(unknown, _)| **unknown && !all);
        caveats.push(Caveat {
            text: "The kernel's configuration is unknown, so its options are not compared.".to_owned(),
            columns: named.map(|(_, label)| (*label).to_owned()).collect(),
        });
    }
    let skids: HashSet<Skid> = inputs
        .iter()
        .flat_map(|input| &input.runs)
        .flat_map(|(_, outcome)| {
            outcome.profiles.iter().filter(|p| p.collector == outcome.document.attribution.collector)
        })
        .map(|profile| profile.skid)
        .collect();
    if skids.len() > 1 {
        caveats.push(for_all(
            "Some runs were sampled by cpu-clock, which cannot fire while interrupts are off, and some by a hardware \
             counter, which can. Part of the differences by role comes from the clocks.",
        ));
    }
    let mut by_text: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (column, input) in inputs.iter().enumerate() {
        for line in interrupts_off(input) {
            by_text.entry(line).or_default().insert(column);
        }
        for (_, outcome) in &input.runs {
            let document = &outcome.document;
            let of = of_mode(document);
            for warning in &document.warnings {
                let action = if warning.action.is_empty() { String::new() } else { format!(" ({})", warning.action) };
                by_text.entry(format!("{of}{}{action}", warning.message)).or_default().insert(column);
            }
            for caution in &document.cautions {
                by_text.entry(format!("{of}{}", caution.trim_end_matches('.'))).or_default().insert(column);
            }
            for collector in &document.collectors {
                let reason = collector.reason.as_deref().unwrap_or("");
                if matches!(collector.status, Status::Partial | Status::Failed) {
                    let line = format!("{of}collector {}: {reason}", collector.name.name());
                    by_text.entry(line).or_default().insert(column);
                }
                if collector.lost > 0 {
                    let line = format!("{of}collector {} lost {}", collector.name.name(), collector.lost);
                    by_text.entry(line).or_default().insert(column);
                }
            }
        }
    }
    for (text, columns) in by_text {
        let columns = if columns.len() == labels.len() {
            Vec::new()
        } else {
            columns.into_iter().map(|column| labels[column].to_owned()).collect()
        };
        caveats.push(Caveat { text: clean(&text), columns });
    }
    caveats
}

/// `write: `, or nothing for a pipeline, of which a comparison has only one.
fn of_mode(document: &Document) -> String {
    if document.target.workload().is_some() { format!("{}: ", document.mode) } else { String::new() }
}

/// What the runs that read a file read from.
fn sources(inputs: &[Input]) -> impl Iterator<Item = Option<&Path>> {
    let workloads = inputs.iter().flat_map(|input| &input.runs).filter_map(|(_, o)| o.document.target.workload());
    workloads.filter(|workload| workload.writer.has_source()).map(|workload| workload.source.as_deref())
}

/// [`interrupts_off`] leaves out smaller parts of all samples.
const SMALL: f64 = 0.005;

/// For each mode of a sampled column: the part of each role with interrupts off.
fn interrupts_off(input: &Input) -> Vec<String> {
    let mut by_mode: BTreeMap<String, (u64, BTreeMap<RoleId, u64>)> = BTreeMap::new();
    for (_, outcome) in &input.runs {
        let attribution = &outcome.document.attribution;
        let (total, roles) = by_mode.entry(of_mode(&outcome.document)).or_default();
        for share in attribution.processes.of_target().flat_map(|(_, shares)| shares) {
            *total += share.weight;
            *roles.entry(share.role).or_default() += share.interrupts_off;
        }
    }
    let line = |(mode, (total, roles)): (String, (u64, BTreeMap<RoleId, u64>))| {
        let part = |weight: u64| weight as f64 / total.max(1) as f64;
        let mut large: Vec<_> = roles.into_iter().filter(|(_, weight)| part(*weight) >= SMALL).collect();
        large.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        let named =
            large.iter().map(|(role, weight)| format!("{} {:.1} %", roles::by_id(*role).title, 100.0 * part(*weight)));
        let named: Vec<String> = named.collect();
        let text = "samples with interrupts off, attributed to the caller, in percent of all";
        (!named.is_empty()).then(|| format!("{mode}{text}: {}", named.join(", ")))
    };
    by_mode.into_iter().filter_map(line).collect()
}

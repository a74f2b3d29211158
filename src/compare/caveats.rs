//! The caveats of a comparison.

use super::columns::config_known;
use super::input::{Input, case_name};
use super::model::{Caveat, CaveatCase, Method};
use crate::arch::Processor;
use crate::result::{Document, Status, Warning};
use crate::roles::{self, RoleId, Skid};
use crate::util::text::clean;
use crate::util::warning::WarningCode;
use crate::workload::spec::MEMORY_SOURCE;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

/// A mode, and the number of CPUs if there are several.
type CaseKey = (String, Option<u32>);

/// Caveats of the method, and the warnings of the runs, each once, with what it holds for.
pub fn caveats(inputs: &[Input], labels: &[&str], cases: &[CaseKey], method: Method) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let for_all = |text: &str| Caveat::general(text.to_owned());
    match method {
        Method::Exact => {
            let machines = || inputs.iter().flat_map(|input| &input.runs).map(|(_, run)| &run.document.kernel.machine);
            let has_rep = machines().any(|machine| Processor::of_machine(machine) == Processor::X86_64);
            let rep = if has_rep { " A copy by `rep movsb` is one instruction for any number of bytes." } else { "" };
            caveats.push(for_all(&format!(
                "Instructions are not time: caches, memory bandwidth and parallel CPUs do not count.{rep}"
            )));
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
        let columns = named.map(|(_, label)| (*label).to_owned()).collect();
        let text = "The kernel's configuration is unknown, so its options are not compared.".to_owned();
        caveats.push(Caveat { columns, ..Caveat::general(text) });
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
    caveats.extend(of_runs(inputs, labels, cases, method));
    caveats
}

/// The warnings of the runs.
fn of_runs(inputs: &[Input], labels: &[&str], cases: &[CaseKey], method: Method) -> Vec<Caveat> {
    let case_of = |document: &Document| {
        let fits = |(mode, cpus): &CaseKey| {
            mode == case_name(document) && cpus.is_none_or(|cpus| cpus == document.environment.cpus)
        };
        cases.iter().position(fits).unwrap_or(0)
    };
    // By case and column: where there is a run, and what holds there.
    let mut all: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut by_text: BTreeMap<String, BTreeSet<(usize, usize)>> = BTreeMap::new();
    for (column, input) in inputs.iter().enumerate() {
        let mut add = |case: usize, text: String| {
            by_text.entry(text).or_default().insert((case, column));
        };
        for (case, line) in interrupts_off(input, case_of) {
            add(case, line);
        }
        for (_, outcome) in &input.runs {
            let document = &outcome.document;
            let case = case_of(document);
            all.insert((case, column));
            // Counts say it of the method.
            let warnings =
                document.warnings.iter().filter(|one| method != Method::Exact || one.code != WarningCode::Emulated);
            warnings.for_each(|warning| add(case, warned(warning, cases)));
            document.cautions.iter().for_each(|caution| add(case, caution.trim_end_matches('.').to_owned()));
            for collector in &document.collectors {
                let name = collector.name.name();
                if matches!(collector.status, Status::Partial | Status::Failed) {
                    add(case, format!("collector {name}: {}", collector.reason.as_deref().unwrap_or("")));
                }
                if collector.lost > 0 {
                    add(case, format!("collector {name} lost {}", collector.lost));
                }
            }
        }
    }
    let columns = |places: &BTreeSet<(usize, usize)>, case: usize| -> BTreeSet<usize> {
        places.iter().filter(|place| place.0 == case).map(|place| place.1).collect()
    };
    let mut caveats = Vec::new();
    for (text, places) in by_text {
        // Cases with the same columns are one caveat; no columns are all.
        let mut by_columns: BTreeMap<BTreeSet<usize>, Vec<&CaseKey>> = BTreeMap::new();
        for (number, case) in cases.iter().enumerate() {
            let mut held = columns(&places, number);
            if held.is_empty() {
                continue;
            }
            if held == columns(&all, number) {
                held.clear();
            }
            by_columns.entry(held).or_default().push(case);
        }
        caveats.extend(by_columns.into_iter().map(|(columns, mut held)| {
            if held.len() == cases.len() {
                held.clear();
            }
            Caveat {
                text: clean(&text),
                columns: columns.into_iter().map(|column| labels[column].to_owned()).collect(),
                cases: held.into_iter().map(|(mode, cpus)| CaveatCase { mode: mode.clone(), cpus: *cpus }).collect(),
            }
        }));
    }
    caveats
}

/// A warning, and what to do about it.
fn warned(warning: &Warning, cases: &[CaseKey]) -> String {
    // On other numbers of CPUs, the comparison has done it.
    let is_done = warning.code == WarningCode::OneCpu && cases.iter().any(|(_, cpus)| cpus.is_some());
    let action = if warning.action.is_empty() || is_done { String::new() } else { format!(" ({})", warning.action) };
    format!("{}{action}", warning.message)
}

/// What the runs that read a file read from.
fn sources(inputs: &[Input]) -> impl Iterator<Item = Option<&Path>> {
    let workloads = inputs.iter().flat_map(|input| &input.runs).filter_map(|(_, o)| o.document.target.workload());
    workloads.filter(|workload| workload.writer.has_source()).map(|workload| workload.source.as_deref())
}

/// [`interrupts_off`] leaves out smaller parts of all samples.
const SMALL: f64 = 0.005;

/// For each case of a sampled column: the part of each role with interrupts off.
fn interrupts_off(input: &Input, case_of: impl Fn(&Document) -> usize) -> Vec<(usize, String)> {
    let mut by_case: BTreeMap<usize, (u64, BTreeMap<RoleId, u64>)> = BTreeMap::new();
    for (_, outcome) in &input.runs {
        let attribution = &outcome.document.attribution;
        let (total, roles) = by_case.entry(case_of(&outcome.document)).or_default();
        for share in attribution.processes.of_target().flat_map(|(_, shares)| shares) {
            *total += share.weight;
            *roles.entry(share.role).or_default() += share.interrupts_off;
        }
    }
    let line = |(case, (total, roles)): (usize, (u64, BTreeMap<RoleId, u64>))| {
        let part = |weight: u64| weight as f64 / total.max(1) as f64;
        let mut large: Vec<_> = roles.into_iter().filter(|(_, weight)| part(*weight) >= SMALL).collect();
        large.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        let named =
            large.iter().map(|(role, weight)| format!("{} {:.1} %", roles::by_id(*role).title, 100.0 * part(*weight)));
        let named: Vec<String> = named.collect();
        let text = "samples with interrupts off, attributed to the caller, in percent of all";
        (!named.is_empty()).then(|| (case, format!("{text}: {}", named.join(", "))))
    };
    by_case.into_iter().filter_map(line).collect()
}

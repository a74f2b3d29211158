//! What changed from one recording of a pipeline to another: with another kernel, another program or another setting.

pub(super) mod samples;

use super::names::labels;
use super::path::words;
use super::stages::{self, Stages};
use super::work::{self, PipelineWork};
use crate::report::files;
use crate::report::number::{number, percent};
use crate::result::{Document, ExecutedOn, RecordedEnd, RecordedPipe};
use crate::util::text::capitalized;
use anyhow::{Result, ensure};
use samples::{ShareChange, share_changes};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Two recordings of one pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RecordingChange {
    /// What distinguishes them: releases of kernels, pipelines, or folders.
    pub names: [String; 2],
    /// The answer.
    pub findings: Vec<String>,
    /// What else differs, and why the answer may be doubted.
    pub cautions: Vec<String>,
    pub pipes: Vec<PipeChange>,
    /// Shares of samples, if both have them. Certain differences first, and the largest of them.
    pub shares: Vec<ShareChange>,
}

/// A pipe, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PipeChange {
    pub name: String,
    pub bytes: [u64; 2],
    pub sides: [SideChange; 2],
}

/// The writers or readers of a pipe, before and after.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct SideChange {
    pub calls: [u64; 2],
    pub sleeps: [u64; 2],
    /// Of these: ended without anything moved, followed by another in the same call.
    pub needless: [u64; 2],
    /// Wake-ups sent to the other side.
    pub wakes: [u64; 2],
    /// Share of the window asleep because the pipe was full (writers) or empty (readers), 0 to 1.
    pub blocked: [f64; 2],
}

impl RecordingChange {
    /// What changed from `before` to `after`, which are stored at `paths`.
    ///
    /// # Errors
    /// When the pipelines have different numbers of stages.
    pub(crate) fn new([before, after]: [&Document; 2], paths: [&Path; 2]) -> Result<Self> {
        let all = [stages::stages(before), stages::stages(after)];
        ensure!(
            all[0].len() == all[1].len(),
            "{} has {} stages and {} has {}: compare recordings of one pipeline",
            paths[0].display(),
            all[0].len(),
            paths[1].display(),
            all[1].len()
        );
        let names = names([before, after], paths);
        let mut change = Self {
            findings: Vec::new(),
            cautions: cautions(before, after, &names),
            pipes: pipe_changes([before, after], &all),
            shares: share_changes([before, after]),
            names,
        };
        if let [Some(old), Some(new)] = [before, after].map(PipelineWork::of) {
            let reasons = work::unequal(&old, &new).into_iter();
            change.cautions.splice(0..0, reasons.map(|reason| format!("{}.", capitalized(&reason))));
        }
        change.findings = change.answer(before, after);
        Ok(change)
    }

    fn answer(&self, before: &Document, after: &Document) -> Vec<String> {
        let mut findings = Vec::new();
        if !self.shares.is_empty() {
            findings.push(samples::largest(&self.shares));
        }
        if [before, after].iter().all(|recording| recording.target.imported().is_some()) {
            return findings;
        }
        if [before, after].iter().all(|recording| recording.executed_on != ExecutedOn::Tcg) {
            let [first, second] = [before, after].map(|recording| number(recording.processes.window_ns as f64 / 1e9));
            findings.push(format!(
                "It took {second} s instead of {first} s, in one run each: `pipeprof record --try` tells which is faster."
            ));
        }
        let longest = |recording: &Document| {
            let process = words::longest(recording)?;
            labels(recording).get(process).cloned()
        };
        findings.push(match [before, after].map(longest) {
            [Some(first), Some(second)] if first == second => {
                let [first_share, second_share] =
                    [before, after].map(|recording| percent(words::longest_share(recording)));
                format!("`{first}` is the longest part of the critical path in both: {first_share} and {second_share}.")
            }
            _ => {
                let [first, second] =
                    [before, after].map(|recording| recording.findings.first().map_or("", |text| text));
                format!("{}: {first} {}: {second}", self.names[0], self.names[1])
            }
        });
        findings
    }
}

fn names([before, after]: [&Document; 2], paths: [&Path; 2]) -> [String; 2] {
    let releases = [before, after].map(|recording| &recording.kernel.release);
    if releases[0] != releases[1] && !releases.iter().any(|release| release.is_empty()) {
        return [before, after].map(|recording| format!("Linux {}", recording.kernel.release));
    }
    let texts = [before, after].map(files::title);
    if texts[0] != texts[1] {
        texts.map(|text| format!("`{text}`"))
    } else {
        paths.map(|path| path.display().to_string())
    }
}

/// Pipes between the same stages, in order.
fn pipe_changes(recordings: [&Document; 2], all: &[Stages; 2]) -> Vec<PipeChange> {
    let keyed = |at: usize| -> BTreeMap<([Vec<usize>; 2], usize), &RecordedPipe> {
        let mut seen: BTreeMap<[Vec<usize>; 2], usize> = BTreeMap::new();
        let used = recordings[at].pipes.iter().filter(|pipe| pipe.is_used());
        used.map(|pipe| {
            let sides = stages::sides(pipe, &all[at]).map(|side| side.into_iter().collect::<Vec<usize>>());
            let number = seen.entry(sides.clone()).or_default();
            *number += 1;
            ((sides, *number), pipe)
        })
        .collect()
    };
    let [first, second] = [keyed(0), keyed(1)];
    let names = stages::names(recordings[1], &all[1]);
    let change = |((sides, _), old): (&([Vec<usize>; 2], usize), &&RecordedPipe)| {
        let new = second.get(&(sides.clone(), 1)).filter(|_| second.len() == first.len())?;
        let windows = recordings.map(|recording| recording.processes.window_ns.max(1) as f64);
        let side = |ends: fn(&RecordedPipe) -> &Vec<RecordedEnd>| {
            let sum =
                |value: fn(&RecordedEnd) -> u64| [*old, *new].map(|pipe| ends(pipe).iter().map(value).sum::<u64>());
            let blocked = sum(|end| end.blocked_ns);
            SideChange {
                calls: sum(RecordedEnd::all_calls),
                sleeps: sum(|end| end.sleeps),
                needless: sum(|end| end.needless),
                wakes: sum(|end| end.wakes),
                blocked: [0, 1].map(|at| (blocked[at] as f64 / windows[at]).min(1.0)),
            }
        };
        Some(PipeChange {
            name: stages::between(old, &all[0], &names),
            bytes: [old, new].map(|pipe| pipe.taken()),
            sides: [side(|pipe| &pipe.writers), side(|pipe| &pipe.readers)],
        })
    };
    first.iter().filter_map(change).collect()
}

fn cautions(before: &Document, after: &Document, names: &[String; 2]) -> Vec<String> {
    let mut cautions = Vec::new();
    let [first, second] = [before, after].map(|recording| recording.target.text());
    if first != second && before.kernel.release != after.kernel.release {
        cautions.push(format!("The pipelines differ, too: {first}; {second}."));
    }
    if before.executed_on != after.executed_on {
        cautions.push("One of them was recorded in an emulated guest: times cannot be compared.".to_owned());
    }
    if before.on_disk.is_empty() != after.on_disk.is_empty() {
        cautions.push(
            "Files were on a disk in one of them and in memory in the other: reading differs by itself.".to_owned(),
        );
    }
    if before.environment.cpus != after.environment.cpus {
        cautions
            .push(format!("The number of CPUs differs: {} and {}.", before.environment.cpus, after.environment.cpus));
    }
    for (recording, name) in [(before, &names[0]), (after, &names[1])] {
        cautions.extend(recording.cautions.iter().map(|caution| format!("{name}: {caution}")));
    }
    if before.ensemble.is_some() != after.ensemble.is_some() {
        let (_, without) = if before.ensemble.is_some() { (before, after) } else { (after, before) };
        cautions.push(format!(
            "Instructions were not counted with Linux {}: record it with --collect insn.",
            without.kernel.release
        ));
    }
    cautions
}

#[cfg(test)]
mod tests;

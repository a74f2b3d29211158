//! What changed from one recording of a pipeline to another: with another kernel, another program or another setting.

pub(super) mod samples;

use super::check::check;
use super::model::{PipelineLimit, RecordedEnd, RecordedInstructions, RecordedPipe, Recording, StageInstructions};
use super::stages::{self, Stages};
use crate::document::ExecutedOn;
use crate::profile::listed;
use crate::report::number::{millions, number};
use crate::roles::{self, RoleId, SCHEDULING};
use crate::util::decision::{CountChange, Decision, MARGIN};
use crate::util::text::{grouped, signed};
use crate::util::{regular, stored_json};
use anyhow::{Context as _, Result, ensure};
use samples::{ShareChange, share_changes};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Copying by instructions that count once is named if loads of one word would have been one in so many instructions.
const NOTABLE_COPYING: u64 = 10;

/// Scheduling is named if it changed by this part of all instructions.
const NOTABLE_SCHEDULING: f64 = 0.01;

/// Bytes of a word.
const WORD: u64 = 8;

/// Pipes whose bytes differ by more than this part did not do the same work.
const SAME_BYTES: f64 = 0.01;

/// Two recordings of one pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RecordingChange {
    /// What distinguishes them: releases of kernels, pipelines, or folders.
    pub names: [String; 2],
    /// The answer.
    pub findings: Vec<String>,
    /// What else differs, and why the answer may be doubted.
    pub cautions: Vec<String>,
    /// That of the sum of instructions without scheduling, if both have them.
    pub work: Option<CountChange>,
    /// Counted instructions, if both have them.
    pub stages: Vec<StageChange>,
    /// Largest difference first.
    pub roles: Vec<RoleChange>,
    pub pipes: Vec<PipeChange>,
    /// Shares of samples, if both have them. Certain differences first, and the largest of them.
    pub shares: Vec<ShareChange>,
}

/// A stage's instructions, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StageChange {
    pub name: String,
    pub instructions: [u64; 2],
    pub without_scheduling: [u64; 2],
}

/// A role's instructions in one stage, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RoleChange {
    pub stage: String,
    pub role: RoleId,
    pub instructions: [u64; 2],
}

impl RoleChange {
    /// After minus before.
    pub(super) fn difference(&self) -> i128 {
        i128::from(self.instructions[1]) - i128::from(self.instructions[0])
    }
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

/// The path of the recording that `path` names: a folder or its record.json. `None` if it is another kind of result.
pub(crate) fn recording_at(path: &Path) -> Option<PathBuf> {
    regular::document_at(path, super::RECORD_FILE)
}

/// Read a recording.
///
/// # Errors
/// When the file is missing, or not a recording of this version.
pub(crate) fn load(path: &Path) -> Result<Recording> {
    parse(&stored_json::read(path)?, path)
}

/// Read a recording that was stored at `path`.
///
/// # Errors
/// When it is not a recording of this version, or its parts do not fit together.
pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<Recording> {
    let recording = stored_json::document(bytes, path, "a recording", super::model::RECORDING_SCHEMA)?;
    check(&recording).with_context(|| format!("{}: not a recording that pipeprof wrote", path.display()))?;
    Ok(recording)
}

impl RecordingChange {
    /// What changed from `before` to `after`, which are stored at `paths`. `margin`: changes of counts within it are no
    /// change, as a part.
    ///
    /// # Errors
    /// When the pipelines have different numbers of stages.
    pub(crate) fn new(recordings: [&Recording; 2], paths: [&Path; 2], margin: f64) -> Result<Self> {
        let places = paths.map(|path| path.display().to_string());
        Self::between(recordings, names(recordings, paths), &places, margin)
    }

    /// As [`Self::new`], of recordings with these names.
    ///
    /// # Errors
    /// When the pipelines have different numbers of stages.
    pub(crate) fn named(recordings: [&Recording; 2], names: [String; 2]) -> Result<Self> {
        Self::between(recordings, names.clone(), &names, MARGIN)
    }

    fn between(
        [before, after]: [&Recording; 2],
        names: [String; 2],
        places: &[String; 2],
        margin: f64,
    ) -> Result<Self> {
        let all = [stages::stages(before), stages::stages(after)];
        ensure!(
            all[0].len() == all[1].len(),
            "{} has {} stages and {} has {}: compare recordings of one pipeline",
            places[0],
            all[0].len(),
            places[1],
            all[1].len()
        );
        let counted = before.instructions.as_ref().zip(after.instructions.as_ref());
        let stages: Vec<StageChange> = counted.map(stage_changes).unwrap_or_default();
        let roles = counted.map(role_changes).unwrap_or_default();
        let mut change = Self {
            work: counted.map(|(first, second)| {
                let runs = [first, second].map(RecordedInstructions::runs);
                CountChange::new(runs.each_ref().map(|runs| mean(runs)), [&runs[0], &runs[1]], margin)
            }),
            findings: Vec::new(),
            cautions: cautions(before, after, &names),
            pipes: pipe_changes([before, after], &all),
            shares: before
                .samples
                .as_ref()
                .zip(after.samples.as_ref())
                .map_or_else(Vec::new, |(first, second)| share_changes([first, second])),
            names,
            stages,
            roles,
        };
        change.cautions.splice(0..0, change.unequal(before, after));
        change.cautions.extend(change.copied(before, after));
        change.findings = change.answer(before, after);
        Ok(change)
    }

    /// Why the counts of `before` and `after`, of which this is the change, may not be compared: unequal work, or copying
    /// that they do not show.
    #[must_use]
    pub(crate) fn about_work(&self, before: &Recording, after: &Recording) -> Vec<String> {
        self.unequal(before, after).into_iter().chain(self.copied(before, after)).collect()
    }

    /// Whether they did the same.
    fn unequal(&self, before: &Recording, after: &Recording) -> Vec<String> {
        let mut cautions = Vec::new();
        if before.exit_codes != after.exit_codes {
            let [first, second] = [before, after].map(|recording| &recording.exit_codes);
            cautions.push(format!("They ended differently: exit codes {first:?} and {second:?}."));
        }
        let far =
            |pipe: &&PipeChange| ratio(pipe.bytes).abs() > SAME_BYTES || (pipe.bytes[0] == 0) != (pipe.bytes[1] == 0);
        // Where the kernel skipped programs, calls and their bytes are missing.
        let whole = before.skipped == 0 && after.skipped == 0;
        if let Some(pipe) = self.pipes.iter().find(far).filter(|_| whole) {
            let [first, second] = pipe.bytes.map(|bytes| number(bytes as f64 / (1 << 20) as f64));
            cautions.push(format!(
                "They did not move the same data: from {} {first} and {second} MiB. Compare runs of the same work.",
                pipe.name
            ));
        }
        cautions
    }

    /// Copying that the counts do not show, if both recordings know of it.
    fn copied(&self, before: &Recording, after: &Recording) -> Option<String> {
        let sum = self.sum()?;
        let bytes = |recording: &Recording| -> Option<u64> {
            recording.instructions.iter().flat_map(|counted| &counted.stages).map(|stage| stage.rep_bytes).sum()
        };
        let [first, second] = [bytes(before)?, bytes(after)?];
        let more = first.abs_diff(second);
        let name = if first > second { &self.names[0] } else { &self.names[1] };
        let least = sum.instructions.into_iter().min().unwrap_or(0);
        (more / WORD > least / NOTABLE_COPYING).then(|| {
            format!(
                "Instructions that copy or clear memory count once, however much it is: it was {} MiB more in {name}.",
                number(more as f64 / (1 << 20) as f64)
            )
        })
    }

    fn answer(&self, before: &Recording, after: &Recording) -> Vec<String> {
        let mut findings = Vec::new();
        if !self.shares.is_empty() {
            findings.push(samples::largest(&self.shares));
        }
        if [before, after].iter().all(|recording| recording.imported.is_some()) {
            return findings;
        }
        let counted = self.about_instructions();
        if !counted.is_empty() {
            findings.extend(counted);
        } else if [before, after].iter().all(|recording| recording.executed_on != ExecutedOn::Tcg) {
            let [first, second] = [before, after].map(|recording| number(recording.window_ns as f64 / 1e9));
            findings.push(format!(
                "It took {second} s instead of {first} s, in one run each: `pipeprof record --try` tells which is faster."
            ));
        }
        let limiting = |recording: &Recording| match &recording.limit {
            Some(PipelineLimit::Stages { stages }) if stages.len() == 1 => Some(stages[0].name.clone()),
            _ => None,
        };
        findings.push(match [before, after].map(limiting) {
            [Some(first), Some(second)] if first == second => format!("`{first}` limits the pipeline in both."),
            _ => {
                let [first, second] =
                    [before, after].map(|recording| recording.findings.first().map_or("", |text| text));
                format!("{}: {first} {}: {second}", self.names[0], self.names[1])
            }
        });
        findings
    }

    /// What the counts say, if both have them.
    #[must_use]
    pub(crate) fn about_instructions(&self) -> Vec<String> {
        let Some((sum, work)) = self.sum().zip(self.work) else { return Vec::new() };
        let reason = self.schedule(&sum, &work).or_else(|| self.contributor(&work));
        std::iter::once(self.about_work_done(&sum, &work)).chain(reason).collect()
    }

    /// All stages.
    pub(super) fn sum(&self) -> Option<StageChange> {
        let sum = |value: fn(&StageChange) -> [u64; 2]| {
            self.stages.iter().map(value).fold([0, 0], |sum, more| [sum[0] + more[0], sum[1] + more[1]])
        };
        (!self.stages.is_empty()).then(|| StageChange {
            name: "all".to_owned(),
            instructions: sum(|stage| stage.instructions),
            without_scheduling: sum(|stage| stage.without_scheduling),
        })
    }

    fn about_work_done(&self, sum: &StageChange, work: &CountChange) -> String {
        let [first, second] = sum.without_scheduling.map(millions);
        let [from, to] = &self.names;
        let percent = |part: f64| format!("{:.2}", 100.0 * part);
        let uncertain =
            work.half.filter(|half| *half > 0.0).map_or(String::new(), |half| format!(" (±{} %)", percent(half)));
        let change = format!("{} %{uncertain}", signed(100.0 * work.change));
        match work.decision {
            Decision::Same => format!(
                "{to} and {from} execute as many instructions for this pipeline without scheduling: {second} and {first}, \
                 {change}."
            ),
            Decision::Undecided => format!(
                "It is undecided whether {to} and {from} execute as many instructions for this pipeline without \
                 scheduling: {second} and {first}, {change}; {}.",
                match (work.half, work.enough) {
                    (None, _) => "a single run shows no uncertainty: record with --runs 3".to_owned(),
                    (_, Some(enough)) => format!("about {enough} counted runs of each (--runs {enough}) would decide"),
                    (Some(half), None) =>
                        format!("--margin {}% if no smaller change matters", percent(work.change.abs() + half)),
                }
            ),
            decided => format!(
                "{to} executes {:.1} %{uncertain} {} instructions for this pipeline than {from}, without scheduling: \
                 {second} instead of {first} (with scheduling: {} %).",
                100.0 * work.change.abs(),
                if decided == Decision::Fewer { "fewer" } else { "more" },
                signed(100.0 * ratio(sum.instructions))
            ),
        }
    }

    /// The change by scheduling, if it is larger than that of any role without it.
    fn schedule(&self, sum: &StageChange, work: &CountChange) -> Option<String> {
        let [before, after] =
            [0, 1].map(|at| i128::from(sum.instructions[at]) - i128::from(sum.without_scheduling[at]));
        let change = after - before;
        let largest = self.roles.iter().find(|role| !SCHEDULING.contains(&role.role)).map_or(0, RoleChange::difference);
        let notable = NOTABLE_SCHEDULING.max(work.half.unwrap_or(0.0)) * sum.instructions[0] as f64;
        // What rises does not explain a fall.
        let against = (change < 0) != (sum.instructions[1] < sum.instructions[0]);
        if against || change.unsigned_abs() <= largest.unsigned_abs() || (change.unsigned_abs() as f64) < notable {
            return None;
        }
        let total = |value: fn(&SideChange) -> [u64; 2]| {
            let sides = self.pipes.iter().flat_map(|pipe| &pipe.sides).map(value);
            sides.fold([0, 0], |sum, more| [sum[0] + more[0], sum[1] + more[1]])
        };
        let (sleeps, needless) = (total(|side| side.sleeps), total(|side| side.needless));
        // Most of the sleeps that came or went moved nothing.
        let explained = 2 * needless[0].abs_diff(needless[1]) > sleeps[0].abs_diff(sleeps[1]);
        let how = if change < 0 { "fewer" } else { "more" };
        let reason = if explained && needless[0] != needless[1] {
            format!(": {how} needless wake-ups, {} instead of {}", grouped(needless[1]), grouped(needless[0]))
        } else if sleeps[0] != sleeps[1] {
            format!(": {} sleeps at pipes instead of {}", grouped(sleeps[1]), grouped(sleeps[0]))
        } else {
            String::new()
        };
        Some(format!(
            "Largest contributor: scheduling, {}{}{reason}.",
            if change < 0 { "-" } else { "+" },
            millions(u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX))
        ))
    }

    /// The role that contributes most to the change of the sum.
    fn contributor(&self, work: &CountChange) -> Option<String> {
        let fewer = work.decision == Decision::Fewer;
        let own = |role: &&RoleChange| !SCHEDULING.contains(&role.role) && (role.difference() < 0) == fewer;
        let decided = fewer || work.decision == Decision::More;
        let largest = self.roles.iter().find(own).filter(|_| decided)?;
        let difference = largest.difference();
        Some(format!(
            "Largest contributor: {} in {}, {}{}.",
            roles::by_id(largest.role).title,
            largest.stage,
            if difference < 0 { "-" } else { "+" },
            millions(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX))
        ))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The change as a part of the first; 0 if that is 0.
pub(super) fn ratio([before, after]: [u64; 2]) -> f64 {
    if before == 0 { 0.0 } else { after as f64 / before as f64 - 1.0 }
}

fn names([before, after]: [&Recording; 2], paths: [&Path; 2]) -> [String; 2] {
    let releases = [before, after].map(|recording| &recording.kernel.release);
    if releases[0] != releases[1] && !releases.iter().any(|release| release.is_empty()) {
        return [before, after].map(|recording| format!("Linux {}", recording.kernel.release));
    }
    let texts = [before, after].map(super::text::subject);
    if texts[0] != texts[1] {
        texts.map(|text| format!("`{text}`"))
    } else {
        paths.map(|path| path.display().to_string())
    }
}

fn stage_changes((before, after): (&RecordedInstructions, &RecordedInstructions)) -> Vec<StageChange> {
    let change = |(first, second): (&StageInstructions, &StageInstructions)| StageChange {
        name: if first.name == second.name { first.name.clone() } else { format!("{}, {}", first.name, second.name) },
        instructions: [first, second].map(|stage| stage.instructions),
        without_scheduling: [first, second].map(StageInstructions::without_scheduling),
    };
    before.stages.iter().zip(&after.stages).map(change).collect()
}

fn role_changes((before, after): (&RecordedInstructions, &RecordedInstructions)) -> Vec<RoleChange> {
    let mut changes = Vec::new();
    for (first, second) in before.stages.iter().zip(&after.stages) {
        let weights = |stage: &StageInstructions| -> BTreeMap<RoleId, u64> {
            stage.roles.iter().map(|share| (share.role, share.weight)).collect()
        };
        let [old, new] = [weights(first), weights(second)];
        let all: BTreeSet<RoleId> = old.keys().chain(new.keys()).copied().collect();
        changes.extend(all.into_iter().map(|role| RoleChange {
            stage: second.name.clone(),
            role,
            instructions: [&old, &new].map(|weights| weights.get(&role).copied().unwrap_or(0)),
        }));
    }
    changes.sort_by_key(|change| std::cmp::Reverse(change.difference().unsigned_abs()));
    changes
}

/// Pipes between the same stages, in order.
fn pipe_changes(recordings: [&Recording; 2], all: &[Stages; 2]) -> Vec<PipeChange> {
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
        let [from, to] = sides.each_ref().map(|side| match &side[..] {
            [] => "outside".to_owned(),
            side => listed(side.iter().map(|stage| names[*stage].clone())),
        });
        let windows = recordings.map(|recording| recording.window_ns.max(1) as f64);
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
            name: format!("{from} to {to}"),
            bytes: [old, new].map(|pipe| taken(pipe)),
            sides: [side(|pipe| &pipe.writers), side(|pipe| &pipe.readers)],
        })
    };
    first.iter().filter_map(change).collect()
}

/// Bytes read; written ones if no reader was recorded. What is written and never read, as by `yes` before `head` ends, is
/// not the pipeline's work.
fn taken(pipe: &RecordedPipe) -> u64 {
    let read: u64 = pipe.readers.iter().map(|end| end.bytes).sum();
    if read > 0 { read } else { pipe.bytes() }
}

fn cautions(before: &Recording, after: &Recording, names: &[String; 2]) -> Vec<String> {
    let mut cautions = Vec::new();
    let [first, second] = [before, after].map(|recording| recording.pipeline.text());
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
    let cpus = [before, after].map(|recording| recording.instructions.as_ref().map(|counted| counted.cpus));
    match cpus {
        [Some(first), Some(second)] if first != second => {
            cautions.push(format!(
                "Instructions were counted on {first} and on {second} CPUs, which differ by themselves."
            ));
        }
        [Some(2..), _] => cautions.push(
            "With several CPUs, work moves between stages by itself, such as freeing pages: compare the sum."
                .to_owned(),
        ),
        _ => {}
    }
    if before.instructions.is_some() != after.instructions.is_some() {
        let (_, without) = if before.instructions.is_some() { (before, after) } else { (after, before) };
        cautions.push(format!(
            "Instructions were not counted with Linux {}: record it with --collect insn.",
            without.kernel.release
        ));
    }
    cautions
}

#[cfg(test)]
mod tests;

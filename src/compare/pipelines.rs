//! Recorded pipelines as columns: what makes them comparable, what changed in them, and what counts do not show.

use super::case::CaseMeasure;
use super::columns::short_release;
use super::input::Input;
use super::measure::{Measure, as_f64};
use super::model::{
    ChangedCount, LimitedCount, PathChange, PipeChange, PipelineChange, Step, SystemCallChange, UserWork, Verdict, Word,
};
use super::shares::share_changes;
use crate::process::ProcessTotals;
use crate::profile::{ByProcess, ProcessName, Unit};
use crate::record::model::work::{self, PipeWork, PipelineWork};
use crate::report::number::{change, exact, number};
use crate::result::{Attribution, Document, Outcome, RESULT_FILE, SystemCallCount};
use crate::roles::RoleId;
use crate::util::text::{clean, grouped};
use crate::util::usage::UsageError;
use anyhow::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Copying by instructions that count once is named if loads of one word would have been one in so many instructions.
const NOTABLE_COPYING: u64 = 10;

/// What is between stages in the text of a pipeline.
const STAGES: &str = " | ";

/// Bytes of a word.
const WORD: u64 = 8;

/// Recordings, each column of which is stored at one of `paths`, as columns. The stages of pipelines that differ in a
/// program are the same rows. If not all were counted, all are compared by times.
///
/// # Errors
/// When a result is no recording of a pipeline or processes, or their pipelines have different numbers of stages.
pub fn columns(mut inputs: Vec<Input>, paths: &[PathBuf]) -> Result<Vec<Input>> {
    for (input, path) in inputs.iter().zip(paths) {
        ensure!(
            input.runs.iter().all(|(_, run)| run.document.target.workload().is_none()),
            UsageError::new(format!("{} is no recording, and others are: give results of one kind", path.display()))
        );
        ensure!(
            input.runs.iter().all(|(_, run)| run.document.machine.is_none()),
            UsageError::new(format!(
                "{} is a view of a whole machine, which took no time of its own: give recordings of a pipeline",
                path.display()
            ))
        );
    }
    let documents = || inputs.iter().flat_map(|input| &input.runs).map(|(_, run)| &run.document);
    let counted = documents().filter(|document| document.ensemble.is_some()).count();
    let all = counted == documents().count();
    let has_trials = documents().all(|document| document.trials.is_some());
    let imported = documents().all(|document| document.target.imported().is_some());
    let mode = documents().next().map(|document| document.mode.clone()).filter(|_| !imported);
    let mode = mode.unwrap_or_else(|| "samples".to_owned());
    let labels = labels(&inputs, paths);
    for (input, label) in inputs.iter_mut().zip(labels) {
        input.label = label;
        if !all {
            // What one recording shows is that of the one with the median time.
            let time = |run: &(String, Outcome)| run.1.document.processes.window_ns;
            input.runs.sort_by_key(time);
            let middle = input.runs.len() / 2;
            input.runs.swap(0, middle);
        }
    }
    let mut runs: Vec<&mut (String, Outcome)> = inputs.iter_mut().flat_map(|input| &mut input.runs).collect();
    let mut columns: Vec<ColumnNames> = Vec::new();
    for (source, outcome) in &mut runs {
        *source = shown(Path::new(source));
        outcome.document.mode.clone_from(&mode);
        columns.push(if all {
            ColumnNames::counted(&outcome.document)
        } else {
            uncounted(outcome, counted, has_trials)
        });
    }
    let stages = columns.first().map_or(0, |column| column.stages.len());
    if let Some(other) = columns.iter().position(|column| column.stages.len() != stages) {
        bail!(
            "{} has {stages} stages and {} has {}: compare recordings of one pipeline",
            runs[0].0,
            runs[other].0,
            columns[other].stages.len()
        );
    }
    let shared: Vec<Option<ProcessName>> = (0..stages).map(|stage| shared(&columns, stage)).collect();
    for ((_, outcome), mut column) in runs.into_iter().zip(columns) {
        for (own, shared) in column.stages.iter().zip(&shared) {
            column.names.extend(own.zip(*shared));
        }
        rename(outcome, &column.names);
    }
    Ok(inputs)
}

/// The names of processes in one recording.
#[derive(Default)]
struct ColumnNames {
    /// Of each stage, if it is one process.
    stages: Vec<Option<ProcessName>>,
    /// Their names in the comparison, if these differ.
    names: BTreeMap<ProcessName, ProcessName>,
}

impl ColumnNames {
    fn counted(document: &Document) -> Self {
        Self { stages: document.processes.totals.names().map(Some).collect(), ..Self::default() }
    }
}

/// Make `outcome` one that is compared by times. `counted`: how many of the others were counted.
fn uncounted(outcome: &mut Outcome, counted: usize, has_trials: bool) -> ColumnNames {
    let document = &mut outcome.document;
    if document.ensemble.take().is_some() {
        (document.unit, document.attribution) = (Unit::Samples, Attribution::default());
        (document.runs, outcome.windows, outcome.profiles) = Default::default();
        outcome.code = None;
    } else if counted > 0 {
        document.cautions.push("Instructions were not counted: record with --collect insn.".to_owned());
    }
    document.trials.take_if(|_| !has_trials);
    let (stages, processes) = work::processes(document);
    let mut column = ColumnNames { stages: vec![None; stages], ..ColumnNames::default() };
    let mut totals: ByProcess<ProcessTotals> = ByProcess::new();
    for process in processes {
        if process.name != process.was {
            column.names.insert(process.was, process.name);
        } else if let Some(stage) = process.stage {
            column.stages[stage] = Some(process.name);
        }
        let sum = totals.get_or_default(process.name);
        *sum = ProcessTotals::sum([&*sum, &process.totals]);
    }
    document.processes.totals = totals;
    column
}

/// The name of stage `at` in all columns: `stage2-gzip+pigz` if the programs differ.
fn shared(columns: &[ColumnNames], at: usize) -> Option<ProcessName> {
    let mut names: Vec<ProcessName> = columns.iter().filter_map(|column| column.stages[at]).collect();
    let mut known = BTreeSet::new();
    names.retain(|name| known.insert(*name));
    let prefix = format!("stage{}-", at + 1);
    let mut programs: Vec<&str> = names.iter().map(work::program).collect();
    programs.dedup();
    match names[..] {
        [] => None,
        [one] => Some(one),
        _ => Some(ProcessName::new(&format!("{prefix}{}", programs.join("+")))),
    }
}

fn rename(outcome: &mut Outcome, names: &BTreeMap<ProcessName, ProcessName>) {
    let new = |name: ProcessName| names.get(&name).copied().unwrap_or(name);
    let document = &mut outcome.document;
    document.processes.totals = document.processes.totals.iter().map(|(name, of)| (new(name), of.clone())).collect();
    document.runs.iter_mut().for_each(|run| run.processes.clone_from(&document.processes));
    let shares = &mut document.attribution.processes;
    *shares = shares.iter().map(|(name, of)| (new(name), of.clone())).collect();
    document.system_calls.iter_mut().for_each(|call| call.process = new(call.process));
    let profiles = outcome.profiles.iter_mut().chain(outcome.windows.iter_mut().flatten());
    profiles.for_each(|profile| profile.process = new(profile.process));
}

/// What distinguishes the columns, if their kernels do not: the pipelines, or where they are stored.
fn labels(inputs: &[Input], paths: &[PathBuf]) -> Vec<Option<String>> {
    let documents: Vec<&Document> = inputs.iter().filter_map(|input| Some(&input.runs.first()?.1.document)).collect();
    let different = |of: &dyn Fn(&Document) -> String| {
        let all: Vec<String> = documents.iter().map(|document| of(document)).collect();
        (all.iter().collect::<BTreeSet<_>>().len() == inputs.len()).then_some(all)
    };
    if different(&|document| short_release(&document.kernel.release).to_owned()).is_some() {
        return vec![None; inputs.len()];
    }
    let named = different(&|document| clean(&document.mode)).map(|modes| differing(&modes));
    let named = named.unwrap_or_else(|| paths.iter().map(|path| shown(path)).collect());
    named.into_iter().map(Some).collect()
}

/// These pipelines without the stages that are the same in all, if something of each is left.
fn differing(pipelines: &[String]) -> Vec<String> {
    let stages: Vec<Vec<&str>> = pipelines.iter().map(|pipeline| pipeline.split(STAGES).collect()).collect();
    let most = stages.iter().map(|of| of.len() - 1).min().unwrap_or(0);
    let same = |at: &dyn Fn(&[&str]) -> String| stages.iter().map(|of| at(of)).collect::<BTreeSet<_>>().len() == 1;
    let first = (0..most).take_while(|at| same(&|of| of[*at].to_owned())).count();
    let last = (0..most - first).take_while(|at| same(&|of| of[of.len() - 1 - at].to_owned())).count();
    stages.iter().map(|of| of[first..of.len() - last].join(STAGES)).collect()
}

fn shown(path: &Path) -> String {
    let folder = path.parent().filter(|folder| path.ends_with(RESULT_FILE) && !folder.as_os_str().is_empty());
    folder.unwrap_or(path).display().to_string()
}

/// `verdict` on the times of two recordings, or why they have none.
pub(crate) fn timed_verdict(verdict: Verdict, sides: [&CaseMeasure; 2], is_equal: bool) -> Verdict {
    let emulated = sides.map(|side| side.pipeline.as_ref().is_some_and(|work| work.is_emulated));
    let change = format!("{}, {} to {} ms", change(verdict.ratio), exact(verdict.before), exact(verdict.after));
    let text = match emulated {
        _ if sides.iter().any(|side| side.times.is_empty()) => {
            return Verdict::none("undecided: without times, there is no verdict");
        }
        [true, false] | [false, true] => {
            return Verdict::none(
                "undecided: one of them was recorded in an emulated guest, so times cannot be compared",
            );
        }
        [true, true] => format!(
            "undecided: an emulator's times are no verdict ({change} of the guest's clock); instructions that are counted \
             in both (--collect insn) decide"
        ),
        _ if !is_equal => format!("no verdict: {change}"),
        _ => return verdict,
    };
    Verdict { word: Word::Undecided, more_runs: None, noise_from: String::new(), text, ..verdict }
}

/// What changed between two recordings. `profiles`: their samples, if both have them and were not counted.
pub fn change_of(works: [&PipelineWork; 2], profiles: Option<[&Measure; 2]>, with_path: bool) -> PipelineChange {
    let mut path: Vec<PathChange> = Vec::new();
    let parts: BTreeSet<&String> = works.iter().flat_map(|work| work.path.keys()).filter(|_| with_path).collect();
    path.extend(parts.into_iter().map(|part| {
        let [before, after] = works.map(|work| work.path.get(part).copied().unwrap_or(0.0));
        PathChange { part: part.clone(), before, after }
    }));
    let size = |part: &PathChange| (part.after - part.before).abs();
    path.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.part.cmp(&b.part)));
    let after: BTreeMap<_, &PipeWork> = works[1].pipes.iter().map(|pipe| (&pipe.place, pipe)).collect();
    let pipe = |old: &PipeWork| {
        let new = after.get(&old.place)?;
        let side = |at: usize| [old.sides[at], new.sides[at]];
        let bytes = [old.bytes, new.bytes];
        Some(PipeChange { name: old.between.clone(), bytes, writers: side(0), readers: side(1) })
    };
    let shares = profiles.map(share_changes).unwrap_or_default();
    let pipes = works[0].pipes.iter().filter_map(pipe).collect();
    PipelineChange { path, shares, pipes, system_calls: system_calls(works), counts: counts(works), user_work: None }
}

/// The system calls of both.
fn system_calls(works: [&PipelineWork; 2]) -> Vec<SystemCallChange> {
    let by_name = works.map(|work| {
        let calls = work.system_calls.iter().map(|call| ((call.process, &call.name[..]), call));
        calls.collect::<BTreeMap<_, _>>()
    });
    if by_name.iter().any(BTreeMap::is_empty) {
        return Vec::new();
    }
    // What was not called did not fail.
    let seen = by_name.iter().all(|calls| calls.values().any(|call| call.errors.is_some())).then_some(0);
    let keys: BTreeSet<_> = by_name.iter().flat_map(BTreeMap::keys).copied().collect();
    let change = |(process, name): (ProcessName, &str)| {
        let both = by_name.each_ref().map(|calls| calls.get(&(process, name)).copied());
        let [old, new] = both.map(|call| call.map_or([0; 2], |call| call.range));
        let per_call =
            |call: &SystemCallCount| (call.calls > 0).then(|| as_f64(call.instructions) / as_f64(call.calls));
        SystemCallChange {
            process,
            name: name.to_owned(),
            calls: both.map(|call| call.map_or(0, |call| call.calls)),
            per_call: both.map(|call| call.and_then(per_call)),
            errors: both.map(|call| call.map_or(seen, |call| call.errors)),
            bytes: both.map(|call| call.and_then(|call| call.bytes)),
            certain: old[1] < new[0] || new[1] < old[0],
        }
    };
    let mut changes: Vec<SystemCallChange> = keys.into_iter().map(change).collect();
    let size = |change: &SystemCallChange| (change.certain, change.more().unsigned_abs());
    changes.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| (a.process, &a.name).cmp(&(b.process, &b.name))));
    changes
}

/// What both have of other counts.
fn counts(works: [&PipelineWork; 2]) -> Vec<ChangedCount> {
    let calls = |work: &PipelineWork| {
        let sum = |at: usize| work.system_calls.iter().map(|call| call.range[at]).sum::<u64>();
        (!work.system_calls.is_empty()).then(|| [sum(0), sum(1)].map(as_f64))
    };
    let bytes = |work: &PipelineWork| {
        let moved: Vec<u64> = work.system_calls.iter().filter_map(|call| call.bytes).collect();
        (!moved.is_empty()).then(|| [as_f64(moved.iter().sum()); 2])
    };
    let faults = |work: &PipelineWork| work.page_faults.map(|range| range.map(as_f64));
    let sleeps = |work: &PipelineWork| work.sleeps_per_mib.map(|sleeps| [sleeps; 2]);
    let change = |what, [before, after]: [Option<[f64; 2]>; 2]| {
        before.zip(after).map(|(before, after)| ChangedCount { what, before, after })
    };
    let all = [
        change(LimitedCount::SystemCalls, works.map(calls)),
        change(LimitedCount::PageFaults, works.map(faults)),
        change(LimitedCount::Bytes, works.map(bytes)),
        change(LimitedCount::SleepsPerMib, works.map(sleeps)),
    ];
    all.into_iter().flatten().collect()
}

/// ` by cat`, which made system calls: the stage's program, with its number if several stages have that. Nothing if only one
/// stage made some, as the shell of a whole line.
fn by(step: &Step, process: ProcessName) -> String {
    let all: BTreeSet<ProcessName> = step.pipeline.system_calls.iter().map(|change| change.process).collect();
    let short = work::program(&process);
    match all.iter().filter(|other| work::program(other) == short).count() {
        _ if all.len() < 2 => String::new(),
        1 => format!(" by {short}"),
        _ => format!(" by {process}"),
    }
}

/// `129 more read and 128 more write instead of 128 splice by cat`: a call that other calls of its process replace.
fn replaced_calls(step: &Step) -> Option<String> {
    let certain = || step.pipeline.system_calls.iter().filter(|change| change.certain);
    let is_many = |change: &SystemCallChange| change.more().unsigned_abs() >= FEW_CALLS;
    let is_lost = |change: &&SystemCallChange| is_many(change) && change.calls[1] * FEW_PARTS <= change.calls[0];
    let lost = certain().find(is_lost)?;
    // As many as there were, more or less.
    let gained = certain().filter(|other| {
        other.process == lost.process && other.more() > 0 && other.more() * 4 >= -lost.more() && is_many(other)
    });
    let gained = gained.take(NAMED).map(|other| format!("{} more {}", grouped(other.more() as u64), other.name));
    let gained: Vec<String> = gained.collect();
    let instead = format!("{} {}{}", grouped(lost.calls[0] - lost.calls[1]), lost.name, by(step, lost.process));
    (!gained.is_empty()).then(|| format!("{} instead of {instead}", gained.join(" and ")))
}

/// `500 more getppid by prog`: the change of the number of calls that explains a part of the change of `step`, or is
/// certain although that of instructions is not.
pub(crate) fn more_calls(step: &Step) -> Option<String> {
    if let Some(text) = replaced_calls(step) {
        return Some(text);
    }
    let change = step.pipeline.system_calls.first().filter(|change| change.certain)?;
    let (more, [before, after]) = (change.more(), change.calls);
    let is_many = more.unsigned_abs() >= FEW_CALLS && before.abs_diff(after) * FEW_PARTS >= before.max(after);
    let agrees = !step.verdict.word.is_change() || (more > 0) == (step.verdict.word == Word::More);
    let how = if more > 0 { "more" } else { "fewer" };
    let text = format!(
        "{} {how} {}{} ({} to {})",
        grouped(before.abs_diff(after)),
        change.name,
        by(step, change.process),
        grouped(before),
        grouped(after)
    );
    (is_many && agrees).then_some(text)
}

/// Why user code of `sides` changed, if that is most of the change of `step`, and its system calls are the same.
pub(crate) fn user_work(step: &Step, sides: [&CaseMeasure; 2]) -> Option<UserWork> {
    let user = step.roles.iter().find(|row| row.role == RoleId::User && row.certain)?;
    let explains = 2.0 * user.delta.abs() >= step.verdict.delta.abs() && more_calls(step).is_none();
    (step.verdict.word.is_change() && explains).then(|| sides[1].user_loops.since(&sides[0].user_loops)).flatten()
}

/// `the same work, other code`: what is known of a change of user code.
pub(crate) fn user_work_text(work: &UserWork) -> String {
    match work {
        UserWork::OtherCode => "the same work, other code: its loops run as often".to_owned(),
        UserWork::Loop { function, line, turns } => {
            let line = line.as_ref().map_or_else(String::new, |line| format!(" ({})", clean(line)));
            format!("more work: a loop in {}{line} runs {} times", clean(function), grouped(*turns))
        }
    }
}

/// Calls that replace another one and are named.
const NAMED: usize = 2;

/// Fewer calls are not worth a sentence, nor is a change of a smaller part of all.
const FEW_CALLS: u128 = 10;
const FEW_PARTS: u64 = 10;

/// What explains the change of two pipelines beyond their counts, or is missing in these.
pub fn remarks(sides: [&CaseMeasure; 2]) -> Vec<String> {
    let [Some(old), Some(new)] = sides.map(|side| side.pipeline.as_ref()) else { return Vec::new() };
    let works = [old, new];
    let mut remarks = Vec::new();
    if old.text != new.text && sides[0].kernel.release != sides[1].kernel.release {
        remarks.push(format!("The pipelines differ, too: {}; {}.", clean(&old.text), clean(&new.text)));
    }
    if old.on_disk != new.on_disk {
        remarks.push(
            "Files were on a disk in one of them and in memory in the other: reading differs by itself.".to_owned(),
        );
    }
    let (needless, sleeps) = (works.map(|work| work.needless), sides.map(CaseMeasure::sleeps));
    // Most of the sleeps that came or went moved nothing.
    if let [Some(before), Some(after)] = needless
        && before != after
        && 2 * before.abs_diff(after) > sleeps[0].abs_diff(sleeps[1])
    {
        let how = if after < before { "Fewer" } else { "More" };
        remarks.push(format!(
            "{how} needless wake-ups, after which nothing moved in a pipe: {} instead of {}.",
            grouped(after),
            grouped(before)
        ));
    }
    if let [Some(first), Some(second)] = works.map(|work| work.rep_bytes) {
        let more = first.abs_diff(second);
        let weight = |side: &CaseMeasure| side.profile.as_deref().map_or(0, Measure::weight);
        let least = sides.map(weight).into_iter().min().unwrap_or(0);
        if more / WORD > least / NOTABLE_COPYING {
            let when = if first > second { "before" } else { "after" };
            remarks.push(format!(
                "Instructions that copy or clear memory count once, however much it is: it was {} MiB more {when}.",
                mib(more)
            ));
        }
    }
    remarks
}

fn mib(bytes: u64) -> String {
    number(as_f64(bytes) / f64::from(1 << 20))
}

#[cfg(test)]
mod tests;

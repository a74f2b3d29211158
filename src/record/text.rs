//! Show a recording: the answer, then tables of pipes, calls and processes, then the limits of these figures.

use super::collect::RecordLevel;
use super::graphs;
use super::model::{
    ImportedFrom, ProcessSamples, RecordedInstructions, RecordedPipe, RecordedSamples, Recording, StageInstructions,
};
use super::tables::{self, ROWS, further};
use crate::profile::few;
use crate::report::block::{self, ReportBlock};
use crate::report::files::Written;
use crate::report::number::{number, percent};
use crate::report::terminal::{Style, roles};
use crate::result::ExecutedOn;
use crate::roles::RoleId;
use crate::util::text::{clean, counted as counted_noun, grouped};

/// Processes whose roles are shown, and the samples that each needs.
const SAMPLED: usize = 4;
const FEW_SAMPLES: u64 = 20;

/// The whole text. `written`: where the files are.
#[must_use]
pub(crate) fn render(recording: &Recording, written: Option<&Written>, style: Style) -> String {
    let how = if recording.imported.is_some() { "Read" } else { "Recorded" };
    let about = ReportBlock::Note(format!("{how}: {}: {}", subject(recording), about(recording)));
    let mut blocks = [answer(recording), vec![about], details(recording), vec![limits(recording)]].concat();
    blocks.extend(written.map(|written| {
        let named = graphs::most_telling(&written.files);
        let mut files = named.join(", ");
        if named.len() < written.files.len() {
            files.push_str(&format!(" and {} more", written.files.len() - named.len()));
        }
        ReportBlock::Note(format!("Written to {}: {files}", written.folder.display()))
    }));
    block::text(&blocks, style)
}

/// What the time was made of, and why that may be doubted.
pub(super) fn answer(recording: &Recording) -> Vec<ReportBlock> {
    let cautions = recording.cautions.iter().cloned().map(ReportBlock::Note);
    cautions.chain(recording.findings.iter().cloned().map(ReportBlock::Sentence)).collect()
}

/// All tables.
pub(super) fn details(recording: &Recording) -> Vec<ReportBlock> {
    let mut blocks: Vec<ReportBlock> = tables::all(recording).into_iter().map(ReportBlock::Table).collect();
    blocks.extend(recording.samples.iter().flat_map(|sampled| samples(recording, sampled)));
    blocks.extend(recording.instructions.as_ref().map(instructions));
    blocks
}

/// `1.5 s, exit code 0; Linux 7.2.`
pub(super) fn about(recording: &Recording) -> String {
    if let Some(imported) = &recording.imported {
        return about_imported(recording, imported);
    }
    let seconds = recording.window_ns as f64 / 1e9;
    let ended = match recording.exit_codes.last() {
        Some(_) if recording.was_limited() => ", then ended".to_owned(),
        Some(code) => format!(", exit code {code}"),
        None => String::new(),
    };
    let emulated = recording.executed_on == ExecutedOn::Tcg;
    let clock = if emulated { " of the guest's clock" } else { "" };
    format!("{} s{clock}{ended}; Linux {}.", number(seconds), recording.kernel.release)
}

/// `perf script, 17,131 samples of cpu-clock in 34 commands; Linux 6.1.`
fn about_imported(recording: &Recording, imported: &ImportedFrom) -> String {
    let sampled = recording.samples.as_ref();
    let samples = counted_noun(sampled.map_or(0, |sampled| sampled.collector.samples), "sample");
    let event = imported.event.as_ref().map_or_else(String::new, |event| format!(" of {}", clean(event)));
    let commands = counted_noun(sampled.map_or(0, |sampled| sampled.processes.len()) as u64, "command");
    let release = &recording.kernel.release;
    let kernel = if release.is_empty() { String::new() } else { format!("; Linux {}", clean(release)) };
    format!("{}, {samples}{event} in {commands}{kernel}.", clean(&imported.format))
}

/// What was recorded.
pub(super) fn subject(recording: &Recording) -> String {
    if let Some(imported) = &recording.imported {
        return clean(&imported.file);
    }
    match &recording.pids[..] {
        [] => recording.pipeline.text(),
        [pid] => format!("process {pid}"),
        pids => format!("processes {}", few(pids)),
    }
}

/// The roles of the processes with most samples, if they have enough of them.
fn samples(recording: &Recording, sampled: &RecordedSamples) -> Vec<ReportBlock> {
    let labels = super::names::labels(recording);
    let mut shown: Vec<&ProcessSamples> =
        sampled.processes.iter().filter(|process| process.samples >= FEW_SAMPLES).collect();
    shown.sort_by_key(|process| std::cmp::Reverse(process.samples));
    shown.truncate(SAMPLED);
    let left_out = further(sampled.processes.len() - shown.len(), "process");
    let table = |process: &&ProcessSamples| {
        let name = labels.get(process.process).unwrap_or(&process.name);
        let title = format!("Time of {name} on a CPU by role ({})", counted_noun(process.samples, "sample"));
        ReportBlock::Table(roles::table(title, &[], &process.roles))
    };
    let note = (!left_out.is_empty()).then_some(ReportBlock::Note(left_out));
    shown.iter().map(table).chain(note).collect()
}

/// The roles of each stage.
fn instructions(counted: &RecordedInstructions) -> ReportBlock {
    let table = |stage: &StageInstructions| {
        let user = stage.roles.iter().find(|role| role.role == RoleId::User).map_or(0.0, |role| role.share);
        let title = format!("{}: {} ({} in user code)", stage.name, grouped(stage.instructions), percent(user));
        ReportBlock::Table(roles::table(title, &counted.symbols, &stage.roles))
    };
    let left_out = further(counted.stages.len().saturating_sub(ROWS), "stage");
    let note = (!left_out.is_empty()).then_some(ReportBlock::Note(left_out));
    let heading = format!(
        "Instructions, counted in another run on {}, in which nothing was recorded",
        counted_noun(u64::from(counted.cpus), "CPU")
    );
    ReportBlock::section(heading, counted.stages.iter().take(ROWS).map(table).chain(note).collect())
}

/// What limits these figures.
pub(super) fn limits(recording: &Recording) -> ReportBlock {
    let id = "limits".to_owned();
    ReportBlock::Section { id, heading: "Limits".to_owned(), blocks: vec![ReportBlock::Items(limit_lines(recording))] }
}

fn limit_lines(recording: &Recording) -> Vec<String> {
    let mut lines = Vec::new();
    if recording.imported.is_some() {
        let collector = recording.samples.as_ref().map(|sampled| &sampled.collector);
        lines.extend(collector.into_iter().flat_map(|collector| collector.notes.iter().cloned()));
        return lines;
    }
    let calls: u64 = recording.processes.iter().map(|process| process.calls).sum();
    let preemptions: u64 = recording.processes.iter().map(|process| process.preemptions).sum();
    let ends = || recording.pipes.iter().flat_map(RecordedPipe::ends);
    let sleeps = ends().map(|end| end.sleeps + end.lock_sleeps).sum::<u64>()
        + recording.processes.iter().flat_map(|process| process.waits.values()).map(|wait| wait.count).sum::<u64>();
    let calls = match recording.level {
        RecordLevel::Sched => "no system calls (--level sched)".to_owned(),
        RecordLevel::Calls | RecordLevel::Stacks => counted_noun(calls, "system call"),
    };
    lines.push(format!(
        "recorded {calls}, {} and {}; recording them costs time (see docs/record.md)",
        counted_noun(sleeps, "sleep"),
        counted_noun(preemptions, "preemption")
    ));
    if recording.executed_on == ExecutedOn::Tcg {
        let disk = if recording.on_disk.is_empty() {
            "caches and disks take no time"
        } else {
            "caches take no time, and the disk that of this machine"
        };
        let one = format!(
            "an emulator executed the guest: one nanosecond of its clock is one instruction, so shares of time are shares \
             of instructions; {disk}"
        );
        let turns = match recording.environment.cpus {
            ..=1 => "; on its one CPU, stages run in turn",
            _ => "; its CPUs take turns, and waiting for one's turn is waiting for a CPU",
        };
        lines.push(format!("{one}{turns}"));
    }
    let sampled = recording.samples.as_ref().map(|sampled| &sampled.collector);
    let counted = recording.instructions.as_ref().map(|counted| &counted.collector);
    for collector in sampled.into_iter().chain(counted) {
        lines.extend(collector.reason.iter().chain(&collector.notes).cloned());
    }
    if recording.level == RecordLevel::Stacks && recording.lock_waits.is_none() {
        lines.push("this kernel does not report waits for locks (tracepoint contention_begin, since 5.19)".to_owned());
    }
    lines.extend(recording.warnings.iter().map(|warning| format!("warning: {}: {}", warning.message, warning.action)));
    lines
}

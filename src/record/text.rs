//! Print a recording: the answer, then tables of pipes, calls and processes, then the limits of these figures.

use super::answer::percent;
use super::collect::RecordLevel;
use super::graphs;
use super::model::{ImportedFrom, ProcessSamples, RecordedInstructions, RecordedPipe, RecordedSamples, Recording};
use super::tables::{self, ROWS, further};
use crate::document::ExecutedOn;
use crate::profile::few;
use crate::report::files::Written;
use crate::report::number::number;
use crate::report::terminal::{Style, paragraph, roles};
use crate::roles::RoleId;
use crate::util::text::{clean, counted as counted_noun, grouped};

/// Processes whose roles are shown, and the samples that each needs.
const SAMPLED: usize = 4;
const FEW_SAMPLES: u64 = 20;

/// The whole text. `written`: where the files are.
#[must_use]
pub(crate) fn render(recording: &Recording, written: Option<&Written>, style: Style) -> String {
    let mut text = String::new();
    for caution in &recording.cautions {
        text.push_str(&paragraph("", caution, style));
    }
    for finding in &recording.findings {
        text.push_str(&paragraph("", finding, style));
    }
    let how = if recording.imported.is_some() { "Read" } else { "Recorded" };
    text.push_str(&paragraph("", &format!("{how}: {}: {}", subject(recording), about(recording)), style));
    for table in tables::all(recording) {
        text.push_str(&format!("\n{}:\n{}\n", table.title, table.text(style)));
        text.push_str(&table.further);
    }
    if let Some(sampled) = &recording.samples {
        text.push_str(&samples(recording, sampled, style));
    }
    if let Some(counted) = &recording.instructions {
        text.push_str(&instructions(counted, style));
    }
    text.push_str(&limits(recording, style));
    if let Some(written) = written {
        let named = graphs::most_telling(&written.files);
        let mut files = named.join(", ");
        if named.len() < written.files.len() {
            files.push_str(&format!(" and {} more", written.files.len() - named.len()));
        }
        text.push_str(&paragraph("", &format!("Written to {}: {files}", written.folder.display()), style));
    }
    text
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

/// The processes with most samples, if they have enough of them.
pub(super) fn most_sampled(sampled: &RecordedSamples) -> Vec<&ProcessSamples> {
    let mut shown: Vec<&ProcessSamples> =
        sampled.processes.iter().filter(|process| process.samples >= FEW_SAMPLES).collect();
    shown.sort_by_key(|process| std::cmp::Reverse(process.samples));
    shown.truncate(SAMPLED);
    shown
}

/// The roles of each process with enough samples.
fn samples(recording: &Recording, sampled: &RecordedSamples, style: Style) -> String {
    let labels = super::names::labels(recording);
    let shown = most_sampled(sampled);
    let mut text = String::new();
    for process in &shown {
        let name = labels.get(process.process).map_or(&process.name, |label| label);
        let samples = counted_noun(process.samples, "sample");
        text.push_str(&format!("\nTime of {} on a CPU by role ({samples}):\n", clean(name)));
        text.push_str(&roles::table(&[], &process.roles, style));
        text.push('\n');
    }
    text.push_str(&further(sampled.processes.len() - shown.len(), "process"));
    text
}

/// The roles of each stage.
fn instructions(counted: &RecordedInstructions, style: Style) -> String {
    let mut text = format!(
        "\nInstructions, counted in another run on {}, in which nothing was recorded:\n",
        counted_noun(u64::from(counted.cpus), "CPU")
    );
    for stage in counted.stages.iter().take(ROWS) {
        let user = stage.roles.iter().find(|role| role.role == RoleId::User).map_or(0.0, |role| role.share);
        let name = clean(&stage.name);
        text.push_str(&format!("\n{name}: {} ({} in user code)\n", grouped(stage.instructions), percent(user)));
        text.push_str(&roles::table(&counted.symbols, &stage.roles, style));
        text.push('\n');
    }
    text.push_str(&further(counted.stages.len().saturating_sub(ROWS), "stage"));
    text
}

fn limits(recording: &Recording, style: Style) -> String {
    let lines = limit_lines(recording);
    let text: String = lines.iter().map(|line| paragraph("  ", line, style)).collect();
    format!("\nLimits:\n{text}")
}

/// What limits these figures.
pub(super) fn limit_lines(recording: &Recording) -> Vec<String> {
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

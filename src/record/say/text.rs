//! Show a recording: the answer, then tables of pipes, calls and processes, then the limits of these figures.

use crate::profile::{ProcessName, RoleShare, Unit};
use crate::record::model::names;
use crate::record::say::graphs;
use crate::record::say::machine;
use crate::record::say::tables::{self, ROWS, further};
use crate::report::block::{self, ReportBlock};
use crate::report::files::{self, Written};
use crate::report::number::{number, percent, time};
use crate::report::table::{Table, TableCell};
use crate::report::terminal::{Style, functions, roles};
use crate::result::{
    Document, ExecutedOn, ImportedFrom, RecordLevel, RecordedChannel, SystemCallCount, Trigger, Until, Warning,
};
use crate::roles::RoleId;
use crate::util::styled_text::StyledText;
use crate::util::text::{clean, counted as counted_noun, grouped};
use std::collections::HashMap;

/// Processes whose roles are shown, and the samples that each needs.
const SAMPLED: usize = 4;
const FEW_SAMPLES: u64 = 20;

/// Rows of system calls; result.json has all.
const SYSTEM_CALLS: usize = 12;

/// The whole text. `written`: where the files are.
pub fn render(recording: &Document, written: Option<&Written>, style: Style) -> StyledText {
    let how = if recording.target.imported().is_some() { "Read" } else { "Recorded" };
    let about = ReportBlock::Note(format!("{how}: {}: {}", files::title(recording), about(recording)));
    let mut blocks =
        [answer(recording), vec![about], details(recording), limits(recording).into_iter().collect()].concat();
    blocks.extend(written.map(|written| {
        let named = graphs::most_telling(&written.files);
        let mut listed = named.join(", ");
        if named.len() < written.files.len() {
            listed.push_str(&format!(" and {} more", written.files.len() - named.len()));
        }
        ReportBlock::Note(format!("Written to {}: {listed}", written.folder.display()))
    }));
    block::text(&blocks, style)
}

/// What the time was made of, and why that may be doubted.
pub(crate) fn answer(recording: &Document) -> Vec<ReportBlock> {
    let findings = recording.findings.iter().map(|finding| ReportBlock::Sentence(finding.text.clone()));
    // One line, whatever there is to doubt.
    let cautions = (!recording.cautions.is_empty()).then(|| ReportBlock::Note(recording.cautions.join(" ")));
    findings.chain(cautions).collect()
}

/// All tables.
pub(crate) fn details(recording: &Document) -> Vec<ReportBlock> {
    if let Some(machine) = &recording.machine {
        return machine::tables(machine, recording.processes.window_ns);
    }
    let mut blocks: Vec<ReportBlock> = tables::all(recording).into_iter().map(ReportBlock::Table).collect();
    match recording.unit {
        Unit::Instructions => blocks.push(instructions(recording)),
        _ => blocks.extend(samples(recording)),
    }
    let labels = labels(recording);
    let label = |name: ProcessName| labels.get(&name).map_or_else(|| name.to_string(), Clone::clone);
    blocks.extend(functions::table(recording, &label).map(ReportBlock::Table));
    blocks
}

/// `1.5 s, exit code 0; Linux 7.2.`
pub(crate) fn about(recording: &Document) -> String {
    if let Some(imported) = recording.target.imported() {
        return about_imported(recording, imported);
    }
    let seconds = recording.processes.window_ns as f64 / 1e9;
    let ended = match recording.exit_codes.last() {
        Some(_) if recording.was_limited() => ", then ended".to_owned(),
        Some(code) => format!(", exit code {code}"),
        None => String::new(),
    };
    let emulated = recording.executed_on == ExecutedOn::Tcg;
    let clock = if emulated { " of the guest's clock" } else { "" };
    let until = recording.trigger.as_ref().map_or_else(String::new, |trigger| format!(", until {}", happened(trigger)));
    format!("{}{clock}{ended}{until}; Linux {}.", time(seconds), recording.kernel.release)
}

/// `` `yes` had waited 500 ms for room in a pipe or socket``.
fn happened(trigger: &Trigger) -> String {
    let name = clean(&trigger.name);
    let long = |ns: u64| time(ns as f64 / 1e9);
    match trigger.until {
        None => "SIGUSR1 came".to_owned(),
        Some(Until::Full(ns)) => format!("`{name}` had waited {} for room in a pipe or another channel", long(ns)),
        Some(Until::Empty(ns)) => format!("`{name}` had waited {} for data from a pipe or another channel", long(ns)),
        Some(Until::Rate(limit)) => {
            let limit = number(limit as f64 / f64::from(1 << 20));
            format!("less than {limit} MiB/s were read from pipes and other channels")
        }
        Some(Until::Stopped) => format!("`{name}` was stopped"),
        Some(Until::Exit) => "one of the processes had ended".to_owned(),
    }
}

/// `perf script, 17,131 samples of cpu-clock in 34 commands; Linux 6.1.`
fn about_imported(recording: &Document, imported: &ImportedFrom) -> String {
    let samples = counted_noun(recording.collectors.iter().map(|report| report.samples).sum(), "sample");
    let event = imported.event.as_ref().map_or_else(String::new, |event| format!(" of {}", clean(event)));
    let commands = counted_noun(recording.attribution.processes.names().count() as u64, "command");
    let release = &recording.kernel.release;
    let kernel = if release.is_empty() { String::new() } else { format!("; Linux {}", clean(release)) };
    format!("{}, {samples}{event} in {commands}{kernel}.", clean(&imported.format))
}

/// The names of processes in tables.
fn labels(recording: &Document) -> HashMap<ProcessName, String> {
    names::process_names(recording).into_iter().zip(crate::record::model::labels::labels(recording)).collect()
}

/// The roles of the processes with most samples, if they have enough of them.
fn samples(recording: &Document) -> Vec<ReportBlock> {
    let labels = labels(recording);
    let all = || {
        recording.attribution.processes.iter().map(|(name, roles)| (name, recording.attribution.weight(name), roles))
    };
    let mut shown: Vec<_> = all().collect();
    shown.sort_by_key(|(_, samples, _)| std::cmp::Reverse(*samples));
    let enough = shown.iter().filter(|(_, samples, _)| *samples >= FEW_SAMPLES).count();
    // What is left out is more than something.
    shown.truncate(enough.clamp(1, SAMPLED));
    let left_out = further(all().count() - shown.len(), "process");
    let table = |(name, samples, roles): &(ProcessName, u64, &Vec<RoleShare>)| {
        let name = labels.get(name).map_or(name.as_str(), String::as_str);
        let title = format!("Time of {name} on a CPU by role ({})", counted_noun(*samples, "sample"));
        ReportBlock::Table(roles::table(title, &[], roles))
    };
    let note = (!left_out.is_empty()).then_some(ReportBlock::Note(left_out));
    shown.iter().map(table).chain(note).collect()
}

/// The roles of each stage.
fn instructions(recording: &Document) -> ReportBlock {
    let table = |(name, roles): (ProcessName, &Vec<RoleShare>)| {
        let user = roles.iter().find(|role| role.role == RoleId::User).map_or(0.0, |role| role.share);
        let instructions = grouped(recording.attribution.weight(name));
        let title = format!("{name}: {instructions} ({} in user code)", percent(user));
        ReportBlock::Table(roles::table(title, &recording.symbols, roles))
    };
    let stages = || recording.attribution.processes.iter();
    let left_out = further(stages().count().saturating_sub(ROWS), "stage");
    let note = (!left_out.is_empty()).then_some(ReportBlock::Note(left_out));
    let heading = format!(
        "Instructions, counted in another run on {}, in which nothing was recorded",
        counted_noun(u64::from(recording.environment.cpus), "CPU")
    );
    let calls = (!recording.system_calls.is_empty()).then(|| ReportBlock::Table(system_calls(recording)));
    ReportBlock::section(heading, stages().take(ROWS).map(table).chain(note).chain(calls).collect())
}

/// The system calls of all stages, those that executed most first.
fn system_calls(recording: &Document) -> Table {
    let mut calls: Vec<&SystemCallCount> = recording.system_calls.iter().filter(|call| call.calls > 0).collect();
    calls.sort_by_key(|call| (std::cmp::Reverse(call.instructions), call.process, &call.name));
    let (shown, others) = calls.split_at(calls.len().min(SYSTEM_CALLS));
    let more: u64 = others.iter().map(|call| call.calls).sum();
    let note = match others.len() {
        0 => String::new(),
        kinds => {
            format!("{} of {} more in result.json", counted_noun(more, "call"), counted_noun(kinds as u64, "kind"))
        }
    };
    let each = |call: &SystemCallCount| TableCell::Exact(call.instructions as f64 / call.calls as f64);
    Table::of("All system calls, and the kernel's instructions in them without its entry and exit", shown)
        .column("call", |call| &call.name[..])
        .column("process", |call| call.process.as_str())
        .column("calls", |call| call.calls)
        .column("instr/call", |call| each(call))
        .less(1, "errors", |call| call.errors)
        .less(2, "bytes", |call| call.bytes)
        .done()
        .note(note)
}

/// What limits these figures.
pub(crate) fn limits(recording: &Document) -> Option<ReportBlock> {
    let lines = Some(limit_lines(recording)).filter(|lines| !lines.is_empty())?;
    let (id, heading) = ("limits".to_owned(), "Limits".to_owned());
    Some(ReportBlock::Section { id, heading, blocks: vec![ReportBlock::Items(lines)] })
}

fn limit_lines(recording: &Document) -> Vec<String> {
    let mut lines = Vec::new();
    if recording.target.imported().is_some() {
        lines.extend(recording.collectors.iter().flat_map(|collector| collector.notes.iter().cloned()));
        return lines;
    }
    if let Some(machine) = &recording.machine {
        return [machine::limits(machine), warnings(recording)].concat();
    }
    let calls: u64 = recording.recorded.iter().map(|process| process.calls).sum();
    let preemptions: u64 = recording.recorded.iter().map(|process| process.preemptions).sum();
    let ends = || recording.channels.iter().flat_map(RecordedChannel::ends);
    let waits = || recording.recorded.iter().flat_map(|process| process.waits.values());
    let sleeps =
        ends().map(|end| end.sleeps + end.lock_sleeps).sum::<u64>() + waits().map(|wait| wait.count).sum::<u64>();
    let calls = match recording.level {
        RecordLevel::Sched => "no system calls (--level sched)".to_owned(),
        RecordLevel::Calls | RecordLevel::Stacks => counted_noun(calls, "system call"),
    };
    if recording.looks.is_none() {
        lines.push(format!(
            "recorded {calls}, {} and {}; recording them costs time (see docs/record.md)",
            counted_noun(sleeps, "sleep"),
            counted_noun(preemptions, "preemption")
        ));
    }
    if let Some(unseen_ns) = recording.looks.map(|looks| looks.unseen_ns).filter(|ns| *ns > 0) {
        let asleep = ends().map(|end| end.blocked_ns).sum::<u64>() + waits().map(|wait| wait.ns).sum::<u64>();
        let share = percent(unseen_ns as f64 / asleep.max(unseen_ns) as f64);
        lines.push(format!(
            "no look saw why threads slept for {share} of the time that they slept: it is `waiting for something else`"
        ));
    }
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
    for collector in &recording.collectors {
        lines.extend(collector.reason.iter().chain(&collector.notes).cloned());
    }
    if recording.level == RecordLevel::Stacks && recording.lock_waits.is_none() {
        lines.push("this kernel does not report waits for locks (tracepoint contention_begin, since 5.19)".to_owned());
    }
    lines.extend(warnings(recording));
    lines
}

fn warnings(recording: &Document) -> Vec<String> {
    let line = |warning: &Warning| match &warning.action[..] {
        "" => format!("warning: {}", warning.message),
        action => format!("warning: {}: {action}", warning.message),
    };
    recording.warnings.iter().map(line).collect()
}

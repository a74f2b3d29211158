//! Print a recording: the answer, then tables of pipes, calls and processes, then the limits of these figures.

use super::answer::{percent, pipe_name};
use super::collect::RecordLevel;
use super::model::{
    ProcessSamples, RecordedEnd, RecordedInstructions, RecordedPipe, RecordedProcess, RecordedSamples, Recording,
    Trial, TrialRuns, TrialVerdict, Trials,
};
use super::stages;
use crate::document::ExecutedOn;
use crate::profile::listed;
use crate::report::number::number;
use crate::report::terminal::table::{Figures, fitted};
use crate::report::terminal::{Style, paragraph, roles};
use crate::roles::RoleId;
use crate::util::size;
use crate::util::stats;
use crate::util::text::{clean, counted as counted_noun, grouped};
use std::path::Path;

/// Rows of a table. record.json has all.
const ROWS: usize = 20;

/// Processes whose roles are shown, and the samples that each needs.
const SAMPLED: usize = 4;
const FEW_SAMPLES: u64 = 20;

/// Sizes of calls that are named: the most frequent ones.
const NAMED_SIZES: usize = 3;

const MIB: f64 = (1 << 20) as f64;

/// The whole text. `folder`: where the files are.
#[must_use]
pub(crate) fn render(recording: &Recording, folder: Option<&Path>, style: Style) -> String {
    let mut text = String::new();
    for caution in &recording.cautions {
        text.push_str(&paragraph("", caution, style));
    }
    for finding in &recording.findings {
        text.push_str(&paragraph("", finding, style));
    }
    let seconds = recording.window_ns as f64 / 1e9;
    let ended = match recording.exit_codes.last() {
        Some(_) if recording.was_limited() => ", then ended".to_owned(),
        Some(code) => format!(", exit code {code}"),
        None => String::new(),
    };
    let emulated = recording.executed_on == ExecutedOn::Tcg;
    let clock = if emulated { " of the guest's clock" } else { "" };
    let about = format!("{} s{clock}{ended}; Linux {}.", number(seconds), recording.kernel.release);
    text.push_str(&paragraph("", &format!("Recorded: {}: {about}", subject(recording)), style));
    let all = stages::stages(recording);
    let times = stages::times(recording, &all);
    let mut used: Vec<&RecordedPipe> =
        recording.pipes.iter().filter(|pipe| pipe.is_used() || pipe.between.is_some()).collect();
    used.sort_by_key(|pipe| stages::sides(pipe, &all));
    let mut pipes: Vec<(String, &RecordedPipe)> = used
        .into_iter()
        .map(|pipe| (pipe_name(pipe, &all, &times).replace('`', "").trim_start_matches("from ").to_owned(), pipe))
        .collect();
    let further_pipes = shorten(&mut pipes, |(_, pipe)| pipe.bytes());
    if !pipes.is_empty() {
        text.push_str(&format!("\nPipes:\n{}\n", pipe_table(recording, &pipes, style)));
        text.push_str(&further(further_pipes, "pipe"));
        if recording.level != RecordLevel::Sched {
            let table = call_table(&pipes, &labels(recording, &all, &times), style);
            text.push_str(&format!("\nCalls on pipes:\n{table}\n"));
        }
    }
    let mut processes: Vec<(usize, &RecordedProcess)> = recording.processes.iter().enumerate().collect();
    processes.retain(|(at, process)| matters(recording, *at, process));
    let further_processes = shorten(&mut processes, |(_, process)| process.cpu_ns);
    text.push_str(&format!("\nProcesses, in percent of {} s:\n", number(seconds)));
    text.push_str(&process_table(recording, &processes, &labels(recording, &all, &times), style));
    text.push('\n');
    text.push_str(&further(further_processes, "process"));
    if let Some(trials) = &recording.trials {
        text.push_str(&format!(
            "\nTried, medians of {}:\n",
            counted_noun(trials.unchanged.seconds.len() as u64, "run")
        ));
        text.push_str(&trial_table(trials, style));
        text.push('\n');
    }
    if let Some(sampled) = &recording.samples {
        text.push_str(&samples(sampled, &labels(recording, &all, &times), style));
    }
    if let Some(counted) = &recording.instructions {
        text.push_str(&instructions(counted, style));
    }
    text.push_str(&limits(recording, style));
    if let Some(folder) = folder {
        let mut files = vec!["record.json", "timeline.svg"];
        files.extend((recording.level == RecordLevel::Stacks).then_some("off-cpu.svg"));
        files.extend(recording.samples.is_some().then_some("pipeline.sample.svg"));
        files.extend(recording.instructions.is_some().then_some("pipeline.insn.svg"));
        text.push_str(&paragraph("", &format!("Written to {}: {}", folder.display(), files.join(", ")), style));
    }
    text
}

/// What was recorded.
fn subject(recording: &Recording) -> String {
    match &recording.pids[..] {
        [] => recording.pipeline.text(),
        [pid] => format!("process {pid}"),
        pids => format!("processes {}", listed(pids.iter().map(u32::to_string))),
    }
}

/// The names of processes in tables: those of their stage, where they are the whole stage.
fn labels(recording: &Recording, stages: &[Vec<usize>], times: &[stages::StageTime]) -> Vec<String> {
    let label = |(at, process): (usize, &RecordedProcess)| {
        let own = stages.iter().zip(times).find(|(members, _)| members[..] == [at]);
        clean(own.map_or(&process.name, |(_, time)| &time.name))
    };
    recording.processes.iter().enumerate().map(label).collect()
}

/// Keep the rows with the largest values, in their order. Returns the number of rows left out.
fn shorten<T>(rows: &mut Vec<T>, value: impl Fn(&T) -> u64) -> usize {
    let mut values: Vec<u64> = rows.iter().map(&value).collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    let all = rows.len();
    if let Some(least) = values.get(ROWS - 1) {
        rows.retain(|row| value(row) >= *least);
        rows.truncate(ROWS);
    }
    all - rows.len()
}

fn further(left_out: usize, what: &str) -> String {
    match left_out {
        0 => String::new(),
        n => format!("{} more in record.json\n", counted_noun(n as u64, what).replace("processs", "processes")),
    }
}

/// Shells leave short-lived copies of themselves before they execute a program; these say nothing.
fn matters(recording: &Recording, at: usize, process: &RecordedProcess) -> bool {
    // A process at the other end of a pipe through which nothing went.
    if !recording.pids.is_empty() && process.stage as usize >= recording.pids.len() {
        let used = recording.pipes.iter().filter(|pipe| pipe.is_used());
        return used.flat_map(RecordedPipe::ends).any(|end| end.process == at);
    }
    let later = |other: &RecordedProcess| process.pids.iter().all(|pid| other.pids.contains(pid)) && other.execs > 0;
    let mut pipes = recording.pipes.iter().flat_map(RecordedPipe::ends);
    process.execs > 0
        || pipes.any(|end| end.process == at && end.all_calls() > 0)
        || !recording.processes.iter().enumerate().any(|(index, other)| index != at && later(other))
}

pub(super) fn column(heading: &str, dispensable: u8, cells: Vec<String>) -> Figures {
    Figures { heading: heading.to_owned(), cells, dispensable }
}

fn blocked(recording: &Recording, ends: &[RecordedEnd]) -> String {
    let sum: u64 = ends.iter().map(|end| end.blocked_ns).sum();
    percent((sum as f64 / recording.window_ns.max(1) as f64).min(1.0))
}

fn pipe_table(recording: &Recording, pipes: &[(String, &RecordedPipe)], style: Style) -> String {
    let names: Vec<String> = pipes.iter().map(|(name, _)| name.clone()).collect();
    let each =
        |cell: &dyn Fn(&RecordedPipe) -> String| -> Vec<String> { pipes.iter().map(|(_, pipe)| cell(pipe)).collect() };
    let seconds = recording.window_ns.max(1) as f64 / 1e9;
    let mut figures = vec![
        column("MiB", 0, each(&|pipe| number(pipe.bytes() as f64 / MIB))),
        column("MiB/s", 1, each(&|pipe| number(pipe.bytes() as f64 / MIB / seconds))),
        column("full", 0, each(&|pipe| blocked(recording, &pipe.writers))),
        column("empty", 0, each(&|pipe| blocked(recording, &pipe.readers))),
        column(
            "slots in use",
            2,
            each(&|pipe| pipe.mean_filled.map_or("-".to_owned(), |filled| format!("{filled:.1}"))),
        ),
    ];
    if recording.executed_on == ExecutedOn::Tcg {
        // The speed of an emulator says nothing.
        figures.retain(|column| column.heading != "MiB/s");
    }
    if recording.level == RecordLevel::Sched {
        figures.retain(|column| ["full", "empty"].contains(&column.heading.as_str()));
    }
    let capacity = each(&|pipe| {
        pipe.slots.map_or_else(String::new, |[first, last, least]| {
            let kib = |slots: u64| size::format(slots * 4096);
            let mut text = kib(last);
            if first != last {
                text.push_str(&format!(", first {}", kib(first)));
            }
            if least < first.min(last) {
                text.push_str(&format!(", least {}", kib(least)));
            }
            text
        })
    });
    fitted(None, ("pipe", &names), &figures, ("capacity", &capacity), style)
}

fn call_table(pipes: &[(String, &RecordedPipe)], labels: &[String], style: Style) -> String {
    let (mut names, mut users) = (Vec::new(), Vec::new());
    let mut ends: Vec<&RecordedEnd> = Vec::new();
    for (name, pipe) in pipes {
        for (sides, does) in [(&pipe.writers, "writes"), (&pipe.readers, "reads")] {
            for end in sides.iter().filter(|end| end.all_calls() + end.sleeps > 0) {
                names.push(name.clone());
                users.push(format!("{} {does}", labels[end.process]));
                ends.push(end);
            }
        }
    }
    names.truncate(2 * ROWS);
    users.truncate(2 * ROWS);
    ends.truncate(2 * ROWS);
    let each = |cell: &dyn Fn(&RecordedEnd) -> String| -> Vec<String> { ends.iter().map(|end| cell(end)).collect() };
    let per_mib = |count: u64, end: &RecordedEnd| match end.bytes {
        0 => "-".to_owned(),
        bytes => number(count as f64 * MIB / bytes as f64),
    };
    let kinds = |end: &RecordedEnd| end.calls.keys().cloned().collect::<Vec<_>>().join("+");
    let mut figures = vec![
        column("process", 0, users),
        column("call", 0, each(&kinds)),
        column("calls", 0, each(&|end| grouped(end.all_calls()))),
        column("short", 3, each(&|end| grouped(end.short))),
        column("EAGAIN", 4, each(&|end| grouped(end.eagain))),
        column("sleeps", 1, each(&|end| grouped(end.sleeps))),
        column("wake-ups/MiB", 2, each(&|end| per_mib(end.wakes, end))),
        column("needless", 5, each(&|end| grouped(end.needless))),
    ];
    // Columns of zeros say nothing.
    figures.retain(|column| {
        !["short", "EAGAIN", "needless"].contains(&column.heading.as_str())
            || column.cells.iter().any(|cell| cell != "0")
    });
    fitted(None, ("pipe", &names), &figures, ("bytes per call", &each(&sizes)), style)
}

/// `64K 98 %, 4K 2 %`: the most frequent sizes, each the lower end of its power of two.
fn sizes(end: &RecordedEnd) -> String {
    let all: u64 = end.log2_sizes.iter().sum();
    let mut counts: Vec<(usize, u64)> =
        end.log2_sizes.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named = counts.into_iter().take(NAMED_SIZES);
    named
        .map(|(bucket, count)| format!("{} {}", size::format(1 << bucket), percent(count as f64 / all as f64)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn process_table(
    recording: &Recording,
    processes: &[(usize, &RecordedProcess)],
    labels: &[String],
    style: Style,
) -> String {
    let window = recording.window_ns.max(1) as f64;
    let names: Vec<String> = processes
        .iter()
        .map(|(at, process)| {
            let many = process.pids.len();
            let name = labels[*at].clone();
            let mut notes = Vec::new();
            if many > 1 {
                notes.push(format!("{many} processes"));
            }
            // An exec begins the count of its process's threads anew.
            if process.threads > process.execs.max(many as u64) {
                notes.push(counted_noun(process.threads, "thread"));
            }
            if notes.is_empty() { name } else { format!("{name} ({})", notes.join(", ")) }
        })
        .collect();
    let each = |cell: &dyn Fn(usize, &RecordedProcess) -> String| -> Vec<String> {
        processes.iter().map(|(at, process)| cell(*at, process)).collect()
    };
    let at_pipes = |at: usize, readers: bool| {
        let ends = recording.pipes.iter().flat_map(|pipe| if readers { &pipe.readers } else { &pipe.writers });
        let sum: u64 = ends.filter(|end| end.process == at).map(|end| end.blocked_ns).sum();
        percent(sum as f64 / window)
    };
    let figures = [
        column("on CPU", 0, each(&|_, process| percent(process.cpu_ns as f64 / window))),
        column(
            "user",
            2,
            each(&|_, process| {
                process.user_share.map_or("-".to_owned(), |user| percent(user * process.cpu_ns as f64 / window))
            }),
        ),
        column("no CPU", 1, each(&|_, process| percent(process.runnable_ns as f64 / window))),
        column("pipe full", 0, each(&|at, _| at_pipes(at, false))),
        column("pipe empty", 0, each(&|at, _| at_pipes(at, true))),
        column("calls", 3, each(&|_, process| grouped(process.calls))),
    ];
    let shown = if recording.level == RecordLevel::Sched { figures.len() - 1 } else { figures.len() };
    let others = each(&|at, process| other_waits(recording, at, process));
    fitted(None, ("process", &names), &figures[..shown], ("other waits", &others), style)
}

/// `timer 97 %, files 1 %`.
fn other_waits(recording: &Recording, at: usize, process: &RecordedProcess) -> String {
    let window = recording.window_ns.max(1) as f64;
    let mut waits: Vec<(u64, &str)> = process.waits.iter().map(|(reason, total)| (total.ns, reason.title())).collect();
    let ends = recording.pipes.iter().flat_map(RecordedPipe::ends);
    waits.push((ends.filter(|end| end.process == at).map(|end| end.lock_ns).sum(), "pipe lock"));
    waits.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let named = waits.into_iter().filter(|(ns, _)| *ns as f64 >= 0.005 * window);
    named.map(|(ns, what)| format!("{what} {}", percent(ns as f64 / window))).collect::<Vec<_>>().join(", ")
}

fn trial_table(trials: &Trials, style: Style) -> String {
    let rows: Vec<(&str, &TrialRuns, Option<&Trial>)> = std::iter::once(("as it is", &trials.unchanged, None))
        .chain(trials.tried.iter().map(|trial| (&trial.change[..], &trial.runs, Some(trial))))
        .collect();
    let names: Vec<String> = rows.iter().map(|(name, ..)| clean(name)).collect();
    let median = |values: &[f64]| stats::median(values).map_or("-".to_owned(), |value| format!("{} s", number(value)));
    let change = |trial: Option<&Trial>| {
        trial.and_then(|trial| trial.ratio).map_or("-".to_owned(), |ratio| format!("{:+.1} %", 100.0 * (ratio - 1.0)))
    };
    let figures = [
        column("time", 0, rows.iter().map(|(_, runs, _)| median(&runs.seconds)).collect()),
        column("change", 0, rows.iter().map(|(.., trial)| change(*trial)).collect()),
        column("CPU time", 1, rows.iter().map(|(_, runs, _)| median(&runs.cpu_seconds)).collect()),
    ];
    let verdict = |trial: &Trial| match trial.verdict {
        TrialVerdict::Faster => "faster",
        TrialVerdict::Slower => "slower",
        TrialVerdict::Same => "same",
        TrialVerdict::Unclear => "not clear",
        TrialVerdict::Failed => "failed",
    };
    let verdicts: Vec<String> = rows.iter().map(|(.., trial)| trial.map_or("", verdict).to_owned()).collect();
    fitted(None, ("tried", &names), &figures, ("", &verdicts), style)
}

/// The roles of each process with enough samples.
fn samples(sampled: &RecordedSamples, labels: &[String], style: Style) -> String {
    let mut shown: Vec<&ProcessSamples> =
        sampled.processes.iter().filter(|process| process.samples >= FEW_SAMPLES).collect();
    shown.sort_by_key(|process| std::cmp::Reverse(process.samples));
    shown.truncate(SAMPLED);
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
    let mut text = String::from("\nLimits:\n");
    let calls: u64 = recording.processes.iter().map(|process| process.calls).sum();
    let preemptions: u64 = recording.processes.iter().map(|process| process.preemptions).sum();
    let ends = || recording.pipes.iter().flat_map(RecordedPipe::ends);
    let sleeps = ends().map(|end| end.sleeps + end.lock_sleeps).sum::<u64>()
        + recording.processes.iter().flat_map(|process| process.waits.values()).map(|wait| wait.count).sum::<u64>();
    let calls = match recording.level {
        RecordLevel::Sched => "no system calls (--level sched)".to_owned(),
        RecordLevel::Calls | RecordLevel::Stacks => counted_noun(calls, "system call"),
    };
    let seen = format!(
        "recorded {calls}, {} and {}; recording them costs time (see docs/record.md)",
        counted_noun(sleeps, "sleep"),
        counted_noun(preemptions, "preemption")
    );
    text.push_str(&paragraph("  ", &seen, style));
    if recording.executed_on == ExecutedOn::Tcg {
        let one = "an emulator executed the guest: one nanosecond of its clock is one instruction, so shares of time are \
                   shares of instructions, and caches and disks take no time";
        let turns = match recording.environment.cpus {
            ..=1 => "; on its one CPU, stages run in turn",
            _ => "; its CPUs take turns, and waiting for one's turn is waiting for a CPU",
        };
        text.push_str(&paragraph("  ", &format!("{one}{turns}"), style));
    }
    let sampled = recording.samples.as_ref().map(|sampled| &sampled.collector);
    let counted = recording.instructions.as_ref().map(|counted| &counted.collector);
    for collector in sampled.into_iter().chain(counted) {
        let notes = collector.reason.iter().chain(&collector.notes);
        notes.for_each(|note| text.push_str(&paragraph("  ", note, style)));
    }
    for warning in &recording.warnings {
        text.push_str(&paragraph("  warning: ", &format!("{}: {}", warning.message, warning.action), style));
    }
    text
}

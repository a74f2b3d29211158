//! The tables of a recording: pipes, calls, processes, waits for locks, and trials. [`super::text`] and [`super::html`] show them.

use super::answer::percent;
use super::collect::RecordLevel;
use super::model::{
    LockWait, RecordedEnd, RecordedPipe, RecordedProcess, Recording, Trial, TrialRuns, TrialVerdict, Trials,
};
use super::names::labels;
use super::pipe_rows::{self, PipeRow};
use crate::document::ExecutedOn;
use crate::report::number::number;
use crate::report::terminal::Style;
use crate::report::terminal::table::{Figures, fitted};
use crate::util::size;
use crate::util::stats;
use crate::util::text::{clean, counted as counted_noun, grouped, signed};
use std::collections::{BTreeSet, HashSet};

/// Rows of a table. record.json has all.
pub(super) const ROWS: usize = 20;

/// Rows of the table of calls: a pipe has two sides.
const CALL_ROWS: usize = 2 * ROWS;

/// Sizes of calls that are named: the most frequent ones.
const NAMED_SIZES: usize = 3;

const MIB: f64 = (1 << 20) as f64;

/// A table of names, figures, and text in the last column.
pub(super) struct RecordTable {
    pub title: String,
    /// Heading and cells.
    pub first: (&'static str, Vec<String>),
    pub figures: Vec<Figures>,
    pub last: (&'static str, Vec<String>),
    /// How many rows were left out, as a line; empty if none.
    pub further: String,
}

impl RecordTable {
    /// For a terminal.
    pub(super) fn text(&self, style: Style) -> String {
        fitted(None, (self.first.0, &self.first.1), &self.figures, (self.last.0, &self.last.1), style)
    }
}

/// All tables of `recording`.
pub(super) fn all(recording: &Recording) -> Vec<RecordTable> {
    if recording.imported.is_some() {
        return Vec::new();
    }
    let labels = labels(recording);
    let mut pipes = pipe_rows::rows(recording);
    let count = |rows: &[PipeRow<'_>]| rows.iter().map(|row| row.pipes.len()).sum::<usize>();
    let all = count(&pipes);
    shorten(&mut pipes, PipeRow::bytes);
    let left_out = all - count(&pipes);
    let mut tables = Vec::new();
    if !pipes.is_empty() {
        tables.push(pipe_table(recording, &pipes, left_out));
        if recording.level != RecordLevel::Sched {
            tables.push(call_table(&pipes, &labels));
        }
    }
    let mut processes = telling(recording);
    let left_out = shorten(&mut processes, |(_, process)| process.cpu_ns);
    tables.push(process_table(recording, &processes, &labels, left_out));
    tables.extend(recording.lock_waits.as_ref().filter(|waits| !waits.is_empty()).map(|waits| {
        let (shown, others) = waits.split_at(waits.len().min(ROWS));
        lock_table(recording, shown, &labels, others.len())
    }));
    tables.extend(recording.trials.as_ref().map(trial_table));
    tables
}

/// Keep the rows with the largest values, and of equal ones the first, in their order. Returns the number of rows left
/// out.
fn shorten<T>(rows: &mut Vec<T>, value: impl Fn(&T) -> u64) -> usize {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(value(&rows[*at])));
    let left_out: BTreeSet<usize> = order.into_iter().skip(ROWS).collect();
    let mut at = 0..;
    rows.retain(|_| at.next().is_none_or(|at| !left_out.contains(&at)));
    left_out.len()
}

pub(super) fn further(left_out: usize, what: &str) -> String {
    match left_out {
        0 => String::new(),
        n => format!("{} more in record.json\n", counted_noun(n as u64, what).replace("processs", "processes")),
    }
}

/// The processes that say something, in their order. Shells leave short-lived copies of themselves before they execute a
/// program.
fn telling(recording: &Recording) -> Vec<(usize, &RecordedProcess)> {
    let users = |used: fn(&RecordedEnd) -> bool| -> HashSet<usize> {
        let pipes = recording.pipes.iter().filter(|pipe| pipe.is_used()).flat_map(RecordedPipe::ends);
        pipes.filter(|end| used(end)).map(|end| end.process).collect()
    };
    let (with_pipe, calling) = (users(|_| true), users(|end| end.all_calls() > 0));
    let executed = recording.processes.iter().filter(|process| process.execs > 0);
    let executed: HashSet<u32> = executed.flat_map(|process| process.pids.iter().copied()).collect();
    let tells = |at: usize, process: &RecordedProcess| {
        // A process at the other end of a pipe through which nothing went.
        if !recording.pids.is_empty() && process.stage as usize >= recording.pids.len() {
            return with_pipe.contains(&at);
        }
        let became = !process.pids.is_empty() && process.pids.iter().all(|pid| executed.contains(pid));
        process.execs > 0 || calling.contains(&at) || !became
    };
    recording.processes.iter().enumerate().filter(|(at, process)| tells(*at, process)).collect()
}

pub(super) fn column(heading: &str, dispensable: u8, cells: Vec<String>) -> Figures {
    Figures { heading: heading.to_owned(), cells, dispensable }
}

fn pipe_table(recording: &Recording, pipes: &[PipeRow<'_>], left_out: usize) -> RecordTable {
    let names: Vec<String> = pipes.iter().map(|row| row.name.clone()).collect();
    let each = |cell: &dyn Fn(&PipeRow<'_>) -> String| -> Vec<String> { pipes.iter().map(cell).collect() };
    let blocked = |row: &PipeRow<'_>, readers: bool| {
        percent((row.blocked_ns(readers) as f64 / recording.window_ns.max(1) as f64).min(1.0))
    };
    let seconds = recording.window_ns.max(1) as f64 / 1e9;
    let mut figures = vec![
        column("MiB", 0, each(&|row| number(row.bytes() as f64 / MIB))),
        column("MiB/s", 1, each(&|row| number(row.bytes() as f64 / MIB / seconds))),
        column("full", 0, each(&|row| blocked(row, false))),
        column("empty", 0, each(&|row| blocked(row, true))),
        column(
            "slots in use",
            2,
            each(&|row| row.mean_filled().map_or("-".to_owned(), |filled| format!("{filled:.1}"))),
        ),
    ];
    if recording.executed_on == ExecutedOn::Tcg {
        // The speed of an emulator says nothing.
        figures.retain(|column| column.heading != "MiB/s");
    }
    if recording.level == RecordLevel::Sched {
        figures.retain(|column| ["full", "empty"].contains(&column.heading.as_str()));
    }
    let capacity = each(&|row| {
        row.slots().map_or_else(String::new, |[first, last, least]| {
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
    RecordTable {
        title: "Pipes".to_owned(),
        first: ("pipe", names),
        figures,
        last: ("capacity", capacity),
        further: further(left_out, "pipe"),
    }
}

fn call_table(pipes: &[PipeRow<'_>], labels: &[String]) -> RecordTable {
    let (mut names, mut users) = (Vec::new(), Vec::new());
    let mut ends: Vec<RecordedEnd> = Vec::new();
    for row in pipes {
        for (readers, does) in [(false, "writes"), (true, "reads")] {
            for end in row.ends(readers).into_iter().filter(|end| end.all_calls() + end.sleeps > 0) {
                names.push(row.name.clone());
                users.push(format!("{} {does}", labels[end.process]));
                ends.push(end);
            }
        }
    }
    let left_out = ends.len().saturating_sub(CALL_ROWS);
    names.truncate(CALL_ROWS);
    users.truncate(CALL_ROWS);
    ends.truncate(CALL_ROWS);
    let each = |cell: &dyn Fn(&RecordedEnd) -> String| -> Vec<String> { ends.iter().map(cell).collect() };
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
    RecordTable {
        title: "Calls on pipes".to_owned(),
        last: ("bytes per call", each(&sizes)),
        first: ("pipe", names),
        figures,
        further: further(left_out, "row"),
    }
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
    left_out: usize,
) -> RecordTable {
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
    let mut figures = vec![
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
    figures.truncate(if recording.level == RecordLevel::Sched { figures.len() - 1 } else { figures.len() });
    RecordTable {
        title: format!("Processes, in percent of {} s", number(window / 1e9)),
        last: ("other waits", each(&|at, process| other_waits(recording, at, process))),
        first: ("process", names),
        figures,
        further: further(left_out, "process"),
    }
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

fn lock_table(recording: &Recording, waits: &[LockWait], labels: &[String], left_out: usize) -> RecordTable {
    let window = recording.window_ns.max(1) as f64;
    let each = |cell: &dyn Fn(&LockWait) -> String| -> Vec<String> { waits.iter().map(cell).collect() };
    RecordTable {
        title: "Waits for locks of the kernel, spinning and asleep".to_owned(),
        first: ("process", each(&|wait| labels[wait.process].clone())),
        figures: vec![
            column("waits", 0, each(&|wait| grouped(wait.count))),
            column("time", 0, each(&|wait| percent(wait.ns as f64 / window))),
            column("µs each", 1, each(&|wait| number(wait.ns as f64 / 1e3 / wait.count.max(1) as f64))),
        ],
        last: ("wanted by", each(&|wait| clean(&wait.caller))),
        further: further(left_out, "row"),
    }
}

fn trial_table(trials: &Trials) -> RecordTable {
    let rows: Vec<(&str, &TrialRuns, Option<&Trial>)> = std::iter::once(("as it is", &trials.unchanged, None))
        .chain(trials.tried.iter().map(|trial| (&trial.change[..], &trial.runs, Some(trial))))
        .collect();
    let names: Vec<String> = rows.iter().map(|(name, ..)| clean(name)).collect();
    let median = |values: &[f64]| stats::median(values).map_or("-".to_owned(), |value| format!("{} s", number(value)));
    let change = |trial: Option<&Trial>| {
        trial
            .and_then(|trial| trial.ratio)
            .map_or("-".to_owned(), |ratio| format!("{} %", signed(100.0 * (ratio - 1.0))))
    };
    let figures = vec![
        column("time", 0, rows.iter().map(|(_, runs, _)| median(&runs.seconds)).collect()),
        column("change", 0, rows.iter().map(|(.., trial)| change(*trial)).collect()),
        column("CPU time", 1, rows.iter().map(|(_, runs, _)| median(&runs.cpu_seconds)).collect()),
    ];
    let verdict = |trial: &Trial| match trial.verdict {
        TrialVerdict::Faster => "faster",
        TrialVerdict::Slower => "slower",
        TrialVerdict::Same => "same",
        TrialVerdict::Undecided => "undecided",
        TrialVerdict::Failed => "failed",
    };
    let verdicts: Vec<String> = rows.iter().map(|(.., trial)| trial.map_or("", verdict).to_owned()).collect();
    RecordTable {
        title: format!("Tried, medians of {}", counted_noun(trials.unchanged.seconds.len() as u64, "run")),
        first: ("tried", names),
        figures,
        last: ("", verdicts),
        further: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_calls_that_are_left_out_are_counted() {
        let end = |process| RecordedEnd { process, calls: [("write".to_owned(), 1)].into(), ..RecordedEnd::default() };
        let recording = |count| Recording {
            processes: vec![RecordedProcess::default(); count],
            pipes: vec![RecordedPipe { writers: (0..count).map(end).collect(), ..RecordedPipe::default() }],
            ..Recording::default()
        };
        let calls = |count| all(&recording(count)).swap_remove(1);
        assert_eq!((calls(40).first.1.len(), calls(40).further), (40, String::new()));
        assert_eq!((calls(43).first.1.len(), &calls(43).further[..]), (40, "3 rows more in record.json\n"));
    }

    #[test]
    fn the_largest_rows_are_kept_in_their_order() {
        let mut few = vec![0, 0, 3];
        assert_eq!((shorten(&mut few, |row| *row), few.len()), (0, 3));
        let mut rows = vec![0; 2 * ROWS];
        rows[1] = 7;
        rows.extend([3, 5]);
        assert_eq!(shorten(&mut rows, |row| *row), ROWS + 2);
        assert_eq!((rows.len(), rows[1], &rows[ROWS - 2..]), (ROWS, 7, &[3, 5][..]));
    }
}

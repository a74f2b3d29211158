//! The tables of a recording: pipes, calls, processes, waits for locks, and trials. [`super::text`] shows them.

use crate::record::model::labels::labels;
use crate::record::say::pipe_rows::{self, PipeRow};
use crate::record::say::words;
use crate::report::block::ReportBlock;
use crate::report::number::{percent, time};
use crate::report::table::{Table, TableCell};
use crate::result::{
    CriticalPath, Document, ExecutedOn, LockWait, PathWhat, RecordLevel, RecordedChannel, RecordedEnd, RecordedProcess,
    Trial, TrialRuns, TrialVerdict, Trials,
};
use crate::util::size;
use crate::util::stats;
use crate::util::text::{counted, signed};
use std::collections::{BTreeSet, HashSet};

/// Rows of a table. result.json has all.
pub(crate) const ROWS: usize = 20;

/// Rows of the table of the path, and the smallest part that has one.
const PATH_ROWS: usize = 12;
const SMALLEST_PART: f64 = 0.005;

/// Rows of the table of calls: a pipe has two sides.
const CALL_ROWS: usize = 2 * ROWS;

/// Sizes of calls that are named: the most frequent ones.
const NAMED_SIZES: usize = 3;

const MIB: f64 = (1 << 20) as f64;

/// Fewer bytes than these are no MiB, and have no speed.
const FEW_BYTES: u64 = 10_000;

/// Of many processes, one with less than this part of the window is not shown.
const LEAST: f64 = 0.01;

/// All tables of `recording`.
pub(crate) fn all(recording: &Document) -> Vec<Table> {
    if recording.target.imported().is_some() {
        return Vec::new();
    }
    let labels = labels(recording);
    let mut pipes = pipe_rows::rows(recording);
    shorten(&mut pipes, PipeRow::bytes);
    let shown: usize = pipes.iter().map(|row| row.pipes.len()).sum();
    let left_out = pipe_rows::used(recording).count() - shown;
    let mut tables: Vec<Table> = recording.path.iter().map(|path| path_table(recording, path, &labels)).collect();
    let is_empty = pipes.is_empty();
    if !is_empty {
        tables.push(pipe_table(recording, &pipes).note(further(left_out, "pipe")));
        if recording.level != RecordLevel::Sched {
            tables.push(call_table(&pipes, &labels));
        }
    }
    let mut processes = telling(recording);
    let all = processes.len();
    if all > pipe_rows::MANY {
        let matters = those_that_matter(recording);
        processes.retain(|(at, _)| matters.contains(at));
    }
    shorten(&mut processes, |(_, process)| process.cpu_ns);
    let more = further(all - processes.len(), "process");
    let table = process_table(recording, &processes, &labels).note(more);
    tables.push(if is_empty { table.note(further(left_out, "pipe")) } else { table });
    if let Some(waits) = recording.lock_waits.as_ref().filter(|waits| !waits.is_empty()) {
        let (shown, others) = waits.split_at(waits.len().min(ROWS));
        tables.push(lock_table(recording, shown, &labels).note(further(others.len(), "row")));
    }
    tables.extend(recording.trials.as_ref().map(trial_table));
    tables
}

/// One channel: what is known of it, and the calls there with their sizes.
pub(crate) fn of_channel(recording: &Document, row: &PipeRow<'_>, labels: &[String]) -> Vec<ReportBlock> {
    let rows = std::slice::from_ref(row);
    let calls = (recording.level != RecordLevel::Sched).then(|| call_table(rows, labels));
    [pipe_table(recording, rows)].into_iter().chain(calls).map(ReportBlock::Table).collect()
}

/// One process: its command line, what it did, and its waits.
pub(crate) fn of_process(
    recording: &Document,
    (at, process): (usize, &RecordedProcess),
    labels: &[String],
) -> Vec<ReportBlock> {
    let line = if process.args.is_empty() { process.name.clone() } else { process.args.join(" ") };
    let pids: Vec<String> = process.pids.iter().take(ROWS).map(u32::to_string).collect();
    let items = vec![format!("command: {line}"), format!("process id: {}", pids.join(", "))];
    let table = process_table(recording, &[(at, process)], labels);
    vec![ReportBlock::Items(items), ReportBlock::Table(table)]
}

/// A line about rows that a table does not have; empty if it has all.
pub(crate) fn further(left_out: usize, what: &str) -> String {
    if left_out == 0 { String::new() } else { format!("{} more in result.json", counted(left_out as u64, what)) }
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

/// The processes that say something, in their order. Shells leave short-lived copies of themselves before they execute a
/// program.
pub(crate) fn telling(recording: &Document) -> Vec<(usize, &RecordedProcess)> {
    let users = |used: fn(&RecordedEnd) -> bool| -> HashSet<usize> {
        let pipes = recording.channels.iter().filter(|pipe| pipe.is_used()).flat_map(RecordedChannel::ends);
        pipes.filter(|end| used(end)).map(|end| end.process).collect()
    };
    let (with_pipe, calling) = (users(|_| true), users(|end| end.all_calls() > 0));
    let executed = recording.recorded.iter().filter(|process| process.execs > 0);
    let executed: HashSet<u32> = executed.flat_map(|process| process.pids.iter().copied()).collect();
    let tells = |at: usize, process: &RecordedProcess| {
        // A process at the other end of a pipe through which nothing went.
        if !recording.target.pids().is_empty() && process.stage as usize >= recording.target.pids().len() {
            return with_pipe.contains(&at);
        }
        let became = !process.pids.is_empty() && process.pids.iter().all(|pid| executed.contains(pid));
        let works = process.cpu_ns as f64 >= LEAST * recording.processes.window_ns as f64 && process.cpu_ns > 0;
        process.execs > 0 || calling.contains(&at) || !became || works && !process.is_shell()
    };
    recording.recorded.iter().enumerate().filter(|(at, process)| tells(*at, process)).collect()
}

/// Of many processes, those that took a part of the window, or that a finding is about: a shell that looks for the real program
/// starts dozens of others.
fn those_that_matter(recording: &Document) -> BTreeSet<usize> {
    let is_much = |ns: u64| ns as f64 >= LEAST * recording.processes.window_ns as f64;
    let ends = recording.channels.iter().flat_map(RecordedChannel::ends).filter(|end| is_much(end.blocked_ns));
    let most = |process: &RecordedProcess| {
        let waits = process.waits.values().map(|wait| wait.ns);
        waits.chain([process.cpu_ns, process.runnable_ns]).max().unwrap_or(0)
    };
    let busy = recording.recorded.iter().enumerate().filter(|(_, process)| is_much(most(process))).map(|(at, _)| at);
    let named = recording.findings.iter().flat_map(|finding| finding.processes.iter().copied());
    ends.map(|end| end.process).chain(busy).chain(named).collect()
}

/// What the time was made of.
fn path_table(recording: &Document, path: &CriticalPath, labels: &[String]) -> Table {
    let window = recording.processes.window_ns.max(1) as f64;
    let mut rows: Vec<(String, u64, String)> = Vec::new();
    let (small, sums): (Vec<_>, Vec<_>) =
        words::sums(path).into_iter().partition(|(kind, _)| kind.1 == PathWhat::Others);
    for (kind, ns) in sums {
        rows.push((words::described(recording, labels, &kind, false), ns, words::cpu_users(path, &kind)));
    }
    let named =
        rows.iter().take(PATH_ROWS).take_while(|(_, ns, _)| *ns as f64 >= SMALLEST_PART * window).count().max(1);
    let rest = rows.split_off(named.min(rows.len()));
    let sum = rest.iter().map(|(_, ns, _)| ns).chain(small.iter().map(|(_, ns)| ns)).sum();
    let name = if small.is_empty() {
        format!("{} more", counted(rest.len() as u64, "part"))
    } else {
        "small parts".to_owned()
    };
    if rest.len() + small.len() > 0 {
        rows.push((name, sum, String::new()));
    }
    let only_looked = recording.looks.filter(|looks| looks.events.is_none());
    let margin = |share: f64| only_looked.map(|looks| TableCell::figure(percent(looks.margin(share))));
    Table::of(format!("Critical path: what the {} were", time(window / 1e9)), &rows)
        .column("part", |(part, ..)| &part[..])
        .column("time", |(_, ns, _)| TableCell::figure(time(*ns as f64 / 1e9)))
        .column("share", |(_, ns, _)| TableCell::Share(*ns as f64 / window))
        .when(only_looked.is_some(), |table| table.column("±", |(_, ns, _)| margin(*ns as f64 / window)))
        // Looks do not see it.
        .when(recording.looks.is_none(), |table| table.column("CPU used by", |(.., users)| &users[..]))
        .done()
}

fn pipe_table(recording: &Document, pipes: &[PipeRow<'_>]) -> Table {
    let window = recording.processes.window_ns.max(1) as f64;
    let blocked =
        |row: &PipeRow<'_>, readers: bool| TableCell::Share((row.blocked_ns(readers) as f64 / window).min(1.0));
    let mib = |row: &PipeRow<'_>| match row.bytes() {
        0 => TableCell::from(0.0),
        few if few < FEW_BYTES => TableCell::figure(counted(few, "byte")),
        many => TableCell::from(many as f64 / MIB),
    };
    let speed = |row: &PipeRow<'_>| (row.bytes() >= FEW_BYTES).then(|| row.bytes() as f64 / MIB * 1e9 / window);
    let capacity = |row: &PipeRow<'_>| {
        let Some([first, last, least]) = row.capacity() else { return String::new() };
        if !row.are_pipes() {
            // The kernel changes it all the time, and the two ends of a connection have one each.
            return size::rough(first.max(last));
        }
        let others = [(first != last, "first", first), (least < first.min(last), "least", least)];
        let others = others.into_iter().filter(|(differs, ..)| *differs);
        let others = others.map(|(_, which, bytes)| format!(", {which} {}", size::format(bytes)));
        size::format(last) + &others.collect::<String>()
    };
    let only_pipes = pipes.iter().all(PipeRow::are_pipes);
    let [title, one, in_use] =
        if only_pipes { ["Pipes", "pipe", "slots in use"] } else { ["Channels", "channel", "in use"] };
    let filled = |row: &PipeRow<'_>| match row.mean_filled(recording.processes.window_ns)? {
        bytes if !row.are_pipes() => Some(TableCell::figure(size::rough(bytes as u64))),
        slots if only_pipes => Some(TableCell::figure(format!("{slots:.1}"))),
        slots => Some(TableCell::figure(format!("{slots:.1} slots"))),
    };
    let by_calls = recording.level != RecordLevel::Sched;
    // The speed of an emulator says nothing.
    let timed = by_calls && recording.executed_on != ExecutedOn::Tcg;
    Table::of(title, pipes)
        .column(one, |row| &row.name[..])
        .when(by_calls, |table| table.column("MiB", |row| mib(row)))
        .when(timed, |table| table.less(1, "MiB/s", |row| speed(row)))
        .column("full", |row| blocked(row, false))
        .column("empty", |row| blocked(row, true))
        .when(by_calls, |table| table.less(2, in_use, |row| filled(row)))
        .when(recording.looks.is_none(), |table| table.column("capacity", |row| capacity(row)))
        .done()
}

fn call_table(pipes: &[PipeRow<'_>], labels: &[String]) -> Table {
    let mut rows: Vec<(&str, String, RecordedEnd)> = Vec::new();
    for row in pipes {
        for (readers, does) in [(false, "writes"), (true, "reads")] {
            let ends = row.ends(readers).into_iter().filter(|end| end.all_calls() + end.sleeps > 0);
            rows.extend(ends.map(|end| (&row.name[..], format!("{} {does}", labels[end.process]), end)));
        }
    }
    let left_out = rows.len().saturating_sub(CALL_ROWS);
    rows.truncate(CALL_ROWS);
    let per_mib = |end: &RecordedEnd| (end.bytes >= FEW_BYTES).then(|| end.wakes as f64 * MIB / end.bytes as f64);
    let [title, one] = if pipes.iter().all(PipeRow::are_pipes) {
        ["Calls on pipes", "pipe"]
    } else {
        ["Calls on channels", "channel"]
    };
    Table::of(title, &rows)
        .column(one, |(name, ..)| *name)
        .column("process", |(_, user, _)| &user[..])
        .column("call", |(.., end)| {
            let calls = end.calls.keys().cloned().collect::<Vec<_>>().join("+");
            (!calls.is_empty()).then_some(calls)
        })
        .column("calls", |(.., end)| end.all_calls())
        .if_any(3, "short", |(.., end)| end.short)
        .if_any(4, "EAGAIN", |(.., end)| end.eagain)
        .if_any(4, "failed", |(.., end)| end.epipe + end.errors)
        .less(1, "sleeps", |(.., end)| end.sleeps)
        .less(2, "wake-ups/MiB", |(.., end)| per_mib(end))
        .if_any(5, "needless", |(.., end)| end.needless)
        .column("bytes per call", |(.., end)| sizes(end))
        .done()
        .note(further(left_out, "row"))
}

/// `64K 98 %, 4K 2 %`: the most frequent sizes, each the lower end of its power of two; the mean if all are in one of these.
fn sizes(end: &RecordedEnd) -> String {
    let all: u64 = end.log2_sizes.iter().sum();
    let mut counts: Vec<(usize, u64)> =
        end.log2_sizes.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
    if let [(bucket, count)] = counts[..]
        && (end.bytes / count) >> bucket == 1
    {
        return format!("{} {}", size::format(end.bytes / count), percent(1.0));
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named = counts.into_iter().take(NAMED_SIZES);
    named
        .map(|(bucket, count)| format!("{} {}", size::format(1 << bucket), percent(count as f64 / all as f64)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The most memory of a process, bytes, from which on it is worth a column.
const MUCH_MEMORY: u64 = 100 << 20;

fn process_table(recording: &Document, processes: &[(usize, &RecordedProcess)], labels: &[String]) -> Table {
    let window = recording.processes.window_ns.max(1) as f64;
    let share = |ns: u64| TableCell::Share(ns as f64 / window);
    let name = |at: usize, process: &RecordedProcess| {
        let many = process.pids.len() as u64;
        // A shell makes copies of itself that execute another program: such a process is counted there.
        let own = many.saturating_sub(process.moved_on.len() as u64);
        let shown = if own == 0 { many } else { own };
        let mut notes = Vec::new();
        notes.extend((shown > 1).then(|| counted(shown, "process")));
        notes.extend((process.has_threads() && !process.is_shell()).then(|| counted(process.threads, "thread")));
        let name = labels[at].clone();
        if notes.is_empty() { name } else { format!("{name} ({})", notes.join(", ")) }
    };
    let at_pipes = |at: usize, readers: bool| {
        let ends = recording.channels.iter().flat_map(|pipe| if readers { &pipe.readers } else { &pipe.writers });
        share(ends.filter(|end| end.process == at).map(|end| end.blocked_ns).sum())
    };
    let user = |process: &RecordedProcess| process.user_share.map(|user| user * process.cpu_ns as f64 / window);
    Table::of(format!("Processes, in percent of {}", time(window / 1e9)), processes)
        .column("process", |(at, process)| name(*at, process))
        .column("on CPU", |(_, process)| share(process.cpu_ns))
        .less(2, "user", |(_, process)| user(process).map(TableCell::Share))
        .less(1, "runnable", |(_, process)| share(process.runnable_ns))
        .column("pipe full", |(at, _)| at_pipes(*at, false))
        .column("pipe empty", |(at, _)| at_pipes(*at, true))
        .when(recording.level != RecordLevel::Sched, |table| table.less(3, "calls", |(_, process)| process.calls))
        .when(processes.iter().any(|(_, process)| process.peak_memory >= MUCH_MEMORY), |table| {
            table.less(3, "memory", |(_, process)| {
                (process.peak_memory > 0).then(|| TableCell::figure(size::rough(process.peak_memory)))
            })
        })
        .column("other waits", |(at, process)| other_waits(recording, *at, process))
        .done()
}

/// `timer 97 %, files 1 %`.
pub(crate) fn other_waits(recording: &Document, at: usize, process: &RecordedProcess) -> String {
    let window = recording.processes.window_ns.max(1) as f64;
    let mut waits: Vec<(u64, &str)> = process.waits.iter().map(|(reason, total)| (total.ns, reason.title())).collect();
    let ends = recording.channels.iter().flat_map(RecordedChannel::ends);
    waits.push((ends.filter(|end| end.process == at).map(|end| end.lock_ns).sum(), "pipe lock"));
    waits.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let named = waits.into_iter().filter(|(ns, _)| *ns as f64 >= 0.005 * window);
    named.map(|(ns, what)| format!("{what} {}", percent(ns as f64 / window))).collect::<Vec<_>>().join(", ")
}

fn lock_table(recording: &Document, waits: &[LockWait], labels: &[String]) -> Table {
    let window = recording.processes.window_ns.max(1) as f64;
    Table::of("Waits for locks of the kernel, spinning and asleep", waits)
        .column("process", |wait| &labels[wait.process][..])
        .column("waits", |wait| wait.count)
        .column("time", |wait| TableCell::Share(wait.ns as f64 / window))
        .less(1, "µs each", |wait| wait.ns as f64 / 1e3 / wait.count.max(1) as f64)
        .column("wanted by", |wait| TableCell::Name(wait.caller.clone()))
        .done()
}

fn trial_table(trials: &Trials) -> Table {
    let tried = trials.tried.iter().map(|trial| (&trial.change[..], &trial.runs, Some(trial)));
    let rows: Vec<(&str, &TrialRuns, Option<&Trial>)> =
        std::iter::once(("as it is", &trials.unchanged, None)).chain(tried).collect();
    let median = |values: &[f64]| stats::median(values).map(|value| TableCell::figure(time(value)));
    let change = |trial: &Trial| Some(TableCell::figure(format!("{} %", signed(100.0 * (trial.ratio? - 1.0)))));
    let verdict = |trial: &Trial| match trial.verdict {
        TrialVerdict::Faster => "faster",
        TrialVerdict::Slower => "slower",
        TrialVerdict::Same => "same",
        TrialVerdict::Undecided => "undecided",
        TrialVerdict::Failed => "failed",
    };
    let title = format!("Tried, medians of {}", counted(trials.unchanged.seconds.len() as u64, "run"));
    Table::of(title, rows)
        .column("tried", |(name, ..)| *name)
        .column("time", |(_, runs, _)| median(&runs.seconds))
        .column("change", |(.., trial)| trial.and_then(change))
        .less(1, "CPU time", |(_, runs, _)| median(&runs.cpu_seconds))
        .column("", |(.., trial)| trial.map_or_else(|| "".into(), |trial| TableCell::word(verdict(trial))))
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{PathPart, Processes};

    #[test]
    fn rows_of_calls_that_are_left_out_are_counted() {
        let end = |process| RecordedEnd { process, calls: [("write".to_owned(), 1)].into(), ..RecordedEnd::default() };
        let recording = |count| Document {
            recorded: vec![RecordedProcess::default(); count],
            channels: vec![RecordedChannel { writers: (0..count).map(end).collect(), ..RecordedChannel::default() }],
            ..Document::default()
        };
        let calls = |count| all(&recording(count)).swap_remove(1);
        assert_eq!((calls(40).len(), calls(40).notes), (40, Vec::new()));
        assert_eq!((calls(43).len(), &calls(43).notes[0][..]), (40, "3 rows more in result.json"));
    }

    #[test]
    fn small_parts_of_the_path_are_one_row() {
        let part = |process, what, ns| PathPart { process, what, ns, slices: vec![ns], by: None };
        let rows = |last: PathWhat| {
            let parts = vec![
                part(Some(0), PathWhat::OnCpu, 990),
                part(Some(1), PathWhat::OnCpu, 4),
                part(Some(1), PathWhat::ForCpu, 3),
                part(None, last, 3),
            ];
            let path = CriticalPath { parts, ..CriticalPath::default() };
            let processes = Processes { window_ns: 1000, ..Processes::default() };
            let recorded = vec![RecordedProcess { name: "a".to_owned(), ..RecordedProcess::default() }; 2];
            let recording = Document { processes, recorded, ..Document::default() };
            path_table(&recording, &path, &["a".to_owned(), "b".to_owned()]).csv()
        };
        let text = rows(PathWhat::Others);
        assert!(text.contains("small parts") && !text.contains(" more"), "{text}");
        assert!(rows(PathWhat::Begin).contains("3 parts more"), "{}", rows(PathWhat::Begin));
    }

    #[test]
    fn a_process_that_executes_another_program_is_counted_once() {
        let process = |name: &str, execs, pids: &[u32]| RecordedProcess {
            name: name.to_owned(),
            execs,
            pids: pids.to_vec(),
            ..RecordedProcess::default()
        };
        let recording = Document {
            recorded: vec![
                RecordedProcess { moved_on: vec![2, 3, 4], ..process("sh", 1, &[1, 2, 3, 4]) },
                process("true", 3, &[2, 3, 4]),
            ],
            ..Document::default()
        };
        let text = all(&recording)[0].csv();
        assert!(text.contains("\ntrue (3 processes),") && text.contains("\nsh"), "{text}");
        assert!(!text.contains("sh ("), "{text}");
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

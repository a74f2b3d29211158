//! Work that is done one after the other, for nothing, or by too many processes.

use crate::record::model::forks::by_program;
use crate::record::say::findings::children::make;
use crate::record::say::findings::view::{FindingView, after};
use crate::report::number::percent;
use crate::result::{
    Finding, FindingKind, PathPart, PathWhat, RecordedChannel, RecordedEnd, RecordedProcess, WaitReason,
};
use crate::util::text::{clean, counted, grouped};
use std::collections::BTreeMap;

/// Fewer are no load.
const MANY: u64 = 100;

/// A longer life is not mostly start and end, ns.
const SHORT_NS: u64 = 50_000_000;

/// Of the window.
const MUCH: f64 = 0.3;

/// Descriptors that are closed for each process and were not open: more than programs have open.
const CLOSES: u64 = 500;

/// `` 500 processes were started, 250 of them `grep`, each for 3.10 ms in the mean: such short ones are 61 % of the
/// time. ``
pub(crate) fn started(view: &FindingView<'_>) -> Vec<Finding> {
    let recording = view.document;
    let is_short = |process: &&RecordedProcess| {
        let count = process.pids.len() as u64;
        count >= MANY / 2 && process.lived_ns / count.max(1) < SHORT_NS
    };
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    // A shell leaves copies of itself before they execute a program.
    let executed = |process: &&RecordedProcess| process.execs >= process.pids.len() as u64 / 2;
    for process in recording.recorded.iter().filter(is_short).filter(executed) {
        *names.entry(&process.name).or_default() += process.pids.len() as u64;
    }
    let forks: u64 = recording.recorded.iter().map(|process| process.forks).sum();
    let short = |at: usize| recording.recorded.get(at).is_some_and(|process| is_short(&process));
    let parts = recording.path.iter().flat_map(|path| &path.parts);
    // `sleep` sleeps.
    let sleeps = |part: &PathPart| part.what == PathWhat::Asleep { reason: WaitReason::Timer };
    let ns: u64 = parts.filter(|part| part.process.is_some_and(short) && !sleeps(part)).map(|part| part.ns).sum();
    let share = ns as f64 / recording.processes.window_ns.max(1) as f64;
    let Some((name, count)) = names.into_iter().max_by_key(|(_, count)| *count) else { return forked(view, ns) };
    // What each of them does before its program, such as to close all descriptors, has a sentence of its own.
    let closes = |process: &RecordedProcess| process.failed_closes > CLOSES * forks;
    if forks < MANY || share < MUCH || recording.recorded.iter().any(closes) {
        return Vec::new();
    }
    let processes =
        recording.recorded.iter().enumerate().filter(|(_, process)| is_short(process) && process.name == name);
    let processes: Vec<usize> = processes.map(|(at, _)| at).collect();
    // Who has started them, or what had started these.
    let above = processes.first().and_then(|of| view.with_starters(*of).find(|of| !short(*of)));
    let is_it = |at: &usize| view.is_one(*at) && recording.recorded.get(*at).is_some_and(|of| of.forks > 0);
    let by = above.filter(is_it).map_or_else(String::new, |at| format!(" by {}", view.name(at)));
    let text = format!(
        "{} processes were started{by} in {}, {} of them `{name}`: such short ones are {} of the time. One process that does all of \
         it starts once, and reads what it needs once.",
        grouped(forks),
        after(recording.processes.window_ns),
        grouped(count),
        percent(share)
    );
    let finding = Finding::new(FindingKind::Started, processes, text);
    vec![Finding { count: Some(count), of: Some(forks), ns: Some(ns), ..finding }]
}

/// `` `ruby pmap.rb` forked 6,000 copies of itself in 6.30 s, ... `` None of which executes a program. `ns`: of the path, what these take.
fn forked(view: &FindingView<'_>, ns: u64) -> Vec<Finding> {
    let all = &view.document.recorded;
    let Some((at, parent)) = all.iter().enumerate().max_by_key(|(_, process)| process.forks) else { return Vec::new() };
    let copies =
        all.iter().enumerate().filter(|(_, copy)| copy.execs == 0 && copy.name == parent.name && !copy.is_shell());
    let (copies, lived): (Vec<usize>, Vec<u64>) = copies.map(|(copy, of)| (copy, of.lived_ns)).unzip();
    let mean = lived.iter().sum::<u64>() / parent.forks.max(1);
    // To fork is work of the kernel, for who does it.
    let in_kernel = view.on_path(at, PathWhat::OnCpu) * (1.0 - parent.user_share.unwrap_or(1.0));
    let share = in_kernel + ns as f64 / view.window();
    if parent.forks < MANY || parent.threads > parent.forks || copies.is_empty() || mean > SHORT_NS || share < MUCH {
        return Vec::new();
    }
    let text = format!(
        "{} forked {} copies of itself in {}, each for {} in the mean: starting and ending such short ones is {} of the time. A few that \
         take many items each start once.",
        view.name(at),
        grouped(parent.forks),
        after(view.document.processes.window_ns),
        after(mean),
        percent(share.min(1.0))
    );
    let which = [at].into_iter().chain(copies);
    vec![Finding { count: Some(parent.forks), ..Finding::new(FindingKind::Started, which, text) }]
}

/// Each is on a CPU for this part of the window at least, and both together about all of it.
const EACH: f64 = 0.25;
const ALL: [f64; 2] = [0.8, 1.1];

/// While one runs, the other one waits at the pipe for this part of that time.
const MEANWHILE: f64 = 0.7;

/// From this part on, one of them waited for a CPU, so that they could not run at once.
const CROWDED: f64 = 0.1;

/// Fewer turns are phases.
const TURNS: u64 = 10;

/// Who writes more at once than the pipe holds, and waits so long, while the other one waits so long at other times, has it too
/// small.
const BOTH: f64 = 0.2;

/// One or the other waits for so much of the time: each does its work in long pieces.
const ALWAYS: f64 = 0.8;

/// `` `a.py` and `b.py` take turns at their pipe: ... ``
pub(crate) fn turns(view: &FindingView<'_>) -> Vec<Finding> {
    if view.document.environment.cpus < 2 {
        return Vec::new();
    }
    let channels = view.document.channels.iter().enumerate();
    channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..turns_at(view, channel)? })).collect()
}

fn turns_at(view: &FindingView<'_>, channel: &RecordedChannel) -> Option<Finding> {
    let ([from], [to]) = (&channel.writers[..], &channel.readers[..]) else { return None };
    let (writer, reader) = (view.process(from)?, view.process(to)?);
    let window = view.document.processes.window_ns.max(1) as f64;
    let share = |ns: u64| ns as f64 / window;
    let is_one = |end: &RecordedEnd, process: &RecordedProcess| {
        view.is_one(end.process) && process.threads == 1 && share(process.runnable_ns) <= CROWDED
    };
    let all = share(writer.cpu_ns + reader.cpu_ns);
    let work = writer.cpu_ns.min(reader.cpu_ns);
    let waits = from.blocked_ns as f64 >= MEANWHILE * reader.cpu_ns as f64
        && to.blocked_ns as f64 >= MEANWHILE * writer.cpu_ns as f64;
    let in_turn = share(work) >= EACH && (ALL[0]..=ALL[1]).contains(&all) && waits;
    let at_once = from.bytes / from.all_calls().max(1) > channel.capacity();
    let nearly_all = share(from.blocked_ns + to.blocked_ns) >= ALWAYS;
    let bursts = (at_once || nearly_all) && channel.kind.is_pipe() && share(from.blocked_ns.min(to.blocked_ns)) >= BOTH;
    let is_so = is_one(from, writer) && is_one(to, reader) && (in_turn || bursts);
    if !is_so || from.sleeps.min(to.sleeps) < TURNS {
        return None;
    }
    let text = format!(
        "{} and {} take turns: the first waits for room {} of the time, and the second waits for data {}. A buffer \
         between them that holds what one does meanwhile (`mbuffer`, `pv -q -B 16M`, F_SETPIPE_SZ), or a thread that reads ahead, has \
         both work at once.",
        view.name(from.process),
        view.name(to.process),
        percent(share(from.blocked_ns)),
        percent(share(to.blocked_ns))
    );
    Some(Finding::new(FindingKind::Turns, [from.process, to.process], text))
}

/// Programs that compress unless an option has `d` in it, and those that only decompress, by format.
const FORMATS: [[&[&str]; 2]; 5] = [
    [&["gzip", "pigz"], &["gunzip", "unpigz", "zcat"]],
    [&["bzip2", "pbzip2", "lbzip2"], &["bunzip2", "bzcat"]],
    [&["xz", "pixz"], &["unxz", "xzcat"]],
    [&["zstd", "zstdmt", "pzstd"], &["unzstd", "zstdcat"]],
    [&["lz4"], &["unlz4", "lz4cat"]],
];

/// Of the CPU time of all, both take so much.
const UNDONE_MUCH: f64 = 0.1;

/// `` `gzip -c` compresses what `gzip -dc` decompresses at once: ... ``
pub(crate) fn undone(view: &FindingView<'_>) -> Vec<Finding> {
    let all: u64 = view.document.recorded.iter().map(|process| process.cpu_ns).sum();
    let mut found = Vec::new();
    for (at, channel) in view.document.channels.iter().enumerate() {
        let ([from], [to]) = (&channel.writers[..], &channel.readers[..]) else { continue };
        let Some((writer, reader)) = view.process(from).zip(view.process(to)) else { continue };
        let is_same = work(writer)
            .zip(work(reader))
            .is_some_and(|([packed, no], [same, yes])| packed == same && no == 0 && yes == 1 && from.bytes > 0);
        let share = (writer.cpu_ns + reader.cpu_ns) as f64 / all.max(1) as f64;
        if is_same && share >= UNDONE_MUCH && channel.kind.is_pipe() {
            let text = format!(
                "{} compresses what {} decompresses at once: both together take {} of the CPU time, and the pipe needs neither.",
                view.name(from.process),
                view.name(to.process),
                percent(share)
            );
            let finding = Finding::new(FindingKind::Undone, [from.process, to.process], text);
            found.push(Finding { channels: vec![at], ..finding });
        }
    }
    found
}

/// The format of what a process compresses (0) or decompresses (1).
fn work(process: &RecordedProcess) -> Option<[usize; 2]> {
    let known = |names: &[&str]| names.contains(&process.name.as_str());
    let unpacks = |word: &String| {
        word.starts_with("--d")
            || word.starts_with("--uncompress")
            || !word.starts_with("--") && word.starts_with('-') && word.contains('d')
    };
    let (at, [packs, _]) = (0..).zip(FORMATS).find(|(_, [packs, unpacks])| known(packs) || known(unpacks))?;
    // `-t` and `-l` do neither.
    let other = process.args.iter().any(|word| ["-t", "-l", "--test", "--list"].contains(&word.as_str()));
    let is_known = process.is_one() && !process.args.is_empty() && !other;
    let unpacks = !known(packs) || process.args.iter().skip(1).any(unpacks);
    is_known.then_some([at, usize::from(unpacks)])
}

/// Fewer are steps of their own, and shorter ones, ns, are mostly start and end.
const LEAST: u64 = 3;
const ONE_BY_ONE_SHORT_NS: u64 = 50_000_000;

/// Together, they live for this part of the window, one at a time, and are on a CPU for that part, or wait for one.
const LIVE: [f64; 2] = [0.6, 1.02];
const WORK: f64 = 0.5;

/// What runs the commands of others as it is told.
const MAKES: [&str; 3] = ["make", "gmake", "ninja"];

/// `` `bash a.sh` ran `awk` 6 times, one after the other, each on one CPU: ... ``
pub(crate) fn one_by_one(view: &FindingView<'_>) -> Vec<Finding> {
    if let Some(found) = repeated(view).or_else(|| make::without_server(view)) {
        return vec![found];
    }
    let window = view.document.processes.window_ns.max(1) as f64;
    let all = &view.document.recorded;
    let busy: u64 = all.iter().map(|process| process.cpu_ns).sum();
    // Otherwise, there is nothing for more to run on.
    if busy as f64 > (view.document.environment.cpus as f64 - 0.5) * window {
        return Vec::new();
    }
    let sum = |of: &[usize], what: fn(&RecordedProcess) -> u64| of.iter().map(|at| what(&all[*at])).sum::<u64>();
    let mut found: Vec<(u64, Finding)> = Vec::new();
    for ((starter, name), of) in by_program(all, 0..all.len()) {
        let count = sum(&of, |process| process.pids.len() as u64);
        let lived = sum(&of, |process| process.lived_ns);
        let worked = sum(&of, |process| process.cpu_ns + process.runnable_ns);
        let share = lived as f64 / window;
        let is_so = count >= LEAST
            && lived / count >= ONE_BY_ONE_SHORT_NS
            && (LIVE[0]..=LIVE[1]).contains(&share)
            && worked as f64 >= WORK * window
            && sum(&of, |process| process.cpu_ns) as f64 >= WORK * lived as f64
            && sum(&of, |process| process.threads) == count;
        if is_so {
            // A compiler that starts its parts is run by something else.
            let makes = view.with_starters(starter).any(|of| MAKES.contains(&all[of].name.as_str()));
            // Each of several, such as `timeout`, ran one.
            let starter = view.with_starters(starter).find(|of| view.is_one(*of)).unwrap_or(starter);
            let at_once = if makes { "`make -j`" } else { "`xargs -P`, or `&` and `wait`" };
            let text = format!(
                "{} ran `{name}` {count} times, one after the other, each on one CPU for {} in the mean. If none needs what another \
                 one wrote, several can run at once: {at_once}.",
                view.name(starter),
                after(sum(&of, |process| process.cpu_ns) / count)
            );
            let finding = Finding::new(FindingKind::Turns, of, text);
            found.push((worked, Finding { count: Some(count), ..finding }));
        }
    }
    found.into_iter().max_by_key(|(worked, _)| *worked).map(|(_, finding)| finding).into_iter().collect()
}

/// Fewer are steps of a script; and they work for this part of the window.
const REPEATED: u64 = 5;
const REPEATED_MUCH: f64 = 0.3;

/// Less, ns, is nothing to save.
const REPEATED_LEAST_NS: f64 = 200_000_000.0;

/// `` `bash a.sh` ran `gzip -cd a.gz` 25 times: ... ``
fn repeated(view: &FindingView<'_>) -> Option<Finding> {
    let all = view.document.recorded.iter().enumerate();
    let is_so = |(_, process): &(usize, &RecordedProcess)| {
        let count = process.same_args;
        // What a pipe brings can be new each time.
        let same = count >= REPEATED && count == process.pids.len() as u64 && process.input.is_none();
        // A copy of a shell has the words of that.
        let same = same && process.execs >= count;
        let reads = |end: &RecordedEnd| view.process(end).is_some_and(|of| std::ptr::eq(of, *process));
        let much = (REPEATED_MUCH * view.window()).max(REPEATED_LEAST_NS);
        let works = process.cpu_ns as f64 >= much && process.args.len() > 1;
        same && works && !view.document.channels.iter().any(|channel| channel.readers.iter().any(reads))
    };
    let (at, process) = all.filter(is_so).max_by_key(|(_, process)| process.cpu_ns)?;
    let line = clean(&process.args.join(" "));
    let by = process.started_by.map_or_else(String::new, |by| format!(" by {}", view.name(by)));
    let text = format!(
        "`{line}` was run {} times{by}, each time with the same words, and is on a CPU {} of the time. If what it reads has not \
         changed, once is enough: one pass that does all, or a file for its output.",
        process.same_args,
        percent(process.cpu_ns as f64 / view.window())
    );
    Some(Finding { count: Some(process.same_args), ..Finding::new(FindingKind::Started, [at], text) })
}

/// Fewer are no load.
const HAND_OVERS_MANY: u64 = 10_000;

/// Longer ones, ns, are not mostly waking, nor are those of more bytes.
const HAND_OVERS_SHORT_NS: u64 = 100_000;
const FEW_BYTES: u64 = 512;

/// Most of the sleeps are ended by a write of the recording.
const WOKEN: f64 = 0.8;

/// So many CPUs at most are in use, and so much of that is user code.
const ONE: f64 = 1.3;
const USER: f64 = 0.4;

/// `` 59,948 times, a thread of `ring` slept at a pipe until another one had written 1 byte, every 28.2 µs: only one runs at a
/// time. On one CPU (`taskset -c 0`), no other CPU has to be woken. ``
pub(crate) fn hand_overs(view: &FindingView<'_>) -> Vec<Finding> {
    let recording = view.document;
    let sum = |of: fn(&RecordedEnd) -> u64| view.readers().map(|(_, _, end)| of(end)).sum::<u64>();
    let (sleeps, bytes) = (sum(|end| end.sleeps), sum(|end| end.bytes));
    let wakes: u64 = view.writers().map(|(_, _, end)| end.wakes).sum();
    let window = recording.processes.window_ns;
    let cpu: u64 = recording.recorded.iter().map(|process| process.cpu_ns).sum();
    let user: f64 =
        recording.recorded.iter().map(|process| process.user_share.unwrap_or(1.0) * process.cpu_ns as f64).sum();
    let serial = cpu as f64 <= ONE * window as f64 && user <= USER * cpu as f64;
    if sleeps < HAND_OVERS_MANY || window / sleeps > HAND_OVERS_SHORT_NS || bytes / sleeps > FEW_BYTES || !serial {
        return Vec::new();
    }
    let main = view.readers().max_by_key(|(_, _, end)| end.sleeps).map(|(_, _, end)| end.process);
    let Some(main) = main.filter(|_| wakes as f64 >= WOKEN * sleeps as f64 && recording.environment.cpus != 1) else {
        return Vec::new();
    };
    let own: u64 = view.readers().filter(|(_, _, end)| end.process == main).map(|(_, _, end)| end.sleeps).sum();
    let is_alone = recording.recorded.get(main).is_some_and(|process| process.threads == 1) && own == sleeps;
    let [who, other] = if is_alone { ["", "process"] } else { ["a thread of ", "one"] };
    let text = format!(
        "{} times, {who}{} slept at a pipe until another {other} had written {}, every {}: only one runs at a time. On \
         one CPU (`taskset -c 0`), no other CPU has to be woken.",
        grouped(sleeps),
        view.name(main),
        counted((bytes / sleeps).max(1), "byte"),
        after(window / sleeps)
    );
    vec![Finding {
        count: Some(sleeps),
        ns: Some(window / sleeps),
        ..Finding::new(FindingKind::HandOvers, [main], text)
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, said_after, silent};
    use crate::result::{CriticalPath, Document, PathPart};

    /// `sh` starts 500 processes, of which 250 are `grep` and take 61 % of the time.
    fn loops(recording: &mut Document) {
        recording.recorded[0].forks = 500;
        let process = &mut recording.recorded[1];
        (process.pids, process.lived_ns, process.execs) = ((0..250).collect(), 250 * 3_100_000, 250);
        let copies = RecordedProcess { name: "sh".to_owned(), pids: (0..400).collect(), ..RecordedProcess::default() };
        recording.recorded.push(copies);
        let part = PathPart { process: Some(1), ns: WINDOW / 100 * 61, ..PathPart::default() };
        recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
    }

    #[test]
    fn hundreds_of_short_processes_are_said() {
        let text = "500 processes were started in 4.00 s, 250 of them `grep`: such short ones are 61 % of the time. One process that does all of it \
                    starts once, and reads what it needs once.";
        assert_eq!(said(started, &loops), [text]);
    }

    #[test]
    fn few_long_or_cheap_ones_are_not() {
        silent(
            &|change| said_after(started, &loops, change),
            &[
                &|recording| recording.recorded[0].forks = 20,
                &|recording| recording.recorded[1].pids = vec![1, 2],
                &|recording| recording.recorded[1].lived_ns = 250 * 100_000_000,
                &|recording| recording.path = None,
            ],
        );
    }

    fn alternate(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(turns, &|recording| {
            recording.environment.cpus = 2;
            for process in &mut recording.recorded[..2] {
                (process.threads, process.cpu_ns, process.runnable_ns) = (1, WINDOW / 2, 0);
            }
            let channel = &mut recording.channels[0];
            for end in [&mut channel.writers[0], &mut channel.readers[0]] {
                (end.blocked_ns, end.sleeps) = (WINDOW / 2, 20);
            }
            change(recording);
        })
    }

    #[test]
    fn two_that_take_turns_are_said() {
        let text = "`seq` and `grep` take turns: the first waits for room 50 % of the time, and the second waits for data 50 %. A \
                    buffer between them that holds what one does meanwhile (`mbuffer`, `pv -q -B 16M`, F_SETPIPE_SZ), or a thread that \
                    reads ahead, has both work at once.";
        assert_eq!(alternate(&|_| {}), [text]);
        silent(
            &alternate,
            &[
                &|recording| recording.environment.cpus = 1,
                &|recording| recording.channels[0].writers[0].blocked_ns = 0,
                &|recording| recording.channels[0].readers[0].sleeps = 3,
                &|recording| recording.recorded[0].runnable_ns = WINDOW / 5,
                &|recording| {
                    recording.recorded[1].cpu_ns = WINDOW / 10;
                    recording.channels[0].writers[0].blocked_ns = WINDOW / 4;
                },
            ],
        );
        // Both sleep, as for a disk.
        let bursts = |bytes: u64, part: u64| {
            alternate(&|recording| {
                recording.recorded.iter_mut().for_each(|process| process.cpu_ns = 0);
                let channel = &mut recording.channels[0];
                channel.writers[0].bytes = bytes;
                (channel.writers[0].blocked_ns, channel.readers[0].blocked_ns) = (WINDOW / part, WINDOW / part);
            })
        };
        // Large writes, or always one of them.
        assert_eq!((bursts(20 << 18, 4).len(), bursts(20 << 12, 4).len()), (1, 0));
        assert_eq!(bursts(20 << 12, 2), [text]);
    }

    #[test]
    fn what_is_compressed_for_nothing_is_said() {
        let pair = |lines: [&str; 2]| {
            said(undone, &|recording| {
                for (process, line) in recording.recorded.iter_mut().zip(lines) {
                    process.args = line.split_whitespace().map(str::to_owned).collect();
                    process.name.clone_from(&process.args[0]);
                    process.cpu_ns = 100;
                }
            })
        };
        let text = " decompresses at once: both together take 100 % of the CPU time, and the pipe needs neither.";
        let gzip = pair(["gzip -1", "gzip -dc"]);
        assert!(gzip.len() == 1 && gzip[0].starts_with("`gzip") && gzip[0].ends_with(text), "{gzip:?}");
        assert_eq!(pair(["xz -T2", "xzcat"]).len(), 1);
        for lines in [["gzip -dc", "gzip -9"], ["gzip -c", "xz -d"], ["gzip -c", "gzip -t"], ["cat", "gzip -d"]] {
            assert!(pair(lines).is_empty(), "{lines:?}");
        }
    }

    fn runs(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(one_by_one, &|recording| {
            recording.environment.cpus = 2;
            let run = RecordedProcess {
                name: "awk".to_owned(),
                started_by: Some(0),
                execs: 1,
                threads: 1,
                ..RecordedProcess::default()
            };
            for pid in 10..14 {
                let (lived_ns, cpu_ns) = (WINDOW / 4, WINDOW / 5);
                recording.recorded.push(RecordedProcess { pids: vec![pid], lived_ns, cpu_ns, ..run.clone() });
            }
            change(recording);
        })
    }

    #[test]
    fn runs_one_after_the_other_are_said() {
        let text = "`seq` ran `awk` 4 times, one after the other, each on one CPU for 0.80 s in the mean. If none needs what another one \
                    wrote, several can run at once: `xargs -P`, or `&` and `wait`.";
        assert_eq!(runs(&|_| {}), [text]);
        silent(
            &runs,
            &[
                &|recording| recording.environment.cpus = 1,
                &|recording| recording.recorded[4].threads = 2,
                &|recording| recording.recorded[4].lived_ns = WINDOW,
                &|recording| recording.recorded[3..].iter_mut().for_each(|process| process.cpu_ns = 0),
            ],
        );
    }

    #[test]
    fn runs_of_the_same_words_are_said() {
        let again = |change: &dyn Fn(&mut RecordedProcess)| {
            said(one_by_one, &|recording| {
                let mut run = RecordedProcess {
                    name: "gzip".to_owned(),
                    args: ["gzip", "-cd", "a.gz"].map(str::to_owned).to_vec(),
                    same_args: 25,
                    pids: (10..35).collect(),
                    execs: 25,
                    cpu_ns: WINDOW / 4 * 3,
                    started_by: Some(0),
                    ..RecordedProcess::default()
                };
                change(&mut run);
                recording.recorded.push(run);
            })
        };
        let text = "`gzip -cd a.gz` was run 25 times by `seq`, each time with the same words, and is on a CPU 75 % of the time. If what it \
                    reads has not changed, once is enough: one pass that does all, or a file for its output.";
        assert_eq!(again(&|_| {}), [text]);
        assert!(again(&|run| run.same_args = 20).is_empty() && again(&|run| run.execs = 0).is_empty());
        assert!(again(&|run| run.input = Some(0)).is_empty() && again(&|run| run.cpu_ns = WINDOW / 5).is_empty());
    }

    /// `grep` sleeps 100,000 times for one byte of `seq`.
    fn handed(recording: &mut Document) {
        recording.channels.truncate(1);
        let pipe = &mut recording.channels[0];
        (pipe.readers[0].sleeps, pipe.readers[0].bytes, pipe.writers[0].wakes) = (100_000, 100_000, 100_000);
        for process in &mut recording.recorded {
            (process.cpu_ns, process.user_share) = (WINDOW / 4, Some(0.1));
        }
    }

    #[test]
    fn bytes_that_go_from_one_to_the_next_are_said() {
        let text = "100,000 times, a thread of `grep` slept at a pipe until another one had written 1 byte, every 40.0 µs: only \
                    one runs at a time. On one CPU (`taskset -c 0`), no other CPU has to be woken.";
        assert_eq!(said(hand_overs, &handed), [text]);
    }

    #[test]
    fn large_blocks_long_work_and_stages_that_run_at_once_are_not() {
        silent(
            &|change| said_after(hand_overs, &handed, change),
            &[
                &|recording| recording.channels[0].readers[0].bytes = 1 << 30,
                &|recording| recording.channels[0].readers[0].sleeps = 20_000,
                &|recording| recording.channels[0].writers[0].wakes = 0,
                &|recording| recording.recorded[0].cpu_ns = 2 * WINDOW,
                &|recording| recording.recorded.iter_mut().for_each(|process| process.user_share = None),
                &|recording| recording.environment.cpus = 1,
            ],
        );
    }
}

//! Processes that look now and then whether a child has ended.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::report::number::{percent, time};
use crate::result::{Finding, FindingKind, PathWhat, RecordedChannel, RecordedEnd, RecordedProcess, WaitReason};
use crate::util::text::{clean, counted};
use std::collections::{BTreeMap, BTreeSet};

/// From this part of the window on, a channel is full.
const FULL: f64 = 0.5;

/// Fewer looks are no loop.
const WATCHES_MANY: u64 = 5;

/// From this part of the window on, it waits; so much of it its children have to be on a CPU.
const MUCH: f64 = 0.3;

/// `` `python3 watch.py` only looks now and then whether its child has ended (41 times): meanwhile `python3 (4711)` is on a CPU
/// 95 % of the time. ``
pub(crate) fn watches(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let least = MUCH * document.processes.window_ns as f64;
    let timer = PathWhat::Asleep { reason: WaitReason::Timer };
    let watches = |at: &usize| document.recorded[*at].watches >= WATCHES_MANY && view.on_path(*at, timer) >= MUCH;
    let texts = (0..document.recorded.len()).filter(watches).filter_map(|at| {
        let process = &document.recorded[at];
        let is_later =
            |(_, other): &(usize, &RecordedProcess)| other.stage == process.stage && other.begin_ns > process.begin_ns;
        // Of several children, which are of one program mostly, all that they do together.
        let mut programs: BTreeMap<&str, (u64, Vec<usize>)> = BTreeMap::new();
        for (child, other) in document.recorded.iter().enumerate().filter(is_later) {
            let (cpu_ns, children) = programs.entry(&other.name).or_default();
            *cpu_ns += other.cpu_ns;
            children.push(child);
        }
        let (program, (cpu_ns, children)) = programs.into_iter().max_by_key(|(_, (cpu_ns, _))| *cpu_ns)?;
        let processes: usize = children.iter().map(|child| document.recorded[*child].pids.len().max(1)).sum();
        let (whose, who) = match children[..] {
            [child] if processes == 1 => ("its child has", view.name(child)),
            _ => ("its children have", format!("`{}` ({processes} processes)", clean(program))),
        };
        let share = cpu_ns as f64 / document.processes.window_ns.max(1) as f64;
        let text = format!(
            "{} only looks now and then whether {whose} ended ({}): meanwhile {who} is on a CPU {} of the time.",
            view.name(at),
            counted(process.watches, "time"),
            percent(share)
        );
        let of = children.into_iter().chain([at]);
        (cpu_ns as f64 >= least)
            .then(|| Finding { count: Some(process.watches), ..Finding::new(FindingKind::Watches, of, text) })
    });
    let stuck = never_read(view);
    // What they wait for has no load.
    if stuck.is_empty() { texts.collect() } else { stuck }
}

/// A process naps for so long at least between its looks, ns, for this part of the window, and its children live for this part of
/// that.
const NAP_NS: u64 = 100_000_000;
/// The same of one that looks so often.
const SHORT_NAP_NS: u64 = 5_000_000;
const OFTEN: u64 = 50;
const NAPS_MOST: f64 = 0.5;
const SHORT_LIVED: f64 = 0.25;

/// `` `agent.py` sleeps 2.0 s between its looks whether a child has ended (3 looks): `true` had mostly ended before. ``
pub(crate) fn late_looks(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let found = document.recorded.iter().enumerate().filter_map(|(at, process)| {
        let timer = process.waits.get(&WaitReason::Timer).copied().filter(|timer| timer.count > 0)?;
        let nap = timer.ns / timer.count;
        let asleep = view.on_path(at, PathWhat::Asleep { reason: WaitReason::Timer });
        let rows = || document.recorded.iter().enumerate().filter(|(_, child)| child.started_by == Some(at));
        // What it forked itself, and not what had its process before.
        let is_copy = |child: &RecordedProcess| child.execs == 0 && child.name == process.name;
        let forked: BTreeSet<u32> =
            rows().filter(|(_, child)| is_copy(child)).flat_map(|(_, child)| child.pids.iter().copied()).collect();
        let is_own = |child: &RecordedProcess| child.execs > 0 && child.pids.iter().all(|pid| forked.contains(pid));
        let children: Vec<usize> = rows().filter(|(_, child)| is_own(child)).map(|(of, _)| of).collect();
        // What lived while it slept; a child is at work until it ends.
        let lived: u64 = children.iter().map(|of| document.recorded[*of].lived_ns).sum();
        // Each sleep comes after a look.
        let is_loop = process.watches > 0 && process.watches >= timer.count && process.watches <= 2 * timer.count;
        let is_nap = nap >= NAP_NS || nap >= SHORT_NAP_NS && process.watches >= OFTEN;
        let is_late = is_nap && asleep >= NAPS_MOST && (lived as f64) < SHORT_LIVED * timer.ns as f64;
        if !is_loop || !is_late || children.is_empty() || process.pids.len() > 1 {
            return None;
        }
        let text = format!(
            "{} sleeps {} after each look whether its child has ended ({}), {} of the time: {} had mostly ended before. To wait for the \
             child, with a limit if need be (`waitpid`, SIGCHLD, a pidfd in `poll`), ends at once.",
            view.name(at),
            time(nap as f64 / 1e9),
            counted(process.watches, "time"),
            percent(asleep.min(1.0)),
            few(children.iter().map(|of| view.name(*of)))
        );
        let finding = Finding::new(FindingKind::Naps, [at], text);
        Some(Finding { count: Some(process.watches), ns: Some(timer.ns), ..finding })
    });
    found.take(1).collect()
}

/// A child that waits for room in a pipe that its parent does not read (any more), while that looks for its end, or does other things.
fn never_read(view: &FindingView<'_>) -> Vec<Finding> {
    let full = FULL * view.document.processes.window_ns as f64;
    let mut found: BTreeMap<usize, Finding> = BTreeMap::new();
    for (channel, pipe, end) in view.writers().filter(|(_, _, end)| end.blocked_ns as f64 >= full) {
        if let Some(at) = view.process(end).and_then(|child| child.started_by)
            && !found.contains_key(&at)
        {
            found.extend(not_read_by(view, at, (channel, pipe), end).map(|finding| (at, finding)));
        }
    }
    found.into_values().collect()
}

fn not_read_by(
    view: &FindingView<'_>,
    at: usize,
    (channel, pipe): (usize, &RecordedChannel),
    end: &RecordedEnd,
) -> Option<Finding> {
    let document = view.document;
    let parent = document.recorded.get(at)?;
    // Who waits for the child is in a circle with it.
    let waits = parent.waits.get(&WaitReason::Child).map_or(0, |wait| wait.ns);
    let full = FULL * document.processes.window_ns as f64;
    let in_thread = waits as f64 >= full;
    if in_thread && parent.threads <= 1 {
        return None;
    }
    // Who waits for room itself does not read because of that.
    if view.writers().any(|(other, _, own)| own.process == at && other != channel && own.blocked_ns as f64 >= full) {
        return None;
    }
    let until = document.processes.window_ns / 2;
    let last = |end: &RecordedEnd| end.moved_ns.filter(|_| end.all_calls() > 0).map(|[_, last]| last);
    let reads = |end: &RecordedEnd| end.process == at && last(end).is_none_or(|last| last < until);
    let no_other = pipe.readers.iter().all(reads) && !pipe.readers.is_empty() && pipe.other_readers.is_empty();
    if !no_other || parent.moves_unseen() {
        return None;
    }
    let last = pipe.readers.iter().filter_map(last).max();
    let (name, pipe, child) = (view.name(at), view.pipe_from(pipe), view.name(end.process));
    let [reads, since] = match last {
        None => ["never reads".to_owned(), String::new()],
        Some(last) => ["has not read".to_owned(), format!(" since {},", after(last))],
    };
    let text = if in_thread {
        format!(
            "{name} waits for the end of its child {child}, and {reads} {pipe},{since} which is full: {child} waits for room, and neither goes \
             on. It has to read to the end before it waits, or meanwhile."
        )
    } else if parent.watches >= WATCHES_MANY {
        format!(
            "{name} only looks now and then whether its child {child} has ended ({}), and {reads} {pipe},{since} which is full: {child} \
             waits for room. It has to read until the end, and to wait for the child after that.",
            counted(parent.watches, "time")
        )
    } else {
        format!(
            "{name} {reads} {pipe}, its child,{since} and it is full: {child} waits for room. {name} has to read it all the time, or \
             to start the child with its output elsewhere (/dev/null, a file)."
        )
    };
    Some(Finding { channels: vec![channel], ..Finding::new(FindingKind::Watches, [at, end.process], text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{CriticalPath, Document, PathPart, WaitTotal};

    fn watched(recording: &mut Document, looks: u64, cpu_ns: u64) {
        recording.recorded[0].watches = looks;
        (recording.recorded[1].begin_ns, recording.recorded[1].cpu_ns) = (1, cpu_ns);
        recording.recorded[1].stage = recording.recorded[0].stage;
        let what = PathWhat::Asleep { reason: WaitReason::Timer };
        let part = PathPart { process: Some(0), what, ns: WINDOW / 10 * 9, ..PathPart::default() };
        recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
    }

    #[test]
    fn what_the_child_does_is_said() {
        let text = "`seq` only looks now and then whether its child has ended (41 times): meanwhile `grep` is on a CPU 90 % of \
                    the time.";
        assert_eq!(said(watches, &|recording| watched(recording, 41, WINDOW / 10 * 9)), [text]);
        assert!(said(watches, &|recording| watched(recording, 3, WINDOW / 10 * 9)).is_empty(), "few looks");
        assert!(said(watches, &|recording| watched(recording, 41, WINDOW / 10)).is_empty(), "the child does little");
        let text = "`seq` only looks now and then whether its children have ended (41 times): meanwhile `grep` (2 processes) is on a \
                    CPU 40 % of the time.";
        let two = |recording: &mut Document| {
            watched(recording, 41, WINDOW / 5);
            let child = recording.recorded[1].clone();
            recording.recorded.push(child);
        };
        assert_eq!(said(watches, &two), [text]);
        let full = said(watches, &|recording| {
            watched(recording, 41, WINDOW / 10);
            recording.channels.swap(0, 1);
            let channel = &mut recording.channels[1];
            channel.readers[0].process = 0;
            channel.readers[0].calls.clear();
            (channel.writers[0].process, channel.writers[0].blocked_ns) = (1, WINDOW / 10 * 9);
            recording.recorded[1].started_by = Some(0);
        });
        let text = "`seq` only looks now and then whether its child `grep` has ended (41 times), and never reads the pipe from `grep`, \
                    which is full: `grep` waits for room.";
        assert!(full[0].starts_with(text), "{full:?}");
    }

    #[test]
    fn a_pipe_that_its_parent_never_reads_is_said() {
        let full = |change: &dyn Fn(&mut Document)| {
            said(watches, &|recording| {
                recording.recorded[0].started_by = Some(1);
                let channel = &mut recording.channels[0];
                channel.writers[0].blocked_ns = WINDOW / 10 * 9;
                (channel.readers[0].bytes, channel.readers[0].calls) = (0, Default::default());
                change(recording);
            })
        };
        let text = "`grep` never reads the pipe from `seq`, its child, and it is full: `seq` waits for room. `grep` has to read it all \
                    the time, or to start the child with its output elsewhere (/dev/null, a file).";
        assert_eq!(full(&|_| {}), [text]);
        let no_more = full(&|recording| {
            let end = &mut recording.channels[0].readers[0];
            (end.calls, end.moved_ns) = ([("read".to_owned(), 2)].into(), Some([0, WINDOW / 8]));
        });
        assert!(
            no_more[0].starts_with("`grep` has not read the pipe from `seq`, its child, since 0.50 s, and it is full:"),
            "{no_more:?}"
        );
        let waits = WaitTotal { ns: WINDOW / 10 * 9, count: 1 };
        silent(
            &full,
            &[
                &|recording| recording.recorded[0].started_by = Some(2),
                &|recording| recording.channels[0].readers[0].calls = [("read".to_owned(), 1)].into(),
                &|recording| recording.channels[0].writers[0].blocked_ns = WINDOW / 10,
                &|recording| recording.recorded[1].waits = [(WaitReason::Child, waits)].into(),
            ],
        );
    }

    #[test]
    fn looks_long_after_the_end_of_a_child_are_said() {
        let found = |looks: u64, naps: u64, lived_ns: u64| {
            said(late_looks, &|recording| {
                let timer = PathWhat::Asleep { reason: WaitReason::Timer };
                let part = PathPart { process: Some(0), what: timer, ns: WINDOW, slices: vec![WINDOW], by: None };
                recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
                let parent = &mut recording.recorded[0];
                parent.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW, count: naps })].into();
                parent.watches = looks;
                let (name, pids) = (parent.name.clone(), vec![2]);
                let copy = RecordedProcess { name, pids, started_by: Some(0), ..RecordedProcess::default() };
                recording.recorded.push(copy);
                let child = &mut recording.recorded[1];
                (child.started_by, child.execs, child.pids, child.lived_ns) = (Some(0), 1, vec![2], lived_ns);
            })
        };
        let text = "`seq (1)` sleeps 2.00 s after each look whether its child has ended (2 times), 100 % of the time: `grep` had mostly ended before. \
                    To wait for the child, with a limit if need be (`waitpid`, SIGCHLD, a pidfd in `poll`), ends at once.";
        assert_eq!(found(2, 2, 1000), [text]);
        assert!(found(2, 2, WINDOW).is_empty(), "the child works");
        assert!(found(1, 9, 1000).is_empty() && found(1000, 1000, 1000).is_empty());
        assert!(found(400, 400, 1000)[0].starts_with("`seq (1)` sleeps 10.0 ms after each look"));
    }
}

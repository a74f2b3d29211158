//! Processes that do the same again and again: calls that find nothing, or look whether something has happened.

use crate::record::say::findings::view::FindingView;
use crate::record::say::limits::rate_limit;
use crate::report::number::percent;
use crate::result::{ChannelKind, Finding, FindingKind, RecordedChannel, RecordedEnd, WaitReason};
use crate::util::text::{counted, grouped};

/// Fewer are a program that looks now and then, or several of one name that each read to the end.
const MANY: u64 = 1000;

/// Of the reads.
const SHARE: f64 = 0.5;

/// From this number and part of all reads on, one process only looks whether more comes.
const LOOKS: u64 = 50;
const NEARLY_ALL: f64 = 0.9;

/// `` 1,838,077 of 1,838,078 reads of `python3` from the pipe got the end of file: nobody has its write end open. ``
pub(crate) fn at_end(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.readers() {
        let (count, all) = (end.at_end, end.all_calls());
        let processes = view.process(end).map_or(1, |process| process.pids.len().max(1)) as u64;
        let part = count as f64 / all.max(1) as f64;
        let only_looks = processes == 1 && count >= LOOKS && part >= NEARLY_ALL;
        if (count / processes < MANY || part < SHARE) && !only_looks {
            continue;
        }
        let why = match pipe.kind {
            ChannelKind::Fifo => {
                "nobody has its write end open. It has to stop there, or, to go on, to open the FIFO for writing, too"
            }
            kind if kind.is_pipe() => "nobody has its write end open. It has to stop there",
            _ => {
                "its other end sends no more. A read of 0 bytes is the end: the loop has to stop there, and to close its own end"
            }
        };
        let (name, pipe) = (view.name(end.process), view.pipe_from(pipe));
        let text =
            format!("{} of {} reads of {name} from {pipe} got the end of file: {why}.", grouped(count), grouped(all));
        let finding = Finding::new(FindingKind::AtEnd, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(count), of: Some(all), ..finding });
    }
    found
}

/// Fewer are no load.
const POLLS_MANY: u64 = 10_000;

/// Polls of which it was found so at the few that were looked at, as a part of all.
const POLLS_SHARE: f64 = 0.5;

/// A read for so many polls is one of data.
const READS: u64 = 100;

/// `` `python3` polled 1,506,359 times for the pipe from `sleep`, which has data, and never reads it. ``
pub(crate) fn polls(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.readers() {
        let Some(process) = view.process(end) else { continue };
        let polls = process.ready_polls;
        let never_reads = end.all_calls() * READS <= polls;
        if polls < POLLS_MANY || (end.ready_polls as f64) < POLLS_SHARE * polls as f64 || !never_reads {
            continue;
        }
        let (name, count, never) =
            (view.name(end.process), grouped(polls), if end.bytes == 0 { "never" } else { "hardly" });
        let others = pipe.writers.iter().filter(|writer| writer.process != end.process && writer.all_calls() > 0);
        let from = view.names(others);
        let noun = pipe.kind.noun();
        let what = if from.is_empty() { format!("a {noun}") } else { format!("the {noun} from {from}") };
        let written = pipe.written();
        let read = pipe.read();
        let has_writer = |end: &RecordedEnd| {
            view.process(end).is_some_and(|process| process.end_ns >= view.document.processes.window_ns)
        };
        // `poll` finds that the other end is closed (POLLHUP) until the descriptor is closed, too.
        let has_ended =
            written > 0 && written == read && pipe.other_writers.is_empty() && !pipe.writers.iter().any(has_writer);
        // Who has it open was looked at when the recording began.
        let is_left = pipe.kind.is_pipe()
            && !view.document.target.pids().is_empty()
            && pipe.writers.is_empty()
            && pipe.other_writers.is_empty();
        let text = if has_ended || is_left {
            format!(
                "{name} polled {count} times for {what}, which has no writer any more: poll returns at once (POLLHUP), and \
                 {name} does not close its end."
            )
        } else {
            format!(
                "{name} polled {count} times for {what}, which has data, and {never} reads it. It has to read that, or not to poll for it meanwhile."
            )
        };
        let finding = Finding::new(FindingKind::Polls, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(polls), ..finding });
    }
    found
}

/// Fewer are no load, and a smaller part of the calls is what a program finds that empties a channel.
const RETRIES_MANY: u64 = 1000;
const RETRIES_SHARE: f64 = 0.6;

/// The same if it sleeps before each.
const MANY_NAPS: u64 = 100;

/// From this part of its life on a CPU, a process only looks.
const BUSY: f64 = 0.3;

/// `` `a` reads again at once when the pipe from `b` is empty: 1,838,077 of 1,838,099 reads found nothing (EAGAIN), and it is
/// on a CPU 99 % of the time. `poll` waits for data. ``
pub(crate) fn retries(view: &FindingView<'_>) -> Vec<Finding> {
    let reads = view.readers().map(|found| (found, true));
    let writes = view.writers().map(|found| (found, false));
    let mut found = Vec::new();
    for ((at, channel, end), reads) in reads.chain(writes) {
        let Some(process) = view.process(end) else { continue };
        let (count, all) = (end.eagain, end.all_calls());
        let on_cpu = process.cpu_ns as f64 / process.lived_ns.max(1) as f64;
        let processes = process.pids.len().max(1) as u64;
        // It sleeps before each of them instead.
        let naps = process.waits.get(&WaitReason::Timer).map_or(0, |wait| wait.count);
        let naps = !reads && count / processes >= MANY_NAPS && naps as f64 >= RETRIES_SHARE * count as f64;
        let looks = count / processes >= RETRIES_MANY && on_cpu >= BUSY;
        if (count as f64) < RETRIES_SHARE * all as f64 || !naps && !looks {
            continue;
        }
        let (does, channel, state, nothing, awaits) = if reads {
            ("reads", view.pipe_from(channel), "empty", "found nothing", "data")
        } else {
            ("writes", view.pipe_to(channel), "full", "found no room", "room")
        };
        let (name, count_text, all_text) = (view.name(end.process), grouped(count), grouped(all));
        let text = if naps {
            format!(
                "{count_text} of {all_text} writes of {name} found {channel} full (EAGAIN), because {} reads slowly, and it sleeps on \
                 a timer before it tries again. `poll` waits for room.",
                view.names(&view.document.channels[at].readers)
            )
        } else {
            format!(
                "{name} {does} again at once when {channel} is {state}: {count_text} of {all_text} {does} {nothing} (EAGAIN), and it \
                 is on a CPU {} of the time. `poll` waits for {awaits}.",
                percent(on_cpu.min(1.0))
            )
        };
        let finding = Finding::new(FindingKind::Retries, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(count), of: Some(all), ..finding });
    }
    found
}

/// Fewer writes of nothing are no loop, and so much of them is nothing.
const EMPTY_WRITES: u64 = 100_000;
const EMPTY: u64 = 100;

/// `` `push.py` wrote nothing to the pipe to `gzip`, again and again: ... ``
pub(crate) fn empty_writes(view: &FindingView<'_>) -> Vec<Finding> {
    let empty = |(at, channel, end): (usize, &RecordedChannel, &RecordedEnd)| {
        let done = end.all_calls() - end.eagain - end.epipe - end.errors;
        if done < EMPTY_WRITES || end.bytes >= done / EMPTY {
            return None;
        }
        let name = view.name(end.process);
        let why = match end.eagain {
            0 => format!("{name} has to end that loop when nothing is left"),
            refused => format!(
                "before, {} found no room (EAGAIN), and what they had was not written again: it is lost. The same bytes have to be written again \
                 once `poll` says that there is room, or the pipe has to block",
                counted(refused, "write")
            ),
        };
        let text = format!(
            "{name} wrote nothing to {}, again and again: {} writes of 0 bytes, and {} in all; {why}.",
            view.pipe_to(channel),
            grouped(done),
            counted(end.bytes, "byte")
        );
        let finding = Finding::new(FindingKind::Retries, [end.process], text);
        Some(Finding { channels: vec![at], count: Some(done), ..finding })
    };
    view.writers().filter_map(empty).collect()
}

/// Fewer sleeps are no way to read; polls whose time was over are no limit of a rate that somebody wants.
const NAPS_MANY: u64 = 50;
const POLL_NAPS_MANY: u64 = 20;

/// For so many of the reads it sleeps, and for this part of the time there is no room for more.
const EACH: f64 = 0.7;
const FULL: f64 = 0.5;

/// So much of its slots in use, in the mean, is as good as full.
const FILLED: f64 = 0.9;

/// Of the time, so much can be lost to other programs.
const NAPS_BUSY: f64 = 0.8;

/// `` `tail.py` sleeps on a timer after each read (247 times), although the pipe from `cat` is full 90 % of the time ... ``
pub(crate) fn naps(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, channel, end) in view.readers() {
        let Some(process) = view.process(end).filter(|process| rate_limit(process).is_none()) else {
            continue;
        };
        let window = view.document.processes.window_ns.max(1) as f64;
        let full = channel.writers.iter().map(|end| end.blocked_ns).max().unwrap_or(0) as f64 / window;
        let slept = |reason| process.waits.get(&reason).copied().unwrap_or_default();
        let (timer, poll) = (slept(WaitReason::Timer), slept(WaitReason::Poll));
        // Polls that something else ended are no naps.
        let naps = timer.count + if process.timeouts >= poll.count / 2 { process.timeouts } else { 0 };
        let ns = timer.ns + if process.timeouts >= poll.count / 2 { poll.ns } else { 0 };
        let reads = end.all_calls() - end.at_end;
        // On a busy machine, it also waits for a CPU after each.
        let asleep = FULL * (window - (process.runnable_ns as f64).min(NAPS_BUSY * window));
        let slots = channel.slots.map_or(0, |[first, ..]| first);
        let in_use = channel.mean_filled.filter(|filled| slots > 0 && *filled >= FILLED * slots as f64);
        let how_full = match in_use {
            _ if full >= FULL => format!("is full {} of the time", percent(full.min(1.0))),
            Some(filled) => format!("has {filled:.1} of its {slots} slots in use"),
            None => continue,
        };
        let is_slow = (naps as f64) >= EACH * reads as f64 && ns as f64 >= asleep;
        // Another thread can be the one that sleeps, as that of Go's runtime.
        let works = (process.cpu_ns + process.runnable_ns) as f64 >= FULL * window && process.threads > 1;
        let least = if process.timeouts >= POLL_NAPS_MANY { POLL_NAPS_MANY } else { NAPS_MANY };
        if reads < least || naps < least || !is_slow || works || waits_for_data(end, window) {
            continue;
        }
        let text = format!(
            "{} sleeps on a timer between its reads ({}, {} each), although {} {how_full}. It has to read until the \
             pipe is empty, or to wait for data instead (`poll`).",
            view.name(end.process),
            counted(reads, "read"),
            counted(end.bytes / reads.max(1), "byte"),
            view.pipe_from(channel)
        );
        let finding = Finding::new(FindingKind::Naps, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(naps), of: Some(reads), ..finding });
    }
    found
}

/// Of the writes, so many find no room, and so much of the time is from the first to the last one that did.
const IN_VAIN: f64 = 0.5;

/// `` `emacs` tries again and again to write to the pipe to `server.py`: 886 of 905 writes found no room (EAGAIN) ... ``
pub(crate) fn writes_in_vain(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().find_map(|(at, pipe, end)| {
        let process = view.process(end).filter(|_| view.is_one(end.process) && pipe.is_stream())?;
        let (writes, none) = (end.all_calls(), end.eagain);
        let [reader] = &pipe.readers[..] else { return None };
        let reading = view.process(reader).filter(|_| reader.process != end.process)?;
        let slept = |reason| process.waits.get(&reason).copied().unwrap_or_default();
        let (timer, poll) = (slept(WaitReason::Timer), slept(WaitReason::Poll));
        let naps = process.timeouts + timer.count;
        let is_vain = none >= POLL_NAPS_MANY && none as f64 >= IN_VAIN * writes as f64 && 2 * naps >= none;
        let waits = (poll.ns + timer.ns) as f64 >= IN_VAIN * process.lived_ns.max(1) as f64;
        if !is_vain || !waits {
            return None;
        }
        let works = reading.cpu_ns as f64 / view.window();
        let why = if works >= FULL {
            format!("is on a CPU {} of the time and read {}", percent(works.min(1.0)), counted(reader.all_calls(), "time"))
        } else {
            format!("read {}", counted(reader.all_calls(), "time"))
        };
        let (name, other) = (view.name(end.process), view.name(reader.process));
        let text = format!(
            "{name} tries again and again to write to {}: {} of {} found no room (EAGAIN), and it sleeps on a timer in between. {other} {why}, \
             {} of {}. It has to read while it works, as in another thread, or {name} has to go on without it.",
            view.pipe_to(pipe),
            grouped(none),
            counted(writes, "write"),
            grouped(reader.bytes),
            counted(pipe.written(), "byte"),
        );
        let finding = Finding::new(FindingKind::Naps, [end.process, reader.process], text);
        Some(Finding { channels: vec![at], count: Some(none), of: Some(writes), ..finding })
    });
    found.into_iter().collect()
}

fn waits_for_data(end: &RecordedEnd, window: f64) -> bool {
    end.blocked_ns as f64 >= (1.0 - FULL) * window
}

#[cfg(test)]
mod tests {
    #[test]
    fn writes_of_nothing_are_said() {
        let writes = |change: &dyn Fn(&mut RecordedEnd)| {
            said(empty_writes, &|recording| {
                let end = &mut recording.channels[0].writers[0];
                (end.calls, end.eagain) = ([("write".to_owned(), 200_015)].into(), 15);
                change(end);
            })
        };
        let text = "`seq` wrote nothing to the pipe to `grep`, again and again: 200,000 writes of 0 bytes, and 1,000 bytes in all; before, 15 writes \
                    found no room (EAGAIN), and what they had was not written again: it is lost.";
        assert!(writes(&|_| {}).concat().starts_with(text), "{:?}", writes(&|_| {}));
        assert!(writes(&|end| end.bytes = 200_000).is_empty());
        assert!(writes(&|end| end.calls = [("write".to_owned(), 99)].into()).is_empty());
    }

    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{Document, WaitTotal};

    fn reads(recording: &mut Document, at_end: u64, all: u64) {
        let end = &mut recording.channels[1].readers[0];
        (end.at_end, end.calls) = (at_end, [("read".to_owned(), all)].into());
    }

    #[test]
    fn many_reads_at_the_end_are_said() {
        let text = "1,838,077 of 1,838,078 reads of `cat` from the pipe from `grep` got the end of file: nobody has its write \
                    end open. It has to stop there.";
        assert_eq!(said(at_end, &|recording| reads(recording, 1_838_077, 1_838_078)), [text]);
    }

    #[test]
    fn one_end_for_each_process_and_a_few_of_many_reads_are_not() {
        assert!(said(at_end, &|recording| reads(recording, 1, 2)).is_empty());
        assert!(said(at_end, &|recording| reads(recording, 1000, 100_000)).is_empty());
        let several = said(at_end, &|recording| {
            reads(recording, 5000, 10_000);
            recording.recorded[2].pids = (0..5000).collect();
        });
        assert!(several.is_empty(), "each of them read to the end");
        let looks = |at_end: u64, all: u64| said(super::at_end, &|recording| reads(recording, at_end, all));
        assert!(looks(588, 589)[0].starts_with("588 of 589 reads of `cat` from"), "{:?}", looks(588, 589));
        assert!(looks(49, 49).is_empty() && looks(500, 600).is_empty());
    }

    fn polled(recording: &mut Document, all: u64, of_it: u64, reads: u64) {
        recording.recorded[1].ready_polls = all;
        let end = &mut recording.channels[0].readers[0];
        (end.ready_polls, end.bytes, end.calls) = (of_it, 0, [("read".to_owned(), reads)].into());
    }

    #[test]
    fn polls_for_data_that_is_never_read_are_said() {
        let text = "`grep` polled 1,506,359 times for the pipe from `seq`, which has data, and never reads it. It has to read that, or not to poll for it meanwhile.";
        assert_eq!(said(polls, &|recording| polled(recording, 1_506_359, 1_506_304, 0)), [text]);
        let attached = said(polls, &|recording| {
            polled(recording, 20_000, 19_968, 0);
            recording.channels[0].writers.clear();
            recording.target = crate::result::MeasuredTarget::Attached { pids: vec![2], group: None };
        });
        assert!(attached[0].contains("which has no writer any more: poll returns at once (POLLHUP)"), "{attached:?}");
        let own = said(polls, &|recording| {
            polled(recording, 20_000, 19_968, 0);
            recording.channels[0].writers[0].process = 1;
        });
        assert_eq!(
            own,
            [
                "`grep` polled 20,000 times for a pipe, which has data, and never reads it. It has to read that, or not to poll for it meanwhile."
            ]
        );
    }

    #[test]
    fn polls_for_a_pipe_that_has_ended_are_said() {
        let ended = said(polls, &|recording| {
            polled(recording, 1_506_359, 1_506_304, 20);
            recording.channels[0].readers[0].bytes = 1000;
            recording.recorded[0].end_ns = 1000;
        });
        let text = "`grep` polled 1,506,359 times for the pipe from `seq`, which has no writer any more: poll returns at once \
                    (POLLHUP), and `grep` does not close its end.";
        assert_eq!(ended, [text]);
    }

    #[test]
    fn a_program_that_reads_what_it_polls_for_is_not() {
        assert!(said(polls, &|recording| polled(recording, 1_000_000, 999_936, 900_000)).is_empty());
        assert!(said(polls, &|recording| polled(recording, 500, 448, 0)).is_empty(), "few");
        assert!(
            said(polls, &|recording| polled(recording, 1_000_000, 64, 0)).is_empty(),
            "it polls for something else"
        );
    }

    fn looks(recording: &mut Document, eagain: u64, all: u64, cpu: f64) {
        let process = &mut recording.recorded[1];
        (process.lived_ns, process.cpu_ns) = (WINDOW, (cpu * WINDOW as f64) as u64);
        let end = &mut recording.channels[0].readers[0];
        (end.eagain, end.calls) = (eagain, [("read".to_owned(), all)].into());
    }

    #[test]
    fn what_is_tried_again_at_once_is_said() {
        let text = "`grep` reads again at once when the pipe from `seq` is empty: 1,838,077 of 1,838,099 reads found nothing \
                    (EAGAIN), and it is on a CPU 99 % of the time. `poll` waits for data.";
        assert_eq!(said(retries, &|recording| looks(recording, 1_838_077, 1_838_099, 0.99)), [text]);
        let written = said(retries, &|recording| {
            looks(recording, 0, 20, 0.9);
            let end = &mut recording.channels[1].writers[0];
            (end.eagain, end.calls) = (90_000, [("write".to_owned(), 90_020)].into());
        });
        assert!(written[0].contains("when the pipe to `cat` is full: 90,000 of 90,020 writes"), "{written:?}");
    }

    #[test]
    fn naps_before_each_try_are_said() {
        let naps = |count: u64| {
            said(retries, &|recording| {
                recording.recorded[1].waits = [(WaitReason::Timer, WaitTotal { ns: 1, count })].into();
                let end = &mut recording.channels[1].writers[0];
                (end.eagain, end.calls) = (2192, [("write".to_owned(), 2300)].into());
            })
        };
        let text = "2,192 of 2,300 writes of `grep` found the pipe to `cat` full (EAGAIN), because `cat` reads slowly, and it sleeps \
                    on a timer before it tries again. `poll` waits for room.";
        assert_eq!(naps(2190), [text]);
        assert!(naps(100).is_empty(), "it waits otherwise");
    }

    #[test]
    fn who_waits_in_between_is_not() {
        for (eagain, all, cpu) in [(500, 510, 0.9), (50_000, 100_000, 0.9), (90_000, 100_000, 0.1)] {
            assert!(said(retries, &|recording| looks(recording, eagain, all, cpu)).is_empty());
        }
    }

    /// `grep` reads 247 times and sleeps as often.
    fn slow(reason: WaitReason, change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(naps, &|recording| {
            let process = &mut recording.recorded[1];
            process.waits = [(reason, WaitTotal { ns: WINDOW / 10 * 9, count: 247 })].into();
            let channel = &mut recording.channels[0];
            channel.writers[0].blocked_ns = WINDOW / 10 * 9;
            let end = &mut channel.readers[0];
            (end.bytes, end.calls) = (247 * 4096, [("read".to_owned(), 247)].into());
            change(recording);
        })
    }

    #[test]
    fn sleeps_between_reads_are_said() {
        let text = "`grep` sleeps on a timer between its reads (247 reads, 4,096 bytes each), although the pipe from `seq` is full 90 % \
                    of the time. It has to read until the pipe is empty, or to wait for data instead (`poll`).";
        assert_eq!(slow(WaitReason::Timer, &|_| {}), [text]);
        assert_eq!(slow(WaitReason::Poll, &|recording| recording.recorded[1].timeouts = 247), [text]);
        let filled = slow(WaitReason::Timer, &|recording| {
            (recording.channels[0].mean_filled, recording.channels[0].writers[0].blocked_ns) = (Some(15.25), 0);
        });
        assert!(
            filled.concat().contains("although the pipe from `seq` has 15.2 of its 16 slots in use."),
            "{filled:?}"
        );
    }

    #[test]
    fn writes_that_find_no_room_are_said() {
        let tries = |change: &dyn Fn(&mut Document)| {
            said(writes_in_vain, &|recording| {
                let process = &mut recording.recorded[0];
                (process.timeouts, process.lived_ns) = (900, WINDOW);
                process.waits = [(WaitReason::Poll, WaitTotal { ns: WINDOW / 10 * 9, count: 900 })].into();
                recording.recorded[1].cpu_ns = WINDOW / 10 * 9;
                let channel = &mut recording.channels[0];
                let end = &mut channel.writers[0];
                (end.calls, end.eagain, end.bytes) = ([("write".to_owned(), 905)].into(), 886, 73_810);
                (channel.readers[0].calls, channel.readers[0].bytes) = ([("read".to_owned(), 3)].into(), 8274);
                change(recording);
            })
        };
        let text = "`seq` tries again and again to write to the pipe to `grep`: 886 of 905 writes found no room (EAGAIN), and it sleeps on a timer in \
                    between. `grep` is on a CPU 90 % of the time and read 3 times, 8,274 of 73,810 bytes. It has to read while it works, as in another \
                    thread, or `seq` has to go on without it.";
        assert_eq!(tries(&|_| {}), [text]);
        for change in [
            (&|recording: &mut Document| recording.recorded[0].timeouts = 9) as &dyn Fn(&mut Document),
            &|recording| recording.channels[0].writers[0].eagain = 300,
            &|recording| recording.recorded[0].waits.clear(),
        ] {
            assert!(tries(change).is_empty());
        }
    }

    #[test]
    fn other_waits_are_not() {
        assert!(slow(WaitReason::Poll, &|_| {}).is_empty(), "a socket ended them");
        assert!(slow(WaitReason::Disk, &|_| {}).is_empty());
        let silent: [&dyn Fn(&mut Document); 3] = [
            &|recording| recording.channels[0].writers[0].blocked_ns = 0,
            &|recording| {
                let process = &mut recording.recorded[1];
                (process.name, process.args) = ("pv".to_owned(), ["pv", "-L", "1M"].map(str::to_owned).to_vec());
            },
            &|recording| recording.channels[0].readers[0].calls = [("read".to_owned(), 9000)].into(),
        ];
        for change in silent {
            let found = slow(WaitReason::Timer, change);
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

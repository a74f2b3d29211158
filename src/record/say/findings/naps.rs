//! A reader that sleeps on a timer between its reads, although there is data.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, RecordedEnd, WaitReason};
use crate::util::text::counted;

/// Fewer sleeps are no way to read.
const MANY: u64 = 50;

/// For so many of the reads it sleeps, and for this part of the time there is no room for more.
const EACH: f64 = 0.7;
const FULL: f64 = 0.5;

/// Of the time, so much can be lost to other programs.
const BUSY: f64 = 0.8;

/// These are to read slowly.
const LIMITERS: [&str; 4] = ["pv", "throttle", "trickle", "cstream"];

/// `` `tail.py` sleeps on a timer after each read (247 times), although the pipe from `cat` is full 90 % of the time ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, channel, end) in view.readers() {
        let Some(process) = view.process(end).filter(|process| !LIMITERS.contains(&process.name.as_str())) else {
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
        let asleep = FULL * (window - (process.runnable_ns as f64).min(BUSY * window));
        let is_slow = (naps as f64) >= EACH * reads as f64 && ns as f64 >= asleep && full >= FULL;
        // Another thread can be the one that sleeps, as that of Go's runtime.
        let works = (process.cpu_ns + process.runnable_ns) as f64 >= FULL * window && process.threads > 1;
        if reads < MANY || naps < MANY || !is_slow || works || waits_for_data(end, window) {
            continue;
        }
        let text = format!(
            "{} sleeps on a timer between its reads ({}, {} each), although {} is full {} of the time. It has to read until the \
             pipe is empty, or to wait for data instead (`poll`).",
            view.name(end.process),
            counted(reads, "read"),
            counted(end.bytes / reads.max(1), "byte"),
            view.pipe_from(channel),
            percent(full.min(1.0))
        );
        let finding = Finding::new(FindingKind::Naps, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(naps), of: Some(reads), ..finding });
    }
    found
}

fn waits_for_data(end: &RecordedEnd, window: f64) -> bool {
    end.blocked_ns as f64 >= (1.0 - FULL) * window
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{Document, WaitTotal};

    /// `grep` reads 247 times and sleeps as often.
    fn slow(reason: WaitReason, change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
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
    }

    #[test]
    fn other_waits_are_not() {
        assert!(slow(WaitReason::Poll, &|_| {}).is_empty(), "a socket ended them");
        assert!(slow(WaitReason::Disk, &|_| {}).is_empty());
        let silent: [&dyn Fn(&mut Document); 3] = [
            &|recording| recording.channels[0].writers[0].blocked_ns = 0,
            &|recording| recording.recorded[1].name = "pv".to_owned(),
            &|recording| recording.channels[0].readers[0].calls = [("read".to_owned(), 9000)].into(),
        ];
        for change in silent {
            let found = slow(WaitReason::Timer, change);
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

//! Calls that are made again at once, because a channel does not block and was empty or full.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, WaitReason};
use crate::util::text::grouped;

/// Fewer are no load, and a smaller part of the calls is what a program finds that empties a channel.
const MANY: u64 = 1000;
const SHARE: f64 = 0.6;

/// The same if it sleeps before each.
const MANY_NAPS: u64 = 100;

/// From this part of its life on a CPU, a process only looks.
const BUSY: f64 = 0.3;

/// `` `a` reads again at once when the pipe from `b` is empty: 1,838,077 of 1,838,099 reads found nothing (EAGAIN), and it is
/// on a CPU 99 % of the time. `poll` waits for data. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
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
        let naps = !reads && count / processes >= MANY_NAPS && naps as f64 >= SHARE * count as f64;
        let looks = count / processes >= MANY && on_cpu >= BUSY;
        if (count as f64) < SHARE * all as f64 || !naps && !looks {
            continue;
        }
        let (calls, does, channel, state, nothing, awaits) = if reads {
            ("reads", "reads", view.pipe_from(channel), "empty", "found nothing", "data")
        } else {
            ("writes", "writes", view.pipe_to(channel), "full", "found no room", "room")
        };
        if naps {
            let text = format!(
                "{} of {} writes of {} found {channel} full (EAGAIN), because {} reads slowly, and it sleeps on a timer before it \
                 tries again. `poll` waits for room.",
                grouped(count),
                grouped(all),
                view.name(end.process),
                view.names(&view.document.channels[at].readers)
            );
            let finding = Finding::new(FindingKind::Retries, [end.process], text);
            found.push(Finding { channels: vec![at], count: Some(count), of: Some(all), ..finding });
            continue;
        }
        let text = format!(
            "{} {does} again at once when {channel} is {state}: {} of {} {calls} {nothing} (EAGAIN), and it is on a CPU {} of \
             the time. `poll` waits for {awaits}.",
            view.name(end.process),
            grouped(count),
            grouped(all),
            percent(on_cpu.min(1.0))
        );
        let finding = Finding::new(FindingKind::Retries, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(count), of: Some(all), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{Document, WaitTotal};

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
        assert_eq!(said(find, &|recording| looks(recording, 1_838_077, 1_838_099, 0.99)), [text]);
        let written = said(find, &|recording| {
            looks(recording, 0, 20, 0.9);
            let end = &mut recording.channels[1].writers[0];
            (end.eagain, end.calls) = (90_000, [("write".to_owned(), 90_020)].into());
        });
        assert!(written[0].contains("when the pipe to `cat` is full: 90,000 of 90,020 writes"), "{written:?}");
    }

    #[test]
    fn naps_before_each_try_are_said() {
        let naps = |count: u64| {
            said(find, &|recording| {
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
            assert!(said(find, &|recording| looks(recording, eagain, all, cpu)).is_empty());
        }
    }
}

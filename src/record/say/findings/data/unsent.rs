//! Bytes that were to be written and were not, because a channel was full and the writer does not wait.

use crate::record::say::findings::ends::why::unready_by;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedEnd};
use crate::util::text::{counted, grouped};

/// Programs of several threads of which only one writes to pipes.
const ONE_WRITES: [&str; 4] = ["node", "nodejs", "node-MainThread", "bun"];

/// `` `python3` ended with at least 34,464 bytes unsent: its last write to the pipe to `cat` failed with EAGAIN, because the pipe was
/// full and does not block (O_NONBLOCK). ``
pub(crate) fn unsent(view: &FindingView<'_>) -> Vec<Finding> {
    let is_excerpt = view.document.is_excerpt();
    let mut found = Vec::new();
    for (at, pipe, end) in view.writers() {
        let Some(process) = view.process(end) else { continue };
        // Of several threads or processes, another one may have written it; node's do not, nor do processes of which each has a
        // channel and a time of its own.
        let is_one = process.is_one() || process.lived_ns <= process.end_ns.saturating_sub(process.begin_ns);
        let one_writes = process.threads <= process.pids.len() as u64 || ONE_WRITES.contains(&process.name.as_str());
        let aborted = process.signal == Some(libc::SIGABRT.cast_unsigned());
        let alone = is_one && (process.signal.is_none() || aborted) && one_writes;
        // Who gets the end of file can end before the writer has.
        let to_end = pipe.readers.iter().any(|reader| reader.at_end > 0);
        let is_read = to_end || view.readers_ended(pipe, process.end_ns).is_none();
        if end.unsent == 0 || end.eagain + end.short == 0 || end.epipe > 0 || !alone || is_excerpt || !is_read {
            continue;
        }
        // What ended the recording has cut its last write.
        if rest_dropped(end) > 0 || view.document.ended_by_interruption(process.end_ns) {
            continue;
        }
        let (noun, readers) = (pipe.kind.noun(), &pipe.readers);
        let (name, pipe, bytes) = (view.name(end.process), view.pipe_to(pipe), counted(end.unsent, "byte"));
        let how = if end.eagain > 0 { "failed with EAGAIN" } else { "wrote only a part" };
        let by = unready_by(view, end.process);
        // Who starts what writes to it makes the pipe.
        let maker = process.started_by.filter(|by| matches!(&readers[..], [reader] if reader.process == *by));
        let also = match maker.filter(|_| by.is_none()) {
            _ if ONE_WRITES.contains(&process.name.as_str()) && process.exit_code.is_some() && process.errors > 0 => {
                ": in node, a write that throws EAGAIN (`writeSync`) has to be repeated, or to be one that waits (`process.stdout.write`)".to_owned()
            }
            _ if ONE_WRITES.contains(&process.name.as_str()) => {
                ": in node, `process.exitCode` instead of `process.exit()` does".to_owned()
            }
            Some(maker) => format!(", or {}, which started it, to give it an end that blocks", view.name(maker)),
            None => String::new(),
        };
        let text = format!(
            "{name} {} with at least {bytes} unsent: its last write to {pipe} {how}, because the {noun} was full and does not \
             block (O_NONBLOCK){}. It has to write on when there is room before it ends{also}.",
            if aborted { "aborted" } else { "ended" },
            by.unwrap_or_default()
        );
        let finding = Finding::new(FindingKind::Unsent, [end.process], text);
        found.push(Finding { channels: vec![at], bytes: Some(end.unsent), at_ns: Some(process.end_ns), ..finding });
    }
    found
}

/// A write in which a process ends has not ended so long before, ns.
const AT_END_NS: u64 = 10_000_000;

/// `` `relay` ended at 3.89 s while one of its threads was in a write to the pipe to `client.py`: ... ``
pub(crate) fn cut_by_own_end(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let process = view.process(end).filter(|process| process.has_threads() && process.signal.is_none())?;
        // A blocking write ends with a part only if its process does, or for a signal.
        let is_cut = end.unsent > 0 && end.eagain == 0 && end.short > 0 && end.epipe == 0 && pipe.is_stream();
        let is_last = end.moved_ns.is_some_and(|[_, last]| process.end_ns < last + AT_END_NS) && view.is_one(end.process);
        let is_read = view.readers_ended(pipe, process.end_ns).is_none();
        let was_told = process.told_to_end_ns.is_some() || view.document.ended_by_interruption(process.end_ns);
        if !is_cut || !is_last || !is_read || was_told || view.document.is_excerpt() {
            return None;
        }
        let mut inputs = view.readers().filter(|(_, _, input)| input.process == end.process && input.bytes > end.bytes);
        let [name, to] = [view.name(end.process), view.pipe_to(pipe)];
        let read = inputs.next().filter(|_| inputs.next().is_none()).map(|(_, from, input)| {
            let [read, wrote] = [input.bytes, end.bytes].map(|bytes| counted(bytes, "byte"));
            format!(" It had read {read} of {} and written {wrote}.", view.pipe_from(from))
        });
        let text = format!(
            "{name} ended at {} while one of its threads was in a write to {to}, which was full: at least {} of that are lost.{} Its main thread \
             has to wait for that one before it ends.",
            after(process.end_ns),
            counted(end.unsent, "byte"),
            read.unwrap_or_default()
        );
        let finding = Finding::new(FindingKind::Unsent, [end.process], text);
        Some(Finding { channels: vec![at], bytes: Some(end.unsent), at_ns: Some(process.end_ns), ..finding })
    });
    found.take(1).collect()
}

/// Writes of which a part was left and which were not followed by exactly that part; the last one may have been to be.
fn rest_dropped(end: &RecordedEnd) -> u64 {
    let left = (end.short + end.eagain).saturating_sub(u64::from(end.unsent > 0));
    // Nothing went on if nothing was written behind the only part.
    let nothing_later = end.short == 1 && end.all_calls() == end.short + end.eagain;
    if end.short == 0 || nothing_later { 0 } else { left.saturating_sub(end.resumed) }
}

/// `` Of 714 writes of `serena` to the pipe to `opencode`, 13 wrote only a part and 433 nothing (EAGAIN), ... ``
pub(crate) fn rests(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let process = view.process(end).filter(|process| process.is_one() && process.threads <= 1)?;
        // Vectors and splices have requests that are not known, or need not be repeated.
        let plain = end.calls.get("write").copied().unwrap_or_default();
        let dropped = rest_dropped(end);
        // Without EAGAIN, the reader can have closed it in the middle of a write.
        let is_refused = end.eagain == 0 && (end.epipe > 0 || process.signal.is_some());
        if is_refused || dropped == 0 || plain < end.all_calls() || end.requested == 0 || process.moves_unseen() {
            return None;
        }
        let by = unready_by(view, end.process).unwrap_or_default();
        let whole = if end.eagain > 0 { format!(" and {} nothing (EAGAIN)", grouped(end.eagain)) } else { String::new() };
        let text = format!(
            "Of {} of {} to {}, {} wrote only a part{whole}, because the {} was full and does not block (O_NONBLOCK){by}. {}, it went \
             on with something else than the rest: lines are cut and run into each other. It has to write the rest when `poll` finds \
             room, or to keep that descriptor blocking.",
            counted(end.all_calls(), "write"),
            view.name(end.process),
            view.pipe_to(pipe),
            grouped(end.short),
            pipe.kind.noun(),
            counted(dropped, "time")
        );
        let finding = Finding::new(FindingKind::Torn, [end.process], text);
        Some(Finding { channels: vec![at], count: Some(dropped), of: Some(end.all_calls()), ..finding })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, said_after, silent};
    use crate::result::Document;

    fn cut(recording: &mut Document) {
        let end = &mut recording.channels[0].writers[0];
        (end.unsent, end.eagain) = (34_464, 1);
    }

    #[test]
    fn bytes_that_a_program_left_are_said() {
        let text = "`seq` ended with at least 34,464 bytes unsent: its last write to the pipe to `grep` failed with EAGAIN, because the \
                    pipe was full and does not block (O_NONBLOCK). It has to write on when there is room before it ends.";
        assert_eq!(said(unsent, &cut), [text]);
        let node = said_after(unsent, &cut, &|recording| recording.recorded[0].name = "node".to_owned());
        assert!(
            node[0].ends_with("before it ends: in node, `process.exitCode` instead of `process.exit()` does."),
            "{node:?}"
        );
        let aborted = said_after(unsent, &cut, &|recording| recording.recorded[0].signal = Some(6));
        assert!(aborted[0].starts_with("`seq` aborted with at least 34,464 bytes unsent: "), "{aborted:?}");
        let started = said_after(unsent, &cut, &|recording| recording.recorded[0].started_by = Some(1));
        assert!(
            started[0].ends_with("before it ends, or `grep`, which started it, to give it an end that blocks."),
            "{started:?}"
        );
        let part = said(unsent, &|recording| {
            cut(recording);
            (recording.channels[0].writers[0].eagain, recording.channels[0].writers[0].short) = (0, 1);
        });
        assert!(part[0].contains("wrote only a part"), "{part:?}");
        let soon = said(unsent, &|recording| {
            cut(recording);
            recording.channels[0].readers[0].at_end = 1;
            recording.recorded[1].end_ns = recording.recorded[0].end_ns - 100;
        });
        assert_eq!(soon, [text]);
    }

    #[test]
    fn who_wrote_all_in_the_end_or_was_ended_is_not() {
        silent(
            &|change| said_after(unsent, &cut, change),
            &[
                &|recording| recording.channels[0].writers[0].unsent = 0,
                &|recording| recording.recorded[0].signal = Some(13),
                &|recording| recording.recorded[1].end_ns = 0,
                &|recording| (recording.recorded[0].pids, recording.recorded[0].lived_ns) = (vec![1, 2], u64::MAX),
                &|recording| recording.duration_ns = Some(1),
            ],
        );
    }

    #[test]
    fn a_thread_that_still_wrote_when_its_process_ended_is_said() {
        let cut = |recording: &mut Document| {
            let end = &mut recording.channels[0].writers[0];
            (end.unsent, end.short, end.moved_ns) = (20_480, 1, Some([0, 100]));
            (recording.recorded[0].threads, recording.recorded[0].end_ns) = (5, 200);
        };
        let text = "`seq` ended at 0.20 µs while one of its threads was in a write to the pipe to `grep`, which was full: at least 20,480 bytes of \
                    that are lost. Its main thread has to wait for that one before it ends.";
        assert_eq!(said(cut_by_own_end, &cut), [text]);
        silent(
            &|change| said_after(cut_by_own_end, &cut, change),
            &[
                &|recording| recording.recorded[0].threads = 1,
                &|recording| recording.recorded[0].end_ns = 50_000_000,
                &|recording| recording.recorded[0].signal = Some(13),
                &|recording| recording.interrupted_ns = Some(0),
                &|recording| recording.channels[0].writers[0].eagain = 1,
            ],
        );
    }

    #[test]
    fn rests_that_were_not_written_are_said() {
        let writes = |change: &dyn Fn(&mut RecordedEnd)| {
            let cut = |recording: &mut Document| {
                let end = &mut recording.channels[0].writers[0];
                (end.short, end.eagain, end.resumed, end.requested) = (13, 433, 2, 90_000);
                end.calls = [("write".to_owned(), 714)].into();
                change(end);
            };
            [said(rests, &cut), said(unsent, &cut)].concat()
        };
        let text = "Of 714 writes of `seq` to the pipe to `grep`, 13 wrote only a part and 433 nothing (EAGAIN), because the pipe was full and \
                    does not block (O_NONBLOCK). 444 times, it went on with something else than the rest: lines are cut and run into each \
                    other. It has to write the rest when `poll` finds room, or to keep that descriptor blocking.";
        assert_eq!(writes(&|_| {}), [text]);
        assert!(writes(&|end| end.resumed = 446).is_empty());
        assert!(writes(&|end| end.short = 0).is_empty(), "only whole writes were left out");
        assert!(writes(&|end| end.calls = [("splice".to_owned(), 714)].into()).is_empty());
        // If only the last write was short, `unsent` says it.
        let last = writes(&|end| (end.short, end.eagain, end.resumed, end.unsent) = (1, 0, 0, 5000));
        assert!(last.len() == 1 && last[0].contains("ended with at least 5,000 bytes unsent"), "{last:?}");
    }
}

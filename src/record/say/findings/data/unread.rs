//! Bytes that were not read or not written: a part was taken for all.

use crate::record::say::findings::data::torn::LONGEST;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::by_others;
use crate::result::{
    ChannelKind, Document, Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess, WaitReason, WaitedFor,
};
use crate::util::text::{clean, counted, grouped};
use std::collections::BTreeMap;

/// A channel that was not read to its end.
struct LeftChannel {
    at: usize,
    lost: u64,
    written: u64,
}

/// `` `main` closed the pipe from `worker` before it had read all: 12,345 of 60,000 bytes that were written are lost. ``
///
/// In `seq | head`, that is how it ought to be: only who has started the writer wants its output.
pub(crate) fn unread(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    // Of several pipes between the same processes, one sentence says all.
    let mut left: BTreeMap<(usize, String), Vec<LeftChannel>> = BTreeMap::new();
    for (at, channel) in document.channels.iter().enumerate() {
        let written = channel.written();
        let read = channel.read();
        let [reader] = &channel.readers[..] else { continue };
        let Some(process) = view.process(reader) else { continue };
        let started = |writer: &RecordedProcess| {
            process.forks > 0 && process.stage == writer.stage && process.begin_ns <= writer.begin_ns
        };
        // Who ends it wants no more.
        let started = |writer: &RecordedProcess| started(writer) && !by_others(writer);
        // Who has both ends keeps something in it: a job server its tokens.
        let is_of_children = channel
            .writers
            .iter()
            .all(|end| end.process != reader.process && end.epipe == 0 && view.process(end).is_some_and(started));
        let is_seen = document.skipped == 0 && !document.is_excerpt() && channel.other_readers.is_empty();
        // What is left between processes that execute the same program may be how they say that they end.
        let is_farewell = written.saturating_sub(read) < FAREWELL
            && channel
                .writers
                .iter()
                .all(|end| view.process(end).is_some_and(|of| of.name == process.name && of.execs == 0));
        if written <= read
            || waits_at_end(view, reader)
            || !is_seen
            || !is_of_children
            || reader.at_end > 0
            || ended_terminal(channel, reader)
            || is_ended(reader, process)
            || document.ended_by_interruption(process.end_ns)
            || is_first_block(reader, process)
            || is_farewell
        {
            continue;
        }
        left.entry((reader.process, view.pipe_from(channel))).or_default().push(LeftChannel {
            at,
            lost: written - read,
            written,
        });
    }
    let closed = left.into_iter().map(|((reader, from), channels)| {
        let sum = |of: fn(&LeftChannel) -> u64| channels.iter().map(of).sum::<u64>();
        let (lost, written) = (sum(|left| left.lost), sum(|left| left.written));
        // A signal that ended it later leaves open whether it had closed it.
        let is_killed = document.recorded.get(reader).is_some_and(|process| process.signal.is_some());
        let does = if is_killed { "left" } else { "closed" };
        let what = match (&channels[..], from.strip_prefix("the ")) {
            ([_, _, ..], Some(one)) => format!("{} times a {one}", grouped(channels.len() as u64)),
            _ => from,
        };
        let text = format!(
            "{} {does} {what} before it had read all: {} of {} that were written are lost. It has to read until the end of file: \
             the end of a child is not that of its output.",
            view.name(reader),
            grouped(lost),
            counted(written, "byte")
        );
        let channels = channels.into_iter().map(|left| left.at).collect();
        Finding { channels, bytes: Some(lost), ..Finding::new(FindingKind::Unread, [reader], text) }
    });
    let mut found: Vec<Finding> = closed.collect();
    found.extend(thrown_away(view));
    let of_channel = |(at, channel)| in_fifo(view, at, channel).or_else(|| left_early(view, at, channel));
    found.extend(document.channels.iter().enumerate().filter_map(of_channel));
    found
}

/// `` `node a.js` closed the socket from `sh` when `sh` had ended, but `sh (4711)`, which `sh` had started, wrote there later ... ``
fn left_early(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    let all = &view.document.recorded;
    let ([reader], false) = (&channel.readers[..], view.document.is_excerpt()) else { return None };
    let reading = view.process(reader).filter(|process| process.signal.is_none())?;
    if reader.at_end > 0 || !channel.other_readers.is_empty() {
        return None;
    }
    let ended_well = |of: &RecordedProcess| of.signal.is_none() && of.is_one();
    let child =
        all.iter().position(|of| of.output == Some(at) && of.started_by == Some(reader.process) && ended_well(of))?;
    let refused = |of: &RecordedProcess| {
        let own = of.output.is_none_or(|output| output == at) && of.started_by == Some(child);
        own && of.signal == Some(libc::SIGPIPE.cast_unsigned()) && of.end_ns > all[child].end_ns
    };
    let late = all.iter().position(refused).filter(|late| *late != child)?;
    if reading.end_ns <= all[child].end_ns {
        return None;
    }
    let (name, first, second) = (view.name(reader.process), view.name(child), view.name(late));
    let text = format!(
        "{name} did not read {} to its end: {first} ended at {}, but {second}, which it had started, still wrote there and was ended by \
         SIGPIPE at {}: its output is lost. The end of a child is not that of its output: the end of file is, and `close` in node, not \
         `exit`.",
        view.pipe_from(channel),
        after(all[child].end_ns),
        after(all[late].end_ns)
    );
    let finding = Finding::new(FindingKind::Unread, [reader.process, child, late], text);
    Some(Finding { channels: vec![at], at_ns: Some(all[late].end_ns), ..finding })
}

/// What was left in a FIFO when a reader closed it, to open it again.
fn in_fifo(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    let document = view.document;
    let (written, read) = (channel.written(), channel.read());
    let path = opening(document, channel);
    let opens = path.is_some();
    let opened_again = |end: &RecordedEnd| {
        let waits = view.process(end).and_then(|process| process.waits.get(&WaitReason::Open));
        waits.is_some_and(|wait| wait.count >= 2)
    };
    let killed = |end: &RecordedEnd| view.process(end).is_some_and(|process| process.signal.is_some());
    let is_over = !document.is_excerpt() && !channel.readers.iter().any(killed) || opens;
    let is_seen = document.skipped == 0 && channel.other_readers.is_empty() && channel.other_writers.is_empty();
    let is_lost =
        is_seen && is_over && written > read && read > 0 && (opens || channel.readers.iter().any(opened_again));
    if channel.kind != ChannelKind::Fifo || !is_lost {
        return None;
    }
    let name = path.map_or_else(String::new, |path| format!(" `{}`", clean(&path)));
    let text = format!(
        "{} of {} that were written to the FIFO{name} were never read: what is in it is lost when nobody has it open, and {} \
         opens it again each time. Who keeps it open gets all (`exec 3<>FIFO`, or the redirection behind the loop's `done`).",
        grouped(written - read),
        counted(written, "byte"),
        view.names(&channel.readers)
    );
    let finding = Finding::new(FindingKind::FifoLost, channel.readers.iter().map(|end| end.process), text);
    Some(Finding { channels: vec![at], bytes: Some(written - read), ..finding })
}

/// The path of a FIFO of which a reader still waits until it is open: then nobody has it open for writing.
fn opening(document: &Document, channel: &RecordedChannel) -> Option<String> {
    let waits = document.last_look.iter().flat_map(|look| &look.waits);
    let reads = |at: usize| channel.readers.iter().any(|end| end.process == at);
    waits.filter(|wait| wait.process.recorded.is_some_and(reads)).find_map(|wait| match &wait.awaited {
        WaitedFor::Opening { path, writes: false, .. } => Some(path.clone()),
        _ => None,
    })
}

/// Fewer bytes of a copy of the reader itself are not missed: `concurrent.futures` leaves the last message of each worker.
const FAREWELL: u64 = 1024;

/// How much more than has come is asked for at least.
const MUCH: u64 = 1 << 16;

/// Buffers are of whole pages. Who fills one, as `grep -q` does, may have found what it sought.
const PAGE: u64 = 4096;

/// Programs whose short reads have a finding of their own.
const OTHERS: [&str; 1] = ["dd"];

/// `` The last read of `main` from the pipe from `worker` got 237,568 bytes less than it had asked for, ... ``
pub(crate) fn part_read(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || document.skipped > 0 || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let channels = document.channels.iter().enumerate();
    // If the reader failed, the finding of its failure says this.
    let is_over = |found: &Finding| {
        found.processes.iter().all(|at| document.recorded.get(*at).is_some_and(|process| process.exit_code.is_none()))
    };
    let found = channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..part(view, channel)? }));
    found.filter(is_over).collect()
}

/// `: its last read of the pipe from `gzip -dc` got 65,536 bytes, 196,608 less than it had asked for, ...`: why a program failed that took
/// that for the end.
pub(crate) fn short_input(view: &FindingView<'_>, at: usize) -> Option<String> {
    let input = view.document.channels.get(view.document.recorded.get(at)?.input?)?;
    let found = part(view, input).filter(|found| found.processes == [at])?;
    Some(format!(
        ": its last read of {} got {} less than it had asked for, and it took that for the end. A read gives what is there, and has to be \
         repeated until it gives 0 bytes",
        view.pipe_from(input),
        counted(found.bytes?, "byte")
    ))
}

fn part(view: &FindingView<'_>, channel: &RecordedChannel) -> Option<Finding> {
    let reading: Vec<&RecordedEnd> = channel.readers.iter().filter(|end| end.all_calls() > 0).collect();
    let [end] = reading[..] else { return None };
    let reader = view.process(end)?;
    let window = view.document.processes.window_ns;
    let is_over = reader.signal.is_none() && reader.is_one() && reader.end_ns <= window && !reader.moves_unseen();
    if !is_over || end.at_end > 0 || end.unsent < MUCH || OTHERS.contains(&reader.name.as_str()) || end.eagain > 0 {
        return None;
    }
    let written = channel.written();
    let to_write: u64 = channel.writers.iter().map(|end| end.requested).sum();
    // Who fails then did not want a part only.
    let knows_how_much = end.requested == to_write || !end.requested.is_multiple_of(PAGE) || reader.exit_code.is_some();
    if end.all_calls() > 1 || !knows_how_much {
        return None;
    }
    let broke = |end: &RecordedEnd| {
        let signal = view.process(end).and_then(|process| process.signal);
        end.epipe > 0 || signal == Some(libc::SIGPIPE.cast_unsigned())
    };
    let refused = channel.writers.iter().find(|end| broke(end));
    let rest = match (refused, written.saturating_sub(end.bytes)) {
        (Some(writer), _) => format!("what {} had still to write was refused (EPIPE)", view.name(writer.process)),
        (None, 0) => return None,
        (None, lost) => format!("{} of {} that were written are lost", grouped(lost), counted(written, "byte")),
    };
    let text = format!(
        "The last read of {} from {} got {} less than it had asked for, because no more had come by then, and it read no \
         more: {rest}. A read has to be repeated until all is there, or the end of file.",
        view.name(end.process),
        view.pipe_from(channel).trim_start_matches("from "),
        counted(end.unsent, "byte")
    );
    Some(Finding { bytes: Some(end.unsent), ..Finding::new(FindingKind::Unread, [end.process], text) })
}

/// Whether a signal ended a process that may still have been reading, also by a handler.
fn is_ended(reader: &RecordedEnd, process: &RecordedProcess) -> bool {
    let last = reader.moved_ns.map_or(u64::MAX, |[_, last]| last);
    (process.signal.is_some() || process.got_signal.is_some()) && process.end_ns < last.saturating_add(DONE_NS)
}

/// Whether a reader slept at the last look, which may be why it read no more.
fn waits_at_end(view: &FindingView<'_>, reader: &RecordedEnd) -> bool {
    let mut waits = view.document.last_look.iter().flat_map(|look| &look.waits);
    waits.any(|wait| wait.process.recorded == Some(reader.process))
}

/// Programs that look at a first block only, as for an encoding.
const LOOK: [&str; 5] = ["man", "manconv", "file", "less", "lesspipe"];

/// Whether such a program got just the one block that it asked for.
fn is_first_block(reader: &RecordedEnd, process: &RecordedProcess) -> bool {
    LOOK.contains(&process.name.as_str()) && reader.all_calls() == 1 && reader.short == 0 && reader.requested > 0
}

/// Who has not read for so long, ns, reads no more.
const DONE_NS: u64 = 100_000_000;

/// `` `dd` got 10,000 of 1,048,576 bytes with 1 read: `count=1` counts reads, not blocks. `iflag=fullblock` fills each
/// block. ``
pub(crate) fn short_block(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.readers() {
        let Some(process) = view.process(end).filter(|process| process.name == "dd" && process.is_one()) else {
            continue;
        };
        let words = &process.args;
        let count = words.iter().find(|word| word.starts_with("count="));
        let fills = words.iter().any(|word| word.starts_with("iflag=") && word.contains("fullblock"));
        let reads = end.all_calls() - end.at_end;
        // Otherwise it got all that there was.
        let written = pipe.written();
        let left = pipe.taken() < written || pipe.writers.iter().any(|writer| writer.epipe > 0);
        let cut = end.short > 0 && end.at_end == 0 && end.bytes < end.requested && left;
        let Some(count) = count.filter(|_| cut && !fills) else { continue };
        let text = format!(
            "{} got {} of {} bytes with {}: `{count}` counts reads, not blocks. `iflag=fullblock` fills each block.",
            view.name(end.process),
            grouped(end.bytes),
            grouped(end.requested),
            counted(reads, "read"),
        );
        let finding = Finding::new(FindingKind::ShortBlock, [end.process], text);
        found.push(Finding {
            channels: vec![at],
            count: Some(end.short),
            of: Some(reads),
            bytes: Some(end.requested - end.bytes),
            ..finding
        });
    }
    found
}

/// Whether it was read until its last writer had closed it: that is EIO (drivers/tty/n_tty.c).
fn ended_terminal(channel: &RecordedChannel, reader: &RecordedEnd) -> bool {
    channel.kind == ChannelKind::Pty && reader.errors > 0
}

/// `` 28,288 of 32,420 bytes that `a.py` wrote to the terminal never came to `xterm`, which read to its end: ... ``
fn thrown_away(view: &FindingView<'_>) -> Option<Finding> {
    let all = view.document.channels.iter().enumerate();
    all.filter(|_| view.document.skipped == 0 && !view.document.is_excerpt()).find_map(|(at, terminal)| {
        let ([writer], [reader]) = (&terminal.writers[..], &terminal.readers[..]) else { return None };
        let lost = terminal.written().saturating_sub(terminal.read());
        let alone = terminal.other_readers.is_empty() && terminal.other_writers.is_empty();
        // A signal that ends it, as when its terminal hangs up, ends its reads. A line that was cut has a sentence of its own.
        let is_killed = view.process(reader).is_none_or(|process| process.signal.is_some());
        let is_cut = reader.log2_sizes.len() > LONGEST.ilog2() as usize;
        // Carriage returns are added on the way, not taken away.
        // What was typed is another matter.
        let is_typed = terminal.is_typed();
        if is_typed || is_killed || is_cut || !ended_terminal(terminal, reader) || !alone || lost <= terminal.written() / 20 || writer.process == reader.process {
            return None;
        }
        let text = format!(
            "{} of {} that {} wrote to the terminal never came to {}, which read to its end: they were thrown away, as `tcflush` of who \
             writes does with TCOFLUSH and TCIOFLUSH. TCIFLUSH drops only what was typed, and `tcdrain` waits until all is out.",
            grouped(lost),
            counted(terminal.written(), "byte"),
            view.name(writer.process),
            view.name(reader.process),
        );
        let finding = Finding::new(FindingKind::Unread, [writer.process], text);
        Some(Finding { channels: vec![at], bytes: Some(lost), of: Some(terminal.written()), ..finding })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, said_after, silent};
    use crate::result::WaitTotal;

    /// `grep` has started `seq`, and does not read all of it.
    fn leaves_some(recording: &mut Document) {
        recording.recorded[1].forks = 1;
        recording.recorded[1].stage = recording.recorded[0].stage;
        recording.channels[0].writers[0].bytes = 60_000;
    }

    #[test]
    fn what_a_parent_did_not_read_is_said() {
        let text = "`grep` closed the pipe from `seq` before it had read all: 59,000 of 60,000 bytes that were written are \
                    lost. It has to read until the end of file: the end of a child is not that of its output.";
        assert_eq!(said(unread, &leaves_some), [text]);
        let first_block = said_after(unread, &leaves_some, &|recording| {
            let end = &mut recording.channels[0].readers[0];
            (end.requested, end.calls) = (1000, [("read".to_owned(), 1)].into());
            recording.recorded[1].name = "man".to_owned();
        });
        assert!(first_block.is_empty(), "{first_block:?}");
    }

    #[test]
    fn pipes_that_one_program_leaves_again_and_again_are_one_sentence() {
        let left = |change: &dyn Fn(&mut Document)| {
            said(unread, &|recording| {
                leaves_some(recording);
                let again = RecordedChannel { inode: 77, ..recording.channels[0].clone() };
                recording.channels.push(again);
                let reader = &mut recording.recorded[1];
                (reader.signal, reader.end_ns) = (Some(15), WINDOW + DONE_NS);
                change(recording);
            })
        };
        let text = "`grep` left 2 times a pipe from `seq` before it had read all: 118,000 of 120,000 bytes that were written are lost. It \
                    has to read until the end of file: the end of a child is not that of its output.";
        assert_eq!(left(&|_| {}), [text]);
        assert!(left(&|recording| recording.recorded[1].end_ns = WINDOW).is_empty(), "it may have been reading");
    }

    #[test]
    fn what_a_fifo_loses_between_two_openings_is_said() {
        let lost = |opened: u64, change: &dyn Fn(&mut Document)| {
            said(unread, &|recording| {
                let channel = &mut recording.channels[0];
                (channel.kind, channel.writers[0].bytes) = (ChannelKind::Fifo, 1500);
                recording.recorded[1].waits = [(WaitReason::Open, WaitTotal { ns: 1, count: opened })].into();
                change(recording);
            })
        };
        let text = "500 of 1,500 bytes that were written to the FIFO were never read: what is in it is lost when nobody has it \
                    open, and `grep` opens it again each time. Who keeps it open gets all (`exec 3<>FIFO`, or the redirection \
                    behind the loop's `done`).";
        assert_eq!(lost(3, &|_| {}), [text]);
        assert!(lost(1, &|_| {}).is_empty(), "`head` wants no more");
        assert!(lost(3, &|recording| recording.channels[0].kind = ChannelKind::Pipe).is_empty());
        assert!(lost(3, &|recording| recording.duration_ns = Some(1)).is_empty(), "it may be read yet");
    }

    #[test]
    fn output_after_the_end_of_a_child_is_said() {
        let left = |change: &dyn Fn(&mut Document)| {
            said(unread, &|recording| {
                let sigpipe = Some(libc::SIGPIPE.cast_unsigned());
                (recording.recorded[0].started_by, recording.recorded[0].output) = (Some(1), Some(0));
                recording.recorded[0].end_ns = 1_000_000_000;
                let late = &mut recording.recorded[2];
                (late.started_by, late.signal, late.end_ns) = (Some(0), sigpipe, 2_000_000_000);
                change(recording);
            })
        };
        let text = "`grep` did not read the pipe from `seq` to its end: `seq` ended at 1.00 s, but `cat`, which it had started, still wrote \
                    there and was ended by SIGPIPE at 2.00 s: its output is lost. The end of a child is not that of its output: the end \
                    of file is, and `close` in node, not `exit`.";
        assert_eq!(left(&|_| {}), [text]);
        silent(
            &left,
            &[
                &|recording| recording.channels[0].readers[0].at_end = 1,
                &|recording| recording.recorded[2].signal = None,
                &|recording| recording.recorded[2].output = Some(1),
                &|recording| recording.recorded[2].started_by = Some(1),
                &|recording| recording.recorded[0].started_by = None,
                &|recording| recording.recorded[0].signal = Some(libc::SIGTERM.cast_unsigned()),
            ],
        );
    }

    #[test]
    fn what_another_program_left_is_not() {
        silent(
            &|change| said_after(unread, &leaves_some, change),
            &[
                &|recording| recording.recorded[0].signal = Some(libc::SIGTERM.cast_unsigned()),
                &|recording| recording.recorded[1].forks = 0,
                &|recording| recording.channels[0].readers[0].at_end = 1,
                &|recording| recording.channels[0].writers[0].process = 1,
                &|recording| recording.channels[0].writers[0].epipe = 1,
                &|recording| recording.duration_ns = Some(1),
            ],
        );
    }

    fn reads(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(part_read, &|recording| {
            let channel = &mut recording.channels[0];
            let (reader, writer) = (&mut channel.readers[0], &mut channel.writers[0]);
            (reader.unsent, reader.requested) = (237_568, 262_144);
            reader.calls = [("read".to_owned(), 1)].into();
            (writer.epipe, writer.requested) = (1, 262_144);
            change(recording);
        })
    }

    #[test]
    fn a_part_that_was_taken_for_all_is_said() {
        let text = "The last read of `grep` from the pipe from `seq` got 237,568 bytes less than it had asked for, because no more had \
                    come by then, and it read no more: what `seq` had still to write was refused (EPIPE). A read has to be repeated \
                    until all is there, or the end of file.";
        assert_eq!(reads(&|_| {}), [text]);
        assert_eq!(reads(&|recording| recording.channels[0].readers[0].requested = 300_001), [text]);
        silent(
            &reads,
            &[
                // It fills a buffer, or goes on until it has what it wants.
                &|recording| recording.channels[0].readers[0].requested = 245_760,
                &|recording| recording.channels[0].readers[0].calls = [("read".to_owned(), 2)].into(),
                &|recording| recording.channels[0].readers[0].at_end = 1,
                &|recording| recording.channels[0].readers[0].unsent = 8190,
                &|recording| recording.channels[0].writers[0].epipe = 0,
                &|recording| recording.recorded[1].signal = Some(15),
                &|recording| recording.recorded[1].name = "dd".to_owned(),
            ],
        );
    }

    fn dd(recording: &mut Document, line: &str) {
        recording.recorded[1].args = line.split_whitespace().map(str::to_owned).collect();
        recording.recorded[1].name = "dd".to_owned();
        let end = &mut recording.channels[0].readers[0];
        (end.short, end.bytes, end.requested) = (1, 10_000, 1 << 20);
        end.calls = [("read".to_owned(), 1)].into();
        recording.channels[0].writers[0].bytes = 50_000;
    }

    #[test]
    fn a_short_read_that_was_counted_is_said() {
        let text = "`dd` got 10,000 of 1,048,576 bytes with 1 read: `count=1` counts reads, not blocks. `iflag=fullblock` fills \
                    each block.";
        assert_eq!(said(short_block, &|recording| dd(recording, "dd bs=1M count=1")), [text]);
    }

    #[test]
    fn full_blocks_and_the_end_of_file_are_not() {
        let of = |line: &str| said(short_block, &|recording| dd(recording, line));
        assert!(of("dd bs=1M count=1 iflag=fullblock").is_empty());
        assert!(of("dd bs=1M").is_empty());
        let at_end = said(short_block, &|recording| {
            dd(recording, "dd bs=1M count=9");
            recording.channels[0].readers[0].at_end = 1;
        });
        assert!(at_end.is_empty());
        let all = said(short_block, &|recording| {
            dd(recording, "dd bs=1M count=1");
            recording.channels[0].writers[0].bytes = 10_000;
        });
        assert!(all.is_empty());
    }
}

//! Bytes that a program did not read: from what it had started, from a FIFO, or from its standard input.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{
    ChannelKind, Document, Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess, WaitReason, WaitedFor,
};
use crate::util::text::{clean, counted, grouped};

/// `` `main` closed the pipe from `worker` before it had read all: 12,345 of 60,000 bytes that were written are lost. ``
///
/// In `seq | head`, that is how it ought to be: only who has started the writer wants its output.
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let mut found = Vec::new();
    for (at, channel) in document.channels.iter().enumerate() {
        let written: u64 = channel.writers.iter().map(|end| end.bytes).sum();
        let read: u64 = channel.readers.iter().map(|end| end.bytes).sum();
        let reader = match &channel.readers[..] {
            [reader] => reader,
            _ => continue,
        };
        let Some(process) = view.process(reader) else { continue };
        let started = |writer: &RecordedProcess| {
            process.forks > 0 && process.stage == writer.stage && process.begin_ns <= writer.begin_ns
        };
        // Who ends it wants no more.
        let is_ended = |writer: &RecordedProcess| {
            let signal = writer.signal.and_then(|signal| i32::try_from(signal).ok());
            signal.is_some_and(|signal| [libc::SIGINT, libc::SIGKILL, libc::SIGTERM].contains(&signal))
        };
        let started = |writer: &RecordedProcess| started(writer) && !is_ended(writer);
        // Who has both ends keeps something in it: a job server its tokens.
        let is_of_children = channel
            .writers
            .iter()
            .all(|end| end.process != reader.process && end.epipe == 0 && view.process(end).is_some_and(started));
        let is_seen = document.skipped == 0 && !document.is_excerpt() && channel.other_readers.is_empty();
        if written <= read || !is_seen || !is_of_children || reader.at_end > 0 || process.signal.is_some() {
            continue;
        }
        let (name, from, lost) = (view.name(reader.process), view.pipe_from(channel), written - read);
        let text = format!(
            "{name} closed {from} before it had read all: {} of {} that were written are lost.",
            grouped(lost),
            counted(written, "byte")
        );
        let finding = Finding::new(FindingKind::Unread, [reader.process], text);
        found.push(Finding { channels: vec![at], bytes: Some(lost), ..finding });
    }
    let of_channel = |(at, channel)| in_fifo(view, at, channel).or_else(|| never_read(view, at, channel));
    found.extend(document.channels.iter().enumerate().filter_map(of_channel));
    found
}

/// What was left in a FIFO when a reader closed it, to open it again.
fn in_fifo(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    let document = view.document;
    let sum = |ends: &[RecordedEnd]| ends.iter().map(|end| end.bytes).sum::<u64>();
    let (written, read) = (sum(&channel.writers), sum(&channel.readers));
    let (path, opens) = opening(document, channel);
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

/// The path of a FIFO that its readers opened last, and whether one of them still waits until it is open: then nobody has it
/// open for writing.
fn opening(document: &Document, channel: &RecordedChannel) -> (Option<String>, bool) {
    let waits = document.last_look.iter().flat_map(|look| &look.waits);
    let readers: Vec<usize> = channel.readers.iter().map(|end| end.process).collect();
    let mut paths = waits.filter(|wait| wait.process.recorded.is_some_and(|at| readers.contains(&at))).filter_map(
        |wait| match &wait.awaited {
            WaitedFor::Opening { path, writes: false, .. } => Some(path.clone()),
            _ => None,
        },
    );
    let path = paths.next();
    let opens = path.is_some();
    (path, opens)
}

/// `` `mclient` ended at 12.0 ms and never read its standard input, to which `seq` had written 2,092 bytes: ... ``
fn never_read(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    if view.document.is_excerpt() || view.document.skipped > 0 {
        return None;
    }
    let used = channel.readers.iter().any(|end| end.all_calls() + end.sleeps > 0);
    let written: u64 = channel.writers.iter().map(|end| end.bytes).sum();
    if used || written == 0 || !channel.kind.is_pipe() || !channel.other_readers.is_empty() {
        return None;
    }
    let all = view.document.recorded.iter().enumerate();
    let mut having = all.filter(|(_, process)| process.input == Some(at));
    let is_over =
        |process: &RecordedProcess| process.signal.is_none() && process.pids.len() == 1 && !process.moves_unseen();
    let (reader, process) = having.next().filter(|(_, process)| is_over(process) && having.next().is_none())?;
    let text = format!(
        "{} ended at {} and never read its standard input, to which {} had written {}: with these options, it takes its input from \
         elsewhere, or it needs one to read it, such as `-`.",
        view.name(reader),
        after(process.end_ns),
        view.names(&channel.writers),
        counted(written, "byte")
    );
    Some(Finding { channels: vec![at], bytes: Some(written), ..Finding::new(FindingKind::Unread, [reader], text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::WaitTotal;

    /// `grep` has started `seq`, and does not read all of it.
    fn unread(recording: &mut Document) {
        recording.recorded[1].forks = 1;
        recording.recorded[1].stage = recording.recorded[0].stage;
        recording.channels[0].writers[0].bytes = 60_000;
    }

    #[test]
    fn what_a_parent_did_not_read_is_said() {
        let text = "`grep` closed the pipe from `seq` before it had read all: 59,000 of 60,000 bytes that were written are \
                    lost.";
        assert_eq!(said(find, &unread), [text]);
    }

    #[test]
    fn what_a_fifo_loses_between_two_openings_is_said() {
        let lost = |opened: u64, change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
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
    fn what_another_program_left_is_not() {
        let silent: [&dyn Fn(&mut Document); 6] = [
            &|recording| recording.recorded[0].signal = Some(libc::SIGTERM.cast_unsigned()),
            &|recording| recording.recorded[1].forks = 0,
            &|recording| recording.channels[0].readers[0].at_end = 1,
            &|recording| recording.channels[0].writers[0].process = 1,
            &|recording| recording.channels[0].writers[0].epipe = 1,
            &|recording| recording.duration_ns = Some(1),
        ];
        for change in silent {
            let found = said(find, &|recording| {
                unread(recording);
                change(recording);
            });
            assert!(found.is_empty(), "{found:?}");
        }
    }

    fn ignored(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            recording.channels[0].readers.clear();
            recording.recorded[1].input = Some(0);
            change(recording);
        })
    }

    #[test]
    fn input_that_nobody_read_is_said() {
        let said = ignored(&|_| {});
        assert!(
            said[0].contains("and never read its standard input, to which `seq` had written 1,000 bytes: with"),
            "{said:?}"
        );
        let silent: [&dyn Fn(&mut Document); 3] = [
            &|recording| recording.recorded[1].input = None,
            &|recording| recording.recorded[2].input = Some(0),
            &|recording| recording.channels[0].writers[0].bytes = 0,
        ];
        assert!(silent.into_iter().all(|change| ignored(change).is_empty()));
    }
}

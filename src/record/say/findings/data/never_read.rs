//! Pipes of which nobody read all, because who was to do so was killed, or took an early end for the end.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{ChannelKind, Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess};
use crate::util::text::{counted, grouped};

/// The first process of a PID namespace, inside.
const INIT: u32 = 1;

/// The kernel ends the others of its namespace so soon after it, ns.
const AT_ONCE_NS: u64 = 100_000_000;

/// `` `entry.sh` wrote 77 bytes to a pipe that nobody read: they are lost. It was process 1 of its PID namespace ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || document.skipped > 0 || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let channels = document.channels.iter().enumerate();
    let found = |channel: &RecordedChannel| lost(view, channel).or_else(|| too_early(view, channel));
    channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..found(channel)? })).collect()
}

/// `` `R.py` read the FIFO when nobody had it open for writing, and took the 0 bytes that it got for the end: ... ``
fn too_early(view: &FindingView<'_>, channel: &RecordedChannel) -> Option<Finding> {
    let ([reader], [writer]) = (&channel.readers[..], &channel.writers[..]) else { return None };
    // With a writer, or with data, a read does not get the end.
    let only_end = reader.bytes == 0 && reader.at_end > 0 && reader.process != writer.process;
    let is_known = channel.other_readers.is_empty() && channel.other_writers.is_empty();
    if channel.kind != ChannelKind::Fifo || !only_end || !is_known || writer.bytes == 0 {
        return None;
    }
    let text = format!(
        "{} read the FIFO when nobody had it open for writing, took the 0 bytes that it got for the end, and read no more: the {} that {} wrote \
         are lost. Opened with O_NONBLOCK, a FIFO without a writer gives 0 bytes at once: without that flag, opening it waits for the writer, or \
         `poll` tells when there is data.",
        view.name(reader.process),
        counted(writer.bytes, "byte"),
        view.name(writer.process)
    );
    let finding = Finding::new(FindingKind::NeverRead, [reader.process, writer.process], text);
    Some(Finding { bytes: Some(writer.bytes), ..finding })
}

fn lost(view: &FindingView<'_>, channel: &RecordedChannel) -> Option<Finding> {
    let document = view.document;
    let is_known = channel.other_readers.is_empty() && channel.other_writers.is_empty();
    let [writer] = &channel.writers[..] else { return None };
    let process = view.process(writer)?;
    let bytes = channel.written();
    let ended = process.end_ns < document.processes.window_ns;
    // A byte that wakes a thread is no output.
    if !is_known || !channel.kind.is_pipe() || bytes == 0 || !ended || !is_output(writer) || writer.epipe > 0 {
        return None;
    }
    let name = view.name(writer.process);
    let is_first = process.inner_pids.first() == Some(&INIT);
    let begin = match &channel.readers[..] {
        [] => format!("{name} wrote {} to a pipe that nobody read: they are lost.", counted(bytes, "byte")),
        [reader] if is_first && is_killed_with(view.process(reader)?, process) => format!(
            "{} had read {} of {} of {name} when it was ended by SIGKILL: what it had not passed on by then is lost.",
            view.name(reader.process),
            grouped(reader.bytes),
            counted(bytes, "byte")
        ),
        _ => return None,
    };
    let why = if is_first {
        let it = if channel.readers.is_empty() { "It" } else { &name };
        format!(
            " {it} was process 1 of its PID namespace, such as a container: when it ended at {}, the kernel ended all others there \
             (SIGKILL), also who was to read that, such as the `tee` of `exec > >(tee …)`. It has to close its output and to `wait` for that \
             before it ends.",
            after(process.end_ns)
        )
    } else {
        let reader = killed_reader(view, process)?;
        format!(
            " {} was killed by SIGKILL at {} before it had read.",
            view.name(reader),
            after(document.recorded[reader].end_ns)
        )
    };
    let finding = Finding::new(FindingKind::NeverRead, [writer.process], format!("{begin}{why}"));
    Some(Finding { bytes: Some(bytes), at_ns: writer.moved_ns.map(|[_, last]| last), ..finding })
}

/// Whether the kernel killed a process when the first one of its PID namespace ended.
fn is_killed_with(process: &RecordedProcess, first: &RecordedProcess) -> bool {
    process.signal == Some(libc::SIGKILL.cast_unsigned())
        && process.ended_by.is_none()
        && process.inner_pids.first().is_some_and(|inner| *inner > INIT)
        && (first.end_ns.saturating_sub(AT_ONCE_NS)..first.end_ns + AT_ONCE_NS).contains(&process.end_ns)
}

/// Whether all was written to standard output.
fn is_output(end: &RecordedEnd) -> bool {
    end.printed > 0 && end.printed >= end.all_calls()
}

/// A child of the writer that was killed before it executed a program.
fn killed_reader(view: &FindingView<'_>, writer: &RecordedProcess) -> Option<usize> {
    let is_it = |of: &RecordedProcess| {
        let starter = of.started_by.and_then(|by| view.document.recorded.get(by));
        let own = starter.is_some_and(|by| by.pids == writer.pids);
        own && of.signal == Some(libc::SIGKILL.cast_unsigned()) && of.input.is_none() && of.execs == 0
    };
    view.document.recorded.iter().position(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::Document;

    #[test]
    fn an_end_before_the_begin_is_said() {
        let early = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                recording.channels[0].kind = ChannelKind::Fifo;
                let reader = &mut recording.channels[0].readers[0];
                (reader.bytes, reader.at_end) = (0, 1);
                change(recording);
            })
        };
        let text = "`grep` read the FIFO when nobody had it open for writing, took the 0 bytes that it got for the end, and read no more: the 1,000 \
                    bytes that `seq` wrote are lost.";
        assert!(early(&|_| {})[0].starts_with(text), "{:?}", early(&|_| {}));
        silent(
            &early,
            &[
                &|recording| recording.channels[0].readers[0].bytes = 1,
                &|recording| recording.channels[0].readers[0].at_end = 0,
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
                &|recording| recording.channels[0].writers[0].bytes = 0,
            ],
        );
    }

    #[test]
    fn what_nobody_read_is_said() {
        let lost = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                recording.channels[0].readers.clear();
                (recording.channels[0].writers[0].printed, recording.recorded[0].end_ns) = (20, WINDOW / 4);
                recording.recorded[0].inner_pids = vec![1];
                change(recording);
            })
        };
        let begin = "`seq` wrote 1,000 bytes to a pipe that nobody read: they are lost.";
        let text = lost(&|_| {});
        assert!(text[0].starts_with(&format!("{begin} It was process 1 of its PID namespace")), "{text:?}");
        let killed = |recording: &mut Document| {
            recording.recorded[0].inner_pids.clear();
            let child = &mut recording.recorded[1];
            (child.signal, child.started_by, child.execs, child.input) = (Some(9), Some(0), 0, None);
            child.end_ns = WINDOW / 5;
        };
        assert_eq!(lost(&killed), [format!("{begin} `grep` was killed by SIGKILL at 0.80 s before it had read.")]);
        let with = |recording: &mut Document| {
            let pipe = recording.channels[1].readers[0].clone();
            recording.channels[0].readers = vec![RecordedEnd { process: 1, bytes: 40, ..pipe }];
            let reader = &mut recording.recorded[1];
            (reader.signal, reader.inner_pids, reader.end_ns) = (Some(9), vec![2], WINDOW / 4 + 1);
        };
        let begin = "`grep` had read 40 of 1,000 bytes of `seq` when it was ended by SIGKILL: what it had not passed on by then is lost. `seq` was \
                     process 1 of its PID namespace";
        let text = lost(&with);
        assert!(text[0].starts_with(begin), "{text:?}");
        silent(
            &lost,
            &[
                &|recording| recording.channels[0].writers[0].printed = 3,
                &|recording| recording.recorded[0].end_ns = WINDOW,
                &|recording| recording.recorded[0].inner_pids.clear(),
                &|recording| recording.channels[0].readers = recording.channels[1].readers.clone(),
            ],
        );
    }
}

//! Messages of which a reader of a stream takes a part for all.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedEnd, RecordedProcess};
use crate::util::text::{counted, grouped};

/// Fewer calls are no loop that stops at the end of what it knows.
const FEW: u64 = 4;

/// `` `client` ended after 1 read that filled its buffer: 4,096 of 12,500 bytes that `agent` wrote to the socket ... ``
pub(crate) fn cut_message(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || document.skipped > 0 || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let found = document.channels.iter().enumerate().filter_map(|(at, channel)| {
        let stream = channel.is_stream_socket();
        let ([end], [writer]) = (&channel.readers[..], &channel.writers[..]) else { return None };
        let reader = view.process(end)?;
        let (read, written) = (end.bytes, channel.written());
        if end.process == writer.process {
            return None;
        }
        if let Some(code) = refuses(reader, end).filter(|_| read < written && channel.is_stream()) {
            let (name, other) = (view.name(end.process), view.name(writer.process));
            let text = format!(
                "{name} read the first {} of what {other} wrote to {}, gave an error message and ended with exit code {code}: something else came \
                 than it expects there, such as text that a start-up file (`.bashrc`) or a `print` puts before the data. {other} has to write \
                 nothing else to that, or the text has to go to standard error.",
                counted(read, "byte"),
                view.pipe_to(channel)
            );
            let finding = Finding::new(FindingKind::NeverRead, [end.process, writer.process], text);
            return Some(Finding { channels: vec![at], bytes: Some(read), of: Some(written), ..finding });
        }
        if !stream {
            return None;
        }
        let is_over = reader.signal.is_none() && reader.is_one() && reader.end_ns <= document.processes.window_ns;
        let filled = end.all_calls() <= FEW && read > 0 && end.requested == read && end.at_end == 0;
        // It looked once more before the rest was there.
        let late = writer.moved_ns.zip(end.moved_ns).is_some_and(|([_, wrote], [_, read])| wrote > read);
        let filled = filled && (end.eagain == 0 || late);
        if !is_over || !filled || read >= written || reader.moves_unseen() {
            return None;
        }
        let (name, calls) = (view.name(end.process), counted(end.all_calls() - end.eagain, "read"));
        let text = if let Some([_, wrote]) = writer.moved_ns.filter(|_| end.eagain > 0) {
            format!(
                "{name} got {} of {} that {} wrote to the {} to it, found no more at its next read (EAGAIN), and did not read again, although \
                 the rest came, at {}. A stream has no messages: it has to wait for more (`poll`) and to read until it has as many bytes as \
                 the message says, or until its end.",
                grouped(read),
                counted(written, "byte"),
                view.name(writer.process),
                channel.kind.noun(),
                after(wrote)
            )
        } else if reader.refused_writes > 0 && !refused_at_pipe(view, end.process) {
            format!(
                "{name} got {} of {} that {other} wrote to the {} to it, and read no more after its answer was refused (EPIPE): {other} had closed that \
                 without waiting for the answers, and the rest of what it sent is lost. {other} has to shut it down for writing only, and to read \
                 to the end of the answers, before it closes it.",
                grouped(read),
                counted(written, "byte"),
                channel.kind.noun(),
                other = view.name(writer.process),
            )
        } else {
            format!(
            "{name} got {} of {} that {} wrote to the {} to it, by {calls} that filled its buffer, and read no more: the rest is lost. A stream \
             has no messages: it has to read until it has as many bytes as the message says, or until its end.",
            grouped(read),
            counted(written, "byte"),
            view.name(writer.process),
            channel.kind.noun()
        )
        };
        let finding = Finding::new(FindingKind::NeverRead, [end.process, writer.process], text);
        Some(Finding { channels: vec![at], bytes: Some(written - read), of: Some(written), ..finding })
    });
    found.collect()
}

/// Whether a write of a process to a pipe failed with EPIPE, which is no answer to a connection.
fn refused_at_pipe(view: &FindingView<'_>, at: usize) -> bool {
    view.writers().any(|(_, to, end)| end.process == at && end.epipe > 0 && to.kind.is_pipe())
}

/// The longest begin of a message by which a program knows its kind, bytes, and how soon afterwards one that refuses it ends, ns.
const KIND_BYTES: u64 = 64;
const AT_ONCE_NS: u64 = 100_000_000;

/// The exit code of a program that read only the begin of a message, said something and failed at once.
fn refuses(reader: &RecordedProcess, end: &RecordedEnd) -> Option<u8> {
    let [_, last] = end.moved_ns?;
    let asked_for_it = end.requested == end.bytes && end.bytes <= KIND_BYTES && end.all_calls() <= FEW;
    let at_once = reader.end_ns <= last + AT_ONCE_NS && reader.errors > 0 && end.at_end == 0;
    reader.exit_code.filter(|_| asked_for_it && at_once && end.bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{ChannelKind, Document};

    #[test]
    fn a_message_of_which_one_read_takes_a_part_is_said() {
        let cut = |change: &dyn Fn(&mut Document)| {
            said(cut_message, &|recording| {
                let channel = &mut recording.channels[0];
                channel.kind = ChannelKind::UnixStream;
                channel.writers[0].bytes = 12_500;
                let end = &mut channel.readers[0];
                (end.bytes, end.requested, end.calls, end.at_end) = (4096, 4096, [("read".to_owned(), 1)].into(), 0);
                change(recording);
            })
        };
        let text = "`grep` got 4,096 of 12,500 bytes that `seq` wrote to the socket to it, by 1 read that filled its buffer, and read no more: the \
                    rest is lost. A stream has no messages: it has to read until it has as many bytes as the message says, or until its end.";
        assert_eq!(cut(&|_| {}), [text]);
        let early = |recording: &mut Document| {
            let channel = &mut recording.channels[0];
            (channel.writers[0].moved_ns, channel.readers[0].moved_ns) = (Some([0, WINDOW / 2]), Some([0, WINDOW / 4]));
            (channel.readers[0].eagain, channel.readers[0].calls) = (1, [("read".to_owned(), 2)].into());
        };
        let text = "`grep` got 4,096 of 12,500 bytes that `seq` wrote to the socket to it, found no more at its next read (EAGAIN), and did not read \
                    again, although the rest came, at 2.00 s. A stream has no messages: it has to wait for more (`poll`) and to read until it has \
                    as many bytes as the message says, or until its end.";
        assert_eq!(cut(&early), [text]);
        let refused = |recording: &mut Document| {
            let end = &mut recording.channels[0].readers[0];
            (end.bytes, end.requested, end.moved_ns) = (4, 4, Some([0, WINDOW / 2]));
            let reader = &mut recording.recorded[1];
            (reader.exit_code, reader.errors, reader.end_ns) = (Some(2), 1, WINDOW / 2 + 1);
        };
        let text = "`grep` read the first 4 bytes of what `seq` wrote to the socket to `grep`, gave an error message and ended with exit code 2: \
                    something else came than it expects there,";
        assert!(cut(&refused)[0].starts_with(text), "{:?}", cut(&refused));
        let late = |recording: &mut Document| (refused(recording), recording.recorded[1].end_ns = WINDOW).1;
        assert!(!cut(&late)[0].contains("error message"), "{:?}", cut(&late));
        silent(
            &cut,
            &[
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
                &|recording| recording.channels[0].readers[0].requested = 8192,
                &|recording| recording.channels[0].writers[0].bytes = 4096,
                &|recording| recording.recorded[1].signal = Some(9),
                &|recording| recording.duration_ns = Some(WINDOW),
            ],
        );
    }
}

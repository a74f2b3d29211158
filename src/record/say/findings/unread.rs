//! Bytes that a program did not read from what it had started.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::{counted, grouped};

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
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

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
    fn what_another_program_left_is_not() {
        let silent: [&dyn Fn(&mut Document); 5] = [
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
}

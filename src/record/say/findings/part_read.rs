//! A read of a part that was taken for all.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd};
use crate::util::text::{counted, grouped};

/// How much more than has come is asked for at least.
const MUCH: u64 = 1 << 16;

/// Buffers are of whole pages. Who fills one, as `grep -q` does, may have found what it sought.
const PAGE: u64 = 4096;

/// Programs whose short reads have a finding of their own.
const OTHERS: [&str; 1] = ["dd"];

/// `` The last read of `main` from the pipe from `worker` got 237,568 bytes less than it had asked for, ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || document.skipped > 0 || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let channels = document.channels.iter().enumerate();
    channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..part(view, channel)? })).collect()
}

fn part(view: &FindingView<'_>, channel: &RecordedChannel) -> Option<Finding> {
    let reading: Vec<&RecordedEnd> = channel.readers.iter().filter(|end| end.all_calls() > 0).collect();
    let [end] = reading[..] else { return None };
    let reader = view.process(end)?;
    let window = view.document.processes.window_ns;
    let is_over =
        reader.signal.is_none() && reader.pids.len() == 1 && reader.end_ns <= window && !reader.moves_unseen();
    if !is_over || end.at_end > 0 || end.unsent < MUCH || OTHERS.contains(&reader.name.as_str()) || end.eagain > 0 {
        return None;
    }
    let written: u64 = channel.writers.iter().map(|end| end.bytes).sum();
    let to_write: u64 = channel.writers.iter().map(|end| end.requested).sum();
    let knows_how_much = end.requested == to_write || !end.requested.is_multiple_of(PAGE);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn reads(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
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
        let silent: [&dyn Fn(&mut Document); 7] = [
            // It fills a buffer, or goes on until it has what it wants.
            &|recording| recording.channels[0].readers[0].requested = 245_760,
            &|recording| recording.channels[0].readers[0].calls = [("read".to_owned(), 2)].into(),
            &|recording| recording.channels[0].readers[0].at_end = 1,
            &|recording| recording.channels[0].readers[0].unsent = 8190,
            &|recording| recording.channels[0].writers[0].epipe = 0,
            &|recording| recording.recorded[1].signal = Some(15),
            &|recording| recording.recorded[1].name = "dd".to_owned(),
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(reads(change).is_empty(), "{at}");
        }
    }
}

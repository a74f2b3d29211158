//! Writes after the reader had ended.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind};
use crate::util::text::grouped;

/// Fewer are how a program that ignores SIGPIPE finds out.
const MANY: u64 = 100;

/// Of the calls.
const SHARE: f64 = 0.1;

/// `` `bash` went on after `head` had ended at 10.2 ms: 399,574 of 400,000 writes failed with EPIPE. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.writers() {
        let (lost, all) = (end.epipe, end.all_calls());
        if lost < MANY || (lost as f64) < SHARE * all as f64 {
            continue;
        }
        let name = view.name(end.process);
        let ended = view.process(end).and_then(|process| view.readers_ended(pipe, process.end_ns));
        let readers = view.names(&pipe.readers);
        let why = match ended {
            Some(ended) if !readers.is_empty() => format!("after {readers} had ended at {}", after(ended)),
            _ => format!("although nobody could read the {} any more", pipe.kind.noun()),
        };
        let text = format!(
            "{name} went on {why}: {} of {} writes failed with EPIPE, because it ignores SIGPIPE.",
            grouped(lost),
            grouped(all)
        );
        let finding = Finding::new(FindingKind::Broken, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(lost), of: Some(all), at_ns: ended, ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn writes(recording: &mut Document, lost: u64, all: u64) {
        let end = &mut recording.channels[0].writers[0];
        (end.epipe, end.calls) = (lost, [("write".to_owned(), all)].into());
        recording.recorded[1].end_ns = 10_200_000;
    }

    #[test]
    fn most_writes_after_the_end_of_the_reader_are_said() {
        let text = "`seq` went on after `grep` had ended at 10.2 ms: 399,574 of 400,000 writes failed with EPIPE, because it \
                    ignores SIGPIPE.";
        assert_eq!(said(find, &|recording| writes(recording, 399_574, 400_000)), [text]);
        let closed = said(find, &|recording| {
            writes(recording, 500, 1000);
            recording.recorded[1].end_ns = u64::MAX;
        });
        assert!(
            closed[0].starts_with("`seq` went on although nobody could read the pipe any more: 500 of"),
            "{closed:?}"
        );
    }

    #[test]
    fn the_one_write_that_tells_a_program_is_not_said() {
        assert!(said(find, &|recording| writes(recording, 1, 2)).is_empty());
        assert!(said(find, &|recording| writes(recording, 100, 2000)).is_empty());
    }
}

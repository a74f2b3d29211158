//! Polls for data that is never read.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedEnd};
use crate::util::text::grouped;

/// Fewer are no load.
const MANY: u64 = 10_000;

/// Polls of which it was found so at the few that were looked at, as a part of all.
const SHARE: f64 = 0.5;

/// A read for so many polls is one of data.
const READS: u64 = 100;

/// `` `python3` polled 1,506,359 times for the pipe from `sleep`, which has data, and never reads it. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.readers() {
        let Some(process) = view.process(end) else { continue };
        let polls = process.ready_polls;
        let never_reads = end.all_calls() * READS <= polls;
        if polls < MANY || (end.ready_polls as f64) < SHARE * polls as f64 || !never_reads {
            continue;
        }
        let (name, count, never) =
            (view.name(end.process), grouped(polls), if end.bytes == 0 { "never" } else { "hardly" });
        let others = pipe.writers.iter().filter(|writer| writer.process != end.process && writer.all_calls() > 0);
        let from = view.names(others);
        let noun = pipe.kind.noun();
        let what = if from.is_empty() { format!("a {noun}") } else { format!("the {noun} from {from}") };
        let written: u64 = pipe.writers.iter().map(|end| end.bytes).sum();
        let read: u64 = pipe.readers.iter().map(|end| end.bytes).sum();
        let has_writer = |end: &RecordedEnd| {
            view.process(end).is_some_and(|process| process.end_ns >= view.document.processes.window_ns)
        };
        // `poll` finds that the other end is closed (POLLHUP) until the descriptor is closed, too.
        let has_ended =
            written > 0 && written == read && pipe.other_writers.is_empty() && !pipe.writers.iter().any(has_writer);
        let text = if has_ended {
            format!(
                "{name} polled {count} times for {what}, which has no writer any more: poll returns at once (POLLHUP), and \
                 {name} does not close its end."
            )
        } else {
            format!("{name} polled {count} times for {what}, which has data, and {never} reads it.")
        };
        let finding = Finding::new(FindingKind::Polls, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(polls), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn polls(recording: &mut Document, all: u64, of_it: u64, reads: u64) {
        recording.recorded[1].ready_polls = all;
        let end = &mut recording.channels[0].readers[0];
        (end.ready_polls, end.bytes, end.calls) = (of_it, 0, [("read".to_owned(), reads)].into());
    }

    #[test]
    fn polls_for_data_that_is_never_read_are_said() {
        let text = "`grep` polled 1,506,359 times for the pipe from `seq`, which has data, and never reads it.";
        assert_eq!(said(find, &|recording| polls(recording, 1_506_359, 1_506_304, 0)), [text]);
        let own = said(find, &|recording| {
            polls(recording, 20_000, 19_968, 0);
            recording.channels[0].writers[0].process = 1;
        });
        assert_eq!(own, ["`grep` polled 20,000 times for a pipe, which has data, and never reads it."]);
    }

    #[test]
    fn polls_for_a_pipe_that_has_ended_are_said() {
        let ended = said(find, &|recording| {
            polls(recording, 1_506_359, 1_506_304, 20);
            recording.channels[0].readers[0].bytes = 1000;
            recording.recorded[0].end_ns = 1000;
        });
        let text = "`grep` polled 1,506,359 times for the pipe from `seq`, which has no writer any more: poll returns at once \
                    (POLLHUP), and `grep` does not close its end.";
        assert_eq!(ended, [text]);
    }

    #[test]
    fn a_program_that_reads_what_it_polls_for_is_not() {
        assert!(said(find, &|recording| polls(recording, 1_000_000, 999_936, 900_000)).is_empty());
        assert!(said(find, &|recording| polls(recording, 500, 448, 0)).is_empty(), "few");
        assert!(said(find, &|recording| polls(recording, 1_000_000, 64, 0)).is_empty(), "it polls for something else");
    }
}

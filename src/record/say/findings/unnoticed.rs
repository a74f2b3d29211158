//! A reader that has ended, which the program before it has not noticed: it would at its next write.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind};

/// So long, and for this part of the window, nothing is noticed, ns.
const LONG_NS: u64 = 500_000_000;
const MUCH: f64 = 0.3;

/// It waited for data for this part of that time.
const WAITED: f64 = 0.5;

/// `` `grep` had ended at 0.10 s, but `awk` notices only when it writes next: it waited for data from `tail` for 3.90 s more. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let window = view.document.processes.window_ns;
    let mut found = Vec::new();
    for (at, channel, end) in view.writers() {
        let Some(process) = view.process(end) else { continue };
        let until = process.end_ns.min(window);
        let Some(ended) = view.readers_ended(channel, until) else { continue };
        let unnoticed = until - ended;
        let wrote_later = end.moved_ns.is_some_and(|[_, last]| last > ended);
        let is_long = unnoticed >= LONG_NS && unnoticed as f64 >= MUCH * window as f64;
        if !channel.kind.is_pipe() || channel.readers.is_empty() || process.pids.len() > 1 || wrote_later || !is_long {
            continue;
        }
        let waits = view.readers().filter(|(_, _, input)| input.process == end.process);
        let Some((_, input, waited)) = waits.max_by_key(|(_, _, input)| input.blocked_ns) else { continue };
        if (waited.blocked_ns as f64) < WAITED * unnoticed as f64 {
            continue;
        }
        let from = view.names(input.writers.iter().filter(|writer| writer.process != end.process));
        let from = if from.is_empty() { String::new() } else { format!(" from {from}") };
        let text = format!(
            "{} had ended at {}, but {} notices only when it writes next: it waited for data{from} for {} more.",
            view.names(&channel.readers),
            after(ended),
            view.name(end.process),
            after(unnoticed)
        );
        let finding = Finding::new(FindingKind::Unnoticed, [end.process], text);
        found.push(Finding { channels: vec![at], at_ns: Some(ended), ns: Some(unnoticed), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    /// `cat` ends early, and `grep` waits for `seq`.
    fn unnoticed(recording: &mut Document) {
        recording.recorded[2].end_ns = WINDOW / 40;
        recording.channels[1].writers[0].moved_ns = Some([0, WINDOW / 50]);
        recording.channels[0].readers[0].blocked_ns = WINDOW / 10 * 9;
    }

    #[test]
    fn a_reader_that_has_ended_is_said() {
        let text = "`cat` had ended at 0.10 s, but `grep` notices only when it writes next: it waited for data from `seq` for \
                    3.90 s more.";
        assert_eq!(said(find, &unnoticed), [text]);
    }

    #[test]
    fn who_writes_or_does_not_wait_is_not() {
        let silent: [&dyn Fn(&mut Document); 3] = [
            &|recording| recording.recorded[2].end_ns = WINDOW / 10 * 9,
            &|recording| recording.channels[1].writers[0].moved_ns = Some([0, WINDOW / 2]),
            &|recording| recording.channels[0].readers[0].blocked_ns = WINDOW / 10,
        ];
        for change in silent {
            let found = said(find, &|recording| {
                unnoticed(recording);
                change(recording);
            });
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

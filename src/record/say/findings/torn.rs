//! Blocks of several writers of one pipe that can be torn.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedEnd};
use crate::util::text::{counted, grouped};

/// Fewer may have been torn at the start or the end only.
const MANY: u64 = 10;

/// So many processes of one row live at the same time, in the mean.
const AT_ONCE: f64 = 1.5;

/// `` 8 processes (`perl`) wrote to the pipe to `cat` at once, 8,192 bytes per call, which is more than PIPE_BUF (4,096
/// bytes): 312 of 784 writes waited in the middle, so that the data of others can be in between. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    // A socket keeps messages whole, or promises nothing for any size.
    for (at, pipe) in view.document.channels.iter().enumerate().filter(|(_, channel)| channel.kind.is_pipe()) {
        let ends: Vec<&RecordedEnd> = pipe.writers.iter().filter(|end| end.parted > 0).collect();
        let sum = |of: fn(&RecordedEnd) -> u64| ends.iter().map(|end| of(end)).sum::<u64>();
        let (parted, calls) = (sum(|end| end.parted), sum(RecordedEnd::all_calls));
        if parted < MANY || !(ends.iter().any(|end| is_several(view, end)) || overlap(&ends)) {
            continue;
        }
        let pids = ends.iter().filter_map(|end| view.process(end)).map(|process| process.pids.len().max(1) as u64);
        let processes = counted(pids.sum(), "process");
        let (names, pipe) = (view.names(ends.iter().copied()), view.pipe_to(pipe));
        let size = counted(sum(|end| end.bytes) / calls.max(1), "byte");
        let text = format!(
            "{processes} ({names}) wrote to {pipe} at once, {size} per call, which is more than PIPE_BUF (4,096 bytes): \
             {} of {} writes waited for room, and the data of others can be in between.",
            grouped(parted),
            grouped(calls)
        );
        let finding = Finding::new(FindingKind::Torn, ends.iter().map(|end| end.process), text);
        found.push(Finding { channels: vec![at], count: Some(parted), of: Some(calls), ..finding });
    }
    found
}

/// Whether several processes of the row of this end lived at the same time.
fn is_several(view: &FindingView<'_>, end: &RecordedEnd) -> bool {
    view.process(end).is_some_and(|process| {
        let span = process.end_ns.saturating_sub(process.begin_ns);
        process.pids.len() > 1 && process.lived_ns as f64 >= AT_ONCE * span as f64
    })
}

/// Whether two of them moved data at the same time.
fn overlap(ends: &[&RecordedEnd]) -> bool {
    let mut times: Vec<[u64; 2]> = ends.iter().filter_map(|end| end.moved_ns).collect();
    times.sort_unstable();
    times.windows(2).any(|pair| pair[1][0] < pair[0][1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    /// Eight processes of one name that write at the same time.
    fn eight(recording: &mut Document) {
        let process = &mut recording.recorded[0];
        (process.pids, process.lived_ns) = ((0..8).collect(), 7 * WINDOW);
        let end = &mut recording.channels[0].writers[0];
        (end.parted, end.calls, end.bytes) = (312, [("write".to_owned(), 784)].into(), 784 * 8192);
    }

    /// `cat` writes to it as well, at this time.
    fn second(recording: &mut Document, moved_ns: [u64; 2]) {
        let end = &mut recording.channels[0].writers[0];
        (end.parted, end.moved_ns) = (20, Some([0, 1000]));
        let other = RecordedEnd { process: 2, moved_ns: Some(moved_ns), ..end.clone() };
        recording.channels[0].writers.push(other);
    }

    #[test]
    fn large_writes_of_several_at_once_are_said() {
        let text = "8 processes (`seq`) wrote to the pipe to `grep` at once, 8,192 bytes per call, which is more than PIPE_BUF \
                    (4,096 bytes): 312 of 784 writes waited for room, and the data of others can be in between.";
        assert_eq!(said(find, &eight), [text]);
        let two = said(find, &|recording| second(recording, [500, 2000]));
        assert!(two[0].starts_with("2 processes (`seq` and `cat`) wrote to the pipe to `grep` at once"), "{two:?}");
    }

    #[test]
    fn one_after_the_other_and_atomic_writes_are_not() {
        assert!(said(find, &|recording| second(recording, [1000, 2000])).is_empty());
        let silent: [&dyn Fn(&mut Document); 3] = [
            &|recording| recording.channels[0].writers[0].parted = 0,
            &|recording| recording.recorded[0].pids = vec![1],
            &|recording| recording.recorded[0].lived_ns = WINDOW,
        ];
        for change in silent {
            let found = said(find, &|recording| {
                eight(recording);
                change(recording);
            });
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

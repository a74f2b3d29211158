//! A process that closes all descriptors that it could have, most of which are not open, or reads or writes one of these again
//! and again.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::grouped;

/// Fewer take no time; fewer reads and writes are no loop.
const MANY: u64 = 50_000;
const MANY_CALLS: u64 = 10_000;

/// From this part of the window on a CPU, it matters.
const BUSY: f64 = 0.1;

/// `` `a.py` closed 1,048,570 descriptors that were not open (EBADF), and is on a CPU 40 % of the time: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let window = view.document.processes.window_ns.max(1) as f64;
    let closes = view.document.recorded.iter().enumerate().filter(|(_, process)| {
        process.failed_closes >= MANY
            && 2 * process.failed_closes >= process.calls
            && process.cpu_ns as f64 >= BUSY * window
    });
    let text = |(at, process): (usize, &RecordedProcess)| {
        let text = format!(
            "{} closed {} descriptors that were not open (EBADF), and is on a CPU {} of the time: such a loop goes up to the \
             limit of open files (`ulimit -n`). `close_range` closes all with one call.",
            view.name(at),
            grouped(process.failed_closes),
            percent((process.cpu_ns as f64 / window).min(1.0))
        );
        Finding { count: Some(process.failed_closes), ..Finding::new(FindingKind::BadDescriptors, [at], text) }
    };
    closes.map(text).chain(moves(view)).collect()
}

/// Reads and writes that fail again and again.
fn moves<'a>(view: &'a FindingView<'_>) -> impl Iterator<Item = Finding> + 'a {
    let fails = |(_, process): &(usize, &RecordedProcess)| {
        process.bad_calls >= MANY_CALLS && 2 * process.bad_calls >= process.calls
    };
    view.document.recorded.iter().enumerate().filter(fails).map(|(at, process)| {
        let text = format!(
            "{} of {} calls of {} read or wrote a descriptor that is not open (EBADF), again and again.",
            grouped(process.bad_calls),
            grouped(process.calls),
            view.name(at)
        );
        let finding = Finding::new(FindingKind::BadDescriptors, [at], text);
        Finding { count: Some(process.bad_calls), of: Some(process.calls), ..finding }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};

    #[test]
    fn a_loop_over_all_descriptors_is_said() {
        let closes = |failed: u64, calls: u64, cpu_ns: u64| {
            said(find, &|recording| {
                let process = &mut recording.recorded[1];
                (process.failed_closes, process.calls, process.cpu_ns) = (failed, calls, cpu_ns);
            })
        };
        let text = "`grep` closed 1,048,570 descriptors that were not open (EBADF), and is on a CPU 50 % of the time: such a \
                    loop goes up to the limit of open files (`ulimit -n`). `close_range` closes all with one call.";
        assert_eq!(closes(1_048_570, 1_050_000, WINDOW / 2), [text]);
        assert!(closes(1020, 1100, WINDOW / 2).is_empty(), "few");
        assert!(closes(60_000, 60_100, WINDOW / 100).is_empty(), "it takes no time");
        assert!(closes(60_000, 900_000, WINDOW / 2).is_empty(), "it does other things");
    }

    #[test]
    fn reads_of_what_is_not_open_are_said() {
        let reads = |failed: u64| {
            said(find, &|recording| {
                (recording.recorded[1].bad_calls, recording.recorded[1].calls) = (failed, 1_500_100)
            })
        };
        let text = "1,500,000 of 1,500,100 calls of `grep` read or wrote a descriptor that is not open (EBADF), again and again.";
        assert_eq!(reads(1_500_000), [text]);
        assert!(reads(20_000).is_empty() && reads(1).is_empty());
    }
}

//! A process that closes all descriptors that it could have, most of which are not open.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind};
use crate::util::text::grouped;

/// Fewer take no time.
const MANY: u64 = 50_000;

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
    let text = |(at, process): (usize, &crate::result::RecordedProcess)| {
        let text = format!(
            "{} closed {} descriptors that were not open (EBADF), and is on a CPU {} of the time: such a loop goes up to the \
             limit of open files (`ulimit -n`). `close_range` closes all with one call.",
            view.name(at),
            grouped(process.failed_closes),
            percent((process.cpu_ns as f64 / window).min(1.0))
        );
        Finding { count: Some(process.failed_closes), ..Finding::new(FindingKind::Closes, [at], text) }
    };
    closes.map(text).collect()
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
}

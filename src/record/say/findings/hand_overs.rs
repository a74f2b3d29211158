//! Work that threads hand to each other through pipes, one after the other.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedEnd};
use crate::util::text::{counted, grouped};

/// Fewer are no load.
const MANY: u64 = 10_000;

/// Longer ones, ns, are not mostly waking, nor are those of more bytes.
const SHORT_NS: u64 = 100_000;
const FEW_BYTES: u64 = 512;

/// Most of the sleeps are ended by a write of the recording.
const WOKEN: f64 = 0.8;

/// So many CPUs at most are in use, and so much of that is user code.
const ONE: f64 = 1.3;
const USER: f64 = 0.4;

/// `` 59,948 times, a thread of `ring` slept at a pipe until another one had written 1 byte, every 28.2 µs: only one runs at a
/// time. On one CPU (`taskset -c 0`), none has to wake another CPU. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let recording = view.document;
    let sum = |of: fn(&RecordedEnd) -> u64| view.readers().map(|(_, _, end)| of(end)).sum::<u64>();
    let (sleeps, bytes) = (sum(|end| end.sleeps), sum(|end| end.bytes));
    let wakes: u64 = view.writers().map(|(_, _, end)| end.wakes).sum();
    let window = recording.processes.window_ns;
    let cpu: u64 = recording.recorded.iter().map(|process| process.cpu_ns).sum();
    let user: f64 =
        recording.recorded.iter().map(|process| process.user_share.unwrap_or(1.0) * process.cpu_ns as f64).sum();
    let serial = cpu as f64 <= ONE * window as f64 && user <= USER * cpu as f64;
    if sleeps < MANY || window / sleeps > SHORT_NS || bytes / sleeps > FEW_BYTES || !serial {
        return Vec::new();
    }
    let main = view.readers().max_by_key(|(_, _, end)| end.sleeps).map(|(_, _, end)| end.process);
    let Some(main) = main.filter(|_| wakes as f64 >= WOKEN * sleeps as f64 && recording.environment.cpus != 1) else {
        return Vec::new();
    };
    let text = format!(
        "{} times, a thread of {} slept at a pipe until another one had written {}, every {}: only one runs at a time. On \
         one CPU (`taskset -c 0`), none has to wake another CPU.",
        grouped(sleeps),
        view.name(main),
        counted((bytes / sleeps).max(1), "byte"),
        after(window / sleeps)
    );
    vec![Finding {
        count: Some(sleeps),
        ns: Some(window / sleeps),
        ..Finding::new(FindingKind::HandOvers, [main], text)
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    /// `grep` sleeps 100,000 times for one byte of `seq`.
    fn handed(recording: &mut Document) {
        recording.channels.truncate(1);
        let pipe = &mut recording.channels[0];
        (pipe.readers[0].sleeps, pipe.readers[0].bytes, pipe.writers[0].wakes) = (100_000, 100_000, 100_000);
        for process in &mut recording.recorded {
            (process.cpu_ns, process.user_share) = (WINDOW / 4, Some(0.1));
        }
    }

    #[test]
    fn bytes_that_go_from_one_to_the_next_are_said() {
        let text = "100,000 times, a thread of `grep` slept at a pipe until another one had written 1 byte, every 40.0 µs: only \
                    one runs at a time. On one CPU (`taskset -c 0`), none has to wake another CPU.";
        assert_eq!(said(find, &handed), [text]);
    }

    #[test]
    fn large_blocks_long_work_and_stages_that_run_at_once_are_not() {
        let silent: [&dyn Fn(&mut Document); 6] = [
            &|recording| recording.channels[0].readers[0].bytes = 1 << 30,
            &|recording| recording.channels[0].readers[0].sleeps = 20_000,
            &|recording| recording.channels[0].writers[0].wakes = 0,
            &|recording| recording.recorded[0].cpu_ns = 2 * WINDOW,
            &|recording| recording.recorded.iter_mut().for_each(|process| process.user_share = None),
            &|recording| recording.environment.cpus = 1,
        ];
        for change in silent {
            let found = said(find, &|recording| {
                handed(recording);
                change(recording);
            });
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

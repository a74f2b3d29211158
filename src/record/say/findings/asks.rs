//! A process that asks again and again how much there is to read.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::{counted, grouped};

/// Fewer are no load.
const MANY: u64 = 10_000;

/// So many for each read are no preparation of it.
const FOR_EACH: u64 = 10;

/// From this part of its life on that it does not sleep, a process only looks.
const BUSY: f64 = 0.5;

/// `` `a.py` asked 812,345 times how much there is to read (FIONREAD), and read 20 times: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let reads = |at: usize| -> u64 {
        view.readers().filter(|(_, _, end)| end.process == at).map(|(_, _, end)| end.all_calls()).sum()
    };
    // What it waits for a CPU, it would use.
    let awake =
        |process: &RecordedProcess| (process.cpu_ns + process.runnable_ns) as f64 / process.lived_ns.max(1) as f64;
    let asks = view.document.recorded.iter().enumerate().filter(|(at, process)| {
        process.fill_asks >= MANY && process.fill_asks >= FOR_EACH * reads(*at) && awake(process) >= BUSY
    });
    let text = |(at, process): (usize, &RecordedProcess)| {
        let text = format!(
            "{} asked {} times how much there is to read (FIONREAD, as `available()` does) and read {}: it does not sleep \
             meanwhile. `read` or `poll` waits for data.",
            view.name(at),
            grouped(process.fill_asks),
            counted(reads(at), "time"),
        );
        Finding { count: Some(process.fill_asks), ..Finding::new(FindingKind::FillAsks, [at], text) }
    };
    asks.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};

    #[test]
    fn who_only_asks_is_said() {
        let asks = |count: u64, cpu: f64| {
            said(find, &|recording| {
                let process = &mut recording.recorded[1];
                (process.fill_asks, process.lived_ns) = (count, WINDOW);
                process.cpu_ns = (cpu * WINDOW as f64) as u64;
            })
        };
        let text = "`grep` asked 812,345 times how much there is to read (FIONREAD, as `available()` does) and read 20 times: \
                    it does not sleep meanwhile. `read` or `poll` waits for data.";
        assert_eq!(asks(812_345, 0.99), [text]);
        assert!(asks(9000, 0.99).is_empty() && asks(812_345, 0.1).is_empty());
        let reads = said(find, &|recording| {
            recording.recorded[1].fill_asks = 20_000;
            recording.recorded[1].cpu_ns = WINDOW;
            recording.channels[0].readers[0].calls = [("read".to_owned(), 20_000)].into();
        });
        assert!(reads.is_empty(), "it asks before each read");
    }
}

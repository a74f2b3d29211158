//! A process that has what it writes stored again and again.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, PathWhat, WaitReason};
use crate::util::text::grouped;

/// Fewer are one for a file.
const MANY: u64 = 100;

/// From this part of the path on, it waits for the disk.
const MUCH: f64 = 0.3;

/// `` `a.py` called `fsync` 1,000 times, and waits for the disk 85 % of the time: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let disk = PathWhat::Asleep { reason: WaitReason::Disk };
    let waits = |at: usize| {
        let parts = document.path.iter().flat_map(|path| &path.parts);
        let ns: u64 = parts.filter(|part| part.process == Some(at) && part.what == disk).map(|part| part.ns).sum();
        ns as f64 / document.processes.window_ns.max(1) as f64
    };
    let syncs =
        document.recorded.iter().enumerate().filter(|(at, process)| process.syncs >= MANY && waits(*at) >= MUCH);
    let text = |(at, process): (usize, &crate::result::RecordedProcess)| {
        let text = format!(
            "{} called `fsync` {} times, and waits for files {} of the time: each call waits until the disk has all that was \
             written. One for many lines, or at the end, waits less often.",
            view.name(at),
            grouped(process.syncs),
            percent(waits(at))
        );
        Finding { count: Some(process.syncs), ..Finding::new(FindingKind::Syncs, [at], text) }
    };
    syncs.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{CriticalPath, PathPart};

    #[test]
    fn a_sync_for_each_line_is_said() {
        let syncs = |count: u64, share: f64| {
            said(find, &|recording| {
                recording.recorded[1].syncs = count;
                let what = PathWhat::Asleep { reason: WaitReason::Disk };
                let ns = (share * WINDOW as f64) as u64;
                let part = PathPart { process: Some(1), what, ns, ..PathPart::default() };
                recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
            })
        };
        let text = "`grep` called `fsync` 1,000 times, and waits for files 85 % of the time: each call waits until the disk has \
                    all that was written. One for many lines, or at the end, waits less often.";
        assert_eq!(syncs(1000, 0.85), [text]);
        assert!(syncs(5, 0.85).is_empty() && syncs(1000, 0.1).is_empty());
    }
}

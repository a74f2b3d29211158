//! What the last time was made of before a recording was written that waited for it.

use crate::record::say::findings::view::FindingView;
use crate::record::say::words;
use crate::report::number::time;
use crate::result::{CriticalPath, Document, Finding, FindingKind, Until};

/// From this part of the recording on, it says the same as the first sentence.
const MOST: f64 = 0.8;

/// `` The last 0.70 s were 96 % `cat` stopped by `bash` and 4 % other parts. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let until = view.document.trigger.as_ref().and_then(|trigger| trigger.until);
    let (Some(Until::Full(ns) | Until::Empty(ns)), Some(path)) = (until, &view.document.path) else {
        return Vec::new();
    };
    let last = last_of(path, ns);
    let all: u64 = path.slice_ns.iter().sum();
    let ns: u64 = last.slice_ns.iter().sum();
    if ns as f64 > MOST * all as f64 {
        return Vec::new();
    }
    let processes: Vec<usize> = last.parts.first().and_then(|part| part.process).into_iter().collect();
    let text = words::made_of(&Document { path: Some(last), ..view.document.clone() })
        .map(|parts| format!("The last {} were {parts}.", time(ns as f64 / 1e9)));
    text.into_iter()
        .map(|text| Finding { ns: Some(ns), ..Finding::new(FindingKind::Stall, processes.clone(), text) })
        .collect()
}

/// The last slices of a path, of at least so many ns.
fn last_of(path: &CriticalPath, ns: u64) -> CriticalPath {
    let mut left = ns;
    let is_wanted = |slice: &&u64| {
        let wanted = left > 0;
        left = left.saturating_sub(**slice);
        wanted
    };
    let count = path.slice_ns.iter().rev().take_while(is_wanted).count();
    let first = path.slice_ns.len() - count;
    let mut last = CriticalPath { slice_ns: path.slice_ns[first..].to_vec(), ..CriticalPath::default() };
    for part in &path.parts {
        let slices = part.slices.get(first..).unwrap_or_default().to_vec();
        let ns = slices.iter().sum();
        last.parts.extend((ns > 0).then(|| crate::result::PathPart { slices, ns, ..part.clone() }));
    }
    last.parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::{PathPart, PathWhat, Trigger, WaitReason};

    fn kept(recording: &mut Document, until: Until) {
        let slice = recording.processes.window_ns / 8;
        let part = |process, what, slices: [u64; 8]| {
            let slices = slices.map(|has| has * slice).to_vec();
            PathPart { process: Some(process), what, ns: slices.iter().sum(), slices, ..PathPart::default() }
        };
        let stopped = PathWhat::Asleep { reason: WaitReason::Stopped };
        let parts =
            vec![part(0, PathWhat::OnCpu, [1, 1, 1, 1, 1, 1, 0, 0]), part(2, stopped, [0, 0, 0, 0, 0, 0, 1, 1])];
        recording.path = Some(CriticalPath { parts, slice_ns: vec![slice; 8], ..CriticalPath::default() });
        recording.trigger = Some(Trigger { until: Some(until), name: "grep".to_owned() });
    }

    #[test]
    fn what_happened_last_is_said() {
        let of = |until: Until| said(find, &|recording| kept(recording, until));
        assert_eq!(of(Until::Full(600_000_000)), ["The last 1.00 s were 100 % `cat` stopped."]);
        assert_eq!(
            of(Until::Empty(1_100_000_000))[0],
            "The last 1.50 s were 67 % `cat` stopped and 33 % `seq` on a CPU."
        );
        assert!(of(Until::Stopped).is_empty() && of(Until::Full(3_900_000_000)).is_empty());
        assert!(said(find, &|recording| recording.path = None).is_empty());
    }
}

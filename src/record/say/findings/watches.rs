//! A process that looks now and then whether a child has ended. What the child does is the cause, not the timer.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, PathWhat, RecordedProcess, WaitReason};
use crate::util::text::counted;

/// Fewer looks are no loop.
const MANY: u64 = 5;

/// From this part of the window on, it waits; so much of it the child has to be on a CPU.
const MUCH: f64 = 0.3;

/// `` `python3 watch.py` only looks now and then whether its child has ended (41 times): meanwhile `python3 (4711)` is on a CPU
/// 95 % of the time. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let least = MUCH * document.processes.window_ns as f64;
    let timer = PathWhat::Asleep { reason: WaitReason::Timer };
    let watches = |at: &usize| document.recorded[*at].watches >= MANY && view.on_path(*at, timer) >= MUCH;
    let texts = (0..document.recorded.len()).filter(watches).filter_map(|at| {
        let process = &document.recorded[at];
        let is_later =
            |(_, other): &(usize, &RecordedProcess)| other.stage == process.stage && other.begin_ns > process.begin_ns;
        let of_stage = document.recorded.iter().enumerate().filter(is_later);
        let (child, works) = of_stage.max_by_key(|(_, other)| other.cpu_ns)?;
        let share = works.cpu_ns as f64 / document.processes.window_ns.max(1) as f64;
        let text = format!(
            "{} only looks now and then whether its child has ended ({}): meanwhile {} is on a CPU {} of the time.",
            view.name(at),
            counted(process.watches, "time"),
            view.name(child),
            percent(share)
        );
        (works.cpu_ns as f64 >= least)
            .then(|| Finding { count: Some(process.watches), ..Finding::new(FindingKind::Watches, [child, at], text) })
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{CriticalPath, Document, PathPart};

    fn watched(recording: &mut Document, looks: u64, cpu_ns: u64) {
        recording.recorded[0].watches = looks;
        (recording.recorded[1].begin_ns, recording.recorded[1].cpu_ns) = (1, cpu_ns);
        recording.recorded[1].stage = recording.recorded[0].stage;
        let what = PathWhat::Asleep { reason: WaitReason::Timer };
        let part = PathPart { process: Some(0), what, ns: WINDOW / 10 * 9, ..PathPart::default() };
        recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
    }

    #[test]
    fn what_the_child_does_is_said() {
        let text = "`seq` only looks now and then whether its child has ended (41 times): meanwhile `grep` is on a CPU 90 % of \
                    the time.";
        assert_eq!(said(find, &|recording| watched(recording, 41, WINDOW / 10 * 9)), [text]);
        assert!(said(find, &|recording| watched(recording, 3, WINDOW / 10 * 9)).is_empty(), "few looks");
        assert!(said(find, &|recording| watched(recording, 41, WINDOW / 10)).is_empty(), "the child does little");
    }
}

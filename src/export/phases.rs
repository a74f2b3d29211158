//! What the processes of a recording did over time, from its timeline.

use super::samples::ProcessPhase;
use crate::result::{Document, TimelineProcess};

/// The parts of the time in which one process mostly waited, and for what.
pub(super) fn phases(recording: &Document, process: usize) -> Vec<ProcessPhase> {
    let timeline = &recording.timeline;
    let (Some(own), Some(process)) =
        (timeline.processes.iter().find(|own| own.process == process), recording.recorded.get(process))
    else {
        return Vec::new();
    };
    let mut phases: Vec<ProcessPhase> = Vec::new();
    let mut begin_ns = 0u64;
    for (slice, length) in timeline.slice_ns.iter().enumerate() {
        let end_ns = begin_ns.saturating_add(*length);
        let lived = [begin_ns.max(process.begin_ns), end_ns.min(process.end_ns)];
        begin_ns = end_ns;
        if lived[0] >= lived[1] {
            continue;
        }
        let Some((what, share)) = most(own, slice) else { continue };
        let [begin, end] = lived;
        match phases.last_mut().filter(|last| last.what == what && last.end_ns == begin) {
            Some(last) => {
                let [before, added] = [last.end_ns - last.begin_ns, end - begin].map(|ns| ns as f64);
                last.share = (last.share * before + share * added) / (before + added);
                last.end_ns = end;
            }
            None => phases.push(ProcessPhase { what, begin_ns: begin, end_ns: end, share }),
        }
    }
    phases
}

/// What the process did most in a slice, and its share; `None` if it was on a CPU.
fn most(own: &TimelineProcess, slice: usize) -> Option<(&'static str, f64)> {
    let of = |shares: &[f64]| shares.get(slice).copied().unwrap_or(0.0);
    let [running, runnable, empty, full] = [&own.running, &own.runnable, &own.empty, &own.full].map(|all| of(all));
    let [throttled, stopped] = [&own.throttled, &own.stopped].map(|all| of(all));
    let waits = [
        ("waits for a CPU", runnable - throttled),
        ("throttled", throttled),
        ("pipe is empty", empty),
        ("pipe is full", full),
        ("stopped", stopped),
        ("other sleep", 1.0 - running - runnable - empty - full - stopped),
    ];
    let longest = waits.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other));
    longest.filter(|(_, share)| *share > running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{RecordedProcess, Timeline};

    #[test]
    fn slices_with_the_same_wait_are_one_phase() {
        let process = RecordedProcess { begin_ns: 5, end_ns: 45, ..RecordedProcess::default() };
        let own = TimelineProcess {
            process: 0,
            running: vec![0.9, 0.1, 0.2, 0.0, 0.0],
            runnable: vec![0.0; 5],
            empty: vec![0.1, 0.9, 0.7, 0.1, 0.0],
            full: vec![0.0, 0.0, 0.1, 0.0, 0.9],
            ..TimelineProcess::default()
        };
        let timeline = Timeline { slice_ns: vec![10; 5], processes: vec![own], pipes: Vec::new() };
        let recording = Document { recorded: vec![process], timeline, ..Document::default() };
        let found = phases(&recording, 0);
        let about: Vec<(&str, u64, u64)> =
            found.iter().map(|phase| (phase.what, phase.begin_ns, phase.end_ns)).collect();
        assert_eq!(about, [("pipe is empty", 10, 30), ("other sleep", 30, 40), ("pipe is full", 40, 45)]);
        assert!((found[0].share - 0.8).abs() < 1e-9);
        assert_eq!(phases(&recording, 1), []);
    }
}

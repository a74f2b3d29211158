//! Connections that were not made.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, PathWhat, RecordedProcess, WaitReason};
use crate::util::text::{counted, grouped};

/// Fewer, or a smaller part, are those of a program that tries one address after the other.
const MANY: u64 = 10;
const SHARE: f64 = 0.6;

/// A wait for a smaller part of the window is not said.
const LONG: f64 = 0.5;

/// `` 6 of 8 connections of `a.py` failed with EAGAIN: ... `` or `` 600 of 600 connections of `a.py` were refused ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, process) in view.document.recorded.iter().enumerate() {
        let (name, all) = (view.name(at), counted(process.connects, "connection"));
        let said = |count: u64, text: String| Finding {
            count: Some(count),
            of: Some(process.connects),
            ..Finding::new(FindingKind::Refused, [at], text)
        };
        let full = process.full_queues;
        if full > 0 {
            let text = format!(
                "{} of {all} of {name} failed with EAGAIN: the queue of the listening socket was full. Who listens has to \
                 accept sooner, or to `listen` with a larger backlog.",
                grouped(full)
            );
            found.push(said(full, text));
        }
        let refused = process.refused_connects;
        if refused >= MANY && refused as f64 >= SHARE * process.connects as f64 {
            let text = format!(
                "{} of {all} of {name} were refused (ECONNREFUSED): nobody listens at that address.",
                grouped(refused)
            );
            found.push(said(refused, text));
        }
    }
    found.extend(waits(view));
    found
}

/// `` `a.py` waits 96 % of the time in `connect`: ... ``
fn waits(view: &FindingView<'_>) -> Option<Finding> {
    let document = view.document;
    let share = |process: &RecordedProcess| {
        let waited = process.waits.get(&WaitReason::Connect).map_or(0, |wait| wait.ns);
        (waited as f64 / document.processes.window_ns.max(1) as f64).min(1.0)
    };
    let (at, process) = document.recorded.iter().enumerate().max_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)))?;
    let connect = PathWhat::Asleep { reason: WaitReason::Connect };
    let parts = document.path.iter().flat_map(|path| &path.parts);
    // The path says it.
    let is_said = parts.filter(|part| part.what == connect).map(|part| part.ns).sum::<u64>() > 0;
    let text = format!(
        "{} waits {} of the time in `connect`, until who listens accepts a connection.",
        view.name(at),
        percent(share(process))
    );
    (share(process) >= LONG && !is_said).then(|| Finding::new(FindingKind::Waiting, [at], text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::WaitTotal;

    #[test]
    fn a_long_wait_in_connect_is_said() {
        let waits = |ns: u64| {
            said(find, &|recording| {
                recording.recorded[1].waits = [(WaitReason::Connect, WaitTotal { ns, count: 1 })].into();
            })
        };
        let text = "`grep` waits 75 % of the time in `connect`, until who listens accepts a connection.";
        assert_eq!(waits(WINDOW / 4 * 3), [text]);
        assert!(waits(WINDOW / 4).is_empty());
    }

    #[test]
    fn connections_that_were_not_made_are_said() {
        let connects = |all: u64, refused: u64, full: u64| {
            said(find, &|recording| {
                let process = &mut recording.recorded[1];
                (process.connects, process.refused_connects, process.full_queues) = (all, refused, full);
            })
        };
        let text = "6 of 8 connections of `grep` failed with EAGAIN: the queue of the listening socket was full. Who listens \
                    has to accept sooner, or to `listen` with a larger backlog.";
        assert_eq!(connects(8, 0, 6), [text]);
        let text = "600 of 601 connections of `grep` were refused (ECONNREFUSED): nobody listens at that address.";
        assert_eq!(connects(601, 600, 0), [text]);
        assert!(connects(2, 1, 0).is_empty() && connects(100, 20, 0).is_empty(), "the next address was good");
    }
}

//! Many short processes, one for each line of a loop.

use crate::record::say::findings::view::{FindingView, after};
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, RecordedProcess};
use std::collections::BTreeMap;

/// Fewer are no load.
const MANY: u64 = 100;

/// A longer life is not mostly start and end, ns.
const SHORT_NS: u64 = 50_000_000;

/// Of the window.
const MUCH: f64 = 0.3;

/// `` 500 processes were started, 250 of them `grep`, each for 3.10 ms in the mean: starting and ending them is 61 % of the
/// time. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let recording = view.document;
    let is_short = |process: &&RecordedProcess| {
        let count = process.pids.len() as u64;
        count >= MANY / 2 && process.lived_ns / count.max(1) < SHORT_NS
    };
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    // A shell leaves copies of itself before they execute a program.
    let executed = |process: &&RecordedProcess| process.execs >= process.pids.len() as u64 / 2;
    for process in recording.recorded.iter().filter(is_short).filter(executed) {
        *names.entry(&process.name).or_default() += process.pids.len() as u64;
    }
    let forks: u64 = recording.recorded.iter().map(|process| process.forks).sum();
    let short = |at: usize| recording.recorded.get(at).is_some_and(|process| is_short(&process));
    let parts = recording.path.iter().flat_map(|path| &path.parts);
    let ns: u64 = parts.filter(|part| part.process.is_some_and(short)).map(|part| part.ns).sum();
    let share = ns as f64 / recording.processes.window_ns.max(1) as f64;
    let Some((name, count)) = names.into_iter().max_by_key(|(_, count)| *count) else { return Vec::new() };
    if forks < MANY || share < MUCH {
        return Vec::new();
    }
    let processes =
        recording.recorded.iter().enumerate().filter(|(_, process)| is_short(process) && process.name == name);
    let processes: Vec<usize> = processes.map(|(at, _)| at).collect();
    let text = format!(
        "{forks} processes were started in {}, {count} of them `{name}`: starting and ending such short ones is {} of the \
         time. One that handles all lines is started once.",
        after(recording.processes.window_ns),
        percent(share)
    );
    let finding = Finding::new(FindingKind::Started, processes, text);
    vec![Finding { count: Some(count), of: Some(forks), ns: Some(ns), ..finding }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{CriticalPath, Document, PathPart};

    /// `sh` starts 500 processes, of which 250 are `grep` and take 61 % of the time.
    fn loops(recording: &mut Document) {
        recording.recorded[0].forks = 500;
        let process = &mut recording.recorded[1];
        (process.pids, process.lived_ns, process.execs) = ((0..250).collect(), 250 * 3_100_000, 250);
        let copies = RecordedProcess { name: "sh".to_owned(), pids: (0..400).collect(), ..RecordedProcess::default() };
        recording.recorded.push(copies);
        let part = PathPart { process: Some(1), ns: WINDOW / 100 * 61, ..PathPart::default() };
        recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
    }

    #[test]
    fn hundreds_of_short_processes_are_said() {
        let text = "500 processes were started in 4.00 s, 250 of them `grep`: starting and ending such short ones is 61 % of \
                    the time. One that handles all lines is started once.";
        assert_eq!(said(find, &loops), [text]);
    }

    #[test]
    fn few_long_or_cheap_ones_are_not() {
        let silent: [&dyn Fn(&mut Document); 4] = [
            &|recording| recording.recorded[0].forks = 20,
            &|recording| recording.recorded[1].pids = vec![1, 2],
            &|recording| recording.recorded[1].lived_ns = 250 * 100_000_000,
            &|recording| recording.path = None,
        ];
        for change in silent {
            let found = said(find, &|recording| {
                loops(recording);
                change(recording);
            });
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

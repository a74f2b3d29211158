//! Runs of one program, one after the other, each on one CPU, although there are others.

use crate::record::model::forks::by_program;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedProcess};

/// Fewer are steps of their own, and shorter ones, ns, are mostly start and end.
const LEAST: u64 = 3;
const SHORT_NS: u64 = 50_000_000;

/// Together, they live for this part of the window, one at a time, and are on a CPU for that part, or wait for one.
const LIVE: [f64; 2] = [0.6, 1.02];
const WORK: f64 = 0.5;

/// `` `bash a.sh` ran `awk` 6 times, one after the other, each on one CPU: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let window = view.document.processes.window_ns.max(1) as f64;
    let all = &view.document.recorded;
    let busy: u64 = all.iter().map(|process| process.cpu_ns).sum();
    // Otherwise, there is nothing for more to run on.
    if busy as f64 > (view.document.environment.cpus as f64 - 0.5) * window {
        return Vec::new();
    }
    let sum = |of: &[usize], what: fn(&RecordedProcess) -> u64| of.iter().map(|at| what(&all[*at])).sum::<u64>();
    let mut found: Vec<(u64, Finding)> = Vec::new();
    for ((starter, name), of) in by_program(all, 0..all.len()) {
        let count = sum(&of, |process| process.pids.len() as u64);
        let lived = sum(&of, |process| process.lived_ns);
        let worked = sum(&of, |process| process.cpu_ns + process.runnable_ns);
        let share = lived as f64 / window;
        let is_so = count >= LEAST
            && lived / count >= SHORT_NS
            && (LIVE[0]..=LIVE[1]).contains(&share)
            && worked as f64 >= WORK * window
            && sum(&of, |process| process.threads) == count;
        if is_so {
            let text = format!(
                "{} ran `{name}` {count} times, one after the other, each on one CPU for {} in the mean. If none needs what another \
                 one wrote, several can run at once: `xargs -P`, or `&` and `wait`.",
                view.name(starter),
                after(lived / count)
            );
            let finding = Finding::new(FindingKind::Turns, of, text);
            found.push((worked, Finding { count: Some(count), ..finding }));
        }
    }
    found.into_iter().max_by_key(|(worked, _)| *worked).map(|(_, finding)| finding).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    fn loops(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            recording.environment.cpus = 2;
            let run = RecordedProcess {
                name: "awk".to_owned(),
                started_by: Some(0),
                execs: 1,
                threads: 1,
                ..RecordedProcess::default()
            };
            for pid in 10..14 {
                let (lived_ns, cpu_ns) = (WINDOW / 4, WINDOW / 5);
                recording.recorded.push(RecordedProcess { pids: vec![pid], lived_ns, cpu_ns, ..run.clone() });
            }
            change(recording);
        })
    }

    #[test]
    fn runs_one_after_the_other_are_said() {
        let text = "`seq` ran `awk` 4 times, one after the other, each on one CPU for 1.00 s in the mean. If none needs what another one \
                    wrote, several can run at once: `xargs -P`, or `&` and `wait`.";
        assert_eq!(loops(&|_| {}), [text]);
        let silent: [&dyn Fn(&mut Document); 4] = [
            &|recording| recording.environment.cpus = 1,
            &|recording| recording.recorded[4].threads = 2,
            &|recording| recording.recorded[4].lived_ns = WINDOW,
            &|recording| recording.recorded[3..].iter_mut().for_each(|process| process.cpu_ns = 0),
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(loops(change).is_empty(), "{at}");
        }
    }
}

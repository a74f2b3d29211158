//! What would be left without a process cannot be less than what another one executes. Clocks of threads do not know that of
//! a process which began with another one's.

use crate::result::{CriticalPath, PathCeiling, RecordedProcess, WaitReason};

/// Whether a ceiling is not less than what any other process needs. Those of one row may have run at once or in turn, so what
/// they need together counts, at most as long as they lived.
pub(crate) fn can_be(ceiling: &PathCeiling, recorded: &[RecordedProcess]) -> bool {
    let needed = |process: &RecordedProcess| {
        let timer_ns = process.waits.get(&WaitReason::Timer).map_or(0, |wait| wait.ns);
        // Threads of one process that only look again now and then are no work.
        let needed = if process.has_threads() { process.cpu_ns } else { process.cpu_ns + timer_ns };
        needed.min(process.end_ns.saturating_sub(process.begin_ns))
    };
    let others = recorded.iter().enumerate().filter(|(at, _)| *at != ceiling.process);
    others.map(|(_, process)| needed(process)).all(|ns| ns <= ceiling.ns)
}

/// A ceiling that is not shorter than the window by this part says nothing.
const SHORTER: f64 = 0.05;

/// Raise the ceilings of `path` to the time that each other process needs: on a CPU, and asleep on timers of its own.
pub(crate) fn raise(path: &mut CriticalPath, recorded: &[RecordedProcess], cpus: u64, window_ns: u64) {
    // Threads and processes of which it is not known whether they ran at once.
    let needed = |process: &RecordedProcess| {
        let many = process.pids.len() as u64;
        let at_once = if process.has_threads() {
            process.threads
        } else {
            many.min(process.lived_ns.div_ceil(process.end_ns.saturating_sub(process.begin_ns).max(1)))
        };
        let timer_ns = process.waits.get(&WaitReason::Timer).map_or(0, |wait| wait.ns);
        (process.cpu_ns / at_once.clamp(1, cpus.max(1))).max(timer_ns / at_once.max(1))
    };
    for ceiling in &mut path.ceilings {
        let others = recorded.iter().enumerate().filter(|(at, _)| *at != ceiling.process);
        ceiling.ns = others.map(|(_, process)| needed(process)).fold(ceiling.ns, u64::max);
    }
    path.ceilings.retain(|ceiling| ceiling.ns as f64 <= window_ns as f64 * (1.0 - SHORTER));
    path.ceilings.sort_by_key(|ceiling| ceiling.ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::WaitTotal;

    #[test]
    fn what_another_process_needs_is_no_ceiling() {
        let can_be_at = |ns: u64, change: &dyn Fn(&mut RecordedProcess)| {
            let mut other =
                RecordedProcess { cpu_ns: 600, pids: vec![1], threads: 1, end_ns: 1000, ..RecordedProcess::default() };
            change(&mut other);
            can_be(&PathCeiling { process: 0, ns }, &[RecordedProcess::default(), other])
        };
        assert!(!can_be_at(599, &|_| {}) && can_be_at(600, &|_| {}));
        let sleeps = |of: &mut RecordedProcess| {
            of.waits.insert(WaitReason::Timer, WaitTotal { ns: 300, count: 1 });
        };
        assert!(!can_be_at(899, &sleeps) && can_be_at(900, &sleeps));
        // Several processes in one row, and threads, of which some only look again.
        let several = |of: &mut RecordedProcess| {
            (of.cpu_ns, of.pids, of.threads) = (2400, vec![1, 2, 3, 4], 4);
            sleeps(of);
        };
        assert!(!can_be_at(999, &several) && can_be_at(1000, &several));
        let threads = |of: &mut RecordedProcess| {
            of.threads = 2;
            sleeps(of);
        };
        assert!(!can_be_at(599, &threads) && can_be_at(600, &threads));
    }

    #[test]
    fn no_ceiling_is_below_what_another_process_executes() {
        let process = |cpu_ns, threads| RecordedProcess { cpu_ns, threads, ..RecordedProcess::default() };
        let raised = |recorded: &[RecordedProcess]| {
            let ceiling = |process, ns| PathCeiling { process, ns };
            let ceilings = vec![ceiling(0, 1), ceiling(1, 300)];
            let mut path = CriticalPath { ceilings, ..CriticalPath::default() };
            raise(&mut path, recorded, 2, 1000);
            path.ceilings.iter().map(|ceiling| (ceiling.process, ceiling.ns)).collect::<Vec<_>>()
        };
        assert_eq!(raised(&[process(100, 1), process(600, 1)]), [(1, 300), (0, 600)]);
        // Two threads may have run at once, and more threads than CPUs may not.
        assert_eq!(raised(&[process(100, 1), process(600, 2)]), [(0, 300), (1, 300)]);
        assert_eq!(raised(&[process(100, 1), process(600, 9)]), [(0, 300), (1, 300)]);
        // Three that ran one after the other, and one that sleeps by itself.
        let mut in_turn = process(600, 3);
        (in_turn.pids, in_turn.execs, in_turn.lived_ns, in_turn.end_ns) = (vec![1, 2, 3], 3, 900, 900);
        assert_eq!(raised(&[process(100, 1), in_turn]), [(1, 300), (0, 600)]);
        let mut sleeper = process(1, 1);
        sleeper.waits.insert(WaitReason::Timer, WaitTotal { ns: 700, count: 1 });
        assert_eq!(raised(&[process(100, 1), sleeper]), [(1, 300), (0, 700)]);
        // What is hardly shorter is not said.
        assert_eq!(raised(&[process(100, 1), process(990, 1)]), [(1, 300)]);
    }
}

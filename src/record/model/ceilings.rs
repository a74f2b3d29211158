//! What would be left without a process cannot be less than what another one executes. Clocks of threads do not know that of
//! a process which began with another one's.

use crate::result::{CriticalPath, RecordedProcess};

/// A ceiling that is not shorter than the window by this part says nothing.
const SHORTER: f64 = 0.05;

/// Raise the ceilings of `path` to the time that each other process has to have a CPU.
pub(crate) fn raise(path: &mut CriticalPath, recorded: &[RecordedProcess], cpus: u64, window_ns: u64) {
    // Threads of which it is not known whether they ran at once.
    let needed = |process: &RecordedProcess| {
        let threads = process.threads.max(process.pids.len() as u64).clamp(1, cpus.max(1));
        process.cpu_ns / threads
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
    use crate::result::PathCeiling;

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
        // What is hardly shorter is not said.
        assert_eq!(raised(&[process(100, 1), process(990, 1)]), [(1, 300)]);
    }
}

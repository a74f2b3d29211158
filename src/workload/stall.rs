//! Notices workers that do nothing any more, such as one that was stopped by a signal.

use crate::util::process_stat::ProcessStat;
use crate::util::progress;
use std::time::{Duration, Instant};

/// How long is waited for workers that use no CPU time.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// How often CPU times are read.
    every: Duration,
    /// Then the user is told.
    silent: Duration,
    /// Then waiting ends.
    limit: Duration,
}

const PATIENCE: Patience =
    Patience { every: Duration::from_secs(1), silent: Duration::from_secs(5), limit: Duration::from_secs(60) };

/// A worker that has not replied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    pub name: &'static str,
    pub pid: u32,
}

/// Watches the CPU time of workers.
#[derive(Debug)]
pub(super) struct StallWatch {
    patience: Patience,
    ticks: u64,
    since: Instant,
    looked: Instant,
    told: bool,
}

impl StallWatch {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { patience: PATIENCE, ticks: 0, since: now, looked: now, told: false }
    }

    /// Look at the workers that have not replied. Returns why waiting is in vain, once they have used no CPU time
    /// for too long.
    pub(super) fn look(&mut self, workers: &[Awaited]) -> Option<String> {
        if self.looked.elapsed() < self.patience.every {
            return None;
        }
        self.looked = Instant::now();
        let states: Vec<(&Awaited, ProcessStat)> =
            workers.iter().filter_map(|worker| Some((worker, ProcessStat::of(worker.pid)?))).collect();
        let ticks = states.iter().map(|(_, state)| state.ticks).sum();
        if ticks != self.ticks || states.is_empty() {
            (self.ticks, self.since, self.told) = (ticks, self.looked, false);
            return None;
        }
        let silent = self.since.elapsed();
        let why = || {
            let each = states
                .iter()
                .map(|(worker, state)| format!("{} (process {}) {}", worker.name, worker.pid, words(state.state)));
            each.collect::<Vec<_>>().join(", ")
        };
        if silent >= self.patience.silent && !self.told {
            self.told = true;
            progress::note(&format!("the workload makes no progress: {}", why()));
        }
        let limit = self.patience.limit;
        (silent >= limit).then(|| format!("the workload made no progress for {} s: {}", limit.as_secs(), why()))
    }
}

/// The state of a process in a sentence.
fn words(state: char) -> &'static str {
    match state {
        'T' => "was stopped by a signal: continue it with kill -CONT",
        't' => "is stopped by a debugger",
        'D' => "waits in the kernel and cannot be interrupted",
        'R' => "gets no CPU",
        _ => "sleeps",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_worker_is_named_and_not_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id();
        // SAFETY: sends a signal to a child that has not been reaped.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGSTOP) };
        while ProcessStat::of(pid).unwrap().state != 'T' {
            std::thread::yield_now();
        }
        let patience = Patience { every: Duration::ZERO, silent: Duration::ZERO, limit: Duration::from_millis(20) };
        let mut watch = StallWatch { patience, ..StallWatch::new() };
        let worker = Awaited { name: "writer", pid };
        let why = loop {
            if let Some(why) = watch.look(&[worker]) {
                break why;
            }
        };
        assert!(why.contains(&format!("writer (process {pid}) was stopped by a signal")), "{why}");
        assert!(words('T').contains("kill -CONT"));
        // One that has ended is not waited for here: its socket tells that.
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(watch.look(&[worker]), None);
    }
}

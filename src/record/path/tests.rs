//! Clocks of threads, from steps as the BPF programs write them.

use super::clocks::OF_ALL;
use super::follow::PathFollower;
use crate::record::raw::{
    PR_ASLEEP, PR_RUNNABLE, PR_STEP_EXEC, PR_STEP_GONE, PR_STEP_NAME, PR_STEP_RUN, PR_STEP_WAKE, PrBirth, PrNamed,
    PrRun, PrStep, PrWho,
};
use bytemuck::{Zeroable as _, bytes_of};

const MS: u64 = 1_000_000;
const PIPE: u64 = 7;

/// Steps of threads whose addresses are their process ids.
struct Steps(PathFollower);

impl Steps {
    /// Each of these processes runs from 0 on.
    fn new(cpus: u64, processes: &[u32]) -> Self {
        let mut steps = Self(PathFollower::new(cpus));
        for tgid in processes {
            let who = PrWho { tgid: *tgid, name: [(*tgid).into(), 0], ..PrWho::zeroed() };
            let task = (*tgid).into();
            steps.0.step(bytes_of(&PrBirth { kind: PR_STEP_EXEC as u32, task, who, ..PrBirth::zeroed() }));
        }
        steps
    }

    fn wake(&mut self, task: u64, other: u64, at: u64) {
        let at = at * MS;
        self.0.step(bytes_of(&PrStep { kind: PR_STEP_WAKE as u32, task, at, other, ..PrStep::zeroed() }));
    }

    /// The thread runs from `at` on. It had slept, or been runnable, since `since`; `before` had the CPU.
    fn run(&mut self, task: u64, state: usize, [since, at]: [u64; 2], before: u32) {
        let (kind, detail) = (PR_STEP_RUN as u32, state as u32);
        let pipe = if state == PR_ASLEEP { PIPE } else { 0 };
        let (since, at) = (since * MS, at * MS);
        self.0.step(bytes_of(&PrRun { kind, detail, task, at, since, before, pipe, ..PrRun::zeroed() }));
    }

    fn gone(&mut self, task: u64, at: u64) {
        let at = at * MS;
        self.0.step(bytes_of(&PrStep { kind: PR_STEP_GONE as u32, detail: 1, task, at, ..PrStep::zeroed() }));
    }

    /// The clocks of all, and without each process in their order, in ms.
    fn clocks(&self, processes: usize) -> Vec<u64> {
        self.0.ended[OF_ALL..=processes].iter().map(|ns| ns / MS).collect()
    }
}

#[test]
fn time_for_which_other_programs_had_the_cpu_is_left_out() {
    let mut steps = Steps::new(2, &[1, 2]);
    steps.wake(2, 1, 10);
    steps.gone(1, 12);
    steps.0.step(bytes_of(&PrNamed { kind: PR_STEP_NAME as u32, tgid: 99, name: [3, 0], ..PrNamed::zeroed() }));
    steps.run(2, PR_ASLEEP, [0, 40], 99);
    steps.gone(2, 50);
    // 10 ms until the reader gets its data, and its own 10 ms.
    assert_eq!(steps.clocks(2), [20, 10, 12]);
    // Process 1 has ended a sleep of process 2.
    assert_eq!(steps.0.sleeps[OF_ALL..=2], [0, 1, 0]);
}

#[test]
fn an_idle_cpu_takes_some_time_to_start_a_thread() {
    let mut steps = Steps::new(2, &[1, 2]);
    steps.wake(2, 1, 10);
    steps.gone(1, 10);
    // It came from the queue of another CPU: so long does no CPU take.
    steps.run(2, PR_ASLEEP, [0, 40], 0);
    steps.gone(2, 50);
    assert_eq!(steps.0.ended[OF_ALL], 20 * MS + MS / 5);
}

#[test]
fn processes_share_as_many_cpus_as_there_are() {
    let clocks = |cpus| {
        let mut steps = Steps::new(cpus, &[1, 2, 3]);
        steps.gone(1, 10);
        for (task, at) in [(2, 10), (3, 20)] {
            steps.run(task, PR_RUNNABLE, [0, at], task as u32 - 1);
            steps.gone(task, at + 10);
        }
        steps.clocks(3)
    };
    assert_eq!(clocks(1), [30, 20, 20, 20]);
    assert_eq!(clocks(2), [20, 10, 10, 10]);
    assert_eq!(clocks(3), [10, 10, 10, 10]);
}

#[test]
fn a_process_that_begins_late_has_cost_nothing_before() {
    let mut steps = Steps::new(1, &[1]);
    steps.run(1, PR_RUNNABLE, [200, 200], 0);
    let who = PrWho { tgid: 2, name: [2, 0], ..PrWho::zeroed() };
    steps.0.step(bytes_of(&PrBirth { kind: PR_STEP_EXEC as u32, task: 2, at: 300 * MS, who, ..PrBirth::zeroed() }));
    steps.gone(2, 310);
    steps.run(1, PR_RUNNABLE, [300, 310], 2);
    steps.gone(1, 320);
    assert_eq!(steps.clocks(2), [320, 310, 310]);
}

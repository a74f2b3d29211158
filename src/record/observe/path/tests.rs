//! Paths and clocks of threads, from steps as the BPF programs write them.

use super::any_steps::{check_any_steps, task, who};
use super::clocks::OF_ALL;
use super::close::PathEnds;
use super::follow::PathFollower;
use crate::arch::old_calls;
use crate::record::observe::raw::{
    PR_ASLEEP, PR_BY_KILL, PR_IN_INTERRUPT, PR_RUNNABLE, PR_RUNNING, PR_STEP_EXEC, PR_STEP_FORK, PR_STEP_GONE,
    PR_STEP_LOST, PR_STEP_NAME, PR_STEP_RUN, PR_STEP_SEIZE, PR_STEP_WAKE, PrBirth, PrNamed, PrRun, PrStep, PrTask,
    PrWho,
};
use crate::result::check::check_path;
use crate::result::{CriticalPath, PathPart, PathWhat, WaitReason};
use bytemuck::{Zeroable as _, bytes_of};
use proptest::prelude::*;
use std::collections::BTreeMap;

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

/// The path of a recording that begins with its first step and ends at `until`.
fn path(ends: PathEnds, until: u64, processes: u64, unended: bool) -> Option<CriticalPath> {
    let index: BTreeMap<PrWho, usize> = (1..=processes).map(|tgid| (who(tgid), tgid as usize - 1)).collect();
    let window = [ends.span()[0], until];
    let found = ends.path(window, &index, Some, unended, 1)?;
    check_path(&found, until - window[0]).unwrap();
    Some(found)
}

/// Time of the path by what it is, ms.
fn times(path: &CriticalPath) -> BTreeMap<PathWhat, u64> {
    let mut times = BTreeMap::new();
    path.parts.iter().for_each(|part| *times.entry(part.what).or_default() += part.ns / MS);
    times
}

#[test]
fn what_happened_where_steps_are_lost_is_unknown() {
    // Two processes hand on one byte each ms, until 10 ms and again from 60 ms on; a third one computes all the time.
    let mut steps = Steps::new(2, &[1, 2, 3]);
    let turns = |steps: &mut Steps, from: u64| {
        for at in from..from + 10 {
            let [one, other] = [1 + at % 2, 2 - at % 2];
            steps.wake(one, other, at);
            steps.run(one, PR_ASLEEP, [at.max(1) - 1, at], 0);
        }
    };
    turns(&mut steps, 1);
    let lost = PrStep { kind: PR_STEP_LOST as u32, at: 60 * MS, other: 100, ..PrStep::zeroed() };
    steps.0.step(bytes_of(&lost));
    let gap = steps.0.gap.take().unwrap();
    assert_eq!(gap, [10 * MS, 60 * MS]);
    // Process 4 began in the gap.
    let [one, other] = [task(1, PR_RUNNING, 59 * MS), task(2, PR_ASLEEP, 58 * MS)];
    let tasks = [one, other, task(3, PR_RUNNING, 0), task(4, PR_RUNNING, 30 * MS)];
    steps.0.bridge(gap, Some(&tasks));
    turns(&mut steps, 61);
    let until = 70 * MS;
    let mut ends = |tgid| {
        let ends = steps.0.ends(until, &[task(tgid, PR_RUNNING, 60 * MS)], &[]);
        times(&path(ends, until, 4, true).unwrap())
    };
    assert_eq!(ends(1), [(PathWhat::OnCpu, 20), (PathWhat::Unknown, 50)].into());
    assert_eq!(ends(2), ends(1));
    // It has been seen to do nothing else.
    assert_eq!(ends(3), [(PathWhat::OnCpu, 70)].into());
    assert_eq!(ends(4), [(PathWhat::OnCpu, 10), (PathWhat::Unknown, 60)].into());
}

#[test]
fn a_process_whose_end_is_lost_has_ended() {
    let mut steps = Steps::new(2, &[1, 2]);
    steps.run(1, PR_RUNNABLE, [1, 2], 0);
    let gap = [2 * MS, 10 * MS];
    steps.0.bridge(gap, Some(&[task(2, PR_ASLEEP, MS)]));
    // There may be later steps of it.
    assert!(steps.0.last.is_none());
    steps.0.forget_missing();
    let ends = steps.0.ends(20 * MS, &[task(2, PR_ASLEEP, MS)], &[]);
    let found = times(&path(ends, 20 * MS, 2, false).unwrap());
    assert_eq!(found, [(PathWhat::OnCpu, 1), (PathWhat::ForCpu, 1), (PathWhat::Unknown, 18)].into());
}

#[test]
fn soft_interrupts_do_not_have_the_name_of_their_thread() {
    let part_of = |waker: &[u8; 16]| {
        let mut steps = Steps::new(2, &[1]);
        let named = PrNamed { kind: PR_STEP_NAME as u32, tgid: 0, task: 99, name: bytemuck::cast(*waker) };
        steps.0.step(bytes_of(&named));
        steps.wake(1, 99, 10);
        let run = PrRun { kind: PR_STEP_RUN as u32, detail: PR_ASLEEP as u32, task: 1, at: 10 * MS, ..PrRun::zeroed() };
        steps.0.step(bytes_of(&PrRun { call: libc::SYS_futex as u32, ..run }));
        steps.gone(1, 10);
        let ends = steps.0.ends(10 * MS, &[], &[]);
        path(ends, 10 * MS, 1, false).unwrap().parts.remove(0)
    };
    let part = part_of(b"ksoftirqd/1\0\0\0\0\0");
    assert_eq!((part.what, part.by), (PathWhat::Asleep { reason: WaitReason::Timer }, None));
    let part = part_of(b"ksoft\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!((part.what, part.by), (PathWhat::Asleep { reason: WaitReason::Thread }, Some("ksoft".to_owned())));
}

#[test]
fn a_sleep_that_an_alarm_ends_was_for_something_else() {
    // Thread 1 waits for a signal, gets that of its timer, and sends one to thread 2, which waits for its child.
    let parts = |call: i64, bits: u32, last: u64| {
        let mut steps = Steps::new(2, &[1, 2]);
        let asleep = PrRun { kind: PR_STEP_RUN as u32, detail: PR_ASLEEP as u32, ..PrRun::zeroed() };
        let wake = PrStep { kind: PR_STEP_WAKE as u32, ..PrStep::zeroed() };
        let context = PR_IN_INTERRUPT as u32;
        steps.0.step(bytes_of(&PrStep { task: 1, other: 99, at: 50 * MS, detail: context, ..wake }));
        steps.0.step(bytes_of(&PrRun { task: 1, since: MS, at: 50 * MS, call: call as u32, ..asleep }));
        steps.0.step(bytes_of(&PrStep { task: 2, other: 1, at: 51 * MS, detail: bits, ..wake }));
        steps.0.step(bytes_of(&PrRun { task: 2, since: 2 * MS, at: 51 * MS, call: libc::SYS_wait4 as u32, ..asleep }));
        steps.gone(3 - last, 52);
        steps.gone(last, 53);
        let ends = steps.0.ends(53 * MS, &[], &[]);
        path(ends, 53 * MS, 2, false).unwrap().parts.into_iter().map(|part| part.what).collect::<Vec<_>>()
    };
    let child = PathWhat::Asleep { reason: WaitReason::Child };
    let timer = PathWhat::Asleep { reason: WaitReason::Timer };
    assert!(parts(libc::SYS_rt_sigsuspend, PR_BY_KILL as u32, 2).contains(&child));
    // Also if who sent it did not sleep again before it ended.
    let of_sender = parts(libc::SYS_rt_sigsuspend, PR_BY_KILL as u32, 1);
    assert!(of_sender.contains(&child) && !of_sender.contains(&timer), "{of_sender:?}");
    assert!(parts(libc::SYS_rt_sigsuspend, 0, 2).contains(&timer), "it was no signal");
    assert!(parts(libc::SYS_nanosleep, PR_BY_KILL as u32, 2).contains(&timer), "it is what happened after that time");
}

#[test]
fn the_path_ends_with_the_processes_that_were_named() {
    // Process 1 is named. Process 2 only has a pipe open. Process 3 is a child of process 1.
    let found = |living: &[u64]| {
        let mut steps = Steps(PathFollower::new(2));
        for (tgid, stage) in [(1, 0), (2, 1)] {
            let who = PrWho { stage, ..who(tgid) };
            steps.0.step(bytes_of(&PrBirth { kind: PR_STEP_SEIZE as u32, task: tgid, who, ..PrBirth::zeroed() }));
        }
        let fork =
            PrBirth { kind: PR_STEP_FORK as u32, task: 3, at: 10 * MS, other: 1, who: who(3), ..PrBirth::zeroed() };
        steps.0.step(bytes_of(&fork));
        (1..=3).filter(|task| !living.contains(task)).for_each(|task| steps.gone(task, 30 + task));
        let tasks: Vec<_> = living.iter().map(|task_of| task(*task_of, PR_ASLEEP, 0)).collect();
        let ends = steps.0.ends(40 * MS, &tasks, &[]);
        let of_process = |part: &PathPart| (part.process, part.what, part.ns / MS);
        path(ends, 40 * MS, 3, true).unwrap().parts.iter().map(of_process).collect::<Vec<_>>()
    };
    assert_eq!(found(&[2]), [(Some(0), PathWhat::OnCpu, 31), (None, PathWhat::End, 9)]);
    assert_eq!(found(&[2, 3]), [(Some(0), PathWhat::OnCpu, 31), (None, PathWhat::End, 9)]);
    // It goes on, and sleeps.
    let asleep = PathWhat::Asleep { reason: WaitReason::Other };
    assert_eq!(found(&[1, 2]), [(Some(0), asleep, 30), (Some(0), PathWhat::OnCpu, 10)]);
}

#[test]
fn steps_after_the_end_do_not_count() {
    let mut steps = Steps::new(2, &[1, 2]);
    steps.wake(2, 1, 10);
    steps.0.until = 20 * MS;
    steps.run(2, PR_ASLEEP, [1, 21], 0);
    steps.wake(1, 2, 22);
    let (tgid, woken) = task(2, PR_ASLEEP, MS);
    let tasks = [task(1, PR_RUNNING, 0), (tgid, PrTask { woken: 10 * MS, ..woken })];
    let ends = steps.0.ends(20 * MS, &tasks, &[]);
    assert_eq!(ends.span(), [0, 20 * MS]);
    let found = times(&path(ends, 20 * MS, 2, true).unwrap());
    assert_eq!(found, [(PathWhat::OnCpu, 10), (PathWhat::ForCpu, 10)].into());
}

proptest! {
    /// Whatever steps are read, late, lost or impossible ones.
    #[test]
    fn parts_add_up_and_clocks_are_in_order(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        check_any_steps(&bytes);
    }
}

#[test]
fn the_path_goes_on_with_whom_a_poll_waits_for() {
    let found = |awaited: &[(u32, Vec<u32>)]| {
        let mut steps = Steps::new(2, &[1, 2]);
        steps.0.awaited = awaited.iter().cloned().collect();
        let calls = [old_calls::SYS_poll, libc::SYS_nanosleep].map(|call| call as u32);
        let asleep = |(tgid, call): (u64, u32)| {
            let (at, state) = task(tgid, PR_ASLEEP, 10 * MS);
            (at, PrTask { call, id: tgid, ..state })
        };
        let tasks: Vec<_> = [1, 2].into_iter().zip(calls).map(asleep).collect();
        let ends = steps.0.ends(20 * MS, &tasks, &[]);
        let stage = |at: usize| Some(2 - at);
        let index = (1..=2).map(|tgid| (who(tgid), tgid as usize - 1)).collect();
        let last = ends.path([0, 20 * MS], &index, stage, true, 1).unwrap().parts.pop().unwrap();
        (last.process, last.what)
    };
    let asleep = |reason| PathWhat::Asleep { reason };
    assert_eq!(found(&[]), (Some(0), asleep(WaitReason::Poll)));
    assert_eq!(found(&[(1, vec![9, 2])]), (Some(1), asleep(WaitReason::Timer)));
}

#[test]
fn a_wait_for_a_child_that_a_signal_ends_was_for_what_the_child_did() {
    // Process 1 starts process 2 at 10 ms, and waits for it until a signal from outside ends that; process 2 reads until `until`.
    let found = |until: u64| {
        let mut steps = Steps::new(2, &[1]);
        let fork = PrBirth { kind: PR_STEP_FORK as u32, other: 1, ..PrBirth::zeroed() };
        steps.0.step(bytes_of(&PrBirth { task: 2, at: 10 * MS, who: who(2), ..fork }));
        let asleep = PrRun { kind: PR_STEP_RUN as u32, detail: PR_ASLEEP as u32, ..PrRun::zeroed() };
        for (task, since, at, call) in [(1, 11, 90, libc::SYS_wait4), (2, 20, until, libc::SYS_nanosleep)] {
            let wake = PrStep { kind: PR_STEP_WAKE as u32, detail: PR_BY_KILL as u32, other: 99, ..PrStep::zeroed() };
            steps.0.step(bytes_of(&PrStep { task, at: at * MS, ..wake }));
            steps.0.step(bytes_of(&PrRun { task, since: since * MS, at: at * MS, call: call as u32, ..asleep }));
        }
        steps.gone(2, until);
        steps.gone(1, 90);
        let ends = steps.0.ends(90 * MS, &[], &[]);
        let parts = path(ends, 90 * MS, 2, false).unwrap().parts;
        parts.into_iter().map(|part| (part.process, part.what, part.ns / MS)).collect::<Vec<_>>()
    };
    let asleep = |reason| PathWhat::Asleep { reason };
    let of_child = found(90);
    assert_eq!(of_child[0], (Some(1), asleep(WaitReason::Timer), 70));
    assert_eq!(of_child.iter().map(|(.., ms)| ms).sum::<u64>(), 90);
    // It had ended long before: that is not what the other one waited for.
    assert_eq!(found(30)[0], (Some(0), asleep(WaitReason::Child), 79));
}

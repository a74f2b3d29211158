//! Steps as bytes mean them: late, impossible and lost ones too. For tests and fuzzing.

use super::clocks::OF_ALL;
use super::follow::PathFollower;
use super::switches::SwitchRecorder;
use crate::record::observe::raw::{
    PR_STEP_EXEC, PR_STEP_FORK, PR_STEP_FREE, PR_STEP_GONE, PR_STEP_LOST, PR_STEP_NAME, PR_STEP_RENAME, PR_STEP_RUN,
    PR_STEP_SAMPLE, PR_STEP_SEIZE, PR_STEP_THROTTLED, PR_STEP_WAKE, PrBirth, PrNamed, PrProcess, PrRun, PrSample,
    PrSampled, PrStep, PrTask, PrWho,
};
use crate::result::check::check_path;
use bytemuck::{Zeroable as _, bytes_of};
use std::collections::{BTreeMap, HashMap};

/// Processes; each has one thread, whose address is its id.
const PROCESSES: u64 = 8;

/// So many CPUs that nobody waits for one.
const ENOUGH: u64 = 1 << 16;

/// Kinds of steps, the usual ones more often.
const KINDS: [usize; 16] = [
    PR_STEP_RUN,
    PR_STEP_RUN,
    PR_STEP_RUN,
    PR_STEP_RUN,
    PR_STEP_WAKE,
    PR_STEP_WAKE,
    PR_STEP_WAKE,
    PR_STEP_FORK,
    PR_STEP_EXEC,
    PR_STEP_GONE,
    PR_STEP_FREE,
    PR_STEP_THROTTLED,
    PR_STEP_NAME,
    PR_STEP_LOST,
    PR_STEP_SAMPLE,
    PR_STEP_SEIZE,
];

struct StepBytes<'a>(&'a [u8]);

impl StepBytes<'_> {
    /// The next byte; 0 at the end.
    fn byte(&mut self) -> u64 {
        self.0.split_off_first().copied().unwrap_or_default().into()
    }

    /// The next number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.byte() % limit
    }

    /// Up to half a second, ns.
    fn time(&mut self) -> u64 {
        (self.byte() | self.byte() << 8) << self.below(14)
    }
}

pub(crate) fn who(tgid: u64) -> PrWho {
    PrWho { tgid: tgid as u32, name: [tgid, 0], ..PrWho::zeroed() }
}

/// A thread whose address is its process id, in this state since then.
pub(crate) fn task(tgid: u64, state: usize, since: u64) -> (u64, PrTask) {
    let own = PrProcess { begin: 1, ..PrProcess::zeroed() };
    (tgid, PrTask { who: who(tgid), started: 1, state: state as u32, since, own, ..PrTask::zeroed() })
}

/// Follow the steps that `bytes` mean.
///
/// # Panics
/// If switches do not fit together, the parts of the path do not add up to the window, a clock goes back, or without waits for
/// CPUs, leaving out a process makes it longer.
pub(crate) fn check_any_steps(bytes: &[u8]) {
    let mut input = StepBytes(bytes);
    let begin: u64 = 1_000_000_000;
    let cpus = [1, 2, ENOUGH][input.below(3) as usize];
    let (unended, before_end) = (input.below(2) == 1, input.time());
    let tasks: Vec<(u64, PrTask)> = (0..input.below(PROCESSES))
        .map(|_| {
            let (tgid, state) = task(1 + input.below(PROCESSES), 1 + input.below(4) as usize, 4 * input.time());
            (tgid, PrTask { woken: 4 * input.time(), ..state })
        })
        .collect();
    let mut steps = Vec::new();
    let mut now = begin;
    while !input.0.is_empty() {
        let kind = KINDS[input.below(KINDS.len() as u64) as usize] as u32;
        let (task, other) = (1 + input.below(PROCESSES), 1 + input.below(PROCESSES));
        let (detail, late) = ((input.byte() | input.byte() << 8) as u32, input.below(4) == 0);
        let (ns, lasted) = (input.time(), input.time());
        let at = if late { now.saturating_sub(ns).max(begin) } else { now + ns };
        now = now.max(at);
        steps.push((kind, task, other, detail, at, at.saturating_sub(lasted)));
    }
    let until = now.saturating_sub(before_end).max(begin + 1);
    let mut follower = PathFollower::new(cpus);
    follower.until = until;
    follower.switches = Some(SwitchRecorder::default());
    let first = PrBirth { kind: PR_STEP_EXEC as u32, task: 1, at: begin, who: who(1), ..PrBirth::zeroed() };
    follower.step(bytes_of(&first));
    for (kind, task, other, detail, at, since) in steps {
        let before: HashMap<u64, _> =
            follower.threads.iter().map(|(task, thread)| (*task, thread.state.clocks)).collect();
        match kind as usize {
            PR_STEP_FORK | PR_STEP_EXEC | PR_STEP_SEIZE | PR_STEP_RENAME => {
                follower.step(bytes_of(&PrBirth {
                    kind,
                    state: 0,
                    task,
                    at,
                    other,
                    who: who(task),
                    ..PrBirth::zeroed()
                }));
            }
            PR_STEP_RUN => {
                let state = 1 + detail / 2 % 4;
                let (detail, pipe) = (state | detail & 0x3f0, u64::from(detail & 0x10));
                let before = other as u32;
                follower.step(bytes_of(&PrRun { kind, detail, task, at, since, before, pipe, ..PrRun::zeroed() }));
            }
            PR_STEP_NAME => follower.step(bytes_of(&PrNamed { kind, tgid: 7, task, name: [other, 0] })),
            PR_STEP_SAMPLE => {
                let sample = PrSample { who: who(task), trace: other, user_trace: 0, pid: task };
                follower.step(bytes_of(&PrSampled { kind, spare: 0, at, sample }));
            }
            _ => follower.step(bytes_of(&PrStep { kind, detail: detail & 0x31, task, at, other })),
        }
        if let Some(gap) = follower.gap.take() {
            follower.bridge(gap, (detail & 2 == 0).then_some(&tasks[..]));
            if detail & 4 == 0 {
                follower.forget_missing();
            }
        }
        for (task_of, thread) in &follower.threads {
            let clocks = &thread.state.clocks;
            let is_new = *task_of == task && [PR_STEP_FORK, PR_STEP_SEIZE].contains(&(kind as usize));
            let before = before.get(task_of).filter(|_| !is_new);
            assert!(before.into_iter().flatten().zip(clocks).all(|(before, now)| before <= now), "a clock went back");
            let all = clocks[OF_ALL];
            assert!(cpus < ENOUGH || clocks.iter().all(|clock| *clock <= all), "longer without a process");
        }
    }
    let index: BTreeMap<PrWho, usize> = (1..=PROCESSES).map(|tgid| (who(tgid), tgid as usize - 1)).collect();
    let mut ends = follower.ends(until, &tasks, &[]);
    let switches = ends.switches.take().map(|switches| switches.named(&index, &[], begin)).unwrap_or_default();
    switches.check(PROCESSES as usize, 0).unwrap_or_else(|error| panic!("{error}: {switches:?}"));
    let [from, to] = ends.span();
    assert!(to <= until, "the path goes on after the end");
    if let Some(path) = ends.path([from, until], &index, Some, unended, 1) {
        check_path(&path, until - from).unwrap_or_else(|error| panic!("{error}"));
    }
}

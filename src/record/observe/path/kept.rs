//! What the programs reported to this thread, for the tests that follow it again.

use super::close::PathEnds;
use super::follow::PathFollower;
use crate::record::observe::raw::PrTask;
use std::cell::RefCell;

/// Steps, and what each thread was doing at the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeptSteps {
    pub steps: Vec<Vec<u8>>,
    pub tasks: Vec<(u64, PrTask)>,
}

thread_local! {
    static KEPT: RefCell<KeptSteps> = RefCell::default();
}

pub(crate) fn keep_step(step: &[u8]) {
    KEPT.with_borrow_mut(|kept| kept.steps.push(step.to_vec()));
}

pub(crate) fn keep_tasks(tasks: &[(u64, PrTask)]) {
    KEPT.with_borrow_mut(|kept| kept.tasks = tasks.to_vec());
}

/// What the recorder of this thread has read.
pub(crate) fn take() -> KeptSteps {
    KEPT.take()
}

impl KeptSteps {
    /// The paths that end at `now`, on so many CPUs. After a gap, nothing is known of the threads.
    pub(crate) fn follow(&self, cpus: u64, now: u64) -> PathEnds {
        let mut follower = PathFollower::new(cpus);
        for step in &self.steps {
            follower.step(step);
            if let Some(gap) = follower.gap.take() {
                follower.bridge(gap, None);
            }
        }
        follower.ends(now, &self.tasks, &[])
    }
}

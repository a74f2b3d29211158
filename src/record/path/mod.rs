//! The critical path of a pipeline: what its wall time was made of.
//!
//! [`follow`] reads the steps of the BPF programs while the pipeline runs, with a [`chain`] of parts for each thread, and
//! [`clocks`] that show how long it would take without one process. [`close`] ends it, and [`words`] makes
//! sentences of it. [`samples`] have their time, too.

mod chain;
mod clocks;
mod close;
mod follow;
mod samples;
#[cfg(test)]
mod tests;
pub(super) mod words;

pub(super) use close::{KnownEnd, PathEnds};
pub(super) use samples::TimedSamples;

use super::raw::{PR_RING, PrStep, PrTask};
use crate::collect::bpf::Object;
use crate::workload::cpus;
use anyhow::Result;
use follow::PathFollower;
use libbpf_rs::RingBuffer;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// At least as many steps as the ring has room for.
const MOST_STEPS: usize = PR_RING / size_of::<PrStep>();

/// Reads the steps of the BPF programs.
pub(super) struct PathRecorder {
    /// Gives each step to the follower.
    ring: RingBuffer<'static>,
    /// Steps that it may still read.
    left: Rc<Cell<usize>>,
    follower: Rc<RefCell<PathFollower>>,
    /// Follows only the time since the last look, if somebody looks.
    latest: Option<Rc<RefCell<PathFollower>>>,
    ends: Option<PathEnds>,
    /// Ends of pipes that are open without having been used.
    pub open: Vec<KnownEnd>,
}

impl PathRecorder {
    pub(super) fn start(object: &Object, live: bool) -> Result<Self> {
        let cpus = cpus::allowed()?.len() as u64;
        let follower = || Rc::new(RefCell::new(PathFollower::new(cpus)));
        let (latest, follower) = (live.then(follower), follower());
        let readers: Vec<_> = latest.iter().chain([&follower]).map(Rc::clone).collect();
        let left = Rc::new(Cell::new(0_usize));
        let count = Rc::clone(&left);
        let read = move |step: &[u8]| {
            readers.iter().for_each(|reader| reader.borrow_mut().step(step));
            count.set(count.get().saturating_sub(1));
            count.get() > 0
        };
        let ring = object.ring("steps", read)?;
        Ok(Self { ring, left, follower, latest, ends: None, open: Vec::new() })
    }

    /// Read the steps until now, but no more than the ring holds at once: programs can add them faster than they are read.
    /// Returns whether there may be more.
    pub(super) fn step(&mut self) -> bool {
        self.left.set(MOST_STEPS);
        // It fails only when it is stopped.
        let _ = self.ring.consume_raw();
        self.left.get() == 0
    }

    /// The paths since this was last called, if this is a live recording.
    pub(super) fn latest(&mut self, now: u64, tasks: &[(u64, PrTask)]) -> Option<PathEnds> {
        self.step();
        let mut latest = self.latest.as_ref()?.borrow_mut();
        let ends = latest.ends(now, tasks, &self.open);
        latest.begin_at(now);
        Some(ends)
    }

    /// End the path of threads that have not ended by `now`, with what `tasks` are doing.
    pub(super) fn close(&mut self, now: u64, tasks: &[(u64, PrTask)]) {
        if self.ends.is_none() {
            self.step();
            self.ends = Some(self.follower.borrow_mut().ends(now, tasks, &self.open));
        }
    }

    /// The paths.
    pub(super) fn finish(self) -> Option<PathEnds> {
        self.ends
    }
}

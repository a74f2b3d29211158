//! The critical path of a pipeline: what its wall time was made of.
//!
//! [`follow`] reads the steps of the BPF programs while the pipeline runs, with a [`chain`] of [`parts`] for each thread, and
//! [`clocks`] that show how long it would take without one process, and over each [`gap`] where steps are missing.
//! [`close`] ends it, with [`cut_waits`] for what ended before its reason did, and an [`excerpt`] begins anew. [`samples`] and
//! [`wakes`] have their time, too, and [`switches`] keep all of it. [`seen`] is the path of a recording without steps.

#[cfg(any(test, fuzzing, feature = "testing"))]
mod any_steps;
mod chain;
mod clocks;
mod close;
mod command_lines;
mod cut_waits;
mod excerpt;
mod follow;
mod gap;
#[cfg(test)]
pub(crate) mod kept;
mod parts;
mod process_ids;
mod samples;
mod seen;
mod switches;
#[cfg(test)]
mod tests;
mod wakes;

#[cfg(any(test, fuzzing, feature = "testing"))]
pub(crate) use any_steps::check_any_steps;
pub(crate) use close::{KnownEnd, PathEnds};
pub(crate) use follow::PathFollower;
pub(crate) use parts::{at_pipe, pipe_number};
pub(crate) use samples::TimedSamples;
pub(crate) use seen::SeenPath;
use switches::SwitchRecorder;

use crate::collect::bpf::Object;
use crate::record::observe::raw::{PR_RING, PrStep, PrTask};
use crate::workload::cpus;
use anyhow::Result;
use libbpf_rs::RingBuffer;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// At least as many steps as the ring has room for.
const MOST_STEPS: usize = PR_RING / size_of::<PrStep>();

/// Reads the steps of the BPF programs.
pub(crate) struct PathRecorder {
    /// Gives each step to the followers.
    ring: RingBuffer<'static>,
    /// Steps that it may still read; none at a gap.
    left: Rc<Cell<usize>>,
    follower: Rc<RefCell<PathFollower>>,
    /// Follow only the time since they last began.
    excerpts: Vec<Rc<RefCell<PathFollower>>>,
    ends: Option<PathEnds>,
    /// Ends of pipes that are open without having been used.
    pub open: Vec<KnownEnd>,
}

/// What each thread is doing, by its address.
pub(crate) type TaskStates = Vec<(u64, PrTask)>;

impl PathRecorder {
    /// `excerpts`: how many parts of the time are followed by themselves, besides the whole or, with `kept`, instead of it.
    pub(crate) fn start(object: &Object, excerpts: usize, kept: bool) -> Result<Self> {
        let cpus = cpus::allowed()?.len() as u64;
        let new = |follower| Rc::new(RefCell::new(follower));
        let excerpts: Vec<_> = (0..excerpts).map(|_| new(PathFollower::of_excerpt(cpus))).collect();
        let first = excerpts.first().filter(|_| kept).map(Rc::clone);
        let follower = first.unwrap_or_else(|| new(PathFollower::new(cpus)));
        let others = excerpts.iter().filter(|excerpt| !Rc::ptr_eq(excerpt, &follower));
        let readers: Vec<_> = others.chain([&follower]).map(Rc::clone).collect();
        let left = Rc::new(Cell::new(0_usize));
        let count = Rc::clone(&left);
        let read = move |step: &[u8]| {
            #[cfg(test)]
            kept::keep_step(step);
            readers.iter().for_each(|reader| reader.borrow_mut().step(step));
            count.set(count.get().saturating_sub(1));
            count.get() > 0 && readers.iter().all(|reader| reader.borrow().gap.is_none())
        };
        let ring = object.ring("steps", read)?;
        Ok(Self { ring, left, follower, excerpts, ends: None, open: Vec::new() })
    }

    fn followers(&self) -> impl Iterator<Item = std::cell::RefMut<'_, PathFollower>> {
        let others = self.excerpts.iter().filter(|excerpt| !Rc::ptr_eq(excerpt, &self.follower));
        [&self.follower].into_iter().chain(others).map(|follower| follower.borrow_mut())
    }

    /// Keep all switches.
    pub(crate) fn keep_switches(&mut self) {
        self.follower.borrow_mut().switches = Some(SwitchRecorder::default());
    }

    /// Steps after this time do not count.
    pub(crate) fn end_at(&mut self, until: u64) {
        self.followers().for_each(|mut follower| follower.until = until);
    }

    /// Read the steps until now, but no more than the ring holds at once: programs can add them faster than they are read.
    /// `tasks` reads what the threads are doing, at the first gap. Returns whether there may be more steps.
    pub(crate) fn step(&mut self, tasks: impl FnOnce() -> Result<TaskStates>) -> bool {
        self.left.set(MOST_STEPS);
        let mut tasks = Some(tasks);
        loop {
            // It fails only when it is stopped.
            let _ = self.ring.consume_raw();
            let Some(gap) = self.follower.borrow_mut().gap.take() else { break };
            // Without an answer of the kernel, nothing is known.
            let tasks = tasks.take().and_then(|tasks| tasks().ok());
            self.followers().for_each(|mut follower| {
                follower.gap = None;
                follower.bridge(gap, tasks.as_deref());
            });
        }
        let more = self.left.get() == 0;
        if !more {
            self.followers().for_each(|mut follower| follower.forget_missing());
        }
        more
    }

    /// The paths of an excerpt from its begin until `now`. All steps until then have been read.
    pub(crate) fn excerpt(&self, number: usize, now: u64, tasks: &[(u64, PrTask)]) -> Option<PathEnds> {
        Some(self.excerpts.get(number)?.borrow_mut().ends(now, tasks, &self.open))
    }

    /// An excerpt begins now.
    pub(crate) fn begin(&self, number: usize, now: u64) {
        self.excerpts.get(number).into_iter().for_each(|excerpt| excerpt.borrow_mut().begin_at(now));
    }

    /// The id of a process in this PID namespace, by the one that steps have.
    pub(crate) fn id_here(&self, tgid: u32) -> u32 {
        self.follower.borrow().ids.here(tgid)
    }

    /// By process id: the processes for which a process waits, as its child or at a channel.
    pub(crate) fn know_awaited(&mut self, awaited: BTreeMap<u32, Vec<u32>>) {
        self.followers().for_each(|mut follower| follower.awaited.clone_from(&awaited));
    }

    /// End the path of threads that have not ended by `now`, with what `tasks` are doing. `lost`: all lost steps.
    pub(crate) fn close(&mut self, now: u64, tasks: TaskStates, lost: u64) {
        while self.step(|| Ok(tasks.clone())) {}
        let mut follower = self.follower.borrow_mut();
        if lost > follower.lost {
            let gap = [follower.latest, now];
            follower.bridge(gap, Some(&tasks));
            follower.forget_missing();
        }
        #[cfg(test)]
        kept::keep_tasks(&tasks);
        self.ends = Some(follower.ends(now, &tasks, &self.open));
    }

    /// The paths.
    pub(crate) fn finish(self) -> Option<PathEnds> {
        self.ends
    }
}

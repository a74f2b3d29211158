//! The critical path of a pipeline: what its wall time was made of.
//!
//! [`follow`] reads the steps of the BPF programs while the pipeline runs, with a [`chain`] of parts for each thread, and [`clocks`] that
//! tell what it would be made of otherwise.
//! [`close`] ends it, and [`model`] is its stored form.

mod chain;
mod clocks;
mod close;
mod follow;
pub mod model;
pub(super) mod words;

pub(super) use close::{KnownEnd, PathEnds};

use super::raw::PrTask;
use crate::collect::bpf::Object;
use crate::collect::ring::StepRing;
use anyhow::Result;
use follow::PathFollower;

/// Steps are read when they fill this part of the ring.
const READ_FROM: u64 = super::raw::PR_RING as u64 / 4;

/// Reads the steps of the BPF programs.
pub(super) struct PathRecorder {
    ring: StepRing,
    follower: PathFollower,
    ends: Option<PathEnds>,
    /// Ends of pipes that are open without having been used.
    pub open: Vec<KnownEnd>,
}

impl PathRecorder {
    /// # Errors
    /// When the ring cannot be mapped.
    pub(super) fn start(object: &Object) -> Result<Self> {
        Ok(Self { ring: object.ring("steps")?, follower: PathFollower::default(), ends: None, open: Vec::new() })
    }

    fn read(&mut self) {
        let Self { ring, follower, .. } = self;
        ring.read(|step| follower.step(step));
    }

    /// Read the steps if there are many.
    pub(super) fn step(&mut self) {
        if self.ring.available() >= READ_FROM {
            self.read();
        }
    }

    /// End the path of threads that have not ended by `now`, with what `tasks` are doing.
    pub(super) fn close(&mut self, now: u64, tasks: &[(u64, PrTask)]) {
        if self.ends.is_none() {
            self.read();
            self.ends = Some(self.follower.ends(now, tasks, &self.open));
        }
    }

    /// The paths.
    pub(super) fn finish(self) -> Option<PathEnds> {
        self.ends
    }
}

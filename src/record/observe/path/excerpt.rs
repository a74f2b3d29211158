//! The path of a part of the time, which begins anew: what happened before is forgotten.

use super::chain::Slices;
use super::clocks::{ASSUMED, NO_CLOCK, PathState};
use super::follow::PathFollower;
use super::samples::TimedSamples;
use super::wakes::TimedWakes;
use std::collections::HashSet;

impl PathFollower {
    /// For parts of the time of processes that go on.
    pub(crate) fn of_excerpt(cpus: u64) -> Self {
        let mut follower = Self::new(cpus);
        follower.is_excerpt = true;
        follower
    }

    /// Forget the time before `at`: from here on, all paths begin there.
    pub(crate) fn begin_at(&mut self, at: u64) {
        self.carriers.clear();
        self.of_children.clear();
        self.last = None;
        self.seized.values_mut().for_each(|(_, last)| *last = None);
        self.has_gaps = false;
        let slices = self.slices.insert(Slices::new(at));
        self.cpus.reset(slices);
        let state = PathState::new(slices);
        self.states().for_each(|of_thread| of_thread.clone_from(&state));
        self.samples = TimedSamples::default();
        self.wakes = TimedWakes::default();
        self.ended = [0; ASSUMED + 1];
        if self.is_excerpt {
            self.forget_ended();
        }
    }

    /// Keep what belongs to threads that go on. No path has any part.
    fn forget_ended(&mut self) {
        let before = std::mem::take(&mut self.processes);
        for thread in self.threads.values_mut() {
            let known = before.get_index(thread.process as usize);
            let Some((first, who)) = known else { continue };
            let entry = self.processes.entry(*first);
            thread.process = entry.index() as u32;
            entry.or_insert(*who);
        }
        for thread in self.threads.values_mut() {
            let parent = thread.child_of.and_then(|parent| before.get_index(parent as usize));
            thread.child_of = parent.and_then(|(first, _)| self.processes.get_index_of(first)).map(|at| at as u32);
        }
        self.parts.clear();
        self.clocks = vec![NO_CLOCK; self.processes.len()];
        let living: HashSet<u32> = self.processes.values().map(|who| who.tgid).collect();
        self.seized.retain(|tgid, _| living.contains(tgid));
        self.command_lines.retain(|who| living.contains(&who.tgid));
        self.ids.retain(|tgid| living.contains(tgid));
    }
}

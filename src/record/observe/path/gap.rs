//! Steps that were lost, because nobody read them in time. The ring says where. What threads did meanwhile is unknown, but
//! of those that the programs, which count on, have seen doing nothing else.

use super::clocks::{PathState, Spent};
use super::close::{Tasks, is_alive};
use super::follow::{PathFollower, PathThread, Woken};
use super::parts::part;
use crate::record::observe::raw::{PR_GONE, PrTask};
use crate::result::PathWhat;

impl PathFollower {
    /// Go on after a gap. `tasks`: what each thread is doing now, if that has just been read.
    pub(crate) fn bridge(&mut self, [from, to]: [u64; 2], tasks: Option<&[(u64, PrTask)]>) {
        self.has_gaps = true;
        self.carriers.clear();
        let slices = self.slices_until(to);
        let tasks: Option<Tasks<'_>> = tasks.map(|tasks| tasks.iter().map(|(task, state)| (*task, state)).collect());
        let state_of = |task: &u64| tasks.as_ref().and_then(|tasks| tasks.get(task)).filter(|state| state.started != 0);
        let is_gone = |state: &PrTask| state.state as usize == PR_GONE;
        let living = self.threads.iter().filter(|(_, thread)| !thread.has_ended);
        let mut threads: Vec<u64> = living.map(|(task, _)| *task).collect();
        threads.sort_unstable();
        for task in threads {
            let state = state_of(&task);
            if let Some(state) = state.filter(|state| !is_gone(state)) {
                let process = self.process(&state.who);
                self.give_clock(process, None);
                self.threads.entry(task).and_modify(|thread| thread.process = process);
            }
            if state.is_none_or(|state| state.since > from) {
                self.lose(task, to);
            }
            if tasks.is_some() && state.is_none_or(|state| is_gone(state) && state.since <= to) {
                self.missing.push(task);
            }
        }
        let Some(tasks) = tasks else { return };
        let mut new: Vec<(u64, &PrTask)> = tasks.iter().map(|(task, state)| (*task, *state)).collect();
        new.retain(|(task, _)| is_alive(&tasks, *task) && !self.threads.contains_key(task));
        new.sort_unstable_by_key(|(task, _)| *task);
        for (task, state) in new {
            let process = self.process(&state.who);
            self.give_clock(process, None);
            let state = PathState::new(&slices);
            self.threads.insert(task, PathThread::new(process, 0, state));
            self.lose(task, to);
        }
    }

    /// What a thread did until `to` is unknown.
    fn lose(&mut self, task: u64, to: u64) {
        let slices = self.slices_until(to);
        let Some(mut thread) = self.threads.remove(&task) else { return };
        if let Some(Woken::By(waker, ..)) = thread.woken.take() {
            thread.state.follow(*waker);
        }
        let number = self.parts.insert_full(part(thread.process, PathWhat::Unknown)).0 as u32;
        let clock = self.clock(thread.process);
        thread.state.extend(&slices, &mut self.cpus, number, (clock, Spent::Else), to);
        self.threads.insert(task, thread);
    }

    /// Threads had ended when a gap was over, and all steps after it have been read.
    pub(crate) fn forget_missing(&mut self) {
        for task in std::mem::take(&mut self.missing) {
            self.end(task);
        }
    }
}

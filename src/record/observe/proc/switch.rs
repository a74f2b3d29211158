//! Exact states of threads between two looks, from perf's events: who ran when, and who was preempted. Who ended a sleep is not
//! among them. It is taken to be the one of those who could end it, by what looks have seen, that ran last.

use super::ProcRecorder;
use super::switched::{Doing, Slept, Switched, SwitchedProcess};
use super::thread::{LookedThread, Sleep, ThreadState, UNKNOWN};
use crate::collect::thread_events::{ThreadEvent, TimedEvent};
use crate::record::observe::observer::Observe as _;
use crate::record::observe::path::{PathEnds, pipe_number};
use crate::record::observe::raw::{
    PR_ASLEEP, PR_IN_PROCESS, PR_RUNNABLE, PR_RUNNING, PR_STEP_EXEC, PR_STEP_FORK, PR_STEP_GONE, PR_STEP_LOST,
    PR_STEP_RUN, PR_STEP_SEIZE, PR_STEP_WAKE, PrRun, PrTask, PrWho,
};
use crate::record::observe::reason::words_of;
use crate::record::observe::thread_calls::ThreadCall;
use crate::util::process_stat::ProcessStat;
use bytemuck::{Zeroable as _, bytes_of};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::rc::Rc;

/// Ancestors among which one is searched that a look has seen.
const ANCESTORS: usize = 32;

/// What has ended is remembered for this time, ns, as who may have ended a sleep.
const REMEMBERED_NS: u64 = 1_000_000_000;

impl ProcRecorder {
    /// Follow what happened since the look before, until the present one.
    pub(super) fn switch(&mut self, at: u64) {
        let Some(mut switched) = self.switched.take() else { return };
        let batch = switched.events.until(at);
        let living = self.processes.iter().filter(|(pid, _)| !self.ending.contains(pid));
        let looked = living.flat_map(|(_, process)| &process.threads);
        switched.latencies(&batch, &looked.map(|(tid, thread)| (*tid, thread.spent[1])).collect());
        switched.enders.clear();
        switched.count += batch.len() as u64;
        batch.iter().for_each(|event| self.apply(&mut switched, event));
        if batch.iter().any(|event| event.event == ThreadEvent::Lost) {
            self.resume(&mut switched, at);
        }
        let tids: Vec<u32> = switched.threads.keys().copied().collect();
        for tid in tids {
            if let Some((looked, thread)) = self.looked(&switched, tid).zip(switched.threads.get_mut(&tid)) {
                thread.slept = looked.slept.clone().map(|slept| (slept, looked.channel));
                thread.is_seen = thread.doing == Doing::Asleep && matches!(looked.state, ThreadState::Sleeps(_));
            }
            self.count(&mut switched, tid, at);
            let Some(thread) = switched.threads.get(&tid) else { continue };
            if let (Some((sleep, _)), Some(process)) = (&thread.slept, switched.processes.get(&thread.pid))
                && sleep.call == ThreadCall::Idle
            {
                switched.usual.insert((process.who.stage, process.who.name), sleep.clone());
            }
        }
        switched.forget(at.saturating_sub(REMEMBERED_NS));
        self.switched = Some(switched);
    }

    /// Follow processes that a look has found behind those which ran before.
    pub(super) fn seize_unknown(&mut self, at: u64) {
        let Some(switched) = self.switched.as_ref().filter(|_| self.is_attached) else { return };
        let is_unknown = |pid: &u32| !switched.processes.contains_key(pid);
        let unknown: Vec<u32> = self.processes.keys().copied().filter(is_unknown).collect();
        for pid in unknown {
            // What cannot be followed is looked at.
            let _ = self.seize_process(pid, at);
        }
    }

    /// What no look has seen is described as a process of the same program and parent that one has seen.
    pub(super) fn add_unseen(&mut self) {
        let Some(switched) = &mut self.switched else { return };
        for (who, parent) in std::mem::take(&mut switched.unseen) {
            if let Some(like) = switched.seen.get(&(who.stage, who.name, parent)) {
                self.totals.open_as(&who, like);
                self.path.command_lines.inherit(like, &who);
            }
        }
    }

    /// Follow the threads of a process that ran before.
    pub(super) fn seize_process(&mut self, pid: u32, at: u64) -> Result<(), String> {
        let Some(mut switched) = self.switched.take() else { return Ok(()) };
        let threads = self.know(&mut switched, pid, at);
        threads.iter().for_each(|(tid, who)| switched.birth(PR_STEP_SEIZE, *tid, at, 0, *who));
        let followed = switched.events.follow_threads(threads.into_iter().map(|(tid, _)| tid));
        self.switched = Some(switched);
        followed
    }

    /// A process that looks have found has these threads.
    fn know(&mut self, switched: &mut Switched, pid: u32, at: u64) -> Vec<(u32, PrWho)> {
        let Some(process) = self.processes.get(&pid) else { return Vec::new() };
        self.totals.begin(&process.who, at);
        self.totals.process(&process.who).threads += process.threads.len() as u64;
        let parent = self.now.processes.get(&pid).map_or(0, |process| process.parent);
        switched.processes.insert(pid, SwitchedProcess { who: process.who, parent, threads: Vec::new() });
        for (tid, thread) in &process.threads {
            let sleeps = matches!(thread.state, ThreadState::Sleeps(_));
            switched.add(*tid, pid, if sleeps { Doing::Asleep } else { Doing::Unknown }, at);
        }
        process.threads.keys().map(|tid| (*tid, process.who)).collect()
    }

    fn looked(&self, switched: &Switched, tid: u32) -> Option<&LookedThread> {
        self.processes.get(&switched.threads.get(&tid)?.pid)?.threads.get(&tid)
    }

    fn apply(&mut self, switched: &mut Switched, event: &TimedEvent) {
        let TimedEvent { at, pid, tid, .. } = *event;
        match &event.event {
            ThreadEvent::Forked { parent, by } => {
                let Some(of_parent) = switched.processes.get(parent).map(|process| process.who) else { return };
                let who = PrWho { tgid: pid, ..of_parent };
                if pid != *parent {
                    switched.processes.insert(pid, SwitchedProcess { who, parent: *parent, threads: Vec::new() });
                    self.totals.process(&of_parent).forks += 1;
                    self.totals.begin(&who, at);
                    self.path.command_lines.inherit(&of_parent, &who);
                }
                self.totals.process(&who).threads += 1;
                switched.add(tid, pid, Doing::Ready, at);
                switched.birth(PR_STEP_FORK, tid, at, *by, who);
            }
            ThreadEvent::Executed(name) => self.execute(switched, (pid, tid), words_of(name), at),
            ThreadEvent::Lost => self.lose(switched, at),
            ThreadEvent::Runs => self.run(switched, tid, at),
            ThreadEvent::Stops { preempted } => {
                self.count(switched, tid, at);
                let Some(thread) = switched.threads.get_mut(&tid) else { return };
                thread.doing = if *preempted { Doing::Ready } else { Doing::Asleep };
                (thread.since, thread.ran, thread.is_seen) = (at, at, false);
                if let Some(process) = switched.processes.get(&pid).filter(|_| *preempted) {
                    self.totals.process(&process.who).preemptions += 1;
                }
            }
            ThreadEvent::Ended => {
                self.count(switched, tid, at);
                let Some(thread) = switched.threads.get_mut(&tid) else { return };
                (thread.doing, thread.since, thread.ran) = (Doing::Ended, at, at);
                switched.step(PR_STEP_GONE, tid, at, [1, 0]);
                let Some(process) = switched.processes.get(&pid) else { return };
                let has_ended = |tid: &u32| switched.threads.get(tid).is_none_or(|thread| thread.doing == Doing::Ended);
                if process.threads.iter().all(has_ended) {
                    self.totals.end(&process.who, at);
                    if !self.processes.contains_key(&pid) {
                        let (who, parent) = (process.who, process.parent);
                        switched.ended(who, parent, false);
                    }
                }
            }
        }
    }

    fn execute(&mut self, switched: &mut Switched, (pid, tid): (u32, u32), name: [u64; 2], at: u64) {
        let before = switched.processes.get(&pid).map(|process| process.who);
        let is_root = |root: &u32| *root == pid;
        let stage = || self.roots.iter().position(is_root).map(|stage| stage as u32);
        let Some(stage) = before.map(|who| who.stage).or_else(stage) else { return };
        let who = PrWho { stage, tgid: pid, name };
        if let Some(before) = before.filter(|before| *before != who) {
            self.count(switched, tid, at);
            self.totals.end(&before, at);
        }
        let entry = switched.processes.entry(pid);
        entry.or_insert(SwitchedProcess { who, parent: 0, threads: Vec::new() }).who = who;
        self.totals.begin(&who, at);
        let counts = self.totals.process(&who);
        (counts.execs, counts.threads) = (counts.execs + 1, counts.threads.max(1));
        if !switched.threads.contains_key(&tid) {
            switched.add(tid, pid, Doing::OnCpu, at);
        }
        switched.birth(PR_STEP_EXEC, tid, at, 0, who);
    }

    /// A thread gets a CPU.
    fn run(&mut self, switched: &mut Switched, tid: u32, at: u64) {
        let Some(thread) = switched.threads.get(&tid) else { return };
        let (doing, since) = (thread.doing, thread.since);
        if matches!(doing, Doing::OnCpu | Doing::Ended) {
            return;
        }
        let mut run = PrRun { kind: PR_STEP_RUN as u32, task: tid.into(), at, since, ..PrRun::zeroed() };
        run.detail = PR_RUNNABLE as u32;
        if doing == Doing::Asleep {
            let slept = self.slept(switched, tid);
            let woken = self.waker(switched, tid, slept.as_ref(), [since, at]);
            let thread_latency = switched.threads.get(&tid).map_or(0, |thread| thread.latency);
            let runnable = at.saturating_sub(thread_latency);
            let woken_at = woken.map_or(runnable, |(_, ran)| runnable.min(ran)).clamp(since, at);
            self.count(switched, tid, woken_at);
            let other = woken.map_or(0, |(waker, _)| waker.into());
            switched.step(PR_STEP_WAKE, tid, woken_at, [PR_IN_PROCESS as u64, other]);
            let (mut file_type, mut side) = (0, 0);
            run.call = UNKNOWN;
            if let Some((sleep, channel)) = &slept {
                (run.call, file_type) = (sleep.number, sleep.file_type);
                if let Some((channel, at_side)) = channel {
                    (run.pipe, side) = (pipe_number(*channel), *at_side);
                }
            }
            run.detail = PR_ASLEEP as u32 | file_type << 4 | side << 8;
            switched.threads.entry(tid).and_modify(|thread| thread.doing = Doing::Ready);
        }
        self.count(switched, tid, at);
        switched.follower.step(bytes_of(&run));
        switched.threads.entry(tid).and_modify(|thread| (thread.doing, thread.since) = (Doing::OnCpu, at));
    }

    /// Count what a thread did until `at`.
    fn count(&mut self, switched: &mut Switched, tid: u32, at: u64) {
        let slept = self.slept(switched, tid);
        let Some(thread) = switched.threads.get_mut(&tid) else { return };
        let Some(process) = switched.processes.get(&thread.pid) else { return };
        let ns = at.saturating_sub(thread.counted);
        thread.counted = thread.counted.max(at);
        match (thread.doing, slept) {
            (Doing::OnCpu, _) => self.totals.process(&process.who).cpu_ns += ns,
            (Doing::Ready, _) => self.totals.process(&process.who).runnable_ns += ns,
            (Doing::Asleep, Some((sleep, channel))) => self.totals.slept(&process.who, &sleep, channel, ns),
            (Doing::Asleep, None) => {
                switched.unseen_ns += ns;
                let unseen = Sleep { number: UNKNOWN, file_type: 0, call: ThreadCall::Busy, at: None };
                self.totals.slept(&process.who, &unseen, None, ns);
            }
            (Doing::Unknown | Doing::Ended, _) => {}
        }
    }

    /// What a thread sleeps for, if a look has seen that, or if the looks before and after have seen one and the same. A program
    /// that no look has seen asleep sleeps for what it did as another process.
    fn slept(&self, switched: &Switched, tid: u32) -> Option<Slept> {
        let thread = switched.threads.get(&tid).filter(|thread| thread.doing == Doing::Asleep)?;
        let looked = self.looked(switched, tid).and_then(|looked| Some((looked.slept.clone()?, looked.channel)));
        let reason = |(sleep, channel): &Slept| (sleep.number, sleep.file_type, *channel);
        match (&thread.slept, looked) {
            (Some(before), Some(now)) if !thread.is_seen && reason(before) != reason(&now) => None,
            (Some(slept), _) => Some(slept.clone()),
            (None, Some(now)) => Some(now),
            (None, None) => {
                let who = switched.processes.get(&thread.pid)?.who;
                Some((switched.usual.get(&(who.stage, who.name))?.clone(), None))
            }
        }
    }

    /// Who has ended the sleep of a thread during this time, and when it ran last.
    fn waker(&self, switched: &mut Switched, tid: u32, slept: Option<&Slept>, time: [u64; 2]) -> Option<(u32, u64)> {
        let is_seen = switched.threads.get(&tid).is_some_and(|thread| thread.is_seen);
        let sleep = slept.map(|(sleep, _)| sleep);
        let is_child = sleep.is_some_and(|sleep| matches!(sleep.call, ThreadCall::Child(_)));
        let known = self.enders(switched, tid, sleep);
        let found = || {
            switched
                .last_that_ran(&known, is_child, time)
                .or_else(|| switched.last_that_ran(&known, false, time).filter(|_| is_seen || !is_child))
        };
        let may_differ = !is_seen && (sleep.is_none() || is_child);
        found().or_else(|| {
            let others = may_differ.then(|| self.enders(switched, tid, None))?;
            switched.last_that_ran(&others, true, time).or_else(|| switched.last_that_ran(&others, false, time))
        })
    }

    /// The threads that could end a sleep: those of processes that a look has found to have the other end, and of their
    /// descendants that no look has seen yet. Of a sleep that no look has seen, all with which it shares a pipe, and its children.
    fn enders(&self, switched: &mut Switched, tid: u32, sleep: Option<&Sleep>) -> Rc<[u32]> {
        if let Some(known) = switched.enders.get(&(tid, sleep.is_some())) {
            return Rc::clone(known);
        }
        let Some(pid) = switched.threads.get(&tid).map(|thread| thread.pid) else { return Rc::new([]) };
        let is_known = |pid: u32| self.now.processes.get(&pid).is_some_and(|process| process.files.is_some());
        let origin = |pid: u32| {
            let parent = |pid: &u32| switched.processes.get(pid).map(|process| process.parent);
            let mut line = std::iter::successors(Some(pid), parent).take(ANCESTORS);
            line.find(|pid| is_known(*pid)).unwrap_or(pid)
        };
        let (found, for_child) = match sleep {
            Some(Sleep { call: ThreadCall::Child(child), .. }) => (Vec::new(), Some(*child)),
            Some(sleep) => (self.now.enders(pid, &sleep.call, false).0, None),
            None => (self.now.neighbours(origin(pid)), Some(None)),
        };
        let at_files = sleep.is_none_or(|sleep| matches!(sleep.call, ThreadCall::Files(_)));
        let found: HashSet<u32> = found.into_iter().collect();
        let is_child = |other: u32, process: &SwitchedProcess| {
            for_child.is_some_and(|child| process.parent == pid && child.is_none_or(|child| child == other))
        };
        let may = |other: u32, process: &SwitchedProcess| {
            let origin = origin(other);
            found.contains(&origin) || at_files && origin == pid && other != pid || is_child(other, process)
        };
        let of = switched.processes.iter().filter(|(other, process)| may(**other, process));
        let threads = of.flat_map(|(_, process)| process.threads.iter().copied()).filter(|other| *other != tid);
        let threads: Rc<[u32]> = threads.collect();
        switched.enders.insert((tid, sleep.is_some()), Rc::clone(&threads));
        threads
    }

    /// Events were lost, from now on or until now. Only of threads that have not run since, as looks tell, it is known what they did.
    fn lose(&mut self, switched: &mut Switched, at: u64) {
        let sleeps = |looked: &LookedThread| matches!(looked.state, ThreadState::Sleeps(_)) && looked.since <= at;
        for tid in switched.threads.keys().copied().collect::<Vec<_>>() {
            self.count(switched, tid, at);
            let is_asleep = self.looked(switched, tid).is_some_and(sleeps);
            let Some(thread) = switched.threads.get_mut(&tid) else { continue };
            if thread.doing != Doing::Ended && !(is_asleep && thread.doing == Doing::Asleep) {
                (thread.doing, thread.since, thread.counted) = (Doing::Unknown, at, at);
            }
        }
        switched.step(PR_STEP_LOST, 0, at, [0, switched.events.lost]);
        switched.bridge(at);
    }

    /// What has become of threads meanwhile, as far as the present look tells.
    fn resume(&mut self, switched: &mut Switched, at: u64) {
        // What is still to be read happened after the look began, and was not lost.
        switched.events.read();
        let later: Vec<TimedEvent> = switched.events.waiting().to_vec();
        let is_later = |pid: u32, is: fn(&ThreadEvent) -> bool| later.iter().any(|of| of.pid == pid && is(&of.event));
        for tid in switched.threads.keys().copied().collect::<Vec<_>>() {
            let looked = self.looked(switched, tid).map(|looked| matches!(looked.state, ThreadState::Sleeps(_)));
            let Some(thread) = switched.threads.get_mut(&tid).filter(|thread| thread.doing == Doing::Unknown) else {
                continue;
            };
            let (pid, since) = (thread.pid, thread.since);
            let ends = || is_later(pid, |event| *event == ThreadEvent::Ended);
            let has_ended = || !ends() && !Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
            match looked {
                Some(true) => thread.doing = Doing::Asleep,
                None if has_ended() => {
                    self.apply(switched, &TimedEvent { at: since, pid, tid, event: ThreadEvent::Ended });
                }
                _ => {}
            }
        }
        for pid in self.living() {
            let Some(name) = ProcessStat::of(pid).map(|stat| words_of(&stat.name)) else { continue };
            let begins = is_later(pid, |event| matches!(event, ThreadEvent::Forked { .. }));
            if !switched.processes.contains_key(&pid) && !begins {
                self.know(switched, pid, at);
            }
            let executes = is_later(pid, |event| matches!(event, ThreadEvent::Executed(_)));
            if !executes && switched.who(pid).is_some_and(|who| who.name != name) {
                self.execute(switched, (pid, pid), name, at);
            }
        }
        // What new ones did before is unknown, too.
        switched.bridge(at);
    }

    /// The path, which ends now.
    pub(super) fn followed(&self, mut switched: Switched) -> PathEnds {
        let mut awaited = BTreeMap::new();
        let mut tasks = Vec::new();
        for (tid, thread) in &switched.threads {
            let Some(process) = switched.processes.get(&thread.pid) else { continue };
            let state = match thread.doing {
                Doing::Ended => continue,
                Doing::Asleep => PR_ASLEEP,
                Doing::Ready => PR_RUNNABLE,
                Doing::OnCpu | Doing::Unknown => PR_RUNNING,
            };
            let mut task =
                PrTask { who: process.who, started: 1, state: state as u32, since: thread.since, ..PrTask::zeroed() };
            (task.id, task.call) = (thread.pid.into(), UNKNOWN);
            if let Some((sleep, channel)) = thread.slept.as_ref().filter(|_| thread.doing == Doing::Asleep) {
                (task.call, task.file_type) = (sleep.number, sleep.file_type);
                if let Some(((inode, device), side)) = channel {
                    (task.inode, task.device, task.side) = (*inode, *device, *side);
                }
                let (enders, _) = self.now.enders(thread.pid, &sleep.call, false);
                awaited.insert(thread.pid, enders.into_iter().rev().filter(|pid| *pid != thread.pid).collect());
            }
            tasks.push((u64::from(*tid), task));
        }
        switched.follower.awaited = awaited;
        // Who woke whom is not known well enough.
        switched.follower.wakes = Default::default();
        let mut ends = switched.follower.ends(self.last, &tasks, &[]);
        (ends.command_lines, ends.ids) = (self.path.command_lines.clone(), self.path.ids.clone());
        ends
    }
}

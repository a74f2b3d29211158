//! Follows the path forwards, step by step: for each thread, what the path that ends there now is made of.

use super::chain::{JoinedSlices, Slices};
use super::clocks::{ASSUMED, Clocks, NO_CLOCK, OF_ALL, PathState, Spent, UsedCpus, later};
use super::command_lines::CommandLines;
use super::parts::{NOBODY, Name, PartKey, asleep, is_held, is_soft_interrupt, part, read};
use super::process_ids::ProcessIds;
use super::samples::TimedSamples;
use super::switches::SwitchRecorder;
use super::wakes::TimedWakes;
use crate::record::observe::raw::{
    PR_ASLEEP, PR_BY_KILL, PR_CARRIED, PR_FOR_ROOM, PR_IN_INTERRUPT, PR_IN_PROCESS, PR_STEP_ARGS, PR_STEP_EXEC,
    PR_STEP_FORK, PR_STEP_FREE, PR_STEP_GONE, PR_STEP_LOST, PR_STEP_NAME, PR_STEP_RENAME, PR_STEP_RUN, PR_STEP_SAMPLE,
    PR_STEP_SEIZE, PR_STEP_THROTTLED, PR_STEP_WAKE, PrBirth, PrNamed, PrRun, PrSampled, PrStep, PrWho,
};
use crate::record::observe::reason::why;
use crate::result::{PathWhat, WaitReason};
use foldhash::fast::FixedState;
use indexmap::{IndexMap, IndexSet};
use std::collections::{BTreeMap, HashMap};

/// Names and threads outside of the recording that are remembered: they are forgotten, all at once, when they are more.
const REMEMBERED: usize = 16_384;

/// Processes that are distinguished. Further ones are known by stage and name only.
const PROCESSES: usize = 16_384;

/// The clock of the first process that has one.
pub(super) const FIRST_CLOCK: u8 = OF_ALL as u8 + 1;

pub(crate) type Map<K, V> = HashMap<K, V, FixedState>;

/// A followed thread.
#[derive(Debug)]
pub(crate) struct PathThread {
    pub process: u32,
    pub parent: u64,
    /// The process that it is a child of, if that is another one.
    pub child_of: Option<u32>,
    /// Up to the moment from which on it ran, as far as is known.
    pub state: PathState,
    /// The end of its sleep.
    pub woken: Option<Woken>,
    /// The part of its next wait for a CPU for which its cgroup is throttled, ns.
    pub throttled: u64,
    /// It waited for signals, and runs since a timer of its own sent one, as `timeout` does when the time is over.
    pub alarmed: bool,
    /// The alarmed thread whose signal has ended its sleep; 0 if none has.
    pub alarm: u64,
    pub has_ended: bool,
}

impl PathThread {
    /// A thread that runs.
    pub(crate) fn new(process: u32, parent: u64, state: PathState) -> Self {
        Self {
            process,
            parent,
            child_of: None,
            state,
            woken: None,
            throttled: 0,
            alarmed: false,
            alarm: 0,
            has_ended: false,
        }
    }
}

/// How a sleep ended.
#[derive(Debug)]
pub(crate) enum Woken {
    /// By a thread whose path is known; this one waited for room if that is not 0, which it had made. Its clock.
    By(Box<PathState>, u64, u8),
    /// By something else, at this time, in this context; the name of who did it.
    Else(u64, u32, Name),
}

/// Follows the steps of the BPF programs.
#[derive(Debug)]
pub(crate) struct PathFollower {
    pub slices: Option<Slices>,
    pub cpus: UsedCpus,
    pub threads: Map<u64, PathThread>,
    pub parts: IndexSet<PartKey, FixedState>,
    /// By what they were at first, as a process can be renamed.
    pub(super) processes: IndexMap<PrWho, PrWho, FixedState>,
    /// The threads that last used the sides of a pipe.
    pub(crate) peers: Map<u64, [u64; 2]>,
    /// The parents of threads that are gone. A pipe that a thread used is often open in its parent.
    parents: Map<u64, u64>,
    pub samples: TimedSamples,
    pub wakes: TimedWakes,
    /// If all switches are kept.
    pub switches: Option<SwitchRecorder>,
    /// The path that ends at the thread that ended last.
    pub last: Option<PathState>,
    /// The same of each process that ran before the recording, by its id, and its stage.
    pub(crate) seized: BTreeMap<u32, (u32, Option<PathState>)>,
    /// By the number of a process, the path that ends at the last of its children's threads that have ended.
    pub(super) of_children: Map<u32, PathState>,
    /// The latest of all threads that have ended.
    pub ended: Clocks,
    /// Sleeps at pipes of other processes that those with a clock have ended.
    pub sleeps: Clocks,
    /// The processes that have clocks, and the clock of each process.
    pub(crate) assumed: Vec<u32>,
    pub(super) clocks: Vec<u8>,
    /// Threads outside of the recording that carry on what one of it did.
    pub(crate) carriers: Map<u64, PathState>,
    pub(crate) command_lines: CommandLines,
    pub(crate) ids: ProcessIds,
    /// By process id.
    names: Map<u32, Name>,
    /// The name of the thread of the next step.
    named: (u64, Name),
    /// The end of the window, if it is known. Later steps do not count.
    pub until: u64,
    /// The time of the latest step.
    pub(crate) latest: u64,
    /// A gap that has just been read, and the steps that are known to be lost.
    pub gap: Option<[u64; 2]>,
    pub lost: u64,
    pub(crate) has_gaps: bool,
    /// Threads that ended in the last gap.
    pub missing: Vec<u64>,
    /// By process id, as in a task: the processes for which a process waits, as its child or at a channel.
    pub awaited: BTreeMap<u32, Vec<u32>>,
    /// Whether it follows parts of the time only. Nothing is assumed then, and what has ended before is forgotten.
    pub(super) is_excerpt: bool,
}

impl PathFollower {
    /// For a pipeline that may use so many CPUs.
    pub(crate) fn new(cpus: u64) -> Self {
        Self {
            slices: None,
            cpus: UsedCpus::new(cpus, &Slices::new(0)),
            threads: Map::default(),
            parts: IndexSet::default(),
            processes: IndexMap::default(),
            peers: Map::default(),
            parents: Map::default(),
            samples: TimedSamples::default(),
            wakes: TimedWakes::default(),
            switches: None,
            last: None,
            seized: BTreeMap::new(),
            of_children: Map::default(),
            ended: [0; ASSUMED + 1],
            sleeps: [0; ASSUMED + 1],
            assumed: Vec::new(),
            clocks: Vec::new(),
            carriers: Map::default(),
            command_lines: CommandLines::default(),
            ids: ProcessIds::default(),
            names: Map::default(),
            named: (0, [0; 2]),
            until: u64::MAX,
            awaited: BTreeMap::new(),
            latest: 0,
            gap: None,
            lost: 0,
            has_gaps: false,
            missing: Vec::new(),
            is_excerpt: false,
        }
    }

    /// Whether a step at this time is part of the window.
    fn is_in_time(&mut self, at: u64) -> bool {
        self.latest = self.latest.max(at).min(self.until);
        at <= self.until
    }

    /// Read a step. After one that tells of a gap, [`Self::bridge`] has to be called.
    pub(crate) fn step(&mut self, bytes: &[u8]) {
        let Some(kind) = bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes)) else { return };
        self.switches.iter_mut().for_each(|switches| switches.step(kind, bytes, self.until));
        match kind as usize {
            PR_STEP_FORK | PR_STEP_EXEC | PR_STEP_SEIZE | PR_STEP_RENAME => {
                let step: Option<PrBirth> = read(bytes);
                step.filter(|step| self.is_in_time(step.at)).into_iter().for_each(|step| self.birth(&step));
            }
            PR_STEP_RUN => {
                let step: Option<PrRun> = read(bytes);
                step.filter(|step| self.is_in_time(step.at)).into_iter().for_each(|step| self.run(&step));
            }
            PR_STEP_NAME => {
                read(bytes).into_iter().for_each(|step: PrNamed| self.name(&step));
            }
            PR_STEP_ARGS => self.command_lines.read(bytes),
            PR_STEP_SAMPLE => {
                let step: Option<PrSampled> = read(bytes);
                step.filter(|step| self.is_in_time(step.at)).into_iter().for_each(|step| {
                    let slice = self.slices_until(step.at).of(step.at);
                    self.samples.add(&step, slice);
                });
            }
            PR_STEP_WAKE | PR_STEP_GONE | PR_STEP_FREE | PR_STEP_THROTTLED | PR_STEP_LOST => {
                let step: Option<PrStep> = read(bytes);
                let before = self.latest;
                step.filter(|step| self.is_in_time(step.at)).into_iter().for_each(|step| match kind as usize {
                    PR_STEP_WAKE => self.wake(&step),
                    PR_STEP_GONE => self.gone(&step),
                    PR_STEP_LOST => (self.gap, self.lost) = (Some([before, step.at]), step.other),
                    PR_STEP_THROTTLED => {
                        self.threads.entry(step.task).and_modify(|thread| thread.throttled = step.other);
                    }
                    _ => self.free(step.task),
                });
            }
            _ => {}
        }
    }

    /// All states that are known.
    pub(super) fn states(&mut self) -> impl Iterator<Item = &mut PathState> {
        let of_threads = self.threads.values_mut().flat_map(|thread| {
            let woken = match &mut thread.woken {
                Some(Woken::By(state, ..)) => Some(&mut **state),
                _ => None,
            };
            [Some(&mut thread.state), woken].into_iter().flatten()
        });
        let of_seized = self.seized.values_mut().filter_map(|(_, last)| last.as_mut());
        let of_ended = self.of_children.values_mut().chain(&mut self.last).chain(of_seized);
        of_threads.chain(self.carriers.values_mut()).chain(of_ended)
    }

    /// The slices of time, with room until `at`.
    pub(crate) fn slices_until(&mut self, at: u64) -> Slices {
        let mut slices = *self.slices.get_or_insert_with(|| Slices::new(at));
        if slices.are_over(at) {
            while slices.are_over(at) {
                slices.length *= 2;
                self.cpus.join();
                let mut joined = JoinedSlices::default();
                self.states().for_each(|state| state.chain.join(&mut joined));
                self.samples.join();
                self.wakes.join();
            }
            self.slices = Some(slices);
        }
        slices
    }

    pub(crate) fn process(&mut self, who: &PrWho) -> u32 {
        let mut who = *who;
        if self.processes.len() >= PROCESSES && !self.processes.contains_key(&who) {
            who.tgid = 0;
        }
        let entry = self.processes.entry(who);
        let number = entry.index() as u32;
        entry.or_insert(who);
        number
    }

    /// The process with this number.
    pub(crate) fn who(&self, process: u32) -> Option<PrWho> {
        self.processes.get_index(process as usize).map(|(_, who)| *who)
    }

    /// The clock of a process. A copy that a shell makes of itself shares that of the shell, and a program that is started
    /// again when its last process has ended that of this process.
    pub(crate) fn give_clock(&mut self, process: u32, parent: Option<u32>) {
        if self.clocks.len() > process as usize {
            return;
        }
        if self.is_excerpt {
            self.clocks.push(NO_CLOCK);
            return;
        }
        let program = |number: u32| self.who(number).map(|who| (who.stage, who.name));
        let same = |number: &u32| program(*number) == program(process);
        let living = |clock: u8| self.threads.values().any(|thread| self.clock(thread.process) == clock);
        let free = |(clock, number): &(u8, &u32)| same(number) && !living(*clock);
        let known = match parent.filter(same) {
            Some(parent) => Some(self.clock(parent)),
            None => (FIRST_CLOCK..).zip(&self.assumed).find(free).map(|(clock, _)| clock),
        };
        let has_room = self.assumed.len() < ASSUMED;
        let clock = known.unwrap_or(if has_room { FIRST_CLOCK + self.assumed.len() as u8 } else { NO_CLOCK });
        self.clocks.push(clock);
        if known.is_none() && has_room {
            self.assumed.push(process);
            self.cpus.add_clock();
            self.states().for_each(|state| state.add_clock(clock));
            self.ended[usize::from(clock)] = self.ended[OF_ALL];
        }
    }

    pub(crate) fn clock(&self, process: u32) -> u8 {
        clock_of(&self.clocks, process)
    }

    fn name(&mut self, step: &PrNamed) {
        if step.task == 0 {
            self.know(step.tgid, step.name);
        } else {
            self.named = (step.task, step.name);
        }
    }

    fn know(&mut self, tgid: u32, name: Name) {
        if self.names.len() >= REMEMBERED && !self.names.contains_key(&tgid) {
            self.names.clear();
        }
        self.names.insert(tgid, name);
    }

    fn birth(&mut self, step: &PrBirth) {
        if step.kind as usize == PR_STEP_RENAME {
            let process = self.threads.get(&step.task).map(|thread| thread.process as usize);
            if let Some((_, who)) = process.and_then(|process| self.processes.get_index_mut(process)) {
                *who = step.who;
            }
            return;
        }
        if step.kind as usize == PR_STEP_SEIZE {
            self.seized.entry(step.who.tgid).or_insert((step.who.stage, None));
        }
        self.ids.add(step.who.tgid, [step.here, step.inside]);
        let slices = self.slices_until(step.at);
        let process = self.process(&step.who);
        let of_parent = match step.kind as usize {
            PR_STEP_FORK => self.threads.get(&step.other).map(|thread| thread.process),
            _ => None,
        };
        if let Some(parent) = of_parent.and_then(|parent| self.who(parent)) {
            self.command_lines.inherit(&parent, &step.who);
        }
        self.give_clock(process, of_parent);
        let clock = self.clock(process);
        self.know(step.who.tgid, step.who.name);
        if step.kind as usize == PR_STEP_EXEC && self.threads.contains_key(&step.task) {
            self.ran(step.task, step.at);
            self.threads.entry(step.task).and_modify(|thread| thread.process = process);
            return;
        }
        let parent = (step.kind as usize == PR_STEP_FORK).then(|| self.path_of(step.other, step.at));
        let missing = if parent.is_some() { PathWhat::Unknown } else { PathWhat::Begin };
        let state = parent.flatten().unwrap_or_else(|| {
            let mut state = PathState::new(&slices);
            let number = self.parts.insert_full(part(process, missing)).0 as u32;
            state.extend(&slices, &mut self.cpus, number, (clock, Spent::Else), step.at);
            state
        });
        let child_of = of_parent.filter(|parent| *parent != process);
        self.threads.insert(step.task, PathThread { child_of, ..PathThread::new(process, step.other, state) });
        self.missing.retain(|task| *task != step.task);
    }

    /// A thread ran until `at`.
    fn ran(&mut self, task: u64, at: u64) {
        let state = self.path_of(task, at);
        if let Some((thread, state)) = self.threads.get_mut(&task).zip(state) {
            (thread.state, thread.woken) = (state, None);
        }
    }

    /// The path that ends at a running thread at this moment.
    fn path_of(&mut self, task: u64, at: u64) -> Option<PathState> {
        let slices = self.slices_until(at);
        let thread = self.threads.get_mut(&task)?;
        let clock = clock_of(&self.clocks, thread.process);
        if thread.woken.is_none() {
            let number = self.parts.insert_full(part(thread.process, PathWhat::OnCpu)).0 as u32;
            thread.state.extend(&slices, &mut self.cpus, number, (clock, Spent::OnCpu), at);
            return Some(thread.state.clone());
        }
        // It was woken: nothing was seen of the switch to it.
        let mut state = thread.state.clone();
        if let Some(Woken::By(waker, ..)) = &thread.woken {
            state.follow(PathState::clone(waker));
        }
        let number = self.parts.insert_full(part(thread.process, PathWhat::Unknown)).0 as u32;
        state.extend(&slices, &mut self.cpus, number, (clock, Spent::Else), at);
        Some(state)
    }

    fn wake(&mut self, step: &PrStep) {
        let slices = self.slices_until(step.at);
        let context = step.detail & 1;
        let name = if self.named.0 == step.other { self.named.1 } else { [0; 2] };
        let mut path = None;
        if context as usize != PR_IN_INTERRUPT {
            if step.detail as usize & PR_CARRIED != 0 {
                path = self.carriers.get(&step.other).cloned();
                let outside = PartKey { process: NOBODY, what: PathWhat::Outside, by: name };
                let number = self.parts.insert_full(outside).0 as u32;
                let spent = (NO_CLOCK, Spent::Else);
                path.iter_mut().for_each(|state| state.extend(&slices, &mut self.cpus, number, spent, step.at));
            } else {
                path = self.path_of(step.other, step.at);
            }
        }
        let of_waker = self.threads.get(&step.other).map(|thread| thread.process);
        let waker = of_waker.map_or(NO_CLOCK, |process| self.clock(process));
        let woken = self.threads.get(&step.task).map(|thread| thread.process);
        let known = of_waker.filter(|_| context as usize != PR_IN_INTERRUPT).zip(woken);
        if let Some(pair) = known.filter(|(waker, woken)| waker != woken) {
            self.wakes.add(pair, step.at, slices.of(step.at));
        }
        // A signal of who only waited for the time to be over ends a sleep, and is not what it was for.
        let kills = step.detail as usize & PR_BY_KILL != 0;
        let is_alarm = kills && self.threads.get(&step.other).is_some_and(|thread| thread.alarmed);
        if let Some(thread) = self.threads.get_mut(&step.task) {
            let room = if step.detail as usize & PR_FOR_ROOM == 0 { 0 } else { step.other };
            thread.alarm = if is_alarm { step.other } else { 0 };
            thread.woken = Some(match path {
                _ if is_alarm => Woken::Else(step.at, PR_IN_PROCESS as u32, Name::default()),
                Some(path) => Woken::By(Box::new(path), room, waker),
                None if is_soft_interrupt(&name) => Woken::Else(step.at, PR_IN_INTERRUPT as u32, name),
                // Whose signal ends a sleep has not sent what it was for.
                None if kills => Woken::Else(step.at, context, Name::default()),
                None => Woken::Else(step.at, context, name),
            });
        } else if let Some(path) = path {
            if self.carriers.len() >= REMEMBERED {
                self.carriers.clear();
            }
            self.carriers.insert(step.task, path);
        }
    }

    fn run(&mut self, step: &PrRun) {
        let slices = self.slices_until(step.at);
        let side = (step.detail >> 8 & 1) as usize;
        if step.pipe != 0 && step.detail & 0xf == PR_ASLEEP as u32 {
            if self.peers.len() >= REMEMBERED {
                self.peers.clear();
            }
            self.peers.entry(step.pipe).or_default()[side] = step.task;
        }
        let by = self.names.get(&step.before).copied().unwrap_or_default();
        let Some(thread) = self.threads.get_mut(&step.task) else { return };
        let process = thread.process;
        let clock = clock_of(&self.clocks, process);
        let (parts, cpus) = (&mut self.parts, &mut self.cpus);
        let mut extend = |state: &mut PathState, (what, by): (PathWhat, Name), spent: Spent, to: u64| {
            let number = parts.insert_full(PartKey { process, what, by }).0 as u32;
            state.extend(&slices, cpus, number, (clock, spent), to);
        };
        let nobody = Name::default();
        extend(&mut thread.state, (PathWhat::OnCpu, nobody), Spent::OnCpu, step.since);
        let asleep_since = thread.state.clocks;
        if step.detail & 0xf == PR_ASLEEP as u32 {
            let in_interrupt =
                |woken: &Woken| matches!(woken, Woken::Else(_, context, _) if *context as usize == PR_IN_INTERRUPT);
            thread.alarmed = step.pipe == 0
                && why(step.call, step.detail >> 4 & 0xf) == WaitReason::Signal
                && thread.woken.as_ref().is_some_and(in_interrupt);
        }
        let (mut made_room, mut woken) = (0, 0);
        if step.detail & 0xf == PR_ASLEEP as u32 {
            match thread.woken.take() {
                Some(Woken::By(path, room, waker)) if !is_held(step.call) => {
                    let ended = self.sleeps.get_mut(usize::from(waker)).filter(|_| step.pipe != 0 && waker != clock);
                    ended.into_iter().for_each(|sleeps| *sleeps += 1);
                    (made_room, woken) = (room, path.chain.at);
                    thread.state.follow(*path);
                }
                Some(Woken::By(path, ..)) => {
                    let what = asleep(step, PR_IN_PROCESS as u32);
                    extend(&mut thread.state, (what, nobody), Spent::Else, path.chain.at);
                }
                Some(Woken::Else(at, context, by)) => {
                    let what = asleep(step, context);
                    let by = if context as usize == PR_IN_PROCESS { by } else { nobody };
                    extend(&mut thread.state, (what, by), Spent::Else, at);
                }
                None => {
                    // Nothing was seen of its wake-up: some virtual machines hide what happens while a process of their own
                    // runs. Whoever was interrupted, a timer is what ends a sleep on a timer.
                    let timer = PathWhat::Asleep { reason: WaitReason::Timer };
                    let what = asleep(step, PR_IN_PROCESS as u32);
                    let what = if what == timer { timer } else { PathWhat::Unknown };
                    extend(&mut thread.state, (what, nobody), Spent::Else, step.at);
                }
            }
        }
        // Who sent the signal only waited as long as this one did.
        let alarm = std::mem::take(&mut thread.alarm);
        let instead = (alarm != 0).then(|| thread.state.chain.clone());
        let throttled = std::mem::take(&mut thread.throttled);
        if throttled > 0 {
            let until = step.at.min(thread.state.chain.at + throttled);
            extend(&mut thread.state, (PathWhat::Throttled, nobody), Spent::Else, until);
        }
        let idle = step.before == 0;
        extend(&mut thread.state, (PathWhat::ForCpu, by), Spent::ForCpu { idle }, step.at);
        if let Some(killer) = self.threads.get_mut(&alarm).filter(|killer| killer.alarmed)
            && let Some(chain) = instead
        {
            (killer.state.chain, killer.alarmed) = (chain, false);
        }
        // What the reader of a full pipe had read at the wake-up had been written before the writer slept.
        if let Some(reader) = self.threads.get_mut(&made_room) {
            if reader.woken.is_none() {
                let clock = clock_of(&self.clocks, reader.process);
                let number = self.parts.insert_full(part(reader.process, PathWhat::OnCpu)).0 as u32;
                reader.state.extend(&slices, &mut self.cpus, number, (clock, Spent::OnCpu), woken);
            }
            if reader.state.chain.at >= woken {
                later(&mut reader.state.clocks, &asleep_since);
            }
        }
    }

    fn free(&mut self, task: u64) {
        let Some(thread) = self.threads.remove(&task) else { return };
        if self.parents.len() >= REMEMBERED {
            self.parents.clear();
        }
        self.parents.insert(task, thread.parent);
    }

    /// This thread or, if it is gone, its next living ancestor.
    pub(crate) fn living(&self, mut task: u64) -> u64 {
        // An address can be that of another thread by now.
        for _ in 0..self.parents.len() {
            match self.parents.get(&task) {
                Some(parent) if !self.threads.contains_key(&task) => task = *parent,
                _ => break,
            }
        }
        task
    }

    fn gone(&mut self, step: &PrStep) {
        if step.detail == 0 {
            return;
        }
        self.ran(step.task, step.at);
        self.end(step.task);
    }

    /// A thread has ended where its path does.
    pub(crate) fn end(&mut self, task: u64) {
        let Some(thread) = self.threads.get_mut(&task).filter(|thread| !thread.has_ended) else { return };
        thread.has_ended = true;
        later(&mut self.ended, &thread.state.clocks);
        let state = &thread.state;
        let who = self.processes.get_index(thread.process as usize).map(|(_, who)| who.tgid);
        let seized = who.and_then(|tgid| self.seized.get_mut(&tgid)).map(|(_, last)| last);
        for last in [Some(&mut self.last), seized].into_iter().flatten() {
            if last.as_ref().is_none_or(|last| last.chain.at <= state.chain.at) {
                *last = Some(state.clone());
            }
        }
        if let Some(parent) = thread.child_of {
            let of_last = self.of_children.entry(parent).or_insert_with(|| state.clone());
            if of_last.chain.at <= state.chain.at {
                of_last.clone_from(state);
            }
        }
    }
}

/// The clock of a process among those of all.
fn clock_of(clocks: &[u8], process: u32) -> u8 {
    clocks.get(process as usize).copied().unwrap_or(NO_CLOCK)
}

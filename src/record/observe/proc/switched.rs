//! Threads as perf's events tell of them: what each of them does, since when, and who they are.

use super::thread::Sleep;
use crate::collect::thread_events::{ThreadEvent, ThreadEvents, TimedEvent};
use crate::record::observe::look::ChannelKey;
use crate::record::observe::path::PathFollower;
use crate::record::observe::raw::{PR_ASLEEP, PR_STEP_FREE, PrBirth, PrStep, PrTask, PrWho};
use crate::util::clock::monotonic_ns;
use bytemuck::{Zeroable as _, bytes_of};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time between two readings of the rings, and events of which more do not wait for the next look.
const READ: Duration = Duration::from_millis(5);
const MOST_WAITING: usize = 50_000;

/// Processes that no look has seen and that are remembered.
const MOST_UNSEEN: usize = 8192;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    OnCpu,
    /// It waits for a CPU.
    Ready,
    Asleep,
    /// It has a CPU or waits for one.
    Unknown,
    Ended,
}

/// What a thread sleeps for, and at which side of which channel.
pub(super) type Slept = (Sleep, Option<(ChannelKey, u32)>);

#[derive(Debug)]
pub(super) struct SwitchedThread {
    pub(super) pid: u32,
    pub(super) doing: Doing,
    pub(super) since: u64,
    /// When it had a CPU last, unless it has one.
    pub(super) ran: u64,
    /// Its time until then is counted.
    pub(super) counted: u64,
    /// As far as a look has seen it, the present sleep or the last one.
    pub(super) slept: Option<Slept>,
    /// A look has seen this very sleep.
    pub(super) is_seen: bool,
    /// Between a wake-up and the time that it got a CPU, on average, ns.
    pub(super) latency: u64,
}

#[derive(Debug)]
pub(super) struct SwitchedProcess {
    pub(super) who: PrWho,
    pub(super) parent: u32,
    pub(super) threads: Vec<u32>,
}

/// The threads whose events are read.
#[derive(Debug)]
pub(super) struct Switched {
    pub(super) events: ThreadEvents,
    pub(super) read_at: Instant,
    pub(super) threads: HashMap<u32, SwitchedThread>,
    pub(super) processes: HashMap<u32, SwitchedProcess>,
    pub(super) follower: PathFollower,
    /// By thread that sleeps: the threads that could end that. Found again when there are new ones, or new looks.
    pub(super) enders: HashMap<(u32, bool), Rc<[u32]>>,
    /// Since when threads sleep, ns.
    pub(super) asleep: HashMap<u32, u64>,
    /// By stage and program: the sleep without a descriptor that a look has seen last, such as that of `sleep`.
    pub(super) usual: HashMap<(u32, [u64; 2]), Sleep>,
    /// By stage, program and parent: a process that a look has seen.
    pub(super) seen: HashMap<(u32, [u64; 2], u32), PrWho>,
    /// Those that have ended and that none has seen, with their parents.
    pub(super) unseen: Vec<(PrWho, u32)>,
    /// Events so far, and the time of sleeps for which no look tells the reason, ns.
    pub count: u64,
    pub unseen_ns: u64,
}

impl Switched {
    pub(super) fn new(events: ThreadEvents) -> Self {
        Self {
            events,
            read_at: Instant::now(),
            threads: HashMap::new(),
            processes: HashMap::new(),
            // The clocks of processes that cost nothing need each wake-up.
            follower: PathFollower::of_excerpt(1),
            enders: HashMap::new(),
            asleep: HashMap::new(),
            usual: HashMap::new(),
            seen: HashMap::new(),
            unseen: Vec::new(),
            count: 0,
            unseen_ns: 0,
        }
    }

    /// What a process is, by the events until the last look.
    pub(super) fn who(&self, pid: u32) -> Option<PrWho> {
        self.processes.get(&pid).map(|process| process.who)
    }

    /// Time until [`Self::read`] has something to do.
    pub(super) fn due(&self) -> Duration {
        READ.saturating_sub(self.read_at.elapsed())
    }

    /// Empty the rings. Returns whether it is time to look: some were lost, many events wait, or a thread sleeps since that last
    /// look for this time.
    pub(super) fn read(&mut self, looked: u64, long: u64) -> bool {
        self.read_at = Instant::now();
        let mut is_lost = false;
        for event in self.events.read() {
            match event.event {
                ThreadEvent::Lost => is_lost = true,
                ThreadEvent::Stops { preempted: false } => drop(self.asleep.insert(event.tid, event.at)),
                ThreadEvent::Runs | ThreadEvent::Ended => drop(self.asleep.remove(&event.tid)),
                _ => {}
            }
        }
        let now = monotonic_ns();
        let is_long = |since: &u64| *since > looked && now.saturating_sub(*since) >= long;
        is_lost || self.events.waiting().len() > MOST_WAITING || self.asleep.values().any(is_long)
    }

    pub(super) fn lost(&self) -> u64 {
        self.events.lost
    }

    /// A process has ended that a look has seen, or none.
    pub(super) fn ended(&mut self, who: PrWho, parent: u32, seen: bool) {
        if seen {
            self.seen.insert((who.stage, who.name, parent), who);
        } else if self.unseen.len() < MOST_UNSEEN {
            self.unseen.push((who, parent));
        }
    }

    pub(super) fn step(&mut self, kind: usize, task: u32, at: u64, [detail, other]: [u64; 2]) {
        let (kind, detail) = (kind as u32, detail as u32);
        self.follower.step(bytes_of(&PrStep { kind, detail, task: task.into(), at, other }));
    }

    /// The path goes on now, where events were lost: it is known of those only that slept all the time.
    pub(super) fn bridge(&mut self, at: u64) {
        let task = |(tid, thread): (&u32, &SwitchedThread)| {
            let process = self.processes.get(&thread.pid).filter(|_| thread.doing != Doing::Ended)?;
            let since = if thread.doing == Doing::Asleep && thread.since < at { 0 } else { u64::MAX };
            let state = PR_ASLEEP as u32;
            Some((u64::from(*tid), PrTask { who: process.who, started: 1, state, since, ..PrTask::zeroed() }))
        };
        let tasks: Vec<(u64, PrTask)> = self.threads.iter().filter_map(task).collect();
        let gap = self.follower.gap.take().unwrap_or([at; 2]);
        self.follower.bridge(gap, Some(&tasks));
    }

    pub(super) fn birth(&mut self, kind: usize, tid: u32, at: u64, by: u32, who: PrWho) {
        let (kind, here, inside) = (kind as u32, who.tgid, who.tgid);
        self.follower.step(bytes_of(&PrBirth {
            kind,
            task: tid.into(),
            at,
            other: by.into(),
            here,
            inside,
            who,
            state: 0,
            thread: tid,
            cpu: 0,
        }));
    }

    pub(super) fn add(&mut self, tid: u32, pid: u32, doing: Doing, at: u64) {
        let (slept, latency) = (None, 0);
        let new = SwitchedThread { pid, doing, since: at, ran: at, counted: at, slept, is_seen: false, latency };
        self.threads.insert(tid, new);
        if let Some(process) = self.processes.get_mut(&pid).filter(|process| !process.threads.contains(&tid)) {
            process.threads.push(tid);
        }
        self.enders.clear();
    }

    /// Of these threads, the one that ran last during this time: its number, and when that was.
    pub(super) fn last_that_ran(&self, tids: &[u32], ended: bool, [from, to]: [u64; 2]) -> Option<(u32, u64)> {
        let last = |tid: &u32| {
            let thread = self.threads.get(tid)?;
            let ran = if thread.doing == Doing::OnCpu { to } else { thread.ran };
            (ran > from && (!ended || thread.doing == Doing::Ended)).then_some((*tid, ran))
        };
        tids.iter().filter_map(last).max_by_key(|(tid, ran)| (*ran, *tid))
    }

    /// For how long threads waited for a CPU after each wake-up: what the kernel has counted since the last look without the
    /// waits whose begin is an event.
    pub(super) fn latencies(&mut self, batch: &[TimedEvent], waited: &HashMap<u32, u64>) {
        let mut found: HashMap<u32, (Doing, u64, u64, u64)> = HashMap::new();
        for event in batch {
            let known =
                self.threads.get(&event.tid).map_or((Doing::Unknown, event.at), |thread| (thread.doing, thread.since));
            let (doing, since, waits, wakes) = found.entry(event.tid).or_insert((known.0, known.1, 0, 0));
            match event.event {
                ThreadEvent::Runs if *doing == Doing::Asleep => *wakes += 1,
                ThreadEvent::Runs if *doing == Doing::Ready => *waits += event.at - *since,
                _ => {}
            }
            *doing = match event.event {
                ThreadEvent::Stops { preempted: false } => Doing::Asleep,
                ThreadEvent::Forked { .. } | ThreadEvent::Stops { .. } => Doing::Ready,
                _ => Doing::OnCpu,
            };
            *since = event.at;
        }
        if batch.iter().any(|event| event.event == ThreadEvent::Lost) {
            return;
        }
        for (tid, (.., waits, wakes)) in found {
            if let Some((thread, waited)) = self.threads.get_mut(&tid).zip(waited.get(&tid)).filter(|_| wakes > 0) {
                thread.latency = waited.saturating_sub(waits) / wakes;
            }
        }
    }

    /// Forget what ended before this time.
    pub(super) fn forget(&mut self, before: u64) {
        let is_old = |thread: &SwitchedThread| thread.doing == Doing::Ended && thread.since < before;
        let old: Vec<u32> = self.threads.iter().filter(|(_, thread)| is_old(thread)).map(|(tid, _)| *tid).collect();
        for tid in old {
            let Some(thread) = self.threads.remove(&tid) else { continue };
            self.step(PR_STEP_FREE, tid, before, [0; 2]);
            if let Some(process) = self.processes.get_mut(&thread.pid) {
                process.threads.retain(|other| *other != tid);
                if process.threads.is_empty() {
                    self.processes.remove(&thread.pid);
                }
            }
        }
    }
}

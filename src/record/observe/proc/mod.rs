//! Record without rights: look into /proc now and then. What a user may read of their own processes tells the times of their
//! threads exactly (schedstat), and what they do at that moment (stat, syscall, fd). Calls, bytes and wake-ups are not seen,
//! nor what lives between two looks. Where perf gives its events of threads, their states between two looks are known exactly.
//!
//! [`thread`] reads one thread, [`totals`] adds up what was seen, [`blame`] follows what the end of the
//! pipeline waits for, and [`switch`] does so by [`switched`], perf's events.

mod blame;
mod observer;
mod switch;
mod switched;
#[cfg(test)]
mod tests;
mod thread;
mod totals;

use crate::collect::thread_events::ThreadEvents;
use crate::record::observe::look::{ProcessNow, ProcessesNow};
use crate::record::observe::path::SeenPath;
use crate::record::observe::raw::{PR_READ, PR_WRITE, PrWho};
use crate::record::observe::reason::words_of;
use crate::record::observe::thread_calls::{MOST_THREADS, ThreadCall};
use crate::record::start::command_line;
use crate::record::start::open_files::{FileKind, OpenFile, open_files};
use crate::record::start::socket_peers::socket_peers;
use crate::result::{Observer, PathWhat};
use crate::util::clock::monotonic_ns;
use crate::util::process_stat::{self, ProcessStat};
use crate::util::text::read_lossy;
use anyhow::{Result, anyhow};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};
use switched::Switched;
use thread::{LookedProcess, LookedThread, Sleep, ThreadState};
use totals::LookedTotals;

/// The shortest and the longest time between two looks. In between, they take this part of the time of a CPU.
const OFTEN: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_secs(1);
const COST: f64 = 0.02;

/// So many looks come sooner and may cost more, so that something is known of a short pipeline.
const FIRST: u64 = 60;
const FIRST_OFTEN: Duration = Duration::from_millis(2);
const FIRST_COST: f64 = 0.2;

/// What is not expected to change is read again after this time, ns.
const STALE_NS: u64 = 200_000_000;

/// Further processes are not followed.
const MOST: usize = 4096;

/// Looks at processes and their descendants.
#[derive(Debug)]
pub(crate) struct ProcRecorder {
    /// The last look, by the monotonic clock, ns.
    last: u64,
    until: u64,
    next: Instant,
    every: Duration,
    looks: u64,
    /// Sleeps of which the call may not be read.
    unreadable: u64,
    /// Their files and parents.
    now: ProcessesNow,
    peers_at: u64,
    processes: BTreeMap<u32, LookedProcess>,
    /// Those of them that have ended. With events, they are kept for one more look: they may have ended a sleep.
    ending: HashSet<u32>,
    /// Processes that are none of these.
    others: HashSet<u32>,
    /// The process id that the kernel gave last, with which new processes and threads are noticed.
    last_pid: String,
    /// It was another one at the last look: the process that has it may not have been listed yet.
    has_new: bool,
    /// The ancestors of what is followed: one of them becomes the parent of a process whose own parent has ended.
    ancestors: HashSet<u32>,
    /// The first process of each stage.
    roots: Vec<u32>,
    totals: LookedTotals,
    /// With perf's events.
    switched: Option<Switched>,
    path: SeenPath,
    /// Who held up the end between the last two looks, what it did, and the part of that time.
    blamed: Vec<(PrWho, PathWhat, f64)>,
    begin: u64,
    is_attached: bool,
    /// The process group of what was started or asked for, and this process's parent.
    group: u32,
    parent: u32,
    /// Which observer was asked for, and why it is not BPF programs although it could have been.
    wanted: Option<Observer>,
    refused: Option<anyhow::Error>,
}

impl ProcRecorder {
    /// As `wanted`, or because BPF programs are `refused`. `running`: what is followed runs already.
    ///
    /// # Errors
    /// If perf's events were asked for, and why they are refused.
    pub(crate) fn start(wanted: Option<Observer>, mut refused: Option<anyhow::Error>, running: bool) -> Result<Self> {
        let open = || ThreadEvents::of_children(None);
        let events = if running { None } else { if_possible(wanted, &mut refused, open)? };
        Ok(Self::with(events, wanted, refused))
    }

    fn with(events: Option<ThreadEvents>, wanted: Option<Observer>, refused: Option<anyhow::Error>) -> Self {
        let begin = monotonic_ns();
        Self {
            last: begin,
            until: u64::MAX,
            next: Instant::now(),
            every: FIRST_OFTEN,
            looks: 0,
            unreadable: 0,
            now: ProcessesNow::default(),
            peers_at: 0,
            processes: BTreeMap::new(),
            ending: HashSet::new(),
            others: process_stat::ids().collect(),
            last_pid: String::new(),
            has_new: true,
            ancestors: HashSet::new(),
            roots: Vec::new(),
            totals: LookedTotals::default(),
            switched: events.map(Switched::new),
            path: SeenPath::new(begin),
            blamed: Vec::new(),
            begin,
            is_attached: false,
            group: 0,
            parent: std::os::unix::process::parent_id(),
            wanted,
            refused,
        }
    }

    /// The window begins now.
    fn begin_now(&mut self) {
        self.begin = monotonic_ns();
        (self.last, self.path) = (self.begin, SeenPath::new(self.begin));
    }

    /// Follow these processes, each as a stage. `running`: they were before.
    fn follow(&mut self, pids: impl IntoIterator<Item = u32>, running: bool) {
        self.is_attached = running;
        for (pid, stage) in pids.into_iter().zip(0..) {
            self.roots.push(pid);
            self.others.remove(&pid);
            if let Some(stat) = ProcessStat::of(pid).filter(|stat| stat.state != 'Z') {
                self.group = stat.group;
                self.know_ancestors(stat.parent);
                self.add(pid, stage, &stat, self.begin, running);
            }
        }
    }

    /// Also this process and those above it can become the parent of orphans.
    fn know_ancestors(&mut self, mut pid: u32) {
        while pid != 0 && self.ancestors.insert(pid) {
            pid = ProcessStat::of(pid).map_or(0, |stat| stat.parent);
        }
    }

    /// Read perf's events of the processes that are followed and ran before.
    ///
    /// # Errors
    /// Why that is impossible.
    fn read_events(&mut self) -> Result<(), String> {
        self.switched = Some(Switched::new(ThreadEvents::of_none()?));
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        let seized = pids.into_iter().try_for_each(|pid| self.seize_process(pid, self.begin));
        if seized.is_err() {
            self.switched = None;
        }
        seized
    }

    /// Look now. Returns the time that it took of a CPU, ns, without that for events, which do not come less often.
    fn look(&mut self) -> u64 {
        let at = monotonic_ns().min(self.until);
        if at <= self.last {
            return 0;
        }
        let begun = clock_gettime(ClockId::ThreadCPUTime);
        let is_new = self.discover(at);
        let pids: Vec<u32> = self.processes.keys().copied().collect();
        let ended: HashSet<u32> = pids.into_iter().filter(|pid| !self.look_at(*pid, at, is_new)).collect();
        self.read_others(at);
        self.find_channels();
        let done = clock_gettime(ClockId::ThreadCPUTime);
        let before = std::mem::replace(&mut self.ending, ended);
        let has_events = self.switched.is_some();
        if has_events {
            self.switch(at);
            self.seize_unknown(at);
        }
        let gone: Vec<u32> = self.ending.iter().copied().filter(|pid| !has_events || before.contains(pid)).collect();
        for pid in gone {
            self.ending.remove(&pid);
            self.end(pid, at);
        }
        if !has_events {
            self.blame(at);
        }
        (self.last, self.looks) = (at, self.looks + 1);
        let ns = (done.tv_sec - begun.tv_sec) * 1_000_000_000 + (done.tv_nsec - begun.tv_nsec);
        ns.unsigned_abs()
    }

    /// Without events: who held up the end since the last look, and what all threads did.
    fn blame(&mut self, at: u64) {
        let ns = at - self.last;
        for process in self.processes.values_mut() {
            let ns = ns.min(at.saturating_sub(process.since));
            process.threads.values_mut().for_each(|thread| self.totals.add(&process.who, thread, ns));
        }
        let blamed = self.blamed(ns);
        // Once the last process has ended, it held up the end until now.
        if !blamed.is_empty() {
            self.blamed = blamed;
        }
        let mut until = 0.0;
        for (who, what, share) in &self.blamed {
            until += share;
            self.path.add(*who, *what, self.last + (ns as f64 * until) as u64);
        }
    }

    /// Find new children of processes that are followed. Returns whether there may be new threads.
    fn discover(&mut self, at: u64) -> bool {
        // The last field is the process id that was given last.
        let load = read_lossy("/proc/loadavg").unwrap_or_default();
        let last_pid = load.split_whitespace().last().unwrap_or_default();
        let is_new = last_pid != self.last_pid;
        if !std::mem::replace(&mut self.has_new, is_new) && !is_new {
            return false;
        }
        last_pid.clone_into(&mut self.last_pid);
        let all: HashSet<u32> = process_stat::ids().collect();
        self.others.retain(|pid| all.contains(pid));
        let is_unknown = |pid: &u32| !self.processes.contains_key(pid) && !self.others.contains(pid);
        let mut new: Vec<u32> = all.into_iter().filter(is_unknown).collect();
        new.sort_unstable();
        // A child can have a smaller id than its parent.
        loop {
            let before = new.len();
            new.retain(|pid| {
                let Some(stat) = ProcessStat::of(*pid).filter(|stat| stat.state != 'Z') else { return false };
                let parent = self.processes.get(&stat.parent).map(|parent| parent.who);
                // Its parent had ended before it was seen; who has started this process starts others, too. A group can have
                // other programs, as in a script.
                let is_orphan =
                    || stat.group == self.group && stat.parent != self.parent && self.ancestors.contains(&stat.parent);
                let stage = match &parent {
                    Some(parent) => parent.stage,
                    None if is_orphan() => self.roots.len().saturating_sub(1) as u32,
                    None => return true,
                };
                if self.processes.len() < MOST {
                    if self.switched.is_none() {
                        parent.iter().for_each(|parent| self.totals.process(parent).forks += 1);
                    }
                    self.add(*pid, stage, &stat, at, false);
                }
                false
            });
            if new.is_empty() || new.len() == before {
                break;
            }
        }
        self.others.extend(new);
        true
    }

    /// Follow a process from `begin` on. `running`: what it did before does not count.
    fn add(&mut self, pid: u32, stage: u32, stat: &ProcessStat, begin: u64, running: bool) {
        let who = PrWho { stage, tgid: pid, name: words_of(&stat.name) };
        let ticks = if running { [stat.user_ticks, stat.ticks] } else { [0; 2] };
        let process =
            LookedProcess { who, started: stat.started, threads: BTreeMap::new(), ticks, since: begin, files_at: 0 };
        self.processes.insert(pid, process);
        self.now.processes.insert(pid, ProcessNow { parent: stat.parent, ..ProcessNow::default() });
        let line = command_line::of_process(pid);
        let parent = self.processes.get(&stat.parent).map(|parent| parent.who);
        let is_copy =
            parent.is_some_and(|parent| parent.name == who.name && self.path.command_lines.of(&parent) == line);
        if self.switched.is_none() || running {
            self.totals.begin(&who, begin);
            self.totals.process(&who).execs += u64::from(!is_copy);
        }
        self.path.command_lines.add(who, line);
        self.path.ids.add(pid, [pid, process_stat::inner_id(pid).unwrap_or(pid)]);
        if running {
            // The times of its threads so far are no part of the window.
            if !self.look_at(pid, begin, true) {
                self.end(pid, begin);
            }
        }
    }

    /// Look at a process. Returns whether it lives.
    fn look_at(&mut self, pid: u32, at: u64, is_new: bool) -> bool {
        let is_counted = self.switched.is_some();
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        let stat = ProcessStat::of(pid).filter(|stat| stat.started == process.started);
        let Some(stat) = stat.filter(|stat| stat.state != 'Z' || process.threads.len() > 1) else {
            return false;
        };
        let named = self
            .switched
            .as_ref()
            .map_or(Some(PrWho { name: words_of(&stat.name), ..process.who }), |switched| switched.who(pid));
        if let Some(who) = named.filter(|who| *who != process.who) {
            let before = process.who;
            process.who = who;
            process.files_at = 0;
            if !is_counted {
                self.totals.end(&before, at);
                self.totals.begin(&process.who, at);
                self.totals.process(&process.who).execs += 1;
            }
            self.path.command_lines.add(process.who, command_line::of_process(pid));
        } else if is_counted && words_of(&stat.name) != process.who.name {
            // It has just executed a program, and the event of that is still to be read.
            process.files_at = 0;
        }
        let files = self.now.processes.entry(pid).or_default();
        files.parent = stat.parent;
        if process.files_at == 0 || at - process.files_at >= STALE_NS {
            files.files = open_files(pid).ok();
            process.files_at = at;
            // It is empty for a moment during an exec.
            if self.path.command_lines.of(&process.who).is_empty() {
                self.path.command_lines.add(process.who, command_line::of_process(pid));
            }
        }
        let own = &mut files.files;
        if named.is_some() {
            let [user, all] = process.ticks;
            self.totals.add_ticks(&process.who, [stat.user_ticks.saturating_sub(user), stat.ticks.saturating_sub(all)]);
            process.ticks = [stat.user_ticks, stat.ticks];
        }
        let listed =
            if is_new || process.threads.is_empty() { tasks(pid) } else { process.threads.keys().copied().collect() };
        let is_single = listed.len() == 1;
        for tid in listed {
            let of_thread = if is_single { Some(stat.clone()) } else { ProcessStat::of_thread(pid, tid) };
            let Some(of_thread) = of_thread else {
                process.threads.remove(&tid);
                continue;
            };
            let before = process.threads.get(&tid);
            let times = thread::times(pid, tid, &of_thread, before.map(|thread| thread.times));
            // It has not run since then, so it still sleeps where it did.
            let same = |thread: &&LookedThread| {
                thread.times.runs.is_some()
                    && thread.times == times
                    && matches!(of_thread.state, 'S' | 'D')
                    && has_files(&thread.state, own.as_deref())
                    && matches!(&thread.state, ThreadState::Sleeps(sleep) if sleep.is_placed())
            };
            let mut state = match before.filter(same) {
                Some(thread) => Some(thread.state.clone()),
                None => thread::state(pid, tid, of_thread.state, own.as_deref().unwrap_or_default()),
            };
            if process.files_at < at && state.as_ref().is_some_and(|state| !has_files(state, own.as_deref())) {
                // A descriptor that was opened since then.
                *own = open_files(pid).ok();
                process.files_at = at;
                state = thread::state(pid, tid, of_thread.state, own.as_deref().unwrap_or_default());
            }
            let Some(state) = state else {
                process.threads.remove(&tid);
                continue;
            };
            let is_unreadable = matches!(&state, ThreadState::Sleeps(sleep) if sleep.number == thread::UNKNOWN);
            self.unreadable += u64::from(is_unreadable);
            let known = before.map(|thread| thread.times).unwrap_or_default();
            let spent = [times.cpu.saturating_sub(known.cpu), times.waiting.saturating_sub(known.waiting)];
            let sleeps = times.sleeps.saturating_sub(known.sleeps);
            let since = before.filter(|thread| thread.state == state && thread.times.runs == times.runs);
            let since = since.map_or(at, |thread| thread.since);
            let slept = match &state {
                ThreadState::Sleeps(sleep) => Some(sleep.clone()),
                ThreadState::Runs => before.and_then(|thread| thread.slept.clone()),
            };
            if before.is_none() && !is_counted {
                self.totals.process(&process.who).threads += 1;
            }
            let ahead = before.map_or(0, |thread| thread.ahead);
            let looked = LookedThread { times, state, since, slept, channel: None, spent, ahead, sleeps };
            process.threads.insert(tid, looked);
        }
        !process.threads.is_empty()
    }

    fn end(&mut self, pid: u32, at: u64) {
        if let Some(mut process) = self.processes.remove(&pid) {
            process.who = self.switched.as_ref().and_then(|switched| switched.who(pid)).unwrap_or(process.who);
            if self.switched.is_none() {
                self.totals.end(&process.who, at);
            }
            let removed = self.now.processes.remove(&pid);
            let parent = removed.as_ref().map_or(0, |process| process.parent);
            self.switched.iter_mut().for_each(|switched| switched.ended(process.who, parent, true));
            let files = removed.and_then(|process| process.files);
            self.totals.add_open(&process.who, &files.unwrap_or_default());
        }
        self.others.insert(pid);
    }

    /// Find the channels of sleeps.
    fn find_channels(&mut self) {
        for (pid, process) in &mut self.processes {
            for thread in process.threads.values_mut() {
                let at = thread.slept.as_ref().and_then(|slept| slept.at);
                thread.channel = at.and_then(|(fd, room)| {
                    let side = if room { PR_WRITE } else { PR_READ };
                    Some((self.now.channel_key(*pid, fd, room)?, side as u32))
                });
            }
        }
    }

    /// What sleeps at sockets and for locks of files needs.
    fn read_others(&mut self, at: u64) {
        if at - self.peers_at < STALE_NS {
            return;
        }
        let (mut at_sockets, mut for_locks) = (false, Vec::new());
        for (pid, process) in &self.processes {
            let files = self.now.processes.get(pid).and_then(|process| process.files.as_deref()).unwrap_or_default();
            let is_socket =
                |fd: u32| files.iter().any(|file| file.fd == fd && matches!(file.kind, FileKind::Socket(_)));
            for thread in process.threads.values() {
                match &thread.state {
                    ThreadState::Sleeps(Sleep { call: ThreadCall::Files(awaited), .. }) => {
                        at_sockets |= awaited.any.iter().any(|(fd, _)| is_socket(*fd));
                    }
                    ThreadState::Sleeps(Sleep { call: ThreadCall::Lock(_), .. }) => for_locks.push(*pid),
                    _ => {}
                }
            }
        }
        if at_sockets {
            self.now.peers = socket_peers();
        }
        if !for_locks.is_empty() {
            self.now.read_locks(&for_locks);
        }
        if at_sockets || !for_locks.is_empty() {
            self.peers_at = at;
        }
    }
}

/// perf's events, unless they are not wanted. Where they are not permitted, looks are enough, unless they were asked for: `refused`
/// says why.
fn if_possible<T>(
    wanted: Option<Observer>,
    refused: &mut Option<anyhow::Error>,
    open: impl FnOnce() -> Result<T, String>,
) -> Result<Option<T>> {
    match wanted {
        Some(Observer::Proc) => Ok(None),
        Some(Observer::Perf) => open().map(Some).map_err(|why| anyhow!("--observe perf: {why}")),
        _ => Ok(open().map_err(|why| *refused = refused.take().map(|error| anyhow!("{error:#}; {why}"))).ok()),
    }
}

/// The threads of a process, as many as are looked at.
fn tasks(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(MOST_THREADS).collect()
}

/// Whether the descriptors of a sleep are among these files.
fn has_files(state: &ThreadState, files: Option<&[OpenFile]>) -> bool {
    let ThreadState::Sleeps(Sleep { call: ThreadCall::Files(awaited), .. }) = state else { return true };
    awaited.any.iter().all(|(fd, _)| files.unwrap_or_default().iter().any(|file| file.fd == *fd))
}

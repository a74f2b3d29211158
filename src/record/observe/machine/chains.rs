//! For which channels threads wait, and who in the end keeps them waiting: the nearest process along the waits that does not
//! wait for another one itself.

use super::ends::ChannelEnds;
use super::{MachineNow, MachineProcess};
use crate::record::observe::look::{ChannelKey, channel_of};
use crate::record::observe::thread_calls::{ThreadCall, ThreadNow};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Who polls more files than these serves them, and does not wait for one.
const MOST_POLLED: usize = 16;

/// Processes of which more are not followed from one wait.
const MOST_FOLLOWED: usize = 4096;

/// A wait of a thread at a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelWait {
    pub channel: ChannelKey,
    /// It waits for room, not for data.
    pub room: bool,
    /// In `poll` or its like.
    pub polled: bool,
}

/// What the process does at which a chain of waits ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChainEnd {
    /// Nobody can be seen who could end the wait.
    Unknown,
    /// These wait for each other; empty for others that do, of which the waiting process is not one.
    Circle(Vec<u32>),
    Stopped(u32),
    Runs(u32),
    Sleeps(u32),
}

/// Where a chain of waits ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitChain {
    pub end: ChainEnd,
    /// Over how many waits.
    pub steps: u32,
    /// Whether somebody on the way waits for room.
    pub full: bool,
}

/// What a wait is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// For data of somebody who has nothing to do, as of a server that waits to be asked.
    Idle,
    /// For data of somebody who runs.
    Starved,
    /// Who waits has something to do, or nobody who could end it can.
    Held,
}

impl WaitChain {
    /// What a wait for room or data is worth that ends here.
    pub(crate) fn kind(&self, wait: &ChannelWait) -> WaitKind {
        match self.end {
            // This process only looks.
            ChainEnd::Runs(pid) if pid == std::process::id() => WaitKind::Idle,
            _ if wait.room || self.full => WaitKind::Held,
            ChainEnd::Circle(_) | ChainEnd::Stopped(_) => WaitKind::Held,
            ChainEnd::Runs(_) if !wait.polled => WaitKind::Starved,
            ChainEnd::Runs(_) | ChainEnd::Sleeps(_) | ChainEnd::Unknown => WaitKind::Idle,
        }
    }
}

/// What a process does.
enum Activity {
    Unknown,
    Stopped,
    Runs,
    Sleeps,
    /// All of its threads wait: for these processes, some of them for room.
    Waits(Vec<(u32, bool)>),
}

/// All processes and channels at one look.
pub(crate) struct Waits<'a> {
    machine: &'a MachineNow,
    pub ends: HashMap<ChannelKey, ChannelEnds>,
    children: HashMap<u32, Vec<u32>>,
    /// Whether a pipe has no room, as far as that is known.
    is_full: &'a dyn Fn(ChannelKey) -> Option<bool>,
}

impl<'a> Waits<'a> {
    pub(crate) fn of(machine: &'a MachineNow, is_full: &'a dyn Fn(ChannelKey) -> Option<bool>) -> Self {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        machine.processes.iter().for_each(|(pid, process)| children.entry(process.parent).or_default().push(*pid));
        Self { machine, ends: machine.ends(), children, is_full }
    }

    /// The waits of a thread at channels: several only if it polls. None if it waits for something else, too.
    pub(crate) fn at_channels(&self, process: &MachineProcess, call: &ThreadCall) -> Vec<ChannelWait> {
        let ThreadCall::Files(awaited) = call else { return Vec::new() };
        if awaited.any.len() > MOST_POLLED {
            return Vec::new();
        }
        let wait = |(fd, room): &(u32, bool)| {
            let (_, channel) = channel_of(process.file(*fd)?, *room, &self.machine.peers)?;
            Some(ChannelWait { channel, room: *room, polled: awaited.polled })
        };
        let waits: Vec<Option<ChannelWait>> = awaited.any.iter().map(wait).collect();
        if awaited.polled {
            // An edge that has been told before is not told again: only a pipe that is known to be full is waited for.
            let is_certain = |wait: &ChannelWait| !wait.room || (self.is_full)(wait.channel) == Some(true);
            let all: Option<Vec<ChannelWait>> = waits.into_iter().collect();
            return all.unwrap_or_default().into_iter().filter(is_certain).collect();
        }
        // splice waits on one side: for data, unless there is no room.
        let known: Vec<ChannelWait> = waits.into_iter().flatten().collect();
        let full = known.iter().find(|wait| wait.room && (self.is_full)(wait.channel) == Some(true));
        full.or_else(|| known.first()).copied().into_iter().collect()
    }

    /// The processes that could end what a thread waits for, and whether it waits for room; `None` if it does not wait for
    /// processes that are known.
    fn enders(&self, pid: u32, process: &MachineProcess, thread: &ThreadNow) -> Option<Vec<(u32, bool)>> {
        match &thread.call {
            ThreadCall::Thread => Some(Vec::new()),
            ThreadCall::Child(Some(child)) => Some(vec![(*child, false)]),
            ThreadCall::Child(None) => {
                let children = self.children.get(&pid)?;
                Some(children.iter().map(|child| (*child, false)).collect())
            }
            ThreadCall::Files(_) => {
                let waits = self.at_channels(process, &thread.call);
                let of = |wait: &ChannelWait| {
                    let ends = self.ends.get(&wait.channel)?.enders(wait.room);
                    Some(ends.iter().map(|(pid, _)| (*pid, wait.room)).collect::<Vec<_>>())
                };
                let all: Option<Vec<Vec<(u32, bool)>>> = waits.iter().map(of).collect();
                let all = all?.concat();
                (!all.is_empty()).then_some(all)
            }
            ThreadCall::Busy
            | ThreadCall::Idle
            | ThreadCall::Shared(_)
            | ThreadCall::Lock(_)
            | ThreadCall::Opening { .. } => None,
        }
    }

    /// What a process does, without the thread `except`.
    fn activity(&self, pid: u32, except: Option<u32>) -> Activity {
        let Some(process) = self.machine.processes.get(&pid) else { return Activity::Unknown };
        if process.is_stopped() {
            return Activity::Stopped;
        }
        let Some(threads) = &process.threads else {
            return match process.state {
                'R' | 'D' => Activity::Runs,
                _ if process.files.is_none() => Activity::Unknown,
                _ => Activity::Sleeps,
            };
        };
        let others = || threads.iter().filter(|thread| Some(thread.tid) != except);
        if others().any(|thread| thread.call == ThreadCall::Busy) {
            return Activity::Runs;
        }
        let enders: Option<Vec<Vec<(u32, bool)>>> = others().map(|thread| self.enders(pid, process, thread)).collect();
        match enders.map(|enders| enders.concat()) {
            Some(enders) if !enders.is_empty() || except.is_some() => Activity::Waits(enders),
            _ => Activity::Sleeps,
        }
    }

    /// Follow a wait of a thread to its cause.
    pub(crate) fn chain(&self, pid: u32, tid: u32, wait: &ChannelWait) -> WaitChain {
        let Some(ends) = self.ends.get(&wait.channel).filter(|ends| !ends.enders(wait.room).is_empty()) else {
            return WaitChain { end: ChainEnd::Unknown, steps: 1, full: wait.room };
        };
        let mut seen = BTreeSet::new();
        let mut from: HashMap<u32, u32> = HashMap::new();
        let mut next: VecDeque<(u32, u32, bool)> =
            ends.enders(wait.room).iter().map(|(ender, _)| (*ender, 1, wait.room)).collect();
        let mut found: Option<(u8, WaitChain)> = None;
        let mut circle = None;
        while let Some((at, steps, full)) = next.pop_front() {
            // What is nearest counts, and of that what is most active.
            if found.as_ref().is_some_and(|(_, found)| steps > found.steps) || seen.len() >= MOST_FOLLOWED {
                break;
            }
            if !seen.insert(at) {
                continue;
            }
            let (rank, end) = match self.activity(at, (at == pid).then_some(tid)) {
                Activity::Waits(enders) => {
                    for (ender, room) in enders {
                        from.entry(ender).or_insert(at);
                        if ender == pid {
                            circle.get_or_insert(at);
                        }
                        next.push_back((ender, steps + 1, full || room));
                    }
                    continue;
                }
                Activity::Runs => (0, ChainEnd::Runs(at)),
                Activity::Stopped => (1, ChainEnd::Stopped(at)),
                Activity::Sleeps => (2, ChainEnd::Sleeps(at)),
                Activity::Unknown => (3, ChainEnd::Unknown),
            };
            if found.as_ref().is_none_or(|(known, _)| rank < *known) {
                found = Some((rank, WaitChain { end, steps, full }));
            }
        }
        if let Some((_, found)) = found {
            return found;
        }
        // All that could end it wait, for it or for others of them: of these, it is not part.
        if circle.is_none() && ends.enders(wait.room).iter().any(|(ender, _)| *ender != pid) {
            return WaitChain { end: ChainEnd::Circle(Vec::new()), steps: 2, full: wait.room };
        }
        let mut members = vec![pid];
        let mut at = circle;
        while let Some(member) = at.filter(|member| !members.contains(member)) {
            members.push(member);
            at = from.get(&member).copied();
        }
        members[1..].reverse();
        WaitChain { end: ChainEnd::Circle(members), steps: 1, full: wait.room }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{MadeEnd, machine, waits_at};
    use super::*;
    use crate::record::observe::thread_calls::AwaitedFiles;

    fn polls(any: &[(u32, bool)]) -> ThreadCall {
        ThreadCall::Files(AwaitedFiles { any: any.to_vec(), polled: true, limited: false })
    }

    /// The chain and the worth of the wait of process 1's first thread.
    fn first(machine: &MachineNow) -> (WaitChain, WaitKind) {
        let waits = Waits::of(machine, &|_| None);
        let process = &machine.processes[&1];
        let thread = &process.threads.as_ref().unwrap()[0];
        let wait = waits.at_channels(process, &thread.call)[0];
        let chain = waits.chain(1, thread.tid, &wait);
        let kind = chain.kind(&wait);
        (chain, kind)
    }

    fn end(processes: &[(u32, &[MadeEnd], &[ThreadCall])]) -> (ChainEnd, WaitKind) {
        let (chain, kind) = first(&machine(processes));
        (chain.end, kind)
    }

    const R1: MadeEnd = (1, false);
    const W1: MadeEnd = (1, true);
    const R2: MadeEnd = (2, false);
    const W2: MadeEnd = (2, true);

    #[test]
    fn a_reader_of_somebody_idle_is_idle_and_a_writer_is_held() {
        let idle = [ThreadCall::Idle];
        assert_eq!(end(&[(0, &[R1], &[waits_at(0, false)]), (0, &[W1], &idle)]), (ChainEnd::Sleeps(2), WaitKind::Idle));
        assert_eq!(end(&[(0, &[W1], &[waits_at(0, true)]), (0, &[R1], &idle)]), (ChainEnd::Sleeps(2), WaitKind::Held));
        let runs = [ThreadCall::Busy];
        assert_eq!(
            end(&[(0, &[R1], &[waits_at(0, false)]), (0, &[W1], &runs)]),
            (ChainEnd::Runs(2), WaitKind::Starved)
        );
        // One thread that runs is enough, and of several holders the most active one counts.
        let threads = [ThreadCall::Idle, ThreadCall::Busy];
        let several: [(u32, &[MadeEnd], &[ThreadCall]); 3] =
            [(0, &[R1], &[waits_at(0, false)]), (0, &[W1], &idle), (0, &[W1], &threads)];
        assert_eq!(end(&several), (ChainEnd::Runs(3), WaitKind::Starved));
    }

    #[test]
    fn a_reader_behind_a_writer_that_is_held_loses_time_too() {
        let all: [(u32, &[MadeEnd], &[ThreadCall]); 3] =
            [(0, &[R1], &[waits_at(0, false)]), (0, &[W1, W2], &[waits_at(1, true)]), (0, &[R2], &[ThreadCall::Idle])];
        let (chain, kind) = first(&machine(&all));
        assert_eq!((chain.end, chain.steps, kind), (ChainEnd::Sleeps(3), 2, WaitKind::Held));
    }

    #[test]
    fn who_is_stopped_holds_up_whoever_waits() {
        let mut all = machine(&[(0, &[R1], &[waits_at(0, false)]), (0, &[W1], &[ThreadCall::Busy])]);
        all.processes.get_mut(&2).unwrap().state = 'T';
        let (chain, kind) = first(&all);
        assert_eq!((chain.end, kind), (ChainEnd::Stopped(2), WaitKind::Held));
    }

    #[test]
    fn circles_are_found_with_all_their_members() {
        let circle: [(u32, &[MadeEnd], &[ThreadCall]); 2] =
            [(0, &[R1, W2], &[waits_at(0, false)]), (0, &[W1, R2], &[waits_at(1, false)])];
        assert_eq!(end(&circle), (ChainEnd::Circle(vec![1, 2]), WaitKind::Held));
        assert_eq!(end(&[(0, &[R1, W1], &[waits_at(0, false)])]), (ChainEnd::Circle(vec![1]), WaitKind::Held));
        // Another thread can do anything.
        let threads = [waits_at(0, false), ThreadCall::Idle];
        assert_eq!(end(&[(0, &[R1, W1], &threads)]), (ChainEnd::Sleeps(1), WaitKind::Idle));
        // Behind a circle.
        let behind: [(u32, &[MadeEnd], &[ThreadCall]); 3] = [
            (0, &[(3, false)], &[waits_at(0, false)]),
            (0, &[R1, W2, (3, true)], &[waits_at(0, false)]),
            (0, &[W1, R2], &[waits_at(1, false)]),
        ];
        assert_eq!(end(&behind), (ChainEnd::Circle(Vec::new()), WaitKind::Held));
        // A parent waits for its child, which reads from it.
        let child: [(u32, &[MadeEnd], &[ThreadCall]); 2] =
            [(2, &[R1], &[waits_at(0, false)]), (0, &[W1], &[ThreadCall::Child(None)])];
        assert_eq!(end(&child), (ChainEnd::Circle(vec![1, 2]), WaitKind::Held));
    }

    #[test]
    fn room_in_poll_counts_only_in_a_pipe_that_is_full() {
        let all = machine(&[(0, &[W1], &[polls(&[(0, true)])]), (0, &[R1], &[ThreadCall::Idle])]);
        let process = &all.processes[&1];
        let call = &process.threads.as_ref().unwrap()[0].call;
        let found = |full: Option<bool>| Waits::of(&all, &|_| full).at_channels(process, call).len();
        assert_eq!([None, Some(false), Some(true)].map(found), [0, 0, 1]);
        // Nor who serves many files, or other ones too.
        let many: Vec<(u32, bool)> = vec![(0, false); MOST_POLLED + 1];
        let served = [polls(&many), polls(&[(0, false), (9, false)])];
        let waits = Waits::of(&all, &|_| Some(true));
        assert!(served.iter().all(|call| waits.at_channels(process, call).is_empty()));
    }

    #[test]
    fn nobody_at_the_other_end_is_unknown() {
        assert_eq!(end(&[(0, &[R1], &[waits_at(0, false)])]), (ChainEnd::Unknown, WaitKind::Idle));
        assert_eq!(end(&[(0, &[W1], &[waits_at(0, true)])]), (ChainEnd::Unknown, WaitKind::Held));
    }
}

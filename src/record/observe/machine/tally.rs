//! What several looks at the machine have seen, added up by channel.
//!
//! A wait that one look sees counts for half of the time to the looks before and after it; so the whole time between two looks
//! counts if both see it.

use super::MachineNow;
use super::chains::{ChainEnd, ChannelWait, WaitChain, WaitKind, Waits};
use super::ends::ChannelEnds;
use super::moved::MovedNow;
use crate::record::observe::look::ChannelKey;
use crate::record::observe::reason::why;
use crate::record::observe::thread_calls::{SleepingCall, ThreadCall, sleeping_call};
use crate::record::start::container;
use crate::result::{
    ChannelHolder, ChannelKind, MachineChannel, MachineEnd, SeenProcess, StuckWait, WaitCause, WaitReason,
};
use crate::util::process_stat::{self, ProcessStat};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Channels that are kept, and holders of an end that are named.
const MOST_CHANNELS: usize = 65_536;
const NAMED: usize = 4;

/// A process, by its id and when it was started, and one of its threads.
type ThreadKey = (u32, u64, u32);

/// What was seen of a channel.
#[derive(Debug, Default)]
struct ChannelTally {
    kind: ChannelKind,
    path: Option<String>,
    sockets: Option<[u64; 2]>,
    writers: SeenEnds,
    readers: SeenEnds,
    full_ns: u64,
    empty_ns: u64,
    held_ns: u64,
    starved_ns: u64,
    /// A wait at it has ended, and another one has begun.
    moves: bool,
}

/// The first processes that have an end open, and how many more.
#[derive(Debug, Default)]
struct SeenEnds {
    named: Vec<SeenHolder>,
    more: u64,
}

#[derive(Debug)]
struct SeenHolder {
    pid: u32,
    started: u64,
    name: String,
    fd: u32,
}

/// What threads wait for at a channel at one look.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    room: bool,
    data: bool,
    held: bool,
    starved: bool,
}

/// A wait that has not ended.
#[derive(Debug, Clone)]
struct OpenWait {
    /// How often the thread had slept before: another sleep is another wait.
    sleeps: u64,
    wait: ChannelWait,
    /// When it was first seen.
    since: u64,
    /// Of those that others hold up.
    chain: Option<WaitChain>,
}

/// What was seen at all looks until now.
#[derive(Debug, Default)]
pub(crate) struct MachineTally {
    begin: u64,
    last: u64,
    channels: HashMap<ChannelKey, ChannelTally>,
    waited: HashMap<ChannelKey, Waited>,
    open: BTreeMap<ThreadKey, OpenWait>,
    /// Channels for which there was no room.
    left_out: u64,
}

impl MachineTally {
    /// Add a look at time `at`, ns.
    pub(crate) fn add(&mut self, machine: &MachineNow, moved: Option<&MovedNow>, at: u64) {
        let is_full = |channel: ChannelKey| {
            let [used, slots] = moved?.slots(channel)?;
            Some(used >= slots)
        };
        let waits = Waits::of(machine, &is_full);
        let mut waited: HashMap<ChannelKey, Waited> = HashMap::new();
        let mut open = BTreeMap::new();
        for (pid, process) in machine.processes.iter().filter(|(_, process)| !process.is_stopped()) {
            for thread in process.threads.iter().flatten() {
                for wait in waits.at_channels(process, &thread.call) {
                    let chain = waits.chain(*pid, thread.tid, &wait);
                    let kind = chain.kind(&wait);
                    let seen = waited.entry(wait.channel).or_default();
                    seen.room |= wait.room;
                    seen.data |= !wait.room;
                    seen.held |= kind == WaitKind::Held;
                    seen.starved |= kind == WaitKind::Starved;
                    let key = (*pid, process.started, thread.tid);
                    let before = self.open.get(&key).filter(|before| before.wait == wait);
                    let same = before.filter(|before| before.sleeps == thread.sleeps);
                    if before.is_some() && same.is_none() {
                        self.channels.get_mut(&wait.channel).into_iter().for_each(|tally| tally.moves = true);
                    }
                    let since = same.map_or(at, |before| before.since);
                    let chain = (kind == WaitKind::Held).then_some(chain);
                    open.insert(key, OpenWait { sleeps: thread.sleeps, wait, since, chain });
                }
            }
        }
        if self.begin == 0 {
            (self.begin, self.last) = (at, at);
        }
        self.left_out = 0;
        for (key, ends) in waits.ends {
            if self.channels.len() >= MOST_CHANNELS && !self.channels.contains_key(&key) {
                self.left_out += 1;
                continue;
            }
            let tally = self.channels.entry(key).or_default();
            tally.note(ends, machine);
        }
        let before = std::mem::replace(&mut self.waited, waited);
        let half = at.saturating_sub(self.last) / 2;
        for (channel, seen) in before.iter().chain(&self.waited) {
            if let Some(tally) = self.channels.get_mut(channel) {
                tally.full_ns += if seen.room { half } else { 0 };
                tally.empty_ns += if seen.data { half } else { 0 };
                tally.held_ns += if seen.held { half } else { 0 };
                tally.starved_ns += if seen.starved && !seen.held { half } else { 0 };
            }
        }
        (self.open, self.last) = (open, at);
    }

    /// The time from the first look to the last one, ns.
    pub(crate) fn window_ns(&self) -> u64 {
        self.last - self.begin
    }

    /// Channels that were left out at the last look.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Bytes of channels that nobody had open at any look.
    pub(crate) fn unseen_bytes(&self, moved: &MovedNow) -> u64 {
        let sockets: std::collections::HashSet<u64> =
            self.channels.values().filter_map(|tally| tally.sockets).flatten().collect();
        moved.others(|channel| match channel.1 {
            0 => sockets.contains(&channel.0),
            _ => self.channels.contains_key(channel),
        })
    }

    /// All channels until now, those at which most was lost first. `machine`: at the last look.
    pub(crate) fn channels(&self, machine: &MachineNow, moved: Option<&MovedNow>) -> Vec<MachineChannel> {
        let mut names = SeenNames { machine, known: HashMap::new() };
        let mut stuck = self.stuck(&mut names);
        let channel = |(key, tally): (&ChannelKey, &ChannelTally)| {
            let bytes = moved.and_then(|moved| match (tally.kind, tally.sockets) {
                (kind, _) if kind.is_pipe() => Some(moved.of_pipe(*key)),
                (_, Some(sockets)) => Some(moved.of_sockets(sockets)),
                _ => None,
            });
            // Nobody knows whether who runs and writes nothing is about to write: many only could.
            let starved_ns = if bytes.map_or(tally.moves, |bytes| bytes > 0) { tally.starved_ns } else { 0 };
            MachineChannel {
                kind: tally.kind,
                inode: key.0,
                device: key.1,
                path: tally.path.clone(),
                writers: names.end(&tally.writers),
                readers: names.end(&tally.readers),
                bytes,
                slots: moved.and_then(|moved| moved.slots(*key)),
                full_ns: tally.full_ns,
                empty_ns: tally.empty_ns,
                lost_ns: tally.held_ns + starved_ns,
                stuck: stuck.remove(key),
            }
        };
        let mut channels: Vec<MachineChannel> = self.channels.iter().map(channel).collect();
        sort(&mut channels);
        channels
    }

    /// For each channel the longest wait of at least half of the window that others hold up, and that has not ended.
    fn stuck(&self, names: &mut SeenNames<'_>) -> HashMap<ChannelKey, StuckWait> {
        let mut longest: BTreeMap<ChannelKey, (&ThreadKey, &OpenWait, &WaitChain)> = BTreeMap::new();
        for (thread, open) in &self.open {
            let ns = self.last - open.since;
            // Who runs will go on.
            let is_stuck = |chain: &&WaitChain| open.wait.room || chain.full || !matches!(chain.end, ChainEnd::Runs(_));
            let Some(chain) = open.chain.as_ref().filter(is_stuck).filter(|_| ns > 0 && 2 * ns >= self.window_ns())
            else {
                continue;
            };
            let known = longest.entry(open.wait.channel).or_insert((thread, open, chain));
            if open.since < known.1.since {
                *known = (thread, open, chain);
            }
        }
        let wait = |(channel, (thread, open, chain)): (ChannelKey, (&ThreadKey, &OpenWait, &WaitChain))| {
            let process = names.seen(thread.0);
            let (room, ns) = (open.wait.room, self.last - open.since);
            (channel, StuckWait { process, room, ns, steps: chain.steps, cause: names.cause(&chain.end) })
        };
        longest.into_iter().map(wait).collect()
    }
}

impl ChannelTally {
    /// As it is at a look.
    fn note(&mut self, ends: ChannelEnds, machine: &MachineNow) {
        (self.kind, self.path, self.sockets) = (ends.kind, ends.path, ends.sockets);
        // What has ended is still the other end.
        for (side, now) in [(&mut self.writers, &ends.writers), (&mut self.readers, &ends.readers)] {
            if !now.is_empty() {
                *side = SeenEnds::of(now, machine);
            }
        }
    }
}

impl SeenEnds {
    fn of(holders: &[(u32, u32)], machine: &MachineNow) -> Self {
        let named = holders.iter().take(NAMED).filter_map(|(pid, fd)| {
            let process = machine.processes.get(pid)?;
            Some(SeenHolder { pid: *pid, started: process.started, name: process.name.clone(), fd: *fd })
        });
        Self { named: named.collect(), more: holders.len().saturating_sub(NAMED) as u64 }
    }
}

/// Those at which most was lost first, then those through which most was moved.
pub(crate) fn sort(channels: &mut [MachineChannel]) {
    channels.sort_by_key(|channel| {
        // Where others wait behind it, the cause is first.
        let steps = channel.stuck.as_ref().map_or(u32::MAX, |stuck| stuck.steps);
        (steps, Reverse(channel.lost_ns), Reverse(channel.bytes), channel.inode, channel.device)
    });
}

/// What sentences say of each process, read once.
struct SeenNames<'a> {
    machine: &'a MachineNow,
    known: HashMap<(u32, u64), SeenProcess>,
}

impl SeenNames<'_> {
    fn end(&mut self, ends: &SeenEnds) -> MachineEnd {
        let holder = |SeenHolder { pid, started, name, fd }: &SeenHolder| ChannelHolder {
            process: self.named(*pid, *started, name),
            fd: *fd,
        };
        MachineEnd { holders: ends.named.iter().map(holder).collect(), more: ends.more }
    }

    fn seen(&mut self, pid: u32) -> SeenProcess {
        let (started, name) = match self.machine.processes.get(&pid) {
            Some(process) => (process.started, process.name.clone()),
            None => (0, String::new()),
        };
        self.named(pid, started, &name)
    }

    fn named(&mut self, pid: u32, started: u64, name: &str) -> SeenProcess {
        let read = || {
            // Another one may have its id by now.
            let lives = ProcessStat::of(pid).is_some_and(|stat| stat.started == started);
            let stopped =
                self.machine.processes.get(&pid).is_some_and(|now| now.started == started && now.is_stopped());
            SeenProcess {
                pid,
                inner_pid: process_stat::inner_id(pid).filter(|inner| lives && *inner != pid),
                name: name.to_owned(),
                container: container::of_process(pid).filter(|_| lives),
                stopped,
                ..SeenProcess::default()
            }
        };
        self.known.entry((pid, started)).or_insert_with(read).clone()
    }

    fn cause(&mut self, end: &ChainEnd) -> WaitCause {
        match end {
            ChainEnd::Unknown => WaitCause::Unknown,
            ChainEnd::Circle(members) => WaitCause::Circle(members.iter().map(|pid| self.seen(*pid)).collect()),
            ChainEnd::Stopped(pid) => WaitCause::Stopped(self.seen(*pid)),
            ChainEnd::Runs(pid) => WaitCause::Runs(self.seen(*pid)),
            ChainEnd::Sleeps(pid) => WaitCause::Sleeps { process: self.seen(*pid), reason: self.reason(*pid) },
        }
    }

    /// What a process sleeps for, if all its threads sleep for the same.
    fn reason(&self, pid: u32) -> Option<WaitReason> {
        let threads = self.machine.processes.get(&pid)?.threads.as_ref()?;
        let reason = |tid: u32| match sleeping_call(pid, tid, &[]) {
            SleepingCall::Known(Some(number), _) => Some(why(number, 0)),
            _ => None,
        };
        let mut own =
            threads.iter().filter(|thread| thread.call != ThreadCall::Thread).map(|thread| reason(thread.tid));
        let first = own.next()??;
        own.all(|other| other == Some(first)).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{MadeEnd, machine, waits_at};
    use super::*;

    const W1: MadeEnd = (1, true);
    const R1: MadeEnd = (1, false);

    /// A process that waits for room, and another one, which has this call.
    fn pair(call: ThreadCall) -> MachineNow {
        machine(&[(0, &[W1], &[waits_at(0, true)]), (0, &[R1], &[call])])
    }

    fn seen(looks: &[(u64, &MachineNow)]) -> MachineChannel {
        let mut tally = MachineTally::default();
        looks.iter().for_each(|(at, machine)| tally.add(machine, None, *at));
        let mut channels = tally.channels(looks[looks.len() - 1].1, None);
        assert_eq!((channels.len(), tally.window_ns()), (1, 100));
        channels.remove(0)
    }

    #[test]
    fn a_wait_that_all_looks_see_takes_the_whole_time() {
        let full = pair(ThreadCall::Idle);
        let channel = seen(&[(50, &full), (90, &full), (150, &full)]);
        assert_eq!((channel.full_ns, channel.empty_ns, channel.lost_ns), (100, 0, 100));
        let stuck = channel.stuck.unwrap();
        assert_eq!((stuck.process.pid, stuck.room, stuck.ns, stuck.steps), (1, true, 100, 1));
        assert!(matches!(stuck.cause, WaitCause::Sleeps { ref process, .. } if process.pid == 2), "{stuck:?}");
    }

    #[test]
    fn another_sleep_and_another_process_with_the_same_id_begin_anew() {
        let full = pair(ThreadCall::Idle);
        let (mut again, mut other) = (full.clone(), full.clone());
        again.processes.get_mut(&1).unwrap().threads.as_mut().unwrap()[0].sleeps += 1;
        other.processes.get_mut(&1).unwrap().started += 1;
        for later in [&again, &other] {
            let channel = seen(&[(50, &full), (110, later), (150, later)]);
            assert_eq!((channel.full_ns, channel.stuck), (100, None));
            // It took more than half of the time.
            let channel = seen(&[(50, &full), (90, later), (150, later)]);
            assert_eq!(channel.stuck.map(|stuck| stuck.ns), Some(60));
        }
    }

    #[test]
    fn who_waits_for_one_that_runs_loses_time_only_if_something_comes() {
        let starved = machine(&[(0, &[R1], &[waits_at(0, false)]), (0, &[W1], &[ThreadCall::Busy])]);
        let channel = seen(&[(50, &starved), (150, &starved)]);
        assert_eq!((channel.empty_ns, channel.lost_ns, channel.stuck), (100, 0, None));
        let mut again = starved.clone();
        again.processes.get_mut(&1).unwrap().threads.as_mut().unwrap()[0].sleeps += 1;
        assert_eq!(seen(&[(50, &starved), (150, &again)]).lost_ns, 100);
    }

    #[test]
    fn the_other_end_is_kept_when_it_has_gone() {
        let full = pair(ThreadCall::Idle);
        let alone = machine(&[(0, &[W1], &[waits_at(0, true)])]);
        let channel = seen(&[(50, &full), (150, &alone)]);
        assert_eq!(channel.readers.holders.iter().map(|holder| holder.process.pid).collect::<Vec<u32>>(), [2]);
    }
}

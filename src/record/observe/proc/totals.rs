//! What was seen, by process and channel.

use super::thread::{LookedThread, Sleep};
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::look::ChannelKey;
use crate::record::observe::raw::{PR_READ, PR_WRITE, PrCounts, PrEnd, PrProcess, PrReason, PrWait, PrWho};
use crate::record::start::open_files::{FileKind, OpenFile};
use bytemuck::Zeroable as _;
use std::collections::BTreeMap;

/// The sums so far.
#[derive(Debug, Default)]
pub(crate) struct LookedTotals {
    processes: BTreeMap<PrWho, PrProcess>,
    ends: BTreeMap<(PrWho, ChannelKey, u32), PrCounts>,
    waits: BTreeMap<(PrWho, u32, u32), PrWait>,
}

impl LookedTotals {
    pub(super) fn process(&mut self, who: &PrWho) -> &mut PrProcess {
        self.processes.entry(*who).or_insert_with(PrProcess::zeroed)
    }

    /// What a thread did in the last `ns`: its times are known exactly, and the rest it slept for what it was last seen to sleep
    /// for.
    pub(super) fn add(&mut self, who: &PrWho, thread: &mut LookedThread, ns: u64) {
        let [cpu, waiting] = thread.spent;
        let process = self.process(who);
        process.cpu_ns += cpu;
        process.runnable_ns += waiting;
        let spent = thread.ahead + cpu + waiting;
        thread.ahead = spent.saturating_sub(ns);
        if let Some(sleep) = &thread.slept {
            self.slept(who, sleep, thread.channel, ns.saturating_sub(spent));
        }
    }

    /// A thread slept for `ns`: at this side of a channel, or for another reason.
    pub(super) fn slept(&mut self, who: &PrWho, sleep: &Sleep, channel: Option<(ChannelKey, u32)>, ns: u64) {
        match channel {
            Some((channel, side)) => {
                self.ends.entry((*who, channel, side)).or_insert_with(PrCounts::zeroed).blocked_ns += ns;
            }
            None => {
                let key = (*who, sleep.number, sleep.file_type);
                self.waits.entry(key).or_insert_with(PrWait::zeroed).ns += ns;
            }
        }
    }

    /// A process began then, unless it began before.
    pub(super) fn begin(&mut self, who: &PrWho, at: u64) {
        let counts = self.process(who);
        counts.begin = if counts.begin == 0 { at } else { counts.begin.min(at) };
    }

    /// Clock ticks, in user space and in all.
    pub(super) fn add_ticks(&mut self, who: &PrWho, [user, all]: [u64; 2]) {
        let ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let process = self.process(who);
        process.user_ns += user * ns;
        process.system_ns += all.saturating_sub(user) * ns;
    }

    pub(super) fn end(&mut self, who: &PrWho, at: u64) {
        self.process(who).end = at;
    }

    /// The ends of pipes that a process has open, whether it sleeps there or not.
    pub(super) fn add_open(&mut self, who: &PrWho, files: &[OpenFile]) {
        for file in files {
            let FileKind::Pipe(pipe, _) = &file.kind else { continue };
            for (is_open, side) in [(file.reads, PR_READ), (file.writes, PR_WRITE)] {
                if is_open {
                    let end = (*who, (pipe.inode, pipe.device), side as u32);
                    self.ends.entry(end).or_insert_with(PrCounts::zeroed);
                }
            }
        }
    }

    /// A process that no look has seen has the same ends open as this one.
    pub(super) fn open_as(&mut self, who: &PrWho, like: &PrWho) {
        let of_other = self.ends.keys().filter(|(other, ..)| other == like);
        for (_, channel, side) in of_other.copied().collect::<Vec<_>>() {
            self.ends.entry((*who, channel, side)).or_insert_with(PrCounts::zeroed);
        }
    }

    /// All of it, at this time, with those that live.
    pub(super) fn counts(&self, at: u64, living: impl Iterator<Item = PrWho>) -> RecordedCounts {
        let mut processes = self.processes.clone();
        for who in living {
            processes.entry(who).and_modify(|process| process.end = at);
        }
        let end = |((who, (inode, device), side), counts): (&(PrWho, ChannelKey, u32), &PrCounts)| {
            (PrEnd { who: *who, inode: *inode, device: *device, side: *side }, *counts)
        };
        let reason = |((who, call, file_type), wait): (&(PrWho, u32, u32), &PrWait)| {
            (PrReason { who: *who, call: *call, file_type: *file_type, holder: [0; 2] }, *wait)
        };
        // A pipe that nobody of them slept at, and that is open on one side only, is that of somebody else.
        let mut sides = BTreeMap::<ChannelKey, [bool; 2]>::new();
        for ((_, channel, side), counts) in &self.ends {
            let [reads, writes] = sides.entry(*channel).or_default();
            *reads |= *side == PR_READ as u32 || counts.blocked_ns > 0;
            *writes |= *side == PR_WRITE as u32 || counts.blocked_ns > 0;
        }
        let is_own = |channel: &ChannelKey| sides.get(channel) == Some(&[true; 2]);
        RecordedCounts {
            at,
            processes: processes.into_iter().collect(),
            ends: self.ends.iter().filter(|((_, channel, _), _)| is_own(channel)).map(end).collect(),
            waits: self.waits.iter().map(reason).collect(),
            ..RecordedCounts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observe::proc::thread::{ThreadState, ThreadTimes};
    use crate::record::observe::thread_calls::ThreadCall;

    /// The times of a thread are read some time after the look began: what they contain of the time since then is no sleep in
    /// the next interval.
    #[test]
    fn a_look_that_takes_long_adds_nothing() {
        let who = PrWho { stage: 0, tgid: 1, name: [0; 2] };
        let sleep = Sleep { number: 0, file_type: 0, call: ThreadCall::Idle, at: None };
        let state = ThreadState::Sleeps(sleep.clone());
        let (times, slept) = (ThreadTimes::default(), Some(sleep));
        let mut thread =
            LookedThread { times, state, since: 0, slept, channel: None, spent: [30, 5], ahead: 0, sleeps: 0 };
        let mut totals = LookedTotals::default();
        totals.add(&who, &mut thread, 5);
        thread.spent = [4, 1];
        totals.add(&who, &mut thread, 35);
        thread.spent = [0; 2];
        totals.add(&who, &mut thread, 10);
        let counts = totals.counts(50, std::iter::empty());
        let (_, process) = counts.processes[0];
        let slept: u64 = counts.waits.iter().map(|(_, wait)| wait.ns).sum();
        assert_eq!([process.cpu_ns, process.runnable_ns, slept], [34, 6, 10]);
    }
}

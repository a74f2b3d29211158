//! When a recording looks into /proc for those who wait for each other, and what it keeps.

use crate::record::observe::look::ProcessesNow;
use crate::record::observe::observer::Observe;
use crate::record::observe::raw::PrWho;
use crate::record::observe::stale_files::stale_file;
use crate::result::{
    AwaitedChannel, EventWait, LastLook, LastWait, RecordedChannel, SeenProcess, StaleFile, WaitedFor,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The first look, and how much later, as a part of the time until then, each further one is.
const FIRST: Duration = Duration::from_millis(250);
const LATER: f64 = 0.5;

/// A sleep of this length is long, whenever it began.
const LONG: Duration = Duration::from_millis(500);

/// How often it is looked again at once if only a busy thread of who waits could go on, and how much later.
const AGAIN: u32 = 2;
const SOON: Duration = Duration::from_millis(3);

/// What was seen last of processes that slept long.
#[derive(Debug, Default)]
pub(crate) struct SeenWaits {
    /// By the programs' clock, ns.
    at: u64,
    followed: BTreeMap<u32, PrWho>,
    waits: Vec<LastWait>,
    stale: Vec<StaleFile>,
    events: Vec<EventWait>,
    parents: Vec<SeenProcess>,
}

/// Looks now and then.
#[derive(Debug)]
pub(crate) struct Looks {
    begun: Instant,
    /// Absent once the window is over.
    next: Option<Instant>,
    pub seen: Option<SeenWaits>,
}

impl Looks {
    pub(crate) fn start() -> Self {
        let begun = Instant::now();
        Self { begun, next: Some(begun + FIRST), seen: None }
    }

    /// Look once, at processes that have slept for `ns` at least, and return what was seen.
    pub(crate) fn once(recorder: &mut dyn Observe, ns: u64) -> Option<SeenWaits> {
        let slept = Duration::from_nanos(ns).min(LONG);
        let mut looks = Self { begun: Instant::now().checked_sub(slept * 2)?, ..Self::start() };
        looks.finish(recorder);
        looks.seen
    }

    /// Time until [`Self::step`] has something to do.
    pub(crate) fn due(&self) -> Duration {
        self.next.map_or(Duration::MAX, |next| next.saturating_duration_since(Instant::now()))
    }

    /// Look, if it is time to.
    pub(crate) fn step(&mut self, recorder: &dyn Observe) {
        if self.due().is_zero() {
            self.look(recorder);
            let now = Instant::now();
            self.next = Some(now + (now - self.begun).mul_f64(LATER));
        }
    }

    /// Look now, at the end of the window. Nothing counts that happens later.
    pub(crate) fn finish(&mut self, recorder: &mut dyn Observe) {
        self.look(recorder);
        self.next = None;
        recorder.know_awaited(self.seen.as_ref().map(SeenWaits::awaited).unwrap_or_default());
    }

    /// Look now. What moves all the time is not looked at: a thread has to have slept for half of the time, or for long.
    fn look(&mut self, recorder: &dyn Observe) {
        let slept = LONG.min(self.begun.elapsed() / 2);
        let Some((at, followed)) = recorder.sleepers(slept.as_nanos() as u64) else { return };
        let pids: BTreeSet<u32> = followed.keys().copied().collect();
        let look = || {
            ProcessesNow::read(&pids).map(|now| {
                let waits = now.waits(&pids);
                let stands = waits.iter().any(|wait| wait.endless || wait.stuck);
                (!stands && now.has_busy_thread_of(&waits), waits, now.events(&pids), now.neglecting(&pids))
            })
        };
        let mut found = look();
        // A thread that looks again now and then may just do so.
        for _ in 0..AGAIN {
            if !matches!(found, Some((true, ..))) {
                break;
            }
            std::thread::sleep(SOON);
            found = look().or(found);
        }
        let Some((_, mut waits, events, parents)) = found else { return };
        let can_be_said = can_be_said(&waits) || !parents.is_empty();
        waits.retain(|_| can_be_said);
        // What was seen before tells more than that the last processes are ending.
        let tells_more = match &self.seen {
            None => can_be_said || !events.is_empty(),
            Some(seen) => !waits.is_empty() || seen.waits.is_empty() && !events.is_empty(),
        };
        if tells_more {
            let stale = pids.iter().filter_map(|pid| stale_file(*pid)).collect();
            self.seen = Some(SeenWaits { at, waits, followed, stale, events, parents });
        }
    }
}

/// Whether it is known what could end these waits. Threads that wait for each other can wait for a signal in truth, as those of Go do;
/// a thread without others cannot.
fn can_be_said(waits: &[LastWait]) -> bool {
    let of_threads = waits.iter().filter(|wait| matches!(wait.awaited, WaitedFor::Thread)).count();
    let is_other = |wait: &LastWait| !matches!(wait.awaited, WaitedFor::Thread | WaitedFor::Children(_));
    waits.iter().any(is_other) || of_threads <= 1
}

impl SeenWaits {
    /// For each process that waited for its children, at a channel, or in poll and its like for channels of others only:
    /// these others.
    fn awaited(&self) -> BTreeMap<u32, Vec<u32>> {
        let awaited = self.waits.iter().filter_map(|wait| match &wait.awaited {
            WaitedFor::Channels { any, others: 0, .. } => {
                let holders = any.iter().flat_map(|channel| &channel.holders).map(|holder| holder.process.pid);
                Some((wait.process.pid, holders.filter(|pid| *pid != wait.process.pid).collect()))
            }
            WaitedFor::Lock { holders, .. } => {
                Some((wait.process.pid, holders.iter().map(|holder| holder.pid).collect()))
            }
            // The last one is the end of a pipeline.
            WaitedFor::Children(children) => {
                Some((wait.process.pid, children.iter().rev().map(|child| child.pid).collect()))
            }
            _ => None,
        });
        awaited.collect()
    }

    /// The waits with the places of their processes in a recording that began at `begin`.
    pub(crate) fn placed(self, begin: u64, index: &BTreeMap<PrWho, usize>) -> LastLook {
        let Self { at, followed, mut waits, mut stale, mut events, mut parents } = self;
        let place = |process: &mut SeenProcess| {
            process.recorded = followed.get(&process.pid).and_then(|who| index.get(who)).copied();
            process.container = process.container.take().filter(|_| process.recorded.is_none());
        };
        stale.iter_mut().for_each(|file| place(&mut file.process));
        parents.iter_mut().for_each(place);
        events.iter_mut().for_each(|event| place(&mut event.process));
        for wait in &mut waits {
            place(&mut wait.process);
            match &mut wait.awaited {
                WaitedFor::Channels { any, .. } => {
                    any.iter_mut()
                        .flat_map(|channel| &mut channel.holders)
                        .for_each(|holder| place(&mut holder.process));
                }
                WaitedFor::Children(processes)
                | WaitedFor::Lock { holders: processes, .. }
                | WaitedFor::Shared { holders: processes, .. }
                | WaitedFor::Opening { deleted: processes, .. } => {
                    processes.iter_mut().for_each(place);
                }
                WaitedFor::Thread => {}
            }
        }
        LastLook { at_ns: at.saturating_sub(begin), waits, stale, events, parents }
    }
}

/// In polls for several channels, drop each wait for room where there is room: event loops ask for both directions of each
/// descriptor, and are told once of what is ready (EPOLLET).
pub(crate) fn keep_full(look: &mut LastLook, channels: &[RecordedChannel]) {
    let has_room = |awaited: &AwaitedChannel| {
        let known = channels.iter().find(|channel| awaited.room && channel.is(awaited));
        known.is_some_and(|channel| 2 * channel.written().saturating_sub(channel.read()) < channel.capacity())
    };
    for wait in &mut look.waits {
        if let WaitedFor::Channels { any, polled: true, .. } = &mut wait.awaited
            && !any.iter().all(has_room)
        {
            any.retain(|awaited| !has_room(awaited));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::RecordedEnd;

    #[test]
    fn who_polls_for_both_directions_waits_where_there_is_no_room() {
        let kept = |unread: u64| {
            let awaited = |inode: u64, room: bool| AwaitedChannel { inode, room, ..AwaitedChannel::default() };
            let any = vec![awaited(1, true), awaited(2, false)];
            let awaited = WaitedFor::Channels { any, others: 0, polled: true, limited: false };
            let wait = LastWait { process: SeenProcess::default(), awaited, endless: false, stuck: false };
            let mut look = LastLook { waits: vec![wait], ..LastLook::default() };
            let writers = vec![RecordedEnd { bytes: unread, ..RecordedEnd::default() }];
            keep_full(&mut look, &[RecordedChannel { inode: 1, writers, ..RecordedChannel::default() }]);
            look.waits[0].channels().iter().map(|channel| channel.inode).collect::<Vec<_>>()
        };
        assert_eq!(kept(65_536), [1, 2]);
        assert_eq!(kept(19), [2]);
    }
}

//! When each thread had no CPU, and who woke it: all of it, for programs that show what happened when.

use super::parts::{Name, asleep, pipe_number, read};
use super::process_ids::ProcessIds;
use crate::record::observe::raw::{
    PR_ASLEEP, PR_IN_INTERRUPT, PR_IN_PROCESS, PR_RUNNABLE, PR_STEP_EXEC, PR_STEP_FORK, PR_STEP_GONE, PR_STEP_LOST,
    PR_STEP_NAME, PR_STEP_RENAME, PR_STEP_RUN, PR_STEP_SEIZE, PR_STEP_THROTTLED, PR_STEP_WAKE, PrBirth, PrNamed, PrRun,
    PrStep, PrTask, PrWho,
};
use crate::record::observe::reason::name_of;
use crate::result::{MOST_WAITS, PathWhat, RecordedChannel, StoredThread, Switches, ThreadWait};
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};

/// Threads that are kept.
const MOST_THREADS: usize = 65_536;

/// A wait with the number of the channel, as the programs mix it, and the process that had the CPU before.
#[derive(Debug)]
struct SeenWait {
    wait: ThreadWait,
    channel: u64,
    before: Name,
}

/// A thread that has not ended.
#[derive(Debug)]
struct OpenThread {
    /// Among those that are kept.
    number: usize,
    /// When it was woken, and by whom, if that is one of them, in which context.
    woken: Option<(u64, Option<usize>, u32)>,
    /// Of its next wait for a CPU.
    throttled: u64,
    /// The end of its last wait.
    last: u64,
}

/// Keeps what each thread did. Times are those of the programs' clock.
#[derive(Debug, Default)]
pub(crate) struct SwitchRecorder {
    threads: Vec<(PrWho, StoredThread)>,
    open: HashMap<u64, OpenThread, FixedState>,
    waits: Vec<SeenWait>,
    /// By process id.
    names: HashMap<u32, Name, FixedState>,
    /// When there was no room any more.
    full_at: Option<u64>,
    left_out: u64,
    lost: u64,
    ids: ProcessIds,
}

impl SwitchRecorder {
    /// Read a step of this kind. Those after `until` do not count.
    pub(super) fn step(&mut self, kind: u32, bytes: &[u8], until: u64) {
        match kind as usize {
            PR_STEP_FORK | PR_STEP_EXEC | PR_STEP_SEIZE => {
                read(bytes).filter(|step: &PrBirth| step.at <= until).iter().for_each(|step| self.birth(step));
            }
            PR_STEP_RENAME => {
                let step: Option<PrBirth> = read(bytes);
                let known = step.and_then(|step| Some((self.open.get(&step.task)?.number, step.who)));
                known.into_iter().for_each(|(number, who)| self.threads[number].0 = who);
            }
            PR_STEP_RUN => {
                read(bytes).filter(|step: &PrRun| step.at <= until).iter().for_each(|step| self.run(step));
            }
            PR_STEP_NAME => {
                let step: Option<PrNamed> = read(bytes);
                step.filter(|step| step.task == 0).iter().for_each(|step| self.know(step.tgid, step.name));
            }
            PR_STEP_WAKE | PR_STEP_THROTTLED | PR_STEP_GONE | PR_STEP_LOST => {
                let Some(step) = read(bytes).filter(|step: &PrStep| step.at <= until) else { return };
                match kind as usize {
                    PR_STEP_LOST => self.lost = step.other,
                    PR_STEP_GONE if step.detail != 0 => self.gone(&step),
                    PR_STEP_WAKE => {
                        let context = step.detail & 1;
                        let waker = self.open.get(&step.other).filter(|_| context as usize != PR_IN_INTERRUPT);
                        let waker = waker.map(|waker| waker.number);
                        self.open.entry(step.task).and_modify(|thread| thread.woken = Some((step.at, waker, context)));
                    }
                    PR_STEP_THROTTLED => {
                        self.open.entry(step.task).and_modify(|thread| thread.throttled = step.other);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn know(&mut self, tgid: u32, name: Name) {
        if self.names.len() < MOST_THREADS || self.names.contains_key(&tgid) {
            self.names.insert(tgid, name);
        }
    }

    fn birth(&mut self, step: &PrBirth) {
        self.ids.add(step.who.tgid, [step.here, step.inside]);
        self.know(step.who.tgid, step.who.name);
        let before = self.open.remove(&step.task);
        if let Some(before) = before {
            self.threads[before.number].1.end_ns = step.at.max(before.last);
        }
        if self.threads.len() >= MOST_THREADS || self.full_at.is_some_and(|full| full < step.at) {
            self.full_at.get_or_insert(step.at);
            return;
        }
        let runs = step.kind as usize == PR_STEP_EXEC;
        let thread = StoredThread {
            tid: step.thread,
            begin_ns: step.at,
            end_ns: u64::MAX,
            cpu: runs.then_some(step.cpu),
            ..StoredThread::default()
        };
        let open = OpenThread { number: self.threads.len(), woken: None, throttled: 0, last: step.at };
        self.open.insert(step.task, open);
        self.threads.push((step.who, thread));
    }

    fn run(&mut self, step: &PrRun) {
        let Some(thread) = self.open.get_mut(&step.task) else { return };
        let (woken, throttled_ns) = (thread.woken.take(), std::mem::take(&mut thread.throttled));
        let begin_ns = step.since.max(thread.last);
        let end_ns = step.at.max(begin_ns);
        thread.last = end_ns;
        let slept = step.detail & 0xf == PR_ASLEEP as u32;
        let context = woken.map_or(PR_IN_PROCESS as u32, |(_, _, context)| context);
        let wait = ThreadWait {
            thread: thread.number,
            begin_ns,
            end_ns,
            what: if slept { asleep(step, context) } else { PathWhat::ForCpu },
            woken_ns: woken.map(|(at, ..)| at).filter(|_| slept),
            woken_by: woken.and_then(|(_, by, _)| by).filter(|_| slept),
            throttled_ns,
            before: step.before,
            cpu: Some(step.detail >> 16),
            ..ThreadWait::default()
        };
        let before = self.names.get(&step.before).copied().unwrap_or_default();
        self.add(SeenWait { wait, channel: if slept { step.pipe } else { 0 }, before });
    }

    /// Keep a wait. Once there is no room, those that began before are cut off, so that all is known until then.
    fn add(&mut self, mut seen: SeenWait) {
        if self.waits.len() >= MOST_WAITS {
            self.full_at.get_or_insert(seen.wait.end_ns);
        }
        if let Some(full) = self.full_at {
            self.left_out += 1;
            if seen.wait.begin_ns >= full {
                return;
            }
            seen.wait.end_ns = full;
            seen.wait.cpu = None;
            seen.wait.woken_ns = seen.wait.woken_ns.filter(|woken| *woken <= full);
        }
        self.waits.push(seen);
    }

    fn gone(&mut self, step: &PrStep) {
        let Some(open) = self.open.remove(&step.task) else { return };
        let (_, thread) = &mut self.threads[open.number];
        (thread.end_ns, thread.has_ended) = (step.at.max(open.last), true);
    }

    /// Until `now`, with what threads are doing then.
    pub(super) fn finish(mut self, now: u64, tasks: &[(u64, PrTask)]) -> SeenSwitches {
        for (task, state) in tasks {
            let Some(OpenThread { number, woken, last, .. }) = self.open.remove(task) else { continue };
            let slept = state.state as usize == PR_ASLEEP;
            if !slept && state.state as usize != PR_RUNNABLE {
                continue;
            }
            let run = PrRun {
                detail: state.state | state.file_type << 4 | (state.side & 1) << 8 | u32::from(state.locked != 0) << 9,
                call: state.call,
                pipe: if state.inode == 0 { 0 } else { pipe_number((state.inode, state.device)) },
                ..bytemuck::Zeroable::zeroed()
            };
            let begin_ns = state.since.max(last);
            let wait = ThreadWait {
                thread: number,
                begin_ns,
                end_ns: now.max(begin_ns),
                what: if slept { asleep(&run, PR_IN_PROCESS as u32) } else { PathWhat::ForCpu },
                woken_ns: (slept && state.woken > 0).then_some(state.woken),
                woken_by: woken.and_then(|(_, by, _)| by).filter(|_| slept),
                ..ThreadWait::default()
            };
            self.add(SeenWait { wait, channel: if slept { run.pipe } else { 0 }, before: Name::default() });
        }
        self.threads.iter_mut().for_each(|(_, thread)| thread.end_ns = thread.end_ns.min(now));
        SeenSwitches { seen: self, now }
    }
}

/// What was kept, by the programs' clock and numbers.
#[derive(Debug)]
pub(crate) struct SeenSwitches {
    seen: SwitchRecorder,
    now: u64,
}

impl SeenSwitches {
    /// As it is stored: `index` has the processes of the recording, `begin` is that of the window.
    pub(crate) fn named(self, index: &BTreeMap<PrWho, usize>, channels: &[RecordedChannel], begin: u64) -> Switches {
        let Self { seen, now } = self;
        let until = seen.full_at.map_or(now, |full| full.min(now));
        let in_window = |at: u64| at.min(until).saturating_sub(begin);
        let numbers = channels.iter().enumerate();
        let channels: HashMap<u64, usize> =
            numbers.map(|(at, channel)| (pipe_number((channel.inode, channel.device)), at)).collect();
        // Those of processes for which there was no room are left out.
        let mut threads = Vec::new();
        let mut places: Vec<Option<usize>> = Vec::new();
        for (who, thread) in &seen.threads {
            let process = index.get(who).copied();
            places.push(process.map(|_| threads.len()));
            let tid = if thread.tid == who.tgid { seen.ids.here(thread.tid) } else { thread.tid };
            threads.extend(process.map(|process| StoredThread {
                process,
                tid,
                begin_ns: in_window(thread.begin_ns),
                end_ns: in_window(thread.end_ns),
                has_ended: thread.has_ended && thread.end_ns <= until,
                ..*thread
            }));
        }
        let place = |thread: usize| places.get(thread).copied().flatten();
        let waits = seen.waits.into_iter().filter_map(|SeenWait { wait, channel, before }| {
            Some(ThreadWait {
                thread: place(wait.thread)?,
                begin_ns: in_window(wait.begin_ns),
                end_ns: in_window(wait.end_ns),
                woken_ns: wait.woken_ns.map(in_window),
                woken_by: wait.woken_by.and_then(place),
                channel: channels.get(&channel).copied(),
                before: seen.ids.here(wait.before),
                before_name: (before != Name::default()).then(|| name_of(before)),
                ..wait
            })
        });
        let waits = waits.collect();
        Switches { threads, waits, until_ns: in_window(until), left_out: seen.left_out, lost: seen.lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::{Zeroable as _, bytes_of};

    fn who(tgid: u32) -> PrWho {
        PrWho { tgid, name: [tgid.into(), 0], ..PrWho::zeroed() }
    }

    struct Seen(SwitchRecorder);

    impl Seen {
        fn birth(&mut self, kind: usize, task: u32, at: u64) {
            let kind = kind as u32;
            let birth =
                PrBirth { kind, task: task.into(), at, who: who(task), thread: task, cpu: 3, ..PrBirth::zeroed() };
            self.0.step(kind, bytes_of(&birth), u64::MAX);
        }

        fn run(&mut self, task: u32, state: usize, [since, at]: [u64; 2], pipe: u64) {
            let (kind, detail) = (PR_STEP_RUN as u32, state as u32 | 1 << 8 | 2 << 16);
            let run = PrRun { kind, detail, task: task.into(), at, since, pipe, ..PrRun::zeroed() };
            self.0.step(kind, bytes_of(&run), u64::MAX);
        }

        fn event(&mut self, kind: usize, detail: usize, task: u32, at: u64, other: u64) {
            let (kind, detail, task) = (kind as u32, detail as u32, task.into());
            self.0.step(kind, bytes_of(&PrStep { kind, detail, task, at, other }), u64::MAX);
        }
    }

    #[test]
    fn waits_have_their_reason_their_waker_and_their_cpu() {
        let mut seen = Seen(SwitchRecorder::default());
        seen.birth(PR_STEP_EXEC, 1, 100);
        seen.birth(PR_STEP_FORK, 2, 110);
        seen.run(2, PR_RUNNABLE, [110, 120], 0);
        seen.event(PR_STEP_WAKE, PR_IN_PROCESS, 2, 150, 1);
        seen.event(PR_STEP_THROTTLED, 0, 2, 160, 7);
        seen.run(2, PR_ASLEEP, [130, 160], 9);
        seen.event(PR_STEP_WAKE, PR_IN_INTERRUPT, 1, 170, 2);
        seen.run(1, PR_ASLEEP, [140, 180], 0);
        seen.event(PR_STEP_GONE, 1, 2, 190, 0);
        // It executes another program, and sleeps at the end.
        seen.birth(PR_STEP_EXEC, 1, 195);
        let asleep = PrTask { who: who(1), state: PR_ASLEEP as u32, since: 198, inode: 9, side: 1, ..PrTask::zeroed() };
        let pipe = RecordedChannel { inode: 9, ..RecordedChannel::default() };
        let index = BTreeMap::from([(who(1), 0), (who(2), 1)]);
        let found = seen.0.finish(200, &[(1, asleep)]).named(&index, &[pipe], 100);
        let lives: Vec<_> =
            found.threads.iter().map(|t| (t.process, t.tid, t.begin_ns, t.end_ns, t.cpu, t.has_ended)).collect();
        assert_eq!(lives, [(0, 1, 0, 95, Some(3), false), (1, 2, 10, 90, None, true), (0, 1, 95, 100, Some(3), false)]);
        let mut waits = found.waits.iter();
        let first = waits.next().unwrap();
        assert_eq!((first.thread, first.begin_ns, first.end_ns, first.what), (1, 10, 20, PathWhat::ForCpu));
        let full = waits.next().unwrap();
        assert_eq!((full.thread, full.what, full.channel), (1, PathWhat::PipeFull, Some(0)));
        assert_eq!((full.woken_ns, full.woken_by, full.throttled_ns, full.cpu), (Some(50), Some(0), 7, Some(2)));
        let other = waits.next().unwrap();
        assert_eq!((other.thread, other.woken_ns, other.woken_by, other.channel), (0, Some(70), None, None));
        let last = waits.next().unwrap();
        assert_eq!((last.thread, last.begin_ns, last.end_ns, last.cpu), (2, 98, 100, None));
        assert_eq!((last.what, last.channel, waits.next()), (PathWhat::PipeFull, Some(0), None));
        assert_eq!((found.until_ns, found.left_out, found.lost), (100, 0, 0));
    }

    #[test]
    fn once_there_is_no_room_all_is_known_until_then() {
        let mut seen = Seen(SwitchRecorder::default());
        seen.birth(PR_STEP_EXEC, 1, 0);
        seen.birth(PR_STEP_EXEC, 2, 0);
        let end = 2 * MOST_WAITS as u64;
        (0..MOST_WAITS as u64).for_each(|n| seen.run(1, PR_RUNNABLE, [2 * n, 2 * n + 1], 0));
        seen.run(1, PR_RUNNABLE, [end, end + 5], 0);
        // This one began long before, and another one after.
        seen.run(2, PR_ASLEEP, [10, end + 20], 0);
        seen.run(1, PR_RUNNABLE, [end + 30, end + 31], 0);
        seen.birth(PR_STEP_EXEC, 3, end + 40);
        let index = (1..4).map(|tgid| (who(tgid), tgid as usize - 1)).collect();
        let found = seen.0.finish(end + 100, &[]).named(&index, &[], 0);
        assert_eq!((found.until_ns, found.left_out, found.threads.len()), (end + 5, 3, 2));
        assert!(found.threads.iter().all(|thread| thread.end_ns == end + 5));
        let last = found.waits.last().unwrap();
        assert_eq!((last.thread, last.begin_ns, last.end_ns, last.cpu), (1, 10, end + 5, None));
        assert_eq!(found.waits.len(), MOST_WAITS + 2);
    }
}

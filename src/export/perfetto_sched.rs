//! The switches of a recording as Linux's own events, sched_switch and sched_waking, as far as its threads are concerned: what
//! reads these events finds out by itself which thread waited for which other one.

use super::perfetto_proto::{FtraceEvent, FtraceEventBundle, SchedSwitch, SchedWaking, TracePacket};
use crate::result::{PathWhat, Switches, WaitReason};
use crate::util::text::clean;
use std::collections::BTreeMap;

/// Events in one packet.
const EVENTS: usize = 1000;

/// States as the kernel has them (include/linux/sched.h): runnable, TASK_INTERRUPTIBLE, __TASK_STOPPED, __TASK_TRACED, EXIT_DEAD.
const RUNNABLE: i64 = 0;
const SLEEPS: i64 = 1;
const STOPPED: i64 = 4;
const TRACED: i64 = 8;
const DEAD: i64 = 16;

/// TRACE_FLAG_HARDIRQ: no thread of the recording woke it.
const IN_INTERRUPT: u32 = 8;

/// Who has a CPU: a thread of the recording, or another one by its name. Process id 0 is the idle one.
type CpuUser = (i32, String);

/// A time on a CPU.
struct RunOnCpu {
    begin: u64,
    end: u64,
    thread: CpuUser,
    /// Its state after it.
    state: i64,
    /// Who had the CPU before.
    before: CpuUser,
}

fn idle() -> CpuUser {
    (0, "swapper".to_owned())
}

/// All packets. `names`: those of the processes.
pub(super) fn packets(switches: &Switches, names: &[String]) -> Vec<TracePacket> {
    let id = |tid: u32| i32::try_from(tid).unwrap_or(0);
    let thread_of = |thread: usize| -> CpuUser {
        let thread = &switches.threads[thread];
        (id(thread.tid), names.get(thread.process).cloned().unwrap_or_default())
    };
    let mut runs: BTreeMap<u32, Vec<RunOnCpu>> = BTreeMap::new();
    for (at, (thread, waits)) in switches.by_thread().enumerate() {
        // Where it was before its first wait is known if it executed a program then.
        let (mut begin, mut cpu, mut before) = (thread.begin_ns, thread.cpu, idle());
        let ending = |end: u64, state: i64| (end, state, None, None);
        let last = ending(thread.end_ns, if thread.has_ended { DEAD } else { RUNNABLE });
        let ends = waits.iter().map(|wait| (wait.begin_ns, state(wait.what), Some(wait.end_ns), Some(*wait)));
        for (end, state, next, wait) in ends.chain([last]) {
            if let Some(cpu) = cpu.filter(|_| end > begin) {
                let of_cpu = runs.entry(cpu).or_default();
                of_cpu.push(RunOnCpu { begin, end, thread: thread_of(at), state, before: before.clone() });
            }
            begin = next.unwrap_or(end);
            cpu = wait.and_then(|wait| wait.cpu);
            before = wait.map_or_else(idle, |wait| match &wait.before_name {
                None if wait.before == 0 => idle(),
                name => (id(wait.before), name.as_deref().map(clean).unwrap_or_default()),
            });
        }
    }
    let mut events: BTreeMap<u32, Vec<FtraceEvent>> = BTreeMap::new();
    for (cpu, mut runs) in runs {
        runs.sort_by_key(|run| run.begin);
        events.entry(cpu).or_default().extend(switched(runs));
    }
    for wait in &switches.waits {
        let Some(woken) = wait.woken_ns else { continue };
        // That of the waker is the one where it is seen; the CPU does not matter to readers.
        let cpu = wait.cpu.unwrap_or(0);
        let (pid, comm) = thread_of(wait.thread);
        let waker = wait.woken_by.map(&thread_of);
        events.entry(cpu).or_default().push(FtraceEvent {
            timestamp: woken,
            pid: waker.as_ref().map_or(0, |(pid, _)| pid.cast_unsigned()),
            common_flags: if waker.is_some() { 0 } else { IN_INTERRUPT },
            sched_waking: Some(SchedWaking { comm, pid, prio: PRIORITY, success: 1, target_cpu: cpu.cast_signed() }),
            ..FtraceEvent::default()
        });
    }
    let bundles = events.into_iter().flat_map(|(cpu, mut events)| {
        events.sort_by_key(|event| event.timestamp);
        let bundles: Vec<TracePacket> = events.chunks(EVENTS).map(|events| bundle(cpu, events)).collect();
        bundles
    });
    bundles.collect()
}

/// That of all threads with a nice value of 0. Theirs is not recorded.
const PRIORITY: i32 = 120;

fn bundle(cpu: u32, events: &[FtraceEvent]) -> TracePacket {
    TracePacket { ftrace_events: Some(FtraceEventBundle { cpu, event: events.to_vec() }), ..TracePacket::default() }
}

/// The switches of one CPU. Between two threads of the recording it is idle, or has the one that had it last before the second.
fn switched(runs: Vec<RunOnCpu>) -> Vec<FtraceEvent> {
    let mut events = Vec::new();
    let mut now: Option<(u64, CpuUser, i64)> = None;
    for run in runs {
        let between = run.before;
        let from = match now.take() {
            Some((end, thread, state)) if end >= run.begin => (thread, state),
            Some((end, thread, state)) => {
                events.push(switch(end, (thread, state), between.clone()));
                (between, RUNNABLE)
            }
            None => (between, RUNNABLE),
        };
        events.push(switch(run.begin, from, run.thread.clone()));
        now = Some((run.end, run.thread, run.state));
    }
    events.extend(now.map(|(end, thread, state)| switch(end, (thread, state), idle())));
    events
}

fn switch(at: u64, ((prev_pid, prev_comm), prev_state): (CpuUser, i64), (next_pid, next_comm): CpuUser) -> FtraceEvent {
    let sched_switch =
        SchedSwitch { prev_comm, prev_pid, prev_prio: PRIORITY, prev_state, next_comm, next_pid, next_prio: PRIORITY };
    FtraceEvent {
        timestamp: at,
        pid: prev_pid.cast_unsigned(),
        sched_switch: Some(sched_switch),
        ..FtraceEvent::default()
    }
}

fn state(what: PathWhat) -> i64 {
    match what {
        PathWhat::ForCpu => RUNNABLE,
        PathWhat::Asleep { reason: WaitReason::Stopped } => STOPPED,
        PathWhat::Asleep { reason: WaitReason::Traced } => TRACED,
        _ => SLEEPS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{StoredThread, ThreadWait};

    /// Two threads on one CPU: the second one waits for the first, which is preempted by another program.
    fn two() -> Switches {
        let thread =
            |process, tid, begin_ns, cpu| StoredThread { process, tid, begin_ns, end_ns: 100, cpu, has_ended: true };
        let wait = |thread, begin_ns, end_ns, what| ThreadWait {
            thread,
            begin_ns,
            end_ns,
            what,
            cpu: Some(0),
            ..ThreadWait::default()
        };
        let slept = ThreadWait { woken_ns: Some(30), woken_by: Some(0), ..wait(1, 10, 40, PathWhat::PipeEmpty) };
        let preempted =
            ThreadWait { before: 9, before_name: Some("cc".to_owned()), ..wait(0, 40, 70, PathWhat::ForCpu) };
        let again = wait(1, 60, 90, PathWhat::Asleep { reason: WaitReason::Stopped });
        let begins = wait(0, 0, 10, PathWhat::ForCpu);
        Switches {
            threads: vec![StoredThread { end_ns: 85, ..thread(0, 7, 0, None) }, thread(1, 8, 0, Some(0))],
            waits: vec![begins, slept, preempted, again],
            until_ns: 100,
            ..Switches::default()
        }
    }

    #[test]
    fn each_switch_has_who_leaves_and_who_comes_and_each_wake_up_who_woke() {
        let names = ["a".to_owned(), "b".to_owned()];
        let packets = packets(&two(), &names);
        let [packet] = &packets[..] else { panic!("{packets:?}") };
        let bundle = packet.ftrace_events.as_ref().unwrap();
        let switches = bundle.event.iter().filter_map(|event| {
            let to = event.sched_switch.as_ref()?;
            Some((event.timestamp, to.prev_pid, to.prev_state, to.next_pid, to.next_comm.as_str()))
        });
        let expected = [
            (0, 0, RUNNABLE, 8, "b"),
            (10, 8, SLEEPS, 7, "a"),
            (40, 7, RUNNABLE, 8, "b"),
            (60, 8, STOPPED, 9, "cc"),
            (70, 9, RUNNABLE, 7, "a"),
            (85, 7, DEAD, 0, "swapper"),
            (90, 0, RUNNABLE, 8, "b"),
            (100, 8, DEAD, 0, "swapper"),
        ];
        assert_eq!(switches.collect::<Vec<_>>(), expected);
        let wakings = bundle.event.iter().filter(|event| event.sched_waking.is_some());
        let wakings: Vec<_> = wakings.map(|event| (event.timestamp, event.pid, event.common_flags)).collect();
        assert_eq!(wakings, [(30, 7, 0)]);
    }
}

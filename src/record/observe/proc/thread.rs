//! What /proc tells of one thread: its times, its state, and the call in which it sleeps.

use crate::record::observe::look::ChannelKey;
use crate::record::observe::raw::{PR_NO_CALL, PR_STOPPED, PR_TRACED, PrWho};
use crate::record::observe::thread_calls::{SleepingCall, ThreadCall, sleeping_call};
use crate::record::start::open_files::{FileKind, OpenFile};
use crate::util::process_stat::ProcessStat;
use crate::util::text::read_lossy;
use std::collections::BTreeMap;

/// A call that may not be read: no number of one.
pub(crate) const UNKNOWN: u32 = 1 << 20;

/// Since the begin of a thread, by /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    /// On a CPU, ns.
    pub cpu: u64,
    /// Runnable, but waiting for one, ns.
    pub waiting: u64,
    /// How often it has begun to run; `None` if the kernel does not count that.
    pub runs: Option<u64>,
    /// How often it has begun to sleep.
    pub sleeps: u64,
}

/// A process that is followed.
#[derive(Debug)]
pub(crate) struct LookedProcess {
    pub who: PrWho,
    /// When it started, in clock ticks after boot: what tells it from another one with its id.
    pub started: u64,
    pub threads: BTreeMap<u32, LookedThread>,
    /// Clock ticks of all its threads, in user space and in all.
    pub ticks: [u64; 2],
    /// Since when it is followed, ns.
    pub since: u64,
    /// When its files were read, ns.
    pub files_at: u64,
}

/// A thread of it at the last look.
#[derive(Debug)]
pub(crate) struct LookedThread {
    pub times: ThreadTimes,
    pub state: ThreadState,
    /// When it was first seen in this state, ns.
    pub since: u64,
    /// What it did before it ran, or does now.
    pub slept: Option<Sleep>,
    /// The channel of that sleep, and the side on which it is.
    pub channel: Option<(ChannelKey, u32)>,
    /// On a CPU and waiting for one since the look before, ns.
    pub spent: [u64; 2],
    /// What it has spent so beyond the time of that look, ns: its times are read later than the look begins, if others run
    /// meanwhile.
    pub ahead: u64,
    /// How often it began to sleep since then.
    pub sleeps: u64,
}

/// What a thread does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// It runs, or waits for a CPU.
    Runs,
    Sleeps(Sleep),
}

/// A sleep, or a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sleep {
    /// The number of the system call, or one of those that `reason::why` knows.
    pub number: u32,
    /// As there.
    pub file_type: u32,
    /// What can end it.
    pub call: ThreadCall,
    /// The descriptor of the channel at which it sleeps, if that is one only, and whether it waits for room there.
    pub at: Option<(u32, bool)>,
}

impl Sleep {
    /// Whether it is known where it sleeps: a descriptor may have been opened after its process's files were read.
    pub(crate) fn is_placed(&self) -> bool {
        !matches!(&self.call, ThreadCall::Files(awaited) if !awaited.polled) || self.at.is_some()
    }
}

/// Its times; where the kernel does not count them, in clock ticks. `before`: those of the last look, which hold if it has not
/// run since.
pub(crate) fn times(pid: u32, tid: u32, stat: &ProcessStat, before: Option<ThreadTimes>) -> ThreadTimes {
    let text = read_lossy(&format!("/proc/{pid}/task/{tid}/schedstat")).unwrap_or_default();
    let times = parsed(&text).unwrap_or_else(|| ThreadTimes {
        cpu: u64::try_from(stat.cpu_time().as_nanos()).unwrap_or(u64::MAX),
        ..ThreadTimes::default()
    });
    let unchanged = before.filter(|before| before.runs.is_some() && before.runs == times.runs);
    let sleeps = unchanged.map_or_else(|| sleeps(pid, tid), |before| before.sleeps);
    ThreadTimes { sleeps, ..times }
}

/// How often a thread gave up the CPU by itself.
fn sleeps(pid: u32, tid: u32) -> u64 {
    let status = read_lossy(&format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    field.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn parsed(schedstat: &str) -> Option<ThreadTimes> {
    let mut numbers = schedstat.split_whitespace().map(|number| number.parse::<u64>().ok());
    let [cpu, waiting, runs] = [numbers.next()??, numbers.next()??, numbers.next()??];
    // Without CONFIG_SCHED_INFO, all are zero.
    (runs > 0).then_some(ThreadTimes { cpu, waiting, runs: Some(runs), sleeps: 0 })
}

/// The state of a thread with these files; `None` once it has ended.
pub(crate) fn state(pid: u32, tid: u32, letter: char, files: &[OpenFile]) -> Option<ThreadState> {
    let held = |number: usize| {
        let call = ThreadCall::Busy;
        Some(ThreadState::Sleeps(Sleep { number: number as u32, file_type: 0, call, at: None }))
    };
    match letter {
        'Z' | 'X' | 'x' => None,
        'R' => Some(ThreadState::Runs),
        'T' => held(PR_STOPPED),
        't' => held(PR_TRACED),
        _ => Some(asleep(pid, tid, letter, files)),
    }
}

fn asleep(pid: u32, tid: u32, letter: char, files: &[OpenFile]) -> ThreadState {
    let (number, call) = match sleeping_call(pid, tid, files) {
        SleepingCall::Runs => return ThreadState::Runs,
        SleepingCall::Unreadable => (Some(UNKNOWN), ThreadCall::Busy),
        SleepingCall::Known(number, call) => (number, call),
    };
    let fd = match &call {
        ThreadCall::Files(awaited) if !awaited.polled => awaited.any.first().map(|(fd, _)| *fd),
        ThreadCall::Lock(fd) => Some(*fd),
        _ => None,
    };
    let file = |fd: u32| files.iter().find(|file| file.fd == fd);
    let file_type = match fd.map(|fd| (fd, file(fd).map(|file| &file.kind))) {
        // Only the opening of a FIFO is interruptible.
        None => u32::from(letter == 'S' && matches!(call, ThreadCall::Opening { .. })),
        Some((_, Some(FileKind::Pipe(..)))) => 1,
        Some((_, Some(FileKind::Socket(_)))) => 12,
        Some((_, Some(FileKind::Terminal { .. }))) => 2,
        Some((fd, _)) => rustix::fs::stat(format!("/proc/{pid}/fd/{fd}")).map_or(0, |stat| stat.st_mode >> 12),
    };
    // Only an interruptible sleep is one for others.
    let call = if letter == 'S' { call } else { ThreadCall::Busy };
    let at = match &call {
        ThreadCall::Files(awaited) if !awaited.polled => {
            let is_channel = |(fd, _): &&(u32, bool)| file(*fd).is_some_and(|file| file.kind != FileKind::Other);
            let channels: Vec<_> = awaited.any.iter().filter(is_channel).copied().collect();
            match channels[..] {
                [one] => Some(one),
                // Of `splice` from one to another, the kernel's function tells for which one it waits.
                [reads, writes] => Some(if waits_for_room(pid, tid) { writes } else { reads }),
                _ => None,
            }
        }
        _ => None,
    };
    ThreadState::Sleeps(Sleep { number: number.unwrap_or(PR_NO_CALL as u32), file_type, call, at })
}

/// Whether the thread sleeps in `pipe_wait_writable` or, before 5.10, in `wait_for_space` (fs/pipe.c, fs/splice.c).
fn waits_for_room(pid: u32, tid: u32) -> bool {
    let function = read_lossy(&format!("/proc/{pid}/task/{tid}/wchan")).unwrap_or_default();
    ["pipe_wait_writable", "wait_for_space", "pipe_write"].contains(&function.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::start::launch::MadePipe;

    #[test]
    fn times_are_read_where_the_kernel_counts_them() {
        let known = ThreadTimes { cpu: 12, waiting: 7, runs: Some(3), sleeps: 0 };
        assert_eq!(parsed("12 7 3\n"), Some(known));
        for unknown in ["0 0 0\n", "", "1 2", "1 2 x"] {
            assert_eq!(parsed(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_thread_that_waits_for_its_pipe_is_seen_at_it() {
        let (reader, writer) = std::io::pipe().unwrap();
        let pipe = MadePipe::of(&rustix::fs::fstat(&writer).unwrap());
        let mut cat = std::process::Command::new("cat").stdin(reader).spawn().unwrap();
        let pid = cat.id();
        let at = loop {
            let files = crate::record::start::open_files::open_files(pid).unwrap_or_default();
            let letter = ProcessStat::of(pid).unwrap().state;
            match state(pid, pid, letter, &files) {
                Some(ThreadState::Sleeps(Sleep { at: Some((fd, false)), number, file_type, .. })) => {
                    assert_eq!((i64::from(number), file_type), (libc::SYS_read, 1));
                    break files.into_iter().find(|file| file.fd == fd).unwrap().kind;
                }
                _ => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        };
        assert_eq!(at, FileKind::Pipe(pipe, None));
        drop(writer);
        cat.wait().unwrap();
    }
}

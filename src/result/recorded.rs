//! What the recorder saw of processes, and what limits the pipeline.

use crate::awaited::SeenProcess;
use crate::defaults::is_default;
use crate::failed::InVain;
use crate::target::Container;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// How much is recorded. More takes more time: docs/performance.md.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RecordLevel {
    /// When threads run, wait for a CPU and sleep, and at which pipe; no calls
    Sched,
    /// Also all calls on pipes
    #[default]
    Calls,
    /// Also the kernel stacks of all sleeps and of who ends them, as a flame graph
    Stacks,
}

/// How processes are observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Observer {
    /// BPF programs at the kernel's events; needs root, or CAP_BPF and CAP_PERFMON
    Bpf,
    /// perf's events of threads, and looks into /proc: for an ordinary user up to kernel.perf_event_paranoid 2; who ran when is
    /// exact, and calls and bytes are not seen
    Perf,
    /// Looks into /proc alone, up to 200 a second: without rights, on any kernel; shares have a margin, and calls and bytes are not
    /// seen
    Proc,
}

/// Looks into /proc, from which a recording was made instead of the kernel's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcLooks {
    pub looks: u64,
    /// The mean time between two, ns.
    pub mean_ns: u64,
    /// Looks at a sleeping thread whose call could not be read.
    pub unreadable: u64,
    /// perf's events of threads; absent if there were looks alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// With them, the time of all sleeps for which no look tells the reason, ns.
    pub unseen_ns: u64,
}

impl Observer {
    /// Whether it is one for which no rights are needed, which has neither calls nor stacks.
    pub fn only_looks(self) -> bool {
        self != Self::Bpf
    }
}

impl ProcLooks {
    /// Half of the interval of a share of the time: that of a binomial distribution with one trial for each look (95 %), and
    /// this part of the variance for what ran at once between two looks, as found by comparing with BPF programs: docs/record.md.
    pub fn margin(&self, share: f64) -> f64 {
        const AT_ONCE: f64 = 1.2;
        let variance = share * (1.0 - share);
        (1.96 * (variance / self.looks.max(1) as f64).sqrt()).hypot(AT_ONCE * variance)
    }
}

/// A program in a process. Several processes that ran the same program on the same pipes are one, and so are many that ran
/// it on pipes of the same kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedProcess {
    /// The name of the program, as in /proc/PID/comm.
    pub name: String,
    /// Its command line, or that of one of several: the first 192 bytes. Empty if it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Of several, how many had this command line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub same_args: u64,
    /// The stage that it belongs to, from 0.
    pub stage: u32,
    /// In the PID namespace of pipeprof; in the initial one if it has none there.
    pub pids: Vec<u32>,
    /// Those of them that have executed another program since: they are in the row of that, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved_on: Vec<u32>,
    /// The same in the PID namespaces of the processes themselves, such as those of a container, if these are others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner_pids: Vec<u32>,
    pub threads: u64,
    pub forks: u64,
    pub execs: u64,
    /// From the begin of the window, ns.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Of all its processes, from the begin to the end of each.
    pub lived_ns: u64,
    /// Time on a CPU, of all threads.
    pub cpu_ns: u64,
    /// Its part in user space, 0 to 1, as the kernel accounts it by ticks; absent if it ran for less than a few ticks, or
    /// has not ended.
    pub user_share: Option<f64>,
    /// Runnable, but waiting for a CPU.
    pub runnable_ns: u64,
    /// Of this: its cgroup had used up its quota of CPU time. Looked at after waits of 1 ms and more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub throttled_ns: u64,
    pub preemptions: u64,
    /// System calls.
    pub calls: u64,
    /// Calls of io_uring_enter on kernels where it is not seen what io_uring reads and writes.
    pub io_uring_calls: u64,
    /// Completed requests to io_uring that move data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ring_requests: u64,
    /// Those of them that a thread of the kernel has done (`iou-wrk`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub worker_requests: u64,
    /// Of `cpu_ns`, that of threads of the kernel that poll rings for requests (`iou-sqp`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub poller_ns: u64,
    /// Requests of io_submit, maybe at pipes, that are not among the calls at pipes, because their results could not be read.
    pub unseen_requests: u64,
    /// Calls of `poll` and its like that found something ready and did not sleep.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ready_polls: u64,
    /// Calls of `poll` and its like that slept until their time was over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeouts: u64,
    /// Calls of `wait4` that only looked whether a child had ended, when none had.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watches: u64,
    /// Calls of `wait4` for one process that was no child any more (ECHILD).
    #[serde(default, skip_serializing_if = "is_default")]
    pub gone_children: u64,
    /// The last process of which it asked with success whether that lives (`kill` with signal 0), by its own PID namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_alive: Option<u32>,
    /// Calls of `fsync` and `fdatasync`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub syncs: u64,
    /// Calls that asked what its standard output is (`fstat`): the C library does so before it first puts something into its buffer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asked_output: u64,
    /// Calls of `close` with a descriptor that was not open.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed_closes: u64,
    /// Reads and writes with a descriptor that was not open.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bad_calls: u64,
    /// Reads and writes of files that moved fewer than 16 bytes each.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tiny_calls: u64,
    /// Calls that were to make a pipe larger (F_SETPIPE_SZ) and were refused, as the user had used up the pages of pipes (EPERM).
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused_sizes: u64,
    /// Reads that got the end of what is no channel, such as a file or /dev/null.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ends: u64,
    /// The descriptor of the last one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u32>,
    /// Calls of `ioctl` that asked how much there is to read (FIONREAD).
    #[serde(default, skip_serializing_if = "is_default")]
    pub fill_asks: u64,
    /// Calls of `connect`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connects: u64,
    /// Of these, those that were refused, because nobody listens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused_connects: u64,
    /// Of these, those that failed because the queue of the listening socket was full.
    #[serde(default, skip_serializing_if = "is_default")]
    pub full_queues: u64,
    /// Calls that failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed_calls: u64,
    /// The name of the last one of these, and the number of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<(String, i32)>,
    /// Sends to sockets that are no channel, as they are not connected, or lead to other machines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sends: u64,
    /// Of these: there was no room, and it did not wait (EAGAIN).
    #[serde(default, skip_serializing_if = "is_default")]
    pub unsendable: u64,
    /// Messages that it received from such sockets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub received: u64,
    /// Of these, datagrams that filled its buffer: what is longer is cut.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filling: u64,
    /// The size of that buffer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filling_bytes: u64,
    /// Datagrams that the kernel had dropped for a socket when it read there last, mostly because the receive buffer was full; the most of
    /// its sockets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dropped_datagrams: u64,
    /// Tries that did not get the lock of a file (EAGAIN).
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused_locks: u64,
    /// The inode of the last file whose lock it did not get.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused_file: u64,
    /// Of the tries, those for a lock that it had taken itself before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own_locks: u64,
    /// So many times it was executed with SIGPIPE ignored, as a process leaves that to what it starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignores_sigpipe: u64,
    /// The same of SIGCHLD: the kernel then waits for its children, and their exit codes are lost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignores_sigchld: u64,
    /// Calls of `bind`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub binds: u64,
    /// A port that others had when it tried to bind a socket to it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_port: Option<UsedPort>,
    /// Writes that failed because the device had no room (ENOSPC), or the user had used up a quota.
    #[serde(default, skip_serializing_if = "is_default")]
    pub without_space: u64,
    /// That device at the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_device: Option<FullDevice>,
    /// Writes that failed because nobody could read them any more (EPIPE), also to what is no channel any more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused_writes: u64,
    /// How often it changed a file with the lock of another one that had been deleted before it got that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gone_locks: u64,
    /// Calls that failed because no descriptor was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_table: Option<FullTable>,
    /// A file whose lock others had when it tried to get it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_out: Option<LockedFile>,
    /// The most memory that it had at once, by the kernel's account of pages of 4 KiB (`maxrss`), bytes; 0 if it lived on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub peak_memory: u64,
    /// The file of which it read 4 KiB or more with one call last, or which had become shorter than where it read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read: Option<ReadFile>,
    /// Writes to its standard error.
    #[serde(default, skip_serializing_if = "is_default")]
    pub errors: u64,
    /// What it wrote there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<ProcessWords>,
    /// Calls that were to start a process or a thread, of which there were too many (EAGAIN).
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed_forks: u64,
    /// What others can notice: calls that wrote something, that opened a file to write, and signals sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub effects: u64,
    /// Index in `recorded` of another process that made a file not block (O_NONBLOCK) which both have open, and from which this one
    /// got EAGAIN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unready_by: Option<usize>,
    /// Index in `channels` of its standard input when it executed its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<usize>,
    /// Index in `channels` of its standard output when it executed its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<usize>,
    /// Inode and device of the same, if it was a file, as those of streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_file: Option<[u64; 2]>,
    /// Index in `recorded` of the process that started it, or all of its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<usize>,
    /// Processes that it had started and that ended later than it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<LeftProcesses>,
    /// The last call that was refused for a reason that programs do not expect, such as EBUSY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<ProcessRefusal>,
    /// Its children that had ended before it, and for which nobody had waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zombies: Option<Zombies>,
    /// The number of the signal that killed it, or one of its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u32>,
    /// Index in `recorded` of who sent that signal, if it is one with which others end a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<usize>,
    /// When that was no call: the kernel sent it when a thread of that process ended (PR_SET_PDEATHSIG). From the begin of the window, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by_thread: Option<u64>,
    /// The last signal with which others end a program that it was sent, also by the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got_signal: Option<u32>,
    /// Index in `recorded` of who sent it SIGTERM or SIGHUP, which did not kill it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_to_end_by: Option<usize>,
    /// With which signal: SIGTERM or SIGHUP, and for process 1 of a PID namespace also others that end a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_signal: Option<u32>,
    /// When that was sent, from the begin of the window, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_to_end_ns: Option<u64>,
    /// What it did with that; absent if it had no handler, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_to_end_in_vain: Option<InVain>,
    /// Processes that it started after that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started_since: u64,
    /// The exit code, if it or one of its processes ended with another one than 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Whether the kernel killed it for lack of memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
    /// Sleeps outside of channels, by reason.
    pub waits: BTreeMap<WaitReason, WaitTotal>,
    /// Who stopped or traced it, as far as that was seen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_by: BTreeMap<WaitReason, BTreeSet<HeldBy>>,
}

/// Programs that are shells, as far as these are known.
pub const SHELLS: [&str; 9] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "busybox"];

/// Programs that are many, each named by the first argument.
pub const MANY_IN_ONE: [&str; 3] = ["busybox", "coreutils", "toybox"];

/// Which of those a program with this command line is that it can be: [`MANY_IN_ONE`].
pub fn applet(words: &[String]) -> Option<&str> {
    let first = words.first().and_then(|word| word.rsplit('/').next())?;
    let applet = words.get(1).filter(|word| !word.starts_with('-'));
    applet.filter(|_| MANY_IN_ONE.contains(&first)).map(String::as_str)
}

impl RecordedProcess {
    /// The program that it executes: of a script that is started by its name (`./a.sh`), its interpreter; of `busybox cat`, the
    /// latter.
    pub fn program(&self) -> &str {
        let program = self.args.first().and_then(|word| word.rsplit('/').next());
        let program = program.map_or(self.name.as_str(), |program| program.trim_start_matches('-'));
        self.applet().unwrap_or(program)
    }

    /// Which of those it is that its program can be: [`MANY_IN_ONE`].
    pub fn applet(&self) -> Option<&str> {
        applet(&self.args)
    }

    /// The ids of its processes without those that executed another program, and have a row of that.
    pub fn own_pids(&self) -> impl Iterator<Item = u32> {
        // There can be thousands.
        let moved_on: HashSet<u32> = self.moved_on.iter().copied().collect();
        self.pids.iter().copied().filter(move |pid| !moved_on.contains(pid))
    }

    /// Whether it is one process. Those that it forked and that executed something else have rows of their own.
    pub fn is_one(&self) -> bool {
        // That one may have executed something else itself.
        self.pids.len() == 1 || self.own_pids().take(2).count() == 1
    }

    /// Whether one of its processes had several threads. An exec begins the count of threads anew.
    pub fn has_threads(&self) -> bool {
        self.threads > self.execs.max(self.pids.len() as u64)
    }

    /// Whether it is a shell, or a script of one.
    pub fn is_shell(&self) -> bool {
        match self.applet() {
            Some(applet) => SHELLS.contains(&applet),
            None => [self.name.as_str(), self.program()].iter().any(|name| SHELLS.contains(name)),
        }
    }

    /// Whether it may have moved data at pipes that was not seen.
    pub fn moves_unseen(&self) -> bool {
        self.io_uring_calls + self.unseen_requests > 0
    }
}

/// A file that a process has read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadFile {
    /// The last part of its path, up to 31 bytes.
    pub file: String,
    /// Up to here.
    pub bytes: u64,
    /// Of so many. Fewer, if another process had emptied it meanwhile: reads get the end.
    pub size: u64,
}

/// When a process had no descriptor left for another file (EMFILE).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FullTable {
    /// Calls that failed.
    pub calls: u64,
    /// How many descriptors it may have (RLIMIT_NOFILE).
    pub descriptors: u64,
    /// So many of them were looked at when the first call failed.
    pub looked_at: u64,
    /// Of these, those of pipes.
    pub pipes: u64,
    /// Of these, those of sockets.
    pub sockets: u64,
}

/// A file system that had no room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FullDevice {
    /// Where it is mounted.
    pub path: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// Who had files of it open at the end of the recording that were deleted already, and their sizes on it, bytes.
    pub deleted: Vec<(SeenProcess, u64)>,
}

/// The lock of a file that processes have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockedFile {
    pub path: String,
    /// Who had the open file at the end of the recording; if nobody had, who took the lock last before.
    pub holders: Vec<SeenProcess>,
    /// The process that did not get it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: u32,
    /// Whether another process took the lock than those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
}

/// A port to which others have bound a socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsedPort {
    pub port: u16,
    /// Who had the socket open at the end of the recording.
    pub holders: Vec<SeenProcess>,
}

/// Processes that ended later than the one that had started them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftProcesses {
    pub count: u64,
    /// Indices in `recorded` of what they executed last.
    pub processes: BTreeSet<usize>,
    /// When the last one ended, or the window did, ns.
    pub until_ns: u64,
}

/// What a process, of several the one that did so last, wrote to its standard error; of each text at most 254 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessWords {
    /// What it wrote first, of several lines.
    pub begin: String,
    /// The last line, or its end.
    pub last: String,
    /// Whether the last line has no end, or got it by a write of its own: so does a question, or a bar that shows progress.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unfinished: bool,
}

/// A call of a process that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessRefusal {
    pub call: String,
    /// The number of the error.
    pub error: i32,
    /// When, from the begin of the window, ns.
    pub at_ns: u64,
}

/// Processes that had ended when their parent did, which had not waited for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Zombies {
    /// How many; at most 64 are counted for each process.
    pub count: u64,
    /// Indices in `recorded` of the ones that became its children first and last.
    pub first: Option<usize>,
    pub last: Option<usize>,
}

/// Why a thread slept, other than for a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// `nanosleep` and its like.
    Timer,
    /// Files and block devices.
    Disk,
    /// Sockets that are no channel between processes of this machine.
    Network,
    /// A connection to be made: who listens has not accepted it, or another machine has not answered.
    Connect,
    /// The end of another process; with `vfork`, also that it executes a program.
    Child,
    /// Another thread, in `futex`.
    Thread,
    /// `poll`, `select` or `epoll`, ended by something other than a process at a channel.
    Poll,
    /// A device that is no pseudo-terminal.
    Device,
    Signal,
    /// A process that opens the other end of a FIFO.
    Open,
    /// A lock of a file, by `flock` or `fcntl`.
    FileLock,
    /// Page faults, also those of calls that copy to or from a process's memory.
    Memory,
    /// Not a wait: a signal such as SIGSTOP has stopped it.
    Stopped,
    /// Not a wait: a tracer such as `strace` holds it.
    Traced,
    /// Not a wait: its cgroup is frozen.
    Frozen,
    /// It has ended, or was killed, and the kernel has not begun to close its files: it waits for a lock of its memory, or
    /// for requests that are under way.
    Ending,
    /// It has ended, or was killed, and the kernel closes its files.
    Exit,
    Other,
}

/// Who stopped or traced a process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    Itself,
    /// Its terminal, because its job read from it in the background: SIGTTIN.
    BackgroundRead,
    /// The same for writing or changing it: SIGTTOU.
    BackgroundWrite,
    /// SIGTSTP, which a terminal sends for Ctrl-Z.
    Suspended,
    /// SIGSTOP of an unknown process.
    Signal,
    /// As in /proc/PID/comm.
    Program(String),
}

/// The sleeps for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitTotal {
    pub ns: u64,
    pub count: u64,
}

/// A process at the same side of a pipe as a recorded one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnrecordedProcess {
    /// In the PID namespace of pipeprof.
    pub pid: u32,
    /// As in /proc/PID/comm; empty if unknown.
    pub name: String,
    /// Its container, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
}

/// Pipes of a user who had used up the pages that all of them may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserPipes {
    pub uid: u32,
    /// How many the processes of the user had open.
    pub pipes: u64,
    /// The limit, `fs.pipe-user-pages-soft`.
    pub soft_pages: u64,
    /// The processes that had most of them open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<PipeHolder>,
}

/// A process that had pipes open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipeHolder {
    /// In the PID namespace of pipeprof.
    pub pid: u32,
    /// As in /proc/PID/comm.
    pub name: String,
    /// Its container, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// How many; of a pipe that several processes have open, each has one.
    pub pipes: u64,
}

/// Waits for locks at which threads sleep, wanted by one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockWait {
    /// Index in `recorded`.
    pub process: usize,
    /// The function of the kernel that wanted the lock.
    pub caller: String,
    pub count: u64,
    /// Spinning and asleep, of all threads.
    pub ns: u64,
}

/// Processes of one program that were not recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusyProgram {
    /// As in /proc/PID/comm.
    pub name: String,
    /// Of the time of all CPUs, 0 to 1.
    pub share: f64,
}

impl WaitReason {
    /// The reason in a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Disk => "files",
            Self::Network => "network",
            Self::Connect => "connect",
            Self::Child => "child",
            Self::Thread => "thread",
            Self::Poll => "poll",
            Self::Device => "device",
            Self::Signal => "signal",
            Self::Open => "FIFO to be opened",
            Self::FileLock => "file lock",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::Traced => "traced",
            Self::Frozen => "frozen",
            Self::Ending => "ending",
            Self::Exit => "closing files",
            Self::Other => "other",
        }
    }
}

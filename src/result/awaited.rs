//! Sleeps that went on when a recording last looked into /proc, and who could have ended them.

use crate::target::Container;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a recording saw when it last looked into /proc.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastLook {
    /// From the begin of the window, ns.
    pub at_ns: u64,
    /// Threads that slept for others, of recorded processes and of those for which they waited.
    pub waits: Vec<LastWait>,
    /// Files that recorded processes had open after their names had gone to others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<StaleFile>,
    /// Threads of recorded processes that slept for none of the channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventWait>,
    /// Recorded processes with a handler of SIGCHLD that slept, and had not waited for children that have ended (`unreaped`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<SeenProcess>,
}

/// A file that a process has open, while the name in its command line is that of another one, or of none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StaleFile {
    pub process: SeenProcess,
    /// As its command line has it.
    pub path: String,
    /// Its name now; absent if it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Whether another file has that name.
    pub replaced: bool,
}

/// A thread that slept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastWait {
    pub process: SeenProcess,
    pub awaited: WaitedFor,
    /// Whether all that could end it slept as well, for each other: only a signal, or a process from outside, can.
    pub endless: bool,
    /// The same, but for threads that only look again after a time, and never did more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
}

impl LastWait {
    /// The channels for which it waited.
    pub fn channels(&self) -> &[AwaitedChannel] {
        match &self.awaited {
            WaitedFor::Channels { any, .. } => any,
            _ => &[],
        }
    }

    /// The process, and those for which it waited.
    pub fn processes(&self) -> impl Iterator<Item = &SeenProcess> {
        let children = match &self.awaited {
            WaitedFor::Children(processes)
            | WaitedFor::Lock { holders: processes, .. }
            | WaitedFor::Shared { holders: processes, .. } => &processes[..],
            WaitedFor::Channels { .. } | WaitedFor::Thread | WaitedFor::Opening { .. } => &[],
        };
        let holders = self.channels().iter().flat_map(|channel| &channel.holders).map(|holder| &holder.process);
        [&self.process].into_iter().chain(holders).chain(children)
    }
}

/// A process, as /proc shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenProcess {
    /// In the PID namespace of pipeprof.
    pub pid: u32,
    /// In its own PID namespace, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
    /// Its program, and the script if that is an interpreter: `python3 server.py`.
    pub name: String,
    /// Index in `recorded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<usize>,
    /// Its container, if it is in one and is not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Whether a signal or a debugger has stopped it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Whether all its threads slept, and none of them at a pipe or socket, or for a child.
    pub idle: bool,
    /// How many threads it had; 0 if that is not known.
    pub threads: usize,
    /// Its children that had ended, and for which it had not waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreaped: Vec<EndedChild>,
}

/// A child that has ended and is still there, because its parent has not waited for it (a zombie).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndedChild {
    pub pid: u32,
    /// As in /proc/PID/comm.
    pub name: String,
    /// What `waitpid` would report, if it may be known and is not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
}

/// What a thread slept for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitedFor {
    /// Any of these channels.
    Channels {
        any: Vec<AwaitedChannel>,
        /// In `poll` or its like: how many other descriptors there were.
        others: u64,
        /// In `poll` or its like.
        polled: bool,
        /// It also ends after a time.
        limited: bool,
    },
    /// The end of one of these processes.
    Children(Vec<SeenProcess>),
    /// Another thread of its process.
    Thread,
    /// A lock or semaphore in memory that processes share.
    Shared {
        /// Who has that memory; empty if that is not known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        holders: Vec<SeenProcess>,
        /// Its file, if that has a name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// The lock of a file, which these processes have.
    Lock {
        path: String,
        holders: Vec<SeenProcess>,
        /// Whether the process that took it does not have the open file: the holders have it from that.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        inherited: bool,
    },
    /// A process that opens the other end of this FIFO, as it was named.
    Opening {
        path: String,
        writes: bool,
        /// Processes that have an earlier FIFO of this path open, which was deleted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deleted: Vec<SeenProcess>,
        /// Whether the path names this FIFO no longer, because it was removed: nobody can open it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        removed: bool,
        /// For how long the FIFO had been there, ns; absent if the file system does not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        age_ns: Option<u64>,
    },
}

/// A thread that sleeps in `poll` or its like, or in a call for one descriptor, with none of a channel of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventWait {
    pub process: SeenProcess,
    pub any: BTreeSet<EventSource>,
    /// It also ends after a time.
    pub limited: bool,
}

/// What a descriptor tells that is none of a channel of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventSource {
    /// A connection to a socket that listens.
    Client,
    /// What comes from elsewhere by a socket.
    Network,
    /// A change of files (inotify, fanotify).
    FileChanges,
    /// A signal (signalfd).
    Signal,
    /// The end of a process (pidfd).
    ProcessEnd,
    /// A time (timerfd).
    Timer,
    /// Another thread or a signal handler of its own (eventfd, a pipe to itself).
    OwnThreads,
    Other,
}

/// A channel for which a thread slept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AwaitedChannel {
    pub kind: ChannelKind,
    pub inode: u64,
    /// The device of a pipe's file system.
    pub device: u32,
    /// The path of a FIFO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The descriptor of the thread.
    pub fd: u32,
    /// It is the standard error of the process, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// A terminal that does not show what is typed (ECHO is off), and gives it in lines: it asks for a password.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// It waits for room in it, not for data.
    pub room: bool,
    /// A connection that has not been accepted: `holders` have the socket open that listens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unaccepted: bool,
    /// Processes that have the other end open.
    pub holders: Vec<ChannelHolder>,
}

impl AwaitedChannel {
    /// Whether no other process than this one could end the wait.
    pub fn is_only_of(&self, pid: u32) -> bool {
        self.holders.iter().all(|holder| holder.process.pid == pid)
    }

    /// Whether it is what is typed at a terminal: as [`RecordedChannel::is_typed`](crate::RecordedChannel::is_typed).
    pub fn is_typed(&self) -> bool {
        self.kind == ChannelKind::Pty && self.inode.is_multiple_of(2)
    }
}

/// What a channel is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    #[default]
    Pipe,
    Fifo,
    /// One direction of a pair of Unix sockets.
    UnixStream,
    UnixPacket,
    UnixDatagram,
    /// One direction of a pseudo-terminal.
    Pty,
    /// One direction of a TCP connection whose ends are both on this machine.
    Tcp,
}

impl ChannelKind {
    /// What it is called.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Fifo => "FIFO",
            Self::UnixStream | Self::UnixPacket | Self::UnixDatagram => "socket",
            Self::Pty => "terminal",
            Self::Tcp => "TCP connection",
        }
    }

    /// Whether it is a pipe with a name or without: made of slots.
    pub fn is_pipe(self) -> bool {
        matches!(self, Self::Pipe | Self::Fifo)
    }
}

/// A process that has an end of a channel open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelHolder {
    #[serde(flatten)]
    pub process: SeenProcess,
    /// Its first descriptor of this end.
    pub fd: u32,
}

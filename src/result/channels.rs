//! Channels of a recording: pipes, sockets and terminals, and what each process did at its end.

use crate::awaited::{AwaitedChannel, ChannelKind};
use crate::defaults::is_default;
use crate::recorded::UnrecordedProcess;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A pipe holds this many slots (pages of 4 KiB) unless someone changes it: include/linux/pipe_fs_i.h,
/// `PIPE_DEF_BUFFERS`.
pub const DEFAULT_SLOTS: u64 = 16;

/// So few bytes, exchanged with a process outside in so little time, are no part of what was recorded.
const FEW_BYTES: u64 = 1 << 16;
const SHORT_NS: u64 = 20_000_000;

/// A pipe, or one direction of another channel between processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedChannel {
    pub kind: ChannelKind,
    /// Of the receiving socket, if it is one; a number of their own for terminals and TCP connections.
    pub inode: u64,
    /// The device of its file system; a number of their own for channels that are not pipes.
    pub device: u32,
    /// The stage that writes it and the one that reads it, if pipeprof made it.
    pub between: Option<[u32; 2]>,
    /// Its capacity in slots of one page, as first seen, as last seen, and the least; absent unless it is a pipe.
    pub slots: Option<[u64; 3]>,
    /// The capacity of another channel, in bytes of the kernel's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<[u64; 3]>,
    /// Mean number of slots, or of these bytes, in use after a call, of those calls at which it was read.
    pub mean_filled: Option<f64>,
    pub writers: Vec<RecordedEnd>,
    pub readers: Vec<RecordedEnd>,
    /// What was in a buffer when a process forked, and was written more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubled: Option<DoubledBuffer>,
    /// Processes that read it at the same time, of which one has it as its standard input and another one by other means: each
    /// got a part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub divided: Vec<DividedReader>,
    /// Processes that had it open for writing when the recording of a running pipeline began, but were not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_writers: Vec<UnrecordedProcess>,
    /// The same for reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_readers: Vec<UnrecordedProcess>,
}

impl RecordedChannel {
    /// Bytes read, or, if no reader was recorded, written.
    pub fn bytes(&self) -> u64 {
        self.read().max(self.written())
    }

    /// Bytes read; written ones if no reader was recorded. What is written and never read, as by `yes` before `head` ends,
    /// is not the pipeline's work.
    pub fn taken(&self) -> u64 {
        let read = self.read();
        if read > 0 { read } else { self.bytes() }
    }

    /// Bytes that recorded processes read.
    pub fn read(&self) -> u64 {
        self.readers.iter().map(|end| end.bytes).sum()
    }

    /// Bytes that they wrote.
    pub fn written(&self) -> u64 {
        self.writers.iter().map(|end| end.bytes).sum()
    }

    /// Whether bytes go through it without any borders between them.
    pub fn is_stream(&self) -> bool {
        self.kind.is_pipe() || self.is_stream_socket()
    }

    /// Whether it is one direction of a connection that has no borders between messages.
    pub fn is_stream_socket(&self) -> bool {
        matches!(self.kind, ChannelKind::UnixStream | ChannelKind::Tcp)
    }

    /// Whether it is what is typed at a terminal: the other direction, which is shown, has an odd number.
    pub fn is_typed(&self) -> bool {
        self.kind == ChannelKind::Pty && self.inode.is_multiple_of(2)
    }

    /// The ends of both sides.
    pub fn ends(&self) -> impl Iterator<Item = &RecordedEnd> {
        self.writers.iter().chain(&self.readers)
    }

    /// Whether the process moved data through it, to or from others: not to itself, as Go's runtime does to wake a thread.
    pub fn is_moved_by(&self, process: usize) -> bool {
        let moved =
            |side: &[RecordedEnd], own: bool| side.iter().any(|end| (end.process == process) == own && end.bytes > 0);
        let [writes, reads] = [&self.writers, &self.readers].map(|side| moved(side, true));
        (writes != reads) || (writes && (moved(&self.writers, false) || moved(&self.readers, false)))
    }

    /// Whether anything was done with it, other than a few words with a process outside, such as a name service.
    pub fn is_used(&self) -> bool {
        self.ends().any(|end| end.all_calls() + end.sleeps + end.blocked_ns > 0) && !self.is_aside()
    }

    fn is_aside(&self) -> bool {
        let blocked_ns: u64 = self.ends().map(|end| end.blocked_ns).sum();
        let outside = self.writers.is_empty() || self.readers.is_empty();
        !self.kind.is_pipe() && outside && self.bytes() < FEW_BYTES && blocked_ns < SHORT_NS
    }

    /// What it can hold at most, in bytes.
    pub fn capacity(&self) -> u64 {
        self.sizes().map_or(4096 * DEFAULT_SLOTS, |sizes| sizes.into_iter().max().unwrap_or_default())
    }

    /// What it could hold as first seen, as last seen, and at least, in bytes.
    pub fn sizes(&self) -> Option<[u64; 3]> {
        self.slots.map(|slots| slots.map(|slots| 4096 * slots)).or(self.buffer)
    }

    /// Whether this is the channel for which a thread waited.
    pub fn is(&self, awaited: &AwaitedChannel) -> bool {
        (self.inode, self.device) == (awaited.inode, awaited.device)
    }

    /// The ports of the sender and the receiver of a TCP connection.
    pub fn ports(&self) -> Option<[u16; 2]> {
        (self.kind == ChannelKind::Tcp).then_some([self.inode as u16, (self.inode >> 16) as u16])
    }
}

/// One of several processes that read a channel at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DividedReader {
    /// Index in `recorded`.
    pub process: usize,
    /// In the PID namespace of pipeprof; in the initial one if it has none there.
    pub pid: u32,
    pub bytes: u64,
}

/// The same lines that a process and its forked children wrote first after the fork.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoubledBuffer {
    /// Index in `recorded`: who forked.
    pub process: usize,
    /// The children that wrote them.
    pub children: u64,
    /// How many bytes are the same, of the first 128, up to the end of a line.
    pub bytes: u64,
}

/// One side of a channel, used by one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedEnd {
    /// Index in `recorded`.
    pub process: usize,
    pub bytes: u64,
    /// Calls by kind: `read`, `write`, `splice`, `vmsplice`, `tee`, `sendfile`, `recvfrom`, `sendto`, `recvmsg`, `sendmsg`,
    /// `recvmmsg`, `sendmmsg`; each request of `io_submit` is one, and so is each result of one of `io_uring`.
    pub calls: BTreeMap<String, u64>,
    /// Calls that moved fewer bytes than requested, but some.
    pub short: u64,
    /// Reads that got the end of file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at_end: u64,
    pub eagain: u64,
    pub epipe: u64,
    pub errors: u64,
    /// Bytes requested, in sum. Zero for vectors, whose sizes are not read.
    pub requested: u64,
    /// Calls by size: element i counts those of 2^i to 2^(i+1)-1 bytes.
    pub log2_sizes: Vec<u64>,
    /// Sleeps because the channel was empty (readers) or full (writers).
    pub sleeps: u64,
    pub blocked_ns: u64,
    /// Runnable after such a sleep, but waiting for a CPU.
    pub runnable_ns: u64,
    /// Sleeps for the pipe's lock.
    pub lock_sleeps: u64,
    pub lock_ns: u64,
    /// Wake-ups that it sent to the other side.
    pub wakes: u64,
    /// Sleeps that ended without anything moved in the pipe, followed by another in the same call.
    pub needless: u64,
    /// Writes of more than `PIPE_BUF` (4,096) bytes that slept until there was room: others could write in between.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parted: u64,
    /// Writes of a thread, one of several of its process, within a line that another thread had begun.
    #[serde(default, skip_serializing_if = "is_default")]
    pub split: u64,
    /// Small writes to TCP that were not sent at once, because what had been sent before was not confirmed (Nagle's algorithm).
    #[serde(default, skip_serializing_if = "is_default")]
    pub held_back: u64,
    /// Calls of `poll` and its like that found data in it and did not sleep, about: one of 64 is looked at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ready_polls: u64,
    /// Bytes that the last call of each thread should have written or read, and did not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unsent: u64,
    /// Calls that asked for what the call before had left, as those do that want all of it: writes exactly, reads up to 8 KiB less.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resumed: u64,
    /// Reads of one byte that did not follow another one directly: each `read` of bash begins with one. Of a writer with several threads:
    /// small writes that ended a line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lines: u64,
    /// Threads for which the end of file followed such a read directly: bash had begun a line that has no end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unended: u64,
    /// Uses of `read` of bash, after the first bytes were read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_read: u64,
    /// Writes to standard output.
    #[serde(default, skip_serializing_if = "is_default")]
    pub printed: u64,
    /// Writes to standard error before the first one to standard output.
    #[serde(default, skip_serializing_if = "is_default")]
    pub aside: u64,
    /// How often it was added to an epoll set after the first call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watched: u64,
    /// How often it was taken out of one then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unwatched: u64,
    /// When it first and last moved data, from the begin of the window, ns: when the thread had begun to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_ns: Option<[u64; 2]>,
}

impl RecordedEnd {
    /// All calls.
    pub fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_sends_to_itself_is_not_moved() {
        let end = |process, bytes| RecordedEnd { process, bytes, ..RecordedEnd::default() };
        let channel = |writers: &[RecordedEnd], readers: &[RecordedEnd]| RecordedChannel {
            writers: writers.to_vec(),
            readers: readers.to_vec(),
            ..RecordedChannel::default()
        };
        assert!(!channel(&[end(1, 5), end(2, 0)], &[end(1, 5)]).is_moved_by(1));
        assert!(channel(&[end(1, 5), end(2, 1)], &[end(1, 6)]).is_moved_by(1));
        // The other side is not recorded, or belongs to another process.
        assert!(channel(&[], &[end(1, 5)]).is_moved_by(1));
        assert!(channel(&[end(0, 5)], &[end(1, 5)]).is_moved_by(1));
        assert!(!channel(&[end(0, 5)], &[end(1, 0)]).is_moved_by(1));
    }
}

//! What processes write to files, and read from files that are their standard input.

use crate::channels::DoubledBuffer;
use crate::defaults::is_default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The begin of a file is zeros, because a process wrote on where it was when another one had emptied the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileHole {
    /// So many zeros.
    pub bytes: u64,
    /// The id of the process that emptied the file, as that of a stream.
    pub emptied_by: u32,
    /// When it did so, from the begin of the window, ns.
    pub at_ns: u64,
}

/// What a process wrote to an open file, or read from it as its standard input, by calls that go on where the last one ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedStream {
    /// Index in `recorded`.
    pub process: usize,
    /// In the PID namespace of pipeprof; in the initial one if it has none there.
    pub pid: u32,
    /// The last part of the path, up to 31 bytes.
    pub file: String,
    pub inode: u64,
    pub device: u32,
    /// The same number for all that share it, since one of them opened it.
    pub opened: u64,
    pub writes: bool,
    pub calls: u64,
    pub bytes: u64,
    /// Reads that got the end of file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at_end: u64,
    /// Whether it writes at the end of the file only (O_APPEND).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub appends: bool,
    /// Whether a shell has it open as the script that it executes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub script: bool,
    /// The first byte, and that behind the last one.
    pub range: [u64; 2],
    /// How often a call began elsewhere than the one before had ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub moves: u64,
    /// Calls that ended with a line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lines: u64,
    /// Whether the last one that moved something did not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unended: bool,
    /// How often another one wrote after a call that did not end with a line, before the next one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub split: u64,
    /// Bytes written when the file had no name any more, and since when, from the begin of the window, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<[u64; 2]>,
    /// Where it wrote on after another process had emptied the file, the id of that process, and when that was, from the begin of the
    /// window, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hole: Option<FileHole>,
    /// Children that it forked began with what it wrote first after the fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubled: Option<DoubledBuffer>,
    /// The bytes of the largest call.
    pub block: u64,
    /// Calls of so many bytes.
    pub blocks: u64,
    /// The first and the last call, from the begin of the window, ns.
    pub moved_ns: [u64; 2],
}

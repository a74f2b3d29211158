//! What processes did with files by their names.

use crate::defaults::is_default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a process did with the name of a file that another one used, too, or that it used in several ways.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedFile {
    /// Index in `recorded`.
    pub process: usize,
    /// In the PID namespace of pipeprof; in the initial one if it has none there.
    pub pid: u32,
    /// As the process gave it, up to 127 bytes; of a socket of TCP, `port 80`.
    pub path: String,
    /// The inode of the folder that it begins at, if it is relative.
    #[serde(default, skip_serializing_if = "is_default")]
    pub folder: u64,
    pub does: NameUse,
    /// Why it failed; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<NameError>,
    pub calls: u64,
    /// The first and the last call, from the begin of the window, ns.
    pub at_ns: [u64; 2],
    /// The inode of what was opened; 0 if nothing was.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inode: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: u32,
    /// The bytes of the file when it had been opened last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size: u64,
    /// Whether it was the standard output of the process, too; if it was opened to be emptied, the standard input.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both_ends: bool,
    /// The id of a process that does not run any more, if that is all that the file has and it is older than the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_by: Option<u32>,
    /// Whether it is a file of a socket, in vain bound to or connected to, that no socket had any more at the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unbound: bool,
    /// When the process ended, from the begin of the window, ns; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// The exit code of the process, if that was not 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
}

impl NamedFile {
    /// The last part of its path.
    pub fn last_name(&self) -> &str {
        let path = self.path.trim_end_matches('/');
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Whether it is by its name a lock, or has the id of a process.
    pub fn is_of_lock(&self) -> bool {
        [".pid", "lock", ".lck"].iter().any(|end| self.path.ends_with(end))
    }

    /// Whether it is by its name a log of SQLite, which comes and goes with each change (sqlite.org/tempfiles.html).
    pub fn is_of_sqlite(&self) -> bool {
        ["-journal", "-wal"].iter().any(|end| self.path.ends_with(end))
    }

    /// Whether it is the address of a socket, in vain connected to (ECONNREFUSED) or bound to (EADDRINUSE).
    pub fn is_failed_address(&self) -> bool {
        matches!(self.error, Some(NameError::Refused | NameError::InUse))
    }

    /// Whether both paths name the same place. A relative one and an absolute one do if one ends with the other.
    pub fn is_same_place(&self, other: &Self) -> bool {
        let [one, second] = [self, other].map(|file| file.path.trim_end_matches('/'));
        match [self, other].map(|file| file.folder > 0) {
            [true, true] => self.folder == other.folder && one == second,
            [false, false] => one == second,
            [true, false] => second.ends_with(&format!("/{one}")),
            [false, true] => one.ends_with(&format!("/{second}")),
        }
    }
}

/// When a process that used a name lived, or one before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessLife {
    /// In the PID namespace of pipeprof; in the initial one if it has none there.
    pub pid: u32,
    /// Who started it; 0 if that is not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent: u32,
    /// From its first exec, or from when it was forked, to its end, from the begin of the window, ns.
    pub lived_ns: [u64; 2],
}

/// What is done with a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NameUse {
    /// It is asked about, or changed without being opened.
    #[default]
    Looks,
    /// An opening that failed.
    Opens,
    /// It is opened to be read.
    Reads,
    /// The same to be written.
    Writes,
    /// The same, and created if it does not exist.
    Creates,
    /// The same, and emptied if it exists (O_TRUNC).
    Empties,
    /// A folder or link is created.
    Makes,
    Removes,
    /// Something gets this name, which is then no longer that of another file.
    Renames,
    /// A socket asks for a connection to this address.
    Connects,
    /// A socket gets this address.
    Binds,
    /// A socket that has this address takes connections from then on.
    Listens,
    /// What happens to it is to be told (inotify).
    Watches,
}

/// Why a name could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NameError {
    /// ENOENT
    Missing,
    /// EEXIST
    Exists,
    /// ENOTEMPTY
    NotEmpty,
    /// ECONNREFUSED
    Refused,
    /// EADDRINUSE
    InUse,
    /// For a reason that programs do not expect: `refusal` of the process has it.
    Denied,
}

//! All processes of the machine: what they have open, and for whom they wait, by a few looks into /proc.
//!
//! [`ends`] says who has the ends of each channel open, [`chains`] follows waits to their cause, [`tally`] adds up what was
//! seen at each look, and [`moved`] has what BPF programs count meanwhile.

pub(crate) mod chains;
mod ends;
#[cfg(test)]
mod made;
pub(crate) mod moved;
pub(crate) mod tally;

use crate::record::observe::thread_calls::{ThreadNow, threads};
use crate::record::start::command_line::{self, program_name};
use crate::record::start::open_files::{FileKind, OpenFile, first_open_files};
use crate::record::start::socket_peers::{SocketPeer, socket_peers};
use crate::util::process_stat::{self, ProcessStat};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Further processes, and further open ends, are not looked at.
const MOST_PROCESSES: usize = 65_536;
const MOST_FILES: usize = 1 << 20;

/// Descriptors of one process that are looked at, so that no process hides the others.
const MOST_OF_ONE: usize = 1 << 16;

/// Workers of the kernel are children of this process.
const KERNEL_THREADS: u32 = 2;

/// A process, as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineProcess {
    /// Tells it from an earlier one with its id.
    pub started: u64,
    pub parent: u32,
    /// As in /proc/PID/stat: `R`, `S`, `T`.
    pub state: char,
    comm: String,
    /// Its program and script.
    pub name: String,
    /// Channels, and epolls of these; absent if they cannot be read.
    pub files: Option<Vec<OpenFile>>,
    /// Of those that have a channel open; absent if they cannot be read.
    pub threads: Option<Vec<ThreadNow>>,
}

impl MachineProcess {
    pub(crate) fn file(&self, fd: u32) -> Option<&OpenFile> {
        self.files.as_ref()?.iter().find(|file| file.fd == fd)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    fn has_channels(&self) -> bool {
        self.files.as_ref().is_some_and(|files| files.iter().any(|file| !matches!(file.kind, FileKind::Poll(_))))
    }
}

/// All processes at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineNow {
    pub processes: BTreeMap<u32, MachineProcess>,
    /// The peers of sockets.
    pub peers: HashMap<u64, SocketPeer>,
    /// Processes that were left out, because there were too many or they had too much open.
    pub left_out: u64,
}

impl MachineNow {
    /// Look at all processes. `whole`: read again what all of them have open, and not only what new ones have.
    pub(crate) fn look(&mut self, whole: bool) {
        self.left_out = 0;
        if whole || self.peers.is_empty() {
            self.peers = socket_peers();
        }
        let mut before = std::mem::take(&mut self.processes);
        let (mut files, mut parents) = (0, BTreeSet::new());
        for (pid, stat) in process_stat::all() {
            let is_kernel = pid == KERNEL_THREADS || stat.parent == KERNEL_THREADS;
            if is_kernel || matches!(stat.state, 'Z' | 'X') {
                continue;
            }
            if self.processes.len() >= MOST_PROCESSES || files >= MOST_FILES {
                self.left_out += 1;
                continue;
            }
            // One with the same id, that time, and program is the same.
            let same = |known: &MachineProcess| known.started == stat.started && known.comm == stat.name;
            let known = before.remove(&pid).filter(|known| !whole && same(known));
            let mut process = known.unwrap_or_else(|| self.read(pid));
            files += process.files.as_ref().map_or(0, Vec::len);
            parents.insert(stat.parent);
            let ProcessStat { name, state, parent, started, .. } = stat;
            (process.state, process.parent, process.started, process.comm) = (state, parent, started, name);
            if process.name.is_empty() {
                process.name.clone_from(&process.comm);
            }
            process.threads = None;
            self.processes.insert(pid, process);
        }
        for (pid, process) in &mut self.processes {
            if process.has_channels() {
                process.threads = threads(*pid, process.files.as_deref().unwrap_or_default());
            }
        }
    }

    /// What a process has open, and its name.
    fn read(&self, pid: u32) -> MachineProcess {
        let is_channel = |file: &OpenFile| match &file.kind {
            FileKind::Pipe(..) | FileKind::Terminal { .. } | FileKind::Poll(_) => true,
            FileKind::Socket(inode) => self.peers.contains_key(inode),
            _ => false,
        };
        let files = first_open_files(pid, MOST_OF_ONE).ok();
        let files = files.map(|all| all.into_iter().filter(is_channel).collect());
        let mut process = MachineProcess { files, ..MachineProcess::default() };
        if process.has_channels()
            && let Some(stat) = ProcessStat::of(pid)
        {
            process.name = program_name(&stat.name, &command_line::of_process(pid));
        }
        process
    }

    /// Processes whose files could not be read.
    pub(crate) fn unreadable(&self) -> u64 {
        self.processes.values().filter(|process| process.files.is_none()).count() as u64
    }
}

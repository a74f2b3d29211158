//! Machines for tests.

use super::{MachineNow, MachineProcess};
use crate::record::observe::thread_calls::{AwaitedFiles, ThreadCall, ThreadNow};
use crate::record::start::launch::MadePipe;
use crate::record::start::open_files::{FileKind, OpenFile};

/// The pipe of this number, open for writing or reading. Its descriptor is its place.
pub(crate) type MadeEnd = (u64, bool);

/// Processes 1, 2 and so on, each with its parent, ends and the calls of its threads.
pub(crate) fn machine(processes: &[(u32, &[MadeEnd], &[ThreadCall])]) -> MachineNow {
    let process = |(parent, ends, calls): &(u32, &[MadeEnd], &[ThreadCall])| {
        let file = |(fd, (inode, writes)): (u32, &MadeEnd)| {
            let kind = FileKind::Pipe(MadePipe { inode: *inode, device: 7 }, None);
            OpenFile { fd, kind, reads: !writes, writes: *writes }
        };
        let thread = |(tid, call): (u32, &ThreadCall)| ThreadNow { tid, sleeps: 1, call: call.clone() };
        MachineProcess {
            parent: *parent,
            state: 'S',
            files: Some((0..).zip(*ends).map(file).collect()),
            threads: Some((1..).zip(*calls).map(thread).collect()),
            ..MachineProcess::default()
        }
    };
    MachineNow { processes: (1..).zip(processes.iter().map(process)).collect(), ..MachineNow::default() }
}

pub(crate) fn waits_at(fd: u32, room: bool) -> ThreadCall {
    ThreadCall::Files(AwaitedFiles { any: vec![(fd, room)], ..AwaitedFiles::default() })
}

//! Who waits for whom at one moment, as /proc shows it: the sleeping threads of recorded processes, the processes that
//! have the other ends of their channels open, those for which these wait, and so on.
//!
//! Nothing stands still while it is read. What is read counts only for sleeps that were the same before and afterwards.

use crate::record::observe::channel_kind::kind_of;
use crate::record::observe::event_source;
use crate::record::observe::file_locks::FileLocks;
use crate::record::observe::raw::PR_TERMINAL;
use crate::record::observe::shared_memory::{self, SharedMemory};
use crate::record::observe::thread_calls::{ThreadCall, ThreadNow, threads};
use crate::record::start::command_line::{self, program_name};
use crate::record::start::container;
use crate::record::start::open_files::{FileKind, OpenFile, open_files};
use crate::record::start::socket_peers::{SocketPeer, socket_peers};
use crate::result::{
    AwaitedChannel, ChannelHolder, ChannelKind, EndedChild, EventSource, EventWait, LastWait, SeenProcess, WaitedFor,
};
use crate::util::process_stat::{self, ProcessStat};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, tcgetattr};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;

/// Recorded processes of which more are not looked at, and waits that are kept.
const MOST_PROCESSES: usize = 512;
const MOST_WAITS: usize = 256;

/// Inode and device of a channel.
pub(crate) type ChannelKey = (u64, u32);

/// A process, as it was read.
#[derive(Debug, Default)]
pub(crate) struct ProcessNow {
    pub parent: u32,
    /// Its program and script.
    pub name: String,
    /// Absent if they cannot be read.
    pub files: Option<Vec<OpenFile>>,
    /// Absent unless somebody waits for it.
    pub threads: Option<Vec<ThreadNow>>,
}

/// Processes at one moment.
#[derive(Debug, Default)]
pub(crate) struct ProcessesNow {
    pub processes: BTreeMap<u32, ProcessNow>,
    /// Of files, for which processes wait.
    pub locks: FileLocks,
    /// Who has memory in which some of them wait for a lock or semaphore.
    pub shared: HashMap<SharedMemory, Option<Vec<u32>>>,
    /// The peers of sockets.
    pub peers: HashMap<u64, SocketPeer>,
    /// By parent: children that have ended and for which it has not waited.
    pub unreaped: BTreeMap<u32, Vec<EndedChild>>,
}

impl ProcessesNow {
    /// Read `followed` and all that they wait for. `None` if too little can be read.
    pub(crate) fn read(followed: &BTreeSet<u32>) -> Option<Self> {
        if followed.len() > MOST_PROCESSES {
            return None;
        }
        let mut now = Self { peers: socket_peers(), ..Self::default() };
        for (pid, stat) in process_stat::all().filter(|(_, stat)| stat.state != 'X') {
            if stat.state == 'Z' {
                let child = EndedChild { pid, name: stat.name, status: stat.ended_with };
                now.unreaped.entry(stat.parent).or_default().push(child);
                continue;
            }
            let name = program_name(&stat.name, &command_line::of_process(pid));
            let files = match open_files(pid) {
                // What it holds is unknown, and so is who could end a wait.
                Err(error) if error.kind() == ErrorKind::PermissionDenied && followed.contains(&pid) => return None,
                files => files.ok(),
            };
            now.processes.insert(pid, ProcessNow { parent: stat.parent, name, files, threads: None });
        }
        let mut wanted: Vec<u32> = followed.iter().copied().collect();
        while let Some(pid) = wanted.pop() {
            let Some(process) = now.processes.get_mut(&pid).filter(|process| process.threads.is_none()) else {
                continue;
            };
            process.threads = Some(threads(pid, process.files.as_deref().unwrap_or_default()).unwrap_or_else(busy));
            if now.threads(pid).iter().any(|thread| matches!(thread.call, ThreadCall::Lock(_))) {
                let files = now.processes.iter().map(|(pid, of)| (*pid, of.files.as_deref().unwrap_or_default()));
                now.locks.find(pid, files);
            }
            for memory in now.awaited_memory(pid) {
                let found = shared_memory::with(&memory, pid, now.processes.keys().copied());
                now.shared.insert(memory, found);
            }
            wanted.extend(now.threads(pid).iter().flat_map(|thread| now.enders(pid, &thread.call, false).0));
        }
        for (pid, process) in &mut now.processes {
            let Some(before) = &mut process.threads else { continue };
            let after = threads(*pid, process.files.as_deref().unwrap_or_default()).unwrap_or_else(busy);
            let unchanged = |thread: &ThreadNow| {
                let same = |other: &&ThreadNow| other.tid == thread.tid && other.call == thread.call;
                before.iter().find(same).is_some_and(|other| other.sleeps == thread.sleeps || looks_again(thread))
            };
            *before = after
                .iter()
                .map(|thread| {
                    if unchanged(thread) {
                        thread.clone()
                    } else {
                        ThreadNow { call: ThreadCall::Busy, ..thread.clone() }
                    }
                })
                .collect();
        }
        let told: Vec<u32> = now.processes.keys().copied().filter(|pid| now.only_a_child_ends(*pid)).collect();
        for pid in told.into_iter().filter(|pid| process_stat::handles(*pid, libc::SIGCHLD)) {
            now.wait_by_signal(pid);
        }
        Some(now)
    }

    /// Whether all threads of a process sleep without a time for each other only, and it has children: if it has a handler of
    /// SIGCHLD, that one wakes them, as in Ruby.
    fn only_a_child_ends(&self, pid: u32) -> bool {
        let waits = |thread: &ThreadNow| match &thread.call {
            ThreadCall::Thread => true,
            ThreadCall::Files(awaited) => {
                !awaited.any.is_empty() && !awaited.limited && awaited.any.iter().all(|of| self.is_own(pid, of))
            }
            _ => false,
        };
        let threads = self.threads(pid);
        let is_parent = || self.processes.values().any(|child| child.parent == pid);
        threads.iter().any(|thread| thread.call == ThreadCall::Thread) && threads.iter().all(waits) && is_parent()
    }

    /// A thread that sleeps until another one wakes it waits for a child.
    fn wait_by_signal(&mut self, pid: u32) {
        let threads = self.processes.get_mut(&pid).and_then(|process| process.threads.as_mut());
        let mut asleep = threads.into_iter().flatten().filter(|thread| thread.call == ThreadCall::Thread);
        if let Some(thread) = asleep.next() {
            thread.call = ThreadCall::Child(None);
        }
    }

    /// Read who of these processes has the locks of files for which some of them wait.
    pub(crate) fn read_locks(&mut self, waiting: &[u32]) {
        self.locks = FileLocks::default();
        for pid in waiting {
            let files = self.processes.iter().map(|(pid, of)| (*pid, of.files.as_deref().unwrap_or_default()));
            self.locks.find(*pid, files);
        }
    }

    /// Memory in which threads of a process wait, of which it is not known yet who has it.
    fn awaited_memory(&self, pid: u32) -> BTreeSet<SharedMemory> {
        let memory = self.threads(pid).iter().filter_map(|thread| match &thread.call {
            ThreadCall::Shared(memory) => memory.clone(),
            _ => None,
        });
        memory.filter(|memory| !self.shared.contains_key(memory)).collect()
    }

    fn threads(&self, pid: u32) -> &[ThreadNow] {
        self.processes.get(&pid).and_then(|process| process.threads.as_deref()).unwrap_or_default()
    }

    fn file(&self, pid: u32, fd: u32) -> Option<&OpenFile> {
        self.processes.get(&pid)?.files.as_ref()?.iter().find(|file| file.fd == fd)
    }

    /// The processes that have a file open of which `is` holds, each with its first descriptor.
    fn holders(&self, is: impl Fn(&OpenFile) -> bool) -> Vec<(u32, u32)> {
        let first = |files: &Vec<OpenFile>| files.iter().filter(|file| is(file)).map(|file| file.fd).min();
        let with = self.processes.iter().filter_map(|(pid, process)| Some((*pid, first(process.files.as_ref()?)?)));
        with.collect()
    }

    /// The processes, each with its descriptor, that can end a wait for this file of a process; `None` if others can, too.
    fn at_other_end(&self, file: &OpenFile, room: bool) -> Option<Vec<(u32, u32)>> {
        let found = match &file.kind {
            FileKind::Pipe(pipe, _) => self.holders(|other| {
                matches!(&other.kind, FileKind::Pipe(same, _) if same == pipe)
                    && if room { other.reads } else { other.writes }
            }),
            FileKind::Socket(inode) => {
                let peer = self.peers.get(inode)?.inode;
                self.holders(|other| other.kind == FileKind::Socket(peer))
            }
            FileKind::Terminal { id, is_master } => {
                let other = FileKind::Terminal { id: *id, is_master: !is_master };
                self.holders(|file| file.kind == other)
            }
            FileKind::Event(_) => self.holders(|other| other.kind == file.kind),
            FileKind::Process(pid) => vec![(*pid, 0)],
            FileKind::IdleTimer => return Some(Vec::new()),
            FileKind::Poll(_) | FileKind::Other => return None,
        };
        (!found.is_empty()).then_some(found)
    }

    /// The processes at the other ends of a process's pipes.
    pub(crate) fn neighbours(&self, pid: u32) -> Vec<u32> {
        let files = self.processes.get(&pid).and_then(|process| process.files.as_deref()).unwrap_or_default();
        let sides = |file: &OpenFile| [(file.reads, false), (file.writes, true)];
        let pipes = files.iter().filter(|file| matches!(file.kind, FileKind::Pipe(..)));
        let ends = pipes.flat_map(|file| sides(file).map(|side| (file, side))).filter(|(_, (is_open, _))| *is_open);
        let found = ends.filter_map(|(file, (_, room))| self.at_other_end(file, room)).flatten();
        found.map(|(other, _)| other).filter(|other| *other != pid).collect()
    }

    /// The processes of which any thread can end this sleep of a thread of `pid`, and whether nothing else can; `patient`:
    /// but for its time.
    pub(crate) fn enders(&self, pid: u32, call: &ThreadCall, patient: bool) -> (Vec<u32>, bool) {
        match call {
            ThreadCall::Busy | ThreadCall::Idle | ThreadCall::Opening { .. } => (Vec::new(), false),
            ThreadCall::Shared(memory) => {
                let found = memory.as_ref().and_then(|memory| self.shared.get(memory)?.clone());
                (found.clone().unwrap_or_default(), found.is_some())
            }
            ThreadCall::Thread => (vec![pid], true),
            ThreadCall::Lock(_) => {
                let holders = self.locks.holders.get(&pid).cloned().unwrap_or_default();
                let known = !holders.is_empty();
                (holders, known)
            }
            ThreadCall::Child(Some(child)) => (vec![*child], true),
            ThreadCall::Child(None) => {
                let children = self.processes.iter().filter(|(_, process)| process.parent == pid);
                (children.map(|(pid, _)| *pid).collect(), true)
            }
            ThreadCall::Files(awaited) => {
                let ends = |(fd, room): &(u32, bool)| self.at_other_end(self.file(pid, *fd)?, *room);
                let found: Vec<Option<Vec<(u32, u32)>>> = awaited.any.iter().map(ends).collect();
                let known = (patient || !awaited.limited) && found.iter().all(Option::is_some);
                let all: BTreeSet<u32> = found.into_iter().flatten().flatten().map(|(pid, _)| pid).collect();
                (all.into_iter().collect(), known)
            }
        }
    }

    /// The threads that sleep until another one of them does something, by process and number. `patient`: what only looks
    /// again after a time does not count as something else that a thread could do.
    fn endless(&self, patient: bool) -> BTreeSet<(u32, u32)> {
        let mut enders: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for pid in self.processes.keys() {
            for thread in self.threads(*pid) {
                let (found, known) = self.enders(*pid, &thread.call, patient);
                enders.extend((known && !found.is_empty()).then_some(((*pid, thread.tid), found)));
            }
        }
        loop {
            let stands = |pid: u32, thread: &ThreadNow| {
                enders.contains_key(&(pid, thread.tid)) || patient && looks_again(thread)
            };
            let sleeps = |pid: &u32| {
                let threads = self.threads(*pid);
                // What only looks again has its own time.
                threads.iter().any(|thread| enders.contains_key(&(*pid, thread.tid)))
                    && threads.iter().all(|thread| stands(*pid, thread))
            };
            // Its own process can end it by another thread only.
            let is_alone = |(pid, tid): &(u32, u32), ender: &u32| {
                let others = || self.threads(*pid).iter().filter(|thread| thread.tid != *tid);
                ender == pid && others().all(|thread| stands(*pid, thread))
            };
            let ends = |of: &(u32, u32), found: &[u32]| !found.iter().all(|ender| is_alone(of, ender) || sleeps(ender));
            let ended: Vec<(u32, u32)> =
                enders.iter().filter(|(thread, found)| ends(thread, found)).map(|(thread, _)| *thread).collect();
            if ended.is_empty() {
                return enders.into_keys().collect();
            }
            ended.iter().for_each(|thread| drop(enders.remove(thread)));
        }
    }

    fn seen(&self, pid: u32) -> SeenProcess {
        let name = self.processes.get(&pid).map(|process| process.name.clone()).unwrap_or_default();
        let threads = self.threads(pid);
        let is_idle = |thread: &ThreadNow| match &thread.call {
            ThreadCall::Idle | ThreadCall::Thread | ThreadCall::Shared(_) => true,
            // A pipe of its own, for its signals.
            ThreadCall::Files(awaited) => !awaited.any.is_empty() && awaited.any.iter().all(|of| self.is_own(pid, of)),
            _ => false,
        };
        let idle = !threads.is_empty() && threads.iter().all(is_idle);
        let stopped = ProcessStat::of(pid).is_some_and(|stat| matches!(stat.state, 'T' | 't'));
        let inner_pid = process_stat::inner_id(pid).filter(|inner| *inner != pid);
        let container = container::of_process(pid);
        let unreaped = self.unreaped.get(&pid).cloned().unwrap_or_default();
        let threads = threads.len();
        SeenProcess { pid, inner_pid, name, recorded: None, container, stopped, idle, threads, unreaped }
    }

    /// The waits for others, those of `followed` first.
    pub(crate) fn waits(&self, followed: &BTreeSet<u32>) -> Vec<LastWait> {
        let [endless, stuck] = [false, true].map(|patient| self.endless(patient));
        let mut order: Vec<u32> = self.processes.keys().copied().collect();
        order.sort_by_key(|pid| (!followed.contains(pid), *pid));
        let mut waits = Vec::new();
        for (pid, thread) in order.iter().flat_map(|pid| self.threads(*pid).iter().map(move |thread| (*pid, thread))) {
            let awaited = self.awaited(pid, &thread.call);
            let [endless, stuck] = [&endless, &stuck].map(|threads| threads.contains(&(pid, thread.tid)));
            waits.extend(awaited.map(|awaited| LastWait { process: self.seen(pid), awaited, endless, stuck }));
        }
        waits.truncate(MOST_WAITS);
        waits
    }

    /// The sleeps of `followed` that no channel of processes ends.
    pub(crate) fn events(&self, followed: &BTreeSet<u32>) -> Vec<EventWait> {
        let all = followed.iter().flat_map(|pid| self.threads(*pid).iter().map(|thread| (*pid, &thread.call)));
        let wait = |(pid, call): (u32, &ThreadCall)| {
            let ThreadCall::Files(awaited) = call else { return None };
            let mut any = BTreeSet::new();
            for (fd, room) in &awaited.any {
                let Some(file) = self.file(pid, *fd) else { continue };
                if self.is_own(pid, &(*fd, *room)) {
                    any.insert(EventSource::OwnThreads);
                } else if channel_of(file, *room, &self.peers).is_some() {
                    return None;
                } else {
                    any.insert(event_source::of(pid, file));
                }
            }
            Some(EventWait { process: self.seen(pid), any, limited: awaited.limited })
        };
        all.filter_map(wait).take(MOST_WAITS).collect()
    }

    /// Those of `followed` that sleep, have a handler of SIGCHLD, and children that have ended for which they have not waited.
    pub(crate) fn neglecting(&self, followed: &BTreeSet<u32>) -> Vec<SeenProcess> {
        let of_both = followed.iter().filter(|pid| self.unreaped.contains_key(pid));
        of_both.filter(|pid| process_stat::handles(**pid, libc::SIGCHLD)).map(|pid| self.seen(*pid)).collect()
    }

    /// The processes that have a FIFO open which was deleted and had this path.
    fn with_deleted(&self, path: &str) -> Vec<u32> {
        let is_deleted = |file: &OpenFile| match &file.kind {
            FileKind::Pipe(_, Some(of)) => of.strip_suffix(" (deleted)") == Some(path),
            _ => false,
        };
        self.holders(is_deleted).into_iter().map(|(pid, _)| pid).collect()
    }

    /// Whether a process that waits has another thread, which runs.
    pub(crate) fn has_busy_thread_of(&self, waits: &[LastWait]) -> bool {
        let busy = |pid: u32| self.threads(pid).iter().any(|thread| thread.call == ThreadCall::Busy);
        waits.iter().any(|wait| busy(wait.process.pid))
    }

    fn awaited(&self, pid: u32, call: &ThreadCall) -> Option<WaitedFor> {
        match call {
            ThreadCall::Busy | ThreadCall::Idle => None,
            ThreadCall::Thread => Some(WaitedFor::Thread),
            ThreadCall::Shared(memory) => {
                let (holders, _) = self.enders(pid, call, false);
                let path = memory.as_ref().and_then(|memory| memory.path.clone());
                Some(WaitedFor::Shared { holders: holders.into_iter().map(|pid| self.seen(pid)).collect(), path })
            }
            ThreadCall::Lock(fd) => {
                let (holders, _) = self.enders(pid, call, false);
                let path = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
                let holders = holders.into_iter().map(|pid| self.seen(pid)).collect();
                let inherited = self.locks.inherited.contains(&pid);
                Some(WaitedFor::Lock { path: path.to_string_lossy().into_owned(), holders, inherited })
            }
            ThreadCall::Opening { folder, path, writes } => {
                let whole = whole_path(pid, *folder, path);
                let deleted = self.with_deleted(&whole).into_iter().map(|pid| self.seen(pid)).collect();
                let file = std::fs::metadata(format!("/proc/{pid}/root{whole}"));
                let age = file.as_ref().ok().and_then(|file| file.created().ok()?.elapsed().ok());
                let age_ns = age.and_then(|age| u64::try_from(age.as_nanos()).ok());
                let removed = match file {
                    Ok(file) => !file.file_type().is_fifo(),
                    Err(error) => error.kind() == std::io::ErrorKind::NotFound,
                };
                let path = if folder.is_some() { shown_path(pid, &whole) } else { path.clone() };
                Some(WaitedFor::Opening { path, writes: *writes, deleted, removed, age_ns })
            }
            ThreadCall::Child(_) => {
                let (children, _) = self.enders(pid, call, false);
                Some(WaitedFor::Children(children.into_iter().map(|pid| self.seen(pid)).collect()))
            }
            ThreadCall::Files(awaited) => {
                let channel = |(fd, room): &(u32, bool)| {
                    let file = self.file(pid, *fd)?;
                    let found = self.channel(file, *room)?;
                    let error = self.channel_key(pid, libc::STDERR_FILENO as u32, *room);
                    let is_error = error == Some((found.inode, found.device));
                    let is_typed = !room && matches!(file.kind, FileKind::Terminal { is_master: false, .. });
                    Some(AwaitedChannel { is_error, hidden: is_typed && hides_typing(pid, *fd), ..found })
                };
                let any: Vec<AwaitedChannel> = awaited.any.iter().filter_map(channel).collect();
                let is_other = |entry: &&(u32, bool)| channel(entry).is_none() && !self.is_own(pid, entry);
                let others = awaited.any.iter().filter(is_other).count() as u64;
                let is_known = !any.is_empty();
                is_known.then_some(WaitedFor::Channels {
                    any,
                    others,
                    polled: awaited.polled,
                    limited: awaited.limited,
                })
            }
        }
    }

    /// Whether only the process has the other end of this descriptor itself: that is for its own threads.
    fn is_own(&self, pid: u32, (fd, room): &(u32, bool)) -> bool {
        let holders = self.file(pid, *fd).and_then(|file| self.at_other_end(file, *room));
        holders.is_some_and(|holders| holders.iter().all(|(holder, _)| *holder == pid))
    }

    /// The channel of a descriptor that is read or, for `room`, written.
    pub(crate) fn channel_key(&self, pid: u32, fd: u32, room: bool) -> Option<ChannelKey> {
        channel_of(self.file(pid, fd)?, room, &self.peers).map(|(_, key)| key)
    }

    /// The channel of a file, if it is one.
    fn channel(&self, file: &OpenFile, room: bool) -> Option<AwaitedChannel> {
        let (kind, (inode, device)) = channel_of(file, room, &self.peers)?;
        let path = path_of(file);
        let holders = self.at_other_end(file, room).unwrap_or_default();
        let holder = |(pid, fd): (u32, u32)| ChannelHolder { process: self.seen(pid), fd };
        let holders = holders.into_iter().map(holder).collect();
        let peer = if let FileKind::Socket(inode) = &file.kind { self.peers.get(inode) } else { None };
        let unaccepted = peer.is_some_and(|peer| peer.unaccepted);
        let (fd, is_error, hidden) = (file.fd, false, false);
        Some(AwaitedChannel { kind, inode, device, path, fd, is_error, hidden, room, unaccepted, holders })
    }
}

/// The channel of an open file that is read or, for `room`, written.
pub(crate) fn channel_of(
    file: &OpenFile,
    room: bool,
    peers: &HashMap<u64, SocketPeer>,
) -> Option<(ChannelKind, ChannelKey)> {
    Some(match &file.kind {
        // Who polls the end that it writes, as `tail -f` does, waits for the end of its reader.
        FileKind::Pipe(..) if room && !file.writes || !room && !file.reads => return None,
        FileKind::Pipe(pipe, path) => {
            let kind = if path.is_none() { ChannelKind::Pipe } else { ChannelKind::Fifo };
            (kind, (pipe.inode, pipe.device))
        }
        FileKind::Socket(inode) => {
            let peer = peers.get(inode)?;
            // Each direction is named by its receiver.
            (kind_of(peer.device), (peer.channels[usize::from(room)], peer.device))
        }
        FileKind::Terminal { id, is_master } => {
            // As the BPF programs number its directions: what its master reads is the odd one.
            let inode = id + 2 + u64::from(*is_master != room);
            (ChannelKind::Pty, (inode, PR_TERMINAL as u32))
        }
        _ => return None,
    })
}

/// The path of a FIFO or a terminal.
pub(crate) fn path_of(file: &OpenFile) -> Option<String> {
    match &file.kind {
        FileKind::Pipe(_, path) => path.clone(),
        FileKind::Terminal { id, .. } => Some(format!("/dev/pts/{}", (id & u64::from(u32::MAX)) / 2)),
        _ => None,
    }
}

/// Whether the terminal that is this descriptor of a process gives lines that it does not show while they are typed, as
/// `getpass` sets it.
fn hides_typing(pid: u32, fd: u32) -> bool {
    // To open it must not make it the terminal of this process.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let modes = rustix::fs::open(format!("/proc/{pid}/fd/{fd}"), flags, Mode::empty())
        .and_then(|terminal| tcgetattr(&terminal));
    modes.is_ok_and(|now| now.local_modes & (LocalModes::ICANON | LocalModes::ECHO) == LocalModes::ICANON)
}

/// A path that a process uses, from its descriptor of a folder, or else from its working directory.
fn whole_path(pid: u32, folder: Option<u32>, path: &str) -> String {
    let of = folder.map_or_else(|| "cwd".to_owned(), |fd| format!("fd/{fd}"));
    let folder = std::fs::read_link(format!("/proc/{pid}/{of}")).unwrap_or_default();
    // An absolute path replaces the folder.
    folder.join(path).to_string_lossy().into_owned()
}

/// A path as a person in the working directory of the process would write it.
fn shown_path(pid: u32, whole: &str) -> String {
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    std::path::Path::new(whole)
        .strip_prefix(folder)
        .map_or_else(|_| whole.to_owned(), |path| path.display().to_string())
}

/// Whether a thread only sleeps until a time, and then may look again.
fn looks_again(thread: &ThreadNow) -> bool {
    match &thread.call {
        ThreadCall::Idle => true,
        ThreadCall::Files(awaited) => awaited.limited,
        _ => false,
    }
}

/// What is known of a process whose threads cannot be read.
fn busy() -> Vec<ThreadNow> {
    vec![ThreadNow { tid: 0, sleeps: 0, call: ThreadCall::Busy }]
}

#[cfg(test)]
mod tests;

//! Processes that are already running: their pipes, and the processes at the other ends. Nothing of them is opened: an
//! end held open would take away the end of file or SIGPIPE.

use crate::record::observe::path::KnownEnd;
use crate::record::observe::thread_calls::{ThreadCall, ThreadNow, threads};
use crate::record::start::cgroup::Cgroup;
use crate::record::start::launch::MadePipe;
use crate::record::start::open_files::{FileKind, open_files};
use crate::record::start::socket_peers::unnamed_pairs;
use crate::record::start::{command_line, container};
use crate::result::{HeldBy, MeasuredTarget, ProcessGroup, RecordingTarget, UnrecordedProcess};
use crate::util::cancel;
use crate::util::process_stat::{self, ProcessStat};
use crate::util::text::counted;
use crate::util::warning::{Warning, WarningCode};
use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often it is looked whether the recording has to end.
const STEP: Duration = Duration::from_millis(20);

/// Processes are added until there are so many.
const MOST: usize = 512;

/// How often it is looked who has come into a cgroup, and of which part of the time looking may take.
const NEWCOMERS_EVERY: Duration = Duration::from_millis(50);
const NEWCOMERS_COST: u32 = 50;

/// From a container, processes outside of it are added that are so many pipes away: its engine may be connected to all others.
const OUTSIDE: u32 = 2;

/// A cgroup whose processes are recorded.
#[derive(Debug)]
struct WatchedCgroup {
    cgroup: Cgroup,
    /// Those that have been in it when it was last looked.
    known: BTreeSet<u32>,
    next: Instant,
}

/// Processes to record.
#[derive(Debug, Default)]
pub(crate) struct RunningProcesses {
    /// Those asked for, then those that are connected to them by pipes. Each is a stage, with its index as number.
    pub pids: Vec<u32>,
    /// The open ends of the pipes between them.
    pub ends: Vec<OpenEnd>,
    /// What other processes have open of the ends of those asked for.
    pub others: Vec<OtherEnd>,
    /// Those asked for, whose pipes could not be read, with the reason.
    unknown: Vec<(u32, String)>,
    /// Those of `pids`.
    command_lines: BTreeMap<u32, Vec<String>>,
    /// What has stopped those of `pids` that were stopped.
    stopped: BTreeMap<u32, HeldBy>,
    /// Those asked for.
    processes: Vec<OwnedFd>,
    /// The containers that they are in.
    containers: BTreeSet<String>,
    /// What was asked for, if it is no list of processes.
    pub group: Option<ProcessGroup>,
    cgroup: Option<WatchedCgroup>,
    /// Processes that were not added, because there are too many.
    left_out: u64,
}

/// An end of a pipe that a process has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenEnd {
    pub pipe: MadePipe,
    pub writes: bool,
    /// The index of the process.
    pub stage: u32,
}

/// An end of a pipe that a process has open which is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtherEnd {
    pub pipe: MadePipe,
    pub writes: bool,
    pub process: UnrecordedProcess,
}

impl RunningProcesses {
    /// The processes of `target`, and all that are connected to them by pipes, pairs of sockets, or terminals that they made.
    ///
    /// # Errors
    /// When the list is empty, a process does not exist, or a process is pipeprof itself.
    pub(crate) fn find(target: &RecordingTarget) -> Result<Self> {
        match target {
            RecordingTarget::Pipeline(_) => bail!("a pipeline that is not running yet has no processes"),
            RecordingTarget::All => bail!("all processes of a machine are not recorded one by one"),
            RecordingTarget::Attached(pids) => Self::of_processes(pids),
            RecordingTarget::Cgroup(path) => {
                let cgroup = Cgroup::named(path)?;
                Self::of_cgroup(cgroup, ProcessGroup::Cgroup(path.clone())).with_context(|| format!("--cgroup {path}"))
            }
            RecordingTarget::Container(wanted) => {
                let (container, cgroup) = container::find(wanted)?;
                Self::of_cgroup(cgroup, ProcessGroup::Container(container))
                    .with_context(|| format!("--container {wanted}"))
            }
        }
    }

    /// The processes of a cgroup and of those below, without this one.
    fn of_cgroup(cgroup: Cgroup, group: ProcessGroup) -> Result<Self> {
        let mut running = Self { group: Some(group), ..Self::default() };
        let mut asked_sides = BTreeSet::new();
        let pairs = unnamed_pairs();
        let members = cgroup.members();
        for pid in members.iter().copied().filter(|pid| *pid != std::process::id()) {
            if running.pids.len() >= MOST {
                running.left_out += 1;
                continue;
            }
            // It may have just ended.
            let opened =
                i32::try_from(pid).ok().and_then(Pid::from_raw).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
            let Some(Ok(process)) = opened.filter(|opened| opened.as_ref().is_ok_and(|process| !has_ended(process)))
            else {
                continue;
            };
            running.processes.push(process);
            asked_sides.extend(running.ask(pid, &pairs));
        }
        if running.pids.is_empty() {
            bail!("no process is in it");
        }
        running.add_others(asked_sides, &pairs);
        let next = Instant::now() + NEWCOMERS_EVERY;
        running.cgroup = Some(WatchedCgroup { cgroup, known: members, next });
        Ok(running)
    }

    /// Add a process that is asked for. Returns its sides.
    fn ask(&mut self, pid: u32, pairs: &HashMap<u64, u64>) -> BTreeSet<Side> {
        let open = sides_of(pid, pairs).unwrap_or_else(|error| {
            self.unknown.push((pid, error.to_string()));
            OpenSides::default()
        });
        self.containers.extend(container::id_of_process(pid));
        self.add(pid, open.sides.clone());
        open.sides
    }

    fn of_processes(asked: &[u32]) -> Result<Self> {
        let mut running = Self::default();
        let mut asked_sides = BTreeSet::new();
        let pairs = unnamed_pairs();
        for pid in asked.iter().copied() {
            if pid == std::process::id() {
                bail!("-p {pid}: pipeprof cannot record itself");
            }
            if running.pids.contains(&pid) {
                continue;
            }
            let number = i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| not_found(pid))?;
            running.processes.push(match pidfd_open(number, PidfdFlags::empty()) {
                Ok(process) if has_ended(&process) => {
                    bail!("-p {pid}: it has ended, but its parent has not waited for it")
                }
                Ok(process) => process,
                // INVAL, and NOENT since 6.13.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
                    bail!("-p {pid}: this is a thread; give the id of its process")
                }
                Err(rustix::io::Errno::SRCH) => bail!(not_found(pid)),
                Err(error) => return Err(error).with_context(|| format!("-p {pid}")),
            });
            asked_sides.extend(running.ask(pid, &pairs));
        }
        running.add_others(asked_sides, &pairs);
        Ok(running)
    }

    /// Add the processes at the other ends, those at the other ends of theirs, and so on, and the children of the session.
    /// Those that started pipeprof may be a terminal or a test with pipes to much else: only their own ends count. `asked`:
    /// the sides of those that were asked for. Processes in other containers are not added, and outside of theirs only some.
    fn add_others(&mut self, asked: BTreeSet<Side>, pairs: &HashMap<u64, u64>) {
        let all: BTreeMap<u32, ProcessStat> = process_stat::all().collect();
        let parent = |pid: &u32| all.get(pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
        let ancestors = |pid: u32| std::iter::successors(Some(pid), parent);
        let starters: BTreeSet<u32> = ancestors(std::process::id()).collect();
        let session = |pid: u32| all.get(&pid).map(|stat| stat.session);
        let mut waiting: BTreeMap<u32, bool> = BTreeMap::new();
        // A child that has a session of its own is a daemon, unless its parent waits for its end.
        let mut is_child = |pid: u32, of: &[u32]| {
            let own_session =
                ancestors(pid).skip(1).any(|parent| of.contains(&parent) && session(parent) == session(pid));
            own_session || {
                let links = ancestors(pid).zip(ancestors(pid).skip(1));
                let mut links = links.take_while(|(child, parent)| {
                    session(*parent) == session(*child)
                        || *waiting.entry(*parent).or_insert_with(|| waits_for_children(*parent))
                });
                links.any(|(_, parent)| of.contains(&parent))
            }
        };
        let named = self.pids.clone();
        let rest: BTreeMap<u32, OpenSides> = all
            .keys()
            .filter(|pid| !named.contains(pid) && **pid != std::process::id())
            .filter_map(|pid| Some((*pid, sides_of(*pid, pairs).ok()?)))
            .collect();
        let foreign = |pid: &u32| container::id_of_process(*pid).is_some_and(|id| !self.containers.contains(&id));
        let (mut elsewhere, mut rest): (BTreeMap<u32, OpenSides>, BTreeMap<u32, OpenSides>) =
            rest.into_iter().partition(|(pid, _)| foreign(pid));
        // How many pipes away the processes are that have these sides.
        let mut wanted: BTreeMap<Side, u32> = asked.iter().filter(leads).map(|side| (other_side(side), 1)).collect();
        let limit = if self.containers.is_empty() { u32::MAX } else { OUTSIDE };
        loop {
            let away = |(pid, open): (&u32, &OpenSides)| {
                let is_wanted = open.sides.iter().filter_map(|side| wanted.get(side)).min().copied();
                let mut inside = || is_child(*pid, &named) && !starters.contains(pid);
                Some((*pid, is_wanted.or_else(|| inside().then_some(0))?))
            };
            let Some((pid, away)) = rest.iter().find_map(away).filter(|_| self.pids.len() < MOST) else { break };
            let Some(OpenSides { sides, .. }) = rest.remove(&pid) else { break };
            if !starters.contains(&pid) && away < limit {
                for side in sides.iter().filter(leads).map(other_side) {
                    let known = wanted.entry(side).or_insert(u32::MAX);
                    *known = (*known).min(away + 1);
                }
            }
            self.add(pid, sides);
        }
        elsewhere.extend(rest);
        for (pid, OpenSides { sides, errors }) in elsewhere {
            self.others.extend(others(pid, sides.union(&errors).filter(is_pipe).filter(|side| asked.contains(side))));
        }
    }

    /// The processes asked for, each once.
    pub(crate) fn asked(&self) -> &[u32] {
        &self.pids[..self.processes.len()]
    }

    /// Find the processes that have come into the cgroup since this was last called and were not forked in it, as by `docker
    /// exec`. Returns their places in `pids`: once there are many, those of earlier ones that have ended.
    pub(crate) fn newcomers(&mut self) -> Vec<usize> {
        let Some(watched) = self.cgroup.as_mut().filter(|watched| watched.next <= Instant::now()) else {
            return Vec::new();
        };
        let begin = Instant::now();
        let members = watched.cgroup.members();
        // Children of those that are recorded are recorded, too.
        let is_child =
            |pid: &u32| ProcessStat::of(*pid).is_none_or(|stat| members.contains(&stat.parent) || stat.state == 'Z');
        let new: Vec<u32> = members.difference(&watched.known).copied().filter(|pid| !is_child(pid)).collect();
        watched.known = members;
        watched.next = Instant::now() + NEWCOMERS_EVERY.max(begin.elapsed() * NEWCOMERS_COST);
        let mut places = Vec::new();
        for pid in new.into_iter().filter(|pid| *pid != std::process::id()) {
            if self.pids.contains(&pid) {
                continue;
            }
            let has_ended = |at: &usize| ProcessStat::of(self.pids[*at]).is_none();
            let place = if self.pids.len() < MOST {
                Some(self.pids.len())
            } else {
                (self.processes.len()..MOST).find(has_ended)
            };
            let Some(place) = place else {
                self.left_out += 1;
                continue;
            };
            if let Some(before) = self.pids.get(place) {
                self.command_lines.remove(before);
                self.ends.retain(|end| end.stage as usize != place);
            }
            let sides = sides_of(pid, &HashMap::new()).unwrap_or_default().sides;
            self.put(place, pid, sides);
            places.push(place);
        }
        places
    }

    /// The open ends of the processes at these places.
    pub(crate) fn known_ends(&self, places: &[usize]) -> Vec<KnownEnd> {
        let ends = self.ends.iter().filter(|end| places.contains(&(end.stage as usize)));
        ends.map(|end| ((end.pipe.inode, end.pipe.device), end.writes, end.stage)).collect()
    }

    /// How many of those asked for have ended.
    pub(crate) fn ended(&self) -> usize {
        self.processes.iter().filter(|process| has_ended(process)).count()
    }

    /// Whether all that were asked for have ended.
    fn are_over(&self) -> bool {
        match &self.cgroup {
            Some(watched) => watched.known.iter().all(|pid| *pid == std::process::id()),
            None => self.processes.iter().all(has_ended),
        }
    }

    /// What was asked for, as it is stored.
    pub(crate) fn target(&self) -> MeasuredTarget {
        MeasuredTarget::Attached { pids: self.asked().to_vec(), group: self.group.clone() }
    }

    /// The words of one of `pids`; empty if they are not known.
    pub(crate) fn command_line(&self, pid: u32) -> &[String] {
        self.command_lines.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// What had stopped one of `pids` before.
    pub(crate) fn stopped_by(&self, pid: u32) -> Option<&HeldBy> {
        self.stopped.get(&pid)
    }

    /// What could not be read of those that were asked for.
    pub(crate) fn unknown_pipes(&self) -> Vec<Warning> {
        let warning = |(pid, why): &(u32, String)| Warning {
            code: WarningCode::PipesUnknown,
            message: format!(
                "the pipes of process {pid} cannot be read ({why}), so the processes at their other ends are not known"
            ),
            action: "record as root, or name these processes with -p as well".to_owned(),
        };
        let left_out = (self.left_out > 0).then(|| Warning {
            code: WarningCode::ProcessesNotRecorded,
            message: format!(
                "{} of the cgroup {} not recorded: at most {MOST} that run already are",
                counted(self.left_out, "process"),
                if self.left_out == 1 { "is" } else { "are" }
            ),
            action: "name a cgroup below it, or processes with -p".to_owned(),
        });
        self.unknown.iter().map(warning).chain(left_out).collect()
    }

    fn add(&mut self, pid: u32, sides: BTreeSet<Side>) {
        self.put(self.pids.len(), pid, sides);
    }

    /// Add a process at this place, which is the next one or that of a process that has ended.
    fn put(&mut self, place: usize, pid: u32, sides: BTreeSet<Side>) {
        let stage = u32::try_from(place).unwrap_or(u32::MAX);
        match self.pids.get_mut(place) {
            Some(known) => *known = pid,
            None => self.pids.push(pid),
        }
        self.command_lines.insert(pid, command_line::of_process(pid));
        let signal = ProcessStat::of(pid).and_then(|stat| stat.stopped_by);
        let holder = signal.and_then(|signal| match signal {
            libc::SIGTTIN => Some(HeldBy::BackgroundRead),
            libc::SIGTTOU => Some(HeldBy::BackgroundWrite),
            libc::SIGTSTP => Some(HeldBy::Suspended),
            libc::SIGSTOP => Some(HeldBy::Signal),
            _ => None,
        });
        self.stopped.extend(holder.map(|holder| (pid, holder)));
        self.ends.extend(sides.into_iter().filter(|side| is_pipe(&side)).map(|(pipe, writes)| OpenEnd {
            pipe,
            writes,
            stage,
        }));
    }

    /// Wait for `duration`, until SIGINT or SIGTERM, or until all processes that were asked for have ended.
    /// `step` is called meanwhile: it returns when it wants to be called again, or `None` to end.
    pub(crate) fn wait(&mut self, duration: Option<Duration>, mut step: impl FnMut(&mut Self) -> Option<Duration>) {
        let begun = Instant::now();
        while !cancel::happened() && duration.is_none_or(|duration| begun.elapsed() < duration) {
            let rest = duration.map_or(STEP, |duration| duration.saturating_sub(begun.elapsed()).min(STEP));
            if self.are_over() {
                break;
            }
            let Some(due) = step(self) else { break };
            std::thread::sleep(rest.min(due));
        }
    }
}

/// Whether a thread of the process sleeps until a child has ended.
fn waits_for_children(pid: u32) -> bool {
    let waits = |thread: &ThreadNow| matches!(thread.call, ThreadCall::Child(_));
    threads(pid, &[]).is_some_and(|threads| threads.iter().any(waits))
}

/// What the process has open of `sides`.
fn others<'a>(pid: u32, sides: impl Iterator<Item = &'a Side>) -> Vec<OtherEnd> {
    let mut sides = sides.peekable();
    if sides.peek().is_none() {
        return Vec::new();
    }
    // Unknown if it has just ended.
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name).trim_end().to_owned();
    let process = UnrecordedProcess { pid, name, container: container::of_process(pid) };
    sides.map(|(pipe, writes)| OtherEnd { pipe: *pipe, writes: *writes, process: process.clone() }).collect()
}

fn not_found(pid: u32) -> String {
    format!("-p {pid}: there is no such process")
}

/// Whether the process of this pidfd has ended: it is readable then.
fn has_ended(process: &OwnedFd) -> bool {
    let mut events = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut events, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// A pipe or FIFO, and whether it is the side that writes.
type Side = (MadePipe, bool);

/// The descriptor of standard error. What reads it is no part of a pipeline, unless standard output is the same pipe.
const STANDARD_ERROR: u32 = 2;

/// The sides of pipes and FIFOs that a process has open.
#[derive(Debug, Default)]
struct OpenSides {
    sides: BTreeSet<Side>,
    /// Those of standard error.
    errors: BTreeSet<Side>,
}

/// Pairs of Unix sockets and pseudo-terminals stand for pipes of these devices, which no file system has.
const SOCKETS: u32 = u32::MAX;
const TERMINALS: u32 = u32::MAX - 1;

/// The sides of pipes and FIFOs that a process has open, and those of terminals and of `pairs` of sockets.
fn sides_of(pid: u32, pairs: &HashMap<u64, u64>) -> std::io::Result<OpenSides> {
    let mut open = OpenSides::default();
    for file in open_files(pid)? {
        let (pipe, reads, writes) = match file.kind {
            FileKind::Pipe(pipe, _) => (pipe, file.reads, file.writes),
            FileKind::Terminal { id, is_master } => (MadePipe { inode: id, device: TERMINALS }, !is_master, is_master),
            FileKind::Socket(own) => match pairs.get(&own) {
                Some(peer) => (MadePipe { inode: own.min(*peer), device: SOCKETS }, own < *peer, own > *peer),
                None => continue,
            },
            _ => continue,
        };
        let found = if file.fd == STANDARD_ERROR { &mut open.errors } else { &mut open.sides };
        found.extend(
            [(reads, false), (writes, true)].into_iter().filter(|(open, _)| *open).map(|(_, side)| (pipe, side)),
        );
    }
    Ok(open)
}

/// Whether the process at the other side belongs to one with this side. Who has the master of a terminal started the
/// programs in it, but is not part of what they do.
fn leads((pipe, writes): &&Side) -> bool {
    pipe.device != TERMINALS || *writes
}

fn is_pipe((pipe, _): &&Side) -> bool {
    pipe.device < TERMINALS
}

fn other_side((pipe, writes): &Side) -> Side {
    (*pipe, !writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    use std::process::{Command, Stdio};

    #[test]
    fn the_processes_at_the_other_ends_are_found() {
        let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let input = OwnedFd::from(reader.stdin.take().unwrap());
        let [mut writer, mut second] =
            [input.try_clone().unwrap(), input].map(|end| Command::new("sleep").arg("60").stdout(end).spawn().unwrap());
        let running = RunningProcesses::of_processes(&[reader.id()]).unwrap();
        assert_eq!(running.pids[0], reader.id());
        assert!(running.pids.contains(&writer.id()) && !running.pids.contains(&std::process::id()), "{running:?}");
        assert!(running.unknown.is_empty() && !has_ended(&running.processes[0]));
        // Both ends of the pipe.
        let between = running.ends.iter().find(|end| end.stage == 0 && !end.writes).unwrap().pipe;
        let of = |pid: u32| running.pids.iter().position(|other| *other == pid).unwrap() as u32;
        let ends: Vec<OpenEnd> = running.ends.iter().filter(|end| end.pipe == between).copied().collect();
        let expected = [(false, reader.id()), (true, writer.id()), (true, second.id())];
        assert_eq!(ends, expected.map(|(writes, pid)| OpenEnd { pipe: between, writes, stage: of(pid) }));
        assert!(!running.others.iter().any(|end| end.pipe == between), "{running:?}");
        // So is a further process at the same end, which the reader waits for as well.
        let running = RunningProcesses::of_processes(&[writer.id()]).unwrap();
        assert!([reader.id(), second.id()].iter().all(|pid| running.pids.contains(pid)), "{running:?}");
        for child in [&mut writer, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // Nobody writes any more, and it ends.
        let reader_id = Pid::from_raw(reader.id().cast_signed());
        let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(reader_id.unwrap()), only_look).unwrap();
        let zombie = RunningProcesses::of_processes(&[reader.id()]).unwrap_err().to_string();
        assert!(zombie.ends_with("it has ended, but its parent has not waited for it"), "{zombie}");
        reader.wait().unwrap();
        assert!(running.processes.iter().all(has_ended));
        let gone = RunningProcesses::of_processes(&[reader.id()]).unwrap_err().to_string();
        assert_eq!(gone, format!("-p {}: there is no such process", reader.id()));
        assert!(RunningProcesses::of_processes(&[std::process::id()]).unwrap_err().to_string().contains("itself"));
    }
}

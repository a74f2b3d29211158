//! Processes that are already running: their pipes, and the processes at the other ends. Nothing of them is opened: an
//! end held open would take away the end of file or SIGPIPE.

use super::launch::MadePipe;
use crate::result::UnrecordedProcess;
use crate::util::cancel;
use anyhow::{Context as _, Result, bail};
use rustix::fs::FileType;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often it is looked whether the recording has to end.
const STEP: Duration = Duration::from_millis(20);

/// Processes to record.
#[derive(Debug, Default)]
pub(super) struct RunningProcesses {
    /// Those asked for, then those at the other ends of their pipes. Each is a stage, with its index as number.
    pub pids: Vec<u32>,
    /// The open ends of the pipes between them.
    pub ends: Vec<OpenEnd>,
    /// What other processes have open of the ends of those asked for.
    pub others: Vec<OtherEnd>,
    /// Those asked for, whose pipes could not be read, with the reason.
    pub unknown: Vec<(u32, String)>,
    /// Those asked for.
    processes: Vec<OwnedFd>,
}

/// An end of a pipe that a process has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpenEnd {
    pub pipe: MadePipe,
    pub writes: bool,
    /// The index of the process.
    pub stage: u32,
}

/// An end of a pipe that a process has open which is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OtherEnd {
    pub pipe: MadePipe,
    pub writes: bool,
    pub process: UnrecordedProcess,
}

impl RunningProcesses {
    /// The processes `asked` for, and those that have the other end of one of their pipes open.
    ///
    /// # Errors
    /// When one of them does not exist, or is this process.
    pub(super) fn find(asked: &[u32]) -> Result<Self> {
        let mut running = Self::default();
        // The ends of their pipes, and the other ends.
        let (mut same, mut wanted) = (BTreeSet::<Side>::new(), BTreeSet::<Side>::new());
        for pid in asked.iter().copied() {
            if pid == std::process::id() {
                bail!("-p {pid}: pipeprof cannot record itself");
            }
            if running.pids.contains(&pid) {
                continue;
            }
            let number = i32::try_from(pid).ok().and_then(Pid::from_raw).with_context(|| not_found(pid))?;
            running.processes.push(match pidfd_open(number, PidfdFlags::empty()) {
                Ok(process) => process,
                // INVAL, and NOENT since 6.13.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
                    bail!("-p {pid}: this is a thread; give the id of its process")
                }
                Err(rustix::io::Errno::SRCH) => bail!(not_found(pid)),
                Err(error) => return Err(error).with_context(|| format!("-p {pid}")),
            });
            match sides_of(pid) {
                Ok(OpenSides { sides, .. }) => {
                    same.extend(&sides);
                    wanted.extend(sides.iter().map(|(pipe, writes)| (*pipe, !writes)));
                    running.add(pid, sides);
                }
                Err(error) => {
                    running.unknown.push((pid, error.to_string()));
                    running.add(pid, BTreeSet::new());
                }
            }
        }
        for pid in all()? {
            if pid == std::process::id() || running.pids.contains(&pid) {
                continue;
            }
            let Ok(OpenSides { sides, errors }) = sides_of(pid) else { continue };
            if sides.is_disjoint(&wanted) {
                running.others.extend(others(pid, sides.union(&errors).filter(|side| same.contains(side))));
            } else {
                running.add(pid, sides);
            }
        }
        Ok(running)
    }

    /// The processes asked for, each once.
    pub(super) fn asked(&self) -> &[u32] {
        &self.pids[..self.processes.len()]
    }

    fn add(&mut self, pid: u32, sides: BTreeSet<Side>) {
        let stage = u32::try_from(self.pids.len()).unwrap_or(u32::MAX);
        self.pids.push(pid);
        self.ends.extend(sides.into_iter().map(|(pipe, writes)| OpenEnd { pipe, writes, stage }));
    }

    /// Wait for `duration`, until SIGINT or SIGTERM, or until all processes that were asked for have ended.
    /// Meanwhile, `timeline` reads the counts.
    pub(super) fn wait(&self, duration: Option<Duration>, mut step: impl FnMut() -> Duration) {
        let begun = Instant::now();
        while !cancel::happened() && duration.is_none_or(|duration| begun.elapsed() < duration) {
            let rest = duration.map_or(STEP, |duration| duration.saturating_sub(begun.elapsed()).min(STEP));
            if self.processes.iter().all(has_ended) {
                break;
            }
            std::thread::sleep(rest.min(step()));
        }
    }
}

/// What the process has open of `sides`.
fn others<'a>(pid: u32, sides: impl Iterator<Item = &'a Side>) -> Vec<OtherEnd> {
    let mut sides = sides.peekable();
    if sides.peek().is_none() {
        return Vec::new();
    }
    // Unknown if it has just ended.
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let process = UnrecordedProcess { pid, name: String::from_utf8_lossy(&name).trim_end().to_owned() };
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
const STANDARD_ERROR: &str = "2";

/// The sides of pipes and FIFOs that a process has open.
#[derive(Debug, Default)]
struct OpenSides {
    sides: BTreeSet<Side>,
    /// Those of standard error.
    errors: BTreeSet<Side>,
}

/// The sides of pipes and FIFOs that a process has open.
fn sides_of(pid: u32) -> std::io::Result<OpenSides> {
    let mut open = OpenSides::default();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let Ok(entry) = entry else { continue };
        let found = if entry.file_name() == STANDARD_ERROR { &mut open.errors } else { &mut open.sides };
        // It may have been closed meanwhile.
        let Ok(stat) = rustix::fs::stat(entry.path()) else { continue };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
            continue;
        }
        let info = format!("/proc/{pid}/fdinfo/{}", entry.file_name().display());
        let (reads, writes) = std::fs::read_to_string(info).ok().and_then(|text| access(&text)).unwrap_or_default();
        let pipe = MadePipe::of(&stat);
        found.extend(
            [(reads, false), (writes, true)].into_iter().filter(|(open, _)| *open).map(|(_, side)| (pipe, side)),
        );
    }
    Ok(open)
}

/// Whether a descriptor can read and write, by the octal `flags` of its fdinfo (proc_pid_fdinfo(5)).
fn access(fdinfo: &str) -> Option<(bool, bool)> {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"))?;
    match i32::from_str_radix(flags.trim(), 8).ok()? & libc::O_ACCMODE {
        libc::O_RDONLY => Some((true, false)),
        libc::O_WRONLY => Some((false, true)),
        libc::O_RDWR => Some((true, true)),
        _ => None,
    }
}

/// All processes that /proc shows.
fn all() -> Result<Vec<u32>> {
    let names = std::fs::read_dir("/proc").context("/proc: is it mounted?")?;
    let mut pids: Vec<u32> = names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn access_is_read_from_the_flags() {
        assert_eq!(access("pos:\t0\nflags:\t0100000\nmnt_id:\t15\n"), Some((true, false)));
        assert_eq!(access("flags:\t02000001\n"), Some((false, true)));
        assert_eq!(access("flags:\t04002\n"), Some((true, true)));
        assert_eq!(access("flags:\tx"), None);
        assert_eq!(access(""), None);
    }

    #[test]
    fn the_processes_at_the_other_ends_are_found() {
        let mut reader = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let input = OwnedFd::from(reader.stdin.take().unwrap());
        let [mut writer, mut second] =
            [input.try_clone().unwrap(), input].map(|end| Command::new("sleep").arg("60").stdout(end).spawn().unwrap());
        let running = RunningProcesses::find(&[reader.id()]).unwrap();
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
        // A process at the same end is known, but not recorded.
        let running = RunningProcesses::find(&[writer.id()]).unwrap();
        assert!(running.pids.contains(&reader.id()) && !running.pids.contains(&second.id()), "{running:?}");
        let process = UnrecordedProcess { pid: second.id(), name: "sleep".to_owned() };
        assert!(running.others.contains(&OtherEnd { pipe: between, writes: true, process }), "{running:?}");
        for child in [&mut writer, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        reader.wait().unwrap();
        assert!(running.processes.iter().all(has_ended));
        let gone = RunningProcesses::find(&[reader.id()]).unwrap_err().to_string();
        assert_eq!(gone, format!("-p {}: there is no such process", reader.id()));
        assert!(RunningProcesses::find(&[std::process::id()]).unwrap_err().to_string().contains("itself"));
    }
}

//! What /proc/PID/stat says of a process, and getrusage(2) of those that have ended.

use super::text::read_lossy;
use anyhow::{Context as _, Result};
use std::time::Duration;

/// The fields that pipeprof uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// As in /proc/PID/comm.
    pub name: String,
    /// `R`, `S`, `D`, `T`, ...
    pub state: char,
    /// The parent's process id.
    pub parent: u32,
    /// The id of its process group.
    pub group: u32,
    /// The id of its session's leader.
    pub session: u32,
    /// The process group that its terminal has in the foreground; absent without a terminal.
    pub foreground: Option<u32>,
    /// User and system time, in clock ticks.
    pub ticks: u64,
    /// The part in user space.
    pub user_ticks: u64,
    /// When it started, in clock ticks after boot.
    pub started: u64,
    /// The signal that has stopped it; absent on older kernels, or if it may not be known.
    pub stopped_by: Option<i32>,
    /// What `waitpid` would report of a process that has ended; absent if that is 0, or if it may not be known.
    pub ended_with: Option<i32>,
}

impl ProcessStat {
    /// `None` if there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&read_lossy(&format!("/proc/{pid}/stat")).ok()?)
    }

    /// The same of one of its threads.
    pub fn of_thread(pid: u32, tid: u32) -> Option<Self> {
        Self::parse(&read_lossy(&format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }

    /// Fields 2 to 6, 8, 14, 15, 22 and 52 of proc_pid_stat(5). The name may contain spaces and parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let (start, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The first one behind the name is field 3.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let state = fields.first()?.chars().next()?;
        // What waitpid(2) would report.
        let code = |of: char| number(52).filter(|code| state == of && *code > 0).and_then(|code| code.try_into().ok());
        Some(Self {
            name: start.split_once('(')?.1.to_owned(),
            state,
            parent: number(4)?.try_into().ok()?,
            group: number(5)?.try_into().ok()?,
            session: number(6)?.try_into().ok()?,
            // Without a terminal, the field is -1, which is no `u64`.
            foreground: number(8).and_then(|group| group.try_into().ok()),
            ticks: number(14)? + number(15)?,
            user_ticks: number(14)?,
            started: number(22)?,
            stopped_by: code('T'),
            ended_with: code('Z'),
        })
    }

    /// User and system time of all its threads.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_millis(self.ticks * 1000 / rustix::param::clock_ticks_per_second())
    }
}

/// The ids of all processes that /proc shows.
pub fn ids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// All processes that /proc shows, by id.
pub fn all() -> impl Iterator<Item = (u32, ProcessStat)> {
    ids().filter_map(|pid| Some((pid, ProcessStat::of(pid)?)))
}

/// The id of a process in its own PID namespace. Kernels before 4.1 do not tell it.
pub fn inner_id(pid: u32) -> Option<u32> {
    innermost(&read_lossy(&format!("/proc/{pid}/status")).ok()?)
}

/// The last one of the ids in a text as proc_pid_status(5) has it.
fn innermost(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

/// Whether a process has a handler for a signal.
pub fn handles(pid: u32, signal: i32) -> bool {
    let status = read_lossy(&format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| caught.checked_shr(bit).is_some_and(|caught| caught & 1 > 0))
}

/// User and system time, ns, of all children that were waited for.
pub fn children_ns() -> Result<[u64; 2]> {
    // SAFETY: a structure of numbers, for which all bits zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for the call to fill.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return Err(std::io::Error::last_os_error()).context("getrusage");
    }
    let ns = |time: libc::timeval| (time.tv_sec * 1_000_000_000 + time.tv_usec * 1000).cast_unsigned();
    Ok([ns(usage.ru_utime), ns(usage.ru_stime)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_of_signals_are_known() {
        // Rust has one of SIGSEGV, for overflows of its stacks.
        let own = std::process::id();
        assert_eq!([libc::SIGSEGV, libc::SIGKILL].map(|signal| handles(own, signal)), [true, false]);
        assert!(!handles(u32::MAX, libc::SIGSEGV));
    }
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    #[test]
    fn the_innermost_id_is_the_last_one() {
        assert_eq!(innermost("Name:\tsh\nNSpid:\t4711\t12\t3\nNSpgid:\t1\n"), Some(3));
        assert_eq!([innermost("Name:\tNSpid: 1\n"), innermost("NSpid:\n"), innermost("")], [None; 3]);
        assert_eq!(inner_id(std::process::id()), Some(std::process::id()));
    }

    #[test]
    fn fields_come_after_any_name() {
        let stat = "42 (a) b (c) T 7 42 42 0 -1 4194560 100 0 0 0 11 5 0 0 20 0 1 0 900 0 0";
        let name = "a) b (c".to_owned();
        let expected = ProcessStat {
            name,
            state: 'T',
            parent: 7,
            group: 42,
            session: 42,
            foreground: None,
            ticks: 16,
            user_ticks: 11,
            started: 900,
            stopped_by: None,
            ended_with: None,
        };
        assert_eq!(ProcessStat::parse(stat), Some(expected));
        let at_terminal = ProcessStat::parse(&stat.replace(" 0 -1 ", " 34816 43 "));
        assert_eq!(at_terminal.unwrap().foreground, Some(43));
        let stopped = ProcessStat::parse(&format!("{stat}{} 22", " 0".repeat(27)));
        assert_eq!(stopped.unwrap().stopped_by, Some(libc::SIGTTOU));
        let ended = ProcessStat::parse(&format!("{}{} 256", stat.replace(" T ", " Z "), " 0".repeat(27)));
        assert_eq!(ended.map(|of| (of.ended_with, of.stopped_by)), Some((Some(256), None)));
        for damaged in ["", "7 (x", "7 (x) S 1", "7 x) S 1"] {
            assert_eq!(ProcessStat::parse(damaged), None, "{damaged}");
        }
        let per_second = rustix::param::clock_ticks_per_second();
        let stat = format!("7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 {} {} 99 99 0 0 0 0 900", 2 * per_second, per_second);
        assert_eq!(ProcessStat::parse(&stat).unwrap().cpu_time(), Duration::from_secs(3));
        // Not UTF-8.
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf '\\377' >/proc/$$/comm; echo; read _"]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        assert_eq!(ProcessStat::of(shell.id()).unwrap().name, "\u{fffd}");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        let own = all().find(|(pid, _)| *pid == std::process::id()).unwrap().1;
        assert_eq!(own.parent, std::os::unix::process::parent_id());
    }
}

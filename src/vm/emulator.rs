//! A running QEMU.

use crate::arch::Processor;
use crate::util::own_child::{OwnChild, die_with_parent};
use crate::util::process_stat::ProcessStat;
use crate::util::progress;
use crate::vm::qemu;
use crate::vm::turns::{self, Turns};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running QEMU. It is killed when this value is dropped, and when this process dies.
pub struct Qemu {
    child: OwnChild,
    /// Whether its threads are to take turns, and how they do.
    in_turn: bool,
    turns: Option<Turns>,
}

impl Qemu {
    /// Start the QEMU of a processor with these arguments, this standard input and a file for its errors. `inherited`: it
    /// has this open file too, with the same number. `in_turn`: its threads take turns, if that is possible.
    pub fn start(
        processor: Processor,
        arguments: &[OsString],
        input: Stdio,
        errors: File,
        inherited: Option<&File>,
        in_turn: bool,
    ) -> Result<Self> {
        let mut command = Command::new(qemu::program(processor));
        // A separate process group: Ctrl-C goes only to this process, which then ends QEMU.
        command.args(arguments).stdin(input).stdout(Stdio::null()).stderr(errors).process_group(0);
        die_with_parent(&mut command);
        if let Some(fd) = inherited.map(AsRawFd::as_raw_fd) {
            // SAFETY: fcntl only, between fork and exec. The caller's file is open until the child is spawned below.
            unsafe {
                command.pre_exec(move || {
                    rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(fd), rustix::io::FdFlags::empty())?;
                    Ok(())
                });
            }
        }
        let turns = (in_turn && turns::can_be_loaded(processor)).then(|| Turns::new(&mut command)).transpose()?;
        progress::detail(|| format!("starting {command:?}"));
        Ok(Self { child: OwnChild::spawn(&mut command).with_context(|| qemu::missing(processor))?, in_turn, turns })
    }

    /// Whether its threads were to take turns, and did not. For one that has ended.
    pub(crate) fn is_out_of_turn(&self) -> bool {
        self.in_turn && !self.turns.as_ref().is_some_and(Turns::taken)
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub fn kill(&mut self) {
        self.child.end();
    }

    /// Wait until all its threads sleep and none has woken up for [`QUIET`], but not for ever.
    pub fn settle(&self) {
        let begun = Instant::now();
        let (mut last, mut since) = (None, begun);
        while since.elapsed() < QUIET && begun.elapsed() < RESTLESS {
            std::thread::sleep(GLANCE);
            let now = asleep(self.child.id());
            if now.is_none() || now != last {
                since = Instant::now();
            }
            last = now;
        }
    }

    /// CPU time of all its threads; `None` if it has ended.
    fn cpu_time(&self) -> Option<Duration> {
        Some(ProcessStat::of(self.child.id())?.cpu_time())
    }

    /// The time now, for [`Since`].
    pub fn now(&self) -> Since {
        let cpu = self.cpu_time().unwrap_or_default();
        Since { wall: Instant::now(), cpu, delayed: delayed(self.child.id()) }
    }

    /// Whether QEMU has executed for `limit` since then. This is CPU time, so that other programs on the machine do not
    /// use up the limit. A QEMU that does nothing, and does not wait for a CPU either, ends after a longer wall time.
    pub fn is_over(&self, since: &Since, limit: Duration) -> bool {
        let waited = since.wall.elapsed();
        // CPU time is not more than that of both threads, the CPUs' and the main loop, so it need not be read yet.
        if waited * 2 <= limit {
            return false;
        }
        let now = self.now();
        is_used_up(limit, waited, now.cpu.saturating_sub(since.cpu), now.delayed.saturating_sub(since.delayed))
    }
}

/// Whether `limit` is over after these times: on the clock, on a CPU, and ready without one.
fn is_used_up(limit: Duration, waited: Duration, cpu: Duration, delayed: Duration) -> bool {
    cpu > limit || waited.saturating_sub(delayed) > limit * IDLE.0 + IDLE.1
}

/// How long the threads of a process have been ready, and waited for a CPU; 0 if the kernel does not count it.
fn delayed(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |thread: fs::DirEntry| {
        let counts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        counts.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.filter_map(of_thread).sum())
}

/// QEMU's thread that frees memory waits up to 50 ms for more of it (util/rcu.c, `call_rcu_thread`).
const QUIET: Duration = Duration::from_millis(150);
const RESTLESS: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(10);

/// How often each thread of the process has been switched away; `None` unless all sleep.
fn asleep(pid: u32) -> Option<Vec<(String, String)>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let switches = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let status = fs::read_to_string(path.join("status")).ok()?;
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        let sleeps = state.is_some_and(|state| state.trim_start().starts_with('S'));
        let counts = status.lines().filter(|line| line.contains("ctxt_switches")).collect::<Vec<_>>().join(" ");
        sleeps.then(|| (path.display().to_string(), counts))
    };
    threads.map(switches).collect()
}

/// The time without waiting for a CPU after which a limit ends in any case: this many times the limit, plus this.
const IDLE: (u32, Duration) = (5, Duration::from_secs(10));

/// A time on the clocks that limits count.
#[derive(Debug, Clone, Copy)]
pub struct Since {
    pub wall: Instant,
    cpu: Duration,
    delayed: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_no_time_without_a_cpu() {
        let used_up = |seconds: [u64; 3]| {
            let [waited, cpu, delayed] = seconds.map(Duration::from_secs);
            is_used_up(Duration::from_secs(20), waited, cpu, delayed)
        };
        assert!(used_up([30, 21, 0]) && used_up([111, 0, 0]) && used_up([700, 5, 500]));
        // On a busy machine, it had a CPU for 8 s of five minutes.
        assert!(!used_up([306, 8, 400]) && !used_up([110, 20, 0]));
        // Two that never sleep, on one CPU: each has to wait for it.
        let busy = || {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            crate::util::own_child::pin(&mut command, 0);
            OwnChild::spawn(&mut command).unwrap()
        };
        let processes = [busy(), busy()];
        for process in &processes {
            while delayed(process.id()) < Duration::from_millis(20) {}
        }
    }

    #[test]
    fn a_process_is_asleep_if_all_its_threads_are() {
        let mut sleeper = Command::new("sleep").arg("100").spawn().unwrap();
        while asleep(sleeper.id()).is_none() {}
        assert_eq!(asleep(sleeper.id()).unwrap().len(), 1);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        // This thread executes.
        assert_eq!(asleep(std::process::id()), None);
    }
}

//! A running QEMU.

use crate::util::own_child::{OwnChild, die_with_parent};
use crate::util::process_stat::ProcessStat;
use crate::util::progress;
use crate::vm::qemu;
use crate::vm::turns::{self, Turns};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{self, File};
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
    /// Start QEMU with these arguments, this standard input and a file for its errors. `in_turn`: its threads take turns, if
    /// that is possible.
    pub fn start(arguments: &[OsString], input: Stdio, errors: File, in_turn: bool) -> Result<Self> {
        let mut command = Command::new(qemu::program());
        // A separate process group: Ctrl-C goes only to this process, which then ends QEMU.
        command.args(arguments).stdin(input).stdout(Stdio::null()).stderr(errors).process_group(0);
        die_with_parent(&mut command);
        let turns = (in_turn && turns::can_be_loaded()).then(|| Turns::new(&mut command)).transpose()?;
        progress::detail(|| format!("starting {command:?}"));
        Ok(Self { child: OwnChild::spawn(&mut command).with_context(qemu::missing)?, in_turn, turns })
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
        Since { wall: Instant::now(), cpu: self.cpu_time().unwrap_or_default() }
    }

    /// Whether QEMU has executed for `limit` since then. This is CPU time, so that other programs on the machine do not
    /// use up the limit. A QEMU that does nothing ends after a longer wall time.
    pub fn is_over(&self, since: &Since, limit: Duration) -> bool {
        let waited = since.wall.elapsed();
        // CPU time is not more than that of both threads, the CPUs' and the main loop, so it need not be read yet.
        waited * 2 > limit
            && (waited > limit * IDLE.0 + IDLE.1
                || self.cpu_time().is_some_and(|cpu| cpu.saturating_sub(since.cpu) > limit))
    }
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

/// The wall time after which a limit ends in any case: this many times the limit, plus this.
const IDLE: (u32, Duration) = (5, Duration::from_secs(10));

/// A time on the clocks that limits count.
#[derive(Debug, Clone, Copy)]
pub struct Since {
    pub wall: Instant,
    cpu: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

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

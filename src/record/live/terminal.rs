//! The real terminal: found, changed, and restored whatever happens.
//!
//! The process that has it in the foreground divides in two. The first one only waits, and passes on signals: when the other
//! one is gone, however it ended, the terminal is as it was. The second one records, in a session of its own whose terminal
//! is one that the screen reads.

use crate::record::live::pty::PipelineTerminal;
use crate::record::start::launch::is_ignored;
use crate::util::process_stat::ProcessStat;
use anyhow::{Context as _, Result, bail};
use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, getppid};
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, ttyname};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::fs::File;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

/// A stopped process shows as such a moment later.
const STOPS_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The terminal at standard error, with its settings at the start.
#[derive(Debug)]
pub(crate) struct RealTerminal {
    file: File,
    settings: Termios,
    /// The process that waits for this one.
    first: Option<Pid>,
}

impl RealTerminal {
    /// The terminal at standard error; `None` if it cannot be read or cannot show a screen.
    pub(crate) fn find() -> Option<Self> {
        if !stderr().is_terminal() || std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty()) {
            return None;
        }
        let name = ttyname(stderr(), Vec::new()).ok()?;
        let file = File::from(open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()?);
        let settings = tcgetattr(&file).ok()?;
        Some(Self { file, settings, first: None })
    }

    /// The side of programs of a terminal, and the other one.
    #[cfg(test)]
    pub(crate) fn of_test(size: Winsize) -> (Self, std::os::fd::OwnedFd) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let file = File::from(open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
        rustix::termios::tcsetwinsize(&file, size).unwrap();
        let settings = tcgetattr(&file).unwrap();
        (Self { file, settings, first: None }, master)
    }

    /// Divide this process in two. Returns in the second one, with the terminal for programs. The first one ends with the exit
    /// code of the second one, and never returns.
    ///
    /// # Errors
    /// When there is no terminal for programs or no process, or this process has several threads: then it is as before.
    pub(crate) fn divide(mut self) -> Result<(Self, PipelineTerminal)> {
        let threads = std::fs::read_dir("/proc/self/task").context("/proc/self/task")?.count();
        if threads != 1 {
            bail!("a process of {threads} threads cannot be divided");
        }
        let pipeline = PipelineTerminal::new(&self.settings, self.size())?;
        let first = rustix::process::getpid();
        // SAFETY: there is no other thread that could hold a lock.
        match unsafe { libc::fork() } {
            -1 => Err(std::io::Error::last_os_error()).context("cannot start a process"),
            0 => {
                self.first = Some(first);
                pipeline.begin_session()?;
                // Without it, the kernel would send SIGHUP to the session: this process, and what goes on in the background.
                std::mem::forget(pipeline.master().try_clone().context("cannot copy a descriptor")?);
                Ok((self, pipeline))
            }
            second => {
                drop(pipeline);
                let code = self.guard(second);
                // SAFETY: ends this process at once; what the other one shares with it is not cleaned up twice.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// Wait until `second` has ended, restore the terminal if need be, and return its exit code.
    fn guard(&self, second: libc::pid_t) -> i32 {
        let passed_on = [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
        let awaited = blocked(passed_on.chain([SIGCHLD]));
        let status = loop {
            let mut status = 0;
            // SAFETY: the status outlives the call.
            match unsafe { libc::waitpid(second, &raw mut status, libc::WNOHANG) } {
                0 => {}
                // Nothing can be waited for.
                -1 => break None,
                _ => break Some(status),
            }
            // SAFETY: the set is initialised, and nothing is asked for about the signal.
            let signal = unsafe { libc::sigwaitinfo(&raw const awaited, std::ptr::null_mut()) };
            if signal > 0 && signal != SIGCHLD {
                // SAFETY: sends a signal to a child that has not been reaped.
                unsafe { libc::kill(second, signal) };
            }
        };
        self.restore_if_changed();
        match status {
            Some(status) if libc::WIFEXITED(status) => libc::WEXITSTATUS(status),
            Some(status) => 128 + libc::WTERMSIG(status),
            None => 1,
        }
    }

    /// Restore the terminal, if who changed it could not.
    fn restore_if_changed(&self) {
        let is_changed = tcgetattr(&self.file).is_ok_and(|now| {
            (now.local_modes, now.output_modes) != (self.settings.local_modes, self.settings.output_modes)
        });
        if is_changed {
            self.leave_screen();
            self.restore();
        }
    }

    /// Whether the process that would restore the terminal is gone.
    pub(crate) fn is_alone(&self) -> bool {
        self.first.is_some_and(|first| getppid() != Some(first))
    }

    /// The process that is a job of the shell: the first one, or if this is not divided, this one.
    fn job(&self) -> Pid {
        self.first.unwrap_or_else(rustix::process::getpid)
    }

    /// Whether the terminal is this program's: its job has not been stopped, and is in the foreground.
    pub(crate) fn is_in_front(&self) -> bool {
        let job = ProcessStat::of(self.job().as_raw_pid().cast_unsigned());
        job.is_none_or(|job| job.state != 'T' && job.foreground.is_none_or(|group| group == job.group))
    }

    /// Stop the job, as a terminal does for Ctrl-Z, and wait until it is: this process goes on if it is the second one. Without a
    /// shell that could continue it, the kernel does not stop it.
    pub(crate) fn stop_job(&self) {
        let Ok(group) = rustix::process::getpgid(Some(self.job())) else { return };
        let _ = rustix::process::kill_process_group(group, Signal::TSTP);
        let asked = Instant::now();
        while self.first.is_some() && self.is_in_front() && asked.elapsed() < STOPS_WITHIN {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn size(&self) -> Winsize {
        let size = tcgetwinsize(&self.file).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.unwrap_or(Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })
    }

    /// Give each key at once, and change nothing that is written.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(crate) fn make_raw(&self) -> Result<()> {
        let mut raw = self.settings.clone();
        raw.make_raw();
        tcsetattr(&self.file, OptionalActions::Drain, &raw).context("the terminal")
    }

    /// A terminal that is gone needs nothing.
    pub(crate) fn restore(&self) {
        let _ = tcsetattr(&self.file, OptionalActions::Drain, &self.settings);
    }

    pub(crate) fn enter_screen(&self) {
        let _ = execute!(&self.file, EnterAlternateScreen, Hide);
    }

    pub(crate) fn leave_screen(&self) {
        let _ = execute!(&self.file, LeaveAlternateScreen, Show);
    }

    /// Write what a pipeline printed, as it is.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let _ = (&self.file).write_all(bytes);
    }
}

/// Block these signals, so that they can be waited for.
fn blocked(signals: impl Iterator<Item = i32>) -> libc::sigset_t {
    // SAFETY: all zeros is a valid value of this plain C struct.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set outlives the calls, and all signals exist.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    set
}

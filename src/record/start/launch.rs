//! Start the stages of a pipeline as a shell does, and wait for them. Standard input, output and error, the terminal,
//! signals and exit codes are those of the pipeline.
//!
//! No stage has to wait for the recorder: the tracepoint of the fork makes a stage known before it runs.

use crate::arch::marker;
use crate::record::start::seccomp;
use crate::result::{PipelineCommand, RefusedCall};
use crate::util::clock::monotonic_ns;
use crate::util::find_program::find_program;
use crate::util::own_child::{OwnChild, pin};
use crate::util::process_stat::{self, children_ns};
use crate::util::{limits, size};
use anyhow::{Context as _, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{dup2_stdin, dup2_stdout};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Starts pipelines, one after the other, and waits for them.
pub(crate) struct Launcher {
    stages: Arc<Mutex<Vec<Stage>>>,
    /// When signals asked to end, and whether no terminal sent them: whoever sends one to pipeprof itself waits for its end.
    asked: Arc<Mutex<Vec<(Instant, bool)>>>,
}

/// So many signals within this time end a pipeline that goes on after one.
const INSISTS: usize = 3;
const INSISTS_WITHIN: Duration = Duration::from_secs(3);

/// Whoever sends a signal to pipeprof itself, as `timeout` does, waits so long for the pipeline to end by it.
const OBEYS_WITHIN: Duration = Duration::from_secs(10);

/// How to start a pipeline.
#[derive(Debug, Default)]
pub struct PipelineSetup {
    /// Size of its pipes, bytes; by default the kernel's.
    pub pipe_bytes: Option<u64>,
    /// The CPU of each stage, in turn; by default the kernel chooses.
    pub cpus: Vec<u32>,
    /// Standard input and output of the pipeline, and standard error of all stages; by default this process's.
    pub streams: Option<StageStreams>,
    /// System calls that fail in its programs.
    pub(crate) refused: Vec<RefusedCall>,
    /// Mark the begin of each stage for the instruction collector; process 0 is pipeprof.
    pub marked: bool,
}

/// Where a pipeline reads and writes.
#[derive(Debug)]
pub struct StageStreams {
    pub input: Stdio,
    pub output: File,
    pub errors: File,
}

impl StageStreams {
    /// Read `input`, and show nothing.
    pub(crate) fn quiet(input: Stdio) -> Result<Self> {
        let null = || File::options().write(true).open("/dev/null").context("cannot open /dev/null");
        Ok(Self { input, output: null()?, errors: null()? })
    }
}

/// Whether signals that came then, each of which no terminal may have sent, insist at `now`.
fn insist(asked: &[(Instant, bool)], now: Instant) -> bool {
    let soon = |times: &[(Instant, bool)]| times[INSISTS - 1].0.duration_since(times[0].0) <= INSISTS_WITHIN;
    let long_ago = |at: Instant| now.duration_since(at) >= OBEYS_WITHIN;
    asked.windows(INSISTS).any(soon) || asked.iter().any(|(at, is_sent)| *is_sent && long_ago(*at))
}

/// Whether pipeprof is in the foreground of its terminal, so that Ctrl-C is for it and for the pipeline.
fn is_in_foreground() -> bool {
    let group = File::open("/dev/tty").ok().and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group == Some(rustix::process::getpgrp())
}

/// The thread that passes on signals. Its name can be that of who ended a sleep.
pub(crate) const SIGNALS: &str = "pp-signals";

/// What identifies a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MadePipe {
    pub inode: u64,
    /// As the kernel has it: include/linux/kdev_t.h, `MKDEV`.
    pub device: u32,
}

impl MadePipe {
    /// The pipe or FIFO with these properties.
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        let device = rustix::fs::major(stat.st_dev) << 20 | rustix::fs::minor(stat.st_dev);
        Self { inode: stat.st_ino, device }
    }
}

struct Stage {
    child: OwnChild,
    ended: Option<EndedStage>,
}

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedStage {
    /// Its exit code as shells give it: 128 and the signal's number for a killed process.
    pub code: u8,
    /// User and system time of its processes.
    pub cpu_ns: [u64; 2],
}

impl EndedStage {
    fn reap(child: &mut OwnChild) -> Result<Self> {
        let before = children_ns()?;
        let status = child.wait().context("cannot wait for a stage")?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let after = children_ns()?;
        Ok(Self {
            code: u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            cpu_ns: [0, 1].map(|kind| after[kind].saturating_sub(before[kind])),
        })
    }
}

impl Launcher {
    /// SIGINT and SIGQUIT of a terminal reach the stages directly; pipeprof outlives them to report. SIGTERM and SIGHUP
    /// are passed on. Signals that are ignored stay so, here and in the stages.
    pub(crate) fn new() -> Result<Self> {
        let launcher = Self { stages: Arc::default(), asked: Arc::default() };
        let wanted = [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
        let mut signals = signal_hook::iterator::Signals::new(wanted).context("cannot install signal handlers")?;
        let (stages, asked) = (Arc::clone(&launcher.stages), Arc::clone(&launcher.asked));
        let pass_on = move || {
            for signal in signals.forever() {
                let is_sent = [SIGTERM, SIGHUP].contains(&signal) || !is_in_foreground();
                asked.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), is_sent));
                if ![SIGTERM, SIGHUP].contains(&signal) {
                    continue;
                }
                let stages = stages.lock().unwrap_or_else(PoisonError::into_inner);
                for stage in stages.iter().filter(|stage| stage.ended.is_none()) {
                    // SAFETY: sends a signal to a child that has not been reaped.
                    unsafe { libc::kill(stage.child.id().cast_signed(), signal) };
                }
            }
        };
        std::thread::Builder::new().name(SIGNALS.to_owned()).spawn(pass_on).context("cannot start a thread")?;
        Ok(launcher)
    }

    /// Whether a signal has asked to end.
    pub(crate) fn interrupted(&self) -> bool {
        self.asked_since().is_some()
    }

    /// When a signal asked to end first, by the monotonic clock, ns. `ended_by`: the signals that ended stages. One of a terminal, or for a
    /// whole group, reaches both, and the thread that notes it can be later than the ends of the stages.
    pub(crate) fn asked_at(&self, ended_by: impl Fn(i32) -> bool) -> Option<u64> {
        const LATE: Duration = Duration::from_millis(20);
        if self.asked_since().is_none() && [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().any(ended_by) {
            std::thread::sleep(LATE);
        }
        let ago = u64::try_from(self.asked_since()?.as_nanos()).ok()?;
        Some(monotonic_ns().saturating_sub(ago))
    }

    /// How long ago a signal asked to end first.
    pub(crate) fn asked_since(&self) -> Option<Duration> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).first().map(|(at, _)| at.elapsed())
    }

    /// Whether what has asked to end did not come from a terminal: it is not for a program that goes on after Ctrl-C.
    pub(crate) fn is_sent(&self) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(_, is_sent)| *is_sent)
    }

    /// Whether several signals, one soon after the other, have asked to end what does not end by one, or one that did not come from
    /// a terminal, some time ago.
    pub(crate) fn is_insisted(&self) -> bool {
        insist(&self.asked.lock().unwrap_or_else(PoisonError::into_inner), Instant::now())
    }

    /// Start all stages; `announce` is called with the number of each before it starts. pipeprof keeps no end of a pipe:
    /// an end held open would take away the end of file or SIGPIPE. Returns the pipe after each stage but the last.
    ///
    /// # Errors
    /// When a program cannot be started. Those already started are killed.
    pub(crate) fn start(
        &self,
        pipeline: &PipelineCommand,
        setup: PipelineSetup,
        announce: &mut dyn FnMut(u32) -> Result<()>,
    ) -> Result<Vec<MadePipe>> {
        let started = self.start_all(pipeline, setup, announce);
        if started.is_err() {
            self.kill();
        }
        started
    }

    fn start_all(
        &self,
        pipeline: &PipelineCommand,
        mut setup: PipelineSetup,
        announce: &mut dyn FnMut(u32) -> Result<()>,
    ) -> Result<Vec<MadePipe>> {
        let (mut input, shown) = match setup.streams.take() {
            Some(streams) => (Some(streams.input), Some((streams.output, streams.errors))),
            None => (None, None),
        };
        let mut pipes = Vec::new();
        for (number, words) in (0..).zip(&pipeline.stages) {
            let (program, arguments) = words.split_first().context("a stage without a program")?;
            // With its path, so that the stage does not try the folders of PATH.
            let mut command = Command::new(find_program(program).unwrap_or_else(|| program.into()));
            command.arg0(program).args(arguments);
            if let Some(input) = input.take() {
                command.stdin(input);
            }
            if let Some((output, errors)) = &shown {
                let copy = |file: &File| file.try_clone().context("cannot copy a descriptor");
                command.stdout(copy(output)?).stderr(copy(errors)?);
            }
            if (number as usize) + 1 < pipeline.stages.len() {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
                if let Some(bytes) = setup.pipe_bytes {
                    rustix::pipe::fcntl_setpipe_size(&write, usize::try_from(bytes)?).with_context(|| {
                        format!("the kernel refuses pipes of {} (/proc/sys/fs/pipe-max-size)", size::format(bytes))
                    })?;
                }
                pipes.push(MadePipe::of(&rustix::fs::fstat(&write).context("cannot identify a pipe")?));
                command.stdout(Stdio::from(write));
                input = Some(Stdio::from(read));
            }
            if let Some(cpu) = setup.cpus.get(number as usize % setup.cpus.len().max(1)) {
                pin(&mut command, *cpu as usize);
            }
            if setup.marked {
                // SAFETY: executes two instructions without effect between fork and exec.
                unsafe {
                    command.pre_exec(move || {
                        marker::emit_begin(number + 1);
                        Ok(())
                    });
                }
            }
            if !setup.refused.is_empty() {
                seccomp::refuse(&mut command, &setup.refused);
            }
            limits::restore_file_size(&mut command);
            announce(number)?;
            let child = OwnChild::spawn(&mut command).with_context(|| format!("cannot start {program}"))?;
            self.lock().push(Stage { child, ended: None });
        }
        Ok(pipes)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Stage>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The processes of the stages that have been started.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.lock().iter().map(|stage| stage.child.id()).collect()
    }

    /// Wait until all stages have ended.
    pub(crate) fn wait(&self) -> Result<Vec<EndedStage>> {
        loop {
            let ended = next_ended()?;
            let mut stages = self.lock();
            match stages.iter_mut().find(|stage| stage.child.id() == ended) {
                Some(stage) => stage.ended = Some(EndedStage::reap(&mut stage.child)?),
                // A child that this process had before its own exec.
                // SAFETY: reaps a child that has ended; no status is wanted.
                None => drop(unsafe { libc::waitpid(ended.cast_signed(), std::ptr::null_mut(), libc::WNOHANG) }),
            }
            if let Some(all) = stages.iter().map(|stage| stage.ended).collect() {
                stages.clear();
                return Ok(all);
            }
        }
    }

    /// Send SIGTERM to all stages and to the processes that they have started, or SIGKILL.
    pub(crate) fn stop(&self, kill: bool) {
        let stages = self.lock();
        let running: Vec<u32> =
            stages.iter().filter(|stage| stage.ended.is_none()).map(|stage| stage.child.id()).collect();
        let signal = if kill { libc::SIGKILL } else { SIGTERM };
        // Children first, so that a shell does not outlive only itself.
        for pid in descendants(&running).into_iter().rev() {
            // SAFETY: sends a signal. The stages have not been reaped; one of the other processes may have ended and its
            // id been used again, within some microseconds.
            unsafe { libc::kill(pid.cast_signed(), signal) };
        }
    }

    /// Kill all stages.
    pub(crate) fn kill(&self) {
        self.lock().clear();
    }
}

/// These processes, and those whose parents are among them.
fn descendants(pids: &[u32]) -> Vec<u32> {
    let all: Vec<(u32, u32)> = process_stat::all().map(|(pid, stat)| (pid, stat.parent)).collect();
    let mut found = pids.to_vec();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(all.iter().filter(|(_, own)| *own == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Wait until a child has ended, without reaping it: so that no signal is sent to another process with a reused id.
fn next_ended() -> Result<u32> {
    loop {
        // SAFETY: all zeros is a valid value of this plain C struct.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the structure outlives the call.
        if unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOWAIT) } == 0 {
            // SAFETY: the call has succeeded, so the structure is that of a child.
            return Ok(unsafe { info.si_pid() }.cast_unsigned());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("cannot wait for the stages");
        }
    }
}

/// Whether this process ignores `signal`, as under nohup.
pub(crate) fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros is a valid value of this plain C struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the present action into a structure that outlives the call.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    failed == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Replace standard input and output by /dev/null: an end of a pipe held open would take away the end of file or SIGPIPE.
pub(crate) fn leave_stdio() -> Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").context("/dev/null")?;
    dup2_stdin(&null).and_then(|()| dup2_stdout(&null)).context("cannot leave standard input and output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_signals_of_a_terminal_insist_and_one_that_was_sent_does_after_a_time() {
        let insist = |asked: &[(u64, bool)], now: u64| {
            let begun = Instant::now();
            let at = |seconds: u64| begun + Duration::from_secs(seconds);
            let asked: Vec<(Instant, bool)> = asked.iter().map(|(seconds, sent)| (at(*seconds), *sent)).collect();
            super::insist(&asked, at(now))
        };
        assert!(!insist(&[(0, false)], 60), "Ctrl-C can be for the program");
        assert!(insist(&[(0, false), (1, false), (3, false)], 3));
        assert!(!insist(&[(0, false), (2, false), (4, false)], 60));
        assert!(!insist(&[(0, true)], 9) && insist(&[(0, true)], 10));
    }
}

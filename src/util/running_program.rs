//! Other programs at work on what somebody else made, such as make on their tree. What they print is read while they
//! run, an interruption ends them, and nothing that they started outlives them.

use super::own_child::{OwnChild, die_with_parent};
use super::{cancel, regular};
use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// So much of standard error is kept, bytes.
const MOST_ERRORS: usize = 64 << 10;

/// How often to look for an interruption and for the program's end.
const PACE: Duration = Duration::from_millis(10);

/// How long a program that is asked to end may take.
const GRACE: Duration = Duration::from_secs(10);

/// Reading it gives what the program prints.
#[derive(Debug)]
pub struct RunningProgram {
    child: OwnChild,
    has_ended: bool,
    /// `None` once it is closed.
    output: Option<PipeReader>,
    errors: Option<PipeReader>,
    said: Vec<u8>,
}

impl RunningProgram {
    /// Start `command`, whose standard input is set. `merged`: its output includes standard error, in order.
    pub fn start(mut command: Command, merged: bool) -> io::Result<Self> {
        let (output, to_output) = io::pipe()?;
        let (errors, to_errors) = if merged {
            (None, to_output.try_clone()?)
        } else {
            let (errors, to_errors) = io::pipe()?;
            (Some(errors), to_errors)
        };
        command.stdout(to_output).stderr(to_errors).process_group(0);
        die_with_parent(&mut command);
        let child = OwnChild::spawn(&mut command)?;
        Ok(Self { child, has_ended: false, output: Some(output), errors, said: Vec::new() })
    }

    /// All that `command` prints, at most `longest` bytes; on failure the first line of its standard error.
    pub fn output(command: Command, longest: u64) -> Result<(ExitStatus, Vec<u8>, String)> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut program = Self::start(command, false).with_context(|| format!("cannot start {name}: install it"))?;
        let mut printed = Vec::new();
        regular::copy_all(&mut program, &mut printed, longest).with_context(|| format!("the output of {name}"))?;
        let (status, errors) = program.end()?;
        Ok((status, printed, errors))
    }

    /// Wait until it has ended. Returns what it printed to standard error.
    pub fn end(mut self) -> Result<(ExitStatus, String)> {
        io::copy(&mut self, &mut io::sink())?;
        while !self.has_ended() {
            cancel::check()?;
            std::thread::sleep(PACE);
        }
        let status = self.child.wait()?;
        Ok((status, String::from_utf8_lossy(&self.said).into_owned()))
    }

    /// Ask the program and all that it has started to end, and wait for [`GRACE`]. Returns whether they have: then they have
    /// removed what they had half written. For merged output.
    pub fn ask_to_end(mut self) -> bool {
        // An error means that there is no process left.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
        let (begun, mut part) = (Instant::now(), [0; 4096]);
        while begun.elapsed() < GRACE {
            let Ok([is_ready, _]) = self.wait(PACE) else { return false };
            // The end of the output is that of the last process that has it.
            if let (true, Some(pipe)) = (is_ready, &mut self.output)
                && !pipe.read(&mut part).is_ok_and(|length| length > 0)
            {
                return true;
            }
        }
        false
    }

    /// Whether the program has ended. Then its other processes are ended, too: they may keep the pipes open.
    fn has_ended(&mut self) -> bool {
        // It is not reaped, so the number of its group is not that of another one.
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if !self.has_ended && !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), how), Ok(None)) {
            self.has_ended = true;
            self.kill();
        }
        self.has_ended
    }

    fn kill(&self) {
        // An error means that there is no process left.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// Wait for something to read in one of the pipes: whether there is in each of them.
    fn wait(&self, pace: Duration) -> io::Result<[bool; 2]> {
        let pipes = [&self.output, &self.errors];
        let open = pipes.into_iter().flatten();
        let mut events: Vec<PollFd<'_>> = open.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        let pace = Timespec { tv_sec: 0, tv_nsec: pace.subsec_nanos().into() };
        match poll(&mut events, Some(&pace)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = events.iter().map(|event| !event.revents().is_empty());
        Ok(pipes.map(|pipe| pipe.is_some() && ready.next().unwrap_or(false)))
    }
}

impl Read for RunningProgram {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.output.is_some() || self.errors.is_some() {
            cancel::check().map_err(io::Error::other)?;
            // What it had printed until then is in the pipes.
            let has_ended = self.has_ended();
            let [output, errors] = self.wait(if has_ended { Duration::ZERO } else { PACE })?;
            if let (true, Some(pipe)) = (errors, &mut self.errors) {
                let mut part = [0; 4096];
                match pipe.read(&mut part)? {
                    0 => self.errors = None,
                    length => self.said.extend(part.iter().take(length.min(MOST_ERRORS - self.said.len()))),
                }
            }
            if let (true, Some(pipe)) = (output, &mut self.output) {
                match pipe.read(into)? {
                    0 => self.output = None,
                    length => return Ok(length),
                }
            }
            if has_ended && !output && !errors {
                break;
            }
        }
        Ok(0)
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if !self.has_ended {
            self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::process_stat::ProcessStat;
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    #[test]
    fn output_and_errors_are_read_up_to_a_limit() {
        let (status, output, errors) = RunningProgram::output(shell("echo a; echo b >&2; exit 3"), 10).unwrap();
        assert_eq!((status.code(), &output[..], errors.as_str()), (Some(3), &b"a\n"[..], "b\n"));
        let endless = RunningProgram::output(shell("yes"), 10).unwrap_err();
        assert_eq!(format!("{endless:#}"), "the output of sh: it is longer than 10");
        // All of it is read, or the program would wait; the begin is kept.
        let (_, output, errors) = RunningProgram::output(shell("yes | head -c 300000 >&2; echo end"), 10).unwrap();
        assert_eq!((&output[..], errors.len()), (&b"end\n"[..], MOST_ERRORS));
    }

    #[test]
    fn a_program_ends_with_all_that_it_has_started() {
        // In the background, with both pipes open.
        let (status, output, _) = RunningProgram::output(shell("sleep 1000 & echo $!"), 100).unwrap();
        assert!(status.success());
        let id: u32 = String::from_utf8(output).unwrap().trim().parse().unwrap();
        let is_gone = || ProcessStat::of(id).is_none_or(|stat| stat.state == 'Z');
        assert!((0..1000).any(|_| is_gone() || {
            std::thread::sleep(PACE);
            false
        }));
    }

    #[test]
    fn a_program_that_is_asked_to_end_tidies_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = shell("trap 'rm half; exit' TERM; touch half; echo ready; while :; do sleep 0.01; done");
        command.current_dir(folder.path());
        let mut program = RunningProgram::start(command, true).unwrap();
        assert_eq!(program.read(&mut [0; 100]).unwrap(), 6);
        assert!(program.ask_to_end());
        assert!(!folder.path().join("half").exists());
    }

    #[test]
    fn it_may_close_its_output_before_it_ends() {
        let (status, output, _) = RunningProgram::output(shell("exec >&- 2>&-; exit 4"), 10).unwrap();
        assert_eq!((status.code(), output.len()), (Some(4), 0));
    }
}

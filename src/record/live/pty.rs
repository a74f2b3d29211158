//! The terminal that a pipeline gets while the screen has the real one.

use crate::record::start::launch::{MadePipe, StageStreams};
use anyhow::{Context as _, Result};
use rustix::fs::{Mode, OFlags, fcntl_setfl, fstat, minor, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use std::fs::File;
use std::io::{IsTerminal as _, stderr, stdin, stdout};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Stdio;

/// A pair of terminals: programs have one side, this process has the other.
#[derive(Debug)]
pub(crate) struct PipelineTerminal {
    master: OwnedFd,
    /// Held, so that reading does not fail before and after there are programs.
    programs: OwnedFd,
    /// Whether those that have it read lines and show what is typed at first.
    at_first: LocalModes,
}

/// What programs turn off that need the keys themselves, or hide a password.
const LINES: LocalModes = LocalModes::ICANON.union(LocalModes::ECHO);

impl PipelineTerminal {
    /// With the settings and the size of the real one.
    ///
    /// # Errors
    /// When the kernel refuses a terminal.
    pub(crate) fn new(settings: &Termios, size: Winsize) -> Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let programs = open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        tcsetattr(&programs, OptionalActions::Now, settings)?;
        tcsetwinsize(&programs, size)?;
        fcntl_setfl(&master, OFlags::NONBLOCK)?;
        Ok(Self { master, programs, at_first: settings.local_modes & LINES })
    }

    /// Begin a session whose terminal this is. The process must not lead a group.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(crate) fn begin_session(&self) -> Result<()> {
        rustix::process::setsid().context("setsid")?;
        rustix::process::ioctl_tiocsctty(&self.programs).context("TIOCSCTTY")
    }

    pub(crate) fn master(&self) -> &OwnedFd {
        &self.master
    }

    /// For a pipeline: this terminal in place of the real one, and otherwise what this process has.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn streams(&self) -> Result<StageStreams> {
        let own = || self.programs.try_clone().map(File::from);
        let chosen = |is_terminal: bool, other: std::os::fd::BorrowedFd<'_>| -> std::io::Result<File> {
            if is_terminal { own() } else { other.try_clone_to_owned().map(File::from) }
        };
        let streams = || -> std::io::Result<StageStreams> {
            Ok(StageStreams {
                input: if stdin().is_terminal() { Stdio::from(own()?) } else { Stdio::inherit() },
                output: chosen(stdout().is_terminal(), stdout().as_fd())?,
                errors: chosen(stderr().is_terminal(), stderr().as_fd())?,
            })
        };
        streams().context("cannot copy a descriptor")
    }

    /// The programs' side, for what this process itself prints.
    pub(crate) fn programs(&self) -> &OwnedFd {
        &self.programs
    }

    /// Whether a program has changed it so that keys reach it one by one, or are not shown.
    pub(crate) fn is_taken(&self) -> bool {
        tcgetattr(&self.master).is_ok_and(|now| !now.local_modes.contains(self.at_first))
    }

    pub(crate) fn resize(&self, size: Winsize) {
        // Programs see the size before.
        let _ = tcsetwinsize(&self.programs, size);
    }

    /// What is typed into it, as a channel: bpf/record_terminals.bpf.h.
    pub(crate) fn typed_channel(&self) -> Option<u64> {
        let stat = fstat(&self.programs).ok()?;
        let device = MadePipe::of(&stat).device;
        Some(u64::from(device) << 32 | (u64::from(minor(stat.st_rdev)) * 2 + 2))
    }
}

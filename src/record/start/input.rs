//! A pipeline's standard input, for runs that do not simply inherit it.

use crate::util::usage::UsageError;
use anyhow::{Context as _, Result, bail};
use rustix::fs::FileType;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;

/// This process's standard input.
#[derive(Debug)]
pub(crate) enum KeptInput {
    /// A file, from this offset on.
    File(OwnedFd, u64),
    /// A terminal, /dev/null, or closed.
    Nothing,
}

impl KeptInput {
    /// Keep it. `why`: why a pipe does not do, for the user: `a guest cannot read this standard input`.
    ///
    /// # Errors
    /// A usage error if it can be read only once.
    pub(crate) fn keep(why: &str) -> Result<Self> {
        let stdin = std::io::stdin();
        match rustix::fs::fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile) => {
                let offset = rustix::fs::seek(&stdin, rustix::fs::SeekFrom::Current(0)).context("standard input")?;
                let copy = rustix::io::fcntl_dupfd_cloexec(&stdin, 3).context("standard input")?;
                Ok(Self::File(copy, offset))
            }
            Ok(FileType::Fifo | FileType::Socket) => {
                bail!(UsageError::new(format!("{why}: give a file (< FILE) or nothing (< /dev/null)")))
            }
            _ => Ok(Self::Nothing),
        }
    }

    /// The input of one run, from its begin.
    pub(crate) fn stdio(&self) -> Result<Stdio> {
        Ok(match self {
            Self::Nothing => Stdio::null(),
            Self::File(file, offset) => {
                // Another open file, with an offset of its own.
                let mut again = File::open(link(file)).context("standard input")?;
                again.seek(SeekFrom::Start(*offset)).context("standard input")?;
                Stdio::from(again)
            }
        })
    }

    /// The file's path and the offset; `None` for [`Self::Nothing`].
    pub(crate) fn file(&self) -> Result<Option<(PathBuf, u64)>> {
        match self {
            Self::Nothing => Ok(None),
            Self::File(file, offset) => {
                let path = std::fs::read_link(link(file)).context("cannot find standard input's file")?;
                Ok(Some((path, *offset)))
            }
        }
    }
}

fn link(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

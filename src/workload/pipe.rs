//! Creates the pipe and sets its size.

use super::Spec;
use super::spec::PAGE;
use crate::util::size;
use anyhow::{Context, Result, bail};
use std::os::fd::OwnedFd;

/// One pipe. Its users read the real capacity from the kernel at their end.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub read: OwnedFd,
    pub write: OwnedFd,
}

const MAX_SIZE: &str = "/proc/sys/fs/pipe-max-size";
const SOFT_PAGES: &str = "/proc/sys/fs/pipe-user-pages-soft";

impl Pipe {
    /// Create a pipe as `spec` requests it. Both ends are closed on exec.
    pub(crate) fn new(spec: &Spec) -> Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context("cannot make a pipe")?;
        if let Some(bytes) = spec.pipe_target() {
            // The kernel rounds up to a power of two of pages; `check` has limited `bytes` to 2 GiB.
            let wanted = usize::try_from(bytes.max(PAGE))?;
            if let Err(error) = rustix::pipe::fcntl_setpipe_size(&write, wanted) {
                bail!("{}", refusal(spec, bytes, error));
            }
        }
        Ok(Self { read, write })
    }
}

/// The largest pipe of at most `wanted` bytes that this user may create, found by trying; a power of two of pages.
pub fn largest(wanted: u64) -> u64 {
    let mut bytes = 1 << wanted.clamp(PAGE, 1 << 31).ilog2();
    let holds = |bytes: u64| {
        let (_read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
        rustix::pipe::fcntl_setpipe_size(&write, usize::try_from(bytes).ok()?).ok()
    };
    while bytes > PAGE && holds(bytes).is_none() {
        bytes /= 2;
    }
    bytes
}

fn refusal(spec: &Spec, bytes: u64, error: rustix::io::Errno) -> String {
    let flag = match spec.pipe_size {
        Some(_) => format!("--pipe-size {}", size::format(bytes)),
        None => format!(
            "--buffer-size {}: the pipe has to hold half of it, {}",
            size::format(spec.buffer_size),
            size::format(bytes)
        ),
    };
    let limit = |path: &str| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    match (limit(MAX_SIZE), error) {
        (Some(most), rustix::io::Errno::PERM) if bytes > most => {
            format!(
                "{flag}: {MAX_SIZE} limits this user to {}: use less, or raise the limit as root",
                size::format(most)
            )
        }
        (_, rustix::io::Errno::PERM) => {
            format!(
                "{flag}: this user's pipes reach the limit {SOFT_PAGES}: close some, use less, or raise the limit as root"
            )
        }
        _ => format!("{flag}: the kernel refuses a pipe of this size ({error}): use less"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_pipe_is_one_that_can_be_had() {
        for wanted in [1, PAGE, 100_000, 4 << 20] {
            let most = largest(wanted);
            assert!(most.is_power_of_two() && most >= PAGE && most <= wanted.max(PAGE), "{wanted}: {most}");
            assert!(Pipe::new(&Spec { pipe_size: Some(most), ..Spec::default() }).is_ok());
        }
        assert_eq!(largest(64 << 10), 64 << 10);
    }
}

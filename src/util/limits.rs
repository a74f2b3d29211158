//! Limits that the caller's shell sets (ulimit), and what to say when one of them is in the way.

use anyhow::{Error, Result, bail};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The least stack for the main thread. An unoptimised build needs less than half of it.
const STACK: u64 = 1 << 20;

/// Ignore SIGXFSZ, so that exceeding a file-size limit becomes an error that names the file.
pub fn ignore_file_size() {
    // SAFETY: SIG_IGN is a valid disposition, and it replaces no handler of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Let `command`, which is not ours, be ended by SIGXFSZ again: programs inherit what is ignored.
pub fn restore_file_size(command: &mut Command) {
    // SAFETY: one system call between fork and exec; SIG_DFL is a valid disposition.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            Ok(())
        });
    }
}

/// Refuse a stack that may not grow as far as this program needs: it would be aborted there.
pub fn check_stack() -> Result<()> {
    refuse_small_stack(getrlimit(Resource::Stack).current)
}

fn refuse_small_stack(limit: Option<u64>) -> Result<()> {
    match limit {
        Some(bytes) if bytes < STACK => bail!(
            "the stack is limited to {} KiB, and pipeprof needs {}: raise it with `ulimit -s`",
            bytes / 1024,
            STACK / 1024
        ),
        _ => Ok(()),
    }
}

/// What to do if a limit caused `error`.
pub fn advice(error: &Error) -> Option<&'static str> {
    let number = error.chain().find_map(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        io.or_else(|| cause.downcast_ref::<Errno>().map(|errno| errno.raw_os_error()))
    })?;
    match number {
        libc::EMFILE => Some("raise the limit of open files with `ulimit -n`"),
        libc::EFBIG => Some("raise the limit of a file's size with `ulimit -f`"),
        libc::ENFILE => Some("the whole machine has too many open files: raise /proc/sys/fs/file-max"),
        // fork(2): RLIMIT_NPROC, threads-max, pid_max or a cgroup's pids.max.
        libc::EAGAIN => Some("there may be too many processes: see `ulimit -u`, or the pids.max of the cgroup"),
        _ => None,
    }
}

/// How many compilers or guests run at a time: one on each CPU.
pub fn one_per_cpu() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn limits_are_named() {
        let of = |number| Err::<(), _>(std::io::Error::from_raw_os_error(number)).context("cannot").unwrap_err();
        assert!(advice(&of(libc::EMFILE)).unwrap().contains("ulimit -n"));
        assert!(advice(&of(libc::EAGAIN)).unwrap().contains("ulimit -u"));
        assert_eq!(advice(&of(libc::ENOENT)), None);
        assert!(advice(&Error::from(Errno::MFILE).context("pipe")).is_some());
        assert_eq!(advice(&anyhow::anyhow!("other")), None);
    }

    #[test]
    fn a_small_stack_is_refused() {
        assert!(refuse_small_stack(Some(64 << 10)).unwrap_err().to_string().contains("64 KiB"));
        assert!(refuse_small_stack(Some(8 << 20)).is_ok() && refuse_small_stack(None).is_ok());
    }
}

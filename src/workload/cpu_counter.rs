//! The kernel's own counter of a CPU's instructions, next to those that an emulator counts.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// The names of what the counter of a CPU's instructions had before and after the window of a process.
pub const CPU_INSTRUCTIONS_BEFORE: &str = "instructions of the CPU before";
pub const CPU_INSTRUCTIONS_AFTER: &str = "instructions of the CPU after";

/// A running counter of the first CPU's instructions, for processes that this one starts.
pub(crate) fn of_cpu() -> Result<Counter, String> {
    let attempt = || -> std::io::Result<Counter> {
        let mut builder = Builder::new().any_pid().one_cpu(0).kind(Hardware::INSTRUCTIONS);
        builder.include_kernel();
        let mut counter = builder.build()?;
        counter.enable()?;
        // SAFETY: the descriptor is that of the counter, which is open.
        let file = unsafe { BorrowedFd::borrow_raw(counter.as_raw_fd()) };
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?;
        Ok(counter)
    };
    attempt().map_err(|error| unavailable(&error))
}

/// What it has counted: the first number of its read format (perf_event_open(2)).
pub(crate) fn counted(mut counter: &File) -> std::io::Result<u64> {
    let mut numbers = [0; 64];
    match counter.read(&mut numbers)? {
        8.. => Ok(numbers.first_chunk().map_or(0, |number| u64::from_ne_bytes(*number))),
        _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Why a counter of the hardware is not available.
pub(crate) fn unavailable(error: &std::io::Error) -> String {
    let reason = match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine has no hardware counters (usually a virtual machine without a PMU)".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "this user may not count kernel events; allow it with `sudo sysctl kernel.perf_event_paranoid=1`".to_owned()
        }
        Some(libc::ENOSYS) => "this kernel is built without perf events".to_owned(),
        _ => error.to_string(),
    };
    format!("not available: {reason}")
}

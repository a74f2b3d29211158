//! Makes the threads of an emulator take turns, so that a guest is the same each time, whatever else this machine does, and
//! without any rights: turns.c, which QEMU loads. docs/exactness.md, "Why a guest repeats itself", has the figures.

mod names;

use crate::arch::Processor;
use crate::vm::qemu;
use anyhow::{Context as _, Result};
use names::{COUNTER, LOADED, TAKEN};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::FdFlags;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pipeprof-turns.so"));

/// The variable of the dynamic linker (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// What one emulator loads, and what it says of it.
#[derive(Debug)]
pub(crate) struct Turns {
    _object: File,
    counter: OwnedFd,
}

impl Turns {
    /// For an emulator that starts with `command`. This must live until it has started.
    pub(crate) fn new(command: &mut Command) -> Result<Self> {
        let made = || "cannot make a file in memory for QEMU: is the limit of open files reached (ulimit -n)?";
        // In memory, because the linker splits a path at each space and colon.
        let mut object: File = memfd_create("pipeprof-turns", MemfdFlags::CLOEXEC).with_context(made)?.into();
        object.write_all(OBJECT).with_context(made)?;
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).with_context(made)?;
        let files = [object.as_raw_fd(), counter.as_raw_fd()];
        let mut loaded = OsString::from(format!("/proc/self/fd/{}", files[0]));
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            loaded.push(":");
            loaded.push(others);
        }
        command.env(PRELOAD, loaded).env(COUNTER, files[1].to_string());
        // SAFETY: only system calls between fork and exec, on descriptors that the caller keeps open until then.
        unsafe { command.pre_exec(move || files.iter().try_for_each(|file| keep(*file))) };
        Ok(Self { _object: object, counter })
    }

    /// What it has counted so far.
    fn counted(&self) -> u64 {
        let mut number = [0; 8];
        // Without a number, it has counted nothing.
        match rustix::io::read(&self.counter, &mut number) {
            Ok(8) => u64::from_ne_bytes(number),
            _ => 0,
        }
    }

    /// Whether the threads of the emulator, which has ended, took turns.
    pub(crate) fn taken(&self) -> bool {
        self.counted() >= TAKEN
    }
}

/// Whether QEMU can load it. One that is linked with a C library that is too old would not even start.
pub fn can_be_loaded(processor: Processor) -> bool {
    static LOADED_BEFORE: [OnceLock<bool>; Processor::ALL.len()] = [const { OnceLock::new() }; Processor::ALL.len()];
    let try_it = || {
        let mut command = Command::new(qemu::program(processor));
        let turns = Turns::new(command.arg("--version").stdin(Stdio::null())).ok()?;
        let ended = command.output().ok()?;
        Some(ended.status.success() && turns.counted() >= LOADED)
    };
    LOADED_BEFORE.get(processor as usize).is_some_and(|before| *before.get_or_init(|| try_it().unwrap_or(false)))
}

/// Let a descriptor stay open in the program that this process executes.
fn keep(file: RawFd) -> std::io::Result<()> {
    // SAFETY: it is open, as `Turns::new` says.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    Ok(rustix::io::fcntl_setfd(file, FdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_loaded_into_qemu_and_into_nothing_else() {
        let counted = |name: &str| {
            let mut command = Command::new("true");
            let turns = Turns::new(command.arg0(name)).unwrap();
            assert!(command.status().unwrap().success());
            (turns.counted(), turns.taken())
        };
        assert_eq!(counted("qemu-system-x86_64"), (LOADED, false));
        assert_eq!(counted("sh"), (0, false));
    }
}

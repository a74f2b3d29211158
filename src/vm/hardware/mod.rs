//! The machines that guests see, by processor: what QEMU is told, and what init finds.

mod aarch64;
mod x86_64;

use crate::arch::Processor;
use std::ffi::OsString;
use std::path::PathBuf;

/// A machine.
#[derive(Debug)]
pub struct Hardware {
    /// QEMU's program, and its package on Debian.
    pub(super) qemu: &'static str,
    pub package: &'static str,
    /// The variable that names another QEMU.
    pub variable: &'static str,
    /// QEMU's machine, with its options.
    pub(super) machine: &'static str,
    /// QEMU's processor for guests for which none is given.
    pub(super) cpu: &'static str,
    /// The device at which init says that it is ready. Only a guest that is to be saved stops there.
    pub(super) ready: &'static str,
    /// The option for the serial port of the console, and for that of messages; `NAME` is the name of the port's file.
    pub(super) ports: [[&'static str; 2]; 2],
    /// The kernel's arguments.
    pub(super) words: &'static [&'static str],
    /// Those under TCG.
    pub(super) emulated_words: &'static [&'static str],
    /// The serial port for messages, in the guest.
    pub port: &'static str,
    /// The kernel's image in its tree.
    pub(super) image: &'static str,
}

impl Hardware {
    /// The machine that guests with kernels for `processor` see.
    pub const fn of(processor: Processor) -> &'static Self {
        match processor {
            Processor::X86_64 => &x86_64::HARDWARE,
            Processor::Aarch64 => &aarch64::HARDWARE,
        }
    }

    /// Its QEMU: that of the variable, or the one in PATH.
    pub(super) fn program(&self) -> OsString {
        std::env::var_os(self.variable).filter(|name| !name.is_empty()).unwrap_or_else(|| self.qemu.into())
    }
}

/// This program's executable.
const OWN_BINARY: &str = "/proc/self/exe";

/// The executable of this program for `processor`: this one, or the one for that processor beside it. It may not exist.
pub(super) fn binary_for(processor: Processor) -> PathBuf {
    if processor == Processor::HERE {
        return PathBuf::from(OWN_BINARY);
    }
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().unwrap_or(&own);
    let beside = folder.join(format!("pipeprof-{}", processor.name()));
    // Cargo's folders: target/TARGET/release.
    let target = |processor: Processor| format!("{}-unknown-linux-gnu", processor.name());
    let built = folder.ancestors().nth(2).map(|top| top.join(target(processor)).join("release").join("pipeprof"));
    let is_cargo = folder.parent().is_some_and(|parent| parent.ends_with(target(Processor::HERE)));
    built.filter(|built| is_cargo && built.is_file() && !beside.is_file()).unwrap_or(beside)
}

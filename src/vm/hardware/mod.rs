//! The machines that guests see, by processor: what QEMU is told, and what init finds.

mod aarch64;
mod model;
mod x86_64;

pub use model::Hardware;

use crate::arch::Processor;
use std::ffi::OsString;
use std::path::PathBuf;

impl Hardware {
    /// The machine that guests with kernels for `processor` see.
    pub const fn of(processor: Processor) -> &'static Self {
        match processor {
            Processor::X86_64 => &x86_64::HARDWARE,
            Processor::Aarch64 => &aarch64::HARDWARE,
        }
    }

    /// The processor of a guest whose instructions are counted.
    pub fn counted_cpu(&self, given: Option<String>) -> Option<String> {
        given.or_else(|| Some(self.counted_cpu.to_owned()).filter(|own| own != self.cpu))
    }

    /// Its QEMU: that of the variable, or the one in PATH.
    pub(super) fn program(&self) -> OsString {
        std::env::var_os(self.variable).filter(|name| !name.is_empty()).unwrap_or_else(|| self.qemu.into())
    }
}

/// This program's executable.
const OWN_BINARY: &str = "/proc/self/exe";

/// The executable of this program for `processor`: this one; that of a variable such as `PIPEPROF_AARCH64`; or the one for that
/// processor beside this one. It may not exist.
pub fn binary_for(processor: Processor) -> PathBuf {
    if processor == Processor::HERE {
        return PathBuf::from(OWN_BINARY);
    }
    let variable = format!("PIPEPROF_{}", processor.name().to_uppercase());
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return PathBuf::from(path);
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

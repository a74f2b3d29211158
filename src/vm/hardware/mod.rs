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

    /// The options that a kernel needs to be profiled in a guest: a fragment of a kernel configuration.
    pub fn needed_options(&self) -> String {
        format!("{}{}", include_str!("../kernel.config"), self.options)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fragment_sets_each_option_once() {
        for processor in Processor::ALL {
            fragment(Hardware::of(processor));
        }
    }

    fn fragment(hardware: &Hardware) {
        let mut seen = std::collections::BTreeSet::new();
        let text = hardware.needed_options();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let option = line.strip_suffix("=y").unwrap_or_else(|| panic!("{line}"));
            let name = option.strip_prefix("CONFIG_").unwrap_or_else(|| panic!("{line}"));
            assert!(name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'), "{line}");
            assert!(seen.insert(option), "{line} is given twice");
        }
        let complete = [
            // The guest's init, names of functions, and reading the job.
            ["BLK_DEV_INITRD", "BINFMT_ELF", "UNIX"].as_slice(),
            // What init mounts, two CPUs, and times in icount's clock.
            &["PROC_FS", "SYSFS", "DEVTMPFS", "TMPFS", "CGROUPS", "SMP", "HOTPLUG_CPU", "HIGH_RES_TIMERS"],
            // Names of functions, the configuration inside the image, and memory that is charged.
            &["KALLSYMS", "KALLSYMS_ALL", "IKCONFIG", "IKCONFIG_PROC", "MEMCG"],
            // tinyconfig's choices that a distribution's kernel does not have change each count.
            &["CC_OPTIMIZE_FOR_PERFORMANCE", "STACKPROTECTOR_STRONG", "HARDENED_USERCOPY", "PREEMPT_VOLUNTARY"],
            // sample, fgraph and kprobe.
            &["PERF_EVENTS", "BPF_SYSCALL", "FUNCTION_GRAPH_TRACER", "KPROBES", "KPROBE_EVENTS"],
        ];
        for option in complete.into_iter().flatten().chain([&hardware.console_option]) {
            assert!(seen.contains(format!("CONFIG_{option}").as_str()), "{option}");
        }
    }
}

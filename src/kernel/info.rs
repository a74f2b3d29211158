//! Release, version, command line and configuration of the kernel.

use super::config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kernel that ran the workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelInfo {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    pub machine: String,
    /// The compiler that built it, from /proc/version; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub compiler: String,
    /// The kernel's part of /proc/cmdline.
    pub command_line: String,
    /// Built-in options by name (`CONFIG_PREEMPT`), and `n` for those that matter to pipes and are off; empty if they cannot be read.
    pub config: BTreeMap<String, String>,
    /// The file they were read from, or why they could not be read.
    pub config_source: String,
}

impl KernelInfo {
    /// The size of a page, bytes, by the options of kernels that have a choice (arch/Kconfig, arch/arm64/Kconfig).
    pub fn page_size(&self) -> u64 {
        let has = |option: &str| self.config.get(option).is_some_and(|value| value == "y");
        match () {
            () if has("CONFIG_PAGE_SIZE_64KB") || has("CONFIG_ARM64_64K_PAGES") => 64 << 10,
            () if has("CONFIG_PAGE_SIZE_16KB") || has("CONFIG_ARM64_16K_PAGES") => 16 << 10,
            () => 4 << 10,
        }
    }

    pub fn running() -> Self {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let release = text(uname.release());
        let (config, config_source) = config::running(&release);
        Self {
            version: text(uname.version()),
            compiler: compiler(&std::fs::read_to_string("/proc/version").unwrap_or_default()).to_owned(),
            machine: text(uname.machine()),
            command_line: kernel_arguments(&std::fs::read_to_string("/proc/cmdline").unwrap_or_default()).to_owned(),
            release,
            config,
            config_source,
        }
    }
}

/// The compiler in /proc/version, without its linker: `gcc-14 (Debian 14.2.0-19) 14.2.0` of
/// `Linux version 6.12.9 (builder@host) (gcc-14 (Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils) 2.44) #1 SMP ...`
/// (init/version-timestamp.c). Empty if the text has another form.
fn compiler(version: &str) -> &str {
    // The second text in parentheses; the first is the builder.
    let Some((_, rest)) = version.split_once(") (") else { return "" };
    let mut depth = 0;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return rest[..at].trim(),
            ')' => depth -= 1,
            ',' if depth == 0 => return rest[..at].trim(),
            _ => {}
        }
    }
    ""
}

/// The compiler and its version: `gcc 14.2.0` of `x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0`, `clang 17.0.6` of
/// `clang version 17.0.6`. The text as it is if it names no compiler with its version.
pub fn compiler_name(text: &str) -> String {
    compiler_in(text).unwrap_or_else(|| text.to_owned())
}

/// [`compiler_name`]; `None` if the text names no compiler with its version. gcc calls itself cc if started as that.
pub fn compiler_in(text: &str) -> Option<String> {
    let (_, family) = [("clang", "clang"), ("cc", "gcc")].into_iter().find(|(name, _)| text.contains(name))?;
    let numbers = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let outside = text.split('(').next().unwrap_or_default().split_whitespace();
    let after = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    outside.chain(after).find(numbers).map(|version| format!("{family} {version}"))
}

/// The kernel's part of its command line: everything after ` -- ` belongs to init.
fn kernel_arguments(command_line: &str) -> &str {
    command_line.split_once(" -- ").map_or(command_line, |(kernel, _)| kernel).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_in_the_version() {
        let debian = "Linux version 6.12.117+deb13-cloud-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gnu-gcc-14 \
                      (Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) 2.44) #1 SMP Debian";
        assert_eq!(compiler(debian), "x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0");
        assert_eq!(
            compiler("Linux version 6.1 (me@host) (clang version 17.0.6, LLD 17.0.6) #1"),
            "clang version 17.0.6"
        );
        assert_eq!(compiler("Linux version 4.4 (me@host) (gcc version 12.1.0 (GCC) ) #1"), "gcc version 12.1.0 (GCC)");
        assert_eq!(compiler("Linux"), "");
    }

    #[test]
    fn compilers_have_short_names() {
        for (text, name) in [
            ("x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0", "gcc 14.2.0"),
            ("gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0", "gcc 12.2.0"),
            ("gcc-10 (Debian 10.2.1-6) 10.2.1 20210110", "gcc 10.2.1"),
            ("gcc version 12.1.0 (GCC)", "gcc 12.1.0"),
            ("cc (Debian 14.2.0-19) 14.2.0", "gcc 14.2.0"),
            ("clang version 17.0.6", "clang 17.0.6"),
            ("Debian clang version 19.1.7 (3+b1)", "clang 19.1.7"),
            ("something else", "something else"),
            ("rustc 1.0", "rustc 1.0"),
            ("gcc", "gcc"),
            ("", ""),
        ] {
            assert_eq!(compiler_name(text), name);
        }
    }

    #[test]
    fn arguments_of_init_are_left_out() {
        assert_eq!(kernel_arguments("psi=0 quiet -- --token x\n"), "psi=0 quiet");
        assert_eq!(kernel_arguments("psi=0\n"), "psi=0");
    }

    #[test]
    fn the_running_kernel_has_a_name() {
        let kernel = KernelInfo::running();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(kernel.release, release.trim());
        assert!(!kernel.config_source.is_empty());
    }
}

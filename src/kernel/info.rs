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
    /// The kernel's part of /proc/cmdline.
    pub command_line: String,
    /// The configuration options that matter to pipes, by name (`CONFIG_PREEMPT`); empty if they cannot be read.
    pub config: BTreeMap<String, String>,
    /// The file they were read from, or why they could not be read.
    pub config_source: String,
}

impl KernelInfo {
    /// The running kernel.
    #[must_use]
    pub(crate) fn running() -> Self {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let release = text(uname.release());
        let (config, config_source) = config::running(&release);
        Self {
            version: text(uname.version()),
            machine: text(uname.machine()),
            command_line: kernel_arguments(&std::fs::read_to_string("/proc/cmdline").unwrap_or_default()).to_owned(),
            release,
            config,
            config_source,
        }
    }
}

/// The kernel's part of its command line: everything after ` -- ` belongs to init.
fn kernel_arguments(command_line: &str) -> &str {
    command_line.split_once(" -- ").map_or(command_line, |(kernel, _)| kernel).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

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

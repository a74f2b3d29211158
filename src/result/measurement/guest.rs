//! What a guest is booted on.

use crate::util::size;
use crate::util::usage::{OrUsage as _, UsageError};
use anyhow::{Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Below this Debian's kernels do not reach their init.
const LEAST_MEMORY: u64 = 64 << 20;

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Accel {
    /// KVM if a guest starts with it in time, otherwise emulation
    Auto,
    /// Hardware virtualisation on the host's processor
    Kvm,
    /// Emulation; slow, but deterministic
    #[default]
    Tcg,
}

/// What a guest is booted on, without its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestMachine {
    /// How its instructions are executed.
    pub accel: Accel,
    /// Its number of CPUs. Absent: 1; 2 for runs with sample, kprobe or fgraph, so that writer and reader can contend for
    /// locks.
    pub cpus: Option<u32>,
    /// Its memory, bytes.
    pub memory: u64,
    /// Arguments of the kernel, after pipeprof's own.
    pub append: Vec<String>,
    /// QEMU's CPU model and flags, such as `max` or `qemu64,+erms`. Absent: `qemu64`; with KVM, `host`.
    pub cpu: Option<String>,
    /// Whether it boots, instead of starting from a snapshot of an earlier boot.
    #[serde(default)]
    pub no_snapshot: bool,
    /// Time limit for booting, in CPU time of the emulator.
    pub boot_limit: Duration,
    /// Time limit for the work, likewise.
    pub time_limit: Duration,
}

impl Default for GuestMachine {
    fn default() -> Self {
        Self {
            accel: Accel::default(),
            cpus: None,
            memory: 1 << 30,
            append: Vec::new(),
            cpu: None,
            no_snapshot: false,
            boot_limit: Duration::from_secs(120),
            time_limit: Duration::from_secs(900),
        }
    }
}

impl GuestMachine {
    /// The number of CPUs, where no run decides it.
    pub fn cpus(&self) -> u32 {
        self.cpus.unwrap_or(1)
    }

    /// Check these flags; `guest`: whether a kernel is given. Nothing is read.
    pub fn check(&self, guest: bool) -> Result<()> {
        match self.given() {
            Some(flag) if !guest => {
                bail!(UsageError::new(format!("{flag} requires a guest: add --kernel, such as --kernel 6.12")))
            }
            _ => self.check_values().or_usage(),
        }
    }

    /// The first flag whose value differs from the default.
    fn given(&self) -> Option<&'static str> {
        let default = Self::default();
        [
            ("--accel", self.accel != default.accel),
            ("--cpus", self.cpus != default.cpus),
            ("--memory", self.memory != default.memory),
            ("--append", !self.append.is_empty()),
            ("--cpu", self.cpu.is_some()),
            ("--no-snapshot", self.no_snapshot),
            ("--boot-limit", self.boot_limit != default.boot_limit),
            ("--time-limit", self.time_limit != default.time_limit),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }

    fn check_values(&self) -> Result<()> {
        if !(1..=64).contains(&self.cpus()) {
            bail!("--cpus {}: give 1 to 64", self.cpus());
        }
        if self.memory < LEAST_MEMORY {
            bail!("--memory {}: give 64M or more; most work needs 256M", size::format(self.memory));
        }
        if let Some(cpu) = &self.cpu
            && (cpu.is_empty() || cpu.starts_with('-') || cpu.contains(char::is_whitespace))
        {
            bail!(
                "--cpu '{cpu}': not a CPU model; give one of `qemu-system-x86_64 -cpu help`, such as max or qemu64,+erms"
            );
        }
        for argument in &self.append {
            if argument.contains(['\n', '\0']) {
                bail!("--append: the kernel arguments contain a line break or a NUL; give one line");
            }
            if argument.contains("ttyS1") {
                bail!("--append {argument}: ttyS1 carries the guest's reply; use another serial port");
            }
        }
        Ok(())
    }
}

//! The virtual machine of a guest, as the flags describe it.

use crate::util::size;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::vm::{Accel, GuestOptions, Kernel};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Below this Debian's kernels do not reach their init.
const LEAST_MEMORY: u64 = 64 << 20;

/// What a guest is booted on: its flags, without its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[command(next_help_heading = "Guest")]
pub struct GuestMachine {
    /// How the guest's instructions are executed
    #[arg(long, value_enum, default_value_t, value_name = "ACCEL")]
    pub accel: Accel,
    /// Number of CPUs of the guest [default: 1; 2 for runs with sample, kprobe or fgraph, so that writer and reader can
    /// contend for locks]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory of the guest, such as 2G
    #[arg(long, default_value = "1G", value_parser = size::parse, value_name = "SIZE")]
    pub memory: u64,
    /// Kernel command-line arguments for the guest, such as mitigations=off; may be repeated
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// QEMU's CPU model and flags, such as max or qemu64,+erms [default: qemu64; with KVM, host]
    #[arg(long, value_name = "MODEL", allow_hyphen_values = true)]
    pub cpu: Option<String>,
    /// Boot the guest, instead of starting it from a snapshot of an earlier boot
    #[arg(long)]
    #[serde(default)]
    pub no_snapshot: bool,
    /// Time limit for booting the guest, in seconds of the emulator's CPU time
    #[arg(long, default_value = "120", value_parser = seconds, value_name = "SECONDS", allow_hyphen_values = true)]
    pub boot_limit: Duration,
    /// Time limit for the work in the guest, in seconds of the emulator's CPU time
    #[arg(long, default_value = "900", value_parser = seconds, value_name = "SECONDS", allow_hyphen_values = true)]
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
    /// The guest that boots `kernel`; `None` without one.
    pub(crate) fn guest(&self, kernel: Option<&str>) -> Result<Option<GuestOptions>> {
        match kernel {
            Some(kernel) => self.options(kernel).map(Some),
            None => self.check(false).map(|()| None),
        }
    }

    /// The number of CPUs, where no run decides it.
    pub(crate) fn cpus(&self) -> u32 {
        self.cpus.unwrap_or(1)
    }

    /// Check these flags; `guest`: whether a kernel is given. Nothing is read.
    pub(crate) fn check(&self, guest: bool) -> Result<()> {
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

    /// The guest that boots `kernel`.
    pub(crate) fn options(&self, kernel: &str) -> Result<GuestOptions> {
        self.check(true)?;
        Ok(GuestOptions {
            accel: self.accel,
            cpus: self.cpus(),
            memory_mib: self.memory >> 20,
            cpu: self.cpu.clone(),
            append: self.append.clone(),
            snapshot: !self.no_snapshot,
            boot_limit: self.boot_limit,
            time_limit: self.time_limit,
            ..GuestOptions::of(Kernel::find(kernel)?)
        })
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

fn seconds(text: &str) -> Result<Duration, String> {
    match text.trim_end_matches('s').parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("'{text}' is not a time in seconds: give a number such as 60")),
    }
}

//! The machine that a guest runs on, as its flags describe it.

use crate::util::size;
use crate::vm::{Accel, GuestOptions};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Below this Debian's kernels do not reach their init.
const LEAST_MEMORY: u64 = 64 << 20;

/// What a guest is booted on: its flags, without its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[command(next_help_heading = "Guest")]
pub struct GuestMachine {
    /// What executes the guest
    #[arg(long, value_enum, default_value_t, value_name = "ACCEL")]
    pub accel: Accel,
    /// CPUs of the guest
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub cpus: u32,
    /// Memory of the guest
    #[arg(long, default_value = "1G", value_parser = size::parse, value_name = "SIZE")]
    pub memory: u64,
    /// Kernel arguments for the guest, such as mitigations=off; may be repeated
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// QEMU's CPU model and flags, such as max or qemu64,+erms [default: qemu64; under KVM host]
    #[arg(long, value_name = "MODEL", allow_hyphen_values = true)]
    pub cpu: Option<String>,
    /// How long the guest may take to boot, in seconds
    #[arg(long, default_value = "120", value_parser = seconds, value_name = "SECONDS", allow_hyphen_values = true)]
    pub boot_limit: Duration,
    /// How long it may take for its job, in seconds
    #[arg(long, default_value = "900", value_parser = seconds, value_name = "SECONDS", allow_hyphen_values = true)]
    pub time_limit: Duration,
}

impl Default for GuestMachine {
    fn default() -> Self {
        Self {
            accel: Accel::default(),
            cpus: 1,
            memory: 1 << 30,
            append: Vec::new(),
            cpu: None,
            boot_limit: Duration::from_secs(120),
            time_limit: Duration::from_secs(900),
        }
    }
}

impl GuestMachine {
    /// The guest that boots `kernel`; `None` without one.
    ///
    /// # Errors
    /// One line that names the flag.
    pub fn guest(&self, kernel: Option<&str>) -> Result<Option<GuestOptions>> {
        match kernel {
            Some(kernel) => self.options(kernel).map(Some),
            None => match self.given() {
                Some(flag) => bail!("{flag} requires a guest: add --kernel, such as --kernel 6.12"),
                None => Ok(None),
            },
        }
    }

    /// A flag that was given other than its default is.
    fn given(&self) -> Option<&'static str> {
        let default = Self::default();
        [
            ("--accel", self.accel != default.accel),
            ("--cpus", self.cpus != default.cpus),
            ("--memory", self.memory != default.memory),
            ("--append", !self.append.is_empty()),
            ("--cpu", self.cpu.is_some()),
            ("--boot-limit", self.boot_limit != default.boot_limit),
            ("--time-limit", self.time_limit != default.time_limit),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }

    /// The guest that boots `kernel`.
    ///
    /// # Errors
    /// One line that names the flag.
    pub fn options(&self, kernel: &str) -> Result<GuestOptions> {
        if !(1..=64).contains(&self.cpus) {
            bail!("--cpus {}: a guest has 1 to 64 CPUs", self.cpus);
        }
        if self.memory < LEAST_MEMORY {
            bail!("--memory {}: a guest needs 64M at least, 256M for most work", size::format(self.memory));
        }
        if let Some(cpu) = &self.cpu
            && (cpu.is_empty() || cpu.starts_with('-') || cpu.contains(char::is_whitespace))
        {
            bail!("--cpu '{cpu}': name a model of `qemu-system-x86_64 -cpu help`, such as max or qemu64,+erms");
        }
        for argument in &self.append {
            if argument.contains(['\n', '\0']) {
                bail!("--append: kernel arguments are one line");
            }
            if argument.contains("ttyS1") {
                bail!("--append {argument}: the guest's second serial port, ttyS1, carries its answer");
            }
        }
        Ok(GuestOptions {
            accel: self.accel,
            cpus: self.cpus,
            memory_mib: self.memory >> 20,
            cpu: self.cpu.clone(),
            append: self.append.clone(),
            boot_limit: self.boot_limit,
            time_limit: self.time_limit,
            ..GuestOptions::new(kernel)?
        })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.trim_end_matches('s').parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("'{text}' is not a time in seconds: give a number such as 60")),
    }
}

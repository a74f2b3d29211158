//! The flags by which a command is told to work in a guest; shared by all commands that can.

use crate::vm::{Accel, GuestOptions};
use anyhow::{Result, bail};
use clap::Args;
use std::time::Duration;

/// Flags of guests.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Guest")]
pub struct GuestArgs {
    /// Do it inside this kernel, in a QEMU guest: a bzImage, a .deb, or a series or release of `pipeprof kernel list`
    #[arg(long, value_name = "PATH|NAME")]
    pub kernel: Option<String>,
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// The defaults below.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Flags of the guest's machine, without its kernel.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Guest")]
pub struct MachineArgs {
    /// What executes the guest
    #[arg(long, value_enum, default_value_t, value_name = "ACCEL")]
    pub accel: Accel,
    /// CPUs of the guest
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub cpus: u32,
    /// Memory of the guest
    #[arg(long, default_value = "1G", value_parser = crate::util::size::parse, value_name = "SIZE")]
    pub memory: u64,
    /// Kernel arguments for the guest, such as mitigations=off; may be given again
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

impl GuestArgs {
    /// The guest asked for; none without `--kernel`.
    ///
    /// # Errors
    /// One line that names the flag.
    pub fn options(&self) -> Result<Option<GuestOptions>> {
        match &self.kernel {
            Some(kernel) => self.machine.options(kernel).map(Some),
            None => match self.machine.given() {
                Some(flag) => bail!("{flag} is for guests: add --kernel, such as --kernel 6.12"),
                None => Ok(None),
            },
        }
    }
}

/// Below this Debian's kernels do not reach their init.
const LEAST_MEMORY: u64 = 64 << 20;

impl MachineArgs {
    /// A flag that was given other than its default is.
    fn given(&self) -> Option<&'static str> {
        [
            ("--accel", self.accel != Accel::default()),
            ("--cpus", self.cpus != 1),
            ("--memory", self.memory != 1 << 30),
            ("--append", !self.append.is_empty()),
            ("--cpu", self.cpu.is_some()),
            ("--boot-limit", self.boot_limit != BOOT_LIMIT),
            ("--time-limit", self.time_limit != TIME_LIMIT),
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
            bail!(
                "--memory {}: a guest needs 64M at least, 256M for most work",
                crate::util::size::format(self.memory)
            );
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
        _ => Err(format!("'{text}' is no time in seconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        guest: GuestArgs,
    }

    fn error(words: &[&str]) -> String {
        let words = ["x", "--kernel", "/nonexistent/bzImage"].iter().chain(words);
        match Line::try_parse_from(words) {
            Ok(line) => format!("{:#}", line.guest.options().unwrap_err()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn bad_values_name_their_flag() {
        for words in [
            ["--cpus", "0"],
            ["--cpus", "65"],
            ["--cpus", "two"],
            ["--memory", "32M"],
            ["--memory", "lots"],
            ["--cpu", "max -snapshot"],
            ["--cpu", "-snapshot"],
            ["--append", "a\nb"],
            ["--append", "console=ttyS1"],
            ["--accel", "hvf"],
            ["--boot-limit", "-1"],
            ["--time-limit", "1h"],
        ] {
            let error = error(&words);
            assert!(error.contains(words[0]), "{words:?}: {error}");
        }
        assert!(error(&[]).contains("--kernel '/nonexistent/bzImage': there is no such file"));
    }

    #[test]
    fn without_a_kernel_there_is_no_guest() {
        let line = Line::try_parse_from(["x"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(line.guest.options().unwrap(), None);
        let line = Line::try_parse_from(["x", "--cpus", "2"]).unwrap_or_else(|error| panic!("{error}"));
        assert!(line.guest.options().unwrap_err().to_string().contains("--cpus"), "not ignored");
    }
}

//! The flags of commands that can run in a guest.

use super::choice_arg::choice;
use crate::studies::given::GivenMachine;
use crate::util::size;
use crate::vm::GuestOf as _;
use crate::vm::{Accel, GuestMachine, GuestOptions};
use anyhow::Result;
use clap::Args;
use std::time::Duration;

/// Flags of guests.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Guest")]
pub(crate) struct GuestArgs {
    /// Run in a QEMU guest with this kernel: a bzImage, a .deb, or a series or release of `pipeprof kernel list`; 6.12:arm64 for arm64
    /// [default: the running kernel]
    #[arg(long, value_name = "PATH|NAME")]
    pub kernel: Option<String>,
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// The guest's machine. What is absent was not given.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Guest")]
pub(crate) struct MachineArgs {
    /// How the guest's instructions are executed [default: tcg]
    #[arg(long, value_parser = choice::<Accel>(), value_name = "ACCEL")]
    pub accel: Option<Accel>,
    /// Number of CPUs of the guest [default: 1; 2 for runs with sample, kprobe or fgraph, so that writer and reader can
    /// contend for locks]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory of the guest, such as 2G [default: 1G]
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub memory: Option<u64>,
    /// Kernel command-line arguments for the guest, such as mitigations=off; may be repeated
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// QEMU's CPU model and flags, such as max or qemu64,+erms [default: qemu64; with KVM, host; of arm64 neoverse-n1, without its counters where instructions are counted]
    #[arg(long, value_name = "MODEL", allow_hyphen_values = true)]
    pub cpu: Option<String>,
    /// Boot the guest, instead of starting it from a snapshot of an earlier boot
    #[arg(long)]
    pub no_snapshot: bool,
    /// Time limit for booting the guest, in seconds of the emulator's CPU time [default: 120]
    #[arg(long, value_parser = seconds, value_name = "SECONDS", allow_hyphen_values = true)]
    pub boot_limit: Option<Duration>,
    /// Time limit for the work in the guest, in seconds of the emulator's CPU time [default: 900]
    #[arg(long, value_parser = seconds, value_name = "SECONDS", allow_hyphen_values = true)]
    pub time_limit: Option<Duration>,
}

impl MachineArgs {
    /// Which settings of the machine were given.
    pub(super) fn given(&self) -> GivenMachine {
        GivenMachine {
            accel: self.accel.is_some_and(|accel| accel != Accel::Auto),
            cpus: self.cpus.is_some(),
            memory: self.memory.is_some(),
            append: !self.append.is_empty(),
            cpu: self.cpu.is_some(),
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.trim_end_matches('s').parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("'{text}' is not a time in seconds: give a number such as 60")),
    }
}

impl GuestArgs {
    /// The requested guest; `None` without `--kernel`.
    pub(crate) fn options(&self) -> Result<Option<GuestOptions>> {
        self.machine.machine().guest(self.kernel.as_deref())
    }
}

impl MachineArgs {
    /// The machine of these flags.
    pub(crate) fn machine(&self) -> GuestMachine {
        let mut machine = GuestMachine::default();
        self.apply(&mut machine);
        machine
    }

    /// Set what was given.
    pub(crate) fn apply(&self, machine: &mut GuestMachine) {
        let Self { accel, cpus, memory, append, cpu, no_snapshot, boot_limit, time_limit } = self.clone();
        set(&mut machine.accel, accel);
        set(&mut machine.memory, memory);
        set(&mut machine.boot_limit, boot_limit);
        set(&mut machine.time_limit, time_limit);
        machine.cpus = cpus.or(machine.cpus);
        machine.cpu = cpu.or(machine.cpu.take());
        machine.no_snapshot |= no_snapshot;
        if !append.is_empty() {
            machine.append = append;
        }
    }
}

/// Replace `value` by what was given.
pub(super) fn set<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// `--cpus` of commands that measure no pair, which has two by default.
pub(super) fn one_cpu(cpus: clap::Arg) -> clap::Arg {
    cpus.help("Number of CPUs of the guest [default: 1]")
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
        assert!(error(&[]).contains("--kernel '/nonexistent/bzImage': file does not exist"));
    }
}

//! The flags of commands that can run in a guest.

use crate::vm::{GuestMachine, GuestOptions};
use anyhow::Result;
use clap::Args;

/// Flags of guests.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Guest")]
pub(crate) struct GuestArgs {
    /// Run in a QEMU guest with this kernel: a bzImage, a .deb, or a series or release of `pipeprof kernel list`
    /// [default: the running kernel]
    #[arg(long, value_name = "PATH|NAME")]
    pub kernel: Option<String>,
    #[command(flatten)]
    pub machine: GuestMachine,
}

impl GuestArgs {
    /// The requested guest; `None` without `--kernel`.
    pub(crate) fn options(&self) -> Result<Option<GuestOptions>> {
        self.machine.guest(self.kernel.as_deref())
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

//! The flags of searches that count many kernels, each once.

use super::run::given_flags;
use super::sizing_args::SizingArgs;
use super::workload_args::check_distinct;
use crate::studies::counted::{CountRequest, CountedKernels};
use crate::util::usage::UsageError;
use crate::workload::WorkloadRequest;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The workload that is counted.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Measurement")]
pub(super) struct CountArgs {
    /// Mode of `pipeprof run`; several are counted one after the other [default: write]
    #[arg(long, value_name = "MODE,...", value_delimiter = ',')]
    pub(super) mode: Vec<String>,
    /// Number of CPUs of the guests
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) cpus: Vec<u32>,
    #[command(flatten)]
    pub(super) sizing: SizingArgs,
    /// Other flags of `pipeprof run`, such as --run-flags '--buffer-size 64K'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "", hide_default_value = true)]
    pub(super) run_flags: String,
    /// Folder for the counts [default: not stored]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Use the counts in -o DIR, of a search with the same workload
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(super) resume: bool,
}

impl CountArgs {
    pub(super) fn prepare(&self) -> Result<CountedKernels> {
        check_distinct(&self.mode)?;
        let mut given = given_flags("--run-flags", &self.run_flags)?;
        self.sizing.apply(&mut given.options);
        for (flag, is_given) in [
            ("--mode", given.options.workload.mode.is_some()),
            ("--kernel", given.options.kernel.is_some()),
            ("--cpus", given.machine.cpus),
        ] {
            if is_given {
                bail!(UsageError::new(format!("--run-flags contains {flag}; give it outside, or leave it out")));
            }
        }
        let default = vec![WorkloadRequest::DEFAULT_MODE.to_owned()];
        let request = CountRequest {
            modes: if self.mode.is_empty() { default } else { self.mode.clone() },
            cpus: self.cpus.clone(),
            options: given.options,
            run_flags: self.run_flags.clone(),
            output: self.output.clone(),
            resume: self.resume,
            command: super::command_line(),
        };
        request.prepare()
    }
}

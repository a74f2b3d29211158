//! `pipeprof __engine` (hidden): run only the workload, for tests and comparison with other programs.

use super::workload_args::WorkloadArgs;
use crate::process::Running as _;
use crate::profile::ProcessName;
use crate::result::Processes;
use crate::util::cancel;
use anyhow::{Result, ensure};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Number of runs
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Print the totals of each process as JSON instead of GiB/s
    #[arg(long)]
    json: bool,
    /// Wait for a line on standard input before the window
    #[arg(long)]
    hold: bool,
}

impl EngineArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        ensure!(self.workload.further_modes.is_empty(), "--mode: give one mode");
        let (_, spec) = self.workload.request.spec()?;
        cancel::install()?;
        let mut wrong = 0;
        for _ in 0..self.runs {
            let mut launched = crate::workload::launch(&spec)?;
            if self.hold {
                let watched = launched.watched();
                util::outln!(
                    "{}",
                    serde_json::json!({
                        "writers": watched.pids(ProcessName::WRITER),
                        "readers": watched.pids(ProcessName::READER),
                    })
                );
                ensure!(
                    std::io::stdin().read_line(&mut String::new())? > 0,
                    "standard input was closed before a line came"
                );
            }
            launched.release()?;
            let processes: Processes = launched.wait()?;
            wrong += processes.reader().verify_errors.len();
            if self.json {
                util::outln!("{}", serde_json::to_string(&processes)?);
            } else {
                util::outln!("{:.3}", processes.gib_s());
            }
        }
        ensure!(wrong == 0, "--verify: the reader got other bytes than the writer sent");
        Ok(ExitCode::SUCCESS)
    }
}

/// `pipeprof __worker writer|reader` (hidden): one process of a workload, started by the engine.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    part: String,
}

impl WorkerArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        Ok(crate::workload::worker::main(&self.part))
    }
}

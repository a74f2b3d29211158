//! Collectors observe the processes of a target during a run. Each has a module; [`Collect`] is their interface.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as collect;
pub(crate) use {::arch, ::kernel, ::process, ::profile, ::result, ::roles, ::util};

pub mod attach;
pub mod bpf;
mod calibrate;
mod code_files;
mod code_maps;
mod fentry;
pub mod fgraph;
mod follow;
pub mod insn;
mod kept;
pub mod kprobe;
mod load_probes;
mod owner;
mod perf_ring;
mod probes;
pub mod registry;
mod sample;
pub mod samples;
pub mod stacks;
pub mod targets;
pub mod thread_events;
pub mod tracefs;
pub mod user_code;

use crate::kernel::resolve::Resolution;
use crate::profile::{ByProcess, Folded, Unit};
use crate::result::{FunctionCalls, Status, Warning};
use crate::roles::Skid;
use crate::util::warning::WarningCode;
use anyhow::Result;

pub use self::registry::{Context, auto, make};
pub use crate::process::{ProgramId, Programs, Watched};

fn loss_warning(code: WarningCode, message: String) -> Warning {
    let action = "run fewer collectors at once, or a shorter window".to_owned();
    Warning { code, message, action }
}

/// A warning about something in the kernel that a collector could not restore.
fn restore_warning(message: String) -> Warning {
    Warning { code: WarningCode::NotRestored, message, action: "run again to retry".to_owned() }
}

/// A collector. `arm` is called once all processes wait for their release, `finish` once all have ended their window.
/// Dropping it at any time removes everything that it created in the kernel.
pub trait Collect {
    /// Attach to `watched`. If only a part can be attached, [`Collected::reason`] says why.
    fn arm(&mut self, watched: &Watched) -> Result<()>;

    /// Whether the next run should follow a trial: a short run that is not measured, in which the collector finds out
    /// what to observe.
    fn wants_trial(&self) -> bool {
        false
    }

    /// Attach to `watched` for a trial.
    fn arm_trial(&mut self, _watched: &Watched) -> Result<()> {
        Ok(())
    }

    /// End the trial.
    fn finish_trial(&mut self) -> Result<()> {
        Ok(())
    }

    /// Detach and return the results.
    fn finish(&mut self) -> Result<Collected>;

    /// The result for each role's candidates, over all runs so far. Empty for collectors that do not choose functions.
    fn resolutions(&self) -> Vec<Resolution> {
        Vec::new()
    }
}

/// A collector that tells apart what watched processes start and execute ([`Watched::programs`]).
pub trait CollectPrograms: Collect {
    /// All processes to watch have been started: from now on, this process is not watched.
    fn started(&self) {}

    /// End the window: nothing is collected from now on. This is quick, because the processes may still run.
    fn stop(&mut self) -> Result<()>;

    /// Detach after [`Self::stop`], and return the results. `programs` is empty without [`Watched::programs`].
    fn results(&mut self, programs: &Programs) -> Result<Collected>;
}

/// A collector's results of one run.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    pub status: Status,
    pub reason: Option<String>,
    pub unit: Unit,
    /// The skid of its samples.
    pub skid: Skid,
    /// One per process of the target; empty if the collector takes no stacks.
    pub stacks: ByProcess<Folded>,
    pub functions: Vec<FunctionCalls>,
    pub samples: u64,
    pub lost: u64,
    pub unresolved: u64,
    pub notes: Vec<String>,
    pub warnings: Vec<Warning>,
}

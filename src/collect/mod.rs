//! Collectors: what watches a pair while it moves bytes. One module each; [`Collect`] is what they have in common.

pub mod attach;
pub mod bpf;
mod calibrate;
pub mod fgraph;
mod follow;
pub mod insn;
pub mod kprobe;
pub mod leftovers;
mod owner;
pub mod registry;
pub mod sample;
pub mod stacks;
pub mod targets;
pub mod tracefs;

use crate::document::{FunctionCalls, Status, Warning};
use crate::kernel::resolve::Resolution;
use crate::profile::{ByProcess, Folded, Unit};
use crate::roles::Skid;
use anyhow::Result;

pub use self::registry::{Context, auto, make};
pub use crate::target::Watched;

fn loss_warning(code: &str, message: String) -> Warning {
    let action = "run fewer collectors at once, or a shorter window".to_owned();
    Warning { code: code.to_owned(), message, action }
}

/// Something in the kernel that a collector could not put back.
fn restore_warning(message: String) -> Warning {
    Warning { code: "not-restored".to_owned(), message, action: "run again, which tries once more".to_owned() }
}

/// A collector. `arm` is called once both processes wait at the gate, `finish` once both have ended their window.
/// Dropping it at any time leaves nothing behind in the kernel.
pub trait Collect {
    /// Attach to `watched`. What cannot be attached is said in [`Collected::reason`] where the rest still gives
    /// something.
    ///
    /// # Errors
    /// When nothing at all can be collected: the reason, and what would help.
    fn arm(&mut self, watched: &Watched) -> Result<()>;

    /// Detach and hand over.
    ///
    /// # Errors
    /// When what was collected cannot be read.
    fn finish(&mut self) -> Result<Collected>;

    /// What became of each role's candidates, over all pairs so far; empty for collectors that choose no functions.
    fn resolutions(&self) -> Vec<Resolution> {
        Vec::new()
    }
}

/// What a collector hands over of one pair.
#[derive(Debug, Clone)]
pub struct Collected {
    pub status: Status,
    pub reason: Option<String>,
    pub unit: Unit,
    /// Where samples land that are due while interrupts are off.
    pub skid: Skid,
    /// Of every process of the target, empty where it gave none.
    pub stacks: ByProcess<Folded>,
    pub functions: Vec<FunctionCalls>,
    pub samples: u64,
    pub lost: u64,
    pub unresolved: u64,
    pub notes: Vec<String>,
    pub warnings: Vec<Warning>,
}

//! One request in, one outcome out, on whatever kernel this is: the host's, or a guest's when called by `/init`.

use crate::document::{ExecutedOn, Outcome, Request};
use anyhow::Result;

/// Where a run executes, and what its caller wants to hear while it does.
pub struct Setting<'a> {
    pub executed_on: ExecutedOn,
    /// Release pairs on a whole second of the monotonic clock, so that timer ticks fall at the same place of every
    /// window: what deterministic guests want.
    pub release_on_second: bool,
    /// Called before each pair with its number, counted from 1, the number of pairs, and what watches it.
    pub progress: &'a dyn Fn(usize, usize, &str),
}

/// Run `request` on this kernel.
///
/// # Errors
/// When the workload cannot run. A collector that cannot is said in the document.
pub fn execute(request: &Request, setting: &Setting<'_>) -> Result<Outcome> {
    let _ = (request, setting);
    anyhow::bail!("not built yet")
}

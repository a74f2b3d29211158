//! One request in, one outcome out, on whatever kernel this is: the host's, or a guest's when called by `/init`.

use crate::document::{Outcome, Request};
use anyhow::Result;

/// Run `request` on this kernel.
///
/// # Errors
/// When the workload cannot run. A collector that cannot is said in the document.
pub fn execute(request: &Request) -> Result<Outcome> {
    let _ = request;
    anyhow::bail!("not built yet")
}

//! Where a run executes.

use crate::experiment::Progress;
use crate::result::ExecutedOn;

/// Where the run executes, and a callback for its progress.
pub struct Setting<'a> {
    /// What executes it.
    pub executed_on: ExecutedOn,
    /// Whether to start runs at round times of the clock, when the kernel is idle. In deterministic guests, timers then
    /// fire at the same points of the windows of one phase; each block has its own phase.
    pub settle: bool,
    /// Called before each run with the progress, and the collector of the run.
    pub progress: &'a dyn Fn(&Progress, &str),
}

impl Setting<'_> {
    /// Whether the kernel has just been booted for this, so that no earlier run can have left anything.
    pub(crate) fn is_fresh(&self) -> bool {
        self.settle || self.executed_on == ExecutedOn::Kvm
    }
}

//! Experiments: measure a set of cells alternately, store each result at once, resume, and stop by a rule.
//!
//! A [`Plan`] has lanes, one per cell, and runs them in blocks: every lane once per block, shuffled by a seed, so that
//! drift of the machine affects all lanes alike. An [`Executor`] measures one cell. A [`Store`] keeps results. A
//! resumed experiment uses them and gives the same as an uninterrupted one. This module knows nothing of pipes,
//! kernels or reports.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use ::util;

mod engine;
mod plan;
mod progress;
mod show;
mod stop;
mod store;
#[cfg(test)]
mod tests;

pub use engine::{Event, Executor, Finished, Interrupted, State, TaskResult, run, run_jobs};
pub use plan::{OnFailure, Plan, Task};
pub use progress::Progress;
pub use show::show;
pub use stop::{EndedBy, Ending, StopRule};
pub use store::{JsonFolder, NoStore, PlanFile, Store};

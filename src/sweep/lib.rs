//! Sweeps: any axes of workloads or of pipelines, all combinations, one table and one chart.
//!
//! [`measure()`] runs them with [`crate::experiment`], [`model`] is what is stored, and [`show`] formats it.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {
    ::experiment, ::process, ::profile, ::record, ::report, ::result, ::roles, ::run, ::util, ::vm, ::workload,
};

mod measure;
mod model;
mod show;

pub use measure::{PLAN_FILE, SweepCombination, SweepPlan, SweepRunner, SweptPipeline, measure};
pub use model::{SCHEMA, Sweep, SweepAxis};

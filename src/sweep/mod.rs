//! Sweeps: any axes of workloads or of pipelines, all combinations, one table and one chart.
//!
//! [`measure()`] runs them with [`crate::experiment`], [`model`] is what is stored, and [`show`] formats it.

mod measure;
mod model;
mod show;

pub(crate) use measure::{PLAN_FILE, SweepCombination, SweepPlan, SweepRunner, SweptPipeline, measure};
pub(crate) use model::{SCHEMA, Sweep, SweepAxis};

//! Thousands of exact runs on many machines: the contract between `pipeprof matrix` and any scheduler.
//!
//! [`plan`] makes the list of [`cell`]s, [`list`] stores it as JSON Lines, [`chunk`] divides it, and [`script`] writes
//! the commands for a scheduler. [`cells_run`] executes a part of the list into a [`store`], and [`merge`] makes one store of
//! several and checks that they agree.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {::arch, ::compare, ::experiment, ::record, ::report, ::result, ::run, ::util, ::vm, ::workload};
#[cfg(test)]
pub(crate) use {::profile, ::roles};

pub mod cell;
pub mod cells_run;
pub mod chunk;
pub mod list;
pub mod merge;
pub mod plan;
pub mod script;
pub mod store;
pub mod summary;
#[cfg(test)]
mod tests;

pub use cell::CampaignCell;
pub use list::CellList;
pub use store::CellStore;

//! Thousands of exact runs on many machines: the contract between `pipeprof matrix` and any scheduler.
//!
//! [`plan`] makes the list of [`cell`]s, [`list`] stores it as JSON Lines, [`chunk`] divides it, and [`script`] writes
//! the commands for a scheduler. [`run`] executes a part of the list into a [`store`], and [`merge`] makes one store of
//! several and checks that they agree.

pub(crate) mod cell;
pub(crate) mod chunk;
pub(crate) mod list;
pub(crate) mod merge;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod script;
pub(crate) mod store;
#[cfg(test)]
mod tests;

pub(crate) use cell::CampaignCell;
pub(crate) use list::CellList;
pub(crate) use store::CellStore;

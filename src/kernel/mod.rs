//! The running kernel, read from /proc and /sys: symbols, roles, configuration, features.

pub(crate) mod attempt;
pub(crate) mod calls;
pub(crate) mod config;
pub(crate) mod environment;
pub(crate) mod features;
pub(crate) mod info;
pub(crate) mod namespace;
pub(crate) mod preemption;
pub(crate) mod reach;
pub(crate) mod resolve;
pub mod symbols;
pub mod tracefs;

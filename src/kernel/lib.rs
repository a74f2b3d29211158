//! The running kernel, read from /proc and /sys: symbols, roles, configuration, features.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as kernel;
pub(crate) use {::arch, ::roles, ::util};

pub mod attempt;
pub mod calls;
pub mod config;
pub mod environment;
pub mod features;
pub mod info;
pub mod namespace;
pub mod preemption;
pub mod reach;
pub mod resolve;
pub mod symbols;
pub mod tracefs;

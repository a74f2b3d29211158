//! Searches over kernels that are built and counted: which options, and which commits, change the instructions of a pipe.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {::compare, ::kernel, ::report, ::roles, ::util};

pub mod commits;
pub mod effect;
pub mod halving;
pub mod options;

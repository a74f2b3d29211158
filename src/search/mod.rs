//! Searches over kernels that are built and counted: which options, and which commits, change the instructions of a pipe.

pub(crate) mod commits;
pub(crate) mod effect;
pub(crate) mod halving;
pub(crate) mod options;

//! Studies of many results: a kernel tested against a baseline or a history, commits and options that change something,
//! and the parts of a change. Each measures stored or planned measurements again, and compares.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {
    ::arch, ::campaign, ::compare, ::experiment, ::history, ::kernel, ::profile, ::record, ::report, ::result, ::roles,
    ::run, ::search, ::util, ::vm, ::workload,
};

pub mod again;
pub mod against;
mod baseline;
pub mod bisect;
pub mod causes;
pub mod command_list;
pub mod commands;
pub mod counted;
pub mod given;
pub mod limits;
pub mod options;
pub mod sources;
pub mod verdict;

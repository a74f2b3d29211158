//! Between a process and those that it started.

pub(crate) mod jobs;
pub(crate) mod left_children;
pub(crate) mod make;
pub(crate) mod outlives;
pub(crate) mod parent_thread;
pub(crate) mod watches;
pub(crate) mod xargs;
pub(crate) mod zombies;

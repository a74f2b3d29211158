//! The built-in workload: writers and readers around a pipe, each a new process.
//!
//! [`launch()`] starts them. Each pins itself, allocates its buffers, moves the warm-up through the pipe and then
//! waits, with an empty pipe. [`Launched`](launch::Launched) lists them for collectors (`watched`), starts the window
//! (`release`), and returns what each counted (`wait`).

pub mod axes;
pub mod axis;
pub(crate) mod caveats;
pub(crate) mod check;
pub(crate) mod command;
pub(crate) mod cpus;
pub(crate) mod grid;
pub(crate) mod launch;
pub mod modes;
mod pair;
mod pipe;
mod request;
pub mod spec;
mod stall;
mod wire;
pub(crate) mod worker;

pub(crate) use caveats::SPINNING;
pub use caveats::{HUGE_PAGES_MISSING, VERIFY_FAILED, caveats, caveats_of_all};
pub(crate) use launch::{launch, rehearse};
pub(crate) use pipe::largest as largest_pipe;
pub(crate) use request::WorkloadRequest;
pub use spec::Spec;

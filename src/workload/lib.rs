//! The built-in workload: writers and readers around a pipe, each a new process.
//!
//! [`launch()`] starts them. Each pins itself, allocates its buffers, moves the warm-up through the pipe and then
//! waits, with an empty pipe. [`Launched`](launch::Launched) lists them for collectors (`watched`), starts the window
//! (`release`), and returns what each counted (`wait`).

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as workload;
pub(crate) use {::arch, ::process, ::profile, ::util};

pub mod axes;
pub mod axis;
pub mod caveats;
pub mod check;
pub mod command;
pub mod cpu_counter;
pub mod cpus;
pub mod grid;
pub mod launch;
pub mod modes;
mod pipe;
mod request;
pub mod spec;
mod stall;
mod wire;
pub mod worker;

pub use caveats::{caveats, caveats_of_all};
pub use launch::{launch, rehearse};
pub use pipe::largest as largest_pipe;
pub use request::WorkloadRequest;
pub use spec::Spec;

//! What moves the bytes: writers and readers around a pipe, each a fresh process.
//!
//! [`launch`] starts them: each pins itself, makes its buffers, moves the warm-up through the pipe and then waits at
//! a gate, with the pipe empty. [`Launched::watched`] names them to the collectors, [`Launched::release`] opens the
//! gate, [`Launched::wait`] hands over what each counted in its window.

pub mod axes;
pub mod axis;
mod caveats;
pub mod check;
pub mod command;
pub mod cpus;
pub mod grid;
pub mod launch;
pub mod memory;
pub mod modes;
mod pair;
mod pipe;
mod request;
pub mod spec;
mod wire;
pub mod worker;

pub use caveats::{HUGE_PAGES_MISSING, VERIFY_FAILED, caveats, caveats_of_all};
pub use launch::{Launched, launch};
pub use pipe::largest as largest_pipe;
pub use request::WorkloadRequest;
pub use spec::Spec;

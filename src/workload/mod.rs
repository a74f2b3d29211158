//! What moves the bytes: writers and readers around a pipe, each a fresh process.
//!
//! [`launch`] starts them: each pins itself, makes its buffers, moves the warm-up through the pipe and then waits at
//! a gate, with the pipe empty. [`Launched::watched`] names them to the collectors, [`Launched::release`] opens the
//! gate, [`Launched::wait`] hands over what each counted in its window.

mod caveats;
pub mod check;
pub mod cpus;
pub mod launch;
pub mod memory;
pub mod modes;
mod pipe;
pub mod spec;
mod wire;
pub mod worker;

pub use caveats::{HUGE_PAGES_MISSING, VERIFY_FAILED, caveats};
pub use launch::{Launched, launch};
pub use pipe::largest as largest_pipe;
pub use spec::Spec;

//! The system calls that move bytes, each a [`Port`](super::hot::Port).

mod readers;
mod writers;

pub use readers::{Check, Copy, Count, Read, SpliceOut, null};
pub use writers::{Halves, ReadWrite, Source, SpliceIn, Vmsplice, Write};

use super::buffer::Mapping;
use super::hot::{Kind, Options, Tally};
use crate::workload::spec::{Amount, Spec, Writer};
use anyhow::Result;

/// A port set up for a process: what [`super`] runs, whichever port it is.
pub trait Run {
    /// # Errors
    /// As [`hot::run`].
    fn run(&mut self, amount: Amount, window: Option<Kind>, options: &Options) -> Result<Tally>;
    /// Its buffers.
    fn mappings(&self) -> Vec<&Mapping>;
    /// What is done otherwise than asked.
    fn note(&self) -> Option<&str> {
        None
    }
    /// Bytes checked and what was wrong with them, by a reader that verifies.
    fn verified(&self) -> Option<(u64, Vec<String>)> {
        None
    }
}

macro_rules! run_hot {
    () => {
        fn run(&mut self, amount: Amount, window: Option<Kind>, options: &Options) -> Result<Tally> {
            hot::run(self, amount, window, options)
        }
    };
}

/// The smaller of a buffer's rest and what the loop may still move.
#[inline(always)]
fn within(len: usize, limit: u64) -> usize {
    if limit < len as u64 { limit as usize } else { len }
}

/// Whether `spec`'s stream is its writer's stamps rather than a file's bytes.
#[must_use]
pub fn stamped(spec: &Spec) -> bool {
    matches!(spec.writer, Writer::Write | Writer::Vmsplice)
}

use run_hot;

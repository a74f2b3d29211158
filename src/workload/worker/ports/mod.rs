//! The system calls that move bytes, each a [`Port`](super::hot::Port).

mod readers;
mod uring;
mod writers;

pub(crate) use readers::{Check, Copy, CountOnly, Read, SpliceOut, null};
pub(crate) use uring::{UringMultishot, UringRead, UringSpliceIn, UringSpliceOut, UringWrite};
pub(crate) use writers::{Halves, ReadWrite, Source, SpliceIn, Vmsplice, Write};

use super::buffer::Mapping;
use super::hot::{HotOptions, Tally};
use crate::workload::spec::Amount;
use crate::workload::wire::WorkerPart;
use anyhow::Result;

/// A port prepared for a process, which [`super`] can run whatever its type.
pub(crate) trait Run {
    fn run(&mut self, amount: Amount, window: Option<WorkerPart>, options: &HotOptions) -> Result<Tally>;
    /// The port's buffers.
    fn mappings(&self) -> Vec<&Mapping>;
    /// Give up what keeps the pipe open besides its descriptor.
    fn release(&mut self) -> Result<()> {
        Ok(())
    }
    /// A deviation from what was requested, if any.
    fn note(&self) -> Option<&str> {
        None
    }
    /// The number of bytes checked and the errors found, if the reader verifies.
    fn verified(&self) -> Option<(u64, Vec<String>)> {
        None
    }
}

macro_rules! run_hot {
    () => {
        fn run(&mut self, amount: Amount, window: Option<WorkerPart>, options: &HotOptions) -> Result<Tally> {
            hot::run(self, amount, window, options)
        }
    };
}

/// The smaller of the buffer's rest and the loop's limit.
#[inline(always)]
fn within(len: usize, limit: u64) -> usize {
    if limit < len as u64 { limit as usize } else { len }
}

use run_hot;

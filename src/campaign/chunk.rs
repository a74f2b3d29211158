//! Divide a list into chunks of about equal time.

use super::cell::CampaignCell;
use super::list::CellList;
use anyhow::{Context as _, Result, bail, ensure};
use std::str::FromStr;

/// The chunk `number` (counted from 1) of `of`: `3/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    pub number: usize,
    pub of: usize,
}

impl FromStr for Chunk {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = || format!("'{text}' is not of the form K/M, such as 3/16");
        let (number, of) = text.split_once('/').with_context(form)?;
        let (number, of): (usize, usize) =
            (number.trim().parse().ok().with_context(form)?, of.trim().parse().ok().with_context(form)?);
        if number == 0 || number > of {
            bail!("'{text}': the first number is from 1 to the second");
        }
        ensure!(of <= 1 << 20, "'{text}': more than a million chunks");
        Ok(Self { number, of })
    }
}

/// A cell that a chunk runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunkCell<'a> {
    pub cell: &'a CampaignCell,
    /// Whether it is another chunk's cell, run a second time to compare the machines.
    pub second: bool,
}

impl Chunk {
    /// The cells of this chunk: consecutive ones whose middle, by estimated time, is in its part of the whole; and the
    /// canaries of the chunk before, the last one's for the first. The chunks of one list contain every cell once.
    pub fn cells<'a>(&self, list: &'a CellList) -> Vec<ChunkCell<'a>> {
        let all = list.seconds();
        let mut begin = 0.0;
        let mut own = Vec::new();
        let mut second = Vec::new();
        let before = if self.number == 1 { self.of } else { self.number - 1 };
        for cell in &list.cells {
            let middle = (begin + cell.seconds / 2.0) / all;
            begin += cell.seconds;
            // Of several equal cells in as many chunks, each middle is in the middle of its chunk.
            let chunk = ((middle * self.of as f64) as usize).min(self.of - 1) + 1;
            if chunk == self.number {
                own.push(ChunkCell { cell, second: false });
            } else if chunk == before && cell.canary {
                second.push(ChunkCell { cell, second: true });
            }
        }
        own.extend(second);
        own
    }

    /// The number of chunks of `list` of about `seconds` each.
    pub fn count(list: &CellList, seconds: f64) -> usize {
        ((list.seconds() / seconds).round() as usize).clamp(1, list.cells.len().max(1))
    }
}

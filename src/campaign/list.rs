//! The list of a campaign's cells: JSON Lines, one self-contained cell per line.

use super::cell::{CELL_SCHEMA, CampaignCell};
use crate::util::{sha256, stored_json};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::HashSet;
use std::path::Path;

/// The longest list that is read, bytes: a million cells.
const LONGEST: u64 = 1 << 30;

/// Cells in the order in which they run: those of one kernel and machine follow each other, so that its snapshot is
/// used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CellList {
    pub cells: Vec<CampaignCell>,
}

impl CellList {
    /// Read a list by `read`: [`crate::util::regular::read_stored`] refuses links in stores.
    ///
    /// # Errors
    /// Names the file and the line.
    pub fn load(read: fn(&Path, u64) -> std::io::Result<Vec<u8>>, path: &Path) -> Result<Self> {
        let bytes = read(path, LONGEST).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&bytes).with_context(|| path.display().to_string())
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let mut cells: Vec<CampaignCell> = Vec::new();
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let at = || format!("line {}", number + 1);
            let cell: CampaignCell =
                stored_json::parse(line).with_context(|| format!("{}: not a cell of `pipeprof matrix plan`", at()))?;
            ensure!(
                cell.schema == CELL_SCHEMA,
                "{}: the schema is {}, and this version reads {CELL_SCHEMA}: plan again",
                at(),
                cell.schema
            );
            ensure!(cell.is_whole(), "{}: the line was changed after it was planned: plan again", at());
            cells.push(cell);
        }
        if cells.is_empty() {
            bail!("contains no cells: make it with `pipeprof matrix plan`");
        }
        let mut ids = HashSet::new();
        if let Some(twice) = cells.iter().find(|cell| !ids.insert(cell.id.as_str())) {
            bail!("the cell {} ({}) is listed twice", twice.id, twice.title());
        }
        Ok(Self { cells })
    }

    /// The list as text.
    pub fn to_text(&self) -> Result<String> {
        let mut text = String::new();
        for cell in &self.cells {
            let line = serde_json::to_string(cell).context("cannot write a cell as JSON")?;
            // What the cell is made of was chosen by others.
            stored_json::parse::<CampaignCell>(line.as_bytes()).context("cannot write a cell as JSON")?;
            text.push_str(&line);
            text.push('\n');
        }
        Ok(text)
    }

    /// A name for these cells: 16 digits of the SHA-256 of their ids.
    pub fn name(&self) -> String {
        let ids: String = self.cells.iter().map(|cell| cell.id.as_str()).collect();
        let mut name = sha256::of_bytes(ids.as_bytes());
        name.truncate(16);
        name
    }

    /// Estimated seconds of all cells.
    pub fn seconds(&self) -> f64 {
        self.cells.iter().map(|cell| cell.seconds).sum()
    }
}

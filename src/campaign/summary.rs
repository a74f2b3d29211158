//! The comparison of a merged store's columns.

use super::cell::{CampaignCell, kernel_names};
use super::merge::MergedCells;
use super::plan::labelled;
use super::store::CellStore;
use crate::compare::Input;
use crate::compare::model::MissingCell;
use anyhow::Result;

/// More cells are not compared in one report: it holds all their profiles in memory, some MiB each.
pub const MOST_COMPARED: usize = 400;

/// The columns of the comparison, in the order of the lists, without those that have no result.
pub fn columns(store: &CellStore, cells: &[CampaignCell]) -> Result<Vec<Input>> {
    let mut inputs: Vec<Input> = Vec::new();
    // By mode, as a comparison measures them: the list is in the order of guests.
    let names = kernel_names(cells.iter().map(|cell| &cell.kernel));
    let mut cells: Vec<&CampaignCell> = cells.iter().filter(|cell| cell.is_exact()).collect();
    let modes: Vec<&str> = cells.iter().map(|cell| cell.mode.as_str()).collect();
    cells.sort_by_key(|cell| (modes.iter().position(|mode| *mode == cell.mode), cell.cpus));
    for cell in &cells {
        let path = store.path(&cell.id, false);
        let mut outcome = store.result(&cell.id)?;
        if let Some(pipeline) = &cell.pipeline {
            // The same text with other programs or files is another pipeline.
            let other = |other: &&CampaignCell| {
                other.mode == cell.mode && other.pipeline.as_ref().is_some_and(|of| of.digest() != pipeline.digest())
            };
            let twice = cells.iter().any(other);
            outcome.document.mode =
                if twice { format!("{} ({})", cell.mode, pipeline.digest()) } else { cell.mode.clone() };
        }
        let run = (path.display().to_string(), outcome);
        let label = labelled(names.get(&cell.kernel.sha256).unwrap_or(&cell.kernel.label), &cell.setting);
        match inputs.iter_mut().find(|input| input.label.as_ref() == Some(&label)) {
            Some(input) => input.runs.push(run),
            None => inputs.push(Input { label: Some(label), runs: vec![run] }),
        }
    }
    Ok(inputs)
}

/// What the report says is not there.
pub fn missing(merged: &MergedCells) -> Vec<MissingCell> {
    let row = |cell: &CampaignCell, reason: &str| MissingCell {
        column: cell.column.clone(),
        mode: cell.mode.clone(),
        cpus: Some(cell.cpus),
        reason: reason.to_owned(),
    };
    let failed = merged.failed.iter().map(|failed| row(&failed.cell, &failed.reason));
    failed.chain(merged.missing.iter().map(|cell| row(cell, "it was not run"))).collect()
}

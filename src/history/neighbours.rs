//! The comparison of the two kernels of each step, as a page of its own.

use super::{History, HistoryLine};
use crate::campaign::CellStore;
use crate::compare::render::html;
use crate::compare::{CompareOptions, Input, compare};
use crate::util::{atomic_file, cancel};
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Which two kernels, in which setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbours {
    pub setting: String,
    pub before: usize,
    pub after: usize,
}

/// Write the pages into `folder`. Their names, by what they compare.
pub(crate) fn write(history: &History, store: &CellStore, folder: &Path) -> Result<BTreeMap<Neighbours, String>> {
    let of_line = |line: &HistoryLine| -> Vec<Neighbours> {
        let (setting, steps) = (&line.setting, &line.steps);
        steps
            .iter()
            .map(|step| Neighbours { setting: setting.clone(), before: step.before, after: step.after })
            .collect()
    };
    // Sources that were built are not in the store.
    let stored = history.lines.iter().filter(|line| !line.source_alone);
    let wanted: BTreeSet<Neighbours> = stored.flat_map(of_line).collect();
    let mut pages = BTreeMap::new();
    for pair in wanted {
        cancel::check()?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let name = format!("{}.html", slug(history, &pair));
        let column = |kernel: usize| column(history, store, &pair.setting, kernel);
        let inputs = [column(pair.before)?, column(pair.after)?];
        let options = CompareOptions { command: history.command.clone(), seed: 1, ..CompareOptions::default() };
        let page = html::render(&compare(&inputs, &options)?)?;
        atomic_file::write(&folder.join(&name), page.as_bytes())?;
        pages.insert(pair, name);
    }
    Ok(pages)
}

/// A kernel's runs in one setting.
fn column(history: &History, store: &CellStore, setting: &str, kernel: usize) -> Result<Input> {
    let mut runs = Vec::new();
    for line in history.lines.iter().filter(|line| line.setting == setting && !line.source_alone) {
        for point in line.points.iter().filter(|point| point.kernel == kernel) {
            let path = store.path(&point.cell, false);
            runs.push((path.display().to_string(), store.result(&point.cell)?));
        }
    }
    let label = history.kernels.get(kernel).map(|kernel| kernel.label.clone());
    Ok(Input { label, runs })
}

/// A file's name.
fn slug(history: &History, pair: &Neighbours) -> String {
    let setting = if pair.setting.is_empty() { String::new() } else { format!("-{}", pair.setting) };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    format!("{}--{}{setting}", history.label(pair.before), history.label(pair.after)).chars().map(plain).collect()
}

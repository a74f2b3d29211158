//! Make one store of several, and check that they agree.

use super::cell::{CampaignCell, FinishedCell};
use super::list::CellList;
use super::store::{CELL, CellStore, FailedCell};
use crate::util::regular;
use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The `schema` of `merge.json`.
const MERGE_SCHEMA: &str = "pipeprof.merge/1";

/// What a merge found. `merge.json`.
#[derive(Debug, Serialize)]
pub struct MergedCells {
    pub schema: &'static str,
    /// Finished cells in the order of their lists.
    pub done: Vec<CampaignCell>,
    pub failed: Vec<FailedCell>,
    /// Second runs that failed: whether these machines agree is not known.
    pub failed_canaries: Vec<FailedCell>,
    /// Listed cells that no store has.
    pub missing: Vec<CampaignCell>,
    /// Cells with several results.
    pub compared: usize,
    /// Results of one cell that are not equal.
    pub different: Vec<DifferentResults>,
    /// Seconds that the cells took, as far as is known.
    pub seconds: f64,
    /// Seconds that their lists estimated for the same cells.
    pub estimated: f64,
    /// Machines that ran them.
    pub hosts: Vec<String>,
}

/// Two results of one cell.
#[derive(Debug, Serialize)]
pub struct DifferentResults {
    pub title: String,
    pub folders: [PathBuf; 2],
    /// Names of the files that differ.
    pub files: Vec<String>,
}

/// Copy the cells of `stores` into the store `into`, which may exist. A result that differs from another one of its cell
/// is not copied over it.
pub fn merge(stores: &[PathBuf], into: &Path, allow_mixed: bool) -> Result<MergedCells> {
    let sources = stores.iter().map(|folder| CellStore::open(folder)).collect::<Result<Vec<_>>>()?;
    let results = results(&sources)?;
    let found: Vec<CampaignCell> = results.values().filter_map(|all| Some(all.first()?.1.cell.clone())).collect();
    if !allow_mixed {
        refuse_mixed(&found)?;
    }
    let target = CellStore::create(into)?;
    let (mut compared, mut different) = (0, Vec::new());
    for cell in &found {
        crate::util::cancel::check()?;
        let Some(((folder, first), others)) = results.get(&cell.id).and_then(|all| all.split_first()) else { continue };
        // Times differ from run to run.
        let others = if cell.is_exact() { others } else { &[] };
        compared += usize::from(!others.is_empty());
        for (other, second) in others {
            let files = unequal_files(first, second);
            if !files.is_empty() {
                let folders = [folder.clone(), other.clone()];
                different.push(DifferentResults { title: cell.title(), folders, files });
            }
        }
        copy(folder, first, &target.path(&cell.id, false))?;
    }
    let planned = planned(&sources, &target)?;
    let mut failed = failed(&sources, &target, &results)?;
    failed.sort_by(|left, right| (&left.cell.id, left.second).cmp(&(&right.cell.id, right.second)));
    failed.dedup_by(|left, right| (&left.cell.id, left.second) == (&right.cell.id, right.second));
    let failed_canaries: Vec<FailedCell> = failed.extract_if(.., |failed| failed.second).collect();
    let failed_ids: BTreeSet<&str> = failed.iter().map(|failed| failed.cell.id.as_str()).collect();
    let listed: BTreeSet<&str> = planned.iter().map(|cell| cell.id.as_str()).collect();
    let is_done = |cell: &CampaignCell| results.contains_key(&cell.id);
    let missing =
        planned.iter().filter(|cell| !is_done(cell) && !failed_ids.contains(cell.id.as_str())).cloned().collect();
    let mut done: Vec<CampaignCell> = planned.iter().filter(|cell| is_done(cell)).cloned().collect();
    // Stores without their list.
    done.extend(found.iter().filter(|cell| !listed.contains(cell.id.as_str())).cloned());
    let mut hosts = BTreeSet::new();
    let (mut seconds, mut estimated) = (0.0, 0.0);
    for source in &sources {
        for (id, log) in source.logs()? {
            seconds += log.seconds;
            estimated += log.estimated;
            hosts.insert(log.host.clone());
            target.keep_log(&id, &log)?;
        }
    }
    let hosts = hosts.into_iter().collect();
    Ok(MergedCells {
        schema: MERGE_SCHEMA,
        done,
        failed,
        failed_canaries,
        missing,
        compared,
        different,
        seconds,
        estimated,
        hosts,
    })
}

/// The results of each cell, with their folders, by id.
type CellResults = BTreeMap<String, Vec<(PathBuf, FinishedCell)>>;

fn results(sources: &[CellStore]) -> Result<CellResults> {
    let mut results = CellResults::new();
    // First the cells: they are complete runs of their store, canaries are second ones.
    for second in [false, true] {
        for source in sources {
            for id in source.finished(second)? {
                let found = (source.path(&id, second), source.cell(&id, second)?);
                results.entry(id).or_default().push(found);
            }
        }
    }
    Ok(results)
}

fn refuse_mixed(cells: &[CampaignCell]) -> Result<()> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for cell in cells {
        *counts.entry((&cell.build, &cell.qemu)).or_default() += 1;
    }
    if counts.len() > 1 {
        let each: Vec<String> =
            counts.iter().map(|((build, qemu), count)| format!("{count} cells of {build} with {qemu}")).collect();
        bail!(
            "the stores are of several builds ({}), whose counts differ: merge those of one build, or give \
             --allow-mixed",
            each.join("; ")
        );
    }
    Ok(())
}

/// The cells of all lists, each once. The lists are copied.
fn planned(sources: &[CellStore], target: &CellStore) -> Result<Vec<CampaignCell>> {
    let mut ids = BTreeSet::new();
    let mut cells = Vec::new();
    for source in sources {
        for plan in source.plans()? {
            let list = CellList::load(regular::read_stored, &plan)?;
            target.keep_plan(&list)?;
            cells.extend(list.cells.into_iter().filter(|cell| ids.insert(cell.id.clone())));
        }
    }
    Ok(cells)
}

/// The failures of cells without a result.
fn failed(sources: &[CellStore], target: &CellStore, results: &CellResults) -> Result<Vec<FailedCell>> {
    let mut all = Vec::new();
    for source in sources {
        // A failure of which no other store has the result.
        let has_result = |failed: &FailedCell| {
            let folders = results.get(&failed.cell.id).map_or(0, Vec::len);
            folders > usize::from(failed.second)
        };
        for failed in source.failures()?.into_iter().filter(|failed| !has_result(failed)) {
            target.keep_failure(&failed.cell, failed.second, &failed.reason)?;
            all.push(failed);
        }
    }
    Ok(all)
}

/// The names of the files in which two results differ. The cells say also what does not decide the result, such as where
/// the image was when they were planned.
fn unequal_files(left: &FinishedCell, right: &FinishedCell) -> Vec<String> {
    let names: BTreeSet<&String> = left.files.keys().chain(right.files.keys()).collect();
    names.into_iter().filter(|name| left.files.get(*name) != right.files.get(*name)).cloned().collect()
}

/// Copy a result, so that it appears complete. One that is there stays.
fn copy(from: &Path, cell: &FinishedCell, to: &Path) -> Result<()> {
    if to.is_dir() {
        return Ok(());
    }
    let above = to.parent().context("a cell is inside a store")?;
    let attempt = || -> std::io::Result<()> {
        let aside = tempfile::Builder::new().prefix(crate::util::atomic_file::PREFIX).tempdir_in(above)?;
        for name in cell.files.keys().map(String::as_str).chain([CELL]) {
            let (file, copy) = (from.join(name), aside.path().join(name));
            // Results never change, so they need not be stored twice.
            if std::fs::hard_link(&file, &copy).is_err() {
                regular::copy(&file, &copy, crate::result::LARGEST)?;
            }
        }
        std::fs::set_permissions(aside.path(), std::fs::metadata(from)?.permissions())?;
        let aside = aside.keep();
        std::fs::rename(&aside, to).inspect_err(|_| drop(std::fs::remove_dir_all(&aside)))
    };
    attempt().with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

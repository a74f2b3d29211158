//! The folder of a campaign's results. Several processes, on several machines, may write into one.
//!
//! - `cells/ID`: a finished cell: the folder of a run, and `cell.json` with the digests of its files;
//! - `canaries/ID`: the result of the second chunk that ran this cell;
//! - `failed/ID.json`: a cell that failed, with the reason; removed when it succeeds. `failed/ID-canary.json`: the same of
//!   the second chunk;
//! - `log/ID.json`: where a cell ran, and how long;
//! - `plans`: the lists whose cells were run here.

use super::cell::{CampaignCell, FinishedCell};
use super::list::CellList;
use crate::record::contents;
use crate::report::files::Folder;
use crate::result::{self, Document, Measurement, Outcome, RESULT_FILE};
use crate::util::{atomic_file, cancel, regular, sha256, stored_json};
use anyhow::{Context as _, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The cell's file in its folder.
pub(super) const CELL: &str = "cell.json";
const CELLS: &str = "cells";
const CANARIES: &str = "canaries";
const FAILED: &str = "failed";
const LOG: &str = "log";
const PLANS: &str = "plans";

/// A store.
#[derive(Debug, Clone)]
pub struct CellStore {
    pub folder: PathBuf,
}

/// A cell that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedCell {
    pub schema: String,
    pub cell: CampaignCell,
    /// Whether it is the second run of a canary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second: bool,
    /// In one line.
    pub reason: String,
}

/// The `schema` of [`FailedCell`].
pub(crate) const FAILED_SCHEMA: &str = "pipeprof.failed-cell/1";

/// Where and when a cell ran: what is not part of its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellLog {
    pub schema: String,
    pub host: String,
    /// UTC, RFC 3339.
    pub started: String,
    pub seconds: f64,
    /// As the list estimated.
    pub estimated: f64,
}

/// The `schema` of [`CellLog`].
pub(crate) const LOG_SCHEMA: &str = "pipeprof.cell-log/1";

/// The ends of the names of a result's files.
const FILE_ENDINGS: [&str; 5] = [".json", ".json.gz", ".folded", ".svg", ".html"];

/// What a result says of the cell that gave it.
#[derive(Debug, Deserialize)]
struct ResultHead {
    request: Option<Measurement>,
    kernel: ResultKernel,
}

#[derive(Debug, Deserialize)]
struct ResultKernel {
    release: String,
}

/// The name of a failure's file, without its ending.
fn failure(id: &str, second: bool) -> String {
    format!("{id}{}", if second { "-canary" } else { "" })
}

impl CellStore {
    /// Create the store, or open it.
    pub fn create(folder: &Path) -> Result<Self> {
        const FOLDERS: [&str; 5] = [PLANS, FAILED, LOG, CANARIES, CELLS];
        // Another process may be creating it: then it has some of the folders.
        let is_foreign = |name: &str| !name.starts_with('.') && !FOLDERS.contains(&name);
        let foreign = !folder.join(CELLS).is_dir()
            && std::fs::read_dir(folder).is_ok_and(|mut entries| {
                entries.any(|entry| entry.is_ok_and(|entry| is_foreign(&entry.file_name().to_string_lossy())))
            });
        ensure!(!foreign, "{} is not empty and not a store of `pipeprof matrix`: choose another", folder.display());
        for name in FOLDERS {
            let inner = folder.join(name);
            std::fs::create_dir_all(&inner).with_context(|| format!("cannot make the folder {}", inner.display()))?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Open an existing store.
    pub fn open(folder: &Path) -> Result<Self> {
        if !folder.join(CELLS).is_dir() {
            bail!("{} is not a store of `pipeprof matrix run`", folder.display());
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// The folder of a finished cell.
    pub fn path(&self, id: &str, second: bool) -> PathBuf {
        self.folder.join(if second { CANARIES } else { CELLS }).join(id)
    }

    /// Whether the cell is finished. Folders appear complete.
    pub fn has(&self, id: &str, second: bool) -> bool {
        self.path(id, second).is_dir()
    }

    /// The place of a cell's result, which is checked before the run.
    pub fn prepare(&self, cell: &CampaignCell, second: bool) -> Result<Folder> {
        Folder::prepare(Some(&self.path(&cell.id, second)), "", &cell.mode)
    }

    /// Write a result. One that another process wrote meanwhile stays.
    pub fn keep(&self, folder: Folder, cell: &CampaignCell, second: bool, mut outcome: Outcome) -> Result<()> {
        let mut files = contents::files(&mut outcome, Vec::new())?;
        let digests = files.iter().map(|(name, bytes)| (name.clone(), sha256::of_bytes(bytes))).collect();
        let finished = FinishedCell { cell: cell.clone(), files: digests };
        let text = stored_json::stored_text(&finished).context("cannot write a cell as JSON")? + "\n";
        files.push((CELL.to_owned(), text.into_bytes()));
        match folder.write_all(&files) {
            Err(error) if !self.has(&cell.id, second) => Err(error),
            _ => self.forget_failure(&cell.id, second),
        }
    }

    /// The result of a finished cell.
    pub fn result(&self, id: &str) -> Result<Outcome> {
        let path = self.path(id, false);
        result::open(&path).with_context(|| again(&path))
    }

    /// As [`Self::result`], without its profiles.
    pub fn document(&self, id: &str) -> Result<Document> {
        let path = self.path(id, false);
        result::open_document(&path).with_context(|| again(&path))
    }

    /// Note why a cell failed.
    pub(crate) fn keep_failure(&self, cell: &CampaignCell, second: bool, reason: &str) -> Result<()> {
        let (schema, reason) = (FAILED_SCHEMA.to_owned(), reason.to_owned());
        self.write(FAILED, &failure(&cell.id, second), &FailedCell { schema, cell: cell.clone(), second, reason })
    }

    fn forget_failure(&self, id: &str, second: bool) -> Result<()> {
        let file = self.folder.join(FAILED).join(format!("{}.json", failure(id, second)));
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", file.display()))
            }
            _ => Ok(()),
        }
    }

    /// Note where a cell ran.
    pub(crate) fn keep_log(&self, id: &str, log: &CellLog) -> Result<()> {
        self.write(LOG, id, log)
    }

    fn write<T: Serialize + DeserializeOwned>(&self, kind: &str, id: &str, value: &T) -> Result<()> {
        let text = stored_json::stored_text(value).context("cannot write JSON")? + "\n";
        atomic_file::write(&self.folder.join(kind).join(format!("{id}.json")), text.as_bytes())
    }

    /// Keep a copy of the list, so that missing cells are known.
    pub fn keep_plan(&self, list: &CellList) -> Result<()> {
        let kept = self.folder.join(PLANS).join(format!("{}.jsonl", list.name()));
        if kept.exists() {
            return Ok(());
        }
        atomic_file::write(&kept, list.to_text()?.as_bytes())
    }

    /// The lists whose cells were run here, by name.
    pub(crate) fn plans(&self) -> Result<Vec<PathBuf>> {
        let names = self.names(PLANS)?;
        Ok(names.into_iter().map(|name| self.folder.join(PLANS).join(name)).collect())
    }

    /// The ids of finished cells, sorted.
    pub fn finished(&self, second: bool) -> Result<Vec<String>> {
        self.names(if second { CANARIES } else { CELLS })
    }

    /// The failures, by id.
    pub fn failures(&self) -> Result<Vec<FailedCell>> {
        let failures: Vec<FailedCell> = self.all(FAILED, "a failed cell of `pipeprof matrix`", FAILED_SCHEMA)?;
        let edited = failures.iter().find(|failed| !failed.cell.is_whole());
        // The id becomes the name of a file.
        if let Some(FailedCell { cell, .. }) = edited {
            bail!("{}: a failed cell ({:?}) was edited: remove its file", self.folder.join(FAILED).display(), cell.id);
        }
        Ok(failures)
    }

    /// Where the cells ran.
    pub fn logs(&self) -> Result<Vec<(String, CellLog)>> {
        let names = self.names(LOG)?;
        let logs: Vec<CellLog> = self.all(LOG, "a log of `pipeprof matrix`", LOG_SCHEMA)?;
        Ok(names.into_iter().map(|name| name.trim_end_matches(".json").to_owned()).zip(logs).collect())
    }

    fn all<T: DeserializeOwned>(&self, kind: &str, what: &str, schema: &str) -> Result<Vec<T>> {
        let folder = self.folder.join(kind);
        self.names(kind)?.iter().map(|name| stored_json::load(&folder.join(name), what, schema)).collect()
    }

    /// The finished cell with this id. Its folder contains the files that were written there, and nothing else.
    ///
    /// # Errors
    /// When it is another cell or has another result, with the way out.
    pub fn cell(&self, id: &str, second: bool) -> Result<FinishedCell> {
        let folder = self.path(id, second);
        checked(&folder, id).with_context(|| again(&folder))
    }

    /// The complete entries of a folder, sorted.
    fn names(&self, kind: &str) -> Result<Vec<String>> {
        let folder = self.folder.join(kind);
        let unreadable = || format!("cannot read {}", folder.display());
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&folder).with_context(unreadable)? {
            let name = entry.with_context(unreadable)?.file_name().to_string_lossy().into_owned();
            // Others are being written.
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// What to do about a damaged result.
fn again(folder: &Path) -> String {
    format!("{}: remove this folder and run the cell again", folder.display())
}

/// The cell in `folder`, with all of its files as they were written.
fn checked(folder: &Path, id: &str) -> Result<FinishedCell> {
    ensure!(folder.symlink_metadata()?.is_dir(), "it is not a folder");
    let finished: FinishedCell =
        stored_json::load(&folder.join(CELL), "a cell of `pipeprof matrix`", super::cell::CELL_SCHEMA)?;
    let FinishedCell { cell, files } = &finished;
    ensure!(cell.id == id && cell.is_whole(), "it contains another cell");
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        ensure!(name == CELL || files.contains_key(&name), "{name} is not a file of this cell");
    }
    for (name, digest) in files {
        cancel::check()?;
        let is_known = !name.starts_with('.') && FILE_ENDINGS.iter().any(|ending| name.ends_with(ending));
        ensure!(is_known && !name.contains('/'), "{name:?} is not the name of a result's file");
        let bytes = regular::read_stored(&folder.join(name), result::LARGEST).with_context(|| name.clone())?;
        ensure!(sha256::of_bytes(&bytes) == *digest, "{name} was changed");
        if name == RESULT_FILE {
            let result: ResultHead = stored_json::parse(&bytes).with_context(|| format!("{name} is damaged"))?;
            ensure!(
                result.kernel.release == cell.kernel.release && result.request.as_ref() == Some(&cell.request),
                "{name} is the result of another cell: `{}` on {}",
                result.request.as_ref().map_or_else(|| "nothing".to_owned(), Measurement::command),
                result.kernel.release
            );
        }
    }
    ensure!(files.contains_key(RESULT_FILE), "{RESULT_FILE} is missing");
    Ok(finished)
}

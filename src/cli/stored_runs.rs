//! Stored results as arguments: a `result.json`, its folder, or a folder of several runs.

use crate::compare::Input;
use crate::record::outcome;
use crate::record::stored::recording_at;
use crate::report::files;
use crate::result::{Outcome, RESULT_FILE};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// One column from a stored run or counted recording, or from a folder of several runs (boots, or numbers of CPUs).
///
/// # Errors
/// A missing or damaged file; runs of several kernels.
pub(super) fn column(path: &Path) -> Result<Input> {
    let shown = |path: &Path| path.display().to_string();
    if let Some(recording) = recording_at(path) {
        let counted = outcome::load(&recording)?;
        let outcome = counted.with_context(|| {
            format!("{}: no instructions were counted: record with --kernel and --collect insn", path.display())
        })?;
        return Ok(Input { label: None, runs: vec![(shown(path), outcome)] });
    }
    let runs = folders(path)?;
    let runs = runs
        .iter()
        .map(|path| Ok((shown(path), files::load_whole(path)?)))
        .collect::<Result<Vec<(String, Outcome)>>>()?;
    let release = |run: &(String, Outcome)| run.1.document.kernel.release.clone();
    if let Some((first, other)) =
        runs.first().and_then(|first| Some((first, runs.iter().find(|run| release(run) != release(first))?)))
    {
        bail!(
            "{}: contains runs of two kernels (Linux {} in {}, Linux {} in {}): give the folder of one of them",
            path.display(),
            release(first),
            first.0,
            release(other),
            other.0
        );
    }
    Ok(Input { label: None, runs })
}

/// `path` itself, or the folders of runs in it.
fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() || path.join(RESULT_FILE).exists() {
        return Ok(vec![path.to_owned()]);
    }
    let mut folders: Vec<PathBuf> = std::fs::read_dir(path)
        .with_context(|| format!("cannot read the folder {}", path.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|inner| inner.join(RESULT_FILE).exists())
        .collect();
    folders.sort();
    ensure!(!folders.is_empty(), "{}: contains no {}, nor does a folder in it", path.display(), RESULT_FILE);
    Ok(folders)
}

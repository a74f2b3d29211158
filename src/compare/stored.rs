//! Stored results as columns of a comparison.

use super::Input;
use crate::result::{self, Outcome};
use anyhow::{Result, bail};
use std::path::Path;

/// One column from a stored result, or from a folder of several runs (boots, or numbers of CPUs).
///
/// # Errors
/// A missing or damaged file; runs of several kernels.
pub fn column(path: &Path) -> Result<Input> {
    let found = result::open_all(path)?;
    let runs: Vec<(String, Outcome)> =
        found.into_iter().map(|(path, outcome)| (path.display().to_string(), outcome)).collect();
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

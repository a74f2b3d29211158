//! Read recordings that were stored.

use super::check::check;
use super::model::{RECORDING_SCHEMA, Recording};
use crate::result::RESULT_FILE;
use crate::util::{regular, stored_json};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// The path of the recording that `path` names: a folder or its result.json. `None` if it is another kind of result.
pub(crate) fn recording_at(path: &Path) -> Option<PathBuf> {
    // Of any version: who reads it says what to do.
    let kind = RECORDING_SCHEMA.split('/').next();
    let is_recording =
        |path: &PathBuf| stored_json::schema(path).is_some_and(|schema| schema.split('/').next() == kind);
    regular::document_at(path, RESULT_FILE).filter(is_recording)
}

/// Read a recording.
///
/// # Errors
/// When the file is missing, or not a recording of this version.
pub(crate) fn load(path: &Path) -> Result<Recording> {
    parse(&stored_json::read(path)?, path)
}

/// Read a recording that was stored at `path`.
///
/// # Errors
/// When it is not a recording of this version, or its parts do not fit together.
pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<Recording> {
    let recording = stored_json::document(bytes, path, "a recording", RECORDING_SCHEMA)?;
    check(&recording).with_context(|| format!("{}: not a recording that pipeprof wrote", path.display()))?;
    Ok(recording)
}

//! Files that are whole or not there: written aside, then renamed.

use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;

/// Write `bytes` to `path` so that a reader, a full disk or a signal never leaves half a file there.
///
/// # Errors
/// Names `path` and what to do.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let attempt = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".pipeprof-").tempfile_in(parent)?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    attempt().with_context(|| format!("cannot write {}: choose another place with -o, or make room", path.display()))
}

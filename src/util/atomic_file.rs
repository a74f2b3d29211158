//! Write files atomically: to a temporary file that is then renamed.

use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;

/// Write `bytes` to `path`. Neither a concurrent reader nor a full disk nor a signal ever sees or leaves an
/// incomplete file.
///
/// # Errors
/// When writing fails; the message names `path` and a fix.
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
    attempt()
        .with_context(|| format!("cannot write {}: choose another path with -o, or free some space", path.display()))
}

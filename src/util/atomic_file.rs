//! Write files atomically: to a temporary file that is then renamed.

use anyhow::{Result, anyhow, ensure};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// How the names of files that are not complete begin.
pub const PREFIX: &str = ".pipeprof-";

/// Write `bytes` to `path`. No reader, full disk or signal ever sees or leaves an incomplete file.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| Ok(file.write_all(bytes)?))
}

pub fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    // Renaming would replace /dev/null, if root asks for it.
    ensure!(
        !std::fs::metadata(path).is_ok_and(|found| !found.is_file()),
        "cannot write {}: this is not a regular file; choose another path with -o",
        path.display()
    );
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let attempt = || -> Result<()> {
        // The process's umask takes its bits away, as for any new file.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let mut file = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(mode)
            .tempfile_in(parent)
            .map_err(without_temporary_path)?;
        fill(file.as_file_mut())?;
        file.as_file().sync_data()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    attempt().map_err(|error| match error.downcast_ref::<io::Error>() {
        Some(cause) => {
            anyhow!("cannot write {}: {error:#}; choose another path with -o{}", path.display(), or_free(cause))
        }
        None => error,
    })
}

/// What else to do about `error`: the disk may be full, or a limit reached.
pub fn or_free(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => ", or raise the limit with `ulimit -f`",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ", or free some space",
        _ => "",
    }
}

/// `error` of the crate tempfile without the path that it appends, which the user did not give.
pub(crate) fn without_temporary_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_path_that_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        let error = write(&fifo, b"").unwrap_err().to_string();
        assert!(error.contains("not a regular file") && !fifo.is_file(), "{error}");
        let error = write(Path::new("/nonexistent/x.svg"), b"").unwrap_err().to_string();
        let reason = "No such file or directory (os error 2)";
        assert_eq!(error, format!("cannot write /nonexistent/x.svg: {reason}; choose another path with -o"));
    }
}

//! Files from outside: those that a user names on the command line, and those inside of results that others stored. Only
//! regular ones are read, up to a limit, so that reading ends.

use super::cancel;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Read so much at a time; an interruption ends it in between.
const PART: u64 = 1 << 20;

/// Open `path`, which a user named, for reading. A FIFO, a device or a directory is an error, at once: reading it might
/// never end.
pub(crate) fn open(path: &Path) -> Result<File> {
    open_with(path, OFlags::empty())
}

fn open_with(path: &Path, more: OFlags) -> Result<File> {
    // Without O_NONBLOCK, opening a FIFO waits for its other end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
        // open(2), O_NOFOLLOW.
        Errno::LOOP => Error::other("this is a symbolic link; give a regular file"),
        Errno::NOENT => Error::new(ErrorKind::NotFound, "file does not exist"),
        error => Error::from(error),
    })?;
    let kind = match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => return Ok(File::from(file)),
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "not a regular file",
    };
    Err(Error::other(format!("this is {kind}; give a regular file")))
}

/// The content of `path`, which a user named, of at most `longest` bytes.
pub(crate) fn read(path: &Path, longest: u64) -> Result<Vec<u8>> {
    read_all(open(path)?, longest)
}

/// The content of `path`, a file of a stored result, of at most `longest` bytes. It is no link, which could lead out of
/// the result's folder.
pub(crate) fn read_stored(path: &Path, longest: u64) -> Result<Vec<u8>> {
    read_all(open_with(path, OFlags::NOFOLLOW)?, longest)
}

/// [`read_stored`], with the user whose file it is.
pub(crate) fn read_owned(path: &Path, longest: u64) -> Result<(Vec<u8>, u32)> {
    let file = open_with(path, OFlags::NOFOLLOW)?;
    let owner = file.metadata()?.uid();
    Ok((read_all(file, longest)?, owner))
}

fn read_all(mut file: File, longest: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while file.by_ref().take(PART).read_to_end(&mut bytes)? > 0 {
        cancel::check().map_err(Error::other)?;
        if bytes.len() as u64 > longest {
            return Err(Error::other(format!("the file is longer than {} MiB", longest >> 20)));
        }
    }
    Ok(bytes)
}

/// The document of this name that `path` means: a folder that contains it, or the document itself. `None` if `path` is
/// something else.
pub(crate) fn document_at(path: &Path, name: &str) -> Option<PathBuf> {
    let inside = path.join(name);
    // Whatever it is: who reads it says so.
    if inside.symlink_metadata().is_ok() {
        return Some(inside);
    }
    path.file_name().is_some_and(|own| own == name).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_no_longer_ones_than_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(CWD, &fifo, Mode::RUSR).unwrap();
        let why = |path: &Path| open(path).unwrap_err().to_string();
        assert_eq!(why(&fifo), "this is a FIFO; give a regular file");
        assert_eq!(why(Path::new("/dev/zero")), "this is a device; give a regular file");
        assert_eq!(why(folder.path()), "this is a directory; give a regular file");
        assert_eq!(why(&folder.path().join("missing")), "file does not exist");
        let file = folder.path().join("file");
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(read(&file, 3).unwrap(), b"abc");
        assert_eq!(read(&file, 2).unwrap_err().to_string(), "the file is longer than 0 MiB");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!((read(&link, 3).unwrap(), read_stored(&file, 3).unwrap()), (b"abc".to_vec(), b"abc".to_vec()));
        assert_eq!(read_stored(&link, 3).unwrap_err().to_string(), "this is a symbolic link; give a regular file");
    }
}

//! Files from outside: those that a user names on the command line, and those inside of results that others stored. Only
//! regular ones are read, up to a limit, so that reading ends.

use super::{cancel, size};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fcntl_setfl, fstat, openat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Read so much at a time; an interruption ends it in between.
const PART: u64 = 1 << 20;

/// Open `path`, which a user named, for reading. A FIFO, a device or a directory is an error, at once: reading it might
/// never end.
pub fn open(path: &Path) -> Result<File> {
    open_regular(path, OFlags::empty())
}

fn open_regular(path: &Path, more: OFlags) -> Result<File> {
    open_one_of(&[FileType::RegularFile], "a regular file", path, more)
}

/// Open `path`, whose bytes a workload repeats: a regular file, or a device that has bytes at any time, as /dev/zero.
pub fn open_source(path: &Path) -> Result<File> {
    let kinds = [FileType::RegularFile, FileType::CharacterDevice, FileType::BlockDevice];
    let file = open_one_of(&kinds, "a file or /dev/zero", path, OFlags::empty())?;
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Open a folder, to lock it.
pub(crate) fn open_folder(path: &Path) -> Result<File> {
    Ok(File::from(openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
}

fn open_one_of(kinds: &[FileType], wanted: &str, path: &Path, more: OFlags) -> Result<File> {
    let check = |stat: Stat| {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            kind if kinds.contains(&kind) => return Ok(()),
            FileType::Directory => "a directory",
            FileType::Fifo => "a FIFO",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            FileType::Socket => "a socket",
            FileType::Symlink => "a symbolic link",
            _ => "not a regular file",
        };
        Err(Error::other(format!("this is {kind}; give {wanted}")))
    };
    let follow = if more.contains(OFlags::NOFOLLOW) { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
    // Opening some devices does something, such as starting a watchdog.
    check(statat(CWD, path, follow).map_err(|error| match error {
        Errno::NOENT => Error::new(ErrorKind::NotFound, "file does not exist"),
        error => Error::from(error),
    })?)?;
    // Without O_NONBLOCK, opening a FIFO waits for its other end.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | more;
    let file = openat(CWD, path, flags, Mode::empty())?;
    // Another file may have come in its place.
    check(fstat(&file)?)?;
    Ok(File::from(file))
}

/// The content of `path`, which a user named, of at most `longest` bytes.
pub fn read(path: &Path, longest: u64) -> Result<Vec<u8>> {
    read_all(open(path)?, longest)
}

/// [`read`], as text.
pub fn read_text(path: &Path, longest: u64) -> Result<String> {
    String::from_utf8(read(path, longest)?)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "this is not a text (UTF-8)"))
}

/// The content of `path`, a file of a stored result, of at most `longest` bytes. It is no link, which could lead out of
/// the result's folder.
pub fn read_stored(path: &Path, longest: u64) -> Result<Vec<u8>> {
    read_all(open_regular(path, OFlags::NOFOLLOW)?, longest)
}

/// [`read_stored`], with the user whose file it is.
pub fn read_owned(path: &Path, longest: u64) -> Result<(Vec<u8>, u32)> {
    let file = open_regular(path, OFlags::NOFOLLOW)?;
    let owner = file.metadata()?.uid();
    Ok((read_all(file, longest)?, owner))
}

fn read_all(mut file: File, longest: u64) -> Result<Vec<u8>> {
    // Files that only have a length take no memory.
    if file.metadata()?.len() > longest {
        return Err(too_long(longest));
    }
    let mut bytes = Vec::new();
    copy_all(&mut file, &mut bytes, longest)?;
    Ok(bytes)
}

/// Copy the content of `from`, which a user named, of at most `longest` bytes, to the new file `to`.
pub fn copy(from: &Path, to: &Path, longest: u64) -> Result<()> {
    copy_all(&mut open(from)?, &mut File::create_new(to)?, longest).map(drop)
}

/// Copy all bytes, at most `longest`. Returns their number.
pub fn copy_all(from: &mut impl Read, to: &mut impl Write, longest: u64) -> Result<u64> {
    let mut copied = 0;
    loop {
        let part = std::io::copy(&mut from.by_ref().take(PART), to).map_err(|error| match error.kind() {
            // Some files of /proc have content only now and then.
            ErrorKind::WouldBlock => Error::other("it has nothing to read now"),
            _ => error,
        })?;
        copied += part;
        if copied > longest {
            return Err(too_long(longest));
        }
        if part < PART {
            return Ok(copied);
        }
        cancel::check().map_err(Error::other)?;
    }
}

fn too_long(longest: u64) -> Error {
    Error::other(format!("it is longer than {}", size::format(longest)))
}

/// The document of this name that `path` means: a folder that contains it, or the document itself. `None` if `path` is
/// something else.
pub fn document_at(path: &Path, name: &str) -> Option<PathBuf> {
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
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(why(&socket), "this is a socket; give a regular file");
        assert_eq!(open_source(&fifo).unwrap_err().to_string(), "this is a FIFO; give a file or /dev/zero");
        assert!(open_folder(&fifo).is_err() && open_folder(folder.path()).is_ok());
        let mut zeros = [1; 2];
        open_source(Path::new("/dev/zero")).unwrap().read_exact(&mut zeros).unwrap();
        assert_eq!(zeros, [0; 2]);
        let file = folder.path().join("file");
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(read(&file, 3).unwrap(), b"abc");
        assert_eq!(read(&file, 2).unwrap_err().to_string(), "it is longer than 2");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!((read(&link, 3).unwrap(), read_stored(&file, 3).unwrap()), (b"abc".to_vec(), b"abc".to_vec()));
        // Its length alone is too much.
        let sparse = folder.path().join("sparse");
        File::create(&sparse).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(read(&sparse, 1 << 40).unwrap_err().to_string(), "it is longer than 1T");
        assert_eq!(read_stored(&link, 3).unwrap_err().to_string(), "this is a symbolic link; give a regular file");
    }
}

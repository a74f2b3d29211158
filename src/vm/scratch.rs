//! Temporary folders for the files of a running guest. They are removed on drop; those of a killed run are removed at
//! the next start.

use anyhow::{Context, Result, ensure};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = "pipeprof-guest-";

/// This file is locked while the folder's owner is alive.
const OWNER: &str = "owner";

/// A temporary folder.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
    _owner: File,
}

impl Scratch {
    /// Create a folder in the system's temporary folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(crate) fn new() -> Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    fn new_in(root: &Path) -> Result<Self> {
        // QEMU's options are texts.
        ensure!(root.to_str().is_some(), "the temporary folder {} is not UTF-8: set TMPDIR to another", root.display());
        let attempt = || -> std::io::Result<Self> {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(root)?;
            // Lock it before it gets its name, so that no other process takes it for abandoned.
            let unnamed = folder.path().join("owner.new");
            let owner = File::create(&unnamed)?;
            flock(&owner, FlockOperation::NonBlockingLockExclusive)?;
            fs::rename(unnamed, folder.path().join(OWNER))?;
            Ok(Self { folder, _owner: owner })
        };
        attempt().with_context(|| no_room(root))
    }

    /// A path in it.
    #[must_use]
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(crate) fn no_room(path: &Path) -> String {
    format!("cannot write {}: free some space, or set TMPDIR to another folder", path.display())
}

/// Remove the folders of killed runs and return their number.
#[must_use]
pub(crate) fn clean_up() -> usize {
    clean_up_in(&std::env::temp_dir())
}

fn clean_up_in(root: &Path) -> usize {
    let Ok(entries) = fs::read_dir(root) else { return 0 };
    let ours = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    ours.filter(|entry| is_abandoned(&entry.path()) && fs::remove_dir_all(entry.path()).is_ok()).count()
}

/// Whether `folder` is this user's and its run has ended. Anyone can create a folder of this name, with anything in it,
/// so only regular files of this user are opened, and without waiting.
fn is_abandoned(folder: &Path) -> bool {
    let careful = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let is_ours = |file: &OwnedFd, kind: FileType| {
        fstat(file).is_ok_and(|stat| {
            stat.st_uid == rustix::process::geteuid().as_raw() && FileType::from_raw_mode(stat.st_mode) == kind
        })
    };
    let Ok(folder) = openat(CWD, folder, careful | OFlags::DIRECTORY, Mode::empty()) else { return false };
    if !is_ours(&folder, FileType::Directory) {
        return false;
    }
    match openat(&folder, OWNER, careful, Mode::empty()) {
        Ok(owner) => {
            is_ours(&owner, FileType::RegularFile) && flock(&owner, FlockOperation::NonBlockingLockExclusive).is_ok()
        }
        // It was just created, or its owner was killed at that moment.
        Err(Errno::NOENT) => File::from(folder)
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > Duration::from_secs(60))),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_utf_8_is_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join(std::ffi::OsStr::from_bytes(b"t\xff"));
        fs::create_dir(&folder).unwrap();
        assert!(Scratch::new_in(&folder).unwrap_err().to_string().contains("TMPDIR"));
        assert!(Scratch::new_in(parent.path()).is_ok());
    }

    #[test]
    fn only_abandoned_folders_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let dead = folder("pipeprof-guest-dead");
        fs::write(dead.join(OWNER), "").unwrap();
        let alive = folder("pipeprof-guest-alive");
        let owner = File::create(alive.join(OWNER)).unwrap();
        flock(&owner, FlockOperation::NonBlockingLockExclusive).unwrap();
        let young = folder("pipeprof-guest-young");
        let other = folder("other");
        fs::write(other.join(OWNER), "").unwrap();
        assert_eq!(clean_up_in(root.path()), 1);
        assert!(!dead.exists() && alive.exists() && young.exists() && other.exists());
    }

    #[test]
    fn folders_of_others_are_neither_opened_nor_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        // Opening a FIFO without O_NONBLOCK would wait for a writer.
        let fifo = folder("pipeprof-guest-fifo");
        rustix::fs::mkfifoat(CWD, fifo.join(OWNER), Mode::RUSR).unwrap();
        let victim = root.path().join("victim");
        fs::write(&victim, "").unwrap();
        let link = folder("pipeprof-guest-link");
        std::os::unix::fs::symlink(&victim, link.join(OWNER)).unwrap();
        std::os::unix::fs::symlink(&link, root.path().join("pipeprof-guest-folder")).unwrap();
        assert_eq!(clean_up_in(root.path()), 0);
        // What belongs to another user, where this test may make it so.
        let other = folder("pipeprof-guest-other");
        fs::write(other.join(OWNER), "").unwrap();
        if std::os::unix::fs::chown(&other, Some(12345), None).is_ok() {
            assert_eq!(clean_up_in(root.path()), 0);
        }
    }

    #[test]
    fn a_folder_goes_away_with_its_value() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path("x");
        fs::write(&path, "x").unwrap();
        assert!(!is_abandoned(path.parent().unwrap()));
        drop(scratch);
        assert!(!path.exists());
    }
}

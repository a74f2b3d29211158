//! Folders under temporary names, next to the place where their results will be. Those of killed runs are removed by the
//! next run.

use crate::util::atomic_file;
use crate::util::folder_lock::FolderLock;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

const PREFIX: &str = ".pipeprof-";

/// Attempts to make a folder, if others remove it before it is locked.
const ATTEMPTS: usize = 10;

/// A folder that is removed when this is dropped. It is locked meanwhile, so that no other run takes it for abandoned.
#[derive(Debug)]
pub(super) struct Aside {
    folder: tempfile::TempDir,
    _lock: FolderLock,
}

impl Aside {
    /// Create one in `parent`.
    ///
    /// # Errors
    /// When `parent` cannot be written.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let folder = tempfile::Builder::new()
                .prefix(PREFIX)
                // The process's umask takes its bits away, as for any new folder.
                .permissions(std::fs::Permissions::from_mode(0o777))
                .tempdir_in(parent)
                .map_err(atomic_file::without_temporary_path)?;
            // Another run may have removed it before it was locked.
            if let Ok(lock) = FolderLock::take(folder.path())
                && folder.path().exists()
            {
                return Ok(Self { folder, _lock: lock });
            }
        }
        Err(io::Error::other("another process removes new folders there"))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Remove the folders of killed runs of this user in `parent`, and return their number.
pub(super) fn clean_up(parent: &Path) -> usize {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    ours.filter(|entry| remove_abandoned(&entry.path()).is_some()).count()
}

fn remove_abandoned(folder: &Path) -> Option<()> {
    // Of links, the link itself.
    let found = std::fs::symlink_metadata(folder).ok()?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let _lock = FolderLock::take(folder).ok().filter(FolderLock::is_held)?;
    std::fs::remove_dir_all(folder).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folders_of_killed_runs_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at_work = Aside::new(parent.path()).unwrap();
        let killed = parent.path().join(".pipeprof-abc");
        std::fs::create_dir(&killed).unwrap();
        std::fs::write(killed.join("run.json"), "{").unwrap();
        let (file, link, other) = (".pipeprof-file", ".pipeprof-link", "other");
        std::fs::write(parent.path().join(file), "").unwrap();
        std::fs::create_dir(parent.path().join(other)).unwrap();
        std::os::unix::fs::symlink(parent.path().join(other), parent.path().join(link)).unwrap();
        assert_eq!(clean_up(parent.path()), 1);
        assert!(!killed.exists() && at_work.path().exists());
        assert!([file, link, other].iter().all(|name| parent.path().join(name).exists()));
        assert_eq!(clean_up(parent.path()), 0);
        let path = at_work.path().to_owned();
        drop(at_work);
        assert!(!path.exists());
    }
}

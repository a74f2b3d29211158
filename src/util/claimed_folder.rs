//! Temporary folders that are locked while their process is alive. Those of killed processes are found and removed by the
//! next one.

use crate::util::atomic_file;
use crate::util::folder_lock::FolderLock;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Attempts to make a folder, if others remove it before it is locked.
const ATTEMPTS: usize = 10;

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub struct ClaimedFolder {
    folder: tempfile::TempDir,
    _lock: FolderLock,
}

impl ClaimedFolder {
    /// Create one in `parent`, with a name that begins with `prefix` and these permissions.
    pub fn new_in(parent: &Path, prefix: &str, mode: u32) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let folder = tempfile::Builder::new()
                .prefix(prefix)
                // The process's umask takes its bits away, as for any new folder.
                .permissions(std::fs::Permissions::from_mode(mode))
                .tempdir_in(parent)
                .map_err(atomic_file::without_temporary_path)?;
            // Another process may have removed it before it was locked.
            if let Ok(lock) = FolderLock::take(folder.path())
                && folder.path().exists()
            {
                return Ok(Self { folder, _lock: lock });
            }
        }
        Err(io::Error::other("another process removes new folders there"))
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Remove the folders of this user's killed processes in `parent` whose names begin with `prefix`, and return their
/// number. Anyone may be able to create such a folder, with anything in it: nothing in it is opened.
pub fn clean_up(parent: &Path, prefix: &str) -> usize {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.filter(|entry| remove_abandoned(&entry.path()).is_some()).count()
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

    const PREFIX: &str = ".pipeprof-";

    #[test]
    fn only_the_folders_of_killed_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let at_work = ClaimedFolder::new_in(parent.path(), PREFIX, 0o700).unwrap();
        let killed = parent.path().join(".pipeprof-abc");
        std::fs::create_dir(&killed).unwrap();
        // Opening a FIFO would wait for a writer.
        rustix::fs::mkfifoat(rustix::fs::CWD, killed.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
        let (file, link, other) = (".pipeprof-file", ".pipeprof-link", "other");
        std::fs::write(parent.path().join(file), "").unwrap();
        std::fs::create_dir(parent.path().join(other)).unwrap();
        std::os::unix::fs::symlink(parent.path().join(other), parent.path().join(link)).unwrap();
        let strange = parent.path().join(".pipeprof-strange");
        std::fs::create_dir(&strange).unwrap();
        // What belongs to another user, where this test may make it so.
        let expected = if std::os::unix::fs::chown(&strange, Some(12345), None).is_ok() { 1 } else { 2 };
        assert_eq!(clean_up(parent.path(), PREFIX), expected);
        assert!(!killed.exists() && at_work.path().exists() && strange.exists() == (expected == 1));
        assert!([file, link, other].iter().all(|name| parent.path().join(name).exists()));
        assert_eq!(clean_up(parent.path(), PREFIX), 0);
        let path = at_work.path().to_owned();
        drop(at_work);
        assert!(!path.exists());
    }
}

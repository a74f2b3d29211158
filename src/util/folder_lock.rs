//! A folder that one process writes at a time.

use super::regular;
use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The right to write into a folder, until this is dropped. The kernel gives it back when the process dies, and nothing
/// stays in the folder.
#[derive(Debug)]
pub struct FolderLock {
    folder: File,
    held: bool,
}

impl FolderLock {
    pub fn take(folder: &Path) -> Result<Self> {
        let file =
            regular::open_folder(folder).with_context(|| format!("cannot open the folder {}", folder.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { folder: file, held: true }),
            // Some network file systems have no locks.
            Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOLCK) => Ok(Self { folder: file, held: false }),
            Err(_) => {
                let holder = holder(&file).map_or_else(String::new, |pid| format!(" (process {pid})"));
                bail!(
                    "another pipeprof{holder} is writing into {}: wait until it has ended, or give another -o",
                    folder.display()
                )
            }
        }
    }

    /// Whether it keeps others away: some file systems have no locks.
    pub fn is_held(&self) -> bool {
        self.held
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that another thread forks has it open until its exec.
        let _ = flock(&self.folder, FlockOperation::Unlock);
    }
}

/// The process that has the lock, from /proc/locks.
fn holder(folder: &File) -> Option<u32> {
    let metadata = folder.metadata().ok()?;
    holder_in(&std::fs::read_to_string("/proc/locks").ok()?, metadata.dev(), metadata.ino())
}

/// `1: FLOCK  ADVISORY  WRITE 4711 08:02:1234 0 EOF`: proc_locks(5).
fn holder_in(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    let of_file = |line: &&str| line.contains(" FLOCK ") && line.split_whitespace().nth(5) == Some(&*file);
    locks.lines().find(of_file)?.split_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_writes_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::take(folder.path()).unwrap();
        // flock(2) locks an open file, so the second is refused even within one process.
        let refused = FolderLock::take(folder.path()).unwrap_err().to_string();
        let own = format!("another pipeprof (process {}) is writing into", std::process::id());
        assert!(refused.starts_with(&own), "{refused}");
        drop(first);
        FolderLock::take(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_lock_ends_although_a_fork_has_the_folder_open() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::take(folder.path()).unwrap();
        let child = first.folder.try_clone().unwrap();
        drop(first);
        FolderLock::take(folder.path()).unwrap();
        drop(child);
    }

    #[test]
    fn holders_are_found_by_device_and_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 1 08:02:7 0 EOF\n2: FLOCK  ADVISORY  WRITE 42 08:02:7 0 EOF\n";
        let device = rustix::fs::makedev(8, 2);
        assert_eq!(holder_in(locks, device, 7), Some(42));
        assert_eq!(holder_in(locks, device, 8), None);
        assert_eq!(holder_in("2: FLOCK", device, 7), None);
    }
}

//! Files that stand for a process which does not run any more: locks, and those of sockets.

use crate::result::{NameUse, NamedFile};
use crate::util::regular;
use crate::util::text::read_lossy;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Of a file with one number, bytes.
const LONGEST: u64 = 32;

/// Note in each of `files` that is a lock by its name, in a window that ends now: the id of a process, if that is all that the file
/// has and that process had ended when it was looked at. Of a relative path, only if it begins at the folder of this process.
pub(crate) fn find(files: &mut [NamedFile], window: Duration) {
    let found: Vec<Option<u32>> = files.iter().map(|file| left_by(file, files, window)).collect();
    files.iter_mut().zip(found).for_each(|(file, found)| file.left_by = found);
    let is_address = |file: &NamedFile| file.is_failed_address() && !file.path.starts_with("port ");
    if !files.iter().any(is_address) {
        return;
    }
    let sockets = read_lossy("/proc/net/unix").unwrap_or_default();
    // In a container, paths and sockets are others.
    let is_known = |file: &NamedFile| {
        let binds = |by: &NamedFile| by.does == NameUse::Binds && by.error.is_none() && by.is_same_place(file);
        files.iter().any(binds) || is_socket(file)
    };
    let unbound: Vec<bool> =
        files.iter().map(|file| is_address(file) && !is_bound(file, &sockets) && is_known(file)).collect();
    files.iter_mut().zip(unbound).for_each(|(file, unbound)| file.unbound = unbound);
}

/// Whether there is a socket of this path.
fn is_socket(file: &NamedFile) -> bool {
    let found = path_of(file).and_then(|path| std::fs::metadata(path).ok());
    found.is_some_and(|found| found.file_type().is_socket())
}

/// Its path, if that is absolute or begins at the folder of this process.
fn path_of(file: &NamedFile) -> Option<&Path> {
    let path = Path::new(&file.path);
    let here = || std::fs::metadata(".").is_ok_and(|folder| folder.ino() == file.folder);
    (path.is_absolute() || here()).then_some(path)
}

/// Whether a table like that of proc_pid_net(5) has a socket of this name: `Num RefCount Protocol Flags Type St Inode Path`.
fn is_bound(file: &NamedFile, sockets: &str) -> bool {
    // Both can begin at any folder.
    sockets
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7))
        .any(|path| path.rsplit('/').next() == Some(file.last_name()))
}

fn left_by(file: &NamedFile, files: &[NamedFile], window: Duration) -> Option<u32> {
    let path = Some(file).filter(|file| file.is_of_lock()).and_then(path_of)?;
    let text = regular::read_text(path, LONGEST).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    let written = std::fs::metadata(path).ok()?.modified().ok()?;
    let before = || SystemTime::now().duration_since(written).is_ok_and(|age| age > window);
    let ended = files.iter().any(|by| by.pid == pid && by.ended_ns.is_some_and(|end| end < file.at_ns[1]));
    let runs = || Path::new(&format!("/proc/{pid}")).exists();
    // A number in another lock can be a version.
    let is_old = || path.extension().is_some_and(|end| end == "pid") && before();
    (pid > 0 && (ended || is_old()) && !runs()).then_some(pid)
}

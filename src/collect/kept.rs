//! Programs and maps that were loaded before they are needed, in a guest before its snapshot is made: the verifier need not
//! look at them in each of its recordings. They are kept in the BPF file system, under a name for what was loaded.

use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore as _, MapHandle, libbpf_sys};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Where a guest has the BPF file system.
pub(super) const ROOT: &str = "/sys/fs/bpf";
const PROGRAMS: &str = "programs";
const MAPS: &str = "maps";

/// An object that was kept.
#[derive(Debug)]
pub struct KeptObject {
    programs: BTreeMap<String, OwnedFd>,
    maps: BTreeMap<String, MapHandle>,
}

impl KeptObject {
    pub(super) fn program(&self, name: &str) -> Option<BorrowedFd<'_>> {
        Some(self.programs.get(name)?.as_fd())
    }

    pub(super) fn map(&self, name: &str) -> Option<&MapHandle> {
        self.maps.get(&file_name(name))
    }
}

/// The BPF file system allows no dots in names.
fn file_name(name: &str) -> String {
    name.replace('.', "_")
}

/// Keep what is loaded of `object` in a new folder.
///
/// # Errors
/// When it is not in a BPF file system, or exists.
pub(super) fn keep(object: &libbpf_rs::Object, folder: &Path) -> Result<()> {
    for part in [PROGRAMS, MAPS] {
        let part = folder.join(part);
        fs::create_dir_all(&part).with_context(|| part.display().to_string())?;
    }
    for program in object.progs().filter(|program| program.as_fd().as_raw_fd() >= 0) {
        pin(program.as_fd(), &folder.join(PROGRAMS).join(file_name(&program.name().to_string_lossy())))?;
    }
    for map in object.maps() {
        pin(map.as_fd(), &folder.join(MAPS).join(file_name(&map.name().to_string_lossy())))?;
    }
    Ok(())
}

/// Take out what this user kept in a folder: another one must not find the maps filled.
pub(super) fn take(folder: &Path) -> Option<KeptObject> {
    let own = |data: fs::Metadata| data.is_dir() && data.uid() == rustix::process::geteuid().as_raw();
    if !fs::symlink_metadata(folder).is_ok_and(own) {
        return None;
    }
    let programs = files(&folder.join(PROGRAMS), pinned);
    let maps = files(&folder.join(MAPS), |path| Ok(MapHandle::from_pinned_path(path)?));
    let removed = fs::remove_dir_all(folder);
    Some(KeptObject { programs: programs.ok()?, maps: maps.ok().filter(|_| removed.is_ok())? })
}

fn files<T>(folder: &Path, open: impl Fn(&Path) -> Result<T>) -> Result<BTreeMap<String, T>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        found.insert(entry.file_name().to_string_lossy().into_owned(), open(&entry.path())?);
    }
    Ok(found)
}

fn pin(fd: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the descriptor is open, and the path is a string that outlives the call.
    let failed = unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), text.as_ptr()) };
    ensure!(failed == 0, "{}: {}", path.display(), std::io::Error::last_os_error());
    Ok(())
}

fn pinned(path: &Path) -> Result<OwnedFd> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a string that outlives the call.
    let fd = unsafe { libbpf_sys::bpf_obj_get(text.as_ptr()) };
    ensure!(fd >= 0, "{}: {}", path.display(), std::io::Error::last_os_error());
    // SAFETY: the descriptor is new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{Object, ToLoad};
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

    #[test]
    #[ignore = "needs root: make test"]
    fn what_is_kept_is_taken_once() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().to_owned();
        // Its own mount is gone with the thread.
        let thread = std::thread::spawn(move || {
            // SAFETY: no memory is shared or unshared, and only this thread sees other mounts.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            mount("none", &root, "bpf", MountFlags::empty(), None).unwrap();
            let folder = root.join("kept");
            assert!(take(&folder).is_none());
            let Object::Libbpf(object) = ToLoad::results(vec!["pp_result"]).load().unwrap() else { panic!() };
            keep(&object, &folder).unwrap();
            assert!(keep(&object, &folder).is_err());
            drop(object);
            let kept = take(&folder).unwrap();
            assert!(kept.program("pp_result").is_some() && kept.program("pr_fork").is_none());
            assert!(kept.map("results").is_some() && kept.map("threads").is_none());
            assert!(take(&folder).is_none());
        });
        thread.join().unwrap();
    }
}

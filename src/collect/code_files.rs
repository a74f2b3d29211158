//! The files that processes execute. Their paths are those of the processes' mount namespaces, and their content can
//! have been replaced since: a file is read only if it is the one that was mapped.

use crate::util::regular;
use crate::util::text::read_lossy;
use blazesym::helper::read_elf_build_id;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// What tells a mapped file from others of its path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FileIdentity {
    /// As the kernel shows them for memory. stat(2) can show others: on btrfs, on overlayfs.
    Inode {
        major: u32,
        minor: u32,
        inode: u64,
    },
    BuildId(Vec<u8>),
}

/// Code that a process has mapped from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMapping {
    pub start: u64,
    pub end: u64,
    /// In the file, of `start`.
    pub offset: u64,
    /// In the mount namespace of the process.
    pub path: PathBuf,
    pub file: FileIdentity,
}

impl FileMapping {
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

impl FileIdentity {
    fn is_of(&self, file: &File) -> bool {
        match self {
            Self::Inode { .. } => mapped_identity(file).as_ref() == Some(self),
            Self::BuildId(id) => read_elf_build_id(&open_path(file)).is_ok_and(|own| own.as_deref() == Some(id)),
        }
    }
}

/// The mappings of files in a `/proc/PID/maps`, and whether they are executable. Malformed lines are skipped.
fn parse_maps(text: &str) -> impl Iterator<Item = (bool, FileMapping)> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let line = move |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let executable = fields.next()?.contains('x');
        let offset = hexadecimal(fields.next()?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let [major, minor] = [major, minor].map(|number| u32::from_str_radix(number, 16).ok());
        let file = FileIdentity::Inode { major: major?, minor: minor?, inode: fields.next()?.parse().ok()? };
        let path = fields.next()?.trim_start();
        path.starts_with('/').then_some(())?;
        let path = PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path));
        Some((executable, FileMapping { start: hexadecimal(start)?, end: hexadecimal(end)?, offset, path, file }))
    };
    text.lines().filter_map(line)
}

/// The code that `pid` has mapped now; nothing if it cannot be read.
pub(crate) fn mappings_of(pid: u32) -> Vec<FileMapping> {
    let maps = read_lossy(&format!("/proc/{pid}/maps")).unwrap_or_default();
    parse_maps(&maps).filter_map(|(executable, mapping)| executable.then_some(mapping)).collect()
}

/// What /proc/self/maps shows for `file`.
fn mapped_identity(file: &File) -> Option<FileIdentity> {
    const LENGTH: usize = 1;
    // SAFETY: a new mapping at an address that the kernel chooses, which nothing reads.
    let memory = unsafe { mmap(std::ptr::null_mut(), LENGTH, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }.ok()?;
    let maps = std::fs::read_to_string("/proc/self/maps");
    // SAFETY: the mapping was made above with this length, and no reference to it exists.
    let _ = unsafe { munmap(memory, LENGTH) };
    let at = memory.addr() as u64;
    parse_maps(&maps.ok()?).map(|(_, mapping)| mapping).find(|mapping| mapping.start == at).map(|mapping| mapping.file)
}

/// A path of this process's open `file`.
fn open_path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// `path`, if it is the file that was mapped. By now it may be another, even a FIFO.
fn open_same(path: impl AsRef<Path>, identity: &FileIdentity) -> Option<File> {
    regular::open(path.as_ref()).ok().filter(|file| identity.is_of(file))
}

/// Most files that are held open.
const MOST: usize = 256;

/// The files that this process does not find at their paths, held open as long as it needs them: processes end.
#[derive(Debug, Default)]
pub(crate) struct HeldFiles {
    /// The paths of those that are found there.
    seen: HashMap<FileIdentity, PathBuf>,
    held: HashMap<FileIdentity, File>,
}

impl HeldFiles {
    /// Look for the file of `mapping` at its path, then as `pids` see it: the process, and those that may have its root.
    pub(super) fn look(&mut self, mapping: &FileMapping, pids: impl IntoIterator<Item = u32>) {
        let identity = &mapping.file;
        if self.seen.contains_key(identity) || self.held.contains_key(identity) || self.held.len() >= MOST {
            return;
        }
        if open_same(&mapping.path, identity).is_some() {
            self.seen.insert(identity.clone(), mapping.path.clone());
            return;
        }
        let seen_by = |pid: u32| {
            let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
            let rooted =
                Path::new("/proc").join(pid.to_string()).join("root").join(mapping.path.strip_prefix("/").ok()?);
            open_same(mapped, identity).or_else(|| open_same(rooted, identity))
        };
        if let Some(file) = pids.into_iter().find_map(seen_by) {
            self.held.insert(identity.clone(), file);
        }
    }

    /// Where the file of `mapping` can be read; `None` if it is not found.
    pub(super) fn path(&self, mapping: &FileMapping) -> Option<PathBuf> {
        let identity = &mapping.file;
        let mut own = [Some(&mapping.path), self.seen.get(identity)].into_iter().flatten();
        let found = || own.find(|path| open_same(path, identity).is_some()).cloned();
        self.held.get(identity).map(open_path).or_else(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    fn own_mapping() -> FileMapping {
        let program = std::env::current_exe().unwrap();
        mappings_of(std::process::id()).into_iter().find(|mapping| mapping.path == program).unwrap()
    }

    #[test]
    fn mappings_of_files_only() {
        let maps = "\
55d0a0000000-55d0a0010000 r--p 00000000 08:01 1234   /usr/bin/pipe prof
55d0a0010000-55d0a0020000 r-xp 00010000 08:01 1234   /usr/bin/pipe prof (deleted)
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0      [vdso]
garbage
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
";
        let [(false, _), (true, mapping)] = &parse_maps(maps).collect::<Vec<_>>()[..] else { panic!("two") };
        assert_eq!(mapping.path, PathBuf::from("/usr/bin/pipe prof"));
        assert_eq!((mapping.start, mapping.offset), (0x55d0_a001_0000, 0x10000));
        assert_eq!(mapping.file, FileIdentity::Inode { major: 8, minor: 1, inode: 1234 });
    }

    #[test]
    fn a_file_is_known_by_its_inode_and_by_its_build_id() {
        let mapping = own_mapping();
        let build_id = read_elf_build_id(&mapping.path).unwrap().unwrap().into_owned();
        let by_build_id = FileMapping { file: FileIdentity::BuildId(build_id), ..mapping.clone() };
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        std::fs::copy(&mapping.path, &copy).unwrap();
        let mut files = HeldFiles::default();
        for (mapping, same_content) in [(&mapping, false), (&by_build_id, true)] {
            assert_eq!(files.path(mapping).as_ref(), Some(&mapping.path));
            let moved = FileMapping { path: copy.clone(), ..mapping.clone() };
            assert_eq!(files.path(&moved).is_some(), same_content);
            let other = FileMapping { path: "/bin/sh".into(), ..mapping.clone() };
            assert_eq!(files.path(&other), None);
            // Whose content was seen elsewhere.
            files.look(mapping, []);
            assert_eq!(files.path(&other).as_ref(), Some(&mapping.path));
        }
    }

    #[test]
    #[ignore = "needs root: make test"]
    fn a_removed_file_is_read_through_a_process_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cat");
        std::fs::copy("/bin/cat", &path).unwrap();
        let mut child = Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It runs.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let mapping = mappings_of(child.id()).into_iter().find(|mapping| mapping.path == path).unwrap();
        // Another one of its name.
        std::fs::remove_file(&path).unwrap();
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let mut files = HeldFiles::default();
        files.look(&mapping, []);
        assert_eq!(files.path(&mapping), None);
        files.look(&mapping, [child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        let held = files.path(&mapping).unwrap();
        assert_eq!(std::fs::read(held).unwrap(), std::fs::read("/bin/cat").unwrap());
    }
}

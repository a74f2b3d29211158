//! Files of this machine for a guest: programs with all that they need to start, and input files, at the same paths.
//! They travel as a tar archive, which the guest's init unpacks (`guest`).

use super::{closure, loader_cache};
use crate::util::find_program::find_program;
use crate::util::{cancel, regular, size};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// Links that are followed before a path counts as a loop, as in the kernel: include/linux/namei.h, `MAXSYMLINKS`.
const MOST_LINKS: u32 = 40;

/// Larger files are refused: QEMU reads them into memory.
const LARGEST: u64 = 4 << 30;

/// Most files and folders for a guest.
pub(super) const MOST_PLACES: usize = 1_000_000;

/// What is at a path of a guest, or of its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuestEntry {
    Folder,
    Link(PathBuf),
    /// A file of this machine.
    File(PathBuf),
}

impl GuestEntry {
    /// The file of this machine.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(from) => Some(from),
            Self::Folder | Self::Link(_) => None,
        }
    }
}

/// Files for a guest.
#[derive(Debug, Clone, Default)]
pub struct FileBundle {
    /// By absolute path in the guest, without links in its folders.
    places: BTreeMap<PathBuf, GuestEntry>,
    bytes: u64,
}

impl FileBundle {
    /// Add the program `name` as a shell finds it, the libraries and interpreters that it needs to start, and the links
    /// that lead to them. Returns its path; `None` if there is no such program.
    pub fn program(&mut self, name: &str) -> Result<Option<PathBuf>> {
        let Some(path) = find_program(name) else { return Ok(None) };
        self.executable(&path)?;
        Ok(Some(path))
    }

    /// Add a file, or a folder with all that it contains, and what programs and libraries of these need.
    pub fn executable(&mut self, path: &Path) -> Result<()> {
        let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
        if !self.file(&path, &path)? {
            return Ok(());
        }
        for needed in closure::needs(&path)? {
            self.executable(&needed)?;
        }
        Ok(())
    }

    /// Add the file, or the folder with all that it contains, at `from`, as `to`. Returns whether something is new.
    pub fn file(&mut self, from: &Path, to: &Path) -> Result<bool> {
        self.file_in(&mut Vec::new(), from, to)
    }

    /// The same in folders that are at `above`, without links: what leads back to one of them is left out.
    fn file_in(&mut self, above: &mut Vec<PathBuf>, from: &Path, to: &Path) -> Result<bool> {
        cancel::check()?;
        ensure!(self.places.len() <= MOST_PLACES, "{}: more than {MOST_PLACES} files", from.display());
        let unreadable = || format!("cannot read {}", from.display());
        let kind = fs::metadata(from).with_context(unreadable)?;
        if kind.is_dir() {
            let real = from.canonicalize().with_context(unreadable)?;
            if above.contains(&real) {
                return Ok(false);
            }
            above.push(real);
            let to = self.lead(to, from == to, MOST_LINKS)?;
            self.places.insert(to.clone(), GuestEntry::Folder);
            let mut entries: Vec<fs::DirEntry> = fs::read_dir(from)
                .and_then(Iterator::collect)
                .with_context(|| format!("cannot read the folder {}", from.display()))?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                // Sockets and the like are left out.
                if fs::metadata(entry.path()).is_ok_and(|kind| kind.is_dir() || kind.is_file()) {
                    self.file_in(above, &entry.path(), &to.join(entry.file_name()))?;
                }
            }
            above.pop();
            return Ok(true);
        }
        ensure!(kind.is_file(), "{} is neither a file nor a folder", from.display());
        let here = from == to;
        let to = self.lead(to, here, MOST_LINKS)?;
        let place = GuestEntry::File(if here { to.clone() } else { from.to_owned() });
        if self.places.get(&to) == Some(&place) {
            return Ok(false);
        }
        self.bytes += kind.len();
        self.places.insert(to, place);
        Ok(true)
    }

    /// Add a folder, and those that contain it.
    pub fn folder(&mut self, path: &Path) -> Result<()> {
        let path = self.lead(path, true, MOST_LINKS)?;
        self.places.insert(path, GuestEntry::Folder);
        Ok(())
    }

    /// Add the folders and links that lead to `path`, where something else puts a file or folder, and return the path
    /// without links. `here`: links are those of this machine.
    pub fn way_to(&mut self, path: &Path, here: bool) -> Result<PathBuf> {
        self.lead(path, here, MOST_LINKS)
    }

    /// Add the folders and links that lead to `path`, and return the path without links. `here`: links are those of this
    /// machine.
    fn lead(&mut self, path: &Path, here: bool, links: u32) -> Result<PathBuf> {
        ensure!(links > 0, "{}: too many symbolic links", path.display());
        let mut at = PathBuf::from("/");
        let mut rest = path.components().peekable();
        while let Some(part) = rest.next() {
            match part {
                Component::Normal(name) => at.push(name),
                Component::ParentDir => drop(at.pop()),
                _ => continue,
            }
            let link = match self.places.get(&at) {
                Some(GuestEntry::Link(target)) => Some(target.clone()),
                Some(_) => None,
                None if here => fs::read_link(&at).ok(),
                None => None,
            };
            if let Some(target) = link {
                self.places.insert(at.clone(), GuestEntry::Link(target.clone()));
                at.pop();
                let whole = rest.fold(at.join(target), |whole, part| whole.join(part));
                return self.lead(&whole, here, links - 1);
            }
            if rest.peek().is_some() {
                match self.places.get(&at) {
                    Some(GuestEntry::File(_)) => bail!("{} is a file, not a folder", at.display()),
                    _ => self.places.insert(at.clone(), GuestEntry::Folder),
                };
            }
        }
        Ok(at)
    }

    /// The files of this machine.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.places.values().filter_map(GuestEntry::file)
    }

    /// The size of all files, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether `path`, which has no links, is a file or folder of the bundle.
    pub fn contains(&self, path: &Path) -> bool {
        self.places.contains_key(path)
    }

    /// Whether the file or link of this machine at `path` is one of the bundle, perhaps by links of its folder.
    fn has(&self, path: &Path) -> bool {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        folder.zip(path.file_name()).is_some_and(|(folder, name)| self.contains(&folder.join(name)))
    }

    /// The archive. Owner and times of files are left out, so that equal files give equal archives.
    pub fn pack(&self) -> Result<Vec<u8>> {
        let room = usize::try_from(self.bytes).unwrap_or(0) + 1024 * (self.places.len() + 2);
        let mut archive = tar::Builder::new(Vec::with_capacity(room));
        for (path, place) in &self.places {
            let name = path.strip_prefix("/").unwrap_or(path);
            if name.as_os_str().is_empty() {
                continue;
            }
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o755);
            header.set_size(0);
            let added = match place {
                GuestEntry::Folder => {
                    header.set_entry_type(tar::EntryType::Directory);
                    archive.append_data(&mut header, name, std::io::empty())
                }
                GuestEntry::Link(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    archive.append_link(&mut header, name, target)
                }
                GuestEntry::File(from) => {
                    let mut content = regular::read(from, LARGEST).with_context(|| from.display().to_string())?;
                    if path == Path::new(loader_cache::PLACE) {
                        content = loader_cache::limited(&content, |library| self.has(library)).unwrap_or(content);
                    }
                    let mode = fs::metadata(from).map_or(0o644, |data| data.permissions().mode() & 0o777);
                    header.set_entry_type(tar::EntryType::Regular);
                    header.set_mode(mode);
                    header.set_size(content.len() as u64);
                    archive.append_data(&mut header, name, &content[..])
                }
            };
            added.with_context(|| format!("cannot pack {} ({})", path.display(), size::format(self.bytes)))?;
        }
        archive.into_inner().context("cannot pack the files for the guest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bundle: &FileBundle) -> Vec<String> {
        let packed = bundle.pack().unwrap();
        let mut archive = tar::Archive::new(&packed[..]);
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn a_program_comes_with_all_that_it_needs_to_start() {
        let mut bundle = FileBundle::default();
        let path = bundle.program("sh").unwrap().unwrap();
        assert!(bundle.program("no-such-program").unwrap().is_none());
        let whole = bundle.clone().way_to(&path, true).unwrap();
        assert!(bundle.contains(&whole));
        // Unpacked elsewhere, it starts by its own loader and libraries.
        let folder = tempfile::tempdir().unwrap();
        tar::Archive::new(&bundle.pack().unwrap()[..]).unpack(folder.path()).unwrap();
        let cache = fs::read(folder.path().join("etc/ld.so.cache")).unwrap();
        assert!(cache.windows(11).any(|part| part == b"/libc.so.6\0"));
        assert!(cache.len() < fs::read(loader_cache::PLACE).unwrap().len(), "without libraries that are not there");
        if rustix::process::geteuid().is_root() {
            let mut inside = std::process::Command::new("chroot");
            let output = inside.arg(folder.path()).arg(&path).args(["-c", "echo $((6*7))"]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{output:?}");
        }
    }

    #[test]
    fn an_interpreter_comes_with_its_modules() {
        let mut bundle = FileBundle::default();
        for program in ["/usr/bin/python3", "/usr/bin/perl"] {
            bundle.executable(Path::new(program)).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        tar::Archive::new(&bundle.pack().unwrap()[..]).unpack(folder.path()).unwrap();
        let said = |words: &[&str]| {
            let mut inside = std::process::Command::new("chroot");
            let output = inside.arg(folder.path()).args(words).env("LC_ALL", "C").output().unwrap();
            assert!(output.stderr.is_empty(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        if rustix::process::geteuid().is_root() {
            assert_eq!(said(&["/usr/bin/python3", "-c", "import json, socket; print(json.dumps([1]))"]), "[1]\n");
            fs::write(folder.path().join("a.pl"), "use strict; use POSIX; print floor(1.5)").unwrap();
            assert_eq!(said(&["/usr/bin/perl", "/a.pl"]), "1");
        }
    }

    #[test]
    fn links_and_folders_lead_to_files_and_equal_files_give_equal_archives() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("real/data"), "x").unwrap();
        std::os::unix::fs::symlink("real", at("linked")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        let mut bundle = FileBundle::default();
        assert!(bundle.file(&at("linked/data"), &at("linked/data")).unwrap());
        assert!(!bundle.file(&at("real/data"), &at("real/data")).unwrap(), "the same file");
        assert!(bundle.file(&at("real"), Path::new("/elsewhere")).unwrap());
        bundle.executable(&at("real")).unwrap();
        let names = names(&bundle);
        for end in ["linked", "real/data", "elsewhere/data"] {
            assert!(names.iter().any(|name| name.ends_with(end)), "{end}: {names:?}");
        }
        let has = |name: &str| bundle.contains(&bundle.clone().way_to(&at(name), true).unwrap());
        assert!(has("linked/data") && !has("linked/other"));
        assert_eq!(bundle.bytes(), 2);
        let packed = bundle.pack().unwrap();
        fs::write(at("real/data"), "x").unwrap();
        assert_eq!(bundle.pack().unwrap(), packed);
        assert!(bundle.file(&at("loop"), &at("loop")).is_err());
        // Two links that lead in circles: 2^40 paths.
        for name in ["real/one", "real/two"] {
            std::os::unix::fs::symlink("../real", at(name)).unwrap();
        }
        let mut circular = FileBundle::default();
        assert!(circular.file(&at("real"), Path::new("/elsewhere")).unwrap());
        assert_eq!((circular.places.len(), circular.bytes()), (2, 1));
        assert!(bundle.file(Path::new("/dev/null"), Path::new("/dev/null")).is_err());
    }
}

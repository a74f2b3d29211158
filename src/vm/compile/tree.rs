//! A kernel tree: its version, and the digest of all that a build of it reads.

use super::stamps::FileStamps;
use crate::util::{cancel, regular, sha256, size};
use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// No tree's Makefile is longer, bytes.
const LONGEST_MAKEFILE: u64 = 1 << 20;

/// Most files of a tree, with those that its links lead to; a kernel has 90,000.
const MOST_FILES: usize = 1_000_000;

/// Most bytes of all these files.
const MOST_BYTES: u64 = 16 << 30;

/// What git keeps in a tree. A build does not read it.
const GIT: &str = ".git";

/// The version that the tree's Makefile states, such as `6.12.117`.
pub(super) fn version_of(tree: &Path) -> Result<String> {
    let path = tree.join("Makefile");
    let text = regular::read(&path, LONGEST_MAKEFILE).with_context(|| format!("cannot read {}", path.display()))?;
    version_in(&String::from_utf8_lossy(&text))
        .with_context(|| format!("{}: not the Makefile of a kernel tree", path.display()))
}

pub(super) fn version_in(makefile: &str) -> Option<String> {
    let value = |name: &str| {
        let line =
            makefile.lines().take(10).find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='))?;
        Some(line.trim().to_owned())
    };
    let (version, level, sublevel) = (value("VERSION")?, value("PATCHLEVEL")?, value("SUBLEVEL")?);
    Some(format!("{version}.{level}.{sublevel}{}", value("EXTRAVERSION").unwrap_or_default()))
}

pub(super) fn ensure_tree(tree: &Path) -> Result<()> {
    version_of(tree)?;
    // The kernel's own check (`make outputmakefile`).
    let built = ["include/config", "arch/x86/include/generated", "arch/arm64/include/generated", ".config"]
        .iter()
        .any(|path| tree.join(path).exists());
    ensure!(
        !built,
        "{0} has been configured or built in place: run `make -C {0} mrproper`, or build a commit of it ({0}@HEAD)",
        tree.display()
    );
    Ok(())
}

/// Refuse an unpacked source with what its digest does not have, such as a link to something outside of it.
pub(super) fn ensure_closed(tree: &Path) -> Result<()> {
    let root = tree.canonicalize().with_context(|| format!("cannot read {}", tree.display()))?;
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in sorted_entries(&folder)? {
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path)?;
                let leads_out = target.is_absolute() || path.canonicalize().is_ok_and(|real| !real.starts_with(&root));
                ensure!(
                    !leads_out,
                    "its link {} leads to {}, which is outside of it: give an unpacked tree instead",
                    path.strip_prefix(&root).unwrap_or(&path).display(),
                    target.display()
                );
            }
        }
    }
    Ok(())
}

/// The digest of all files of a tree: their names, contents, and whether they can be executed. What a link leads to
/// counts, wherever it is. `.git` does not count. With the stamps of all these.
pub(super) fn digest(tree: &Path) -> Result<(String, FileStamps)> {
    let root = tree.canonicalize().with_context(|| format!("cannot read {}", tree.display()))?;
    let mut digest = TreeDigest {
        hash: Sha256::new(),
        stamps: FileStamps::default(),
        folders: vec![(PathBuf::new(), root.clone())],
        root,
        outside: HashMap::new(),
        files: 0,
        room: MOST_BYTES,
    };
    while let Some((name, folder)) = digest.folders.pop() {
        digest.folder(&name, &folder).with_context(|| format!("cannot take the digest of {}", tree.display()))?;
    }
    Ok((sha256::of_parts(["tree", &sha256::of_bytes(&digest.hash.finalize())]), digest.stamps))
}

/// Paths are those that a build uses, from the tree on, and those without links.
struct TreeDigest {
    root: PathBuf,
    hash: Sha256,
    stamps: FileStamps,
    /// Not yet read.
    folders: Vec<(PathBuf, PathBuf)>,
    /// Folders outside of the tree that links lead to, with the path under which they were found first: links may lead in
    /// circles.
    outside: HashMap<PathBuf, PathBuf>,
    files: usize,
    room: u64,
}

impl TreeDigest {
    fn folder(&mut self, name: &Path, folder: &Path) -> Result<()> {
        let is_own = self.own(folder).is_some();
        for entry in sorted_entries(folder)? {
            cancel::check()?;
            self.files += 1;
            ensure!(self.files <= MOST_FILES, "{}: more than {MOST_FILES} files and links", name.display());
            let (name, path, kind) = (name.join(entry.file_name()), entry.path(), entry.file_type()?);
            if !kind.is_symlink() && is_own {
                self.content(name, path)?;
            } else if !kind.is_symlink() {
                self.reached(name, path)?;
            } else {
                self.add(&name, "link", fs::read_link(&path)?.as_os_str(), None);
                // Of a link that leads nowhere, a build sees the link.
                if let Ok(real) = path.canonicalize() {
                    self.reached(name, real)?;
                }
            }
        }
        Ok(())
    }

    /// The path in the tree of what is read there anyway.
    fn own<'a>(&self, real: &'a Path) -> Option<&'a Path> {
        real.strip_prefix(&self.root).ok().filter(|path| path.iter().all(|part| part != GIT))
    }

    /// What a link leads to, or what is in a folder that a link leads to.
    fn reached(&mut self, name: PathBuf, real: PathBuf) -> Result<()> {
        if let Some(own) = self.own(&real) {
            self.add(&name, "of the tree", own.as_os_str(), None);
            return Ok(());
        }
        self.content(name, real)
    }

    fn content(&mut self, name: PathBuf, real: PathBuf) -> Result<()> {
        let found = fs::symlink_metadata(&real).with_context(|| real.display().to_string())?;
        if found.is_dir() {
            if self.own(&real).is_none() {
                if let Some(first) = self.outside.get(&real) {
                    let first = first.clone();
                    self.add(&name, "again", first.as_os_str(), None);
                    return Ok(());
                }
                self.outside.insert(real.clone(), name.clone());
            }
            self.folders.push((name, real));
            return Ok(());
        }
        if !found.is_file() {
            // It is not opened: a device as such, whatever it gives.
            let kind = format!("{:o} {}", found.mode() & libc::S_IFMT, found.rdev());
            self.add(&name, "special", OsStr::new(&kind), None);
            return Ok(());
        }
        let too_much = || {
            format!("{}: all files and what links lead to are longer than {}", name.display(), size::format(MOST_BYTES))
        };
        ensure!(found.len() <= self.room, "{}", too_much());
        let mut file = regular::open(&real).with_context(|| format!("cannot read {}", real.display()))?;
        let digest =
            sha256::of_reader(&mut file, self.room).with_context(|| format!("cannot read {}", real.display()))?;
        self.room = self.room.saturating_sub(found.len());
        let kind = if found.mode() & 0o111 == 0 { "file" } else { "program" };
        self.add(&name, kind, OsStr::new(&digest), Some(found.modified()?));
        Ok(())
    }

    fn add(&mut self, name: &Path, kind: &str, content: &OsStr, modified: Option<SystemTime>) {
        let parts = [name.as_os_str().as_bytes(), kind.as_bytes(), content.as_bytes()];
        sha256::add_parts(&mut self.hash, parts);
        self.stamps.add(parts, modified);
    }
}

/// What is in a folder, by name, without that of git.
fn sorted_entries(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    cancel::check()?;
    let read = fs::read_dir(folder).and_then(Iterator::collect);
    let mut entries: Vec<fs::DirEntry> = read.with_context(|| format!("cannot read {}", folder.display()))?;
    entries.retain(|entry| entry.file_name() != GIT);
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_version_is_read_from_a_makefile() {
        let text = "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION = -rc1\nNAME = x\n";
        assert_eq!(version_in(text).as_deref(), Some("6.12.117-rc1"));
        assert_eq!(version_in("all:\n\ttrue\n"), None);
    }

    #[test]
    fn a_makefile_is_a_file_of_bounded_length() {
        let folder = tempfile::tempdir().unwrap();
        let makefile = folder.path().join("Makefile");
        let why = || format!("{:#}", version_of(folder.path()).unwrap_err());
        symlink("/dev/zero", &makefile).unwrap();
        assert!(why().ends_with("this is a device; give a regular file"), "{}", why());
        fs::remove_file(&makefile).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &makefile, rustix::fs::Mode::RUSR).unwrap();
        assert!(why().ends_with("this is a FIFO; give a regular file"), "{}", why());
        fs::remove_file(&makefile).unwrap();
        fs::File::create(&makefile).unwrap().set_len(1 << 40).unwrap();
        assert!(why().ends_with("it is longer than 1M"), "{}", why());
    }

    /// A tree in a folder that has more.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(place.at("tree/fs")).unwrap();
            place.write("tree/fs/pipe.c", "a");
            place
        }

        fn at(&self, name: impl AsRef<Path>) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
            fs::write(self.at(name), text).unwrap();
        }

        fn link(&self, name: &str, target: impl AsRef<Path>) {
            symlink(target, self.at(name)).unwrap();
        }

        fn digest(&self) -> String {
            digest(&self.at("tree")).unwrap().0
        }

        /// Whether `change` changes the digest.
        fn differs(&self, change: impl FnOnce()) -> bool {
            let before = self.digest();
            change();
            self.digest() != before
        }
    }

    #[test]
    fn a_tree_is_named_by_its_content() {
        let place = Place::new();
        place.write("tree/fs/.git/HEAD", "x");
        assert!(!place.differs(|| place.write("tree/fs/.git/HEAD", "y")));
        assert!(place.differs(|| place.write("tree/fs/pipe.c", "b")));
        // The same in another folder.
        let other = Place::new();
        other.write("tree/fs/pipe.c", "b");
        assert_eq!(other.digest(), place.digest());
        let mode = |mode| fs::set_permissions(place.at("tree/fs/pipe.c"), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(!place.differs(|| mode(0o600)));
        assert!(place.differs(|| mode(0o744)));
    }

    #[test]
    fn names_count_by_their_bytes() {
        let place = Place::new();
        let [one, other] = [b"x\xff", b"x\xfe"].map(|name| place.at("tree").join(OsStr::from_bytes(name)));
        fs::write(&one, "").unwrap();
        assert!(place.differs(|| fs::rename(&one, &other).unwrap()));
        // Likewise what links lead to.
        let link = place.at("tree/link");
        symlink(OsStr::from_bytes(b"\xff"), &link).unwrap();
        assert!(place.differs(|| {
            fs::remove_file(&link).unwrap();
            symlink(OsStr::from_bytes(b"\xfe"), &link).unwrap();
        }));
    }

    #[test]
    fn what_a_link_leads_to_counts() {
        let place = Place::new();
        place.write("elsewhere/splice.c", "a");
        place.write("elsewhere/deep/read.c", "a");
        place.write("deep/er/write.c", "a");
        place.link("tree/fs/splice.c", "../../elsewhere/splice.c");
        place.link("tree/mm", place.at("elsewhere/deep"));
        place.link("elsewhere/deep/more", "../../deep");
        for file in ["elsewhere/splice.c", "elsewhere/deep/read.c", "deep/er/write.c"] {
            assert!(place.differs(|| place.write(file, "b")), "{file}");
            assert!(!place.differs(|| place.write(file, "b")), "{file}");
        }
        assert!(place.differs(|| place.write("deep/er/new.h", "")));
        // A link between links, to what the tree has.
        place.write("tree/lib/a", "");
        place.write("tree/lib/b", "");
        place.link("tree/x", "../elsewhere/next");
        place.link("elsewhere/next", place.at("tree/lib/a"));
        assert!(place.differs(|| {
            fs::remove_file(place.at("elsewhere/next")).unwrap();
            place.link("elsewhere/next", place.at("tree/lib/b"));
        }));
        // Nothing, and then something.
        place.link("tree/nothing", "../elsewhere/nothing");
        assert!(place.differs(|| place.write("elsewhere/nothing", "")));
        // A tree of git is no part of a source, but what a link to it finds is.
        place.write("tree/.git/HEAD", "a");
        place.link("tree/head", ".git/HEAD");
        assert!(place.differs(|| place.write("tree/.git/HEAD", "b")));
    }

    #[test]
    fn links_may_lead_in_circles_and_to_what_cannot_be_read() {
        let place = Place::new();
        place.write("elsewhere/a/file", "a");
        for (name, target) in [
            ("tree/self", "self"),
            ("tree/here", "."),
            ("tree/up", ".."),
            ("tree/fs/out", "../../elsewhere"),
            ("tree/fs/part", "../../elsewhere/a"),
            ("elsewhere/back", "../tree"),
            ("elsewhere/a/round", "../../elsewhere"),
            ("tree/null", "/dev/null"),
            ("tree/zero", "/dev/zero"),
        ] {
            place.link(name, target);
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, place.at("tree/fifo"), rustix::fs::Mode::RUSR).unwrap();
        place.link("tree/to-fifo", "fifo");
        assert!(place.differs(|| place.write("elsewhere/a/file", "b")));
        assert!(place.differs(|| place.write("beside", "b")));
        assert!(place.differs(|| {
            fs::remove_file(place.at("tree/null")).unwrap();
            place.link("tree/null", "/dev/full");
        }));
        fs::File::create(place.at("elsewhere/a/sparse")).unwrap().set_len(1 << 42).unwrap();
        let why = format!("{:#}", digest(&place.at("tree")).unwrap_err());
        assert!(why.contains("/sparse: all files and what links lead to are longer than 16G"), "{why}");
    }

    #[test]
    fn an_unpacked_source_has_no_links_out_of_it() {
        let place = Place::new();
        place.write("elsewhere/file", "");
        let why = || ensure_closed(&place.at("tree")).map_err(|error| error.to_string());
        // As in kernels.
        place.link("tree/fs/include", "../fs");
        place.link("tree/nothing", "../../../../../nothing");
        place.link("tree/self", "self");
        assert_eq!(why(), Ok(()));
        for target in ["../elsewhere", "/nothing", "fs/include/../../elsewhere/file"] {
            place.link("tree/out", target);
            assert!(
                why().is_err_and(|why| why.starts_with(&format!("its link out leads to {target}, which"))),
                "{target}"
            );
            fs::remove_file(place.at("tree/out")).unwrap();
        }
    }

    #[test]
    fn a_tree_that_was_built_in_place_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let why = || format!("{:#}", ensure_tree(folder.path()).unwrap_err());
        assert!(why().contains("cannot read"), "{}", why());
        fs::write(folder.path().join("Makefile"), "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 2\n").unwrap();
        ensure_tree(folder.path()).unwrap();
        fs::write(folder.path().join(".config"), "").unwrap();
        assert!(why().contains("mrproper"), "{}", why());
    }
}

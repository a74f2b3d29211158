//! A disk for a guest: files of this machine in an ext4 image, which the programs of e2fsprogs make without root. The
//! guest's kernel mounts it, and `guest::disk` puts each file in its place.

use super::bundle::{GuestEntry, MOST_PLACES};
use super::guest;
use super::scratch::{self, Scratch};
use crate::util::find_program::find_program;
use crate::util::own_child::{OwnChild, die_with_parent};
use crate::util::{cancel, progress, regular, size};
use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The programs, both of the package e2fsprogs.
const MAKER: &str = "mke2fs";
const FILLER: &str = "debugfs";

/// Where they are, if PATH does not have them: that of an ordinary user on Debian does not name these folders.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Features that kernels since 4.4 can mount, whatever the version of mke2fs prefers. Without a journal, nothing has to
/// be replayed; without checksums, no block is left for the kernel to initialise.
const FEATURES: &str =
    "none,extents,sparse_super,filetype,large_file,huge_file,dir_index,dir_nlink,extra_isize,flex_bg";

/// The image's id and the seed of its folders' hashes, so that equal files give equal images.
const ID: &str = "6f1d4a5e-0000-4000-8000-000000000001";

const BLOCK: u64 = 4096;

/// For the superblock, bitmaps, and the inodes that every file system has.
const SLACK: u64 = 32 << 20;

/// For each entry: its inode, its name in a folder, a folder's block, and the blocks that list a file's extents.
const PER_ENTRY: u64 = 2 * BLOCK;

/// Folders in each other, at most.
const DEEPEST: usize = 64;

/// How often a running program is looked at.
const PACE: Duration = Duration::from_millis(20);

/// The longest output of these programs, bytes.
const LONGEST_ERRORS: u64 = 16 << 20;

/// A file or folder of the disk, and its place in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskPlace {
    /// Its path on the disk, relative to the disk's root.
    pub on_disk: PathBuf,
    /// Its absolute path in the guest.
    pub at: PathBuf,
    pub folder: bool,
}

/// What a disk is to hold.
#[derive(Debug, Clone, Default)]
pub struct DiskContent {
    /// By path on the disk. A folder comes before what is in it.
    entries: BTreeMap<PathBuf, GuestEntry>,
    places: Vec<DiskPlace>,
    bytes: u64,
    blocks: u64,
}

impl DiskContent {
    /// The files of this machine.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.entries.values().filter_map(GuestEntry::file)
    }

    /// Add the file, or the folder with all that it contains, at `from`, so that the guest has it as `at`: an absolute
    /// path without links. Add a folder before what is to be in it.
    pub fn add(&mut self, from: &Path, at: &Path) -> Result<()> {
        let on_disk = match self.inside(at) {
            Some(path) => {
                for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
                    self.entries.entry(folder.to_owned()).or_insert(GuestEntry::Folder);
                }
                path
            }
            None => {
                let on_disk = PathBuf::from(self.places.len().to_string());
                self.places.push(DiskPlace { on_disk: on_disk.clone(), at: at.to_owned(), folder: from.is_dir() });
                on_disk
            }
        };
        let root = fs::canonicalize(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.insert(&mut Vec::new(), from, &on_disk, &root)
    }

    /// Add what is in folders that are at `above`, without links: what leads back to one of them is left out.
    fn insert(&mut self, above: &mut Vec<PathBuf>, from: &Path, to: &Path, root: &Path) -> Result<()> {
        cancel::check()?;
        let depth = above.len();
        ensure!(self.entries.len() <= MOST_PLACES, "{}: more than {MOST_PLACES} files", from.display());
        let unreadable = || format!("cannot read {}", from.display());
        ensure!(depth < DEEPEST, "{}: too many folders in each other", from.display());
        ensure!(
            ![from, to].iter().any(|path| path.as_os_str().as_bytes().contains(&b'\n')),
            "{}: its name has a line break, which a disk for a guest cannot have",
            from.display()
        );
        if let Ok(target) = fs::read_link(from)
            && stays_inside(&target, depth)
            && fs::canonicalize(from).is_ok_and(|whole| whole.starts_with(root))
        {
            // It leads to the same file on the disk. Others are followed.
            self.entries.insert(to.to_owned(), GuestEntry::Link(target));
            return Ok(());
        }
        let kind = fs::metadata(from).with_context(unreadable)?;
        if kind.is_file() {
            // The programs would report it as late as when the image is made.
            regular::open(from).with_context(unreadable)?;
            if self.entries.insert(to.to_owned(), GuestEntry::File(from.to_owned())).is_none() {
                self.bytes += kind.len();
                self.blocks += kind.len().div_ceil(BLOCK);
            }
            return Ok(());
        }
        ensure!(kind.is_dir(), "{} is neither a file nor a folder", from.display());
        let real = fs::canonicalize(from).with_context(unreadable)?;
        if above.contains(&real) {
            return Ok(());
        }
        above.push(real);
        self.entries.insert(to.to_owned(), GuestEntry::Folder);
        for entry in fs::read_dir(from).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            // Sockets and the like are left out, as in memory.
            if fs::metadata(entry.path()).is_ok_and(|kind| kind.is_dir() || kind.is_file()) {
                self.insert(above, &entry.path(), &to.join(entry.file_name()), root)?;
            }
        }
        above.pop();
        Ok(())
    }

    /// The path on the disk of what the guest has as `at`, if it is one of the places or would be in one.
    fn inside(&self, at: &Path) -> Option<PathBuf> {
        let in_place = |place: &DiskPlace| match at.strip_prefix(&place.at).ok()? {
            rest if rest.as_os_str().is_empty() => Some(place.on_disk.clone()),
            rest => place.folder.then(|| place.on_disk.join(rest)),
        };
        self.places.iter().find_map(in_place)
    }

    /// Whether what is in the guest's memory as `at` would be hidden by a file or folder of the disk.
    pub fn covers(&self, at: &Path) -> bool {
        self.inside(at).is_some()
    }

    /// Whether the guest has `at` from the disk.
    pub fn contains(&self, at: &Path) -> bool {
        self.inside(at).is_some_and(|path| self.entries.contains_key(&path))
    }

    /// The size of all files, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the guest is to put in place, in this order.
    pub fn places(&self) -> &[DiskPlace] {
        &self.places
    }

    /// Enough for the image, bytes.
    fn room(&self) -> u64 {
        let blocks = self.blocks * BLOCK;
        (blocks + blocks / 64 + self.entries.len() as u64 * PER_ENTRY + SLACK).next_multiple_of(1 << 20)
    }

    /// The commands that fill the image.
    fn commands(&self) -> Vec<u8> {
        let mut commands = Vec::new();
        let mut line = |words: &[&[u8]]| {
            for (index, word) in words.iter().enumerate() {
                commands.extend(if index == 0 { &b""[..] } else { b" " });
                commands.extend(*word);
            }
            commands.push(b'\n');
        };
        let mut here = PathBuf::from("/");
        for (path, entry) in &self.entries {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let parent = Path::new("/").join(parent);
            if parent != here {
                line(&[b"cd", &quoted(&parent)]);
                here = parent;
            }
            let name = quoted(Path::new(name));
            match entry {
                GuestEntry::Folder => line(&[b"mkdir", &name]),
                GuestEntry::Link(target) => line(&[b"symlink", &name, &quoted(target)]),
                GuestEntry::File(from) => line(&[b"write", &quoted(from), &name]),
            }
        }
        commands
    }

    pub fn make(&self) -> Result<DiskImage> {
        let [maker, filler] = [tool(MAKER)?, tool(FILLER)?];
        // A killed run may have left such an image.
        guest::clean_up_once();
        progress::step(&format!("writing {} to a disk for the guest", size::rough(self.bytes)));
        let scratch = Scratch::new()?;
        let image = DiskImage { path: scratch.path("disk"), scratch };
        let file = File::create(&image.path).with_context(|| scratch::no_room(&image.path))?;
        file.set_len(self.room()).with_context(|| scratch::no_room(&image.path))?;
        let inodes = self.entries.len() + 64;
        let options = format!("root_owner=0:0,hash_seed={ID}");
        let (block, inodes) = (BLOCK.to_string(), inodes.to_string());
        let make = ["-q", "-F", "-t", "ext4", "-b", &block, "-I", "256", "-m", "0", "-N", &inodes, "-O", FEATURES];
        let make = make.into_iter().chain(["-U", ID, "-E", &options]).map(OsString::from);
        image.run(&maker, make.chain([image.path.clone().into()]).collect())?;
        let commands = image.scratch.path("commands");
        fs::write(&commands, self.commands()).with_context(|| scratch::no_room(&commands))?;
        image.run(&filler, vec!["-w".into(), "-f".into(), commands.into(), image.path.clone().into()])?;
        Ok(image)
    }
}

/// Whether the target of a link does not leave the folder that begins `depth` levels above the link.
fn stays_inside(target: &Path, depth: usize) -> bool {
    let Some(mut level) = depth.checked_sub(1) else { return false };
    target.components().all(|part| match part {
        Component::Normal(_) => {
            level += 1;
            true
        }
        Component::ParentDir => match level.checked_sub(1) {
            Some(up) => {
                level = up;
                true
            }
            None => false,
        },
        Component::CurDir => true,
        Component::RootDir | Component::Prefix(_) => false,
    })
}

/// A word for debugfs, which takes two quotation marks within a quoted word for one.
fn quoted(path: &Path) -> Vec<u8> {
    let mut word = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        word.extend(if *byte == b'"' { &b"\"\""[..] } else { std::slice::from_ref(byte) });
    }
    word.push(b'"');
    word
}

/// The path of a program of e2fsprogs.
fn tool(name: &str) -> Result<PathBuf> {
    let elsewhere = || FOLDERS.iter().find_map(|folder| find_program(&format!("{folder}/{name}")));
    find_program(name).or_else(elsewhere).with_context(|| {
        format!(
            "cannot make a disk for the guest: there is no program {name}; install e2fsprogs (Debian: apt install \
             e2fsprogs), or give the guest more --memory, so that the files fit into it"
        )
    })
}

/// An image in a temporary folder. It is removed on drop; that of a killed run is removed by the next one.
#[derive(Debug)]
pub struct DiskImage {
    path: PathBuf,
    scratch: Scratch,
}

impl DiskImage {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Run a program of e2fsprogs.
    fn run(&self, program: &Path, arguments: Vec<OsString>) -> Result<()> {
        let errors = self.scratch.path("errors");
        let output = File::create(&errors).with_context(|| scratch::no_room(&errors))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).process_group(0);
        // The same date in each image.
        command.env("E2FSPROGS_FAKE_TIME", "1767225600").env("LC_ALL", "C");
        die_with_parent(&mut command);
        progress::detail(|| format!("starting {command:?}"));
        let mut child = OwnChild::spawn(&mut command).with_context(|| format!("cannot start {}", program.display()))?;
        let status = loop {
            match child.try_wait().with_context(|| program.display().to_string())? {
                Some(status) => break status,
                None => std::thread::sleep(PACE),
            }
            cancel::check()?;
        };
        let text =
            regular::read(&errors, LONGEST_ERRORS).with_context(|| format!("cannot read {}", errors.display()))?;
        match (status.success(), problem(&String::from_utf8_lossy(&text))) {
            (true, None) => Ok(()),
            // Only debugfs exits with 0 in any case. mke2fs may warn of its settings.
            (true, Some(_)) if program.ends_with(MAKER) => Ok(()),
            (_, said) => bail!(
                "cannot make a disk for the guest: {}: {} (free space is needed in {}; TMPDIR names another folder)",
                program.display(),
                said.unwrap_or_else(|| status.to_string()),
                std::env::temp_dir().display()
            ),
        }
    }
}

/// What a program of e2fsprogs says went wrong. debugfs always prints its version.
fn problem(errors: &str) -> Option<String> {
    let version = |line: &str| line.starts_with("debugfs ") && line.ends_with(')');
    errors.lines().map(str::trim).find(|line| !line.is_empty() && !version(line)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(image: &DiskImage, command: &str) -> String {
        let mut filler = Command::new(tool(FILLER).unwrap());
        let output = filler.args(["-R", command]).arg(image.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    #[ignore = "needs e2fsprogs: make test"]
    fn an_image_holds_files_folders_and_links_with_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("data/sub folder")).unwrap();
        let odd = "a \"quoted\" #name";
        fs::write(at("data").join(odd), "content").unwrap();
        let large = File::create(at("data/sub folder/large")).unwrap();
        large.set_len(100 << 20).unwrap();
        fs::write(at("outside"), "outside").unwrap();
        std::os::unix::fs::symlink("sub folder/large", at("data/inner")).unwrap();
        std::os::unix::fs::symlink("../outside", at("data/outer")).unwrap();
        let mut content = DiskContent::default();
        content.add(&at("data"), Path::new("/somewhere")).unwrap();
        content.add(&at("outside"), Path::new("/somewhere/new/place")).unwrap();
        content.add(&at("outside"), Path::new("/file")).unwrap();
        assert_eq!(content.places().len(), 2, "{content:?}");
        assert!(content.contains(Path::new("/somewhere/sub folder/large")));
        assert!(content.covers(Path::new("/somewhere/x")) && !content.contains(Path::new("/somewhere/x")));
        assert!(!content.covers(Path::new("/file/x")) && !content.covers(Path::new("/elsewhere")));
        let image = content.make().unwrap();
        let found = listing(&image, "ls -l /0");
        assert!(found.contains(odd) && found.contains("120777"), "{found}");
        assert_eq!(listing(&image, &format!("cat \"/0/{}\"", odd.replace('"', "\"\""))), "content");
        assert_eq!(listing(&image, "cat /0/outer"), "outside");
        assert_eq!(listing(&image, "cat /0/new/place"), "outside");
        assert_eq!(listing(&image, "cat /1"), "outside");
        assert!(listing(&image, "stat \"/0/sub folder/large\"").contains("Size: 104857600"));
        // The hole of a file is one of the image.
        let written = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(image.path()).unwrap()) * 512;
        assert!(written < 8 << 20, "{written} bytes");
        let (path, again) = (image.path().to_owned(), content.make().unwrap());
        assert!(fs::read(&path).unwrap() == fs::read(again.path()).unwrap(), "equal files give equal images");
        drop(image);
        assert!(!path.exists());
    }

    #[test]
    fn what_e2fsprogs_cannot_do_is_an_error_that_says_so() {
        let missing = tool("no-such-mke2fs").unwrap_err().to_string();
        assert!(missing.contains("no program no-such-mke2fs; install e2fsprogs"), "{missing}");
        let scratch = Scratch::new().unwrap();
        let image = DiskImage { path: scratch.path("disk"), scratch };
        let fails = |script: &str| {
            let error = image.run(Path::new("/bin/sh"), vec!["-c".into(), script.into()]).unwrap_err();
            error.to_string()
        };
        assert!(fails("exit 3").contains("/bin/sh: exit status: 3"), "{}", fails("exit 3"));
        let said = fails("echo 'debugfs 1.47.0 (5-Feb-2023)' >&2; echo 'write: no room' >&2");
        assert!(said.contains("/bin/sh: write: no room"), "{said}");
        assert!(image.run(Path::new("/bin/sh"), vec!["-c".into(), "echo 'debugfs 1 (x)' >&2".into()]).is_ok());
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("line\nbreak");
        fs::write(&broken, "").unwrap();
        let mut content = DiskContent::default();
        // Its commands are lines.
        assert!(content.add(&broken, Path::new("/x")).unwrap_err().to_string().contains("a line break"));
        assert!(content.add(folder.path(), Path::new("/y")).unwrap_err().to_string().contains("a line break"));
    }

    #[test]
    fn links_stay_inside_by_their_names() {
        for (target, depth, inside) in [
            ("x", 1, true),
            ("../x", 1, false),
            ("../x", 2, true),
            ("a/../../x", 1, false),
            ("/x", 5, false),
            ("x", 0, false),
        ] {
            assert_eq!(stays_inside(Path::new(target), depth), inside, "{target} {depth}");
        }
    }
}

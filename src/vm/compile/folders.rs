//! The folders of builds in the cache: unpacked sources, objects, other Debians, compiled objects of ccache.

use super::stamps::FileStamps;
use crate::util::regular;
use crate::vm::store::{CacheLock, KernelCache, keep_newest, lock_when_free, no_room, used_now};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// So many unpacked sources stay, 1.7 GB each: those of the two kernels that are compared.
const KEPT_SOURCES: usize = 2;

/// So many logs stay, of at most 64 MiB each.
const KEPT_LOGS: usize = 16;

/// No key is longer, bytes.
const LONGEST_KEY: u64 = 1 << 10;

/// No stamps of files are longer, bytes: a million files have 60 MB.
const LONGEST_STAMPS: u64 = 128 << 20;

/// The folder `build` of the cache, which one process at a time writes.
#[derive(Debug)]
pub(crate) struct BuildFolders {
    root: PathBuf,
    _lock: Option<CacheLock>,
}

impl BuildFolders {
    /// Wait until no other process builds, and say so.
    pub(crate) fn open(cache: &KernelCache, say: &dyn Fn(&str)) -> Result<Self> {
        let root = cache.root().join("build");
        for name in ["sources", "debian", "ccache", "logs"] {
            let folder = root.join(name);
            fs::create_dir_all(&folder).with_context(|| no_room(&folder))?;
        }
        let lock = lock_when_free(&root.join("lock"), || say("waiting until another pipeprof has built its kernel"))?;
        keep_newest(&root.join("logs"), KEPT_LOGS)?;
        Ok(Self { root, _lock: Some(lock) })
    }

    /// The same for reading, while others may build.
    pub(crate) fn read(cache: &KernelCache) -> Self {
        Self { root: cache.root().join("build"), _lock: None }
    }

    /// A folder for the objects of one build of a tree with these `files`, if it is one that others edit. It is empty, unless
    /// the build before had the same `key`, was not killed, and make sees what has changed since.
    pub(super) fn output(&self, key: &str, files: Option<&FileStamps>) -> Result<PathBuf> {
        let (folder, stamps) = (self.root.join("output"), self.root.join("output.files"));
        let before = regular::read_text(&self.output_key(), LONGEST_KEY).ok();
        let ended = fs::metadata(self.output_key()).and_then(|found| found.modified()).ok();
        // Until the build has ended, nobody may go on with its objects.
        let _ = fs::remove_file(self.output_key());
        let is_seen = |files: &FileStamps| {
            let then = regular::read_text(&stamps, LONGEST_STAMPS).ok()?;
            Some(files.are_seen_by_make(&FileStamps::parse(&then)?, ended?))
        };
        let goes_on = before.as_deref() == Some(key) && files.is_none_or(|files| is_seen(files) == Some(true));
        if !goes_on && folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| no_room(&folder))?;
        let text = files.map(FileStamps::to_text).unwrap_or_default();
        fs::write(&stamps, text).with_context(|| no_room(&stamps))?;
        Ok(folder)
    }

    /// Keep the objects of the build that has ended, well or not, for the next one with this key.
    pub(crate) fn keep_output(&self, key: &str) -> Result<()> {
        fs::write(self.output_key(), key).with_context(|| no_room(&self.root))
    }

    fn output_key(&self) -> PathBuf {
        self.root.join("output.key")
    }

    /// The folder in which configurations of the source and compiler `digest` are made; those of others are gone.
    pub(crate) fn configurations(&self, digest: &str) -> Result<PathBuf> {
        let parent = self.root.join("configure");
        let folder = parent.join(digest.get(..16).unwrap_or(digest));
        // The programs of make that was killed may be half written.
        if !folder.is_dir() || Self::busy(&folder).exists() {
            if parent.exists() {
                fs::remove_dir_all(&parent).with_context(|| format!("cannot remove {}", parent.display()))?;
            }
            fs::create_dir_all(&folder).with_context(|| no_room(&folder))?;
        }
        fs::write(Self::busy(&folder), "").with_context(|| no_room(&folder))?;
        Ok(folder)
    }

    /// make has ended in such a folder.
    pub(crate) fn configured(&self, folder: &Path) {
        let _ = fs::remove_file(Self::busy(folder));
    }

    /// There while make runs in `folder`.
    fn busy(folder: &Path) -> PathBuf {
        folder.join(".busy")
    }

    /// The file for what make says.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }

    /// The folder of ccache.
    pub(crate) fn ccache(&self) -> PathBuf {
        self.root.join("ccache")
    }

    /// The folder of the Debian `name`, which `make` makes if it is missing.
    pub(crate) fn debian(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        self.complete(&self.root.join("debian"), name, make)
    }

    /// Whether there is a folder of the Debian `name`.
    pub(crate) fn has_debian(&self, name: &str) -> bool {
        self.root.join("debian").join(name).is_dir()
    }

    /// The folder of the source with this digest, which `unpack` fills if it is missing.
    pub(crate) fn source(&self, digest: &str, unpack: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let parent = self.root.join("sources");
        let name = digest.get(..16).unwrap_or(digest);
        let is_new = !parent.join(name).exists();
        if is_new {
            keep_newest(&parent, KEPT_SOURCES - 1)?;
        }
        let folder = self.complete(&parent, name, unpack)?;
        used_now(&folder);
        Ok(folder)
    }

    /// `parent/name`, which exists only when `fill` has filled it.
    fn complete(&self, parent: &Path, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let folder = parent.join(name);
        if folder.is_dir() {
            return Ok(folder);
        }
        let part = parent.join(format!("{name}.part"));
        if part.exists() {
            remove(&part)?;
        }
        fs::create_dir_all(&part).with_context(|| no_room(&part))?;
        if let Err(error) = fill(&part) {
            // The next attempt removes what is left.
            let _ = remove(&part);
            return Err(error);
        }
        fs::rename(&part, &folder).with_context(|| no_room(&folder))?;
        Ok(folder)
    }
}

/// Remove a folder, also that of a Debian: a user who is not root made it as several users of a namespace.
fn remove(folder: &Path) -> Result<()> {
    if fs::remove_dir_all(folder).is_ok() {
        return Ok(());
    }
    // It empties the folder, which then is this user's to remove.
    let _ = Command::new("mmdebstrap")
        .args(["--unshare-helper", "rm", "-rf", "--"])
        .arg(folder)
        .stdin(Stdio::null())
        .output();
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_second_build_says_that_it_waits() {
        let root = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(root.path());
        let first = BuildFolders::open(&cache, &|text| panic!("{text}")).unwrap();
        let (sender, said) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| BuildFolders::open(&cache, &|text| sender.send(text.to_owned()).unwrap()));
            assert!(said.recv_timeout(Duration::from_secs(60)).unwrap().starts_with("waiting until another pipeprof"));
            drop(first);
            second.join().unwrap().unwrap();
        });
    }
}

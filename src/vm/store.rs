//! The cache of kernels: one folder per release, holding `vmlinuz`, `config` where known, and `kernel.json`.

use crate::util::atomic_file;
use crate::vm::{Kernel, image, version};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Where a kernel in the cache came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `uname -r`; also the folder's name.
    pub release: String,
    /// The Debian version, or the release where it came from elsewhere.
    pub version: String,
    /// The package or the path.
    pub origin: String,
    #[serde(skip)]
    folder: PathBuf,
}

impl Entry {
    /// The kernel to boot.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        let config = self.folder.join("config");
        Kernel {
            image: self.folder.join("vmlinuz"),
            release: self.release.clone(),
            config: config.is_file().then_some(config),
        }
    }

    /// Whether this is a kernel for virtual machines, which a series means before any other.
    fn is_cloud(&self) -> bool {
        self.release.contains("-cloud-")
    }
}

/// The cache.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The user's cache: `$PIPEPROF_CACHE`, else `$XDG_CACHE_HOME/pipeprof`, else `~/.cache/pipeprof`.
    ///
    /// # Errors
    /// When none of them is set.
    pub fn open() -> Result<Self> {
        Ok(Self { root: cache_folder()? })
    }

    /// A cache in a folder of one's own.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The cache's own folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// All kernels, newest first.
    ///
    /// # Errors
    /// When the folder cannot be read; one that is not there is empty.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let folder = self.kernels();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read the cache {}", folder.display())),
        };
        let mut list: Vec<Entry> = entries.flatten().filter_map(|entry| read_entry(&entry.path())).collect();
        list.sort_by(|left, right| {
            version::compare(&right.version, &left.version).then_with(|| left.release.cmp(&right.release))
        });
        Ok(list)
    }

    /// The kernel of this release, else the newest of this series, cloud kernels first.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn find(&self, name: &str) -> Result<Option<Entry>> {
        let list = self.list()?;
        if let Some(exact) = list.iter().find(|entry| entry.release == name) {
            return Ok(Some(exact.clone()));
        }
        let matching = || {
            list.iter()
                .filter(|entry| version::in_series(&entry.version, name) || version::in_series(&entry.release, name))
        };
        Ok(matching().find(|entry| entry.is_cloud()).or_else(|| matching().next()).cloned())
    }

    /// Add the image at `path` (a bzImage or a `.deb`), which came from `origin`. One of the same release is replaced.
    ///
    /// # Errors
    /// When it is no kernel or the cache cannot be written.
    pub fn add(&self, path: &Path, origin: &str, version: Option<&str>, config: Option<&Path>) -> Result<Entry> {
        let _lock = self.lock()?;
        let aside = self.aside()?;
        let (image, packaged_config) = if path.extension().is_some_and(|ending| ending == "deb") {
            image::from_deb(path, aside.path())?
        } else {
            (path.to_owned(), None)
        };
        let release = image::release_of(&image)?;
        if !release.chars().all(|c| c.is_ascii_alphanumeric() || "+-_.~".contains(c)) || release.starts_with('.') {
            bail!("{}: release '{release}' is no name for a folder", path.display());
        }
        let config = config.map(Path::to_owned).or(packaged_config);
        let folder = aside.path().join("entry");
        fs::create_dir_all(&folder).with_context(|| no_room(&folder))?;
        fs::copy(&image, folder.join("vmlinuz")).with_context(|| no_room(&folder))?;
        if let Some(config) = config.filter(|config| config.is_file()) {
            fs::copy(config, folder.join("config")).with_context(|| no_room(&folder))?;
        }
        let entry = Entry {
            version: version.unwrap_or(&release).to_owned(),
            origin: origin.to_owned(),
            folder: self.kernels().join(&release),
            release,
        };
        atomic_file::write(&folder.join("kernel.json"), &serde_json::to_vec_pretty(&entry)?)?;
        if entry.folder.exists() {
            fs::rename(&entry.folder, aside.path().join("replaced")).with_context(|| no_room(&entry.folder))?;
        }
        fs::rename(&folder, &entry.folder).with_context(|| no_room(&entry.folder))?;
        Ok(entry)
    }

    /// Remove the kernel of this release, or all of this series.
    ///
    /// # Errors
    /// When there is none, naming those that there are.
    pub fn remove(&self, name: &str) -> Result<Vec<Entry>> {
        let _lock = self.lock()?;
        let list = self.list()?;
        let exact: Vec<Entry> = list.iter().filter(|entry| entry.release == name).cloned().collect();
        let gone = if exact.is_empty() {
            let series =
                |entry: &&Entry| version::in_series(&entry.version, name) || version::in_series(&entry.release, name);
            list.iter().filter(series).cloned().collect()
        } else {
            exact
        };
        if gone.is_empty() {
            let there: Vec<&str> = list.iter().map(|entry| entry.release.as_str()).collect();
            let there =
                if there.is_empty() { "it is empty".to_owned() } else { format!("it has {}", there.join(", ")) };
            bail!("no kernel {name} in the cache: {there}");
        }
        for entry in &gone {
            fs::remove_dir_all(&entry.folder)
                .with_context(|| format!("cannot remove {}: check who owns it", entry.folder.display()))?;
        }
        Ok(gone)
    }

    /// The kernel in the package at `path`, which is added to the cache.
    pub(crate) fn unpacked(&self, path: &Path) -> Result<Kernel> {
        Ok(self.add(path, &path.display().to_string(), None, None)?.kernel())
    }

    /// Hold the cache for writing; others wait.
    ///
    /// # Errors
    /// When the cache cannot be written.
    pub fn lock(&self) -> Result<Lock> {
        let folder = self.kernels();
        fs::create_dir_all(&folder).with_context(|| no_room(&folder))?;
        lock_file(&self.root.join("kernels.lock"))
    }

    /// A folder inside the cache that goes away with the value, for making an entry aside.
    fn aside(&self) -> Result<tempfile::TempDir> {
        let aside = self.root.join("aside");
        // The lock is held, so that whatever lies here was left by a run that was killed.
        if aside.exists() {
            fs::remove_dir_all(&aside).with_context(|| no_room(&aside))?;
        }
        fs::create_dir_all(&aside).with_context(|| no_room(&aside))?;
        tempfile::Builder::new().tempdir_in(&aside).with_context(|| no_room(&aside))
    }
}

/// Holds a cache's lock until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

pub(crate) fn lock_file(path: &Path) -> Result<Lock> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    rustix::fs::flock(file.as_fd(), rustix::fs::FlockOperation::LockExclusive)
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(Lock { _file: file })
}

fn no_room(path: &Path) -> String {
    format!("cannot write {}: make room, or set PIPEPROF_CACHE to another folder", path.display())
}

fn read_entry(folder: &Path) -> Option<Entry> {
    let bytes = fs::read(folder.join("kernel.json")).ok()?;
    let mut entry: Entry = serde_json::from_slice(&bytes).ok()?;
    if !folder.join("vmlinuz").is_file() {
        return None;
    }
    entry.folder = folder.to_owned();
    Some(entry)
}

/// See [`Store::open`].
fn cache_folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("PIPEPROF_CACHE") {
        return Ok(folder);
    }
    // The XDG base directory specification has relative paths ignored.
    if let Some(folder) = set("XDG_CACHE_HOME").filter(|folder| folder.is_absolute()) {
        return Ok(folder.join("pipeprof"));
    }
    match set("HOME") {
        Some(home) => Ok(home.join(".cache/pipeprof")),
        None => bail!("no place for kernels: set PIPEPROF_CACHE, or HOME, to a folder"),
    }
}

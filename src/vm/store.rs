//! The cache of kernels. Each release has a folder with `vmlinuz`, `config` if known, and `kernel.json`.

use crate::arch::Processor;
use crate::util::text::{hides, quoted};
use crate::util::{atomic_file, cancel, progress, regular, stored_json};
use crate::vm::image::{self, LARGEST_IMAGE};
use crate::vm::kernel_name::{check_name, check_release, check_version};
use crate::vm::{Kernel, version};
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, Timespec, Timestamps, UTIME_NOW, flock, utimensat};
use rustix::io::Errno;
use rustix::process::umask;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, SystemTime};

/// A kernel in the cache, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedKernel {
    /// `uname -r`; also the name of the folder.
    pub release: String,
    /// The Debian version, or the release if it is not a Debian package.
    pub version: String,
    /// The package or the path.
    pub origin: String,
    #[serde(default, skip_serializing_if = "Processor::is_default")]
    pub processor: Processor,
    /// How pipeprof built it; `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildRecord>,
    #[serde(skip)]
    folder: PathBuf,
}

/// How a kernel was built.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildRecord {
    /// What the user calls it.
    pub name: Option<String>,
    /// The tree, commit, tarball or package.
    pub source: String,
    /// The source, as `pipeprof kernel build` takes it.
    pub(crate) source_name: String,
    /// Of the source's content.
    pub(crate) source_digest: String,
    /// The file or kernel whose configuration it has.
    pub configuration: String,
    /// The configuration, as --config takes it; absent for --tiny.
    pub(crate) config_name: Option<String>,
    /// Of that configuration, with what was left out and set.
    pub(crate) configuration_digest: String,
    /// What was set in addition, as `OPTION=VALUE`.
    pub settings: Vec<String>,
    /// The compiler's version.
    pub compiler: String,
    /// The compiler, as --cc takes it.
    pub compiler_name: String,
    /// Of the source, the configuration and the compiler.
    pub digest: String,
    /// How long it took.
    pub seconds: u64,
    /// How many objects were compiled.
    pub objects: usize,
    /// Whether it came in a bundle: what it says is what others have written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_bundle: bool,
}

/// A kernel's name, and the processor at its end: `6.12:arm64`. Without one, this machine's.
pub fn of_processor(name: &str) -> (&str, Processor) {
    let with = name.rsplit_once(':').and_then(|(name, of)| Some((name, Processor::of_debian(of)?)));
    with.unwrap_or((name, Processor::HERE))
}

/// A folder of the cache whose kernel cannot be used.
struct DamagedKernel {
    folder: PathBuf,
    why: String,
}

impl CachedKernel {
    /// Read the description of the kernel of this release, which may be by others. No other function reads one.
    pub(super) fn parse(bytes: &[u8], release: &str) -> Result<Self> {
        let entry: Self = stored_json::parse(bytes)?;
        ensure!(entry.release == release, "it is about another release, {:?}", entry.release);
        entry.check()?;
        Ok(entry)
    }

    /// The same of a bundle. No kernel's description needs characters that hide something.
    pub(super) fn parse_bundled(bytes: &[u8], release: &str) -> Result<Self> {
        ensure!(!hides(&stored_json::parse(bytes)?), "it contains hidden characters");
        Self::parse(bytes, release)
    }

    /// Its text. Without an error, [`Self::parse`] reads it.
    pub(super) fn text(&self) -> Result<String> {
        self.check()?;
        stored_json::stored_text(self).context("cannot write kernel.json")
    }

    /// Check all that `--kernel` chooses by.
    fn check(&self) -> Result<()> {
        check_release(&self.release)?;
        // No series means a kernel that was built.
        let of = if self.build.is_some() { &self.version } else { &self.release };
        check_version(&self.version, of)?;
        self.name().map_or(Ok(()), check_name)
    }

    /// The kernel to boot.
    pub fn kernel(&self) -> Kernel {
        let config = self.folder.join("config");
        Kernel {
            image: self.folder.join("vmlinuz"),
            processor: self.processor,
            release: self.release.clone(),
            config: config.is_file().then_some(config),
        }
    }

    /// What the user called a kernel that was built.
    pub fn name(&self) -> Option<&str> {
        self.build.as_ref()?.name.as_deref()
    }

    /// Whether `6.12` means it. A kernel that was built is only meant by its release or name.
    fn is_of_series(&self, name: &str) -> bool {
        self.build.is_none() && (version::in_series(&self.version, name) || version::in_series(&self.release, name))
    }

    /// Whether this is a kernel for virtual machines. A series prefers these.
    pub fn is_cloud(&self) -> bool {
        self.release.contains("-cloud-")
    }
}

#[derive(Debug, Clone)]
pub struct KernelCache {
    root: PathBuf,
}

impl KernelCache {
    /// The user's cache: `$PIPEPROF_CACHE`, `$XDG_CACHE_HOME/pipeprof` or `~/.cache/pipeprof`.
    pub fn open() -> Result<Self> {
        let root = cache_folder()?;
        refuse_open_cache(&root)?;
        // What is made there from now on, also by other programs such as make, is not for every user to write.
        umask(umask(Mode::WOTH) | Mode::WOTH);
        Ok(Self { root })
    }

    /// The cache in this folder.
    #[cfg(test)]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The cache's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// All kernels, newest first. A missing folder is an empty cache. What is damaged is reported once, and left out.
    pub fn list(&self) -> Result<Vec<CachedKernel>> {
        static REPORTED: Once = Once::new();
        let (list, damaged) = self.read()?;
        if !damaged.is_empty() {
            REPORTED.call_once(|| damaged.iter().for_each(|kernel| progress::problem(&kernel.sentence())));
        }
        Ok(list)
    }

    /// Whether there is nothing in the cache, not even something damaged.
    pub fn is_empty(&self) -> Result<bool> {
        let (list, damaged) = self.read()?;
        Ok(list.is_empty() && damaged.is_empty())
    }

    fn read(&self) -> Result<(Vec<CachedKernel>, Vec<DamagedKernel>)> {
        let (mut list, mut damaged) = (Vec::new(), Vec::new());
        let folder = self.kernels();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((list, damaged)),
            Err(error) => return Err(error).with_context(|| format!("cannot read the cache {}", folder.display())),
        };
        for folder in entries.flatten().map(|entry| entry.path()).filter(|folder| folder.is_dir()) {
            match read_entry(&folder) {
                Ok(entry) => list.push(entry),
                Err(error) => damaged.push(DamagedKernel { folder, why: format!("{error:#}") }),
            }
        }
        list.sort_by(|left, right| {
            version::compare(&right.version, &left.version).then_with(|| left.release.cmp(&right.release))
        });
        damaged.sort_by(|left, right| left.folder.cmp(&right.folder));
        Ok((list, damaged))
    }

    /// The kernel of this release, or the newest of this series; cloud kernels first. `6.12:arm64`: of that processor,
    /// otherwise this machine's.
    pub fn find(&self, name: &str) -> Result<Option<CachedKernel>> {
        let (name, processor) = of_processor(name);
        let list = self.list()?;
        let is_named = |entry: &&CachedKernel| entry.name() == Some(name);
        if let Some(exact) = list.iter().find(|entry| entry.release == name).or_else(|| list.iter().find(is_named)) {
            return Ok(Some(exact.clone()));
        }
        if let Some(damaged) = self.read()?.1.into_iter().find(|damaged| damaged.is_of(name)) {
            bail!("{}", damaged.sentence());
        }
        let matching = || list.iter().filter(|entry| entry.processor == processor && entry.is_of_series(name));
        Ok(matching().find(|entry| entry.is_cloud()).or_else(|| matching().next()).cloned())
    }

    /// The release of the kernel with this name.
    pub(super) fn release_named(&self, name: &str) -> Result<Option<String>> {
        Ok(self.list()?.into_iter().find(|entry| entry.name() == Some(name)).map(|entry| entry.release))
    }

    /// The kernel that was built with this digest.
    pub(crate) fn find_build(&self, digest: &str) -> Result<Option<CachedKernel>> {
        let built = |entry: &CachedKernel| entry.build.as_ref().is_some_and(|build| build.digest == digest);
        Ok(self.list()?.into_iter().find(built))
    }

    /// Give a built kernel this name, and say which one it had.
    pub fn rename(&self, entry: &CachedKernel, name: &str) -> Result<CachedKernel> {
        if let Some(before) = entry.name().filter(|before| *before != name) {
            progress::note(&format!(
                "{} was named {before}: this is the same build, which now is {name}",
                entry.release
            ));
        }
        let mut renamed = entry.clone();
        if let Some(build) = &mut renamed.build {
            build.name = Some(name.to_owned());
        }
        let _lock = self.lock()?;
        self.take_name(name, &entry.release)?;
        atomic_file::write(&entry.folder.join("kernel.json"), renamed.text()?.as_bytes())?;
        Ok(renamed)
    }

    /// Take the name away from all kernels but that of `release`, and say so.
    fn take_name(&self, name: &str, release: &str) -> Result<()> {
        for mut entry in self.list()? {
            if entry.name() == Some(name) && entry.release != release {
                if let Some(build) = &mut entry.build {
                    build.name = None;
                }
                atomic_file::write(&entry.folder.join("kernel.json"), entry.text()?.as_bytes())?;
                progress::note(&format!("{name} was {}, which has no other name, and now is {release}", entry.release));
            }
        }
        Ok(())
    }

    /// Add the image at `path` (a bzImage or a `.deb`), recorded with its `origin`. An entry of the same release is
    /// replaced. `build`: how it was built, if pipeprof did it.
    pub fn add(
        &self,
        path: &Path,
        origin: &str,
        version: Option<&str>,
        config: Option<&Path>,
        build: Option<BuildRecord>,
    ) -> Result<CachedKernel> {
        let _lock = self.lock()?;
        let aside = self.aside()?;
        let (image, packaged_config) = if path.extension().is_some_and(|ending| ending == "deb") {
            image::from_deb(path, aside.path())?
        } else {
            (path.to_owned(), None)
        };
        let (release, processor) = image::release_of(&image).with_context(|| path.display().to_string())?;
        let entry = CachedKernel {
            version: version.unwrap_or(&release).to_owned(),
            origin: origin.to_owned(),
            folder: self.kernels().join(&release),
            processor,
            build,
            release,
        };
        let about = entry.text().with_context(|| path.display().to_string())?;
        let config = config.map(Path::to_owned).or(packaged_config);
        let folder = aside.path().join("entry");
        fs::create_dir_all(&folder).with_context(|| no_room(&folder))?;
        // Without the file's mode, which may give rights.
        regular::copy(&image, &folder.join("vmlinuz"), LARGEST_IMAGE).with_context(|| no_room(&folder))?;
        if let Some(config) = config.filter(|config| config.is_file()) {
            regular::copy(&config, &folder.join("config"), LARGEST_IMAGE).with_context(|| no_room(&folder))?;
        }
        if let Some(name) = entry.name() {
            self.take_name(name, &entry.release)?;
        }
        atomic_file::write(&folder.join("kernel.json"), about.as_bytes())?;
        if entry.folder.exists() {
            fs::rename(&entry.folder, aside.path().join("replaced")).with_context(|| no_room(&entry.folder))?;
        }
        fs::rename(&folder, &entry.folder).with_context(|| no_room(&entry.folder))?;
        Ok(entry)
    }

    /// Remove the kernel of this release, or all kernels of this series. Returns their releases.
    pub fn remove(&self, name: &str) -> Result<Vec<String>> {
        let (name, processor) = of_processor(name);
        let _lock = self.lock()?;
        let (list, damaged) = self.read()?;
        let place = |entry: &CachedKernel| (entry.release.clone(), entry.folder.clone());
        let is_exact = |entry: &&CachedKernel| entry.release == name || entry.name() == Some(name);
        let exact = list.iter().filter(is_exact).map(place);
        let damaged = damaged.into_iter().filter(|damaged| damaged.is_of(name));
        let mut gone: Vec<(String, PathBuf)> =
            exact.chain(damaged.map(|damaged| (name.to_owned(), damaged.folder))).collect();
        if gone.is_empty() {
            gone = list
                .iter()
                .filter(|entry| entry.processor == processor && entry.is_of_series(name))
                .map(place)
                .collect();
        }
        if gone.is_empty() {
            let cached: Vec<&str> = list.iter().map(|entry| entry.release.as_str()).collect();
            let cached = if cached.is_empty() { "none".to_owned() } else { cached.join(", ") };
            bail!("kernel {name} is not in the cache; cached: {cached}");
        }
        for (_, folder) in &gone {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot remove {}: check its owner and permissions", folder.display()))?;
        }
        Ok(gone.into_iter().map(|(release, _)| release).collect())
    }

    /// Lock the cache for writing, waiting for other writers.
    pub fn lock(&self) -> Result<CacheLock> {
        let folder = self.kernels();
        fs::create_dir_all(&folder).with_context(|| no_room(&folder))?;
        lock_file(&self.root.join("kernels.lock"))
    }

    /// A folder inside the cache in which to build an entry; removed on drop.
    fn aside(&self) -> Result<tempfile::TempDir> {
        let aside = self.root.join("aside");
        // This process holds the lock, so anything here is from a killed run.
        if aside.exists() {
            fs::remove_dir_all(&aside).with_context(|| no_room(&aside))?;
        }
        fs::create_dir_all(&aside).with_context(|| no_room(&aside))?;
        tempfile::Builder::new().tempdir_in(&aside).with_context(|| no_room(&aside))
    }
}

/// Holds the cache's lock until dropped.
#[derive(Debug)]
pub struct CacheLock {
    _file: File,
}

/// Wait until no other process holds the lock of the file at `path`.
pub(crate) fn lock_file(path: &Path) -> Result<CacheLock> {
    lock_when_free(path, || {})
}

/// The same; `waits` is called once if another process holds it.
pub(crate) fn lock_when_free(path: &Path, waits: impl FnOnce()) -> Result<CacheLock> {
    let file = File::options().create(true).append(true).open(path).with_context(|| no_room(path))?;
    let mut waits = Some(waits);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(CacheLock { _file: file }),
            Err(Errno::WOULDBLOCK) => waits.take().map_or((), |say| say()),
            Err(Errno::INTR) => {}
            Err(error) => bail!("cannot lock {}: {error}", path.display()),
        }
        cancel::check()?;
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(super) fn no_room(path: &Path) -> String {
    format!("cannot write {}: free some space, or set PIPEPROF_CACHE to another folder", path.display())
}

/// Note that a file or folder is used now, for [`keep_newest`]. If it fails, it may be removed earlier.
pub(crate) fn used_now(path: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let _ = utimensat(CWD, path, &Timestamps { last_access: now, last_modification: now }, AtFlags::empty());
}

/// Remove the files and folders in `parent` that were not used for longest, until `most` are left.
pub(crate) fn keep_newest(parent: &Path, most: usize) -> Result<()> {
    let entries = fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))?;
    let mut found: Vec<(SystemTime, PathBuf)> =
        entries.flatten().filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    found.sort();
    for (_, path) in found.iter().take(found.len().saturating_sub(most)) {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// The longest description of a kernel, bytes.
pub(super) const LONGEST_DESCRIPTION: u64 = 1 << 20;

fn read_entry(folder: &Path) -> Result<CachedKernel> {
    let release = folder.file_name().unwrap_or_default().to_string_lossy();
    let bytes = regular::read_stored(&folder.join("kernel.json"), LONGEST_DESCRIPTION);
    let entry = bytes.map_err(anyhow::Error::from).and_then(|bytes| CachedKernel::parse(&bytes, &release));
    let entry = entry.context("kernel.json")?;
    ensure!(folder.join("vmlinuz").is_file(), "vmlinuz: file does not exist");
    Ok(CachedKernel { folder: folder.to_owned(), ..entry })
}

impl DamagedKernel {
    fn is_of(&self, name: &str) -> bool {
        self.folder.file_name().is_some_and(|own| own == name)
    }

    fn sentence(&self) -> String {
        let release = self.folder.file_name().unwrap_or_default().to_string_lossy();
        format!(
            "the kernel in {} cannot be used: {}: add it again, or remove it with `pipeprof kernel remove {}`",
            self.folder.display(),
            self.why,
            quoted(&release)
        )
    }
}

/// A cache holds kernels and snapshots, which pipeprof executes. For root, a folder of another user is worth a note.
fn refuse_open_cache(folder: &Path) -> Result<()> {
    static NOTED: Once = Once::new();
    // A missing folder will be made with the umask.
    let Ok(found) = fs::metadata(folder) else { return Ok(()) };
    let shown = folder.display();
    ensure!(
        found.mode() & 0o002 == 0,
        "the cache {shown} can be written by every user, who could replace the kernels in it: chmod o-w {shown}, or set \
         PIPEPROF_CACHE to another folder"
    );
    if rustix::process::geteuid().is_root() && found.uid() != 0 {
        NOTED.call_once(|| {
            progress::note(&format!(
                "the cache {shown} belongs to user {}, who can replace the kernels that root uses from it",
                found.uid()
            ));
        });
    }
    Ok(())
}

/// See [`KernelCache::open`].
fn cache_folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("PIPEPROF_CACHE") {
        return Ok(folder);
    }
    // The XDG specification says to ignore relative paths.
    if let Some(folder) = set("XDG_CACHE_HOME").filter(|folder| folder.is_absolute()) {
        return Ok(folder.join("pipeprof"));
    }
    match set("HOME") {
        Some(home) => Ok(home.join(".cache/pipeprof")),
        None => bail!("no folder for cached kernels: set PIPEPROF_CACHE or HOME"),
    }
}

#[cfg(test)]
mod tests;

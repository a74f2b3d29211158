//! Build kernels for the cache. [`source`] finds and unpacks what is built, [`tree`] reads it, [`config`] makes its
//! configuration, [`compiler`] finds the compiler, [`make`] runs the build, [`folders`] has the places in the cache,
//! [`stamps`] says whether these can be used again, [`origin`] says what a kernel was built of, and [`difference`] has the configurations between two.

mod commits;
mod compiler;
mod config;
mod difference;
mod folders;
mod make;
mod origin;
mod source;
mod stamps;
mod tree;

pub use commits::{Commit, Commits};
pub use compiler::CompilerName;
pub use config::{BaseName, OptionSetting};
pub use difference::ConfigDifference;
pub use make::BuildFailed;
pub use origin::KernelOrigin;
pub use source::SourceName;

use crate::util::{cancel, progress, regular, sha256};
use crate::vm::hardware::Hardware;
use crate::vm::kernel_name::{check_name, check_version};
use crate::vm::store::{BuildRecord, CachedKernel, KernelCache};
use crate::vm::version;
use anyhow::{Context as _, Result, anyhow, ensure};
use compiler::Toolchain;
use config::BaseConfig;
use folders::BuildFolders;
use make::MakeKilled;
use source::KernelSource;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequest {
    pub source: SourceName,
    pub base: BaseName,
    pub compiler: CompilerName,
    pub settings: Vec<OptionSetting>,
    /// The kernel's name in the cache; `None`: its release.
    pub name: Option<String>,
    /// How many compilers run at a time.
    pub jobs: usize,
    /// Whether settings that the source does not accept are left out, as options of its base are.
    pub is_lenient: bool,
}

/// A kernel that was built, now or before.
#[derive(Debug, Clone)]
pub struct BuiltKernel {
    pub kernel: CachedKernel,
    /// How long it took; `None` if it was in the cache.
    pub took: Option<Duration>,
    /// The options that matter to pipes and differ from the base configuration: name, before, after.
    pub changed: Vec<(String, String, String)>,
}

/// Counts in the digest of a build, so that a change of how it is made makes all kernels anew.
const SCHEME: &str = "1";

/// Build the kernel of `request`, or find it in the cache. `say` receives a line for each step.
pub fn build(cache: &KernelCache, request: &BuildRequest, say: &dyn Fn(&str)) -> Result<BuiltKernel> {
    if let Some(name) = &request.name {
        check_name(name).map_err(|error| anyhow!("--{error}"))?;
    }
    let known = |parts: &BuildParts| -> Result<Option<BuiltKernel>> {
        let Some(kernel) = cache.find_build(&parts.digest)? else { return Ok(None) };
        let kernel = match &request.name {
            Some(name) => cache.rename(&kernel, name)?,
            None => kernel,
        };
        let made =
            kernel.kernel().config.and_then(|path| regular::read_text(&path, config::LONGEST).ok()).unwrap_or_default();
        Ok(Some(BuiltKernel { changed: parts.base.changed(&made), kernel, took: None }))
    };
    // Others may build for a long time: what is there does not wait for them.
    if let Some(parts) = BuildParts::read(cache, request, say)?
        && let Some(kernel) = known(&parts)?
    {
        return Ok(kernel);
    }
    // Read again: while this waited, a tree may have changed, and another process may have built it.
    let parts = BuildParts::open(cache, request, BuildFolders::open(cache, say)?, say)?;
    match known(&parts)? {
        Some(kernel) => Ok(kernel),
        None => compile(cache, request, &parts, say),
    }
}

/// The kernel of `request`, if it is in the cache. Nothing is built or made.
pub fn find(cache: &KernelCache, request: &BuildRequest, say: &dyn Fn(&str)) -> Result<Option<CachedKernel>> {
    match BuildParts::read(cache, request, say)? {
        Some(parts) => cache.find_build(&parts.digest),
        None => Ok(None),
    }
}

/// All that a build is made of.
struct BuildParts {
    source: KernelSource,
    folders: BuildFolders,
    toolchain: Toolchain,
    base: BaseConfig,
    /// Of the configuration, with what is left out and set.
    configuration: String,
    /// Of everything.
    digest: String,
}

impl BuildParts {
    /// The parts, if all of them are there; nobody is waited for.
    fn read(cache: &KernelCache, request: &BuildRequest, say: &dyn Fn(&str)) -> Result<Option<Self>> {
        let folders = BuildFolders::read(cache);
        // The version of such a source is in its tree, which must be unpacked.
        let needs_tree = request.base == BaseName::OfSeries && !matches!(request.source, SourceName::Debian(_));
        if !Toolchain::is_there(&request.compiler, &folders)? || needs_tree {
            return Ok(None);
        }
        Self::open(cache, request, folders, say).map(Some)
    }

    fn open(cache: &KernelCache, request: &BuildRequest, folders: BuildFolders, say: &dyn Fn(&str)) -> Result<Self> {
        let source = KernelSource::find(cache, &request.source, say)?;
        let toolchain = Toolchain::open(&request.compiler, &folders, say)?;
        // Only the configuration of the source's own series needs the source before its digest is known.
        let series = match (&request.base, &request.source) {
            (BaseName::OfSeries, SourceName::Debian(wish)) => version::series_of(wish),
            (BaseName::OfSeries, _) => version::series_of(&tree::version_of(&source.folder(cache, &folders, say)?)?),
            _ => String::new(),
        };
        let base = BaseConfig::find(&request.base, &series, request.compiler.target)?;
        let configuration = base.digest(&request.settings);
        let digest = sha256::of_parts([SCHEME, &source.digest, &configuration, &toolchain.digest()]);
        Ok(Self { source, folders, toolchain, base, configuration, digest })
    }

    fn record(&self, request: &BuildRequest) -> BuildRecord {
        BuildRecord {
            name: request.name.clone(),
            source: self.source.shown.clone(),
            source_name: self.source.name.to_string(),
            source_digest: self.source.digest.clone(),
            configuration: self.base.shown.clone(),
            config_name: (!self.base.is_tiny()).then(|| self.base.shown.clone()),
            configuration_digest: self.configuration.clone(),
            settings: request.settings.iter().map(OptionSetting::to_string).collect(),
            compiler: self.toolchain.version.clone(),
            compiler_name: self.toolchain.name.to_string(),
            digest: self.digest.clone(),
            seconds: 0,
            objects: 0,
            from_bundle: false,
        }
    }
}

fn compile(cache: &KernelCache, request: &BuildRequest, parts: &BuildParts, say: &dyn Fn(&str)) -> Result<BuiltKernel> {
    let BuildParts { source, folders, toolchain, base, .. } = parts;
    let mut record = parts.record(request);
    let begun = Instant::now();
    let tree = source.folder(cache, folders, say)?;
    let version = tree::version_of(&tree)?;
    let hardware = Hardware::of(request.compiler.target);
    // Before it is built and cannot be stored.
    check_version(&version, &version).with_context(|| format!("the Makefile of {}", source.shown))?;
    let short = record.digest.get(..8).unwrap_or(&record.digest).to_owned();
    let what = format!("building Linux {version} with {}", request.compiler);
    // Of one tree, most commits and edits change few objects; so do some options of one source.
    let (lineage, compiler) = (source.lineage(), toolchain.digest());
    let key = sha256::of_parts([lineage.as_str(), compiler.as_str()]);
    toolchain.check(&tree)?;
    let place = BuildPlace {
        parts,
        tree: &tree,
        output: folders.output(&key, source.files.as_ref())?,
        log: folders.log(&short),
        what: &what,
    };
    // Of an attempt before.
    let _ = fs::remove_file(&place.log);
    say(&format!(
        "{what}{}, configuration of {}",
        if toolchain.uses_ccache() { " and ccache" } else { "" },
        record.configuration
    ));
    let make = || {
        let made = place.configure(&request.settings)?;
        let settings = if request.is_lenient { &[] } else { &request.settings[..] };
        base.check(&made, settings).map_err(|error| BuildFailed::new(format!("{error:#}")))?;
        let jobs = format!("-j{}", request.jobs);
        // The release is also the folder's name in the cache: each build has its own.
        Ok((made, place.make(&[&jobs, &format!("LOCALVERSION=-build-{short}"), hardware.target])?))
    };
    let done: Result<(String, usize)> = make();
    // Whole objects are those of the next build, too, also after an error or an interruption.
    if !done.as_ref().is_err_and(|error| error.is::<MakeKilled>()) {
        folders.keep_output(&key)?;
    }
    cancel::check()?;
    let (made, objects) = done?;
    record.objects = objects;
    record.seconds = begun.elapsed().as_secs();
    let image = place.output.join(hardware.image);
    ensure!(image.is_file(), "make has not made {}: see {}", image.display(), place.log.display());
    if let SourceName::Tree(tree) = &source.name {
        let now = KernelSource::find(cache, &source.name, say)?.digest;
        ensure!(now == source.digest, "{} changed while it was built: build it again", tree.display());
    }
    let origin = record.source.clone();
    let kernel = cache.add(&image, &origin, Some(&version), Some(&place.config()), Some(record))?;
    progress::clear();
    Ok(BuiltKernel { changed: base.changed(&made), kernel, took: Some(begun.elapsed()) })
}

/// The configuration that the build of `request` would have. Settings that the source does not accept are ignored.
pub fn configure(cache: &KernelCache, request: &BuildRequest, say: &dyn Fn(&str)) -> Result<String> {
    let parts = BuildParts::open(cache, request, BuildFolders::open(cache, say)?, say)?;
    let tree = parts.source.folder(cache, &parts.folders, say)?;
    parts.toolchain.check(&tree)?;
    // One for each source and compiler: make's own programs stay there.
    let kept = sha256::of_parts([parts.source.digest.as_str(), &parts.toolchain.digest()]);
    let output = parts.folders.configurations(&kept)?;
    let log = parts.folders.log("configure");
    let place = BuildPlace { parts: &parts, tree: &tree, output, log, what: "configuring" };
    let made = place.configure(&request.settings)?;
    parts.folders.configured(&place.output);
    Ok(made)
}

/// Where make runs.
struct BuildPlace<'a> {
    parts: &'a BuildParts,
    tree: &'a Path,
    output: PathBuf,
    log: PathBuf,
    what: &'a str,
}

impl BuildPlace<'_> {
    fn config(&self) -> PathBuf {
        self.output.join(".config")
    }

    fn make(&self, words: &[&str]) -> Result<usize> {
        let mut command = self.parts.toolchain.make(self.tree, &self.output);
        command.args(words);
        make::run(command, &self.log, self.what)
            .with_context(|| format!("{}, {}", self.parts.source.shown, self.parts.toolchain.version))
    }

    /// Write the configuration with `settings`. Returns what make has made of it.
    fn configure(&self, settings: &[OptionSetting]) -> Result<String> {
        let (base, config) = (&self.parts.base, self.config());
        let read = || {
            regular::read_text(&config, config::LONGEST).with_context(|| format!("cannot read {}", config.display()))
        };
        let mut tiny = String::new();
        if base.is_tiny() {
            self.make(&["tinyconfig"])?;
            tiny = read()?;
        }
        // It may be anything that make has made.
        let _ = fs::remove_file(&config);
        fs::write(&config, base.text(&tiny, settings)).with_context(|| format!("cannot write {}", config.display()))?;
        self.make(&["olddefconfig"])?;
        read()
    }
}

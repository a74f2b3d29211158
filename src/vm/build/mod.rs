//! Build kernels for the cache. [`source`] finds and unpacks what is built, [`config`] makes its configuration,
//! [`compiler`] finds the compiler, [`make`] runs the build, [`folders`] has the places in the cache, and
//! [`origin`] says what a kernel was built of.

mod compiler;
mod config;
mod folders;
mod make;
mod origin;
mod source;

pub(crate) use compiler::CompilerName;
pub(crate) use config::{BaseName, OptionSetting};
pub(crate) use origin::KernelOrigin;
pub(crate) use source::SourceName;

use crate::util::{progress, sha256};
use crate::vm::store::{BuildRecord, CachedKernel, KernelCache};
use crate::vm::version;
use anyhow::{Context as _, Result, ensure};
use compiler::Toolchain;
use config::BaseConfig;
use folders::BuildFolders;
use source::KernelSource;
use std::fs;
use std::time::{Duration, Instant};

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuildRequest {
    pub source: SourceName,
    pub base: BaseName,
    pub compiler: CompilerName,
    pub settings: Vec<OptionSetting>,
    /// The kernel's name in the cache; `None`: its release.
    pub name: Option<String>,
    /// How many compilers run at a time.
    pub jobs: usize,
}

/// A kernel that was built, now or before.
#[derive(Debug, Clone)]
pub(crate) struct BuiltKernel {
    pub kernel: CachedKernel,
    /// How long it took; `None` if it was in the cache.
    pub took: Option<Duration>,
    /// The options that matter to pipes and differ from the base configuration: name, before, after.
    pub changed: Vec<(String, String, String)>,
}

/// Counts in the digest of a build, so that a change of how it is made makes all kernels anew.
const SCHEME: &str = "1";

/// Build the kernel of `request`, or find it in the cache. `say` receives a line for each step.
pub(crate) fn build(cache: &KernelCache, request: &BuildRequest, say: &dyn Fn(&str)) -> Result<BuiltKernel> {
    if let Some(name) = &request.name {
        check_name(name)?;
    }
    let parts = BuildParts::open(cache, request, BuildFolders::open(cache)?, say)?;
    if let Some(kernel) = cache.find_build(&parts.digest)? {
        let kernel = match &request.name {
            Some(name) => cache.rename(&kernel, name)?,
            None => kernel,
        };
        let made = kernel.kernel().config.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        return Ok(BuiltKernel { changed: parts.base.changed(&made), kernel, took: None });
    }
    compile(cache, request, &parts, say)
}

/// The kernel of `request`, if it is in the cache. Nothing is built or made.
pub(crate) fn find(cache: &KernelCache, request: &BuildRequest, say: &dyn Fn(&str)) -> Result<Option<CachedKernel>> {
    let folders = BuildFolders::open(cache)?;
    if !Toolchain::is_there(&request.compiler, &folders) {
        return Ok(None);
    }
    cache.find_build(&BuildParts::open(cache, request, folders, say)?.digest)
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
    fn open(cache: &KernelCache, request: &BuildRequest, folders: BuildFolders, say: &dyn Fn(&str)) -> Result<Self> {
        let source = KernelSource::find(cache, &request.source, say)?;
        let toolchain = Toolchain::open(&request.compiler, &folders, say)?;
        // Only the configuration of the source's own series needs the source before its digest is known.
        let series = match (&request.base, &request.source) {
            (BaseName::OfSeries, SourceName::Debian(wish)) => version::series_of(wish),
            (BaseName::OfSeries, _) => version::series_of(&source::version_of(&source.folder(cache, &folders, say)?)?),
            _ => String::new(),
        };
        let base = BaseConfig::find(&request.base, &series)?;
        let configuration = base.digest(&request.settings);
        let digest = sha256::of_parts([SCHEME, &source.digest, &configuration, &toolchain.digest()]);
        Ok(Self { source, folders, toolchain, base, configuration, digest })
    }

    fn record(&self, request: &BuildRequest) -> BuildRecord {
        BuildRecord {
            name: request.name.clone(),
            source: self.source.shown.clone(),
            source_name: self.source.lasting_name(&request.source),
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
        }
    }
}

fn compile(cache: &KernelCache, request: &BuildRequest, parts: &BuildParts, say: &dyn Fn(&str)) -> Result<BuiltKernel> {
    let BuildParts { source, folders, toolchain, base, .. } = parts;
    let mut record = parts.record(request);
    let begun = Instant::now();
    let tree = source.folder(cache, folders, say)?;
    toolchain.check(&tree)?;
    let version = source::version_of(&tree)?;
    let output = folders.output()?;
    let short = record.digest.get(..8).unwrap_or(&record.digest).to_owned();
    let what = format!("building Linux {version} with {}", request.compiler);
    let log = folders.log(&short);
    // Of an attempt before.
    let _ = fs::remove_file(&log);
    say(&format!(
        "{what}{}, configuration of {}",
        if toolchain.uses_ccache() { " and ccache" } else { "" },
        record.configuration
    ));
    let make = |words: &[&str]| {
        let mut command = toolchain.make(&tree, &output);
        command.args(words);
        make::run(command, &log, &what).with_context(|| format!("{}, {}", record.source, record.compiler))
    };
    let config = output.join(".config");
    let read = || fs::read_to_string(&config).with_context(|| format!("cannot read {}", config.display()));
    let mut tiny = String::new();
    if base.is_tiny() {
        make(&["tinyconfig"])?;
        tiny = read()?;
    }
    fs::write(&config, base.text(&tiny, &request.settings))
        .with_context(|| format!("cannot write {}", config.display()))?;
    make(&["olddefconfig"])?;
    let made = read()?;
    base.check(&made, &request.settings)?;
    let jobs = format!("-j{}", request.jobs);
    // The release is also the folder's name in the cache: each build has its own.
    record.objects = make(&[&jobs, &format!("LOCALVERSION=-build-{short}"), "bzImage"])?;
    record.seconds = begun.elapsed().as_secs();
    let image = output.join("arch/x86/boot/bzImage");
    ensure!(image.is_file(), "make has not made arch/x86/boot/bzImage: see {}", log.display());
    let kernel = cache.add_build(&image, &version, &config, record)?;
    folders.remove_output()?;
    progress::clear();
    Ok(BuiltKernel { changed: base.changed(&made), kernel, took: Some(begun.elapsed()) })
}

/// Names must differ from series and from paths.
fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-_.~".contains(c);
    ensure!(
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain) && name.len() <= 64,
        "--name '{name}': give at most 64 letters, digits and -_.+~, and begin with a letter"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_neither_series_nor_paths() {
        assert!(check_name("lru-off").is_ok() && check_name("v6.12-gcc14").is_ok());
        for wrong in ["6.12", "a/b", "", "-x", "a b", &"a".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }
}

//! What a kernel in the cache was built of, so that it can be built again with one thing changed.

use super::compiler::{CompilerName, states_version};
use super::config::{BaseConfig, BaseName, LONGEST, OptionSetting};
use super::source::{KernelSource, SourceName, upstream};
use crate::arch::Processor;
use crate::kernel::info::compiler_in;
use crate::util::regular;
use crate::vm::store::{BuildRecord, CachedKernel, KernelCache};
use anyhow::{Context as _, Result, anyhow, ensure};

/// What a kernel was built of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelOrigin {
    pub source: SourceName,
    pub base: BaseName,
    pub settings: Vec<OptionSetting>,
    pub compiler: CompilerName,
    /// The compiler for people: `gcc 16.2.0`.
    pub compiler_shown: String,
    /// The source for people: `7.2.13`.
    pub source_shown: String,
    /// The configuration for people.
    pub configuration_shown: String,
}

/// The Debian that a major version of gcc is the compiler of.
const SUITES: [(u32, &str); 3] = [(10, "bullseye"), (12, "bookworm"), (14, "trixie")];

/// Newer compilers.
const NEWEST: &str = "sid";

impl KernelOrigin {
    /// What the kernel `name` of the cache was built of: recorded, if pipeprof built it, and read from Debian's package
    /// otherwise.
    pub fn of(cache: &KernelCache, name: &str) -> Result<Self> {
        let kernel = cache.find(name)?.with_context(|| {
            format!(
                "{name} is not in the cache, so its source is not known: fetch it with `pipeprof kernel fetch`, \
                 or build it with `pipeprof kernel build`"
            )
        })?;
        match &kernel.build {
            Some(build) => Self::recorded(cache, &kernel.release, build),
            None => Self::of_package(&kernel),
        }
    }

    fn recorded(cache: &KernelCache, release: &str, build: &BuildRecord) -> Result<Self> {
        // Its paths are those of another machine, and what they lead to here may be anybody's.
        ensure!(
            !build.from_bundle || build.source_name.starts_with(SourceName::DEBIAN),
            "{release} came in a bundle, and was built of {:?} elsewhere: build it here with `pipeprof kernel build`",
            build.source_name
        );
        let of = |what: &'static str| move |error: String| anyhow!("the {what} of {release} is gone: {error}");
        let settings = build
            .settings
            .iter()
            .map(|text| text.parse::<OptionSetting>().map_err(of("setting")))
            .collect::<Result<_>>()?;
        let shown = if build.settings.is_empty() {
            build.configuration.clone()
        } else {
            format!("{} with {}", build.configuration, build.settings.join(", "))
        };
        let origin = Self {
            source: build.source_name.parse::<SourceName>().map_err(of("source"))?,
            base: build.config_name.clone().map_or(BaseName::Tiny, BaseName::Named),
            settings,
            compiler: build.compiler_name.parse::<CompilerName>().map_err(of("compiler"))?,
            compiler_shown: compiler_in(&build.compiler).unwrap_or_else(|| build.compiler_name.clone()),
            source_shown: build.source.clone(),
            configuration_shown: shown,
        };
        // What the names mean now is what will be built.
        let source = KernelSource::find(cache, &origin.source, &|_| ())?.digest;
        let configuration = BaseConfig::find(&origin.base, "", origin.compiler.target)?.digest(&origin.settings);
        for (what, now, before) in [
            (format!("the source {}", origin.source_shown), source, &build.source_digest),
            (format!("the configuration {}", origin.configuration_shown), configuration, &build.configuration_digest),
        ] {
            ensure!(
                now == *before,
                "{what} has changed since {release} was built of it: build it again, and a git tree as TREE@COMMIT"
            );
        }
        Ok(origin)
    }

    fn of_package(kernel: &CachedKernel) -> Result<Self> {
        let release = &kernel.release;
        let is_debian = kernel.origin.starts_with("linux-image-") || kernel.origin.starts_with("linux-binary-");
        let unknown =
            |what: &str| format!("{what} of {release} is not known: build the kernel with `pipeprof kernel build`");
        if !is_debian {
            return Err(anyhow!(unknown("the source")));
        }
        let path = kernel.kernel().config.with_context(|| unknown("the configuration"))?;
        let bytes = regular::read(&path, LONGEST).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT="));
        let stated = line.unwrap_or_default().trim().trim_matches('"');
        let shown = compiler_in(stated).with_context(|| unknown("the compiler"))?;
        Ok(Self {
            source: SourceName::Debian(kernel.version.clone()),
            base: BaseName::Named(release.clone()),
            settings: Vec::new(),
            compiler: compiler_of(&shown, stated, kernel.processor),
            compiler_shown: shown,
            source_shown: upstream(&kernel.version).to_owned(),
            configuration_shown: release.clone(),
        })
    }
}

/// The compiler `shown` (`gcc 14.2.0`), which states its version as `stated`: this machine's, if it is the very same;
/// else that of the Debian which it is the compiler of.
fn compiler_of(shown: &str, stated: &str, target: Processor) -> CompilerName {
    let (program, version) = shown.split_once(' ').unwrap_or((shown, ""));
    let major = version.split('.').next().unwrap_or(version);
    let program = format!("{program}-{major}");
    let number: u32 = major.parse().unwrap_or(0);
    let suite = SUITES.iter().find(|(version, _)| *version == number).map_or(NEWEST, |(_, suite)| suite);
    // `(Debian 14.2.0-19)`.
    let package = stated.find('(').and_then(|from| stated.get(from..=from + stated.get(from..)?.find(')')?));
    let name = CompilerName { suite: None, program, target };
    let states = |package: &str| states_version(&name.command()).is_some_and(|text| text.contains(package));
    let is_here = package.is_some_and(states);
    CompilerName { suite: (!is_here).then(|| suite.to_owned()), ..name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_that_are_not_here_are_of_a_debian() {
        let stated = "x86_64-linux-gnu-gcc-16 (Debian 16.2.0-999) 16.2.0";
        assert_eq!(compiler_of("gcc 16.2.0", stated, Processor::HERE).to_string(), "debian-sid:gcc-16");
    }

    #[test]
    fn a_source_that_has_changed_since_is_no_origin() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path());
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n").unwrap();
        let source = KernelSource::find(&cache, &SourceName::Tree(tree.clone()), &|_| ()).unwrap();
        let build = BuildRecord {
            source: source.shown,
            source_name: source.name.to_string(),
            source_digest: source.digest,
            configuration_digest: BaseConfig::find(&BaseName::Tiny, "", Processor::HERE).unwrap().digest(&[]),
            compiler: "gcc (Debian 12.2.0-14) 12.2.0".to_owned(),
            compiler_name: "gcc".to_owned(),
            ..BuildRecord::default()
        };
        let origin = || KernelOrigin::recorded(&cache, "6.12.1-build-01", &build);
        assert_eq!(origin().unwrap().compiler_shown, "gcc 12.2.0");
        std::fs::write(tree.join("pipe.c"), "changed").unwrap();
        let why = format!("{:#}", origin().unwrap_err());
        assert!(why.contains("has changed since 6.12.1-build-01 was built of it"), "{why}");
    }

    #[test]
    fn what_a_kernel_was_built_of_is_read_from_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path());
        let add = |release: &str, origin: &str, config: &str| {
            let kernel = folder.path().join("kernels").join(release);
            std::fs::create_dir_all(&kernel).unwrap();
            std::fs::write(kernel.join("vmlinuz"), "").unwrap();
            std::fs::write(kernel.join("config"), config).unwrap();
            let about = format!(r#"{{"release":"{release}","version":"6.12.117-1","origin":"{origin}"}}"#);
            std::fs::write(kernel.join("kernel.json"), about).unwrap();
        };
        let config = "CONFIG_CC_VERSION_TEXT=\"x86_64-linux-gnu-gcc-14 (Debian 14.2.0-99) 14.2.0\"\n";
        add("6.12.117+deb13-cloud-amd64", "linux-image-6.12.117+deb13-cloud-amd64", config);
        add("6.12.9", "/boot/vmlinuz", config);
        let origin = KernelOrigin::of(&cache, "6.12.117+deb13-cloud-amd64").unwrap();
        assert_eq!(origin.source, SourceName::Debian("6.12.117-1".to_owned()));
        assert_eq!(origin.compiler.to_string(), "debian-trixie:gcc-14");
        assert_eq!((origin.source_shown.as_str(), origin.compiler_shown.as_str()), ("6.12.117", "gcc 14.2.0"));
        let why = |name: &str| format!("{:#}", KernelOrigin::of(&cache, name).unwrap_err());
        assert!(why("6.12.9").contains("the source of 6.12.9 is not known"), "{}", why("6.12.9"));
        assert!(why("9.9").contains("fetch it with"), "{}", why("9.9"));
    }
}

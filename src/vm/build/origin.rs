//! What a kernel in the cache was built of, so that it can be built again with one thing changed.

use super::compiler::{CompilerName, states_version};
use super::config::{BaseName, OptionSetting};
use super::source::{SourceName, upstream};
use crate::util::regular;
use crate::vm::store::{CachedKernel, KernelCache};
use anyhow::{Context as _, Result, anyhow};

/// What a kernel was built of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelOrigin {
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
    pub(crate) fn of(cache: &KernelCache, name: &str) -> Result<Self> {
        let kernel = cache.find(name)?.with_context(|| {
            format!(
                "--causes: {name} is not in the cache, so its source is not known: fetch it with `pipeprof kernel fetch`, \
                 or build it with `pipeprof kernel build`"
            )
        })?;
        match &kernel.build {
            Some(_) => Self::recorded(&kernel),
            None => Self::of_package(&kernel),
        }
    }

    fn recorded(kernel: &CachedKernel) -> Result<Self> {
        let build = kernel.build.clone().unwrap_or_default();
        let of = |what: &'static str| {
            let release = kernel.release.clone();
            move |error: String| anyhow!("--causes: the {what} of {release} is gone: {error}")
        };
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
        Ok(Self {
            source: build.source_name.parse::<SourceName>().map_err(of("source"))?,
            base: build.config_name.clone().map_or(BaseName::Tiny, BaseName::Named),
            settings,
            compiler: build.compiler_name.parse::<CompilerName>().map_err(of("compiler"))?,
            compiler_shown: compiler_in(&build.compiler).map_or(build.compiler_name, |found| found.shown()),
            source_shown: build.source,
            configuration_shown: shown,
        })
    }

    fn of_package(kernel: &CachedKernel) -> Result<Self> {
        let release = &kernel.release;
        let is_debian = kernel.origin.starts_with("linux-image-") || kernel.origin.starts_with("linux-binary-");
        let unknown = |what: &str| {
            format!("--causes: {what} of {release} is not known: build the kernel with `pipeprof kernel build`")
        };
        if !is_debian {
            return Err(anyhow!(unknown("the source")));
        }
        let path = kernel.kernel().config.with_context(|| unknown("the configuration"))?;
        let bytes = regular::read(&path, LONGEST).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT="));
        let found = line.and_then(compiler_in).with_context(|| unknown("the compiler"))?;
        Ok(Self {
            source: SourceName::Debian(kernel.version.clone()),
            base: BaseName::Named(release.clone()),
            settings: Vec::new(),
            compiler_shown: found.shown(),
            compiler: found.name(),
            source_shown: upstream(&kernel.version).to_owned(),
            configuration_shown: release.clone(),
        })
    }
}

/// No configuration is longer, bytes.
const LONGEST: u64 = 16 << 20;

/// A compiler in the text with which it states its version.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StatedCompiler {
    program: &'static str,
    version: String,
    /// `(Debian 14.2.0-19)`.
    package: String,
}

impl StatedCompiler {
    fn shown(&self) -> String {
        format!("{} {}", self.program, self.version)
    }

    /// This machine's, if it is the very same; else that of the Debian which it is the compiler of.
    fn name(&self) -> CompilerName {
        let major = self.version.split('.').next().unwrap_or(&self.version);
        let program = format!("{}-{major}", self.program);
        let number: u32 = major.parse().unwrap_or(0);
        let suite = SUITES.iter().find(|(version, _)| *version == number).map_or(NEWEST, |(_, suite)| suite);
        let is_here =
            !self.package.is_empty() && states_version(&program).is_some_and(|text| text.contains(&self.package));
        CompilerName { suite: (!is_here).then(|| suite.to_owned()), program }
    }
}

/// The compiler in `x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0`, or in `Debian clang version 19.1.7`.
fn compiler_in(text: &str) -> Option<StatedCompiler> {
    let text = text.trim().trim_matches('"');
    let program = ["clang", "gcc"].into_iter().find(|program| text.contains(program))?;
    let version = match program {
        "gcc" => text.rsplit(' ').next()?,
        _ => text.split("version ").nth(1)?.split([' ', '(']).next()?,
    };
    let package = text.find('(').and_then(|from| text.get(from..=from + text.get(from..)?.find(')')?));
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| StatedCompiler {
        program,
        version: version.to_owned(),
        package: package.unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_read_from_configurations() {
        let found = compiler_in(r#""x86_64-linux-gnu-gcc-16 (Debian 16.2.0-999) 16.2.0""#).unwrap();
        assert_eq!((found.shown().as_str(), found.package.as_str()), ("gcc 16.2.0", "(Debian 16.2.0-999)"));
        assert_eq!(found.name().to_string(), "debian-sid:gcc-16");
        let clang = compiler_in("Debian clang version 19.1.7 (3+b1)").unwrap();
        assert_eq!(clang.shown(), "clang 19.1.7");
        assert_eq!((compiler_in("rustc 1.0"), compiler_in("gcc")), (None, None));
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

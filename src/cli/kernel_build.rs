//! `pipeprof kernel build`: a kernel from its source.

use crate::util::limits::one_per_cpu;
use crate::util::progress;
use crate::util::text::counted;
use crate::vm::compile::{self, BaseName, BuildRequest, CompilerName, OptionSetting, SourceName};
use crate::vm::store::{CachedKernel, KernelCache};
use anyhow::Result;
use clap::Args;

/// Build a kernel from its source, with any configuration and compiler, for --kernel
///
/// The configuration of a distribution is built without modules, and without built-in drivers and other parts that a
/// pipe's code does not read. The same source, configuration and compiler are built once. ccache is used if it is
/// installed.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Kernel tree, TREE@COMMIT of a git tree, tarball, or debian:SERIES for Debian's source
    #[arg(value_name = "SOURCE")]
    source: SourceName,
    #[command(flatten)]
    of: BuildOfArgs,
    /// Name for --kernel [default: the kernel's release]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Number of compilers that run at a time [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

/// What a source is built of.
#[derive(Debug, Args)]
pub(super) struct BuildOfArgs {
    /// Configuration: a file, or that of a kernel of `pipeprof kernel list` [default: the kernel of the source's series]
    #[arg(long, value_name = "FILE|KERNEL", conflicts_with = "tiny")]
    config: Option<String>,
    /// Configuration: `make tinyconfig` with what guests need; counts are not those of a distribution's kernel
    #[arg(long)]
    tiny: bool,
    /// Compiler: one of this machine, or of another Debian, as in debian-sid:gcc-16
    #[arg(long, value_name = "COMPILER", default_value = "gcc")]
    cc: CompilerName,
    /// Set an option of the configuration; repeatable
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    settings: Vec<OptionSetting>,
}

impl BuildOfArgs {
    /// The build of `source`, with as many compilers at a time as there are CPUs.
    pub(super) fn request(&self, source: SourceName) -> BuildRequest {
        let base = match &self.config {
            Some(name) => BaseName::Named(name.clone()),
            None if self.tiny => BaseName::Tiny,
            None => BaseName::OfSeries,
        };
        BuildRequest {
            source,
            base,
            compiler: self.cc.clone(),
            settings: self.settings.clone(),
            name: None,
            jobs: one_per_cpu(),
            is_lenient: false,
        }
    }
}

/// So many changed options are named.
const SHOWN: usize = 8;

impl BuildArgs {
    pub(super) fn run(self, cache: &KernelCache) -> Result<CachedKernel> {
        let request = self.of.request(self.source);
        let jobs = self.jobs.map_or(request.jobs, usize::from);
        let request = BuildRequest { name: self.name, jobs, ..request };
        let built = compile::build(cache, &request, &progress::note);
        progress::clear();
        let built = built?;
        if !built.changed.is_empty() {
            let shown = built.changed.iter().take(SHOWN).map(|(name, before, after)| {
                format!("{} {before} -> {after}", name.strip_prefix("CONFIG_").unwrap_or(name))
            });
            let more = match built.changed.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            progress::note(&format!(
                "options that matter to pipes and differ from the base configuration: {}{more}",
                shown.collect::<Vec<_>>().join(", ")
            ));
        }
        match built.took {
            None if built.kernel.build.as_ref().is_some_and(|build| build.from_bundle) => {
                progress::note("already built, elsewhere: it came in a bundle");
            }
            None => progress::note("already built"),
            Some(took) => {
                let objects = built.kernel.build.as_ref().map_or(0, |build| build.objects);
                progress::note(&format!(
                    "built in {} min {:02} s, {}",
                    took.as_secs() / 60,
                    took.as_secs() % 60,
                    counted(objects as u64, "object")
                ));
            }
        }
        Ok(built.kernel)
    }
}

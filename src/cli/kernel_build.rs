//! `pipeprof kernel build`: a kernel from its source.

use crate::arch::Processor;
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
    /// Processor to build for: amd64 or arm64, by a compiler for it [default: that of --config, or of this machine]
    #[arg(long, value_name = "ARCH", value_parser = parse_processor)]
    arch: Option<Processor>,
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
            compiler: match self.arch.or_else(|| self.config.as_deref().and_then(processor_in)) {
                Some(processor) => self.cc.clone().building_for(processor),
                None => self.cc.clone(),
            },
            settings: self.settings.clone(),
            name: None,
            jobs: one_per_cpu(),
            is_lenient: false,
        }
    }
}

/// The processor with this name.
pub(super) fn parse_processor(name: &str) -> Result<Processor, String> {
    Processor::of_debian(name).ok_or_else(|| format!("give {}", Processor::ALL.map(Processor::debian).join(" or ")))
}

/// The processor that the name of a kernel says, as in `6.12:arm64`.
fn processor_in(kernel: &str) -> Option<Processor> {
    Processor::of_debian(kernel.rsplit_once(':')?.1)
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

//! What the sources of a series of kernels change by themselves.

use super::again::{again, measure_all};
use super::causes::build_all;
use super::given::GivenFlags;
use crate::campaign::CellStore;
use crate::history::{History, HistoryKernel, HistoryLine, SourceKernel, SourceSeries, read};
use crate::result::{Measurement, Outcome};
use crate::util::limits::one_per_cpu;
use crate::util::progress;
use crate::util::text::counted;
use crate::util::usage::UsageError;
use crate::vm::compile::{BaseName, BuildRequest, CompilerName, KernelOrigin};
use crate::vm::store::{CachedKernel, KernelCache};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;

/// What all sources are built with.
#[derive(Debug, Default)]
pub struct SourceSettings {
    /// A file, or a kernel of the cache. Absent: the configuration of the newest kernel.
    pub config: Option<String>,
    /// Absent: the compiler of the oldest kernel.
    pub cc: Option<CompilerName>,
}

impl SourceSettings {
    /// Add a line of the source alone to each line of `history`, whose cells are in `store`.
    ///
    /// # Errors
    /// When the source of a kernel is not known, does not build or cannot be counted.
    pub fn add(&self, history: &mut History, store: &CellStore) -> Result<()> {
        // Thinned kernels have no BTF, which recordings need.
        let pipelines = history.lines.iter().filter(|line| line.pipeline).count();
        if pipelines == history.lines.len() {
            bail!(UsageError::new(
                "--causes: the store has only recorded pipelines, and kernels that are built have no BTF"
            ));
        }
        if pipelines > 0 {
            let those = counted(pipelines as u64, "recorded pipeline");
            progress::note(&format!("--causes: without {those}: kernels that are built have no BTF"));
        }
        let cache = KernelCache::open()?;
        let origin = |kernel: &HistoryKernel| KernelOrigin::of(&cache, &kernel.release).context("--causes");
        let origins = history.kernels.iter().map(origin).collect::<Result<Vec<_>>>()?;
        let (oldest, newest) = (origins.first().context("no kernel")?, origins.last().context("no kernel")?);
        let (base, settings, configuration) = match &self.config {
            Some(config) => (BaseName::Named(config.clone()), Vec::new(), config.clone()),
            None => {
                let label = history.kernels.last().map_or(String::new(), |kernel| kernel.label.clone());
                (newest.base.clone(), newest.settings.clone(), label)
            }
        };
        let compiler = self.cc.clone().unwrap_or_else(|| oldest.compiler.clone());
        let compiler = compiler.building_for(oldest.compiler.target());
        let request = |origin: &KernelOrigin| BuildRequest {
            source: origin.source.clone(),
            base: base.clone(),
            settings: settings.clone(),
            compiler: compiler.clone(),
            name: None,
            jobs: one_per_cpu(),
            is_lenient: true,
        };
        let built = build_all(&cache, &origins.iter().map(request).collect::<Vec<_>>())?;
        let mut lines = Vec::new();
        for line in std::mem::take(&mut history.lines) {
            if line.pipeline {
                lines.push(line);
                continue;
            }
            progress::task(&line.title(), false);
            let alone = alone(&line, store, &built, &history.command);
            progress::clear();
            let alone = alone.with_context(|| format!("--causes: {}", line.title()))?;
            lines.extend([line, alone]);
        }
        history.lines = lines;
        let kernels = origins.iter().zip(&built).enumerate().map(|(kernel, (origin, built))| SourceKernel {
            kernel,
            source: origin.source_shown.clone(),
            release: built.release.clone(),
        });
        let stated = built.first().and_then(|kernel| kernel.build.as_ref()).map(|build| build.compiler.clone());
        history.sources = Some(SourceSeries {
            configuration,
            compiler: crate::kernel::info::compiler_name(&stated.unwrap_or_else(|| compiler.to_string())),
            kernels: kernels.collect(),
        });
        Ok(())
    }
}

/// `line` on the kernels that were built, one for each kernel of the history.
fn alone(line: &HistoryLine, store: &CellStore, built: &[CachedKernel], command: &str) -> Result<HistoryLine> {
    // The windows of the newest, as `check --history` repeats them.
    let newest = store.result(&line.points.last().context("a line has points")?.cell)?;
    let mut given = GivenFlags::default();
    let mut wanted: BTreeMap<&str, Measurement> = BTreeMap::new();
    for point in &line.points {
        let release = &built.get(point.kernel).context("a kernel for each point")?.release;
        given.options.kernel = Some(release.clone());
        wanted.insert(release, again(&given, &newest, false)?);
    }
    let (releases, wanted): (Vec<&str>, Vec<Measurement>) = wanted.into_iter().unzip();
    let (outcomes, _) = measure_all(&wanted, None, command)?;
    let of = |release: &str| releases.iter().position(|other| *other == release).and_then(|place| outcomes.get(place));
    let runs = line.points.iter().filter_map(|point| Some((point.kernel, of(&built.get(point.kernel)?.release)?)));
    read::of_sources(line, &runs.collect::<Vec<(usize, &Outcome)>>())
}

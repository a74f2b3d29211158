//! `pipeprof kernel options`: which options of two configurations change the instructions of a pipe.

use super::counted_kernels::{CountArgs, CountedBuild, CountedKernels, compared};
use super::global;
use super::kernel_build::one_per_cpu;
use super::stop_args::parse_percent;
use crate::report::terminal::Style;
use crate::search::effect::{Effect, Threshold, Untestable};
use crate::search::halving::{self, Culprit, SearchLine};
use crate::search::options::{OptionEffect, OptionsReport, SCHEMA};
use crate::util::progress;
use crate::util::usage::UsageError;
use crate::vm::compile::{BaseName, BuildRequest, CompilerName, ConfigDifference, KernelOrigin, SourceName};
use crate::vm::store::KernelCache;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use std::path::Path;

/// Find the options of two configurations that change the instructions of a pipe, by building and counting
///
/// One source is built with configurations between the two. Each range of options that changes the counts is halved, until
/// single options are left; each of these is then built alone. Each option that is found takes about three builds.
#[derive(Debug, Args)]
pub(crate) struct OptionsArgs {
    /// Configuration: a file, or a kernel of `pipeprof kernel list`
    #[arg(value_name = "FILE|KERNEL")]
    before: String,
    /// The other configuration
    #[arg(value_name = "FILE|KERNEL")]
    after: String,
    /// Source to build, as of `pipeprof kernel build` [default: that of the second kernel]
    #[arg(long, value_name = "SOURCE")]
    source: Option<SourceName>,
    /// Compiler, as of `pipeprof kernel build` [default: that of the first kernel, or gcc]
    #[arg(long, value_name = "COMPILER")]
    cc: Option<CompilerName>,
    /// Smallest change to find, at least 0.17 %, in percent of all instructions without scheduling; also for a single role
    #[arg(long, value_name = "PERCENT", default_value = "0.3%", value_parser = parse_percent)]
    smallest: f64,
    #[command(flatten)]
    count: CountArgs,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The default of `--smallest`, as a part of the whole.
const SMALLEST: f64 = 0.003;

impl OptionsArgs {
    /// The options between two kernels that are compared.
    pub(super) fn between([before, after]: [String; 2], count: CountArgs) -> Self {
        Self { before, after, source: None, cc: None, smallest: SMALLEST, count, json: false }
    }

    pub(super) fn run(self, cache: &KernelCache) -> Result<()> {
        let counted = self.count.prepare()?;
        let ends = self.ends(cache)?;
        let (source, compiler) = (ends[0].source.to_string(), ends[0].compiler.to_string());
        let shown = [ends[0].base.to_string(), ends[1].base.to_string()];
        let difference = ConfigDifference::find(cache, ends, &progress::note)?;
        progress::clear();
        let differing = difference.options.len();
        ensure!(differing > 0, "the two configurations are the same on this source");
        let modules = difference.options.iter().filter(|change| !change.is_built_in()).count();
        progress::note(&format!("{differing} options differ, {modules} of them in modules only"));
        let threshold = Threshold::new(self.smallest, None);
        let mut line = OptionLine { cache, difference, counted, threshold, untestable: Vec::new() };
        let found = halving::search(&mut line, 0)?;
        let point = |position: usize| found.points.get(&position).and_then(Option::as_ref);
        let (first, last) = (point(0).context("no first")?, point(differing).context("no last")?);
        let mut options = Vec::new();
        for culprit in &found.culprits {
            let (before, after) =
                (point(culprit.before).context("no point")?, point(culprit.after).context("no point")?);
            options.push(line.effect(*culprit, [first, before, after])?);
        }
        let report = OptionsReport {
            schema: SCHEMA,
            before: shown[0].clone(),
            after: shown[1].clone(),
            source,
            compiler,
            differing,
            modules,
            counted: line.counted.count,
            untestable: line.untestable,
            smallest: line.threshold.smallest,
            total: Effect::of(&compared(&first.input, &last.input, self.smallest)?),
            options,
        };
        global::print(self.json, &report, || report.text(Style::of_stdout()))
    }

    /// The two builds, which differ in their configuration only.
    fn ends(&self, cache: &KernelCache) -> Result<[BuildRequest; 2]> {
        let origin = |name: &str| match Path::new(name).is_file() {
            true => Ok(None),
            false => KernelOrigin::of(cache, name).map(Some),
        };
        let (from, to) = (origin(&self.before)?, origin(&self.after)?);
        let source = self.source.clone().or(to.as_ref().map(|origin| origin.source.clone()));
        let source =
            source.context(UsageError::new("--source is missing: a file does not name the source to build"))?;
        let compiler = self.cc.clone().or(from.as_ref().map(|origin| origin.compiler.clone()));
        let compiler = compiler.map_or_else(|| "gcc".parse().map_err(UsageError::new), Ok)?;
        let request = |origin: Option<KernelOrigin>, name: &str| {
            let (base, settings) =
                origin.map_or((BaseName::Named(name.to_owned()), Vec::new()), |origin| (origin.base, origin.settings));
            let (source, compiler) = (source.clone(), compiler.clone());
            BuildRequest { source, base, compiler, settings, name: None, jobs: one_per_cpu(), is_lenient: false }
        };
        Ok([request(from, &self.before), request(to, &self.after)])
    }
}

/// The differing options, in the order in which they are changed.
struct OptionLine<'a> {
    cache: &'a KernelCache,
    difference: ConfigDifference,
    counted: CountedKernels,
    threshold: Threshold,
    untestable: Vec<Untestable>,
}

/// Options that are known to matter to pipes are divided first.
const LIKELY: usize = 8;

impl OptionLine<'_> {
    fn count(&mut self, request: &BuildRequest, what: String) -> Result<Option<CountedBuild>> {
        self.counted.built(self.cache, request, what, &progress::note, &mut self.untestable)
    }

    /// What the options of a culprit change: between the positions before and after it, and alone.
    fn effect(&mut self, culprit: Culprit, points: [&CountedBuild; 3]) -> Result<OptionEffect> {
        let [first, before, after] = points;
        let margin = self.threshold.smallest;
        let effects = Effect::of(&compared(&before.input, &after.input, margin)?);
        let mut indexes: Vec<usize> = (culprit.before..culprit.after).collect();
        let changes: Vec<_> = indexes.iter().map(|index| self.difference.options[*index].clone()).collect();
        if let [index] = indexes[..] {
            let needed = self.difference.needed(self.cache, index, &progress::note)?;
            indexes.extend(needed.unwrap_or_default());
        }
        let names: Vec<String> = indexes.iter().map(|index| self.difference.options[*index].to_string()).collect();
        progress::note(&format!("with only {} changed", names.join(", ")));
        let request = self.difference.only(self.cache, &indexes, &progress::note)?;
        let mut alone = Vec::new();
        let mut follow = Vec::new();
        if changes.iter().any(|change| change.is_made_by(&request))
            && let Some(point) = self.count(&request, format!("only {}", names.join(", ")))?
        {
            alone = Effect::of(&compared(&first.input, &point.input, margin)?);
            let others = self.difference.options.iter().filter(|other| !changes.contains(other));
            follow = others.filter(|other| other.is_made_by(&request)).map(|other| other.option.clone()).collect();
        }
        Ok(OptionEffect { options: changes.iter().map(ToString::to_string).collect(), effects, alone, follow })
    }
}

impl SearchLine for OptionLine<'_> {
    type Point = CountedBuild;

    fn items(&self) -> usize {
        self.difference.options.len()
    }

    fn weight(&self, item: usize) -> usize {
        self.difference.options.get(item).map_or(1, |change| if change.matters() { LIKELY } else { 1 })
    }

    fn measure(&mut self, position: usize) -> Result<Option<CountedBuild>> {
        let what = format!("{position} of {} options as in the second configuration", self.items());
        progress::note(&format!("with {what}"));
        let request = self.difference.at(self.cache, position, &progress::note)?;
        self.count(&request, what)
    }

    fn differ(&mut self, before: &CountedBuild, after: &CountedBuild) -> Result<bool> {
        if before.kernel.release == after.kernel.release {
            return Ok(false);
        }
        Ok(self.threshold.is_reached(&compared(&before.input, &after.input, self.threshold.smallest)?))
    }
}

//! Which options of two configurations change the instructions of a pipe.

use super::counted::{CountedBuild, CountedKernels};
use crate::search::effect::{Effect, Threshold, Untestable};
use crate::search::halving::{self, Culprit, SearchLine};
use crate::search::options::{OptionEffect, OptionsReport, SCHEMA};
use crate::util::limits::one_per_cpu;
use crate::util::progress;
use crate::util::usage::UsageError;
use crate::vm::compile::{BaseName, BuildRequest, CompilerName, ConfigDifference, KernelOrigin, SourceName};
use crate::vm::store::KernelCache;
use anyhow::{Context as _, Result, ensure};
use std::path::Path;

/// The two configurations, and what is built with those between them.
#[derive(Debug)]
pub struct OptionsSearch {
    /// A file, or a kernel of the cache.
    pub before: String,
    pub after: String,
    /// Absent: that of the second kernel.
    pub source: Option<SourceName>,
    /// Absent: that of the first kernel, or gcc.
    pub cc: Option<CompilerName>,
    /// The smallest change to find, as a part of the whole.
    pub smallest: f64,
}

impl OptionsSearch {
    /// Find the options that change the instructions.
    pub fn find(&self, cache: &KernelCache, counted: CountedKernels) -> Result<OptionsReport> {
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
        let total = line.counted.compared(&first.input, &last.input, self.smallest)?;
        Ok(OptionsReport {
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
            total: Effect::of(&total),
            options,
        })
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
        let compiler: CompilerName = compiler.map_or_else(|| "gcc".parse().map_err(UsageError::new), Ok)?;
        let compiler = match &from {
            Some(origin) => compiler.building_for(origin.compiler.target()),
            None => compiler,
        };
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
        let effects = Effect::of(&self.counted.compared(&before.input, &after.input, margin)?);
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
            alone = Effect::of(&self.counted.compared(&first.input, &point.input, margin)?);
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
        let compared = self.counted.compared(&before.input, &after.input, self.threshold.smallest)?;
        Ok(self.threshold.is_reached(&compared))
    }
}

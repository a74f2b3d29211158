//! Count many kernels with one workload, each once: what searches compare.

use super::again::{again, measure_all};
use super::given::GivenFlags;
use crate::compare::{CompareOptions, Comparison, Input, compare, stored};
use crate::experiment::PlanFile;
use crate::result::Measurement;
use crate::run::{MeasurePair as _, RunOptions};
use crate::search::effect::Untestable;
use crate::util::folder_lock::FolderLock;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{build as this_build, cancel, progress};
use crate::vm::compile::{self, BuildFailed, BuildRequest};
use crate::vm::guest::check_programs;
use crate::vm::store::{CachedKernel, KernelCache};
use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The workloads that are counted, and where the counts are kept.
#[derive(Debug)]
pub struct CountRequest {
    pub modes: Vec<String>,
    pub cpus: Vec<u32>,
    pub options: RunOptions,
    /// The flags that gave the options.
    pub run_flags: String,
    pub output: Option<PathBuf>,
    /// Whether the counts in `output` are used.
    pub resume: bool,
    /// The command line, for titles.
    pub command: String,
}

/// What the counts of a folder have in common.
#[derive(Debug, Serialize)]
struct CountPlan<'a> {
    schema: &'static str,
    build: &'static str,
    modes: &'a [String],
    cpus: &'a [u32],
    precision: f64,
    window_limit: u64,
    run_flags: &'a str,
}

const PLAN_FILE: PlanFile =
    PlanFile { name: "search.json", schema: "pipeprof.search/1", results: "runs", what: "search" };

/// Counts of kernels. The first one decides how long the windows of all are.
pub struct CountedKernels {
    given: GivenFlags,
    wanted: Vec<Measurement>,
    first: Option<Rc<Input>>,
    /// By release.
    known: BTreeMap<String, Rc<Input>>,
    /// The folder of results, and the lock of the one around it.
    folder: Option<(PathBuf, FolderLock)>,
    /// How many were counted, or read from the folder.
    pub(crate) count: usize,
    command: String,
}

/// A kernel that was built, and its counts.
pub(crate) struct CountedBuild {
    pub kernel: CachedKernel,
    pub input: Rc<Input>,
}

impl CountRequest {
    pub fn prepare(self) -> Result<CountedKernels> {
        let mut wanted = Vec::new();
        for (mode, cpus) in self.modes.iter().flat_map(|mode| self.cpus.iter().map(move |cpus| (mode, cpus))) {
            let mut options = self.options.clone();
            // Its name is set when it is counted.
            options.kernel = Some(String::new());
            options.workload.mode = Some(mode.clone());
            options.machine.cpus = Some(*cpus);
            options.count_by_default();
            if !options.exact() {
                bail!(UsageError::new("--run-flags: a search needs counts: leave out --collect and --accel"));
            }
            options.request(String::new())?;
            wanted.push(Measurement::Pair(Box::new(options)));
        }
        let plan = CountPlan {
            schema: PLAN_FILE.schema,
            build: this_build::version(),
            modes: &self.modes,
            cpus: &self.cpus,
            precision: self.options.sizing.precision,
            window_limit: self.options.sizing.limit,
            run_flags: &self.run_flags,
        };
        let open = |folder: &PathBuf| {
            let lock = PLAN_FILE.open(folder, &plan, self.resume).or_usage()?;
            Ok::<_, anyhow::Error>((folder.join(PLAN_FILE.results), lock))
        };
        let folder = self.output.as_ref().map(open).transpose()?;
        let (given, command) = (GivenFlags::default(), self.command);
        Ok(CountedKernels { given, wanted, first: None, known: BTreeMap::new(), folder, count: 0, command })
    }
}

impl CountedKernels {
    /// The counts of the kernel with this release.
    fn of(&mut self, release: &str) -> Result<Rc<Input>> {
        if let Some(input) = self.known.get(release) {
            return Ok(Rc::clone(input));
        }
        let folder = self.folder.as_ref().map(|(results, _)| results.join(release));
        let kept = folder.as_deref().filter(|folder| folder.is_dir()).map(stored::column);
        let input = match kept {
            Some(Ok(input)) if input.runs.len() == self.wanted.len() => input,
            // Of a search that was ended while it stored them.
            _ => self.measure(release, folder.as_deref())?,
        };
        let input = Rc::new(Input { label: Some(release.to_owned()), ..input });
        self.count += 1;
        self.first.get_or_insert_with(|| Rc::clone(&input));
        self.known.insert(release.to_owned(), Rc::clone(&input));
        Ok(input)
    }

    /// Build and count what a search tests. `None` if it does not build or boot, and then `untestable` says why.
    ///
    /// # Errors
    /// Faults of this machine, such as space, rights and missing programs, and of the command.
    pub(crate) fn built(
        &mut self,
        cache: &KernelCache,
        request: &BuildRequest,
        what: String,
        say: &dyn Fn(&str),
        untestable: &mut Vec<Untestable>,
    ) -> Result<Option<CountedBuild>> {
        // A build takes minutes.
        check_programs(request.compiler.target()).or_usage()?;
        let built = compile::build(cache, request, say);
        progress::clear();
        let failed = match built {
            Err(error) if !error.is::<BuildFailed>() => return Err(error),
            Err(error) => error,
            Ok(built) => match self.of(&built.kernel.release) {
                Ok(input) => return Ok(Some(CountedBuild { kernel: built.kernel, input })),
                Err(error) if error.is::<UsageError>() || error.is::<std::io::Error>() => return Err(error),
                Err(error) => error,
            },
        };
        cancel::check()?;
        let why = format!("{failed:#}");
        progress::note(&format!("cannot be tested: {why}"));
        untestable.push(Untestable { what, why });
        Ok(None)
    }

    fn measure(&mut self, release: &str, folder: Option<&Path>) -> Result<Input> {
        let name = Some(release.to_owned());
        let wanted = match &self.first {
            Some(first) => {
                self.given.options.kernel = name;
                first.runs.iter().map(|(_, run)| again(&self.given, run, false)).collect::<Result<Vec<_>>>()?
            }
            None => {
                for repeat in &mut self.wanted {
                    if let Measurement::Pair(options) = repeat {
                        options.kernel.clone_from(&name);
                    }
                }
                std::mem::take(&mut self.wanted)
            }
        };
        if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let measured = measure_all(&wanted, folder, &self.command);
        progress::clear();
        if self.first.is_none() {
            self.wanted = wanted;
        }
        let (outcomes, problem) = measured?;
        if let Some(problem) = problem {
            return Err(problem);
        }
        Ok(Input { label: None, runs: outcomes.into_iter().map(|run| (release.to_owned(), run)).collect() })
    }

    /// Compare the counts of two kernels.
    pub(crate) fn compared(&self, before: &Input, after: &Input, margin: f64) -> Result<Comparison> {
        let command = self.command.clone();
        let options = CompareOptions { command, seed: 1, margin, ..CompareOptions::default() };
        Ok(compare(&[before.clone(), after.clone()], &options)?.comparison)
    }
}

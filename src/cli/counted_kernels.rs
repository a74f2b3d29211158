//! Count many kernels with one workload, each once: what searches compare.

use super::check_runs::{again, measure_all};
use super::run::{GivenFlags, given_flags};
use super::sizing_args::SizingArgs;
use super::stored_runs;
use super::workload_args::check_distinct;
use crate::compare::{CompareOptions, Comparison, Input, compare};
use crate::experiment::PlanFile;
use crate::result::Measurement;
use crate::run::MeasurePair as _;
use crate::search::effect::Untestable;
use crate::util::folder_lock::FolderLock;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{build as this_build, cancel, progress};
use crate::vm::compile::{self, BuildFailed, BuildRequest};
use crate::vm::store::{CachedKernel, KernelCache};
use crate::workload::WorkloadRequest;
use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The workload that is counted.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Measurement")]
pub(super) struct CountArgs {
    /// Mode of `pipeprof run`; several are counted one after the other [default: write]
    #[arg(long, value_name = "MODE,...", value_delimiter = ',')]
    pub(super) mode: Vec<String>,
    /// Number of CPUs of the guests
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) cpus: Vec<u32>,
    #[command(flatten)]
    pub(super) sizing: SizingArgs,
    /// Other flags of `pipeprof run`, such as --run-flags '--buffer-size 64K'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "", hide_default_value = true)]
    pub(super) run_flags: String,
    /// Folder for the counts [default: not stored]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Use the counts in -o DIR, of a search with the same workload
    #[arg(long, requires = "output", help_heading = "Output")]
    pub(super) resume: bool,
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
pub(super) struct CountedKernels {
    given: GivenFlags,
    wanted: Vec<Measurement>,
    first: Option<Rc<Input>>,
    /// By release.
    known: BTreeMap<String, Rc<Input>>,
    /// The folder of results, and the lock of the one around it.
    folder: Option<(PathBuf, FolderLock)>,
    /// How many were counted, or read from the folder.
    pub count: usize,
}

/// A kernel that was built, and its counts.
pub(super) struct CountedBuild {
    pub kernel: CachedKernel,
    pub input: Rc<Input>,
}

impl CountArgs {
    /// # Errors
    /// A usage error that names the flag.
    pub(super) fn prepare(&self) -> Result<CountedKernels> {
        check_distinct(&self.mode)?;
        let mut given = given_flags("--run-flags", &self.run_flags)?;
        self.sizing.apply(&mut given.options);
        for (flag, is_given) in [
            ("--mode", given.options.workload.mode.is_some()),
            ("--kernel", given.options.kernel.is_some()),
            ("--cpus", given.machine.cpus.is_some()),
        ] {
            if is_given {
                bail!(UsageError::new(format!("--run-flags contains {flag}; give it outside, or leave it out")));
            }
        }
        let default = [WorkloadRequest::DEFAULT_MODE.to_owned()];
        let modes = if self.mode.is_empty() { &default[..] } else { &self.mode[..] };
        let mut wanted = Vec::new();
        for (mode, cpus) in modes.iter().flat_map(|mode| self.cpus.iter().map(move |cpus| (mode, cpus))) {
            let mut options = given.options.clone();
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
        let sizing = &given.options.sizing;
        let plan = CountPlan {
            schema: PLAN_FILE.schema,
            build: this_build::version(),
            modes,
            cpus: &self.cpus,
            precision: sizing.precision,
            window_limit: sizing.limit,
            run_flags: &self.run_flags,
        };
        let open = |folder: &PathBuf| {
            let lock = PLAN_FILE.open(folder, &plan, self.resume).or_usage()?;
            Ok::<_, anyhow::Error>((folder.join(PLAN_FILE.results), lock))
        };
        let folder = self.output.as_ref().map(open).transpose()?;
        let bare = given_flags("--run-flags", "")?;
        Ok(CountedKernels { given: bare, wanted, first: None, known: BTreeMap::new(), folder, count: 0 })
    }
}

impl CountedKernels {
    /// The counts of the kernel with this release.
    pub(super) fn of(&mut self, release: &str) -> Result<Rc<Input>> {
        if let Some(input) = self.known.get(release) {
            return Ok(Rc::clone(input));
        }
        let folder = self.folder.as_ref().map(|(results, _)| results.join(release));
        let stored = folder.as_deref().filter(|folder| folder.is_dir()).map(stored_runs::column);
        let input = match stored {
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
    pub(super) fn built(
        &mut self,
        cache: &KernelCache,
        request: &BuildRequest,
        what: String,
        say: &dyn Fn(&str),
        untestable: &mut Vec<Untestable>,
    ) -> Result<Option<CountedBuild>> {
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
        let measured = measure_all(&wanted, folder);
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
}

/// Compare the counts of two kernels.
pub(super) fn compared(before: &Input, after: &Input, margin: f64) -> Result<Comparison> {
    let options = CompareOptions { command: super::command_line(), seed: 1, margin, ..CompareOptions::default() };
    Ok(compare(&[before.clone(), after.clone()], &options)?.comparison)
}

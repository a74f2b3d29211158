//! Run a plan with [`crate::experiment`]: the list of runs, and the folder of each.

use super::input::{self, Input};
use super::model::MissingCell;
use super::plan::{ColumnPlan, MatrixPlan, SCHEMA};
use crate::document::Outcome;
use crate::experiment::{self, Ending, Event, Executor, Interrupted, Lane, StoredPlan, Task};
use crate::report::files::{self, Folder};
use crate::run::RunOptions;
use crate::util::folder_lock::FolderLock;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The plan's file in the folder of a matrix.
pub const PLAN: &str = "matrix.json";
const RUNS: &str = "runs";

/// One run of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixRun {
    /// Index of the column; the number of columns for the control.
    pub column: usize,
    pub mode: String,
    /// CPUs of the guest, if the plan has several numbers of them.
    pub cpus: Option<u32>,
    pub block: usize,
    pub options: RunOptions,
}

/// Executes one run.
pub trait Runner: Sync {
    /// # Errors
    /// The reason of the failure, in one line.
    fn run(&self, run: &MatrixRun) -> Result<Outcome>;
}

/// The results of a matrix.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub inputs: Vec<Input>,
    pub control: Option<Input>,
    pub missing: Vec<MissingCell>,
    /// How it ended, if a stop rule was given.
    pub ending: Option<Ending>,
}

impl MatrixPlan {
    /// The experiment: one lane per mode, number of CPUs and column, and one per mode for the control. Exact runs keep this order;
    /// timed runs are shuffled within each block.
    #[must_use]
    pub(crate) fn experiment(&self) -> experiment::Plan<MatrixRun> {
        let mut lanes = Vec::new();
        for case in self.cases() {
            for (column, plan) in self.columns.iter().enumerate() {
                lanes.push(Lane { cell: self.at(column, plan, case, 0), control: false });
            }
            if let (true, Some(first)) = (self.control, self.columns.first()) {
                lanes.push(Lane { cell: self.at(self.columns.len(), first, case, 0), control: true });
            }
        }
        experiment::Plan {
            lanes,
            shuffled: self.pairs.is_some(),
            stop: self.stop,
            ..experiment::Plan::new([], self.blocks, self.seed)
        }
    }

    /// `run` in another block.
    fn in_block(&self, run: &MatrixRun, block: usize) -> MatrixRun {
        let column = self.columns.get(run.column).or(self.columns.first());
        column.map_or_else(|| run.clone(), |column| self.at(run.column, column, (&run.mode, run.cpus), block))
    }

    fn at(&self, column: usize, plan: &ColumnPlan, (mode, cpus): (&str, Option<u32>), block: usize) -> MatrixRun {
        let mut options = plan.options.clone();
        options.workload.mode = Some(mode.to_owned());
        options.machine.cpus = cpus.or(options.machine.cpus);
        if let Some(pairs) = self.pairs {
            (options.runs, options.seed) = (Some(pairs), self.seed + block as u64);
        }
        MatrixRun { column, mode: mode.to_owned(), cpus, block, options }
    }

    fn label(&self, column: usize) -> String {
        match self.columns.get(column) {
            Some(plan) => plan
                .label
                .clone()
                .or_else(|| plan.options.kernel.clone())
                .unwrap_or_else(|| format!("column {}", column + 1)),
            None => "control".to_owned(),
        }
    }
}

impl StoredPlan for MatrixPlan {
    const FILE: &'static str = PLAN;
    const RESULTS: &'static str = RUNS;
    const SCHEMA: &'static str = SCHEMA;
    const WHAT: &'static str = "comparison";

    fn difference(&self, now: &Self) -> Option<&'static str> {
        if self.build != now.build {
            Some("another build of pipeprof")
        } else if self.modes != now.modes {
            Some("other modes")
        } else if self.cpus != now.cpus {
            Some("other numbers of CPUs")
        } else if self.columns != now.columns {
            Some("other columns, or a kernel image that changed since")
        } else if self != now {
            Some("other numbers of pairs or boots, another seed or another rule to stop")
        } else {
            None
        }
    }
}

/// The folder of a matrix: the plan, and one folder per finished run.
#[derive(Debug)]
pub struct MatrixStore {
    folder: PathBuf,
    /// Nobody else writes into the folder meanwhile.
    _lock: FolderLock,
}

impl MatrixStore {
    /// Create the folder for `plan`, or resume one with the same plan.
    ///
    /// # Errors
    /// When the folder exists without `resume`, contains another plan, or is in use.
    pub fn open(folder: &Path, plan: &MatrixPlan, resume: bool) -> Result<Self> {
        Ok(Self { _lock: experiment::open(folder, plan, resume)?, folder: folder.to_owned() })
    }

    fn path(&self, plan: &MatrixPlan, run: &MatrixRun) -> PathBuf {
        let plain = |text: &str| -> String {
            text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
        };
        let several = plan.blocks > 1 || plan.stop.until.is_some();
        let block = if several { format!("-{}", run.block + 1) } else { String::new() };
        let cpus = run.cpus.map(|cpus| format!("-{cpus}cpu")).unwrap_or_default();
        let name =
            format!("{:02}-{}-{}{cpus}{block}", run.column + 1, plain(&plan.label(run.column)), plain(&run.mode));
        self.folder.join(RUNS).join(name)
    }
}

/// The runs of `plan` in their folders.
struct RunFolders<'a> {
    plan: &'a MatrixPlan,
    store: &'a MatrixStore,
}

impl experiment::Store<MatrixRun, Outcome> for RunFolders<'_> {
    fn kept(&self, run: &MatrixRun, task: Task) -> Option<Outcome> {
        let path = self.store.path(self.plan, &self.plan.in_block(run, task.block));
        files::load_whole(&path).ok()
    }

    fn keep(&self, run: &MatrixRun, task: Task, mut outcome: Outcome) -> Result<Outcome> {
        let path = self.store.path(self.plan, &self.plan.in_block(run, task.block));
        if path.exists() {
            // Left by a run that could not be read back.
            std::fs::remove_dir_all(&path).with_context(|| format!("cannot replace {}", path.display()))?;
        }
        let folder = Folder::prepare(Some(&path), &outcome.document.started, &run.mode)?;
        folder.write(&mut outcome)?;
        Ok(outcome)
    }
}

struct Runs<'a> {
    plan: &'a MatrixPlan,
    runner: &'a dyn Runner,
}

impl Executor<MatrixRun> for Runs<'_> {
    type Output = Outcome;

    fn run(&self, run: &MatrixRun, task: Task) -> Result<Outcome> {
        self.runner.run(&self.plan.in_block(run, task.block))
    }

    /// Time per KiB of each unprofiled run, on which the verdict of a timed comparison is based.
    fn values(&self, _: &MatrixRun, outcome: &Outcome) -> Vec<f64> {
        input::pair_times(outcome)
    }
}

/// Execute the runs of `plan` that are not in `store`, `jobs` in parallel.
///
/// # Errors
/// An interruption; finished runs are kept. A failed run is part of the results.
pub fn run(
    plan: &MatrixPlan,
    store: &MatrixStore,
    jobs: usize,
    runner: &dyn Runner,
    watch: &(dyn Fn(&Event<'_, MatrixRun>) + Sync),
) -> Result<Results> {
    let experiment = plan.experiment();
    let finished = experiment::run_jobs(&experiment, jobs, &Runs { plan, runner }, &RunFolders { plan, store }, watch)
        .map_err(|error| match error.downcast_ref::<Interrupted>() {
            Some(interrupted) => anyhow::anyhow!(
                "interrupted after {} of {} runs, which are kept in {}: repeat the command with --resume to continue",
                interrupted.done,
                interrupted.of,
                store.folder.display()
            ),
            None => error,
        })?;
    let mut results = Results {
        inputs: plan.columns.iter().map(|column| Input { label: column.label.clone(), runs: Vec::new() }).collect(),
        control: plan.control.then(Input::default),
        missing: Vec::new(),
        ending: (!plan.stop.is_none()).then_some(finished.ending),
    };
    let mut entries = finished.entries;
    // Lanes are ordered by mode, then by column.
    entries.sort_by_key(|entry| (entry.block, entry.lane));
    for entry in entries {
        let Some(lane) = experiment.lanes.get(entry.lane) else { continue };
        let run = plan.in_block(&lane.cell, entry.block);
        match entry.result {
            Ok(outcome) => {
                let path = store.path(plan, &run);
                let name = path.strip_prefix(&store.folder).unwrap_or(&path).join(files::DOCUMENT);
                let runs = match results.inputs.get_mut(run.column).filter(|_| !lane.control) {
                    Some(input) => &mut input.runs,
                    None => &mut results.control.get_or_insert_default().runs,
                };
                runs.push((name.display().to_string(), outcome));
            }
            Err(reason) => {
                results.missing.push(MissingCell {
                    column: plan.label(run.column),
                    mode: run.mode,
                    cpus: run.cpus,
                    reason,
                });
            }
        }
    }
    Ok(results)
}

/// The number of parallel guests: at most one per CPU, and with a fifth of the memory left free.
#[must_use]
pub fn default_jobs(cpus: usize, available_bytes: Option<u64>, guest_bytes: u64) -> usize {
    // QEMU's memory without the guest's: translation buffer and tables.
    const OVERHEAD: u64 = 512 << 20;
    let by_memory = available_bytes.map_or(usize::MAX, |available| {
        usize::try_from(available / 5 * 4 / (guest_bytes + OVERHEAD)).unwrap_or(usize::MAX)
    });
    cpus.min(by_memory).max(1)
}

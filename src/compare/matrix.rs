//! Run a plan with [`crate::experiment`]: the list of runs, and the folder of each.

use super::input::{self, Input};
use super::model::MissingCell;
use super::plan::{ColumnPlan, MatrixPlan, SCHEMA};
use crate::experiment::{self, Ending, Event, Executor, Interrupted, PlanFile, Task, TaskResult};
use crate::report::files::Folder;
use crate::result::{self, Document, Outcome, RESULT_FILE};
use crate::run::{RunOptions, WindowSizing};
use crate::util::folder_lock::FolderLock;
use crate::util::warning::WarningCode;
use crate::workload::Spec;
use crate::workload::spec::Amount;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The plan's file in the folder of a matrix.
pub const PLAN: &str = "matrix.json";
const RUNS: &str = "runs";
const PLAN_FILE: PlanFile = PlanFile { name: PLAN, schema: SCHEMA, results: RUNS, what: "comparison" };

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
    pub fn experiment(&self) -> experiment::Plan<MatrixRun> {
        let mut lanes = Vec::new();
        for case in self.cases() {
            for (column, plan) in self.columns.iter().enumerate() {
                lanes.push(self.at(column, plan, case, 0));
            }
            if let (true, Some(first)) = (self.control, self.columns.first()) {
                lanes.push(self.at(self.columns.len(), first, case, 0));
            }
        }
        experiment::Plan {
            lanes,
            shuffled: self.runs.is_some(),
            stop: self.stop,
            ..experiment::Plan::new([], self.blocks, self.seed)
        }
    }

    /// `run` in another block.
    fn in_block(&self, run: &MatrixRun, block: usize) -> MatrixRun {
        let mut run = MatrixRun { block, ..run.clone() };
        if self.runs.is_some() {
            run.options.seed = self.seed + block as u64;
        }
        run
    }

    fn at(&self, column: usize, plan: &ColumnPlan, (mode, cpus): (&str, Option<u32>), block: usize) -> MatrixRun {
        let mut options = plan.options.clone();
        options.workload.mode = Some(mode.to_owned());
        options.machine.cpus = cpus.or(options.machine.cpus);
        if let Some(runs) = self.runs {
            (options.runs, options.seed) = (Some(runs), self.seed + block as u64);
        }
        MatrixRun { column, mode: mode.to_owned(), cpus, block, options }
    }

    /// The name of a column, or of the control.
    pub fn label(&self, column: usize) -> String {
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
        Ok(Self { _lock: PLAN_FILE.open(folder, plan, resume)?, folder: folder.to_owned() })
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

/// The runs of `plan`: measured, and in their folders.
struct Runs<'a> {
    plan: &'a MatrixPlan,
    store: &'a MatrixStore,
    measure: &'a (dyn Fn(&MatrixRun) -> Result<Outcome> + Sync),
}

impl experiment::Store<MatrixRun, Outcome> for Runs<'_> {
    fn kept(&self, run: &MatrixRun, task: Task) -> Option<Outcome> {
        let path = self.store.path(self.plan, &self.plan.in_block(run, task.block));
        let kept = result::open(&path).ok()?;
        // Windows of another size may have been needed since.
        let (wanted, has) = (&run.options.workload, kept.document.target.workload()?);
        let size = wanted.amount.is_none_or(|amount| amount == has.amount);
        // A source is either wanted by the columns' options, and then always, or by this comparison.
        let source = wanted.overrides.get("source").is_none() || has.source.is_some();
        (size && source).then_some(kept)
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

impl Executor<MatrixRun> for Runs<'_> {
    type Output = Outcome;

    fn run(&self, run: &MatrixRun, task: Task) -> Result<Outcome> {
        (self.measure)(&self.plan.in_block(run, task.block))
    }

    /// Time per KiB of each unprofiled run, on which the verdict of a timed comparison is based.
    fn values(&self, _: &MatrixRun, outcome: &Outcome) -> Vec<f64> {
        input::pair_times(outcome)
    }
}

/// The lanes to count again, with a source that all kernels can use: some of the columns of their case could not use the
/// default one, and others could.
fn in_equal_work(experiment: &experiment::Plan<MatrixRun>, entries: &[TaskResult<Outcome>]) -> Vec<(usize, MatrixRun)> {
    let counted = || {
        entries.iter().filter_map(|entry| {
            let (lane, document) = (experiment.lanes.get(entry.lane)?, &entry.result.as_ref().ok()?.document);
            let default = document.target.workload()?.source.is_none();
            (document.ensemble.is_some() && default).then_some((entry.lane, lane, document))
        })
    };
    let case = |lane: &MatrixRun| (lane.mode.clone(), lane.cpus);
    let other =
        |document: &Document| document.warnings.iter().any(|warning| warning.code == WarningCode::WorkloadChanged);
    let again = |(number, lane, _): (usize, &MatrixRun, &Document)| {
        let others =
            || counted().filter(|(_, column, _)| case(column) == case(lane)).map(|(.., document)| other(document));
        let mut lane = lane.clone();
        lane.options.workload.use_source_of_every_kernel();
        (others().any(|other| other) && !others().all(|other| other)).then_some((number, lane))
    };
    counted().filter_map(again).collect()
}

/// The lanes to count again, in windows as large as the largest of any column that does the same work: a kernel's counts
/// depend a little on the size of its windows.
fn in_equal_windows(
    experiment: &experiment::Plan<MatrixRun>,
    entries: &[TaskResult<Outcome>],
) -> Vec<(usize, MatrixRun)> {
    let found = || {
        entries.iter().filter_map(|entry| {
            let (lane, document) = (experiment.lanes.get(entry.lane)?, &entry.result.as_ref().ok()?.document);
            document.ensemble.as_ref()?.sizing.as_ref()?;
            let workload = document.target.workload()?;
            let Amount::Bytes(bytes) = workload.amount else { return None };
            // All but the size of the window.
            let work = (lane.cpus, Spec { amount: Amount::Bytes(0), ..workload.clone() });
            Some((entry.lane, lane, work, bytes))
        })
    };
    let again = |(number, lane, work, bytes): (usize, &MatrixRun, (Option<u32>, Spec), u64)| {
        let most = found().filter(|other| other.2 == work).map(|other| other.3).max()?;
        let mut lane = lane.clone();
        lane.options.workload.amount = Some(Amount::Bytes(most));
        lane.options.sizing = WindowSizing::default();
        (bytes < most).then_some((number, lane))
    };
    found().filter_map(again).collect()
}

/// Execute the runs of `plan` that are not in `store`, `jobs` in parallel, by `measure`.
///
/// # Errors
/// An interruption; finished runs are kept. A failed run is part of the results.
pub fn run(
    plan: &MatrixPlan,
    store: &MatrixStore,
    jobs: usize,
    measure: &(dyn Fn(&MatrixRun) -> Result<Outcome> + Sync),
    watch: &(dyn Fn(&Event<'_, MatrixRun>) + Sync),
) -> Result<Results> {
    let mut experiment = plan.experiment();
    let runs = Runs { plan, store, measure };
    let run = |experiment: &experiment::Plan<MatrixRun>| {
        experiment::run_jobs(experiment, jobs, &runs, &runs, watch)
            .map_err(|error| Interrupted::kept(error, "run", &store.folder, "repeat the command with --resume"))
    };
    let mut finished = run(&experiment)?;
    // What the first counts show to be needed.
    for changed in [in_equal_work, in_equal_windows] {
        let (places, lanes): (Vec<usize>, Vec<MatrixRun>) = changed(&experiment, &finished.entries).into_iter().unzip();
        if lanes.is_empty() {
            continue;
        }
        let again = run(&experiment::Plan { lanes: lanes.clone(), ..experiment.clone() })?;
        for (place, lane) in places.iter().zip(lanes) {
            experiment.lanes[*place] = lane;
        }
        for mut entry in again.entries {
            entry.lane = places[entry.lane];
            finished.entries.retain(|before| (before.lane, before.block) != (entry.lane, entry.block));
            finished.entries.push(entry);
        }
    }
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
        let run = plan.in_block(lane, entry.block);
        match entry.result {
            Ok(outcome) => {
                let path = store.path(plan, &run);
                let name = path.strip_prefix(&store.folder).unwrap_or(&path).join(RESULT_FILE);
                let runs = match results.inputs.get_mut(run.column) {
                    Some(input) => &mut input.runs,
                    // A control is no column.
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
    name_by_file(plan, &mut results.inputs);
    Ok(results)
}

/// Name the columns of kernels that were given as files after these, where their releases do not distinguish them.
fn name_by_file(plan: &MatrixPlan, inputs: &mut [Input]) {
    let release = |input: &Input| input.runs.first().map(|(_, outcome)| outcome.document.kernel.release.clone());
    let releases: Vec<Option<String>> = inputs.iter().map(release).collect();
    let paths: Vec<Option<PathBuf>> = plan
        .columns
        .iter()
        .zip(&releases)
        .map(|(column, own)| {
            let shared = releases.iter().filter(|other| *other == own).count() > 1;
            column.options.kernel.as_ref().filter(|_| shared && column.label.is_none()).map(PathBuf::from)
        })
        .collect();
    for (input, name) in inputs.iter_mut().zip(endings(&paths)) {
        input.label = name.or(input.label.take());
    }
}

/// The shortest ends of paths that tell them apart: the file, with as many folders as that needs.
fn endings(paths: &[Option<PathBuf>]) -> Vec<Option<String>> {
    let ending = |path: &Path, parts: usize| -> PathBuf {
        let all: Vec<_> = path.components().collect();
        all[all.len().saturating_sub(parts)..].iter().collect()
    };
    let name = |path: &PathBuf| {
        let others = || paths.iter().flatten().filter(|other| *other != path);
        let parts = (1..=path.components().count())
            .find(|parts| others().all(|other| ending(other, *parts) != ending(path, *parts)))
            .unwrap_or(1);
        ending(path, parts).display().to_string()
    };
    paths.iter().map(|path| path.as_ref().map(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_named_by_as_much_of_their_paths_as_differs() {
        let paths = ["/a/k1/bzImage", "/a/k2/bzImage", "/a/old", "", "/a/old"];
        let paths: Vec<Option<PathBuf>> =
            paths.iter().map(|path| (!path.is_empty()).then(|| PathBuf::from(path))).collect();
        let names: Vec<Option<String>> = endings(&paths);
        let names: Vec<&str> = names.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
        assert_eq!(names, ["k1/bzImage", "k2/bzImage", "old", "-", "old"]);
    }
}

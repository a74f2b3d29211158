//! Running a plan: cells in parallel up to a number of jobs, each stored as it ends, none repeated on resuming.

use super::input::Input;
use super::model::Missing;
use super::plan::{ColumnPlan, Plan, SCHEMA};
use crate::document::Outcome;
use crate::report::files::{self, Folder};
use crate::run::RunOptions;
use crate::util::{atomic_file, cancel};
use anyhow::{Context as _, Result, bail, ensure};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The plan's file in the folder of a matrix.
pub const PLAN: &str = "matrix.json";
const RUNS: &str = "runs";

/// What every plan has, of whatever form.
#[derive(Deserialize)]
struct Schema {
    schema: String,
}

/// One run of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Index of the column; the number of columns for the control.
    pub column: usize,
    pub mode: String,
    pub block: usize,
    pub options: RunOptions,
}

/// What runs a cell.
pub trait Runner: Sync {
    /// # Errors
    /// Why it has no outcome, in one line.
    fn run(&self, cell: &Cell) -> Result<Outcome>;
}

/// Where a cell stands, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Kept,
    Running,
    Done,
    Failed(String),
}

/// What came of a matrix.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub inputs: Vec<Input>,
    pub control: Option<Input>,
    pub missing: Vec<Missing>,
}

impl Plan {
    /// All cells in the order in which they start: exact ones as listed, timed ones shuffled within each block.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut random = SmallRng::seed_from_u64(self.seed);
        let mut cells = Vec::new();
        for block in 0..self.blocks {
            let start = cells.len();
            for mode in &self.modes {
                for (column, plan) in self.columns.iter().enumerate() {
                    cells.push(self.cell(column, plan, mode, block));
                }
                if let (true, Some(first)) = (self.control, self.columns.first()) {
                    cells.push(self.cell(self.columns.len(), first, mode, block));
                }
            }
            if self.pairs.is_some() {
                cells[start..].shuffle(&mut random);
            }
        }
        cells
    }

    fn cell(&self, column: usize, plan: &ColumnPlan, mode: &str, block: usize) -> Cell {
        let mut options = plan.options.clone();
        options.workload.mode = Some(mode.to_owned());
        if let Some(pairs) = self.pairs {
            (options.runs, options.seed) = (Some(pairs), self.seed + block as u64);
        }
        Cell { column, mode: mode.to_owned(), block, options }
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

/// The folder of a matrix: the plan, and one folder per finished run.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Make the folder for `plan`, or go on with one that holds the same plan.
    ///
    /// # Errors
    /// A folder that exists and is not to be resumed, or holds another plan.
    pub fn open(folder: &Path, plan: &Plan, resume: bool) -> Result<Self> {
        let file = folder.join(PLAN);
        if resume {
            let text = std::fs::read(&file).with_context(|| {
                format!("--resume: cannot read {}: is -o the folder of an interrupted comparison?", file.display())
            })?;
            // First, since a plan of another form cannot be read any further.
            let schema = serde_json::from_slice(&text).map_or_else(|_| String::new(), |stored: Schema| stored.schema);
            ensure!(
                schema.is_empty() || schema == SCHEMA,
                "--resume: {} has schema {schema}, this pipeprof writes {SCHEMA}: start again without --resume",
                file.display()
            );
            let stored: Plan = serde_json::from_slice(&text).with_context(|| {
                format!("--resume: {} is no plan of this pipeprof: start again without --resume", file.display())
            })?;
            if let Some(what) = difference(&stored, plan) {
                bail!(
                    "--resume: {} was planned otherwise ({what}): give the same flags, or another -o",
                    folder.display()
                );
            }
        } else {
            if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
                let hint = if file.exists() { "go on with it by --resume, " } else { "" };
                bail!(
                    "the report folder {} exists and is not empty: {hint}choose another with -o, or remove it",
                    folder.display()
                );
            }
            std::fs::create_dir_all(folder.join(RUNS))
                .with_context(|| format!("cannot make the folder {}: choose another with -o", folder.display()))?;
            atomic_file::write(&file, &serde_json::to_vec_pretty(plan)?)?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, plan: &Plan, cell: &Cell) -> PathBuf {
        let plain = |text: &str| -> String {
            text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
        };
        let block = if plan.blocks > 1 { format!("-{}", cell.block + 1) } else { String::new() };
        let name = format!("{:02}-{}-{}{block}", cell.column + 1, plain(&plan.label(cell.column)), plain(&cell.mode));
        self.folder.join(RUNS).join(name)
    }

    fn kept(&self, plan: &Plan, cell: &Cell) -> Option<Outcome> {
        let path = self.path(plan, cell);
        let mut outcome = files::load(&path).ok()?;
        outcome.code = files::load_code(&path).ok();
        Some(outcome)
    }
}

fn difference(stored: &Plan, plan: &Plan) -> Option<&'static str> {
    if stored.build != plan.build {
        Some("by another build of pipeprof")
    } else if stored.modes != plan.modes {
        Some("other modes")
    } else if stored.columns != plan.columns {
        Some("other columns, or a kernel image that changed since")
    } else if stored != plan {
        Some("other numbers of pairs or boots, or another seed")
    } else {
        None
    }
}

/// Run all cells of `plan` that `store` does not have yet, `jobs` at a time.
///
/// # Errors
/// An interruption: what is finished is kept. A cell that fails is part of the results.
pub fn run(
    plan: &Plan,
    store: &Store,
    jobs: usize,
    runner: &dyn Runner,
    watch: &(dyn Fn(&Cell, &State) + Sync),
) -> Result<Results> {
    let cells = plan.cells();
    let outcomes: Vec<Mutex<Option<Result<Outcome>>>> = cells.iter().map(|_| Mutex::new(None)).collect();
    let put = |index: usize, outcome: Result<Outcome>| {
        if let Ok(mut slot) = outcomes[index].lock() {
            *slot = Some(outcome);
        }
    };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(index) else { return };
                    if cancel::happened() {
                        return;
                    }
                    if let Some(outcome) = store.kept(plan, cell) {
                        watch(cell, &State::Kept);
                        put(index, Ok(outcome));
                        continue;
                    }
                    watch(cell, &State::Running);
                    let outcome = runner.run(cell).and_then(|outcome| keep(plan, store, cell, outcome));
                    match &outcome {
                        Ok(_) => watch(cell, &State::Done),
                        Err(error) => watch(cell, &State::Failed(format!("{error:#}"))),
                    }
                    put(index, outcome);
                }
            });
        }
    });
    if cancel::happened() {
        let done = outcomes.iter().filter(|slot| slot.lock().is_ok_and(|slot| matches!(*slot, Some(Ok(_))))).count();
        bail!(
            "interrupted with {done} of {} runs done, kept in {}: go on with the same command and --resume",
            cells.len(),
            store.folder.display()
        );
    }
    Ok(gather(plan, store, cells, outcomes))
}

fn keep(plan: &Plan, store: &Store, cell: &Cell, mut outcome: Outcome) -> Result<Outcome> {
    let path = store.path(plan, cell);
    if path.exists() {
        // Left by a run that could not be read back: nothing of worth is in it.
        std::fs::remove_dir_all(&path).with_context(|| format!("cannot replace {}", path.display()))?;
    }
    let folder = Folder::prepare(Some(&path), &outcome.document.started, &cell.mode)?;
    folder.write(&mut outcome)?;
    Ok(outcome)
}

fn gather(plan: &Plan, store: &Store, cells: Vec<Cell>, outcomes: Vec<Mutex<Option<Result<Outcome>>>>) -> Results {
    let mut results = Results {
        inputs: plan.columns.iter().map(|column| Input { label: column.label.clone(), runs: Vec::new() }).collect(),
        control: plan.control.then(Input::default),
        missing: Vec::new(),
    };
    let mut ordered: Vec<(Cell, Option<Result<Outcome>>)> =
        cells.into_iter().zip(outcomes.into_iter().map(|slot| slot.into_inner().unwrap_or(None))).collect();
    ordered.sort_by_key(|(cell, _)| (cell.block, plan.modes.iter().position(|mode| *mode == cell.mode), cell.column));
    for (cell, outcome) in ordered {
        let name = match store.path(plan, &cell).strip_prefix(&store.folder) {
            Ok(relative) => relative.join(files::DOCUMENT).display().to_string(),
            Err(_) => String::new(),
        };
        match outcome {
            Some(Ok(outcome)) => match results.inputs.get_mut(cell.column) {
                Some(input) => input.runs.push((name, outcome)),
                None => results.control.get_or_insert_default().runs.push((name, outcome)),
            },
            Some(Err(error)) => results.missing.push(Missing {
                column: plan.label(cell.column),
                mode: cell.mode,
                reason: format!("{error:#}"),
            }),
            None => {}
        }
    }
    results
}

/// As many guests at a time as there are CPUs, and memory for all of them with a fifth to spare.
#[must_use]
pub fn default_jobs(cpus: usize, available_bytes: Option<u64>, guest_bytes: u64) -> usize {
    // QEMU's own memory beside the guest's: its translation buffer and tables.
    const OVERHEAD: u64 = 512 << 20;
    let by_memory = available_bytes.map_or(usize::MAX, |available| {
        usize::try_from(available / 5 * 4 / (guest_bytes + OVERHEAD)).unwrap_or(usize::MAX)
    });
    cpus.min(by_memory).max(1)
}

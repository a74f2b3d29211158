//! Matrices with a mock runner: what runs, what is kept, what is resumed.

use super::synthetic::{newer, older, timed};
use pipeprof::compare::matrix::{self, MatrixRun, MatrixStore};
use pipeprof::compare::plan::{self, Axes, MatrixPlan};
use pipeprof::compare::{CompareOptions, Input, compare, render};
use pipeprof::experiment::{EndedBy, Event, State, StopRule};
use pipeprof::profile::SchedulingWeight;
use pipeprof::result::{Document, Ensemble, FoundSize, Outcome, PairRecord, TriedSize, Warning, WindowCount};
use pipeprof::workload::spec::Amount;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn plan(blocks: usize, pairs: Option<u32>) -> MatrixPlan {
    let kernels = ["6.12", "7.2", "7.3"].map(str::to_owned).to_vec();
    MatrixPlan {
        schema: plan::SCHEMA.to_owned(),
        build: "test".to_owned(),
        columns: plan::columns(&Axes { kernels, ..Axes::default() }).unwrap(),
        modes: vec!["write".to_owned(), "vmsplice".to_owned()],
        cpus: Vec::new(),
        blocks,
        runs: pairs,
        control: pairs.is_some(),
        seed: 7,
        stop: StopRule::default(),
    }
}

/// Returns synthetic outcomes, records what it ran, and fails for one kernel if requested.
#[derive(Default)]
struct Made {
    ran: Mutex<Vec<MatrixRun>>,
    at_once: AtomicUsize,
    most: AtomicUsize,
    wait_for: usize,
    broken: Option<&'static str>,
    /// Throughput of each run's pairs, for timed ones.
    gib_s: &'static [f64],
}

impl Made {
    fn run(&self, cell: &MatrixRun) -> anyhow::Result<Outcome> {
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Wait until as many run in parallel as the test expects, however slow the machine is.
        let start = std::time::Instant::now();
        while self.most.load(Ordering::SeqCst) < self.wait_for && start.elapsed().as_secs() < 120 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        self.ran.lock().unwrap().push(cell.clone());
        if self.broken.is_some_and(|kernel| cell.options.kernel.as_deref() == Some(kernel)) {
            anyhow::bail!("the kernel panicked: VFS: Unable to mount root fs");
        }
        if !self.gib_s.is_empty() {
            return Ok(timed(if cell.column == 0 { "6.12" } else { "7.2" }, &cell.mode, self.gib_s));
        }
        let mut outcome = if cell.column == 0 { older() } else { newer() };
        outcome.document.mode.clone_from(&cell.mode);
        Ok(outcome)
    }
}

/// Column 0 cannot splice from the default source; the columns need windows of different sizes.
#[derive(Default)]
struct Unlike(Mutex<Vec<MatrixRun>>);

impl Unlike {
    fn run(&self, cell: &MatrixRun) -> anyhow::Result<Outcome> {
        self.0.lock().unwrap().push(cell.clone());
        let mut outcome = older();
        let document = &mut outcome.document;
        document.mode.clone_from(&cell.mode);
        let memory = serde_json::to_string(&cell.options)?.contains("memory\"}");
        document.target.workload_mut().unwrap().source = memory.then(|| "memory".into());
        if cell.column == 0 && !memory {
            document.warnings.push(Warning {
                code: pipeprof::util::warning::WarningCode::WorkloadChanged,
                message: "writer: this kernel cannot".into(),
                action: String::new(),
            });
        }
        let given = cell.options.workload.amount;
        let bytes = 1 << (24 + 2 * cell.column);
        document.target.workload_mut().unwrap().amount = given.unwrap_or(Amount::Bytes(bytes));
        let window = WindowCount {
            tick_offset_ns: 0,
            warmup_blocks: 0,
            instructions: 1,
            scheduling: SchedulingWeight::default(),
            rep_bytes: None,
        };
        let tried = vec![TriedSize { bytes, spread: 0.0 }];
        let sizing = given.is_none().then_some(FoundSize { precision: 0.002, tried });
        document.ensemble = Some(Ensemble { shown: 0, windows: vec![window; 3], sizing, first_digest: None });
        outcome.windows = vec![outcome.profiles.clone(); 3];
        let record = PairRecord { processes: outcome.document.processes.clone(), ..PairRecord::default() };
        outcome.document.runs = vec![record; 3];
        Ok(outcome)
    }
}

#[test]
fn columns_do_the_same_work_in_windows_of_one_size() {
    let folder = tempfile::tempdir().unwrap();
    let plan = MatrixPlan { modes: vec!["splice".to_owned()], ..plan(1, None) };
    let open = |resume| MatrixStore::open(&folder.path().join("out"), &plan, resume).unwrap();
    let runner = Unlike::default();
    let results = matrix::run(&plan, &open(false), 1, &|run| runner.run(run), &ignore).unwrap();
    let documents: Vec<&Document> = results.inputs.iter().map(|input| &input.runs[0].1.document).collect();
    assert!(
        documents
            .iter()
            .all(|document| document.target.workload().unwrap().source.is_some() && document.warnings.is_empty())
    );
    assert!(
        documents.iter().all(|document| document.target.workload().unwrap().amount == Amount::Bytes(1 << 28)),
        "the largest"
    );
    // Each with its own source, each with the common one, and two of them in larger windows.
    assert_eq!(runner.0.lock().unwrap().len(), 3 + 3 + 2);
    // The same command continues, and finds nothing to do.
    let again = Unlike::default();
    let resumed = matrix::run(&plan, &open(true), 1, &|run| again.run(run), &ignore).unwrap();
    assert_eq!(again.0.lock().unwrap().len(), 0);
    assert_eq!(resumed.inputs[0].runs[0].1.document, results.inputs[0].runs[0].1.document);
}

fn ignore(_: &Event<'_, MatrixRun>) {}

#[test]
fn every_column_runs_in_every_mode_and_jobs_bound_how_many_at_once() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(1, None));
    let runner = Made { wait_for: 2, ..Made::default() };
    let store = MatrixStore::open(&folder.path().join("out"), &plan, false).unwrap();
    let results = matrix::run(&plan, &store, 2, &|run| runner.run(run), &ignore).unwrap();
    assert_eq!(runner.ran.lock().unwrap().len(), 6);
    assert_eq!(runner.most.load(Ordering::SeqCst), 2);
    assert!(results.missing.is_empty() && results.control.is_none());
    assert!(results.inputs.iter().all(|input| input.runs.len() == 2));
    assert_eq!(results.inputs[1].label.as_deref(), Some("7.2"));
}

#[test]
fn what_is_done_is_not_repeated() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(1, None));
    let out = folder.path().join("out");
    let broken = Made { broken: Some("7.2"), ..Made::default() };
    let store = MatrixStore::open(&out, &plan, false).unwrap();
    let first = matrix::run(&plan, &store, 2, &|run| broken.run(run), &ignore).unwrap();
    assert_eq!(first.missing.len(), 2);
    // Without --resume the folder is refused, and the error tells how to continue.
    let error = MatrixStore::open(&out, &plan, false).unwrap_err().to_string();
    assert!(error.contains("--resume") && !error.contains('\n'), "{error}");
    // Nor with it, while the first one is at work.
    let error = MatrixStore::open(&out, &plan, true).unwrap_err().to_string();
    assert!(error.contains("is writing into") && !error.contains('\n'), "{error}");
    drop(store);
    let store = MatrixStore::open(&out, &plan, true).unwrap();
    let retried = Made::default();
    let states = Mutex::new(Vec::new());
    let watch = |event: &Event<'_, MatrixRun>| states.lock().unwrap().push((event.cell.column, event.state.clone()));
    let second = matrix::run(&plan, &store, 1, &|run| retried.run(run), &watch).unwrap();
    let ran = retried.ran.lock().unwrap();
    assert_eq!(ran.len(), 2, "only what had failed");
    assert!(ran.iter().all(|cell| cell.column == 1));
    assert_eq!(states.lock().unwrap().iter().filter(|(_, state)| *state == State::Kept).count(), 4);
    // Results read back equal those measured.
    let fresh = Made::default();
    let whole = matrix::run(
        &plan,
        &MatrixStore::open(&folder.path().join("b"), &plan, false).unwrap(),
        1,
        &|run| fresh.run(run),
        &ignore,
    );
    assert_eq!(second.inputs[0].runs[0].1.profiles, whole.unwrap().inputs[0].runs[0].1.profiles);
}

#[test]
fn half_a_run_is_measured_again() {
    let (folder, plan, runner) = (tempfile::tempdir().unwrap(), plan(1, None), Made::default());
    let out = folder.path().join("out");
    matrix::run(&plan, &MatrixStore::open(&out, &plan, false).unwrap(), 1, &|run| runner.run(run), &ignore).unwrap();
    let torn = out.join("runs/01-6.12-write/result.json");
    let text = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &text[..text.len() / 2]).unwrap();
    let again = Made::default();
    matrix::run(&plan, &MatrixStore::open(&out, &plan, true).unwrap(), 1, &|run| again.run(run), &ignore).unwrap();
    assert_eq!(again.ran.lock().unwrap().len(), 1);
}

#[test]
fn another_plan_is_not_resumed() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(1, None));
    let out = folder.path().join("out");
    let refused = |plan: &MatrixPlan| {
        let error = format!("{:#}", MatrixStore::open(&out, plan, true).unwrap_err());
        assert!(error.contains("--resume") && !error.contains('\n'), "{error}");
        error
    };
    assert!(refused(&plan).contains("matrix.json"), "nothing there yet");
    MatrixStore::open(&out, &plan, false).unwrap();
    let mut other = plan.clone();
    other.modes.pop();
    assert!(refused(&other).contains("modes"));
    let mut other = plan.clone();
    other.columns[1].image = Some("rebuilt".into());
    assert!(refused(&other).contains("image"));
    let mut other = plan.clone();
    other.build = "another".into();
    assert!(refused(&other).contains("build"));
    let file = out.join(matrix::PLAN);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("pipeprof.matrix/4", "pipeprof.matrix/9")).unwrap();
    assert!(refused(&plan).contains("pipeprof.matrix/9"));
    // Of the form before this one, whose columns were flags.
    std::fs::write(&file, r#"{"schema": "pipeprof.matrix/1", "columns": [{"flags": ["--kernel", "6.1"]}]}"#).unwrap();
    assert!(refused(&plan).contains("has schema pipeprof.matrix/1"));
    std::fs::write(&file, &text[..20]).unwrap();
    refused(&plan);
}

#[test]
fn a_kernel_that_does_not_boot_is_reported_and_the_rest_is_compared() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan(1, None));
    let runner = Made { broken: Some("7.2"), ..Made::default() };
    let store = MatrixStore::open(&folder.path().join("out"), &plan, false).unwrap();
    let results = matrix::run(&plan, &store, 2, &|run| runner.run(run), &ignore).unwrap();
    let inputs: Vec<Input> = results.inputs.into_iter().filter(|input| !input.runs.is_empty()).collect();
    let compared = compare(&inputs, &CompareOptions { missing: results.missing, ..CompareOptions::default() }).unwrap();
    assert_eq!(compared.comparison.columns.len(), 2);
    for page in [render::html::render(&compared).unwrap(), render::markdown::render(&compared.comparison)] {
        assert!(page.contains("VFS: Unable to mount root fs"), "the reason is in the report");
    }
}

/// What runs, in order.
fn ran(plan: &MatrixPlan) -> Vec<MatrixRun> {
    let (folder, runner) = (tempfile::tempdir().unwrap(), Made::default());
    matrix::run(
        plan,
        &MatrixStore::open(&folder.path().join("out"), plan, false).unwrap(),
        1,
        &|run| runner.run(run),
        &ignore,
    )
    .unwrap();
    runner.ran.into_inner().unwrap()
}

#[test]
fn a_timed_matrix_ends_when_its_intervals_are_narrow_and_resumes_alike() {
    let folder = tempfile::tempdir().unwrap();
    let stop = StopRule { until: Some(0.05), max_time_ns: None };
    let plan = MatrixPlan { stop, ..plan(2, Some(2)) };
    let open = |resume| MatrixStore::open(&folder.path().join("out"), &plan, resume).unwrap();
    let runner = Made { gib_s: &[4.0, 4.02], ..Made::default() };
    let ending = matrix::run(&plan, &open(false), 1, &|run| runner.run(run), &ignore).unwrap().ending.unwrap();
    // Two pairs per block; an interval needs at least six values.
    assert_eq!((ending.by, ending.blocks), (EndedBy::Until, 3));
    assert!(ending.width.is_some_and(|width| width < 0.05));
    let again = Made::default();
    let resumed = matrix::run(&plan, &open(true), 1, &|run| again.run(run), &ignore).unwrap();
    assert_eq!((resumed.ending, again.ran.into_inner().unwrap().len()), (Some(ending), 0));
    let options = CompareOptions { control: resumed.control, ending: resumed.ending, ..CompareOptions::default() };
    let compared = compare(&resumed.inputs, &options).unwrap();
    assert!(compared.comparison.caveats[0].text.contains("--until"), "{:?}", compared.comparison.caveats);
}

#[test]
fn timed_matrices_are_interleaved_with_a_control() {
    let cells = ran(&plan(3, Some(4)));
    // Three kernels and the control, two modes, three boots.
    assert_eq!(cells.len(), 4 * 2 * 3);
    assert_eq!(cells, ran(&plan(3, Some(4))), "the same seed gives the same order");
    for block in cells.chunks(8) {
        assert!(block.iter().all(|cell| cell.block == block[0].block), "a block is finished before the next begins");
        let mut kinds: Vec<(usize, &str)> = block.iter().map(|cell| (cell.column, cell.mode.as_str())).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), 8, "everything once per block");
    }
    let order = |block: usize| -> Vec<(usize, String)> {
        cells.iter().filter(|cell| cell.block == block).map(|cell| (cell.column, cell.mode.clone())).collect()
    };
    assert!(order(0) != order(1) || order(1) != order(2), "shuffled");
    assert!(cells.iter().all(|cell| cell.options.runs == Some(4)));
    // The control is the first column, measured again.
    let control = cells.iter().find(|cell| cell.column == 3).unwrap();
    assert!(control.options.kernel.as_deref() == Some("6.12"));
}

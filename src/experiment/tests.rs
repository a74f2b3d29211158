//! Experiments with made-up executors.

use super::stop::relative_half_width;
use super::*;
use crate::util::cancel::Cancelled;
use crate::util::stored_json::HIGHEST;
use anyhow::{Result, bail};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Answers with a number that depends on cell and block alone, and notes what it ran.
#[derive(Default)]
struct Mock {
    ran: Mutex<Vec<(u32, usize)>>,
    /// The cell that fails in this block.
    broken: Option<(u32, usize)>,
    /// A signal comes after so many.
    interrupted_after: Option<usize>,
    at_once: AtomicUsize,
    most: AtomicUsize,
    wait_for: usize,
    takes: Duration,
    /// Values around 100, spread by this.
    spread: f64,
    wanted: Option<usize>,
}

impl Executor<u32> for Mock {
    type Output = u64;

    fn run(&self, cell: &u32, task: Task) -> Result<u64> {
        if self.interrupted_after.is_some_and(|after| self.ran.lock().unwrap().len() >= after) {
            return Err(Cancelled.into());
        }
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let start = std::time::Instant::now();
        while self.most.load(Ordering::SeqCst) < self.wait_for && start.elapsed().as_secs() < 120 {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(self.takes);
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        self.ran.lock().unwrap().push((*cell, task.block));
        if self.broken == Some((*cell, task.block)) {
            bail!("cell {cell} broke");
        }
        Ok(u64::from(*cell) * 1000 + task.block as u64)
    }

    fn wants(&self, _: &u32, done: usize) -> bool {
        self.wanted.is_none_or(|wanted| done < wanted)
    }

    fn values(&self, _: &u32, output: &u64) -> Vec<f64> {
        if self.spread == 0.0 { Vec::new() } else { vec![100.0 + self.spread * ((output % 5) as f64 - 2.0)] }
    }
}

fn plan(blocks: usize) -> Plan<u32> {
    Plan::new([1, 2, 3], blocks, 7)
}

fn measure(plan: &Plan<u32>, mock: &Mock) -> Result<Finished<u64>> {
    run(plan, mock, &NoStore, &|_| {})
}

#[test]
fn every_block_has_every_cell_once_in_an_order_that_the_seed_decides() {
    let (one, two, other) = (Mock::default(), Mock::default(), Mock::default());
    measure(&plan(20), &one).unwrap();
    measure(&plan(20), &two).unwrap();
    measure(&Plan { seed: 8, ..plan(20) }, &other).unwrap();
    let order = one.ran.lock().unwrap().clone();
    assert_eq!(order, *two.ran.lock().unwrap());
    assert_ne!(order, *other.ran.lock().unwrap());
    for (number, block) in order.chunks(3).enumerate() {
        let mut cells: Vec<u32> = block.iter().map(|(cell, _)| *cell).collect();
        cells.sort_unstable();
        assert_eq!(cells, [1, 2, 3]);
        assert!(block.iter().all(|(_, block)| *block == number), "a block ends before the next begins");
    }
    let listed = Mock::default();
    measure(&Plan { shuffled: false, ..plan(2) }, &listed).unwrap();
    assert_eq!(listed.ran.lock().unwrap().iter().map(|(cell, _)| *cell).collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3]);
}

#[test]
fn a_cell_that_fails_is_tried_again_given_up_or_the_end() {
    let with = |on_failure| {
        let mock = Mock { broken: Some((2, 1)), ..Mock::default() };
        let finished = measure(&Plan { on_failure, ..plan(4) }, &mock).map(|finished| finished.lanes(3));
        (finished, mock.ran.into_inner().unwrap().iter().filter(|(cell, _)| *cell == 2).count())
    };
    let (lanes, ran) = with(OnFailure::TryAgain);
    let lanes = lanes.unwrap();
    assert_eq!((ran, lanes[1].0.len(), lanes[1].1.as_deref()), (4, 3, Some("cell 2 broke")));
    let (lanes, ran) = with(OnFailure::GiveUp);
    let lanes = lanes.unwrap();
    assert_eq!((ran, lanes[1].0.len(), lanes[0].0.len()), (2, 1, 4));
    let (error, ran) = with(OnFailure::Abort);
    assert_eq!((error.unwrap_err().to_string(), ran), ("cell 2 broke".to_owned(), 2));
}

#[test]
fn a_cell_of_which_no_more_is_wanted_is_left_out() {
    let mock = Mock { wanted: Some(1), ..Mock::default() };
    let finished = measure(&plan(5), &mock).unwrap();
    assert_eq!(finished.entries.len(), 3);
    assert!(finished.ending.blocks < 5, "nothing is left to measure");
}

fn store(folder: &std::path::Path, key: &str) -> JsonFolder {
    JsonFolder { folder: folder.to_owned(), key: key.to_owned(), resume: true }
}

#[test]
fn a_resumed_experiment_gives_what_an_uninterrupted_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let whole = measure(&plan(6), &Mock::default()).unwrap();
    let store = store(folder.path(), "key");
    let broken = Mock { interrupted_after: Some(7), ..Mock::default() };
    let error = run(&plan(6), &broken, &store, &|_| {}).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Interrupted { done: 7, of: 18 }), "{error}");
    let (rest, kept) = (Mock::default(), AtomicUsize::new(0));
    let resumed = run(&plan(6), &rest, &store, &|event| {
        kept.fetch_add(usize::from(event.state == State::Kept), Ordering::Relaxed);
    });
    assert_eq!(resumed.unwrap(), whole);
    assert_eq!((kept.into_inner(), rest.ran.into_inner().unwrap().len()), (7, 11));
    // With a stop rule as well: what is kept decides as what is measured does.
    let stop = StopRule { until: Some(0.02), max_time_ns: None };
    let narrow = |mock: Mock| run(&Plan { stop, ..plan(6) }, &mock, &store, &|_| {}).unwrap();
    let (kept, fresh) =
        (narrow(Mock { spread: 1.0, ..Mock::default() }), narrow(Mock { spread: 1.0, ..Mock::default() }));
    assert_eq!(kept, fresh);
}

#[test]
fn only_results_of_the_same_cell_and_key_are_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let again = |plan: &Plan<u32>, key: &str| {
        let mock = Mock::default();
        run(plan, &mock, &store(folder.path(), key), &|_| {}).unwrap();
        mock.ran.into_inner().unwrap().len()
    };
    assert_eq!(again(&plan(2), "a"), 6);
    assert_eq!(again(&plan(2), "a"), 0);
    assert_eq!(again(&plan(2), "b"), 6, "another key");
    assert_eq!(again(&Plan::new([1, 2, 4], 2, 7), "b"), 2, "another cell");
    // Half a file is measured again.
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read(&file).unwrap();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert_eq!(again(&Plan::new([1, 2, 4], 2, 7), "b"), 1);
}

#[test]
fn what_failed_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), "key");
    let broken = Mock { broken: Some((3, 0)), ..Mock::default() };
    run(&plan(1), &broken, &store, &|_| {}).unwrap();
    let retried = Mock::default();
    run(&plan(1), &retried, &store, &|_| {}).unwrap();
    assert_eq!(*retried.ran.lock().unwrap(), [(3, 0)]);
}

#[test]
fn jobs_bound_how_many_run_at_once_and_change_no_result() {
    let mock = Mock { wait_for: 2, ..Mock::default() };
    let parallel = run_jobs(&plan(4), 2, &mock, &NoStore, &|_| {}).unwrap();
    assert_eq!(mock.most.load(Ordering::SeqCst), 2);
    assert_eq!(parallel.lanes(3), measure(&plan(4), &Mock::default()).unwrap().lanes(3));
    // A stop rule waits for the end of a block.
    let stop = StopRule { until: Some(0.5), max_time_ns: None };
    let mock = Mock { spread: 1.0, ..Mock::default() };
    let ended = run_jobs(&Plan { stop, ..plan(2) }, 3, &mock, &NoStore, &|_| {}).unwrap().ending;
    assert_eq!((ended.by, ended.blocks), (EndedBy::Until, 6), "six values are the fewest that give an interval");
    let blocks: Vec<usize> = mock.ran.lock().unwrap().iter().map(|(_, block)| *block).collect();
    assert!(blocks.is_sorted(), "{blocks:?}");
}

#[test]
fn blocks_go_on_until_the_interval_is_narrow() {
    let with = |until: f64, spread: f64| {
        let stop = StopRule { until: Some(until), max_time_ns: None };
        measure(&Plan { stop, ..plan(3) }, &Mock { spread, ..Mock::default() }).unwrap().ending
    };
    let loose = with(0.05, 1.0);
    assert_eq!((loose.by, loose.blocks), (EndedBy::Until, 6));
    let tight = with(0.011, 1.0);
    assert!(
        tight.by == EndedBy::Until && tight.blocks > 6 && tight.width.is_some_and(|width| width <= 0.011),
        "{tight:?}"
    );
    assert!(tight.sentence("run").contains("--until"), "{}", tight.sentence("run"));
    // Without a value to judge, the planned number of blocks is the end.
    let none = with(0.05, 0.0);
    assert_eq!((none.by, none.blocks, none.width), (EndedBy::Runs, 3, None));
}

#[test]
fn the_time_limit_ends_an_experiment_between_blocks() {
    let stop = StopRule { until: Some(0.000_1), max_time_ns: Some(120_000_000) };
    let mock = Mock { spread: 1.0, takes: Duration::from_millis(10), ..Mock::default() };
    let finished = measure(&Plan { stop, ..plan(1) }, &mock).unwrap();
    let (ending, results) = (finished.ending, finished.entries.len());
    assert_eq!(ending.by, EndedBy::Time);
    assert!((1..=4).contains(&ending.blocks) && results == 3 * ending.blocks, "{ending:?}");
    // The first block always runs; without a target the limit only shortens.
    let stop = StopRule { until: None, max_time_ns: Some(1) };
    let ending = measure(&Plan { stop, ..plan(9) }, &Mock::default()).unwrap().ending;
    assert_eq!((ending.by, ending.blocks), (EndedBy::Time, 1));
    let stop = StopRule { until: None, max_time_ns: Some(u64::MAX) };
    assert_eq!(measure(&Plan { stop, ..plan(9) }, &Mock::default()).unwrap().ending.by, EndedBy::Runs);
}

#[test]
fn the_width_is_half_the_interval_over_the_median() {
    // Six values: the interval reaches from the least to the greatest.
    let width = relative_half_width(&[98.0, 99.0, 100.0, 100.0, 101.0, 104.0]).unwrap();
    assert!((width - 0.03).abs() < 1e-12, "{width}");
    assert_eq!(relative_half_width(&[1.0; 5]), None);
    assert_eq!(relative_half_width(&[0.0; 6]), None);
}

#[test]
fn progress_counts_to_the_end() {
    let seen = Mutex::new(Vec::new());
    run(&plan(2), &Mock::default(), &NoStore, &|event| {
        assert_eq!(event.progress.of, 6);
        if event.state == State::Done {
            seen.lock().unwrap().push(event.progress.done);
        }
    })
    .unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4, 5, 6]);
}

proptest::proptest! {
    #[test]
    fn what_is_kept_of_an_experiment_is_read(
        name: String, key: String, question: (String, Option<u32>), text: String, counts: Vec<u64>,
        values in proptest::collection::vec(proptest::num::f64::ANY, 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let store = JsonFolder { folder: folder.path().join("results"), key, resume: true };
        let answer = (text, counts, values);
        let is_possible = answer.1.iter().all(|count| *count < HIGHEST) && answer.2.iter().all(|value| value.is_finite());
        proptest::prop_assert_eq!(store.save(&name, &question, &answer).is_ok(), is_possible);
        let read: Option<(String, Vec<u64>, Vec<f64>)> = store.load(&name, &question);
        proptest::prop_assert_eq!(read, is_possible.then(|| answer.clone()));
        // Its plan.
        #[derive(serde::Serialize)]
        struct Planned<'a> {
            schema: &'a str,
            answer: &'a (String, Vec<u64>, Vec<f64>),
        }
        const SCHEMA: &str = "x/1";
        let plan = Planned { schema: SCHEMA, answer: &answer };
        let file = PlanFile { name: "plan.json", schema: SCHEMA, results: "runs", what: "x" };
        let out = folder.path().join("out");
        match file.open(&out, &plan, false) {
            Ok(lock) => {
                drop(lock);
                drop(file.open(&out, &plan, true).unwrap());
            }
            Err(_) => proptest::prop_assert!(!out.exists() && answer.1.iter().any(|count| *count >= HIGHEST)),
        }
    }
}

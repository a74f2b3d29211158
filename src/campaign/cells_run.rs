//! Run cells into a store.

use super::cell::CampaignCell;
use super::chunk::ChunkCell;
use super::store::{CellLog, CellStore, LOG_SCHEMA};
use crate::arch::Processor;
use crate::experiment::{self, Event, Executor, Interrupted, OnFailure, Plan, Store, Task};
use crate::result::Outcome;
use crate::util::{build, cancel, sha256};
use crate::vm::store::KernelCache;
use crate::vm::{Kernel, qemu};
use anyhow::{Result, bail, ensure};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Executes a cell's arguments on a kernel.
pub(crate) type MeasureCell<'a> = &'a (dyn Fn(&CampaignCell, &Kernel) -> Result<Outcome> + Sync);

/// What became of the cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RanCells {
    /// Including those that were finished before.
    pub done: usize,
    /// Titles and reasons.
    pub failed: Vec<(String, String)>,
}

/// Run those of `cells` that are not in `store`, `jobs` at a time. `now` is the time in UTC, RFC 3339.
///
/// # Errors
/// Before anything runs: another build or QEMU than the list's, or another machine than that of timed cells. An interruption; finished cells are kept.
pub fn run(
    cells: &[ChunkCell<'_>],
    store: &CellStore,
    jobs: usize,
    measure: MeasureCell<'_>,
    now: &(dyn Fn() -> String + Sync),
    watch: &(dyn Fn(&Event<'_, ChunkCell<'_>>) + Sync),
) -> Result<RanCells> {
    check_host(cells, jobs)?;
    if cells.iter().any(|wanted| !store.has(&wanted.cell.id, wanted.second)) {
        check_programs(cells)?;
    }
    let plan = Plan { shuffled: false, on_failure: OnFailure::GiveUp, ..Plan::new(cells.iter().copied(), 1, 0) };
    let executor = CellExecutor { store, measure, now, kernels: Mutex::default() };
    let finished = experiment::run_jobs(&plan, jobs, &executor, &FinishedCells(store), watch)
        .map_err(|error| Interrupted::kept(error, "cell", &store.folder, "repeat the command"))?;
    let mut ran = RanCells::default();
    let mut entries = finished.entries;
    entries.sort_by_key(|entry| entry.lane);
    for entry in entries {
        match entry.result {
            Ok(()) => ran.done += 1,
            Err(reason) => {
                let title = cells.get(entry.lane).map_or_else(String::new, |wanted| wanted.cell.title());
                ran.failed.push((title, reason));
            }
        }
    }
    Ok(ran)
}

/// Results depend on pipeprof's and QEMU's build, so these must be the list's.
fn check_programs(cells: &[ChunkCell<'_>]) -> Result<()> {
    let (own, qemu) = (build::version(), qemu::version(Processor::HERE)?);
    for ChunkCell { cell, .. } in cells {
        ensure!(
            cell.build == own,
            "the list was planned by pipeprof {}, and this is {own}: install that one, or plan again",
            cell.build
        );
        ensure!(
            cell.qemu == qemu,
            "the list was planned with {}, and this machine has {qemu}: install that one, or plan again here",
            cell.qemu
        );
    }
    Ok(())
}

/// The name of this machine.
pub fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Timed cells need the machine on which they were planned, for themselves.
fn check_host(cells: &[ChunkCell<'_>], jobs: usize) -> Result<()> {
    let this = this_host();
    let Some(timed) = cells.iter().find_map(|wanted| wanted.cell.host.as_deref()) else { return Ok(()) };
    for host in cells.iter().filter_map(|wanted| wanted.cell.host.as_deref()) {
        ensure!(host == this, "timed cells are for the machine {host}, and this is {this}: run them there");
    }
    ensure!(jobs == 1, "--jobs {jobs}: timed cells of {timed} disturb each other in parallel: leave out --jobs");
    Ok(())
}

struct FinishedCells<'a>(&'a CellStore);

impl Store<ChunkCell<'_>, ()> for FinishedCells<'_> {
    fn kept(&self, wanted: &ChunkCell<'_>, _: Task) -> Option<()> {
        // What is damaged is an error of the run.
        self.0.cell(&wanted.cell.id, wanted.second).is_ok().then_some(())
    }

    fn keep(&self, _: &ChunkCell<'_>, _: Task, (): ()) -> Result<()> {
        Ok(())
    }
}

struct CellExecutor<'a> {
    store: &'a CellStore,
    measure: MeasureCell<'a>,
    now: &'a (dyn Fn() -> String + Sync),
    /// Found kernels, by digest.
    kernels: Mutex<HashMap<String, Kernel>>,
}

impl Executor<ChunkCell<'_>> for CellExecutor<'_> {
    type Output = ();

    fn run(&self, wanted: &ChunkCell<'_>, _: Task) -> Result<()> {
        let ChunkCell { cell, second } = *wanted;
        let result = self.measure(cell, second);
        if let Err(error) = &result
            && !cancel::happened()
        {
            self.store.keep_failure(cell, second, &format!("{error:#}"))?;
        }
        result
    }
}

impl CellExecutor<'_> {
    fn measure(&self, cell: &CampaignCell, second: bool) -> Result<()> {
        if self.store.has(&cell.id, second) {
            self.store.cell(&cell.id, second)?;
        }
        let kernel = self.kernel(cell)?;
        let folder = self.store.prepare(cell, second)?;
        let (started, begun) = ((self.now)(), Instant::now());
        let mut result = (self.measure)(cell, &kernel)?;
        if cell.is_exact() {
            // Results of one cell are equal to the byte on all machines; the time is in the log. A guest that was booted, because no
            // snapshot could be used, has other counts, and the warning that says so.
            result.document.started.clear();
        }
        self.store.keep(folder, cell, second, result)?;
        if second {
            return Ok(());
        }
        let host = this_host();
        let seconds = (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        let log = CellLog { schema: LOG_SCHEMA.to_owned(), host, started, seconds, estimated: cell.seconds };
        self.store.keep_log(&cell.id, &log)
    }

    /// The image with the cell's digest: where it was planned, by its release, or any in the cache.
    fn kernel(&self, cell: &CampaignCell) -> Result<Kernel> {
        let wanted = &cell.kernel;
        let mut known = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = known.get(&wanted.sha256) {
            return Ok(kernel.clone());
        }
        let named = [wanted.image.display().to_string(), wanted.release.clone()];
        let named = named.into_iter().filter_map(|name| Kernel::find(&name).ok());
        let cached = KernelCache::open()?.list()?.into_iter().map(|entry| entry.kernel());
        for kernel in named.chain(cached) {
            if sha256::of_file(&kernel.image).is_ok_and(|found| found == wanted.sha256) {
                known.insert(wanted.sha256.clone(), kernel.clone());
                return Ok(kernel);
            }
        }
        bail!(
            "this machine has no kernel {} with the SHA-256 {}: copy it with `pipeprof kernel bundle` where it was \
             planned and `pipeprof kernel add` here",
            wanted.release,
            wanted.sha256.get(..16).unwrap_or(&wanted.sha256)
        );
    }
}

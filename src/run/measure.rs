//! Run the target, unprofiled and under each collector, and gather raw values.

use super::Setting;
use super::gather::Gathered;
use crate::collect::{self, Collect, Context};
use crate::experiment::{self, Ending, Executor, NoStore, OnFailure, Plan, Task};
use crate::kernel::resolve::Resolution;
use crate::process::{Phase, Running, Target};
use crate::result::{Collector, ExecutedOn, PairRecord, Request, Selection, Status};
use crate::util::progress;
use anyhow::{Result, bail};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Minimum number of blocks for an interval.
pub const LEAST: u32 = 6;
/// Blocks in an emulated guest, whose times are not meaningful.
const EMULATED: u32 = 3;

/// The number of blocks of a request; 0 selects the default of the executing machine.
fn blocks(request: &Request, executed_on: ExecutedOn) -> u32 {
    match (request.runs, executed_on) {
        (0, ExecutedOn::Tcg) if request.stop.until.is_none() => EMULATED,
        (0, _) => LEAST,
        (runs, _) => runs,
    }
}

/// A run's block, counted from 0, and its collector, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub block: usize,
    pub collector: Option<Collector>,
}

/// Raw values of all runs.
pub struct Measured {
    /// In the order in which they ran.
    pub pairs: Vec<(Slot, PairRecord)>,
    pub gathered: BTreeMap<Collector, Gathered>,
    /// The functions found to be called, by collectors that choose functions.
    pub resolutions: Vec<Resolution>,
    pub ending: Ending,
}

/// The collectors of a request: the named ones, or for `auto` all that this kernel may allow.
pub fn collectors(selection: &Selection) -> Vec<Collector> {
    match selection {
        Selection::Auto => collect::auto(),
        Selection::List(list) => list.clone(),
    }
}

/// Execute all runs of `request`.
pub fn all(request: &Request, setting: &Setting<'_>, context: &Context) -> Result<Measured> {
    let wanted = collectors(&request.collect);
    let mut made: BTreeMap<Collector, Box<dyn Collect>> = BTreeMap::new();
    let mut gathered = BTreeMap::new();
    for &kind in &wanted {
        match collect::make(kind, context) {
            Ok(collector) => {
                made.insert(kind, collector);
            }
            Err(error) => {
                progress::detail(|| format!("collector {}: not available: {error:#}", kind.name()));
                gathered.insert(kind, Gathered::nothing(Status::Unavailable, format!("{error:#}")));
            }
        }
    }
    progress::detail(|| {
        let names = |kinds: Vec<Collector>| kinds.into_iter().map(Collector::name).collect::<Vec<_>>().join(", ");
        let asked = if request.collect == Selection::Auto { "auto" } else { "named" };
        format!("collectors: {} ({asked}: {})", names(made.keys().copied().collect()), names(wanted.clone()))
    });
    with(&request.workload, made, gathered, request, setting)
}

/// Execute all runs of `target`, unprofiled and under the collectors `made`. `gathered` contains the reasons why
/// others are not available.
pub fn with(
    target: &dyn Target,
    made: BTreeMap<Collector, Box<dyn Collect>>,
    gathered: BTreeMap<Collector, Gathered>,
    request: &Request,
    setting: &Setting<'_>,
) -> Result<Measured> {
    let lanes = std::iter::once(None).chain(made.keys().copied().map(Some));
    let plan = Plan {
        on_failure: OnFailure::Abort,
        stop: request.stop,
        ..Plan::new(lanes, blocks(request, setting.executed_on) as usize, request.seed)
    };
    let pairs = Pairs { target, request, setting, made: RefCell::new(made), gathered: RefCell::new(gathered) };
    let finished = experiment::run(&plan, &pairs, &NoStore, &|event| {
        if event.state == experiment::State::Running {
            (setting.progress)(&event.progress, event.cell.map_or("unprofiled", Collector::name));
        }
    })?;
    let slot = |lane: usize, block| Slot { block, collector: plan.lanes.get(lane).copied().flatten() };
    let measured = Measured {
        pairs: finished
            .entries
            .into_iter()
            .filter_map(|entry| Some((slot(entry.lane, entry.block), entry.result.ok()??)))
            .collect(),
        gathered: pairs.gathered.into_inner(),
        resolutions: pairs.made.borrow().values().flat_map(|collector| collector.resolutions()).collect(),
        ending: finished.ending,
    };
    if measured.pairs.iter().all(|(slot, _)| slot.collector.is_some()) {
        bail!("no unprofiled run succeeded: --runs must be at least 1");
    }
    Ok(measured)
}

/// Executes runs: lane `None` unprofiled, the others under their collector.
struct Pairs<'a> {
    target: &'a dyn Target,
    request: &'a Request,
    setting: &'a Setting<'a>,
    made: RefCell<BTreeMap<Collector, Box<dyn Collect>>>,
    gathered: RefCell<BTreeMap<Collector, Gathered>>,
}

impl Executor<Option<Collector>> for Pairs<'_> {
    /// `None` if the collector could not be armed.
    type Output = Option<PairRecord>;

    fn run(&self, cell: &Option<Collector>, task: Task) -> Result<Option<PairRecord>> {
        let (mut made, mut gathered) = (self.made.borrow_mut(), self.gathered.borrow_mut());
        let collector = cell.and_then(|kind| made.get_mut(&kind).map(|collector| (kind, collector)));
        // Only deterministic guests have phases: a block's runs, profiled or not, begin at the same one.
        let phase = if self.setting.settle { Phase(u32::try_from(task.block)?) } else { Phase::default() };
        one_pair(self.target, self.setting, phase, collector, &mut gathered)
    }

    fn wants(&self, cell: &Option<Collector>, done: usize) -> bool {
        let Some(kind) = cell else { return true };
        let enough = self.request.collect == Selection::Auto && once(*kind) && done > 0;
        !enough && !self.gathered.borrow().get(kind).is_some_and(Gathered::given_up)
    }

    /// Throughput of unprofiled runs. Under emulation it is in emulated time, and only its spread is used.
    fn values(&self, cell: &Option<Collector>, record: &Option<PairRecord>) -> Vec<f64> {
        let alone = record.as_ref().filter(|_| cell.is_none());
        alone.map(|record| record.processes.gib_s()).into_iter().collect()
    }
}

/// Collectors that profile only one run unless they are named: one call tree is enough, and it takes twenty times as
/// long as an unprofiled run.
fn once(collector: Collector) -> bool {
    collector == Collector::Fgraph
}

/// Execute one run. `None` if its collector could not be armed; `gathered` then has the reason.
fn one_pair(
    target: &dyn Target,
    setting: &Setting<'_>,
    phase: Phase,
    mut collector: Option<(Collector, &mut Box<dyn Collect>)>,
    gathered: &mut BTreeMap<Collector, Gathered>,
) -> Result<Option<PairRecord>> {
    if let Some((_, collector)) = &mut collector {
        trial(target, setting, collector.as_mut())?;
    }
    let mut running = target.start(phase)?;
    let watched = running.watched();
    let mut record = PairRecord::default();
    let Some((kind, collector)) = collector else {
        release(running.as_mut(), setting, phase)?;
        record.processes = running.wait()?;
        return Ok(Some(record));
    };
    record.collectors.push(kind.name().to_owned());
    let mut give_up = |status: Status, error: anyhow::Error| {
        let reason = format!("{error:#}");
        progress::detail(|| format!("collector {}: {reason}", kind.name()));
        // Results of earlier runs are kept.
        gathered.entry(kind).and_modify(|sum| sum.break_off(&reason)).or_insert(Gathered::nothing(status, reason));
    };
    if let Err(error) = collector.arm(&watched) {
        give_up(Status::Unavailable, error);
        return Ok(None);
    }
    release(running.as_mut(), setting, phase)?;
    running.wait_for_end()?;
    let finished = collector.finish();
    record.processes = running.wait()?;
    match finished {
        Ok(collected) => match gathered.get_mut(&kind) {
            Some(sum) => sum.add(collected),
            None => {
                gathered.insert(kind, Gathered::first(collected));
            }
        },
        Err(error) => give_up(Status::Failed, error),
    }
    Ok(Some(record))
}

/// A short run that is not measured, if the collector needs one to find out what to observe. A failure is left for the
/// measured run to report.
fn trial(target: &dyn Target, setting: &Setting<'_>, collector: &mut dyn Collect) -> Result<()> {
    if !collector.wants_trial() {
        return Ok(());
    }
    let Some(mut running) = target.start_short()? else { return Ok(()) };
    if let Err(error) = collector.arm_trial(&running.watched()) {
        progress::detail(|| format!("trial: {error:#}"));
        return Ok(());
    }
    release(running.as_mut(), setting, Phase::default())?;
    running.wait_for_end()?;
    if let Err(error) = collector.finish_trial() {
        progress::detail(|| format!("trial: {error:#}"));
    }
    running.wait().map(drop)
}

fn release(running: &mut dyn Running, setting: &Setting<'_>, phase: Phase) -> Result<()> {
    if setting.settle { running.release_settled(phase) } else { running.release() }
}

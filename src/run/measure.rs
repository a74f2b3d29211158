//! Run the pairs, each alone or under one collector, and gather raw values.

use super::Setting;
use super::gather::Gathered;
use super::schedule::{self, Slot};
use crate::collect::{self, Collect, Context};
use crate::document::{Collector, PairRecord, Request, Selection, Status};
use crate::kernel::resolve::Resolution;
use crate::util::cancel;
use crate::workload::{self, Launched};
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Raw values of all pairs.
pub struct Measured {
    /// In the order in which they ran.
    pub pairs: Vec<(Slot, PairRecord)>,
    pub gathered: BTreeMap<Collector, Gathered>,
    /// What the collectors that choose functions found to be called.
    pub resolutions: Vec<Resolution>,
}

/// The collectors of a request: all that this kernel may allow for `auto`, the named ones else.
#[must_use]
pub fn collectors(selection: &Selection) -> Vec<Collector> {
    match selection {
        Selection::Auto => collect::auto(),
        Selection::List(list) => list.clone(),
    }
}

/// Run all pairs of `request`.
///
/// # Errors
/// When a pair cannot run, or an interrupting signal came.
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
                gathered.insert(kind, Gathered::nothing(Status::Unavailable, format!("{error:#}")));
            }
        }
    }
    let available: Vec<Collector> = made.keys().copied().collect();
    let runs = schedule::settled(request.runs, setting.executed_on);
    let slots = schedule::blocks(runs, &available, request.seed);
    let mut measured = Measured { pairs: Vec::new(), gathered, resolutions: Vec::new() };
    for (index, slot) in slots.iter().enumerate() {
        cancel::check()?;
        if slot.collector.is_some_and(|kind| measured.gathered.get(&kind).is_some_and(Gathered::given_up)) {
            continue;
        }
        if request.collect == Selection::Auto
            && once(slot.collector)
            && measured.pairs.iter().any(|(done, _)| done.collector == slot.collector)
        {
            continue;
        }
        let name = slot.collector.map_or("alone", Collector::name);
        (setting.progress)(index + 1, slots.len(), name);
        let collector = slot.collector.and_then(|kind| made.get_mut(&kind).map(|collector| (kind, collector)));
        if let Some(record) = one_pair(request, setting, collector, &mut measured.gathered)? {
            measured.pairs.push((*slot, record));
        }
    }
    measured.resolutions = made.values().flat_map(|collector| collector.resolutions()).collect();
    if measured.pairs.iter().all(|(slot, _)| slot.collector.is_some()) {
        bail!("no pair ran alone: --runs has to be at least 1");
    }
    Ok(measured)
}

/// Collectors that watch one pair only unless asked for by name: the first call tree tells what the next would, and
/// costs twenty times an unwatched pair.
fn once(collector: Option<Collector>) -> bool {
    collector == Some(Collector::Fgraph)
}

/// Run one pair; `None` where its collector could not be armed, which is then said in `gathered`.
fn one_pair(
    request: &Request,
    setting: &Setting<'_>,
    collector: Option<(Collector, &mut Box<dyn Collect>)>,
    gathered: &mut BTreeMap<Collector, Gathered>,
) -> Result<Option<PairRecord>> {
    let mut launched = workload::launch(&request.workload)?;
    let watched = launched.watched();
    let mut record = PairRecord::default();
    let Some((kind, collector)) = collector else {
        release(&mut launched, setting)?;
        record.processes = launched.wait()?;
        return Ok(Some(record));
    };
    record.collectors.push(kind.name().to_owned());
    let mut give_up = |status: Status, error: anyhow::Error| {
        let reason = format!("{error:#}");
        // What it gave of earlier pairs is kept.
        gathered.entry(kind).and_modify(|sum| sum.break_off(&reason)).or_insert(Gathered::nothing(status, reason));
    };
    if let Err(error) = collector.arm(&watched) {
        give_up(Status::Unavailable, error);
        return Ok(None);
    }
    release(&mut launched, setting)?;
    launched.wait_for_end()?;
    let finished = collector.finish();
    record.processes = launched.wait()?;
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

fn release(launched: &mut Launched, setting: &Setting<'_>) -> Result<()> {
    if setting.settle { launched.release_settled() } else { launched.release() }
}

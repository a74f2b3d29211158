//! Read the cells of a store into a series, one after the other: memory does not grow with their number.

use super::{CountSpan, HISTORY_SCHEMA, History, HistoryKernel, HistoryLine, HistoryPoint, order, steps};
use crate::campaign::cell::{CellPipeline, kernel_names};
use crate::campaign::{CampaignCell, CellStore};
use crate::compare::model::Inlined;
use crate::compare::schedule;
use crate::compare::{Dropped, Measure, inlined_between};
use crate::kernel::info::compiler_name;
use crate::result::Outcome;
use crate::roles::RoleId;
use crate::util::{build, cancel, progress};
use anyhow::{Context as _, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The history of a store's cells. `list`: the order of the kernels; by release without it.
pub fn read(store: &CellStore, list: Option<&Path>, command: String) -> Result<History> {
    let mut kernels: Vec<HistoryKernel> = Vec::new();
    let mut cells: Vec<CampaignCell> = Vec::new();
    for id in store.finished(false)? {
        let cell = store.cell(&id, false)?.cell;
        if !cell.is_exact() {
            // Times are no counts.
            continue;
        }
        if !kernels.iter().any(|known| is_of(&cell, known)) {
            let (label, release, sha256) = (&cell.kernel.label, &cell.kernel.release, &cell.kernel.sha256);
            kernels.push(HistoryKernel {
                label: label.clone(),
                release: release.clone(),
                sha256: sha256.clone(),
                compiler: String::new(),
            });
        }
        cells.push(cell);
    }
    ensure!(
        kernels.len() >= 2,
        "{}: a history needs the finished cells of two kernels or more, and has {}",
        store.folder.display(),
        kernels.len()
    );
    // Such as those of several flavours.
    let names = kernel_names(cells.iter().map(|cell| &cell.kernel));
    match list {
        Some(list) => order::by_list(&mut kernels, list)?,
        None => order::by_release(&mut kernels),
    }
    let emulators = cells.iter().map(|cell| cell.qemu.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    for cell in &cells {
        let known = kernels.iter_mut().find(|known| is_of(cell, known) && known.compiler.is_empty());
        let Some(kernel) = known else { continue };
        let info = store.document(&cell.id)?.kernel;
        kernel.compiler = compiler_name(&info.compiler);
    }
    // The digest of a pipeline, setting, mode and CPUs of a line; the kernel and the id of its cells.
    type Key = (Option<String>, String, String, u32);
    let mut lines: BTreeMap<Key, Vec<(usize, String)>> = BTreeMap::new();
    for cell in cells {
        let kernel = kernels.iter().position(|known| is_of(&cell, known)).context("the kernel was listed")?;
        let key = (cell.pipeline.as_ref().map(CellPipeline::digest), cell.setting, cell.mode, cell.cpus);
        lines.entry(key).or_default().push((kernel, cell.id));
    }
    // The same text with other programs or files is another pipeline.
    let titles: Vec<(String, String, u32)> =
        lines.keys().map(|(_, setting, mode, cpus)| (setting.clone(), mode.clone(), *cpus)).collect();
    let line = |((digest, setting, mut mode, cpus), mut cells): (Key, Vec<(usize, String)>)| {
        cells.sort();
        let recorded = digest.is_some();
        let twice = titles.iter().filter(|title| **title == (setting.clone(), mode.clone(), cpus)).count() > 1;
        if let Some(digest) = digest.filter(|_| twice) {
            mode = format!("{mode} ({digest})");
        }
        let load = |place: usize| {
            let (_, id): &(usize, String) = cells.get(place).context("a cell of the line")?;
            Ok((store.path(id, false).display().to_string(), store.result(id)?))
        };
        let points = points(&cells, &load)?;
        let steps = steps::steps(&points);
        Ok(HistoryLine { mode, cpus, setting, pipeline: recorded, source_alone: false, steps, points })
    };
    let mut lines = lines.into_iter().map(line).collect::<Result<Vec<_>>>()?;
    for line in lines.extract_if(.., |line| line.points.is_empty()) {
        progress::note(&format!("left out, because nothing went through its pipes: {}", line.title()));
    }
    ensure!(!lines.is_empty(), "{}: nothing went through the pipes of any pipeline", store.folder.display());
    for kernel in &mut kernels {
        kernel.label = names.get(&kernel.sha256).unwrap_or(&kernel.label).clone();
    }
    Ok(History {
        schema: HISTORY_SCHEMA.to_owned(),
        version: build::version().to_owned(),
        command,
        emulators,
        sources: None,
        lines,
        kernels,
    })
}

/// The counts of a workload on these kernels: the index of each, and the id of its run, which `load` reads, with its name.
/// A function that any of the compilers inlined counts with its caller on all of them, as in comparisons: otherwise its
/// role would seem to change.
fn points(cells: &[(usize, String)], load: &dyn Fn(usize) -> Result<(String, Outcome)>) -> Result<Vec<HistoryPoint>> {
    let mut inlined: Vec<Inlined> = Vec::new();
    let (mut first, mut before): (Option<Measure>, Option<Measure>) = (None, None);
    for place in 0..cells.len() {
        cancel::check()?;
        let after = Measure::of(&[&load(place)?.1], usize::MAX);
        first = first.or_else(|| after.clone());
        if let (Some(before), Some(after)) = (&before, &after) {
            inlined.extend(inlined_between([before, after]));
        }
        before = after;
    }
    let dropped = Dropped::of(&inlined);
    let point = |(place, (kernel, id)): (usize, &(usize, String))| {
        let (name, run) = load(place)?;
        counts(&run, *kernel, id, &dropped, first.as_ref()).with_context(|| name)
    };
    cells.iter().enumerate().map(point).collect()
}

/// The workload of `line` on the sources alone, which `runs` counted, by the index of the kernel.
pub fn of_sources(line: &HistoryLine, runs: &[(usize, &Outcome)]) -> Result<HistoryLine> {
    let release = |run: &Outcome| run.document.kernel.release.clone();
    let cells: Vec<(usize, String)> = runs.iter().map(|(kernel, run)| (*kernel, release(run))).collect();
    let load = |place: usize| {
        let (_, run) = runs.get(place).context("one run for each source")?;
        Ok((release(run), (*run).clone()))
    };
    let points = points(&cells, &load)?;
    Ok(HistoryLine { source_alone: true, steps: steps::steps(&points), points, ..line.clone() })
}

fn is_of(cell: &CampaignCell, kernel: &HistoryKernel) -> bool {
    cell.kernel.sha256 == kernel.sha256 && cell.kernel.label == kernel.label
}

/// The counts of a run of `kernel`, at the schedule of `first`, the first kernel of the series, if that is known.
pub fn counts(
    outcome: &Outcome,
    kernel: usize,
    id: &str,
    dropped: &Dropped,
    first: Option<&Measure>,
) -> Result<HistoryPoint> {
    let shown = outcome.document.ensemble.as_ref().map_or(0, |ensemble| ensemble.shown);
    let judged = |measure| first.and_then(|first| schedule::at_that_of(first, &measure)).unwrap_or(measure);
    let measure = Measure::of(&[outcome], usize::MAX).map(judged);
    let measure = measure.map(|measure| if dropped.is_empty() { measure } else { measure.without(dropped) });
    let (mut windows, doubt) = measure.map(|measure| (measure.windows, measure.doubt)).unwrap_or_default();
    ensure!(!windows.is_empty(), "the run contains no counted window");
    if outcome.document.target.workload().is_none() {
        // It hides the kernel, and does not depend on it.
        windows.iter_mut().for_each(Measure::without_user_code);
    }
    let shown = shown.min(windows.len() - 1);
    windows.swap(0, shown);
    let span = |of: &dyn Fn(&Measure) -> f64, doubt: f64| {
        CountSpan::of(&windows.iter().map(of).collect::<Vec<_>>()).doubted(doubt)
    };
    let roles: BTreeSet<RoleId> = windows.iter().flat_map(Measure::roles).collect();
    let of_role = |role: RoleId| span(&|window| window.of_role(role), doubt.roles.get(&role).copied().unwrap_or(0.0));
    Ok(HistoryPoint {
        kernel,
        cell: id.to_owned(),
        windows: windows.len(),
        without_scheduling: span(&Measure::without_scheduling, doubt.total),
        total: span(&Measure::total, 0.0),
        roles: roles.into_iter().map(|role| (role, of_role(role))).collect(),
    })
}

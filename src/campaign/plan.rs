//! Make the list of cells from the axes of a comparison.

use super::cell::{CELL_SCHEMA, CampaignCell, CellKernel, digest};
use super::list::CellList;
use crate::compare::plan::ColumnPlan;
use crate::document::Request;
use crate::run::RunOptions;
use crate::util::build;
use crate::util::usage::UsageError;
use crate::vm::{Kernel, qemu};
use crate::workload::spec::{Amount, Reader, Writer};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::HashMap;
use std::path::PathBuf;

/// What to measure.
#[derive(Debug, Default)]
pub(crate) struct CampaignAxes {
    pub columns: Vec<ColumnPlan>,
    pub modes: Vec<String>,
    /// Numbers of CPUs; empty for that of the columns' options.
    pub cpus: Vec<u32>,
    /// The part of the cells that two chunks run.
    pub canary: f64,
}

/// A list, and what is not in it.
#[derive(Debug)]
pub(crate) struct PlannedCampaign {
    pub list: CellList,
    /// Combinations that are contradictions, with the reason.
    pub refused: Vec<String>,
}

/// The cells of `axes`, for this build of pipeprof and of QEMU.
///
/// # Errors
/// When a run is not exact, a kernel is not found, or no combination is valid.
pub(crate) fn plan(axes: &CampaignAxes) -> Result<PlannedCampaign> {
    let qemu = qemu::version()?;
    let mut kernels = Kernels::default();
    let (mut cells, mut refused) = (Vec::new(), Vec::new());
    // The first cell of each guest, by its kernel and machine: those of one guest run one after the other.
    let mut guests: HashMap<String, usize> = HashMap::new();
    for column in &axes.columns {
        let kernel = kernels.of(column)?;
        let setting = setting(column, &kernel.label);
        let own = [column.options.machine.cpus.unwrap_or(1)];
        for cpus in if axes.cpus.is_empty() { &own[..] } else { &axes.cpus } {
            for mode in &axes.modes {
                let (options, request) = match request(column, &kernel.release, mode, *cpus) {
                    Ok(typed) => typed,
                    Err(error) => {
                        refused.push(format!("{}, {mode}: {error:#}", labelled(&kernel.label, &setting)));
                        continue;
                    }
                };
                let argv: Vec<String> = std::iter::once("run".to_owned()).chain(options.words()).collect();
                let build = build::version().to_owned();
                let guest = format!("{}{:?}", kernel.sha256, options.machine);
                let next = guests.len();
                let guest = *guests.entry(guest).or_insert(next);
                let cell = CampaignCell {
                    schema: CELL_SCHEMA.to_owned(),
                    id: CampaignCell::id_of(&build, &qemu, &kernel.sha256, &argv),
                    column: labelled(&kernel.label, &setting),
                    kernel: kernel.clone(),
                    setting: setting.clone(),
                    mode: mode.clone(),
                    cpus: *cpus,
                    argv,
                    seconds: seconds(&request),
                    build,
                    qemu: qemu.clone(),
                    canary: false,
                };
                cells.push((guest, cell));
            }
        }
    }
    if cells.is_empty() {
        bail!(UsageError::new(format!("no combination can be measured: {}", refused.join("; "))));
    }
    cells.sort_by_key(|(guest, _)| *guest);
    let mut cells: Vec<CampaignCell> = cells.into_iter().map(|(_, cell)| cell).collect();
    // The same kernel under two names.
    let mut known = std::collections::HashSet::new();
    cells.retain(|cell| known.insert(cell.id.clone()));
    let wanted = ((cells.len() as f64 * axes.canary).ceil() as usize).min(cells.len());
    for number in 0..wanted {
        let index = number * cells.len() / wanted;
        cells[index].canary = true;
    }
    Ok(PlannedCampaign { list: CellList { cells }, refused })
}

fn labelled(kernel: &str, setting: &str) -> String {
    if setting.is_empty() { kernel.to_owned() } else { format!("{kernel} {setting}") }
}

/// What the column's label says besides its kernel.
fn setting(column: &ColumnPlan, kernel: &str) -> String {
    let label = column.label.as_deref().unwrap_or("");
    label.strip_prefix(kernel).unwrap_or(label).trim().to_owned()
}

/// The options and the request of a column in one mode.
fn request(column: &ColumnPlan, release: &str, mode: &str, cpus: u32) -> Result<(RunOptions, Request)> {
    let mut options = column.options.clone();
    options.kernel = Some(release.to_owned());
    options.workload.mode = Some(mode.to_owned());
    options.machine.cpus = Some(cpus);
    options.count_by_default();
    ensure!(
        options.exact(),
        UsageError::new(
            "a timed run depends on its machine, so it cannot be a cell: use `pipeprof compare` or `pipeprof sweep` on \
             one machine, or remove --collect and --accel from --run-flags and --variant"
        )
    );
    let request = options.request(String::new())?;
    Ok((options, request))
}

/// Kernels by the name that was given.
#[derive(Default)]
struct Kernels {
    known: HashMap<String, CellKernel>,
    /// Which image has a label.
    labels: HashMap<String, PathBuf>,
}

impl Kernels {
    fn of(&mut self, column: &ColumnPlan) -> Result<CellKernel> {
        let name = column.options.kernel.as_deref().context(UsageError::new(
            "cells are exact runs in guests: give kernels (kernel = [\"6.12\"], or --kernel 6.12)",
        ))?;
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let found = Kernel::find(name)?;
        let is_path = name.contains('/') || std::path::Path::new(name).exists();
        let mut label = if is_path { found.release.clone() } else { name.to_owned() };
        let sha256 = digest(&found.image)?;
        if self.labels.get(&label).is_some_and(|other| *other != found.image) {
            // Images of one release, such as those of a bisection.
            label = format!("{label} ({})", sha256.get(..8).unwrap_or_default());
        }
        self.labels.insert(label.clone(), found.image.clone());
        let image = std::path::absolute(&found.image).unwrap_or(found.image);
        let kernel = CellKernel { label, release: found.release, sha256, image };
        self.known.insert(name.to_owned(), kernel.clone());
        Ok(kernel)
    }
}

/// Instructions per KiB that is copied, and that only changes hands; per call of each process.
/// Rounded from docs/findings.md: for the order and the size of chunks, not for results.
const COPIED: f64 = 600.0;
const MOVED: f64 = 150.0;
const CALL: f64 = 3_000.0;
/// Counted instructions per second of QEMU with the plugin, and seconds around the windows: the guest is restored, and
/// its counts are read and drawn. As measured; see docs/performance.md.
const SPEED: f64 = 35e6;
const AROUND: f64 = 2.5;

/// Estimated seconds of a run on one CPU of the host.
fn seconds(request: &Request) -> f64 {
    let spec = &request.workload;
    let block = spec.block().max(1) as f64;
    let calls = match spec.amount {
        Amount::Calls(calls) => calls as f64,
        Amount::Bytes(bytes) => bytes as f64 / block,
        Amount::DurationNs(_) => 0.0,
    };
    let copied = match (spec.writer, spec.reader) {
        (Writer::Vmsplice | Writer::Splice, Reader::Splice) => MOVED,
        _ => COPIED,
    };
    let window = calls * (block / 1024.0 * copied + CALL);
    let warm_up = spec.warmup_bytes as f64 / 1024.0 * copied / 10.0;
    let windows = f64::from(request.runs.max(1));
    let seconds = AROUND + (windows * window + warm_up) / SPEED;
    (seconds * 10.0).round() / 10.0
}

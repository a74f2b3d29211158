//! Make the list of cells from the axes of a comparison.

use super::cell::{CELL_SCHEMA, CampaignCell, CellKernel, CellPipeline};
use super::list::CellList;
use crate::arch::Processor;
use crate::compare::plan::ColumnPlan;
use crate::record::ApplyRemedy as _;
use crate::record::RecordSettings;
use crate::record::inside::{GuestPipeline, PipelinePlace, PreparedPipeline};
use crate::result::{
    Collector, Measurement, PipelineCommand, RecordingRequest, RecordingTarget, Remedy, Request, SentFile,
};
use crate::run::MeasurePair as _;
use crate::run::{RunOptions, sent_source};
use crate::util::usage::UsageError;
use crate::util::{build, sha256};
use crate::vm::GuestOf as _;
use crate::vm::{Accel, GuestMachine, GuestOptions, Kernel, qemu};
use crate::workload::axis::Value;
use crate::workload::spec::{Amount, Reader, Writer};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// What to measure.
#[derive(Debug, Default)]
pub struct CampaignAxes {
    pub columns: Vec<ColumnPlan>,
    pub modes: Vec<String>,
    pub pipelines: Vec<CampaignPipeline>,
    /// Numbers of CPUs; empty for that of the columns' options.
    pub cpus: Vec<u32>,
    /// The part of the cells that two chunks run.
    pub canary: f64,
    /// Also plan timed runs, and bind them to this machine.
    pub host: Option<String>,
}

/// A pipeline that is recorded and counted on each kernel.
#[derive(Debug)]
pub struct CampaignPipeline {
    pub command: PipelineCommand,
    pub files: Vec<SentFile>,
}

/// A list, and what is not in it.
#[derive(Debug)]
pub struct PlannedCampaign {
    pub list: CellList,
    /// Combinations that are contradictions, with the reason.
    pub refused: Vec<String>,
}

/// The cells of `axes`, for this build of pipeprof and of QEMU.
///
/// # Errors
/// When a run is timed and `axes` name no host, a kernel is not found, or no combination is valid.
pub fn plan(axes: &CampaignAxes) -> Result<PlannedCampaign> {
    let qemu = qemu::version(Processor::HERE)?;
    let mut kernels = Kernels::default();
    let mut cells = GuestOrder::default();
    let mut refused = Vec::new();
    let mut prepared = HashMap::new();
    for column in &axes.columns {
        let kernel = kernels.of(column)?;
        let setting = setting(column, &kernel.label);
        let own = [column.options.machine.cpus.unwrap_or(1)];
        for cpus in if axes.cpus.is_empty() { &own[..] } else { &axes.cpus } {
            let cell = |mode: String, request, seconds| CampaignCell {
                schema: CELL_SCHEMA.to_owned(),
                id: String::new(),
                column: labelled(&kernel.label, &setting),
                kernel: kernel.clone(),
                setting: setting.clone(),
                mode,
                cpus: *cpus,
                request,
                seconds,
                build: build::version().to_owned(),
                qemu: qemu.clone(),
                canary: false,
                pipeline: None,
                host: None,
            };
            let mut options = column.options.clone();
            options.kernel = Some(kernel.release.clone());
            options.machine.cpus = Some(*cpus);
            for mode in &axes.modes {
                options.workload.mode = Some(mode.clone());
                match run_cell(&cell, options.clone(), axes.host.as_deref()) {
                    Ok(cell) => cells.add(&options.machine, cell),
                    Err(error) => refused.push(format!("{}, {mode}: {error:#}", labelled(&kernel.label, &setting))),
                }
            }
            for (number, pipeline) in axes.pipelines.iter().enumerate() {
                let known = prepared.entry((number, options.machine.memory));
                cells.add(&options.machine, record_cell(&cell, &kernel, &options, pipeline, known)?);
            }
        }
    }
    let mut cells = cells.sorted();
    if cells.is_empty() {
        bail!(UsageError::new(format!("no combination can be measured: {}", refused.join("; "))));
    }
    // Times differ from run to run, so they show nothing of the machines.
    let mut exact: Vec<&mut CampaignCell> = cells.iter_mut().filter(|cell| cell.is_exact()).collect();
    let wanted = ((exact.len() as f64 * axes.canary).ceil() as usize).min(exact.len());
    let count = exact.len();
    (0..wanted).for_each(|number| exact[number * count / wanted].canary = true);
    Ok(PlannedCampaign { list: CellList { cells }, refused })
}

/// Cells in the order of their guests: those of one kernel and machine run one after the other.
#[derive(Default)]
struct GuestOrder {
    guests: HashMap<String, usize>,
    cells: Vec<(usize, CampaignCell)>,
}

impl GuestOrder {
    fn add(&mut self, machine: &GuestMachine, cell: CampaignCell) {
        let next = self.guests.len();
        let guest = *self.guests.entry(format!("{}{machine:?}", cell.kernel.sha256)).or_insert(next);
        self.cells.push((guest, cell));
    }

    /// Each cell once.
    fn sorted(mut self) -> Vec<CampaignCell> {
        self.cells.sort_by_key(|(guest, _)| *guest);
        // The same kernel under two names, or a pipeline in two settings of the workload.
        let mut known = HashSet::new();
        self.cells.into_iter().map(|(_, cell)| cell).filter(|cell| known.insert(cell.id.clone())).collect()
    }
}

/// Makes a cell of a mode or pipeline, a request and its estimated seconds.
type MakeCell<'a> = dyn Fn(String, Measurement, f64) -> CampaignCell + 'a;

/// A run with these options. `host`: the machine of timed runs, if they are wanted.
fn run_cell(cell: &MakeCell<'_>, mut options: RunOptions, host: Option<&str>) -> Result<CampaignCell> {
    options.count_by_default();
    let exact = options.exact();
    ensure!(
        exact || host.is_some(),
        UsageError::new(
            "a timed run depends on its machine: add --this-machine to bind it to this one, or remove --collect and \
             --accel from --run-flags and --variant"
        )
    );
    let request = options.request(String::new())?;
    if let Some(source) = sent_source(&request.workload) {
        // Cells run elsewhere and later.
        let problem = format!("--source {}: a campaign reads from /dev/zero or memory", source.display());
        return Err(UsageError::new(problem).into());
    }
    let (mode, seconds) = (options.workload.mode.clone().unwrap_or_default(), seconds(&request));
    let made = cell(mode, Measurement::Pair(Box::new(options)), seconds);
    Ok(CampaignCell { host: host.filter(|_| !exact).map(str::to_owned), ..made }.identified())
}

/// A recording of `pipeline` in the machine of these options. `known`: what its processes find in a guest with
/// as much memory.
fn record_cell(
    cell: &MakeCell<'_>,
    kernel: &CellKernel,
    options: &RunOptions,
    pipeline: &CampaignPipeline,
    known: Entry<'_, (usize, u64), CellPipeline>,
) -> Result<CampaignCell> {
    let command = &pipeline.command;
    let image = kernel.image.to_str().context("the kernel's path is not UTF-8")?;
    let guest = options.machine.guest(Some(image))?.context("a kernel was given")?;
    ensure!(
        guest.accel == Accel::Tcg,
        UsageError::new(format!(
            "--pipeline '{}': instructions are counted with TCG: leave out --accel",
            command.text()
        ))
    );
    ensure!(
        options.memcg,
        UsageError::new(format!(
            "--pipeline '{}': a pipeline in a guest is always charged to a cgroup: leave out --memcg off",
            command.text()
        ))
    );
    let prepared = match known {
        Entry::Occupied(known) => known.get().clone(),
        Entry::Vacant(place) => place.insert(cell_pipeline(pipeline, guest)?).clone(),
    };
    let mut request = RecordingRequest {
        target: RecordingTarget::Pipeline(command.clone()),
        kernel: options.kernel.clone(),
        machine: options.machine.clone(),
        files: pipeline.files.clone(),
        collect: Some(Collector::Insn),
        ..RecordingRequest::default()
    };
    if let Some(Value::Number(bytes)) = options.workload.overrides.get("pipe-size") {
        Remedy::PipeSize(*bytes).changed(command).with_context(|| format!("--pipeline '{}'", command.text()))?;
        request.pipe_size = Some(*bytes);
    }
    let made = cell(command.text(), Measurement::Recording(Box::new(request)), RECORDING);
    Ok(CampaignCell { pipeline: Some(prepared), ..made }.identified())
}

/// What the processes of `pipeline` find in this guest.
fn cell_pipeline(pipeline: &CampaignPipeline, guest: GuestOptions) -> Result<CellPipeline> {
    let command = &pipeline.command;
    let place = PipelinePlace::without_input()?;
    let wanted = GuestPipeline {
        pipeline: command,
        place: place.clone(),
        files: &pipeline.files,
        disk: &[],
        // The size of pipes is no part of what it finds.
        settings: RecordSettings::default(),
    };
    let prepared = PreparedPipeline::new(wanted, guest)?;
    ensure!(
        !prepared.has_disk(),
        "--pipeline '{}': its files need a disk, with which counts are not exact: give the guest more memory, such as \
         --run-flags '--memory 4G'",
        command.text()
    );
    let contents = sha256::of_bytes(prepared.contents());
    Ok(CellPipeline { command: command.clone(), folder: place.folder, path: place.path, contents })
}

/// The name of a column.
pub(super) fn labelled(kernel: &str, setting: &str) -> String {
    if setting.is_empty() { kernel.to_owned() } else { format!("{kernel} {setting}") }
}

/// What the column's label says besides its kernel.
fn setting(column: &ColumnPlan, kernel: &str) -> String {
    let label = column.label.as_deref().unwrap_or("");
    label.strip_prefix(kernel).unwrap_or(label).trim().to_owned()
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
        let sha256 = sha256::of_file(&found.image)?;
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
/// Seconds of a recording, in two guests: what a pipeline executes is not known before.
const RECORDING: f64 = 30.0;
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
        (Writer::Vmsplice | Writer::Splice | Writer::IoUringSplice, Reader::Splice | Reader::IoUringSplice) => MOVED,
        _ => COPIED,
    };
    let window = calls * (block / 1024.0 * copied + CALL);
    let warm_up = spec.warmup_bytes as f64 / 1024.0 * copied / 10.0;
    let windows = f64::from(request.runs.max(1));
    let seconds = AROUND + (windows * window + warm_up) / SPEED;
    (seconds * 10.0).round() / 10.0
}

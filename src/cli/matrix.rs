//! `pipeprof matrix`: thousands of exact runs on any scheduler.

use super::axes_args::AxesArgs;
use super::axis_args::AxisArgs;
use super::choice_arg::choice;
use super::compare::width;
use super::matrix_cell;
use super::pipeline_args::{GivenPipeline, PipelineArgs};
use super::run::parsed;
use super::workload_args::parse_duration;
use crate::campaign::cells_run;
use crate::campaign::chunk::{Chunk, ChunkCell};
use crate::campaign::merge::{self, MergedCells};
use crate::campaign::plan::{self, CampaignAxes, CampaignPipeline};
use crate::campaign::script::CampaignEngine;
use crate::campaign::{CampaignCell, CellList, CellStore, summary};
use crate::compare::plan::combinations;
use crate::compare::render::{self, terminal};
use crate::compare::{CompareOptions, compare};
use crate::experiment::{Event, State};
use crate::util::stored_json::json_text;
use crate::util::text::{clean, counted};
use crate::util::usage::UsageError;
use crate::util::{atomic_file, cancel, progress, regular};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args as _;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Count many kernels and settings on many machines, with any scheduler
///
/// `matrix plan` writes a list of cells, one exact run each. `matrix run` runs a part of it into a store, on any
/// machine with the same pipeprof and QEMU. `matrix merge` makes one store and one report of several. See
/// docs/scale.md.
#[derive(Debug, clap::Args)]
pub(crate) struct MatrixCommand {
    #[command(subcommand)]
    action: MatrixAction,
}

#[derive(Debug, clap::Subcommand)]
enum MatrixAction {
    Plan(Box<PlanArgs>),
    Run(MatrixRunArgs),
    Merge(MergeArgs),
}

/// Write the list of cells, and a script for a scheduler
///
/// The axes are those of `pipeprof compare`, as flags or in a TOML file with the same names: kernel = ["6.1", "6.12"].
#[derive(Debug, clap::Args)]
struct PlanArgs {
    /// TOML file with the axes, instead of flags
    #[arg(value_name = "SPEC")]
    spec: Option<PathBuf>,
    #[command(flatten)]
    axes: CampaignAxesArgs,
    /// Have two chunks run this part of the cells, to check that their machines agree
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = parse_part, help_heading = "List")]
    canary: f64,
    /// Also plan timed runs (--collect sample, --accel kvm and such), which only this machine may then run
    #[arg(long, help_heading = "List")]
    this_machine: bool,
    /// File for the list
    #[arg(short, long, value_name = "FILE", default_value = "cells.jsonl", help_heading = "List")]
    output: PathBuf,
    /// Print a script for this scheduler
    #[arg(long = "for", value_name = "ENGINE", value_parser = choice::<CampaignEngine>(), help_heading = "List")]
    engine: Option<CampaignEngine>,
    /// Estimated time of a chunk of the script [default: 15m for slurm, otherwise 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "engine", help_heading = "List")]
    chunk_time: Option<u64>,
    /// Store that the script names
    #[arg(long, value_name = "DIR", default_value = "store", requires = "engine", help_heading = "List")]
    store: String,
}

/// Run cells of a list into a store
///
/// Finished cells are not run again, so the command can be repeated at any time. A cell that fails leaves a file with
/// its reason in the store's folder `failed`, and the next call runs it again.
#[derive(Debug, clap::Args)]
struct MatrixRunArgs {
    /// The list of `pipeprof matrix plan`
    #[arg(value_name = "LIST")]
    list: PathBuf,
    /// Run this cell only, counted from 1 [default: all cells]
    #[arg(long, value_name = "N", group = "part")]
    cell: Option<usize>,
    /// Run chunk K of M chunks of about equal time
    #[arg(long, value_name = "K/M", group = "part")]
    chunk: Option<Chunk>,
    /// Run the cell with this id
    #[arg(long, value_name = "HASH", group = "part")]
    id: Option<String>,
    /// Folder for the results; several machines may share it
    #[arg(long, value_name = "DIR", default_value = "store")]
    store: PathBuf,
    /// Number of cells to run in parallel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: u32,
}

/// Make one store of several, check that they agree, and write the report
#[derive(Debug, clap::Args)]
struct MergeArgs {
    /// Stores of `pipeprof matrix run`
    #[arg(value_name = "STORE", required = true)]
    stores: Vec<PathBuf>,
    /// Folder for the merged store and its report
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Merge results of several builds of pipeprof or QEMU
    #[arg(long)]
    allow_mixed: bool,
}

/// The axes of comparisons and of sweeps.
#[derive(Debug, clap::Args)]
struct CampaignAxesArgs {
    #[command(flatten)]
    columns: AxesArgs,
    #[command(flatten)]
    workload: AxisArgs,
    #[command(flatten)]
    pipelines: PipelineArgs,
}

impl CampaignAxesArgs {
    fn is_empty(&self) -> bool {
        self.columns.is_empty()
            && self.columns.run_flags.is_empty()
            && self.workload.is_empty()
            && self.pipelines.is_empty()
    }
}

/// `2%` as 0.02; unlike a precision it may be 0 %.
fn parse_part(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("'{text}' is not a percentage from 0% to 100%, such as 2%")),
    }
}

impl MatrixCommand {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        match self.action {
            MatrixAction::Plan(args) => args.run(),
            MatrixAction::Run(args) => args.run(),
            MatrixAction::Merge(args) => args.run(),
        }
    }
}

impl PlanArgs {
    fn run(self) -> Result<ExitCode> {
        ensure!(
            !self.this_machine || self.engine.is_none(),
            UsageError::new(
                "--for runs chunks in parallel, which disturbs timed runs: leave it out with --this-machine"
            )
        );
        let planned = plan::plan(&self.axes()?)?;
        let list = &planned.list;
        atomic_file::write(&self.output, list.to_text()?.as_bytes())?;
        for refused in &planned.refused {
            progress::note(&format!("left out: {refused}"));
        }
        let path = clean(&self.output.display().to_string());
        progress::note(&format!(
            "{} in {path}, about {} of one CPU in all",
            counted(list.cells.len() as u64, "cell"),
            counted((list.seconds() / 60.0).ceil() as u64, "minute")
        ));
        let canaries = list.cells.iter().filter(|cell| cell.canary).count() as u64;
        let seconds = self.chunk_time.map(|ns| ns as f64 / 1e9);
        if canaries > 0 && self.engine.is_some_and(|engine| engine.chunks(list, seconds) == 1) {
            progress::note("--canary: one chunk runs no cell twice: give a shorter --chunk-time");
        }
        if let Some(engine) = self.engine {
            let list_path = self.output.to_str().context("-o: the script needs a path in UTF-8")?;
            util::out!("{}", engine.script(list, list_path, &self.store, seconds));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn axes(&self) -> Result<CampaignAxes> {
        let from_file;
        let axes = match &self.spec {
            Some(_) if !self.axes.is_empty() => {
                bail!(UsageError::new("give the axes in the file or as flags, not both"))
            }
            Some(path) => {
                from_file = axes_of_file(path)?;
                &from_file
            }
            None => &self.axes,
        };
        let files = &axes.pipelines.file;
        let campaign = |given: GivenPipeline| CampaignPipeline { command: given.command, files: files.clone() };
        let pipelines: Vec<CampaignPipeline> = axes.pipelines.typed()?.into_iter().map(campaign).collect();
        if !pipelines.is_empty() {
            axes.workload.check_for_pipelines()?;
        }
        let modes = if pipelines.is_empty() || axes.columns.has_modes() { axes.columns.modes()? } else { Vec::new() };
        let made = combinations(&axes.columns.typed(axes.workload.0.clone())?)?;
        Ok(CampaignAxes {
            columns: made.into_iter().map(|made| made.column).collect(),
            modes,
            pipelines,
            cpus: axes.columns.cpus(true)?,
            canary: self.canary,
            host: self.this_machine.then(cells_run::this_host),
        })
    }
}

/// The axes in a TOML file: each key is a flag, each value or item of an array is a value of the flag.
fn axes_of_file(path: &Path) -> Result<CampaignAxesArgs> {
    /// The longest file that is read, bytes: a list of thousands of kernels.
    const LONGEST: u64 = 1 << 24;
    let shown = path.display();
    let bytes = regular::read(path, LONGEST).with_context(|| format!("cannot read {shown}"))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{shown}: not a text in UTF-8"))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| {
        // In one line: where, and what.
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        anyhow::anyhow!("{shown}, line {line}: {}", error.message())
    })?;
    let command = CampaignAxesArgs::augment_args(clap::Command::new("spec"));
    let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let mut words = Vec::new();
    for (key, value) in &table {
        let flag = key.replace('_', "-");
        ensure!(known.contains(&flag.as_str()), "{shown}: unknown axis '{key}'; known: {}", known.join(", "));
        let items = match value {
            toml::Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for item in items {
            words.push(format!("--{flag}={}", word(key, item).with_context(|| shown.to_string())?));
        }
    }
    parsed(&shown.to_string(), &words)
}

fn word(key: &str, value: &toml::Value) -> Result<String> {
    Ok(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Boolean(on) if key == "memcg" => if *on { "on" } else { "off" }.to_owned(),
        toml::Value::Boolean(on) => on.to_string(),
        _ => bail!("{key}: give texts, whole numbers or booleans, or a list of them"),
    })
}

impl MatrixRunArgs {
    fn run(self) -> Result<ExitCode> {
        let list = CellList::load(regular::read, &self.list)?;
        let cells = self.part(&list)?;
        let store = CellStore::create(&self.store)?;
        store.keep_plan(&list)?;
        let of = cells.len();
        // Progress of one guest beside others would be misleading.
        progress::redirect(|_| {});
        let ran = cells_run::run(&cells, &store, self.jobs as usize, &matrix_cell::measure, &super::now, &|event| {
            show(event, of)
        })?;
        let kept = format!("{}, in {}", done(ran.done, of), clean(&self.store.display().to_string()));
        progress::note(&kept);
        if ran.failed.is_empty() { Ok(ExitCode::SUCCESS) } else { Ok(ExitCode::FAILURE) }
    }

    fn part<'a>(&self, list: &'a CellList) -> Result<Vec<ChunkCell<'a>>> {
        let shown = self.list.display();
        let one = |cell: Option<&'a CampaignCell>, missing: String| {
            let cell = cell.with_context(|| UsageError::new(missing))?;
            Ok(vec![ChunkCell { cell, second: false }])
        };
        match (self.cell, &self.id, self.chunk) {
            (Some(number), ..) => one(
                number.checked_sub(1).and_then(|index| list.cells.get(index)),
                format!("--cell {number}: {shown} has the cells 1 to {}", list.cells.len()),
            ),
            (_, Some(id), _) => one(
                list.cells.iter().find(|cell| cell.id == *id),
                format!("--id {id}: {shown} has no cell with this id"),
            ),
            (.., Some(chunk)) => Ok(chunk.cells(list)),
            _ => Ok(list.cells.iter().map(|cell| ChunkCell { cell, second: false }).collect()),
        }
    }
}

/// A line per cell: schedulers keep the output in files.
fn show(event: &Event<'_, ChunkCell<'_>>, of: usize) {
    let at = event.task.lane + 1;
    let again = if event.cell.second { ", again" } else { "" };
    let title = format!("{at}/{of} {}{again}", event.cell.cell.title());
    match &event.state {
        State::Done => progress::note(&format!("{title}: done")),
        State::Failed(reason) => progress::problem(&format!("{title}: {reason}")),
        State::Kept => progress::detail(|| format!("{title}: done before")),
        State::Running => {}
    }
}

impl MergeArgs {
    fn run(self) -> Result<ExitCode> {
        let merged = merge::merge(&self.stores, &self.output, self.allow_mixed)?;
        let json = json_text(&merged).context("cannot write merge.json")? + "\n";
        atomic_file::write(&self.output.join("merge.json"), json.as_bytes())?;
        util::out!("{}", summary(&merged));
        let timed = merged.done.iter().filter(|cell| !cell.is_exact()).count() as u64;
        if timed > 0 {
            let folder = clean(&self.output.join("cells").display().to_string());
            progress::note(&format!(
                "{} not compared: give their folders in {folder} to `pipeprof compare`",
                counted(timed, "timed cell")
            ));
        }
        let runs = || merged.done.iter().filter(|cell| cell.is_exact());
        let columns: BTreeSet<&str> = runs().map(|cell| cell.column.as_str()).collect();
        if columns.len() < 2 {
            if columns.len() == 1 {
                progress::note("one column alone is not compared");
            }
        } else if runs().count() > summary::MOST_COMPARED {
            progress::note(&format!(
                "more than {} cells are not compared in one report: see `pipeprof history`, or compare cells with \
                 `pipeprof compare`",
                summary::MOST_COMPARED
            ));
        } else {
            self.report(&merged)?;
        }
        let failed = merged.failed.len() + merged.failed_canaries.len();
        let complete = failed == 0 && merged.missing.is_empty() && merged.different.is_empty();
        Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn report(&self, merged: &MergedCells) -> Result<()> {
        let inputs = summary::columns(&CellStore::open(&self.output)?, &merged.done)?;
        let options = CompareOptions {
            command: super::command_line(),
            missing: summary::missing(merged),
            seed: 1,
            ..CompareOptions::default()
        };
        let compared = compare(&inputs, &options)?;
        let written = render::write_all(&self.output, &compared)?;
        util::out!("\n{}", terminal::render(&compared.comparison, width(), terminal::SHOWN));
        let names: Vec<String> = written.iter().map(|path| clean(&path.display().to_string())).collect();
        progress::note(&format!("written: {}", names.join(", ")));
        Ok(())
    }
}

/// Rows of each list.
const MOST_ROWS: usize = 10;

/// `1 of 64 cells is done`.
fn done(number: usize, of: usize) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{number} of {} {verb} done", counted(of as u64, "cell"))
}

/// How complete the merged store is.
fn summary(merged: &MergedCells) -> String {
    let of = merged.done.len() + merged.failed.len() + merged.missing.len();
    let mut text = done(merged.done.len(), of);
    if merged.seconds > 0.0 {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            ", in {:.1} minutes of one job on {} ({:.1} were estimated)",
            merged.seconds / 60.0,
            counted(merged.hosts.len() as u64, "machine"),
            merged.estimated / 60.0
        );
    }
    text.push_str(".\n");
    let ran_twice = counted(merged.compared as u64, "cell");
    // Writing to a String cannot fail.
    let _ = match (merged.compared, merged.different.len()) {
        (0, _) => Ok(()),
        (_, 0) => writeln!(text, "{ran_twice} ran twice, with equal results."),
        (_, different) => writeln!(text, "{ran_twice} ran twice, and {different} of the results differ."),
    };
    let rows = |text: &mut String, title: &str, rows: Vec<String>| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(text, "{title} ({}):", rows.len());
        let more = rows.len().saturating_sub(MOST_ROWS);
        for row in rows.iter().take(MOST_ROWS) {
            let _ = writeln!(text, "  {}", clean(row));
        }
        if more > 0 {
            let _ = writeln!(text, "  and {more} more, in merge.json");
        }
    };
    let different = |different: &merge::DifferentResults| {
        let [left, right] = &different.folders;
        format!(
            "{}: {} and {} differ in {}",
            different.title,
            left.display(),
            right.display(),
            different.files.join(", ")
        )
    };
    rows(&mut text, "Results that should be equal", merged.different.iter().map(different).collect());
    let failed = merged.failed.iter().map(|failed| format!("{}: {}", failed.cell.title(), failed.reason));
    rows(&mut text, "Failed", failed.collect());
    let canaries = merged.failed_canaries.iter().map(|failed| format!("{}: {}", failed.cell.title(), failed.reason));
    rows(&mut text, "Second runs that failed", canaries.collect());
    rows(&mut text, "Missing", merged.missing.iter().map(CampaignCell::title).collect());
    text
}

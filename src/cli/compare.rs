//! `pipeprof compare`: compare kernels, settings or stored runs.

use super::axes_args::AxesArgs;
use super::axis_args::AxisArgs;
use super::choice_arg::choice;
use super::count_args::CountArgs;
use super::global;
use super::kernel_options::OptionsArgs;
use super::sizing_args::SizingArgs;
use super::stop_args::{StopArgs, parse_percent};
use crate::compare::matrix::{self, MatrixRun, MatrixStore};
use crate::compare::model::section_title;
use crate::compare::pipelines;
use crate::compare::plan::{self, ColumnPlan, MatrixPlan};
use crate::compare::render::{self, terminal};
use crate::compare::{Against, CompareOptions, Compared, Input, compare, stored, timed};
use crate::experiment::{self, Event};
use crate::profile::CycleModel;
use crate::result::Request;
use crate::run::MeasurePair as _;
use crate::run::{RunOptions, cycles};
use crate::studies::again::outcome;
use crate::studies::causes::{self, CauseOrders};
use crate::util::limits::one_per_cpu;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{cancel, progress};
use crate::vm::store::KernelCache;
use crate::vm::{Kernel, side_by_side};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare kernels, settings or stored runs, and show how reliable the result is
///
/// Boots and profiles each kernel in each mode. With --kernel, instructions are counted, unless --run-flags contains
/// --accel kvm or another --collect. All other runs are timed. Repeated flags multiply: each combination is a column. Several
/// kernels in several settings are compared in each setting. Stored runs can be given instead of kernels.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Stored runs, oldest first: a result.json, its folder, or a folder of several runs of one column (boots, or numbers
    /// of CPUs); or recordings of `pipeprof record`, in the same forms
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    axes: AxesArgs,
    #[command(flatten)]
    workload: AxisArgs,
    /// What modes that read a file read: a device such as /dev/zero, or `memory` (zeros in a memory file) [default:
    /// /dev/zero, and memory if a kernel cannot splice from it]
    #[arg(long, help_heading = "Columns", value_name = "FILE")]
    source: Option<String>,
    /// Split the change between two kernels by source, configuration and compiler: build and count the kernels in between.
    /// `two` takes two opposite orders and at most six builds, `all` all six orders and at most eight builds. `options` also
    /// finds the options behind the configuration's part, as `pipeprof kernel options` does [without a value: two]
    #[arg(
        long, help_heading = "Columns", value_parser = choice::<CauseOrders>(), value_name = "ORDERS", num_args = 0..=1, require_equals = true,
        default_missing_value = "two"
    )]
    causes: Option<CauseOrders>,
    /// Compare each column with the previous one (and the last with the first), or each with the first
    /// [default: previous for kernels and stored runs, first for settings of one kernel]
    #[arg(long, help_heading = "Measurement", value_parser = choice::<Against>())]
    against: Option<Against>,
    /// Number of guests to run in parallel [default: depends on CPUs and free memory; 1 for timed runs]
    #[arg(long, help_heading = "Measurement", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: Option<u32>,
    /// Timed runs: number of boots of each kernel; --runs is divided among them [default: 3; without guests, columns
    /// alternate after each run]
    #[arg(long, help_heading = "Measurement", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    boots: Option<u32>,
    /// Number of runs per column and mode; counted windows, where instructions are counted [default: 12; windows: as
    /// `pipeprof run`]
    #[arg(long = "runs", help_heading = "Measurement", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    number: Option<u32>,
    #[command(flatten, next_help_heading = "Measurement")]
    stop: StopArgs,
    #[command(flatten, next_help_heading = "Measurement")]
    sizing: SizingArgs,
    /// Counts: changes within this percentage are `same`
    #[arg(long, help_heading = "Measurement", value_name = "PERCENT", default_value = "1%", value_parser = parse_percent)]
    margin: f64,
    /// Seed for the order of runs and for bootstraps
    #[arg(long, help_heading = "Measurement", value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Weights of estimated cycles; see docs/cycles.md [default: the model of the first run]
    #[arg(long, value_name = "FILE", help_heading = "Measurement")]
    cycle_model: Option<PathBuf>,
    /// Folder for runs, report.html, report.md and report.json [default: compare-TIME; stored runs: no files]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Continue the interrupted comparison in -o DIR
    #[arg(long, requires = "output", help_heading = "Output")]
    resume: bool,
    /// Print report.json on stdout instead of the tables
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Timed runs per column and mode.
const TIMED_RUNS: u32 = 12;

impl CompareArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        // Before measuring: a faulty model is of no use.
        self.model()?;
        if self.runs.is_empty() { self.measure() } else { self.stored() }
    }

    fn stored(&self) -> Result<ExitCode> {
        ensure!(
            !self.resume,
            UsageError::new("--resume applies only to measurements, not to stored runs: remove --resume")
        );
        ensure!(
            self.axes.is_empty() && self.workload.is_empty() && self.source.is_none(),
            UsageError::new("stored runs are not measured again: remove the flags under Columns, or the runs")
        );
        ensure!(
            self.causes.is_none(),
            UsageError::new("--causes builds and counts kernels: give two --kernel instead of stored runs")
        );
        ensure!(
            self.runs.len() >= 2,
            UsageError::new(format!(
                "nothing to compare with {}: give two or more stored runs",
                self.runs[0].display()
            ))
        );
        let mut inputs = self.runs.iter().map(|path| stored::column(path)).collect::<Result<Vec<_>>>()?;
        if inputs.iter().flat_map(|input| &input.runs).any(|(_, run)| run.document.target.workload().is_none()) {
            inputs = pipelines::columns(inputs, &self.runs)?;
        }
        if let Some(folder) = &self.output {
            refuse_used(folder)?;
        }
        let options = self.options(self.against.unwrap_or_default())?;
        let compared = compare(&inputs, &options)?;
        if let Some(folder) = &self.output {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}: choose another with -o", folder.display()))?;
        }
        self.report(&compared, self.output.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self) -> Result<ExitCode> {
        let (mut plan, guest_memory) = self.plan().or_usage()?;
        for kernel in plan.columns.iter().filter_map(|column| column.options.kernel.as_ref()) {
            Kernel::find(kernel)?;
        }
        let causes = self.causes.map(|orders| self.prepare(&plan, orders)).transpose()?;
        if let Some(causes) = &causes {
            plan.columns.extend(causes.columns.iter().cloned());
        }
        let folder = self.output.clone().unwrap_or_else(default_folder);
        let store = MatrixStore::open(&folder, &plan, self.resume)?;
        let jobs = match (self.jobs, guest_memory, plan.runs) {
            (Some(jobs), _, _) => jobs as usize,
            // Parallel guests would disturb each other's times.
            (None, _, Some(_)) | (None, None, None) => 1,
            (None, Some(guest), None) => side_by_side::most(guest),
        };
        let label = |event: &Event<'_, MatrixRun>| {
            let MatrixRun { column, mode, cpus, .. } = event.cell;
            format!("{}, {}", plan.label(*column), section_title(mode, *cpus))
        };
        let watch = experiment::show("comparison", jobs, label);
        let results = matrix::run(
            &plan,
            &store,
            jobs,
            &|run| outcome(&run.options, &run.options.request(super::command_line())?),
            &watch,
        );
        progress::clear();
        let results = results?;
        let one_kernel = plan.columns.windows(2).all(|pair| pair[0].options.kernel == pair[1].options.kernel);
        let several_settings = one_kernel && plan.columns.len() > 2;
        let against = self.against.unwrap_or(if several_settings { Against::First } else { Against::Previous });
        let missing = results.missing;
        let inputs: Vec<Input> = results.inputs.into_iter().filter(|input| !input.runs.is_empty()).collect();
        if inputs.len() < 2 {
            let reasons: Vec<String> = missing
                .iter()
                .map(|missing| {
                    let title = section_title(&missing.mode, missing.cpus);
                    format!("{} {title}: {}", missing.column, missing.reason)
                })
                .collect();
            bail!(
                "nothing to compare: fewer than two columns have a result (finished runs are kept in {}): {}",
                folder.display(),
                reasons.join("; ")
            );
        }
        let failed = !missing.is_empty();
        let options =
            CompareOptions { control: results.control, missing, ending: results.ending, ..self.options(against)? };
        let compared = match &causes {
            Some(_) if inputs.len() < plan.columns.len() => {
                bail!(
                    "--causes: a kernel could not be counted: see `pipeprof kernel boot` for {}",
                    columns_of(&options)
                )
            }
            Some(causes) => causes::compared(&inputs, causes, &options)?,
            None => compare(&inputs, &options)?,
        };
        self.report(&compared, Some(&folder))?;
        if self.causes == Some(CauseOrders::Options) {
            self.options_behind(&plan, &folder)?;
        }
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn prepare(&self, plan: &MatrixPlan, orders: CauseOrders) -> Result<causes::CausePlan> {
        ensure!(plan.runs.is_none(), UsageError::new("--causes needs counts, and these runs are timed"));
        let with_settings = self.axes.has_settings() || !self.workload.is_empty() || self.source.is_some();
        if orders == CauseOrders::Options && (with_settings || self.json) {
            bail!(UsageError::new(
                "--causes=options prints two tables, and takes the settings of all columns from --run-flags: remove the \
                 others under Columns, and --json"
            ));
        }
        ensure!(
            orders != CauseOrders::Options || !plan.cpus.is_empty(),
            UsageError::new("--causes=options: give --cpus outside of --run-flags")
        );
        causes::prepare(&plan.columns, orders, one_per_cpu())
    }

    /// Find the options behind the configuration's part, with the workloads of `plan`.
    fn options_behind(&self, plan: &MatrixPlan, folder: &Path) -> Result<()> {
        let kernels = plan.columns.iter().filter_map(|column| column.options.kernel.clone());
        let [before, after] =
            kernels.take(2).collect::<Vec<_>>().try_into().ok().context("--causes has two kernels")?;
        let output = folder.join("options");
        let count = CountArgs {
            mode: plan.modes.clone(),
            cpus: plan.cpus.clone(),
            sizing: self.sizing.clone(),
            run_flags: self.axes.run_flags.clone(),
            resume: self.resume && output.is_dir(),
            output: Some(output),
        };
        util::outln!("");
        OptionsArgs::between([before, after], count).run(&KernelCache::open()?)
    }

    fn options(&self, against: Against) -> Result<CompareOptions> {
        let (command, cycle_model) = (super::command_line(), self.model()?);
        let (seed, margin) = (self.seed, self.margin);
        Ok(CompareOptions { command, against, seed, cycle_model, margin, ..CompareOptions::default() })
    }

    /// The model of `--cycle-model`.
    fn model(&self) -> Result<Option<CycleModel>> {
        self.cycle_model.as_deref().map(cycles::model).transpose()
    }

    /// The plan, and the memory of the largest guest.
    pub(super) fn plan(&self) -> Result<(MatrixPlan, Option<u64>)> {
        let modes = self.axes.modes()?;
        let mut columns = plan::columns(&self.axes.typed(self.workload.0.clone())?)?;
        let mut exact = true;
        let mut memory = None;
        for ColumnPlan { options, .. } in &mut columns {
            options.count_by_default();
            self.sizing.apply(options);
            options.workload.set_source(self.source.as_deref());
            // An invalid combination has no result; a column without a valid mode is an error before anything boots.
            let refused: Vec<anyhow::Error> = modes.iter().filter_map(|mode| request(options, mode).err()).collect();
            if refused.len() == modes.len() {
                return Err(refused.into_iter().next().context("no mode")?);
            }
            exact &= options.exact();
            memory = memory.max(options.kernel.as_ref().map(|_| options.machine.memory));
        }
        ensure!(
            exact || columns.iter().all(|column| column.options.runs.is_none()),
            "--runs cannot be given in --variant or --run-flags; give it to `pipeprof compare` itself"
        );
        ensure!(
            columns.iter().all(|column| column.options.stop.is_none()),
            "--until and --max-time cannot be given in --variant or --run-flags; give them to `pipeprof compare` itself"
        );
        let timed_runs = self.number.unwrap_or(TIMED_RUNS);
        if let Some(number) = self.number.filter(|_| exact) {
            columns.iter_mut().for_each(|column| column.options.runs = column.options.runs.or(Some(number)));
        }
        // Consecutive runs are similar. Without boots, which take time, columns alternate run by run.
        let cpus = self.axes.cpus(exact)?;
        if !exact && let [cpus] = cpus[..] {
            columns.iter_mut().for_each(|column| column.options.machine.cpus = Some(cpus));
        }
        let boots = columns.iter().any(|column| column.options.kernel.is_some());
        let blocks = if exact { 1 } else { self.boots.unwrap_or(if boots { 3 } else { timed_runs }) };
        let plan = MatrixPlan {
            schema: plan::SCHEMA.to_owned(),
            build: crate::util::build::version().to_owned(),
            columns,
            modes,
            cpus: if exact { cpus } else { Vec::new() },
            blocks: blocks as usize,
            runs: (!exact).then(|| timed_runs.div_ceil(blocks)),
            control: !exact,
            seed: self.seed,
            stop: self.stop.rule(),
        };
        ensure!(
            !exact || plan.stop.is_none(),
            "--until and --max-time conflict with exact counts, which are measured once; remove them"
        );
        if !exact && (timed_runs as usize) < timed::MINIMUM_PAIRS {
            progress::note(&format!(
                "--runs {timed_runs}: a timed verdict needs {} runs; the result will be undecided",
                timed::MINIMUM_PAIRS
            ));
        }
        Ok((plan, memory))
    }

    fn report(&self, compared: &Compared, folder: Option<&Path>) -> Result<()> {
        // Files first, because printing may fail on a closed pipe.
        let written = folder.map(|folder| render::write_all(folder, compared)).transpose()?;
        let text = || terminal::render(&compared.comparison, width(), terminal::SHOWN);
        global::print(self.json, &compared.comparison, text)?;
        if let Some(written) = written {
            let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
            progress::note(&format!("written: {}", names.join(", ")));
        }
        Ok(())
    }
}

/// The columns without a result.
fn columns_of(options: &CompareOptions) -> String {
    let names: Vec<&str> = options.missing.iter().map(|missing| missing.column.as_str()).collect();
    names.join("; ")
}

/// The request of `options` in `mode`.
fn request(options: &RunOptions, mode: &str) -> Result<Request> {
    let mut options = options.clone();
    options.workload.mode = Some(mode.to_owned());
    options.request(super::command_line())
}

fn default_folder() -> PathBuf {
    PathBuf::from(format!("compare-{}", super::now().trim_end_matches('Z').replace(':', "-")))
}

/// The width of comparisons on this terminal.
pub(super) fn width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col >= 60 => usize::from(size.ws_col).min(120),
        _ => 100,
    }
}

/// Refuse a report folder that is not empty.
fn refuse_used(folder: &Path) -> Result<()> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("the report folder {} exists and is not empty: choose another with -o, or remove it", folder.display());
    }
    Ok(())
}

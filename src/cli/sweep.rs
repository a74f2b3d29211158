//! `pipeprof sweep`: measure all combinations of some axes of a workload.

use super::axis_args::AxisArgs;
use super::guest_args::GuestArgs;
use super::stop_args::StopArgs;
use crate::compare::plan::image;
use crate::experiment::{Interrupted, StoredPlan as _};
use crate::kernel::environment::CpuTime;
use crate::report::chart::Theme;
use crate::report::terminal::{Style, paragraph};
use crate::result::{Environment, ExecutedOn, KernelInfo};
use crate::run::bench::{Bench as _, Machine, Missing};
use crate::sweep::{self, SCHEMA, Sweep, SweepAxis, SweepCombination, SweepPlan};
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{atomic_file, cancel, progress};
use crate::vm::Accel;
use crate::workload::WorkloadRequest;
use crate::workload::grid::Grid;
use crate::workload::modes::names;
use crate::workload::spec::{Amount, Pin};
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Calls of the writer per exact cell.
const EXACT_CALLS: u64 = 400;
/// Bytes of their warm-up.
const EXACT_WARMUP: u64 = 8 << 20;

/// Measure every combination of several settings, and print a table, CSV or JSON
///
/// Each axis accepts a list (`--mode write,vmsplice`, or the flag twice). Sizes and numbers also accept a doubling
/// range (`--buffer-size 4K..4M`). An axis that is not given has the value of the mode. Runs of all combinations
/// are interleaved in random order.
#[derive(Debug, clap::Args)]
pub(crate) struct SweepArgs {
    /// Presets of the flags below [default: write]
    #[arg(long, help_heading = "Workload", value_name = "MODE,...", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(names()))]
    mode: Vec<String>,
    #[command(flatten)]
    axes: AxisArgs,
    /// Measured time of each run, such as 500ms
    #[arg(long, help_heading = "Workload", value_name = "TIME", default_value = "250ms", value_parser = super::workload_args::parse_duration)]
    duration: u64,
    /// CPUs of writer and reader, such as 0,1; `none` does not pin them [default: chosen by topology]
    #[arg(long, help_heading = "Workload", value_name = "W,R|none", value_parser = super::workload_args::parse_pin)]
    pin: Option<Pin>,
    /// Number of runs per combination; with --until, the minimum
    #[arg(long, help_heading = "Measurement", value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    #[command(flatten, next_help_heading = "Measurement")]
    stop: StopArgs,
    /// Seed of the order of combinations
    #[arg(long, help_heading = "Measurement", value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Count instructions exactly in the guest of --kernel (insn), instead of measuring time
    #[arg(long, help_heading = "Measurement", value_name = "insn", value_parser = ["insn"])]
    collect: Option<String>,
    #[command(flatten)]
    guest: GuestArgs,
    /// Folder for sweep.json, sweep.csv, sweep.svg and all results [default: none]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Continue the interrupted sweep in -o DIR
    #[arg(long, requires = "output", help_heading = "Output")]
    resume: bool,
    /// Print sweep.json on stdout, everything else on stderr
    #[arg(long, conflicts_with = "csv", help_heading = "Output")]
    json: bool,
    /// Print sweep.csv on stdout, everything else on stderr
    #[arg(long, help_heading = "Output")]
    csv: bool,
}

/// What the flags ask to measure.
pub(super) struct WantedSweep {
    /// What all combinations share.
    common: WorkloadRequest,
    grid: Grid,
    pub combinations: Vec<SweepCombination>,
}

impl SweepArgs {
    /// # Errors
    /// One line that names the flag or file and the way out.
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let exact = self.collect.is_some();
        let WantedSweep { common, grid, combinations } = self.wanted()?;
        let stop = self.stop.rule();
        let bench = self.bench(exact)?;
        let in_guest = self.guest.kernel.clone();
        let place = [
            in_guest.clone().unwrap_or_else(|| KernelInfo::running().release),
            in_guest.as_deref().and_then(image).unwrap_or_default(),
            bench.setting(),
        ];
        let plan = SweepPlan {
            schema: SweepPlan::SCHEMA.to_owned(),
            build: crate::util::build::version().to_owned(),
            place: place.join("; "),
            axes: SweepAxis::all(&grid),
            common,
            exact,
            runs: self.runs as usize,
            seed: self.seed,
            stop,
        };
        let folder = self.output.as_deref().map(|folder| (folder, self.resume));
        let before = CpuTime::now().filter(|_| !exact);
        let measured = sweep::measure(&bench, &plan, &combinations, folder, &|at| {
            progress::step(&format!("sweep {}", at.next_text()));
        });
        progress::clear();
        let (cells, ending) = measured.map_err(|error| match &self.output {
            Some(folder) if error.is::<Interrupted>() => {
                anyhow::anyhow!(
                    "{error}; finished results are kept in {}: repeat the command with --resume to continue",
                    folder.display()
                )
            }
            _ => error,
        })?;
        let sweep = Sweep {
            schema: SCHEMA.into(),
            version: crate::util::build::version().to_owned(),
            command: super::command_line(),
            executed_on: if exact { ExecutedOn::Tcg } else { bench.executed_on() },
            unit: if exact { "instructions per KiB" } else { "GiB/s" }.into(),
            kernel: in_guest.unwrap_or_else(|| KernelInfo::running().release),
            cpu: if exact { "emulated".into() } else { Environment::now().cpu_model.unwrap_or_default() },
            axes: plan.axes,
            cells,
            others: before.zip(CpuTime::now()).and_then(|(before, now)| now.others_since(before)),
            ending,
        };
        self.write(&sweep)?;
        let json = || serde_json::to_string_pretty(&sweep).context("cannot write the sweep as JSON");
        match (self.json, self.csv) {
            (true, _) => crate::outln!("{}", json()?),
            (_, true) => crate::out!("{}", sweep.csv()),
            _ => {
                let style = Style::of_stdout();
                if let Some(caution) = sweep.caution() {
                    crate::out!("{}\n", paragraph("", &caution, style));
                }
                crate::out!("{}", sweep.table(style));
                if let Some(answer) = sweep.answer() {
                    crate::out!("\n{}", paragraph("", &answer, style));
                }
            }
        }
        if let Some(ending) = &sweep.ending {
            progress::note(&format!("measurement {}", ending.sentence("run")));
        }
        if sweep.cells.iter().all(|cell| cell.median.is_none()) {
            let reason = sweep.cells.iter().find_map(|cell| cell.reason.as_deref()).unwrap_or("no run was started");
            bail!("no combination was measured: {reason}");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What to measure. Nothing is read.
    ///
    /// # Errors
    /// A usage error.
    pub(super) fn wanted(&self) -> Result<WantedSweep> {
        let exact = self.collect.is_some();
        let amount = if exact { Amount::Calls(EXACT_CALLS) } else { Amount::DurationNs(self.duration) };
        let common = WorkloadRequest {
            amount: Some(amount),
            pin: self.pin,
            // Emulation is slow, and a shorter warm-up is enough for counts.
            warmup_bytes: exact.then_some(EXACT_WARMUP),
            ..WorkloadRequest::default()
        };
        if exact && self.guest.kernel.is_none() {
            bail!(UsageError::new("--collect insn requires a guest: add --kernel, such as --kernel 6.12"));
        }
        if self.mode.is_empty() && self.axes.0.iter().all(|(_, values)| values.is_empty()) {
            let axes: Vec<String> = self.axes.0.iter().map(|(axis, _)| format!("--{}", axis.name)).collect();
            bail!(UsageError::new(format!(
                "nothing to sweep: give values to an axis, such as --buffer-size 4K..4M; axes: --mode, {}",
                axes.join(", ")
            )));
        }
        let default = [WorkloadRequest::DEFAULT_MODE.to_owned()];
        let modes = if self.mode.is_empty() { &default[..] } else { &self.mode[..] };
        let grid = Grid::new(modes, self.axes.0.clone());
        let combinations: Vec<SweepCombination> = grid
            .combinations(&common)
            .or_usage()?
            .into_iter()
            .map(|combination| SweepCombination {
                // A contradictory combination gets no value; the others are measured.
                spec: combination.request.spec().map(|(_, spec)| spec).map_err(|error| format!("{error:#}")),
                labels: combination.labels,
            })
            .collect();
        if let Some(reason) = combinations.iter().find_map(|combination| combination.spec.as_ref().err())
            && combinations.iter().all(|combination| combination.spec.is_err())
        {
            bail!(UsageError::new(format!("no combination can be measured: {reason}")));
        }
        if exact && !self.stop.rule().is_none() {
            bail!(UsageError::new(
                "--until and --max-time conflict with --collect insn, which counts one run; remove them"
            ));
        }
        Ok(WantedSweep { common, grid, combinations })
    }

    fn bench(&self, exact: bool) -> Result<Machine> {
        let options = self.guest.options()?;
        let missing = || Missing::new("--kernel was not given", "");
        let name = self.guest.kernel.clone().unwrap_or_default();
        Ok(Machine {
            guest: options.clone().filter(|_| !exact),
            guest_executed_on: if self.guest.machine.accel == Accel::Kvm { ExecutedOn::Kvm } else { ExecutedOn::Tcg },
            kernel: options.map(|options| (name, options)).ok_or_else(missing),
        })
    }

    fn write(&self, sweep: &Sweep) -> Result<()> {
        let Some(folder) = &self.output else { return Ok(()) };
        let mut files = vec![("sweep.csv", sweep.csv()), ("sweep.json", serde_json::to_string_pretty(sweep)?)];
        match sweep.chart() {
            Some(chart) => files.push(("sweep.svg", chart.svg(Theme::File)?)),
            None => progress::note("no sweep.svg: nothing was measured, or the chart would need more than six lines"),
        }
        let mut paths = Vec::new();
        for (name, text) in &files {
            let path = folder.join(name);
            atomic_file::write(&path, text.as_bytes())?;
            paths.push(path.display().to_string());
        }
        progress::note(&format!("written: {}", paths.join(", ")));
        Ok(())
    }
}

//! `pipeprof sweep`: measure all combinations of some axes of workloads or pipelines.

use super::axes_args::AxesArgs;
use super::axis_args::{AxisArgs, PIPE_SIZE};
use super::pipeline_args::{GivenPipeline, PipelineArgs};
use super::stop_args::StopArgs;
use crate::compare::plan::{Axes, AxisCombination, combinations};
use crate::experiment::{self, Event, Interrupted};
use crate::kernel::environment::CpuTime;
use crate::record::ApplyRemedy as _;
use crate::record::Remedy;
use crate::report::chart::Theme;
use crate::report::terminal::{Style, paragraph};
use crate::result::{Collector, Environment, ExecutedOn, KernelInfo, Selection};
use crate::run::MeasurePair as _;
use crate::run::RunOptions;
use crate::sweep::{
    self, PLAN_FILE, SCHEMA, Sweep, SweepAxis, SweepCombination, SweepPlan, SweepRunner, SweptPipeline,
};
use crate::util::stored_json::stored_text;
use crate::util::streams::write_styled;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{atomic_file, cancel, progress};
use crate::vm::{Accel, Kernel};
use crate::workload::axis::{Axis, AxisKind, Value};
use crate::workload::spec::{Amount, Pin};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Calls of the writer per exact cell.
const EXACT_CALLS: u64 = 400;
/// Bytes of their warm-up.
const EXACT_WARMUP: u64 = 8 << 20;

/// Measure every combination of several settings, and print a table, CSV or JSON
///
/// Each axis accepts a list (`--mode write,vmsplice`, or the flag twice). Sizes
/// and numbers also accept a doubling range (`--buffer-size 4K..4M`). An axis
/// that is not given has the value of the mode. Runs of all combinations are
/// interleaved in random order.
///
/// With --pipeline, any pipeline is measured instead: its time on this machine,
/// or with --kernel and --collect insn its instructions:
///
///   pipeprof sweep --pipeline 'gzip -dc a.gz | gzip -1 | wc -c' \
///     --pipe-size 64K,1M --stage 2='gzip -1' --stage 2='gzip -6'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    axes: AxesArgs,
    #[command(flatten)]
    workload: AxisArgs,
    /// Measured time of each run of a mode, such as 500ms
    #[arg(long, help_heading = "Workload", value_name = "TIME", default_value = "250ms", value_parser = super::workload_args::parse_duration)]
    duration: u64,
    /// CPUs of writer and reader, such as 0,1; `none` does not pin them [default: chosen by topology]
    #[arg(long, help_heading = "Workload", value_name = "W,R|none", value_parser = super::workload_args::parse_pin)]
    pin: Option<Pin>,
    #[command(flatten)]
    pipelines: PipelineArgs,
    /// Number of runs per combination; with --until, the minimum
    #[arg(long, help_heading = "Measurement", value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    #[command(flatten, next_help_heading = "Measurement")]
    stop: StopArgs,
    /// Seed of the order of combinations
    #[arg(long, help_heading = "Measurement", value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Count instructions exactly in guests of --kernel (insn), instead of measuring time
    #[arg(long, help_heading = "Measurement", value_name = "insn", value_parser = ["insn"], hide_possible_values = true)]
    collect: Option<String>,
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
    axes: Vec<SweepAxis>,
    /// What all combinations share.
    common: RunOptions,
    pub combinations: Vec<SweepCombination>,
}

impl SweepArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let exact = self.collect.is_some();
        let WantedSweep { axes, common, combinations } = self.wanted()?;
        self.axes.kernel.iter().try_for_each(|kernel| Kernel::find(kernel).map(drop))?;
        let plan = SweepPlan {
            schema: PLAN_FILE.schema,
            build: crate::util::build::version().to_owned(),
            axes,
            common,
            runs: self.runs as usize,
            seed: self.seed,
            stop: self.stop.rule(),
        };
        let runner = SweepRunner::new(&combinations)?;
        let folder = self.output.as_deref().map(|folder| (folder, self.resume));
        let before = CpuTime::now().filter(|_| !exact);
        let varied: Vec<&SweepAxis> = plan.axes.iter().filter(|axis| axis.values.len() > 1).collect();
        let label = |event: &Event<'_, SweepCombination>| {
            let values = varied.iter().filter_map(|axis| event.cell.labels.get(&axis.name));
            values.map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        let measure = |made: &SweepCombination| runner.measure(made);
        let measured = sweep::measure(&measure, &plan, &combinations, folder, &experiment::show("sweep", 1, label));
        progress::clear();
        let (cells, ending) = measured.map_err(|error| match &self.output {
            Some(folder) => Interrupted::kept(error, "run", folder, "repeat the command with --resume"),
            None => error,
        })?;
        let kernels = &self.axes.kernel;
        let emulated = |made: &SweepCombination| made.options.machine.accel != Accel::Kvm;
        let sweep = Sweep {
            schema: SCHEMA.into(),
            version: crate::util::build::version().to_owned(),
            command: super::command_line(),
            executed_on: match combinations.iter().any(emulated) {
                _ if kernels.is_empty() => ExecutedOn::here(),
                true => ExecutedOn::Tcg,
                false => ExecutedOn::Kvm,
            },
            unit: self.unit().into(),
            kernel: if kernels.is_empty() { KernelInfo::running().release } else { kernels.join(", ") },
            cpu: if exact { "emulated".into() } else { Environment::now().cpu_model.unwrap_or_default() },
            axes: plan.axes,
            cells,
            others: before.zip(CpuTime::now()).and_then(|(before, now)| now.others_since(before)),
            ending,
        };
        self.write(&sweep)?;
        let json = || stored_text(&sweep).context("cannot write the sweep as JSON");
        match (self.json, self.csv) {
            (true, _) => util::outln!("{}", json()?),
            (_, true) => util::out!("{}", sweep.csv()),
            _ => {
                let style = Style::of_stdout();
                if let Some(caution) = sweep.caution() {
                    util::out!("{}\n", paragraph("", &caution, style));
                }
                write_styled(&sweep.table(style));
                for (number, answer) in sweep.answers().iter().enumerate() {
                    util::out!("{}{}", if number == 0 { "\n" } else { "" }, paragraph("", answer, style));
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

    fn unit(&self) -> &'static str {
        match (self.pipelines.is_empty(), self.collect.is_some()) {
            (true, false) => "GiB/s",
            (true, true) => "instructions per KiB",
            (false, false) => "s",
            (false, true) => "million instructions",
        }
    }

    /// What to measure. Nothing is run.
    pub(super) fn wanted(&self) -> Result<WantedSweep> {
        let exact = self.collect.is_some();
        let pipelines = self.pipelines.typed()?;
        if exact && self.axes.kernel.is_empty() {
            bail!(UsageError::new("--collect insn requires a guest: add --kernel, such as --kernel 6.12"));
        }
        if exact && !self.stop.rule().is_none() {
            bail!(UsageError::new(
                "--until and --max-time conflict with --collect insn, which counts one run; remove them"
            ));
        }
        if !pipelines.is_empty() {
            self.workload.check_for_pipelines()?;
            if self.axes.has_modes() {
                bail!(UsageError::new("--mode and --pipeline are measured in different units: sweep one of them"));
            }
            if !exact && !self.axes.kernel.is_empty() {
                bail!(UsageError::new("the time of a pipeline in a guest shows nothing: add --collect insn"));
            }
        } else if self.axes.is_empty() && self.workload.is_empty() {
            let axes: Vec<String> = self.workload.0.iter().map(|(axis, _)| format!("--{}", axis.name)).collect();
            bail!(UsageError::new(format!(
                "nothing to sweep: give values to an axis, such as --buffer-size 4K..4M; axes: --mode, --pipeline, \
                 --kernel, --cpus, {}",
                axes.join(", ")
            )));
        }
        let (common, made) = self.combined(pipelines.is_empty()).or_usage()?;
        let mut combinations = Vec::new();
        let mut values = Vec::new();
        let mut add = |given: Option<&GivenPipeline>, made: &AxisCombination| {
            let mut own: Vec<(String, String)> = given.map(|given| given.values.clone()).unwrap_or_default();
            own.extend(made.values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            combinations.push(self.combination(given, made, own.iter().cloned().collect()));
            values.extend(own);
        };
        if pipelines.is_empty() {
            made.iter().for_each(|made| add(None, made));
        }
        pipelines.iter().for_each(|given| made.iter().for_each(|made| add(Some(given), made)));
        if let Some(reason) = combinations.iter().find_map(|combination| combination.refused.as_ref())
            && combinations.iter().all(|combination| combination.refused.is_some())
        {
            bail!(UsageError::new(format!("no combination can be measured: {reason}")));
        }
        Ok(WantedSweep { axes: SweepAxis::all(values.iter()), common, combinations })
    }

    /// The common options, and all combinations of the axes but the pipelines.
    fn combined(&self, modes: bool) -> Result<(RunOptions, Vec<AxisCombination>)> {
        let exact = self.collect.is_some();
        let mut workload: Vec<(&'static Axis, Vec<Value>)> = self.workload.0.clone();
        // Sizes come last, the buffer size at the very end, because the last axis varies fastest in tables.
        let mut sizes: Vec<_> =
            workload.extract_if(.., |(axis, _)| matches!(axis.kind, AxisKind::Size { .. })).collect();
        sizes.reverse();
        workload.extend(sizes);
        workload.iter_mut().for_each(|(_, values)| keep_first(values));
        let mut axes = Axes {
            modes: if modes { self.axes.modes()? } else { Vec::new() },
            guest_cpus: self.axes.cpus.clone(),
            ..self.axes.typed(workload)?
        };
        keep_first(&mut axes.kernels);
        keep_first(&mut axes.guest_cpus);
        let mut common = RunOptions::default();
        for (index, variant) in axes.variants.iter_mut().enumerate() {
            let options = &mut variant.options;
            ensure!(
                options.collect.is_none() && options.runs.is_none() && options.stop.is_none(),
                "--collect, --runs, --until and --max-time cannot be given in --variant or --run-flags; give them to \
                 `pipeprof sweep` itself"
            );
            options.runs = Some(1);
            options.collect = Some(Selection::List(if exact { vec![Collector::Insn] } else { Vec::new() }));
            let workload = &mut options.workload;
            let amount = if exact { Amount::Calls(EXACT_CALLS) } else { Amount::DurationNs(self.duration) };
            workload.amount = workload.amount.or(Some(amount));
            workload.pin = self.pin.or(workload.pin);
            // Emulation is slow, and a shorter warm-up is enough for counts.
            workload.warmup_bytes = workload.warmup_bytes.or(exact.then_some(EXACT_WARMUP));
            if index == 0 {
                common = options.clone();
            }
        }
        Ok((common, combinations(&axes)?))
    }

    /// A contradictory combination gets no value; the others are measured.
    fn combination(
        &self,
        given: Option<&GivenPipeline>,
        made: &AxisCombination,
        labels: BTreeMap<String, String>,
    ) -> SweepCombination {
        let options = made.column.options.clone();
        let checked = options.request(String::new()).map(drop);
        let pipeline = given.map(|given| {
            let pipe_bytes = match options.workload.overrides.get(PIPE_SIZE) {
                Some(Value::Number(bytes)) => Some(*bytes),
                _ => None,
            };
            SweptPipeline { command: given.command.clone(), pipe_bytes, files: self.pipelines.file.clone() }
        });
        let checked = checked.and_then(|()| match &pipeline {
            Some(SweptPipeline { command, pipe_bytes: Some(bytes), .. }) => {
                Remedy::PipeSize(*bytes).changed(command).map(drop)
            }
            _ => Ok(()),
        });
        let refused = checked.err().map(|error| format!("{error:#}"));
        SweepCombination { labels, options, image: made.column.image.clone(), pipeline, refused }
    }

    fn write(&self, sweep: &Sweep) -> Result<()> {
        let Some(folder) = &self.output else { return Ok(()) };
        let mut files = vec![("sweep.csv", sweep.csv()), ("sweep.json", stored_text(sweep)?)];
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

/// Drop values that are equal to an earlier one.
fn keep_first<T: PartialEq + Clone>(values: &mut Vec<T>) {
    let mut distinct: Vec<T> = Vec::new();
    for value in values.iter() {
        if !distinct.contains(value) {
            distinct.push(value.clone());
        }
    }
    *values = distinct;
}

//! `pipeprof sweep`: any axes of a workload, all combinations.

use super::guest_args::GuestArgs;
use crate::document::{Environment, ExecutedOn, KernelInfo};
use crate::report::chart::Theme;
use crate::reproduce::bench::Machine;
use crate::reproduce::lab::Bench as _;
use crate::reproduce::sweep::{self, Axis, Plan, SCHEMA, Sweep};
use crate::reproduce::verdict::Missing;
use crate::util::{atomic_file, cancel, progress, size};
use crate::vm::Accel;
use crate::workload::Spec;
use crate::workload::modes::{Mode, names};
use crate::workload::spec::{Amount, Pin, Reader, Writer};
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Calls of the writer per exact cell.
const EXACT_CALLS: u64 = 400;

/// Measure every combination of several settings: a table, a chart, CSV and JSON
///
/// Each axis takes a list (`--mode write,vmsplice`, or the flag twice) and, where it is a number or a size, a range that
/// doubles (`--buffer-size 4K..4M`). Pairs of all combinations alternate in shuffled blocks.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Presets of the other axes
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', default_value = "write", value_parser = clap::builder::PossibleValuesParser::new(names()))]
    mode: Vec<String>,
    #[command(flatten)]
    axes: AxisArgs,
    /// Length of each pair's window
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = super::workload_args::parse_duration)]
    duration: u64,
    /// CPUs of writer and reader: 0,1; `none` leaves them to the scheduler [default: chosen by topology]
    #[arg(long, value_name = "W,R|none", value_parser = super::workload_args::parse_pin)]
    pin: Option<Pin>,
    /// Fresh pairs of each combination
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Seed of the order in which combinations alternate
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// `insn` counts instructions exactly in the guest of --kernel instead of measuring time
    #[arg(long, value_name = "insn", value_parser = ["insn"])]
    collect: Option<String>,
    #[command(flatten)]
    guest: GuestArgs,
    /// The folder for sweep.json, sweep.csv and sweep.svg [default: none are written]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print sweep.json on stdout, all else on stderr
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print sweep.csv on stdout, all else on stderr
    #[arg(long)]
    csv: bool,
}

/// The axes. In the order of tables.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Axes")]
struct AxisArgs {
    /// Bytes that one call is asked to move; vmsplice moves one half of it per call
    #[arg(long, value_name = "SIZES")]
    buffer_size: Vec<String>,
    /// The reader's buffer
    #[arg(long, value_name = "SIZES")]
    reader_buffer_size: Vec<String>,
    /// The pipe's capacity
    #[arg(long, value_name = "SIZES")]
    pipe_size: Vec<String>,
    /// The call that puts bytes into the pipe
    #[arg(long, value_name = "CALL,...", value_delimiter = ',', value_enum)]
    writer: Vec<Writer>,
    /// The call that takes bytes out of the pipe
    #[arg(long, value_name = "CALL,...", value_delimiter = ',', value_enum)]
    reader: Vec<Reader>,
    /// Independent pipes at once
    #[arg(long, value_name = "NUMBERS")]
    pairs: Vec<String>,
    /// Writers on each pipe
    #[arg(long, value_name = "NUMBERS")]
    writers: Vec<String>,
    /// Readers on each pipe
    #[arg(long, value_name = "NUMBERS")]
    readers: Vec<String>,
    /// Buffers in 2 MiB pages
    #[arg(long, value_name = "BOOL,...", value_delimiter = ',')]
    huge_pages: Vec<bool>,
    /// Never sleep
    #[arg(long, value_name = "BOOL,...", value_delimiter = ',')]
    busy_loop: Vec<bool>,
    /// poll(2) before each call
    #[arg(long, value_name = "BOOL,...", value_delimiter = ',')]
    poll: Vec<bool>,
    /// SPLICE_F_GIFT, SPLICE_F_MOVE
    #[arg(long, value_name = "BOOL,...", value_delimiter = ',')]
    gift: Vec<bool>,
    /// Lock buffers into memory
    #[arg(long, value_name = "BOOL,...", value_delimiter = ',')]
    mlock: Vec<bool>,
    /// Leave buffers untouched
    #[arg(long, value_name = "BOOL,...", value_delimiter = ',')]
    no_touch: Vec<bool>,
    /// Both halves of vmsplice in one buffer
    #[arg(long, value_name = "BOOL,...", value_delimiter = ',')]
    contiguous: Vec<bool>,
}

impl AxisArgs {
    fn axes(&self, modes: &[String]) -> Result<Vec<Axis>> {
        let mut axes = Vec::new();
        let mut add = |name: &str, values: Vec<String>| {
            let mut distinct: Vec<String> = Vec::new();
            for value in values {
                if !distinct.contains(&value) {
                    distinct.push(value);
                }
            }
            if !distinct.is_empty() {
                axes.push(Axis { name: name.to_owned(), values: distinct });
            }
        };
        add("mode", modes.to_vec());
        let calls = |name: Option<clap::builder::PossibleValue>| name.map(|value| value.get_name().to_owned());
        add("writer", self.writer.iter().filter_map(|writer| calls(writer.to_possible_value())).collect());
        add("reader", self.reader.iter().filter_map(|reader| calls(reader.to_possible_value())).collect());
        for (name, given) in [
            ("huge-pages", &self.huge_pages),
            ("busy-loop", &self.busy_loop),
            ("poll", &self.poll),
            ("gift", &self.gift),
            ("mlock", &self.mlock),
            ("no-touch", &self.no_touch),
            ("contiguous", &self.contiguous),
        ] {
            add(name, given.iter().map(bool::to_string).collect());
        }
        for (name, given) in [
            ("pairs", &self.pairs),
            ("writers", &self.writers),
            ("readers", &self.readers),
            ("pipe-size", &self.pipe_size),
            ("reader-buffer-size", &self.reader_buffer_size),
            ("buffer-size", &self.buffer_size),
        ] {
            let mut values = Vec::new();
            for text in given {
                let numbers = sweep::sizes(text).map_err(|why| anyhow::anyhow!("--{name}: {why}"))?;
                let counted = matches!(name, "pairs" | "writers" | "readers");
                if counted && numbers.iter().any(|number| *number == 0 || u32::try_from(*number).is_err()) {
                    bail!("--{name} {text}: give numbers from 1 on");
                }
                values.extend(numbers.into_iter().map(|n| if counted { n.to_string() } else { size::format(n) }));
            }
            add(name, values);
        }
        Ok(axes)
    }
}

/// The workload of one combination.
fn spec(labels: &BTreeMap<String, String>, amount: Amount, pin: Pin) -> Result<Spec, String> {
    let mode = labels.get("mode").and_then(|name| Mode::find(name)).ok_or("there is no such mode")?;
    let mut spec = Spec { amount, pin, ..mode.spec() };
    for (name, value) in labels {
        let number = || size::parse(value);
        let count = || number().and_then(|number| u32::try_from(number).map_err(|error| error.to_string()));
        let flag = || value.parse::<bool>().map_err(|error| error.to_string());
        match name.as_str() {
            "mode" => {}
            "writer" => spec.writer = Writer::from_str(value, false)?,
            "reader" => spec.reader = Reader::from_str(value, false)?,
            "buffer-size" => spec.buffer_size = number()?,
            "reader-buffer-size" => spec.reader_buffer_size = Some(number()?),
            "pipe-size" => spec.pipe_size = Some(number()?),
            "pairs" => spec.pairs = count()?,
            "writers" => spec.writers = count()?,
            "readers" => spec.readers = count()?,
            "huge-pages" => spec.huge_pages = flag()?,
            "busy-loop" => spec.busy_loop = flag()?,
            "poll" => spec.poll = flag()?,
            "gift" => spec.gift = flag()?,
            "mlock" => spec.mlock = flag()?,
            "no-touch" => spec.no_touch = flag()?,
            "contiguous" => spec.contiguous = flag()?,
            other => return Err(format!("{other} is no axis")),
        }
    }
    // A combination that contradicts itself has no value; the others do.
    spec.check().map_err(|error| format!("{error:#}"))?;
    Ok(spec)
}

impl Args {
    /// # Errors
    /// One line that names the flag or file and the way out.
    pub fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let exact = self.collect.is_some();
        let amount = if exact { Amount::Calls(EXACT_CALLS) } else { Amount::DurationNs(self.duration) };
        let pin = self.pin.unwrap_or(Spec::default().pin);
        let axes = self.axes.axes(&self.mode)?;
        let combinations = sweep::combinations(&axes)?;
        let plans: Vec<Plan> = combinations
            .into_iter()
            .map(|labels| Plan {
                spec: spec(&labels, amount, pin).map(|spec| if exact { small(spec) } else { spec }),
                labels,
            })
            .collect();
        if let Some(reason) = plans.iter().find_map(|plan| plan.spec.as_ref().err())
            && plans.iter().all(|plan| plan.spec.is_err())
        {
            bail!("no combination can be measured: {reason}");
        }
        let bench = self.bench(exact)?;
        let say = |done: usize, all: usize| progress::step(&format!("sweep {done}/{all}"));
        self.prepare()?;
        let cells = if exact {
            sweep::exact(&bench, &plans, &say)
        } else {
            sweep::timed(&bench, &plans, self.runs as usize, self.seed, &say)
        };
        progress::clear();
        let in_guest = self.guest.kernel.clone();
        let sweep = Sweep {
            schema: SCHEMA.into(),
            version: crate::util::build::version().to_owned(),
            command: super::command_line(),
            executed_on: if exact { ExecutedOn::Tcg } else { bench.executed_on() },
            unit: if exact { "instructions per KiB" } else { "GiB/s" }.into(),
            kernel: in_guest.unwrap_or_else(|| KernelInfo::running().release),
            cpu: if exact { "emulated".into() } else { Environment::now().cpu_model.unwrap_or_default() },
            axes,
            cells: cells?,
        };
        self.write(&sweep)?;
        let json = || serde_json::to_string_pretty(&sweep).context("cannot write the sweep as JSON");
        match (self.json, self.csv) {
            (true, _) => crate::outln!("{}", json()?),
            (_, true) => crate::out!("{}", sweep.csv()),
            _ => crate::out!("{}", sweep.table()),
        }
        if sweep.cells.iter().all(|cell| cell.median.is_none()) {
            let reason = sweep.cells.iter().find_map(|cell| cell.reason.as_deref()).unwrap_or("no pair ran");
            bail!("no combination was measured: {reason}");
        }
        Ok(ExitCode::SUCCESS)
    }

    fn bench(&self, exact: bool) -> Result<Machine> {
        let options = self.guest.options()?;
        if exact && options.is_none() {
            bail!("--collect insn counts in a guest: name a kernel with --kernel, such as --kernel 6.12");
        }
        let missing = || Missing::new("no --kernel was given", "");
        let name = self.guest.kernel.clone().unwrap_or_default();
        Ok(Machine {
            guest: options.clone().filter(|_| !exact),
            guest_executed_on: if self.guest.machine.accel == Accel::Kvm { ExecutedOn::Kvm } else { ExecutedOn::Tcg },
            kernel: options.map(|options| (name, options)).ok_or_else(missing),
        })
    }

    /// Make the folder before anything is measured.
    fn prepare(&self) -> Result<()> {
        let Some(folder) = &self.output else { return Ok(()) };
        if folder.join("sweep.json").exists() {
            bail!("{} holds a sweep already: choose another with -o, or remove it", folder.display());
        }
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}: choose another with -o", folder.display()))
    }

    fn write(&self, sweep: &Sweep) -> Result<()> {
        let Some(folder) = &self.output else { return Ok(()) };
        atomic_file::write(&folder.join("sweep.csv"), sweep.csv().as_bytes())?;
        match sweep.chart() {
            Some(chart) => atomic_file::write(&folder.join("sweep.svg"), chart.svg(Theme::File)?.as_bytes())?,
            None => eprintln!("no chart: nothing was measured, or more lines would be needed than can be told apart"),
        }
        atomic_file::write(&folder.join("sweep.json"), serde_json::to_string_pretty(sweep)?.as_bytes())?;
        eprintln!("written to {}", folder.display());
        Ok(())
    }
}

/// A warm-up that an emulated guest is through with quickly.
fn small(spec: Spec) -> Spec {
    Spec { warmup_bytes: 8 << 20, ..spec }
}

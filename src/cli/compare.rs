//! `pipeprof compare`: compare kernels, settings or stored runs.

use super::matrix_progress::MatrixProgress;
use super::run::{given_flags, outcome, parse_flags};
use super::stop_args::StopArgs;
use super::stored_runs;
use super::workload_args::check_distinct;
use crate::compare::matrix::{self, MatrixRun, MatrixStore, Runner};
use crate::compare::model::section_title;
use crate::compare::plan::{self, Axes, ColumnPlan, MatrixPlan, Variant};
use crate::compare::render::{self, terminal};
use crate::compare::{Against, CompareOptions, Compared, Input, compare, timed};
use crate::document::{Outcome, Request};
use crate::profile::CycleModel;
use crate::record::change::{self, RecordingChange};
use crate::record::change_text;
use crate::report::terminal::Style;
use crate::run::{RunOptions, cycles, exact};
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{cancel, progress, size};
use crate::workload::WorkloadRequest;
use crate::workload::axis::{Axis, Value};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare kernels, settings or stored runs, and show how reliable the result is
///
/// Boots and profiles each kernel in each mode. With --kernel, instructions are counted, unless --run-flags contains
/// --accel kvm or another --collect. All other runs are timed. Repeated flags multiply: each combination is a column. Stored runs can be given instead of kernels.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Stored runs, oldest first: a run.json, its folder, or a folder of several runs of one column (boots, or numbers
    /// of CPUs); or two folders of `pipeprof record`
    #[arg(value_name = "RUN", conflicts_with_all = ["kernel", "mode", "append", "cpu", "cpus", "memcg", "buffer_size", "variant"])]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    axes: AxesArgs,
    /// Compare each column with the previous one (and the last with the first), or each with the first
    /// [default: previous for kernels and stored runs, first for settings of one kernel]
    #[arg(long, help_heading = "Measurement", value_enum)]
    against: Option<Against>,
    /// Number of guests to run in parallel [default: depends on CPUs and free memory; 1 for timed runs]
    #[arg(long, help_heading = "Measurement", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: Option<u32>,
    /// Timed runs: number of boots of each kernel; --pairs is divided among them [default: 3; without guests, columns
    /// alternate after each run]
    #[arg(long, help_heading = "Measurement", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    boots: Option<u32>,
    /// Timed runs: number of runs per column and mode, unlike --pairs of `pipeprof run`
    #[arg(long, help_heading = "Measurement", value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pairs: u32,
    #[command(flatten, next_help_heading = "Measurement")]
    stop: StopArgs,
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

/// The axes that make columns.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Columns")]
struct AxesArgs {
    /// Kernel to boot: a bzImage, a .deb, or a series or release of `pipeprof kernel list`; may be repeated
    #[arg(long, value_name = "PATH|NAME")]
    kernel: Vec<String>,
    /// Mode of `pipeprof run`; may be repeated, each is a section of the report [default: write]
    #[arg(long, value_name = "MODE")]
    mode: Vec<String>,
    /// Kernel command-line arguments; may be repeated; --append '' adds none
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// Number of CPUs of the guests; may be repeated, each is a section of the report [default: 1 and 2 if instructions
    /// are counted, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Vec<u32>,
    /// QEMU's CPU model, such as max; may be repeated
    #[arg(long, value_name = "MODEL")]
    cpu: Vec<String>,
    /// Charge the guest's memory to a cgroup; may be given twice [default: on]
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    memcg: Vec<bool>,
    /// Bytes per call; may be repeated [default: 256K]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse)]
    buffer_size: Vec<u64>,
    /// Other flags of `pipeprof run` as a column; may be repeated: --variant '' --variant '--cpus 2'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    variant: Vec<String>,
    /// Flags of `pipeprof run` for all columns
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "", hide_default_value = true)]
    run_flags: String,
}

impl AxesArgs {
    /// The axes as typed values; this is the only place that parses flags in strings.
    fn typed(&self) -> Result<Axes> {
        // First alone, so that an error names the right flag.
        parse_flags("--run-flags", &self.run_flags)?;
        let empty = [String::new()];
        let texts = if self.variant.is_empty() { &empty[..] } else { &self.variant[..] };
        let variants = texts
            .iter()
            .map(|text| {
                let flag = if text.is_empty() { "--run-flags" } else { "--variant" };
                let options = parse_flags(flag, &format!("{text} {}", self.run_flags))?;
                ensure!(
                    options.workload.mode.is_none(),
                    "{flag} contains --mode; give --mode to `pipeprof compare` itself"
                );
                Ok(Variant { name: text.trim().to_owned(), options })
            })
            .collect::<Result<Vec<_>>>()?;
        let buffer_size = Axis::find("buffer-size").context("the table of axes has a buffer-size")?;
        Ok(Axes {
            kernels: self.kernel.clone(),
            appends: self.append.clone(),
            cpus: self.cpu.clone(),
            memcg: self.memcg.clone(),
            workload: vec![(buffer_size, self.buffer_size.iter().map(|bytes| Value::Number(*bytes)).collect())],
            variants,
        })
    }
}

impl AxesArgs {
    /// The numbers of CPUs to measure; empty for those of the columns' options. The verdict on a kernel must not depend
    /// on the number, so counts take both one, on which processes alternate, and two, on which they run at once.
    fn cpus(&self, exact: bool) -> Result<Vec<u32>> {
        let mut texts = std::iter::once(("--run-flags", &self.run_flags))
            .chain(self.variant.iter().map(|variant| ("--variant", variant)));
        let in_flags = texts.find_map(|(flag, text)| match given_flags(flag, text) {
            Ok(given) if given.has("cpus") => Some(flag),
            _ => None,
        });
        match (self.cpus.as_slice(), in_flags) {
            ([], Some(_)) => Ok(Vec::new()),
            ([], None) => Ok(if exact { exact::CPUS.to_vec() } else { Vec::new() }),
            (_, Some(flag)) => bail!("--cpus is given twice; remove it from {flag}"),
            ([_, _, ..], None) if !exact => {
                bail!("--cpus can be repeated only if instructions are counted: give it once")
            }
            (cpus, None) => {
                let mut cpus = cpus.to_vec();
                cpus.sort_unstable();
                cpus.dedup();
                Ok(cpus)
            }
        }
    }
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{text}' is not on or off")),
    }
}

/// Runs cells in this process.
struct Here;

impl Runner for Here {
    fn run(&self, run: &MatrixRun) -> Result<Outcome> {
        outcome(&run.options)
    }
}

impl CompareArgs {
    /// # Errors
    /// One line that names the flag or file and the way out.
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
            self.runs.len() >= 2,
            UsageError::new(format!(
                "nothing to compare with {}: give two or more stored runs",
                self.runs[0].display()
            ))
        );
        if let Some(change) = self.recordings()? {
            if self.json {
                let text = serde_json::to_string_pretty(&change).context("cannot write the comparison as JSON")?;
                crate::outln!("{text}");
            } else {
                crate::out!("{}", change_text::render(&change, Style::of_stdout()));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(folder) = &self.output {
            refuse_used(folder)?;
        }
        let inputs = self.runs.iter().map(|path| stored_runs::column(path)).collect::<Result<Vec<_>>>()?;
        let options = self.options(self.against.unwrap_or_default())?;
        let compared = compare(&inputs, &options)?;
        if let Some(folder) = &self.output {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}: choose another with -o", folder.display()))?;
        }
        self.report(&compared, self.output.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }

    /// What changed between two recordings of `pipeprof record`; `None` if these are runs.
    fn recordings(&self) -> Result<Option<RecordingChange>> {
        let found: Vec<Option<PathBuf>> = self.runs.iter().map(|path| change::recording_at(path)).collect();
        if found.iter().all(Option::is_none) {
            return Ok(None);
        }
        if let Some(missing) = self.runs.iter().find(|path| !path.exists()) {
            bail!("{} does not exist", missing.display());
        }
        let [Some(before), Some(after)] = &found[..] else {
            bail!(UsageError::new(
                "recordings are compared with each other, two at a time: give two of `pipeprof record`"
            ));
        };
        ensure!(
            self.output.is_none(),
            UsageError::new("-o: a comparison of recordings has no files; --json prints it for programs")
        );
        let [first, second] = [change::load(before)?, change::load(after)?];
        RecordingChange::new([&first, &second], [&self.runs[0], &self.runs[1]].map(PathBuf::as_path)).map(Some)
    }

    fn measure(&self) -> Result<ExitCode> {
        let (plan, guest_memory) = self.plan().or_usage()?;
        let folder = self.output.clone().unwrap_or_else(default_folder);
        let store = MatrixStore::open(&folder, &plan, self.resume)?;
        let jobs = match (self.jobs, guest_memory, plan.pairs) {
            (Some(jobs), _, _) => jobs as usize,
            // Parallel guests would disturb each other's times.
            (None, _, Some(_)) | (None, None, None) => 1,
            (None, Some(memory), None) => {
                let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                matrix::default_jobs(cpus, available_memory(), memory)
            }
        };
        let progress = MatrixProgress::start(&plan);
        let results = matrix::run(&plan, &store, jobs, &Here, &|event| progress.show(event));
        progress.finish();
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
        let compared = compare(&inputs, &options)?;
        self.report(&compared, Some(&folder))?;
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn options(&self, against: Against) -> Result<CompareOptions> {
        let (command, cycle_model) = (super::command_line(), self.model()?);
        Ok(CompareOptions { command, against, seed: self.seed, cycle_model, ..CompareOptions::default() })
    }

    /// The model of `--cycle-model`.
    fn model(&self) -> Result<Option<CycleModel>> {
        self.cycle_model.as_deref().map(cycles::model).transpose()
    }

    /// The plan, and the memory of the largest guest.
    pub(super) fn plan(&self) -> Result<(MatrixPlan, Option<u64>)> {
        let modes = if self.axes.mode.is_empty() {
            vec![WorkloadRequest::DEFAULT_MODE.to_owned()]
        } else {
            self.axes.mode.clone()
        };
        check_distinct(&modes)?;
        let mut columns = plan::columns(&self.axes.typed()?)?;
        let mut exact = true;
        let mut memory = None;
        for ColumnPlan { options, .. } in &mut columns {
            options.count_by_default();
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
            "--runs cannot be given in --variant or --run-flags; use --pairs of `pipeprof compare`"
        );
        ensure!(
            columns.iter().all(|column| column.options.stop.is_none()),
            "--until and --max-time cannot be given in --variant or --run-flags; give them to `pipeprof compare` itself"
        );
        // Consecutive runs are similar. Without boots, which take time, columns alternate run by run.
        let cpus = self.axes.cpus(exact)?;
        if !exact && let [cpus] = cpus[..] {
            columns.iter_mut().for_each(|column| column.options.machine.cpus = Some(cpus));
        }
        let boots = columns.iter().any(|column| column.options.kernel.is_some());
        let blocks = if exact { 1 } else { self.boots.unwrap_or(if boots { 3 } else { self.pairs }) };
        let plan = MatrixPlan {
            schema: plan::SCHEMA.to_owned(),
            build: crate::util::build::version().to_owned(),
            columns,
            modes,
            cpus: if exact { cpus } else { Vec::new() },
            blocks: blocks as usize,
            pairs: (!exact).then(|| self.pairs.div_ceil(blocks)),
            control: !exact,
            seed: self.seed,
            stop: self.stop.rule(),
        };
        ensure!(
            !exact || plan.stop.is_none(),
            "--until and --max-time conflict with exact counts, which are measured once; remove them"
        );
        if !exact && (self.pairs as usize) < timed::MINIMUM_PAIRS {
            progress::note(&format!(
                "--pairs {}: a timed verdict needs {} runs; the result will be inconclusive",
                self.pairs,
                timed::MINIMUM_PAIRS
            ));
        }
        Ok((plan, memory))
    }

    fn report(&self, compared: &Compared, folder: Option<&Path>) -> Result<()> {
        // Files first, because printing may fail on a closed pipe.
        let written = folder.map(|folder| render::write_all(folder, compared)).transpose()?;
        if self.json {
            crate::outln!("{}", serde_json::to_string_pretty(&compared.comparison)?);
        } else {
            crate::out!("{}", terminal::render(&compared.comparison, extent()));
        }
        if let Some(written) = written {
            let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
            progress::note(&format!("written: {}", names.join(", ")));
        }
        Ok(())
    }
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

/// MemAvailable of /proc/meminfo.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

pub(super) fn extent() -> terminal::Extent {
    let width = match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col >= 60 => usize::from(size.ws_col).min(120),
        _ => 100,
    };
    terminal::Extent { width, roles: 12, functions: 12 }
}

/// Refuse a report folder that is not empty.
fn refuse_used(folder: &Path) -> Result<()> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("the report folder {} exists and is not empty: choose another with -o, or remove it", folder.display());
    }
    Ok(())
}

//! `pipeprof flamegraph`: draw a stored run or recording, or any file of folded stacks.

use crate::profile::{Folded, ProcessName, Profile, Unit, listed};
use crate::record::say::critical;
use crate::report::files;
use crate::report::flamegraph::{self, Differential, GraphOptions, Shown};
use crate::result::stack_files::{self, CRITICAL_PATH, OFF_CPU};
use crate::result::{self, Outcome};
use crate::roles::Skid;
use crate::util::atomic_file;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Draw a flame graph of a stored run or recording, or of folded stacks
#[derive(Debug, clap::Args)]
pub(crate) struct FlamegraphArgs {
    /// A folder written by `pipeprof run` or `pipeprof record`, or a file of folded stacks
    #[arg(value_name = "DIR|FOLDED")]
    input: PathBuf,
    /// Process to draw: writer, reader, other, or both (writer and reader); of a recording the name of its file, such as
    /// stage1-dd, both for all, critical-path, or
    /// off-cpu for the sleeps
    #[arg(long, value_name = "NAME", default_value = ALL)]
    process: String,
    /// Merge stacks from the leaves, to show the callers of hot functions
    #[arg(long)]
    reverse: bool,
    /// Draw from the top down (icicle graph)
    #[arg(long)]
    icicle: bool,
    /// Draw the difference to OTHER: two flame graphs, one with the widths of each profile
    #[arg(long, value_name = "OTHER")]
    diff: Option<PathBuf>,
    /// Output file, `-` for standard output [default: next to the input, named after it]
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    /// Title of the picture [default: the run's command, or the file name]
    #[arg(long)]
    title: Option<String>,
    /// Unit of the weights in a folded file, for tooltips
    #[arg(long, value_enum, default_value = "weights")]
    unit: UnitName,
    /// Attribute samples at the instruction that re-enables interrupts to the caller that disabled them (for folded
    /// files sampled by cpu-clock)
    #[arg(long)]
    cpu_clock: bool,
}

/// All processes of the target in one picture.
const ALL: &str = "both";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum UnitName {
    /// Unknown
    Weights,
    Samples,
    Instructions,
    #[value(name = "ns")]
    Nanoseconds,
    EstimatedCycles,
}

/// A parsed input.
struct StackSource {
    stacks: Folded,
    unit: Unit,
    options: GraphOptions,
    /// Short name, for the title of a comparison.
    name: String,
}

impl FlamegraphArgs {
    /// Draw.
    pub(super) fn run(&self) -> Result<ExitCode> {
        if [OFF_CPU, CRITICAL_PATH].contains(&&self.process[..]) && !is_folded(&self.input) {
            let outcome = result::open(&self.input)?;
            if outcome.document.target.workload().is_none() {
                return self.draw_times(&outcome);
            }
        }
        let source = self.read(&self.input)?;
        let mut options = GraphOptions { reverse: self.reverse, icicle: self.icicle, ..source.options.clone() };
        options.title = self.title.clone().unwrap_or(options.title);
        let Some(other) = &self.diff else {
            let svg = flamegraph::render(&source.stacks, &options).with_context(|| self.input.display().to_string())?;
            return self.put(&self.output_path(""), &svg);
        };
        let after = self.read(other)?;
        if after.unit != source.unit {
            bail!(
                "--diff: {} is in {}, {} in {}; give two profiles of one unit",
                self.input.display(),
                flamegraph::unit_name(source.unit),
                other.display(),
                flamegraph::unit_name(after.unit)
            );
        }
        if self.title.is_none() {
            options.title = format!("{} → {}", source.name, after.name);
        }
        let difference = match (source.options.per_kib, after.options.per_kib) {
            (Some((before_scale, unit)), Some((after_scale, other))) if unit == other => Differential {
                before: &source.stacks,
                after: &after.stacks,
                before_scale,
                after_scale,
                unit,
                sums: true,
            },
            _ => Differential::of_shares(&source.stacks, &after.stacks),
        };
        for (shown, input, suffix) in [(Shown::After, other, ""), (Shown::Before, &self.input, "-before")] {
            let of = if shown == Shown::After { &after } else { &source };
            options.subtitle.clone_from(&of.options.subtitle);
            let svg =
                flamegraph::render_diff(&difference, shown, &options).with_context(|| input.display().to_string())?;
            self.put(&self.output_path(suffix), &svg)?;
            if self.to_stdout() {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Draw the sleeps or the critical path of a recording.
    fn draw_times(&self, recorded: &Outcome) -> Result<ExitCode> {
        let what = &self.process;
        if self.reverse || self.diff.is_some() {
            bail!("--process {what}: times of a recording have no --reverse and no --diff");
        }
        let path = self.input.display();
        let (stacks, mut options, render): (_, _, fn(&Folded, &GraphOptions) -> Result<String>) = if what == OFF_CPU {
            (&recorded.off_cpu, files::off_cpu_options(&recorded.document), flamegraph::render_waits)
        } else {
            (&recorded.critical_path, critical::options(&recorded.document), flamegraph::render_path)
        };
        let Some(stacks) = stacks else {
            let with =
                if what == OFF_CPU { "sleeps with stacks; record it with --level stacks" } else { "critical path" };
            bail!("{path}: contains no {with}");
        };
        options.icicle = self.icicle;
        options.title = self.title.clone().unwrap_or(options.title);
        let svg = render(stacks, &options).with_context(|| path.to_string())?;
        self.put(&self.output_path(""), &svg)
    }

    fn read(&self, path: &Path) -> Result<StackSource> {
        if is_folded(path) {
            let stacks = stack_files::load_folded(path)?;
            let unit = match self.unit {
                UnitName::Weights | UnitName::Samples => Unit::Samples,
                UnitName::Instructions => Unit::Instructions,
                UnitName::Nanoseconds => Unit::Nanoseconds,
                UnitName::EstimatedCycles => Unit::EstimatedCycles,
            };
            let title = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let weights = if self.unit == UnitName::Weights { "weights" } else { flamegraph::unit_name(unit) };
            let subtitle = format!("{} {weights}", crate::util::text::grouped(stacks.total()));
            let skid = if self.cpu_clock { Skid::CpuClock } else { Skid::None };
            let plain = GraphOptions::new(title.clone(), subtitle, unit, skid);
            let options = GraphOptions { weights: weights.to_owned(), ..plain };
            return Ok(StackSource { stacks, unit, options, name: title });
        }
        let outcome = result::open(path)?;
        let document = &outcome.document;
        let of_collector = outcome.profiles.iter().filter(|p| p.collector == document.attribution.collector);
        let (first, names, stacks) = self.choose(path, of_collector)?;
        let options = files::options(document, first, &names, stacks.total());
        let name = format!("{} · {}", document.mode, document.kernel.release);
        Ok(StackSource { stacks, unit: first.unit, options, name })
    }

    /// The stacks of the process that the user wants, or of all: the first profile, all names, and all stacks.
    fn choose<'p>(
        &self,
        path: &Path,
        profiles: impl Iterator<Item = &'p Profile>,
    ) -> Result<(&'p Profile, Vec<ProcessName>, Folded)> {
        let all = self.process == ALL;
        let wanted = |process: ProcessName| if all { process.is_of_target() } else { process.as_str() == self.process };
        let (found, others): (Vec<_>, Vec<_>) = profiles.partition(|profile| wanted(profile.process));
        let Some(&first) = found.first() else {
            let known = listed(others.iter().map(|profile| profile.process));
            if known.is_empty() {
                bail!("{}: contains no stacks; run or record it with a collector (--collect)", path.display());
            }
            bail!("--process {}: not in {}; known: {known}", self.process, path.display());
        };
        let stacks = match &found[..] {
            [one] => one.stacks.clone(),
            all => flamegraph::together(all.iter().map(|profile| (profile.process.as_str(), &profile.stacks))),
        };
        Ok((first, found.iter().map(|profile| profile.process).collect(), stacks))
    }

    fn to_stdout(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// The output path: as given, or next to the input.
    fn output_path(&self, suffix: &str) -> PathBuf {
        if let Some(output) = &self.output {
            if suffix.is_empty() {
                return output.clone();
            }
            let stem = output.file_stem().unwrap_or_default().to_string_lossy();
            return output.with_file_name(format!("{stem}{suffix}.svg"));
        }
        let folder = if self.input.is_dir() { self.input.clone() } else { self.input.with_file_name("") };
        let stem = if is_folded(&self.input) {
            self.input.file_stem().unwrap_or_default().to_string_lossy().into_owned()
        } else {
            ProcessName::new(&self.process).to_string()
        };
        let mut name = stem;
        for (is, what) in [(self.diff.is_some(), "-diff"), (self.reverse, "-reverse"), (self.icicle, "-icicle")] {
            if is {
                name.push_str(what);
            }
        }
        folder.join(format!("{name}{suffix}.svg"))
    }

    fn put(&self, path: &Path, svg: &str) -> Result<ExitCode> {
        if self.to_stdout() {
            util::out!("{svg}");
        } else {
            atomic_file::write(path, svg.as_bytes())?;
            util::outln!("{}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether `path` names folded stacks, not a result.
fn is_folded(path: &Path) -> bool {
    !path.is_dir() && path.extension().is_none_or(|extension| extension != "json")
}

//! Write the folder of a result: `result.json`, folded stacks, flame graphs.

use super::flamegraph::{self, GraphOptions};
pub use super::folder::KeptResults;
pub use super::folder::{Folder, Written};
use crate::profile::{ProcessName, Profile, RoleShare, Unit, listed};
use crate::result::code::CODE;
use crate::result::ensemble::{self, WINDOWS};
use crate::result::{
    Document, ExecutedOn, MeasuredTarget, Measurement, Outcome, RESULT_FILE, SWITCHES, is_plain, stack_files,
};
use crate::roles::Skid;
use crate::util::stored_json::stored_text;
use crate::util::text::{clean, grouped};
use anyhow::{Context as _, Result, bail};

/// Processes that the line above a graph names: a longer line is cut, and with it what the graph shows.
const NAMED: usize = 5;

impl Folder {
    /// Write all of `outcome` and move the folder to its target. Sets the document's `files`.
    ///
    /// # Errors
    /// A full disk and the like; then nothing is left at the target.
    pub fn write(self, outcome: &mut Outcome) -> Result<Written> {
        let files = contents(outcome)?;
        self.write_all(&with_document(outcome, files)?)
    }
}

/// `files`, and the document, whose `files` they are.
pub fn with_document(outcome: &mut Outcome, mut files: Vec<(String, Vec<u8>)>) -> Result<Vec<(String, Vec<u8>)>> {
    outcome.document.files = files.iter().map(|(name, _)| name.clone()).collect();
    files.push((RESULT_FILE.to_owned(), to_json(&outcome.document)?.into_bytes()));
    Ok(files)
}

/// The document as text.
///
/// # Errors
/// When JSON cannot represent a number in it.
pub fn to_json(document: &Document) -> Result<String> {
    let mut text = stored_text(document).context("cannot write the document as JSON")?;
    text.push('\n');
    Ok(text)
}

/// Stacks, flame graphs, windows and code, by name.
pub fn contents(outcome: &Outcome) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let mut collectors: Vec<&str> = outcome.profiles.iter().map(|profile| profile.collector.as_str()).collect();
    collectors.dedup();
    for collector in collectors {
        // The name becomes part of a file name, and may come from a guest.
        if !is_plain(collector) {
            bail!("unknown collector {collector:?} in a profile: nothing was written");
        }
        let of_collector: Vec<&Profile> = outcome
            .profiles
            .iter()
            .filter(|profile| profile.collector == collector && !profile.stacks.is_empty())
            .collect();
        for profile in &of_collector {
            let stem = stem(&outcome.document, collector, profile.process);
            let options = options(&outcome.document, profile, &[profile.process], profile.stacks.total());
            files.extend(stack_files::files(&stem, &profile.stacks)?);
            files.push((format!("{stem}.svg"), flamegraph::render(&profile.stacks, &options)?.into_bytes()));
        }
        let all: Vec<&Profile> = of_collector.iter().filter(|p| p.process.is_of_target()).copied().collect();
        if let [one, _, ..] = all[..] {
            let stacks = flamegraph::together(all.iter().map(|profile| (profile.process.as_str(), &profile.stacks)));
            let names: Vec<ProcessName> = all.iter().map(|profile| profile.process).collect();
            let options = options(&outcome.document, one, &names, stacks.total());
            let prefix = prefix(&outcome.document, collector);
            files.push((
                format!("{prefix}{}.svg", together_stem(&names)),
                flamegraph::render(&stacks, &options)?.into_bytes(),
            ));
        }
    }
    if let Some(stacks) = outcome.off_cpu.as_ref().filter(|stacks| !stacks.is_empty()) {
        let svg = flamegraph::render_waits(stacks, &off_cpu_options(&outcome.document))?;
        files.extend(stack_files::files(stack_files::OFF_CPU, stacks)?);
        files.push((format!("{}.svg", stack_files::OFF_CPU), svg.into_bytes()));
    }
    if let Some(switches) = &outcome.switches {
        files.push((SWITCHES.to_owned(), switches.to_bytes()?));
    }
    if !outcome.windows.is_empty() {
        let bytes =
            ensemble::to_bytes(&outcome.windows, &outcome.parts).context("cannot write the profiles of the windows")?;
        files.push((WINDOWS.to_owned(), bytes));
    }
    if let Some(code) = &outcome.code {
        files.push((CODE.to_owned(), code.to_bytes().context("cannot write the executed code")?));
    }
    Ok(files)
}

/// How the profiles of `names` are drawn in one picture: `one` of them, and the weight of all.
pub fn options(document: &Document, one: &Profile, names: &[ProcessName], total: u64) -> GraphOptions {
    let per_kib = per_kib_of_all(document, names).filter(|_| one.collector == document.attribution.collector);
    let subtitle = subtitle(document, names, one.unit, total);
    let plain = GraphOptions::new(title(document), subtitle, one.unit, one.skid);
    GraphOptions { per_kib, processes: names.to_vec(), ..plain }
}

/// A profile's file name without extension: `writer`, `reader` or `other`, with a prefix for further collectors.
fn stem(document: &Document, collector: &str, process: ProcessName) -> String {
    format!("{}{process}", prefix(document, collector))
}

/// The name of the picture of several processes, `both` or `all`, distinct from the processes' names.
pub(crate) fn together_stem(names: &[ProcessName]) -> String {
    let mut stem = if names.len() == 2 { "both" } else { "all" }.to_owned();
    while names.iter().any(|name| name.as_str() == stem) {
        stem.push('_');
    }
    stem
}

fn prefix(document: &Document, collector: &str) -> String {
    if collector == document.attribution.collector { String::new() } else { format!("{collector}-") }
}

/// A flame graph's title: the command that measures a run again; of others, what was recorded.
pub fn title(document: &Document) -> String {
    match document.target {
        MeasuredTarget::Pair { .. } => {}
        MeasuredTarget::Pipeline(_) | MeasuredTarget::Attached { .. } => return document.mode.clone(),
        MeasuredTarget::Imported(_) => return clean(&document.mode),
    }
    document.request.as_ref().map_or_else(|| document.command.clone(), Measurement::command)
}

/// The cost per KiB of one unit of weight in the attributed profile, if the run knows it: in instructions, or for
/// samples in nanoseconds.
fn per_kib(document: &Document, process: ProcessName) -> Option<(f64, &'static str)> {
    let scale = |share: &RoleShare| {
        let instructions = share.instructions_per_kib.map(|amount| (amount, "instructions per KiB"));
        let (amount, unit) = instructions.or(share.ns_per_kib.map(|amount| (amount, "ns per KiB")))?;
        (share.weight > 0).then(|| (amount / share.weight as f64, unit))
    };
    document.attribution.of(process).iter().find_map(scale)
}

/// [`per_kib`] for several processes in one picture. `None` if it differs between them, as for samples: a sample of
/// another process stands for another time.
fn per_kib_of_all(document: &Document, processes: &[ProcessName]) -> Option<(f64, &'static str)> {
    let mut scales = processes.iter().map(|process| per_kib(document, *process));
    let (first, unit) = scales.next()??;
    let same = |(scale, of): (f64, &str)| unit == of && (first - scale).abs() <= 1e-9 * first.abs();
    scales.all(|scale| scale.is_some_and(same)).then_some((first, unit))
}

/// The line below a flame graph's title: processes, mode, kernel, total weight, and what executed it.
fn subtitle(document: &Document, processes: &[ProcessName], unit: Unit, total: u64) -> String {
    let whose = match processes.split_at_checked(NAMED) {
        Some((first, further @ [_, _, ..])) => {
            let first: Vec<&str> = first.iter().map(|name| name.as_str()).collect();
            format!("{} and {} others", first.join(", "), further.len())
        }
        _ => listed(processes.iter().copied()),
    };
    let on = match document.executed_on {
        ExecutedOn::Hardware => "on hardware",
        ExecutedOn::Kvm => "in a KVM guest",
        ExecutedOn::Tcg => "emulated (TCG)",
    };
    let model = match &document.cycle_model {
        Some(model) if unit == Unit::EstimatedCycles => format!(" (model {})", model.name),
        _ => String::new(),
    };
    let release = &document.kernel.release;
    let parts = [
        Some(whose),
        document.target.workload().map(|_| format!("mode {}", document.mode)),
        (!release.is_empty()).then(|| format!("Linux {release}")),
        Some(format!("{} {}{model}", grouped(total), flamegraph::unit_name(unit))),
        document.target.imported().is_none().then(|| on.to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// How the graph of sleeps is drawn.
pub fn off_cpu_options(document: &Document) -> GraphOptions {
    let release = &document.kernel.release;
    let subtitle = format!("off-CPU: where threads slept, and who woke them; Linux {release}, microseconds");
    GraphOptions {
        weights: "µs".to_owned(),
        processes: Vec::new(),
        ..GraphOptions::new(title(document), subtitle, Unit::Nanoseconds, Skid::None)
    }
}

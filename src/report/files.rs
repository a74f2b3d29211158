//! Write and read the folder of a run: `result.json`, folded stacks, flame graphs.

use super::flamegraph::{self, GraphOptions};
pub(crate) use super::folder::KeptResults;
pub use super::folder::{Folder, Written};
use super::stack_files;
use crate::profile::cycles;
use crate::profile::{ByProcess, ProcessName, Profile, RoleShare, Unit, listed};
use crate::result::code::ExecutedCode;
use crate::result::ensemble;
use crate::result::{Document, ExecutedOn, Outcome, RESULT_FILE, SCHEMA};
use crate::roles::{Skid, UNKNOWN_ROLE};
use crate::util::{regular, stored_json, text::grouped};
use anyhow::{Context as _, Result, anyhow, bail};
use std::path::{Path, PathBuf};

/// Larger files are rejected before memory runs out; pipeprof writes none.
pub(crate) const LARGEST: u64 = 1 << 30;

/// The executed code's name in the folder.
pub(crate) const CODE: &str = "code.json.gz";

/// The name of the file with the profiles of all windows.
pub(crate) const WINDOWS: &str = "windows.json.gz";

impl Folder {
    /// Write all of `outcome` and move the folder to its target. Sets the document's `files`.
    ///
    /// # Errors
    /// A full disk and the like; then nothing is left at the target.
    pub fn write(self, outcome: &mut Outcome) -> Result<Written> {
        let files = all_files(outcome, Vec::new())?;
        self.write_all(&files)
    }

    /// As [`Self::write`], with `further` files, but to another folder if need be.
    ///
    /// # Errors
    /// When a graph cannot be drawn.
    pub(crate) fn write_or_rescue(self, outcome: &mut Outcome, further: Vec<(String, Vec<u8>)>) -> Result<KeptResults> {
        Ok(self.keep(&all_files(outcome, further)?))
    }

    /// As [`Self::write_or_rescue`], each run with its `further` files in a folder of its own with this name, next to
    /// the files `above`: all of them, or none.
    ///
    /// # Errors
    /// When a graph cannot be drawn.
    pub(crate) fn write_each_or_rescue<'a>(
        self,
        runs: impl Iterator<Item = (String, &'a mut Outcome, Vec<(String, Vec<u8>)>)>,
        above: Vec<(String, Vec<u8>)>,
    ) -> Result<KeptResults> {
        let mut files = above;
        for (folder, outcome, further) in runs {
            let of_run = all_files(outcome, further)?;
            files.extend(of_run.into_iter().map(|(name, bytes)| (format!("{folder}/{name}"), bytes)));
        }
        Ok(self.keep(&files))
    }
}

/// All files of `outcome`, and `further` ones. Sets the document's `files`.
///
/// # Errors
/// When a graph cannot be drawn.
pub(crate) fn all_files(outcome: &mut Outcome, further: Vec<(String, Vec<u8>)>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = contents(outcome)?;
    files.extend(further);
    outcome.document.files = files.iter().map(|(name, _)| name.clone()).collect();
    files.push((RESULT_FILE.to_owned(), to_json(&outcome.document)?.into_bytes()));
    Ok(files)
}

/// The document as text.
///
/// # Errors
/// When JSON cannot represent a number in it.
pub fn to_json(document: &Document) -> Result<String> {
    let mut text = serde_json::to_string_pretty(document).context("cannot write the document as JSON")?;
    text.push('\n');
    Ok(text)
}

/// All files except the document, by name.
fn contents(outcome: &Outcome) -> Result<Vec<(String, Vec<u8>)>> {
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
            let subtitle = subtitle(&outcome.document, profile.process.as_str(), profile.unit, profile.stacks.total());
            let mut options = GraphOptions::new(title(&outcome.document), subtitle, profile.unit, profile.skid);
            options.processes = vec![profile.process];
            if collector == outcome.document.attribution.collector {
                options.per_kib = per_kib(&outcome.document, profile.process);
            }
            files.extend(stack_files::files(&stem, &profile.stacks)?);
            files.push((format!("{stem}.svg"), flamegraph::render(&profile.stacks, &options)?.into_bytes()));
        }
        let all: Vec<&Profile> = of_collector.iter().filter(|p| p.process.is_of_target()).copied().collect();
        if let [one, _, ..] = all[..] {
            let stacks = flamegraph::together(all.iter().map(|profile| (profile.process.as_str(), &profile.stacks)));
            let names: Vec<ProcessName> = all.iter().map(|profile| profile.process).collect();
            let subtitle = subtitle(&outcome.document, &listed(names.iter().copied()), one.unit, stacks.total());
            let mut options = GraphOptions::new(title(&outcome.document), subtitle, one.unit, one.skid);
            if collector == outcome.document.attribution.collector {
                options.per_kib = per_kib_of_all(&outcome.document, &names);
            }
            options.processes.clone_from(&names);
            let prefix = prefix(&outcome.document, collector);
            files.push((
                format!("{prefix}{}.svg", together_stem(&names)),
                flamegraph::render(&stacks, &options)?.into_bytes(),
            ));
        }
    }
    if !outcome.windows.is_empty() {
        files.push(windows_file(&outcome.windows)?);
    }
    if let Some(code) = &outcome.code {
        files.push(code_file(code)?);
    }
    Ok(files)
}

/// The name and the bytes of the file with the executed code.
///
/// # Errors
/// Never, unless memory runs out.
pub(crate) fn code_file(code: &ExecutedCode) -> Result<(String, Vec<u8>)> {
    Ok((CODE.to_owned(), code.to_bytes().context("cannot write the executed code")?))
}

/// As [`load`], with the executed code if the run has it.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_whole(path: &Path) -> Result<Outcome> {
    let mut outcome = load(path)?;
    outcome.code = load_code(path).ok();
    Ok(outcome)
}

/// The code that a stored run executed.
///
/// # Errors
/// When the run has no code (it was made without `--collect insn`), or the file is damaged.
pub(crate) fn load_code(path: &Path) -> Result<ExecutedCode> {
    code_next_to(&document_path(path), "make the run with `pipeprof run --collect insn`")
}

/// The executed code next to a `document`, which exists. `remedy`: how to make one that has it.
///
/// # Errors
/// When it is missing or damaged.
pub(crate) fn code_next_to(document: &Path, remedy: &str) -> Result<ExecutedCode> {
    let folder = document.parent().unwrap_or(Path::new("."));
    let file = folder.join(CODE);
    if document.exists() && !file.exists() {
        bail!("{}: {CODE} is missing: {remedy}", folder.display());
    }
    ExecutedCode::from_bytes(&read(&file)?)
        .with_context(|| format!("{}: the file is damaged; run again", file.display()))
}

/// A profile's file name without extension: `writer`, `reader` or `other`, with a prefix for further collectors.
fn stem(document: &Document, collector: &str, process: ProcessName) -> String {
    format!("{}{process}", prefix(document, collector))
}

/// The name of the picture of several processes, `both` or `all`, distinct from the processes' names.
fn together_stem(names: &[ProcessName]) -> String {
    let mut stem = if names.len() == 2 { "both" } else { "all" }.to_owned();
    while names.iter().any(|name| name.as_str() == stem) {
        stem.push('_');
    }
    stem
}

fn prefix(document: &Document, collector: &str) -> String {
    if collector == document.attribution.collector { String::new() } else { format!("{collector}-") }
}

/// A flame graph's title: the command without its output folder.
#[must_use]
pub(crate) fn title(document: &Document) -> String {
    let mut words = document.command.split(' ');
    let mut kept: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        if matches!(word, "-o" | "--output") {
            words.next();
        } else if !word.starts_with("--output=") {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// The cost per KiB of one unit of weight in the attributed profile, if the run knows it: in instructions, or for
/// samples in nanoseconds.
#[must_use]
pub(crate) fn per_kib(document: &Document, process: ProcessName) -> Option<(f64, &'static str)> {
    let scale = |share: &RoleShare| {
        let instructions = share.instructions_per_kib.map(|amount| (amount, "instructions per KiB"));
        let (amount, unit) = instructions.or(share.ns_per_kib.map(|amount| (amount, "ns per KiB")))?;
        (share.weight > 0).then(|| (amount / share.weight as f64, unit))
    };
    document.attribution.of(process).iter().find_map(scale)
}

/// [`per_kib`] for several processes in one picture. `None` if it differs between them, as for samples: a sample of
/// another process stands for another time.
#[must_use]
pub(crate) fn per_kib_of_all(document: &Document, processes: &[ProcessName]) -> Option<(f64, &'static str)> {
    let mut scales = processes.iter().map(|process| per_kib(document, *process));
    let (first, unit) = scales.next()??;
    let same = |(scale, of): (f64, &str)| unit == of && (first - scale).abs() <= 1e-9 * first.abs();
    scales.all(|scale| scale.is_some_and(same)).then_some((first, unit))
}

/// The line below a flame graph's title: processes, mode, kernel, total weight, and what executed it.
#[must_use]
pub(crate) fn subtitle(document: &Document, whose: &str, unit: Unit, total: u64) -> String {
    let on = match document.executed_on {
        ExecutedOn::Hardware => "on hardware",
        ExecutedOn::Kvm => "in a KVM guest",
        ExecutedOn::Tcg => "emulated (TCG)",
    };
    let model = match &document.cycle_model {
        Some(model) if unit == Unit::EstimatedCycles => format!(" (model {})", model.name),
        _ => String::new(),
    };
    format!(
        "{whose} · mode {} · Linux {} · {} {}{model} · {on}",
        document.mode,
        document.kernel.release,
        grouped(total),
        flamegraph::unit_name(unit)
    )
}

/// Read the document at `path`: a `result.json`, or a folder that contains one.
///
/// # Errors
/// A missing or truncated file, a file that is not a document, a document of another schema.
pub fn load_document(path: &Path) -> Result<Document> {
    let file = document_path(path);
    parse_document(&read(&file)?).with_context(|| file.display().to_string())
}

/// Read a run: the document at `path` (a `result.json`, or a folder that contains one) and the folded stacks next to it.
///
/// # Errors
/// As [`load_document`]; a listed folded file that is missing or cannot be read.
pub fn load(path: &Path) -> Result<Outcome> {
    let document = load_document(path)?;
    let file = document_path(path);
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut profiles = Vec::new();
    let stems = document.files.iter().filter_map(|name| Some((name, name.strip_suffix(stack_files::FOLDED)?)));
    for (name, stem) in stems {
        let Some((collector, process)) = meaning(&document, stem) else {
            bail!(
                "{} lists the file {name:?}, which is not a profile's name: pipeprof did not write this document",
                file.display()
            );
        };
        let unit = match collector.as_str() {
            "sample" => Unit::Samples,
            "insn" => Unit::Instructions,
            "fgraph" => Unit::Nanoseconds,
            cycles::NAME => Unit::EstimatedCycles,
            _ => document.unit,
        };
        let skid = skid(&document, &collector, unit);
        profiles.push(Profile { process, collector, unit, skid, stacks: stack_files::load(folder, stem)? });
    }
    let windows = if document.files.iter().any(|name| name == WINDOWS) {
        let windows = load_windows(folder)?;
        let expected = document.ensemble.as_ref().map_or(0, |ensemble| ensemble.windows.len());
        if windows.len() != expected || windows.len() > document.runs.len() {
            bail!("{}: its number of windows differs from that in {}", folder.join(WINDOWS).display(), file.display());
        }
        windows
    } else {
        Vec::new()
    };
    Ok(Outcome { document, profiles, windows, classes: ByProcess::default(), code: None, pipeline: None })
}

/// The profiles of all windows that are stored in `folder`.
///
/// # Errors
/// When they are missing or damaged.
pub(crate) fn load_windows(folder: &Path) -> Result<Vec<Vec<Profile>>> {
    let path = folder.join(WINDOWS);
    let windows = ensemble::from_bytes(&read(&path)?);
    windows.with_context(|| format!("{}: the file is damaged; run again", path.display()))
}

/// The name and the bytes of the file with the profiles of all windows.
///
/// # Errors
/// Never, unless memory runs out.
pub(crate) fn windows_file(windows: &[Vec<Profile>]) -> Result<(String, Vec<u8>)> {
    let bytes = ensemble::to_bytes(windows).context("cannot write the profiles of the windows")?;
    Ok((WINDOWS.to_owned(), bytes))
}

/// The skid of the stacks of `collector`, by its report.
fn skid(document: &Document, collector: &str, unit: Unit) -> Skid {
    let report = document.collectors.iter().find(|report| report.name.name() == collector);
    // Older documents have no such field; all published ones were sampled with cpu-clock.
    report.and_then(|report| report.skid).unwrap_or(match unit {
        Unit::Samples => Skid::CpuClock,
        Unit::Instructions | Unit::Nanoseconds | Unit::EstimatedCycles => Skid::None,
    })
}

/// Read a document from untrusted bytes.
///
/// # Errors
/// The fault and the fix.
pub fn parse_document(bytes: &[u8]) -> Result<Document> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    // serde_json reports a truncated number as "invalid", not as "end of file".
    let at_end = |error: &serde_json::Error| {
        let last = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        error.is_syntax() && error.line() == lines && error.column() >= last.len()
    };
    let broken = |error: serde_json::Error| {
        if error.is_eof() || at_end(&error) {
            anyhow!("truncated (line {}); copy it again, or run again", error.line())
        } else if error.to_string().starts_with(UNKNOWN_ROLE) {
            anyhow!("{error}; update pipeprof, or run again")
        } else {
            anyhow!("not a pipeprof result.json ({error})")
        }
    };
    let head: Head = serde_json::from_slice(bytes).map_err(broken)?;
    if head.schema != SCHEMA {
        let number = |schema: &str| {
            let (name, number) = SCHEMA.split_once('/')?;
            let rest = schema.strip_prefix(name)?.strip_prefix('/')?;
            Some((rest.parse::<u32>().ok()?, number.parse::<u32>().ok()?))
        };
        match number(&head.schema) {
            Some((found, known)) if found > known => {
                bail!("schema {} is newer than this pipeprof, which reads {SCHEMA}; update pipeprof", head.schema)
            }
            Some(_) => bail!("schema {} is older than {SCHEMA}; run again with this pipeprof", head.schema),
            None => bail!("not a pipeprof result.json: the schema is {:?} instead of {SCHEMA}", head.schema),
        }
    }
    stored_json::parse(bytes).map_err(broken)
}

fn document_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RESULT_FILE) } else { path.to_owned() }
}

/// The collector and process of a profile's file name without its end. Only names that [`stem`] makes are accepted, so
/// that a hostile document cannot cause other files to be read.
fn meaning(document: &Document, stem_of: &str) -> Option<(String, ProcessName)> {
    let known = |name: &str| {
        let of_pair = [ProcessName::WRITER, ProcessName::READER, ProcessName::OTHER].into_iter();
        let mut all = of_pair.chain(document.processes.totals.names()).chain(document.attribution.processes.names());
        all.find(|process| process.as_str() == name)
    };
    if let Some(process) = known(stem_of) {
        return Some((document.attribution.collector.clone(), process));
    }
    let (collector, of) = stem_of.split_once('-')?;
    known(of).filter(|_| is_plain(collector)).map(|process| (collector.to_owned(), process))
}

fn is_plain(collector: &str) -> bool {
    !collector.is_empty() && collector.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Read a file of a stored run.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    regular::read_stored(path, LARGEST).map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound if path.ends_with(RESULT_FILE) => {
                "file does not exist; give a folder written by `pipeprof run`".to_owned()
            }
            std::io::ErrorKind::NotFound => "file does not exist".to_owned(),
            _ => format!("cannot read: {error}"),
        };
        anyhow!("{}: {reason}", path.display())
    })
}

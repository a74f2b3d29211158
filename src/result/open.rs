//! Read stored results: [`open()`] takes whatever names one. Nothing else knows what a folder holds.

use super::code::ExecutedCode;
use super::stack_files::{self, read, read_owned};
use super::{Document, Outcome, RESULT_FILE, SCHEMA, SWITCHES, Switches, check, code, ensemble};
use crate::profile::{ProcessName, Profile, Unit, cycles};
use crate::roles::{Skid, UNKNOWN_ROLE};
use crate::util::stored_json;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use std::path::{Path, PathBuf};

/// Read the result at `path`, a `result.json` or the folder that contains one, with all that is stored next to it.
///
/// # Errors
/// A missing, truncated or damaged file, a file that is not a result, a result of another schema.
pub fn open(path: &Path) -> Result<Outcome> {
    let (document, owner) = owned_document(path)?;
    let file = file_of(path);
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut outcome = Outcome { document, code: open_code(path).ok(), owner: Some(owner), ..Outcome::default() };
    let document = &outcome.document;
    let stems = document.files.iter().filter_map(|name| Some((name, name.strip_suffix(stack_files::FOLDED)?)));
    for (name, stem) in stems {
        if stem == stack_files::OFF_CPU && document.target.workload().is_none() {
            outcome.off_cpu = Some(stack_files::load(folder, stem)?);
            continue;
        }
        if stem == stack_files::CRITICAL_PATH && document.path.is_some() {
            outcome.critical_path = Some(stack_files::load(folder, stem)?);
            continue;
        }
        let Some((collector, process)) = meaning(document, stem) else {
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
        let skid = skid(document, &collector);
        outcome.profiles.push(Profile { process, collector, unit, skid, stacks: stack_files::load(folder, stem)? });
    }
    if document.files.iter().any(|name| name == SWITCHES) {
        let path = folder.join(SWITCHES);
        let read = Switches::from_bytes(&read(&path)?, document.recorded.len(), document.channels.len());
        outcome.switches =
            Some(read.with_context(|| format!("{}: the file is damaged; record again", path.display()))?);
    }
    let document = &outcome.document;
    if document.files.iter().any(|name| name == ensemble::WINDOWS) {
        let path = folder.join(ensemble::WINDOWS);
        (outcome.windows, outcome.parts) = ensemble::from_bytes(&read(&path)?)
            .with_context(|| format!("{}: the file is damaged; run again", path.display()))?;
        let (windows, expected) =
            (outcome.windows.len(), document.ensemble.as_ref().map_or(0, |all| all.windows.len()));
        if windows != expected || windows > document.runs.len() {
            bail!("{}: its number of windows differs from that in {}", path.display(), file.display());
        }
    }
    Ok(outcome)
}

/// As [`open()`], or all results in the folders in `path`, with where each of them is.
///
/// # Errors
/// As [`open()`]; a folder without any.
pub fn open_all(path: &Path) -> Result<Vec<(PathBuf, Outcome)>> {
    let mut paths = vec![path.to_owned()];
    if path.is_dir() && !path.join(RESULT_FILE).exists() {
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read the folder {}", path.display()))?;
        let inner = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        paths = inner.filter(|inner| inner.join(RESULT_FILE).exists()).collect();
        paths.sort();
        ensure!(!paths.is_empty(), "{}: contains no {RESULT_FILE}, nor does a folder in it", path.display());
    }
    paths.into_iter().map(|path| open(&path).map(|outcome| (path, outcome))).collect()
}

/// As [`open()`], without what is stored next to the document.
pub fn open_document(path: &Path) -> Result<Document> {
    owned_document(path).map(|(document, _)| document)
}

/// The document, and the user whose file it is.
fn owned_document(path: &Path) -> Result<(Document, u32)> {
    let file = file_of(path);
    let (bytes, owner) = read_owned(&file)?;
    Ok((parse(&bytes).with_context(|| file.display().to_string())?, owner))
}

/// The executed code that is stored with the result at `path`.
///
/// # Errors
/// When the result has no code (it was not counted), or the file is damaged.
pub fn open_code(path: &Path) -> Result<ExecutedCode> {
    let document = file_of(path);
    let folder = document.parent().unwrap_or(Path::new("."));
    let file = folder.join(code::CODE);
    if document.exists() && !file.exists() {
        bail!("{}: {} is missing: run or record with --kernel and --collect insn", folder.display(), code::CODE);
    }
    ExecutedCode::from_bytes(&read(&file)?)
        .with_context(|| format!("{}: the file is damaged; run again", file.display()))
}

/// Read a document from untrusted bytes.
///
/// # Errors
/// The fault and the fix.
pub fn parse(bytes: &[u8]) -> Result<Document> {
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
            anyhow!("not a pipeprof {RESULT_FILE} ({error})")
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
            None => bail!("not a pipeprof {RESULT_FILE}: the schema is {:?} instead of {SCHEMA}", head.schema),
        }
    }
    let document = stored_json::parse(bytes).map_err(broken)?;
    check::check(&document).context("pipeprof did not write this document")?;
    Ok(document)
}

fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RESULT_FILE) } else { path.to_owned() }
}

/// The skid of the stacks of `collector`, by its report.
fn skid(document: &Document, collector: &str) -> Skid {
    let report = document.collectors.iter().find(|report| report.name.name() == collector);
    report.and_then(|report| report.skid).unwrap_or_default()
}

/// The collector and process of a profile's file name without its end. Only names that are
/// written are accepted, so that a hostile document cannot cause other files to be read.
fn meaning(document: &Document, stem_of: &str) -> Option<(String, ProcessName)> {
    let known = |name: &str| {
        let of_pair = [ProcessName::WRITER, ProcessName::READER, ProcessName::OTHER].into_iter();
        let counted = document.functions.iter().map(|function| function.process);
        let shared = document.attribution.processes.names();
        let mut all = of_pair.chain(document.processes.totals.names()).chain(shared).chain(counted);
        all.find(|process| process.as_str() == name)
    };
    if let Some(process) = known(stem_of) {
        return Some((document.attribution.collector.clone(), process));
    }
    let (collector, of) = stem_of.split_once('-')?;
    known(of).filter(|_| super::is_plain(collector)).map(|process| (collector.to_owned(), process))
}

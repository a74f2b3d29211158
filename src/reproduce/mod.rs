//! The articles' experiments run again, and what they printed beside what this machine says.
//!
//! [`facts`] holds what the articles printed, and nothing of ours; [`parts`] has one file per part, each measuring
//! through a [`lab`] and handing over a [`result`]; [`verdict`] judges every fact; [`report`] writes the page. [`sweep`]
//! is the general form of the articles' tables over buffer sizes.

pub mod bench;
pub mod commands;
pub mod facts;
pub mod lab;
pub mod parts;
pub mod pipeline;
pub mod reasons;
pub mod report;
pub mod result;
pub mod stacks;
pub mod sweep;
pub mod verdict;

use crate::document::{Environment, KernelInfo};
use crate::util::{atomic_file, cancel};
use anyhow::{Context as _, Result, bail};
use facts::Facts;
use lab::{Bench, Lab};
use parts::Part;
use result::{PartResult, SCHEMA};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How to reproduce.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// A first answer within a minute: fewer and shorter pairs, few guests.
    pub quick: bool,
    pub output: PathBuf,
    /// Go on in a folder that an earlier, interrupted call left.
    pub resume: bool,
    /// Seed of the order of pairs.
    pub seed: u64,
    /// Whether timed experiments run in the guest as well, and under which kernel: part of what results depend on.
    pub in_guest: Option<String>,
    /// The kernel of exact profiles, as it was named.
    pub kernel: Option<String>,
}

impl Settings {
    /// What results of a part depend on: only those with an equal key are taken over by `--resume`.
    #[must_use]
    pub fn key(&self) -> String {
        let speed = if self.quick { "quick" } else { "full" };
        let place = self.in_guest.as_ref().map_or_else(|| "here".to_owned(), |kernel| format!("in {kernel}"));
        let kernel = self.kernel.as_deref().unwrap_or("none");
        format!("{speed}, {place}, exact profiles on {kernel}, seed {}", self.seed)
    }

    /// Fresh pairs per contestant of a race.
    #[must_use]
    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }

    /// Length of a timed window.
    #[must_use]
    pub fn window_ns(&self) -> u64 {
        if self.quick { 120_000_000 } else { 500_000_000 }
    }
}

/// A finished reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct Reproduction {
    pub facts: Facts,
    pub parts: Vec<PartResult>,
    pub command: String,
}

/// Run `wanted`, each part kept as it ends, and hand over all parts that the folder then holds.
///
/// # Errors
/// A folder that holds something else, results that cannot be kept, an interruption. What was finished stays, and
/// the error says how to go on.
pub fn run(
    settings: &Settings,
    bench: &dyn Bench,
    wanted: &[&'static dyn Part],
    command: &str,
    progress: &dyn Fn(&str),
) -> Result<Reproduction> {
    let facts = Facts::load()?;
    prepare(settings)?;
    let mut finished = Vec::new();
    for part in wanted {
        if settings.resume
            && let Some(result) = load(&settings.output, part.id())
            && result.key == settings.key()
        {
            progress(&format!("{}: kept from before", part.id()));
            finished.push(result);
            continue;
        }
        let say = |what: &str| progress(&format!("{}: {what}", part.id()));
        let lab = Lab::new(settings, bench, part.id(), &say);
        let result = one(*part, &lab, settings, &facts).map_err(|error| {
            let how = format!("what was finished is kept: go on with --resume -o {}", settings.output.display());
            if cancel::happened() { anyhow::anyhow!("interrupted; {how}") } else { error.context(how) }
        })?;
        let path = part_file(&settings.output, part.id());
        atomic_file::write(&path, serde_json::to_string_pretty(&result)?.as_bytes())?;
        finished.push(result);
    }
    // Parts of earlier calls into the same folder are part of the report as well.
    let mut all = Vec::new();
    for part in parts::PARTS {
        let this = finished.iter().find(|result| result.part == part.id()).cloned();
        let earlier = || load(&settings.output, part.id()).filter(|result| result.key == settings.key());
        all.extend(this.or_else(earlier));
    }
    Ok(Reproduction { facts, parts: all, command: command.to_owned() })
}

fn one(part: &dyn Part, lab: &Lab<'_>, settings: &Settings, facts: &Facts) -> Result<PartResult> {
    cancel::check()?;
    let started = now();
    let begin = Instant::now();
    let (kernel, environment) = (KernelInfo::running(), Environment::now());
    let found = part.run(lab, facts).with_context(|| format!("part {}", part.id()))?;
    Ok(PartResult {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        part: part.id().to_owned(),
        key: settings.key(),
        started,
        seconds: begin.elapsed().as_secs_f64(),
        kernel,
        environment,
        readings: found.readings,
        findings: found.findings,
        tables: found.tables,
        charts: found.charts,
        graphs: found.graphs,
        notes: found.notes,
    })
}

/// Make the folder, or look whether an earlier call left it.
fn prepare(settings: &Settings) -> Result<()> {
    let folder = &settings.output;
    match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            let used = entries.next().is_some();
            if used && !settings.resume {
                bail!(
                    "the output folder {} exists and is not empty: go on in it with --resume, or choose another with -o",
                    folder.display()
                );
            }
            if used && !folder.join("parts").is_dir() {
                bail!("{} holds no reproduction to resume: choose another with -o", folder.display());
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read the folder {}", folder.display())),
    }
    let parts = folder.join("parts");
    std::fs::create_dir_all(&parts)
        .with_context(|| format!("cannot make the folder {}: choose another with -o", parts.display()))
}

fn part_file(folder: &Path, part: &str) -> PathBuf {
    folder.join("parts").join(format!("{part}.json"))
}

/// A part that an earlier call finished; `None` where there is none, or it is of another version.
#[must_use]
pub fn load(folder: &Path, part: &str) -> Option<PartResult> {
    let text = std::fs::read(part_file(folder, part)).ok()?;
    let result: PartResult = serde_json::from_slice(&text).ok()?;
    (result.schema == SCHEMA && result.version == env!("CARGO_PKG_VERSION") && result.part == part).then_some(result)
}

/// UTC, RFC 3339, whole seconds.
fn now() -> String {
    let format = time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    time::OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

//! The articles' experiments run again, and what they printed beside what this machine says.
//!
//! [`facts`] holds what the articles printed, and nothing of ours; [`parts`] has one file per part, each measuring
//! through a [`lab`] and handing over a [`result`]; [`verdict`] judges every fact; [`report`] writes the page.

pub mod facts;
pub mod lab;
pub mod parts;
pub mod race;
pub mod reasons;
pub mod report;
pub mod result;
pub mod stacks;
pub mod verdict;

use crate::document::{Environment, KernelInfo};
use crate::kernel::environment::CpuTime;
use crate::util::{atomic_file, cancel};
use anyhow::{Context as _, Result, bail};
use facts::Facts;
use lab::{Bench, Lab};
use parts::Part;
use result::{PartResult, SCHEMA};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
    /// Parts that were wanted and are not there, as the reproduction ended early.
    pub unfinished: Vec<String>,
    pub command: String,
}

/// Run `wanted`, each part kept as it ends, and hand over all parts that the folder then holds.
///
/// # Errors
/// A folder that holds something else, results that cannot be kept, an interruption. What was finished stays, a report
/// shows it, and the error says how to go on.
pub fn run(
    settings: &Settings,
    bench: &dyn Bench,
    wanted: &[&'static dyn Part],
    command: &str,
    progress: &dyn Fn(&str),
) -> Result<Reproduction> {
    let facts = Facts::load()?;
    prepare(settings)?;
    let key = lab::key(settings, bench);
    let mut finished = Vec::new();
    let mut stopped = None;
    for part in wanted {
        if settings.resume
            && let Some(result) = load(&settings.output, part.id())
            && result.key == key
            && !result.again
        {
            progress(&format!("{}: kept from before", part.id()));
            finished.push(result);
            continue;
        }
        let say = |what: &str| progress(&format!("{}: {what}", part.id()));
        let lab = Lab::new(settings, bench, part.id(), &say);
        match one(*part, &lab, &key, &facts) {
            Ok(result) => {
                let path = part_file(&settings.output, part.id());
                atomic_file::write(&path, serde_json::to_string_pretty(&result)?.as_bytes())?;
                finished.push(result);
            }
            Err(error) => {
                stopped = Some(error);
                break;
            }
        }
    }
    // Parts of earlier calls into the same folder are part of the report as well.
    let mut all = Vec::new();
    for part in parts::PARTS {
        let this = finished.iter().find(|result| result.part == part.id()).cloned();
        let earlier = || load(&settings.output, part.id()).filter(|result| result.key == key);
        all.extend(this.or_else(earlier));
    }
    let there = |id: &str| all.iter().any(|result: &PartResult| result.part == id);
    let unfinished = wanted.iter().map(|part| part.id().to_owned()).filter(|id| !there(id)).collect();
    let reproduction = Reproduction { facts, parts: all, unfinished, command: command.to_owned() };
    match stopped {
        None => Ok(reproduction),
        Some(error) => Err(unfinished_error(&reproduction, settings, error)),
    }
}

/// Why a reproduction ended early, where its report of what was finished is, and how to go on.
fn unfinished_error(reproduction: &Reproduction, settings: &Settings, error: anyhow::Error) -> anyhow::Error {
    let mut how = format!("what was finished is kept: go on with --resume -o {}", settings.output.display());
    if !reproduction.parts.is_empty() {
        match report::write(reproduction, &settings.output) {
            Ok(page) => how = format!("{how}; {} shows the parts that were", page.display()),
            Err(report) => how = format!("{how}; there is no report of it: {report:#}"),
        }
    }
    if cancel::happened() { anyhow::anyhow!("interrupted; {how}") } else { error.context(how) }
}

fn one(part: &dyn Part, lab: &Lab<'_>, key: &str, facts: &Facts) -> Result<PartResult> {
    cancel::check()?;
    let busy = others();
    let started = now();
    let begin = Instant::now();
    let (kernel, environment) = (KernelInfo::running(), Environment::now());
    let found = part.run(lab, facts).with_context(|| format!("part {}", part.id()))?;
    Ok(PartResult {
        schema: SCHEMA.to_owned(),
        version: crate::util::build::version().to_owned(),
        part: part.id().to_owned(),
        key: key.to_owned(),
        again: lab.failed(),
        started,
        seconds: begin.elapsed().as_secs_f64(),
        kernel,
        environment,
        busy,
        readings: found.readings,
        findings: found.findings,
        tables: found.tables,
        charts: found.charts,
        graphs: found.graphs,
        notes: [found.notes, lab.remarks()].concat(),
    })
}

/// How much of the CPUs' time is used while this process only waits.
fn others() -> Option<f64> {
    let before = CpuTime::now()?;
    std::thread::sleep(Duration::from_millis(300));
    CpuTime::now()?.busy_since(before)
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
    (result.schema == SCHEMA && result.version == crate::util::build::version() && result.part == part)
        .then_some(result)
}

/// UTC, RFC 3339, whole seconds.
fn now() -> String {
    let format = time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    time::OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{ExecutedOn, Outcome, Processes, Request};
    use crate::profile::ProcessName;
    use crate::workload::Spec;
    use lab::{GuestSetup, Taken};
    use result::Yield;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use verdict::Missing;

    /// Counts pairs, and fails from the `fails_at`th on.
    struct Mock {
        pairs: AtomicUsize,
        fails_at: usize,
    }

    impl Bench for Mock {
        fn pair(&self, _: &Spec) -> Result<Processes> {
            let number = self.pairs.fetch_add(1, Ordering::Relaxed);
            anyhow::ensure!(number < self.fails_at, "the pipe burst");
            let mut pair = Processes { window_ns: 1_000_000_000, ..Processes::default() };
            pair.of_mut(ProcessName::READER).bytes = (number as u64 + 1) << 30;
            Ok(pair)
        }
        fn run(&self, _: &Request) -> Result<Outcome> {
            bail!("no runs here")
        }
        fn exact(&self, _: &Request, _: &GuestSetup) -> Result<Outcome> {
            bail!("no guests here")
        }
        fn executed_on(&self) -> ExecutedOn {
            ExecutedOn::Hardware
        }
        fn exact_kernel(&self) -> Taken<String> {
            Err(Missing::new("no kernel", ""))
        }
    }

    /// Races one contestant, then fails where it is told to.
    struct Racing {
        id: &'static str,
        broken: bool,
    }

    impl Part for Racing {
        fn id(&self) -> &'static str {
            self.id
        }
        fn title(&self) -> &'static str {
            "t"
        }
        fn about(&self) -> &'static str {
            "a"
        }
        fn run(&self, lab: &Lab<'_>, _: &Facts) -> Result<Yield> {
            let contestant = lab::Contestant { id: "one".into(), spec: Spec::default() };
            let raced = lab.race("race", &[contestant], 2)?;
            if self.broken {
                bail!("interrupted, say");
            }
            let mut out = Yield::default();
            out.readings.insert("A.ladder.1".into(), raced[0].speed());
            Ok(out)
        }
    }

    fn settings(output: &Path, resume: bool) -> Settings {
        Settings { quick: true, output: output.to_owned(), resume, seed: 1, in_guest: None, kernel: None }
    }

    fn mock(fails_at: usize) -> Mock {
        Mock { pairs: AtomicUsize::new(0), fails_at }
    }

    #[test]
    fn an_interrupted_reproduction_keeps_what_was_finished_and_goes_on() {
        static LADDER: Racing = Racing { id: "ladder", broken: false };
        static BROKEN: Racing = Racing { id: "cat", broken: true };
        static MENDED: Racing = Racing { id: "cat", broken: false };
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let bench = mock(usize::MAX);
        let error = run(&settings(&output, false), &bench, &[&LADDER, &BROKEN], "c", &|_| {}).unwrap_err();
        assert!(format!("{error:#}").contains("--resume -o"), "{error:#}");
        assert!(format!("{error:#}").contains("report.html shows the parts that were"), "{error:#}");
        assert_eq!(bench.pairs.load(Ordering::Relaxed), 4);
        let text = |output: &Path| std::fs::read_to_string(output.join("report.md")).unwrap();
        assert!(
            text(&output).contains("## The ladder") && text(&output).contains("Not finished: cat."),
            "{}",
            text(&output)
        );

        let error = run(&settings(&output, false), &bench, &[&LADDER], "c", &|_| {}).unwrap_err();
        assert!(error.to_string().contains("--resume"), "a used folder is not overwritten: {error}");

        // Neither the finished part nor the race of the broken one is run again.
        let all = run(&settings(&output, true), &bench, &[&LADDER, &MENDED], "c", &|_| {}).unwrap();
        assert_eq!(bench.pairs.load(Ordering::Relaxed), 4);
        assert_eq!(all.parts.iter().map(|part| part.part.as_str()).collect::<Vec<_>>(), ["ladder", "cat"]);
        assert_eq!(all.parts[0].readings["A.ladder.1"].as_ref().unwrap().runs, [1.0, 2.0]);

        // Other settings are another experiment.
        let slow = Settings { quick: false, ..settings(&output, true) };
        run(&slow, &bench, &[&LADDER], "c", &|_| {}).unwrap();
        assert!(load(&output, "ladder").unwrap().key.starts_with("full"));
    }

    #[test]
    fn half_a_file_is_made_anew() {
        static LADDER: Racing = Racing { id: "ladder", broken: false };
        let folder = tempfile::tempdir().unwrap();
        let bench = mock(usize::MAX);
        run(&settings(folder.path(), false), &bench, &[&LADDER], "c", &|_| {}).unwrap();
        for file in ["parts/ladder.json", "raw/ladder/race.json"] {
            let path = folder.path().join(file);
            let text = std::fs::read(&path).unwrap();
            std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        }
        run(&settings(folder.path(), true), &bench, &[&LADDER], "c", &|_| {}).unwrap();
        assert_eq!(bench.pairs.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_contestant_that_cannot_run_says_why_and_how() {
        static LADDER: Racing = Racing { id: "ladder", broken: false };
        let folder = tempfile::tempdir().unwrap();
        let all = run(&settings(folder.path(), false), &mock(1), &[&LADDER], "c", &|_| {}).unwrap();
        let missing = all.parts[0].readings["A.ladder.1"].as_ref().unwrap_err();
        assert!(missing.why.contains("the pipe burst") && missing.command.starts_with("pipeprof run "), "{missing:?}");
        // What failed is tried again, and no more than that.
        let (bench, mended) = (mock(usize::MAX), settings(folder.path(), true));
        let all = run(&mended, &bench, &[&LADDER], "c", &|_| {}).unwrap();
        assert!(all.parts[0].readings["A.ladder.1"].is_ok());
        run(&mended, &bench, &[&LADDER], "c", &|_| {}).unwrap();
        assert_eq!(bench.pairs.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_foreign_folder_is_left_alone() {
        static LADDER: Racing = Racing { id: "ladder", broken: false };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        for resume in [false, true] {
            let error = run(&settings(folder.path(), resume), &mock(9), &[&LADDER], "c", &|_| {}).unwrap_err();
            assert!(error.to_string().contains("choose another with -o"), "{error}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

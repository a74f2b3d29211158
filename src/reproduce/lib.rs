//! The articles' experiments, repeated, and their figures compared with this machine's.
//!
//! [`facts`] holds what the articles published, and nothing else. Each of [`parts`] measures through a [`lab`] and returns
//! a [`reproduced`]; [`verdict`] judges every fact; [`page`] writes the page.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as reproduce;
pub(crate) use {
    ::arch, ::experiment, ::kernel, ::profile, ::report, ::result, ::roles, ::run, ::util, ::vm, ::workload,
};

pub mod facts;
pub(crate) mod lab;
pub mod memory;
pub mod page;
pub mod parts;
mod pipeline;
pub(crate) mod race;
pub mod reasons;
pub mod reproduced;
mod settings;
pub mod stacks;
pub mod verdict;

use crate::kernel::environment::CpuTime;
use crate::result::{Environment, KernelInfo};
use crate::util::folder_lock::FolderLock;
use crate::util::text::now;
use crate::util::{atomic_file, build, cancel, regular, stored_json};
use anyhow::{Context as _, Result, anyhow, bail};
use facts::Facts;
use lab::{Bench, Lab};
use parts::ArticlePart;
use reproduced::{PartResult, SCHEMA};
use settings::create_folder;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use reproduced::Reproduction;
pub use settings::{GivenProgram, Settings};

/// Run the `wanted` parts, store each as it ends, and return all parts that the folder contains then. Finished parts
/// stay, a report shows them, and the error says how to continue.
pub fn run(
    settings: &Settings,
    bench: &dyn Bench,
    wanted: &[&'static ArticlePart],
    command: &str,
    progress: &dyn Fn(&str),
) -> Result<Reproduction> {
    let facts = Facts::load()?;
    let _lock = prepare(settings)?;
    let key = lab::key(settings, bench);
    let mut stopped = None;
    for part in wanted {
        if settings.resume
            && let Some(result) = load(&settings.output, part.id)
            && result.key == key
            && !result.again
        {
            progress(&format!("{}: finished earlier", part.id));
            continue;
        }
        let say = |what: &str| progress(&format!("{}: {what}", part.id));
        match one(part, &Lab::new(settings, bench, part.id, &say), &key, &facts) {
            Ok(result) => save(&settings.output, &result)?,
            Err(error) => {
                stopped = Some(error);
                break;
            }
        }
    }
    // The report includes parts of earlier calls with the same folder.
    let stored = |part: &ArticlePart| load(&settings.output, part.id).filter(|result| result.key == key);
    let all: Vec<PartResult> = parts::PARTS.iter().filter_map(stored).collect();
    let there = |id: &str| all.iter().any(|result| result.part == id);
    let unfinished = wanted.iter().map(|part| part.id.to_owned()).filter(|id| !there(id)).collect();
    let reproduction = Reproduction { facts, parts: all, unfinished, command: command.to_owned() };
    match stopped {
        None => Ok(reproduction),
        Some(error) => Err(unfinished_error(&reproduction, settings, error)),
    }
}

/// Why a reproduction ended early, where the report of its finished parts is, and how to continue.
fn unfinished_error(reproduction: &Reproduction, settings: &Settings, error: anyhow::Error) -> anyhow::Error {
    let mut how = format!("finished parts are stored: continue with --resume -o {}", settings.output.display());
    if !reproduction.parts.is_empty() {
        match page::write(reproduction, &settings.output) {
            Ok(page) => how = format!("{how}; their report is {}", page.display()),
            Err(report) => how = format!("{how}; cannot write their report: {report:#}"),
        }
    }
    if cancel::happened() { anyhow!("interrupted; {how}") } else { error.context(how) }
}

fn one(part: &ArticlePart, lab: &Lab<'_>, key: &str, facts: &Facts) -> Result<PartResult> {
    cancel::check()?;
    let before = CpuTime::now();
    let started = now();
    let begin = Instant::now();
    let (kernel, environment) = (KernelInfo::running(), Environment::now());
    let mut found = (part.run)(lab, facts).with_context(|| format!("part {}", part.id))?;
    found.notes.extend(lab.remarks());
    found.keep_finite();
    let busy = before.zip(CpuTime::now()).and_then(|(before, now)| now.others_since(before));
    Ok(PartResult {
        schema: SCHEMA.to_owned(),
        version: build::version().to_owned(),
        part: part.id.to_owned(),
        key: key.to_owned(),
        again: lab.failed(),
        started,
        seconds: begin.elapsed().as_secs_f64(),
        kernel,
        environment,
        busy,
        found,
    })
}

/// Create the folder, or check that an earlier call made it. No other process writes into it until the lock is dropped.
fn prepare(settings: &Settings) -> Result<FolderLock> {
    let folder = &settings.output;
    match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            let used = entries.next().is_some();
            if used && !settings.resume {
                bail!(
                    "the output folder {} is not empty: continue in it with --resume, or choose another with -o",
                    folder.display()
                );
            }
            if used && !folder.join("parts").is_dir() {
                bail!(
                    "--resume: {} is not the folder of an interrupted reproduction: choose another with -o",
                    folder.display()
                );
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read the folder {}", folder.display())),
    }
    create_folder(&folder.join("parts"))?;
    FolderLock::take(folder)
}

fn part_file(folder: &Path, part: &str) -> PathBuf {
    folder.join("parts").join(format!("{part}.json"))
}

/// The longest part that is read, bytes.
const LONGEST: u64 = 1 << 28;

fn save(folder: &Path, result: &PartResult) -> Result<()> {
    let text = stored_json::stored_text(result).with_context(|| format!("part {} cannot be stored", result.part))?;
    atomic_file::write(&part_file(folder, &result.part), text.as_bytes())
}

/// A part that an earlier call of this build finished; `None` if that did not finish it.
fn load(folder: &Path, part: &str) -> Option<PartResult> {
    let text = regular::read_stored(&part_file(folder, part), LONGEST).ok()?;
    let result: PartResult = stored_json::parse(&text).ok()?;
    (result.schema == SCHEMA && result.version == build::version() && result.part == part).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProcessName;
    use crate::report::chart::{Chart, ChartKind, Point, Series};
    use crate::result::{ExecutedOn, Processes};
    use crate::run::bench::MockBench;
    use crate::workload::Spec;
    use reproduced::{ExtraTable, PartOutput};
    use verdict::Reading;

    /// Measures one contestant.
    static LADDER: ArticlePart = part("ladder", |lab, _| race(lab));
    static CAT: ArticlePart = part("cat", |lab, _| race(lab));
    /// Fails after the measurement.
    static BROKEN_CAT: ArticlePart = part("cat", |lab, _| race(lab).and_then(|_| bail!("interrupted, say")));

    const fn part(id: &'static str, run: fn(&Lab<'_>, &Facts) -> Result<PartOutput>) -> ArticlePart {
        ArticlePart { id, title: "t", about: "a", run }
    }

    fn race(lab: &Lab<'_>) -> Result<PartOutput> {
        let raced = lab.race("race", &[lab::Contestant { id: "one".into(), spec: Spec::default() }], 2)?;
        let mut out = PartOutput::default();
        out.readings.insert("A.ladder.1".into(), raced.speed("one"));
        Ok(out)
    }

    /// Pairs of 1 GiB/s, 2 GiB/s and so on; from the `fails_at`th on they fail.
    fn mock(fails_at: usize) -> MockBench<impl Fn(usize, &Spec) -> Result<Processes>> {
        MockBench::new(move |number, _| {
            anyhow::ensure!(number < fails_at, "the pipe burst");
            let mut pair = Processes { window_ns: 1_000_000_000, ..Processes::default() };
            pair.of_mut(ProcessName::READER).bytes = (number as u64 + 1) << 30;
            Ok(pair)
        })
    }

    #[test]
    fn an_interrupted_reproduction_keeps_what_was_finished_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let bench = mock(usize::MAX);
        let error = run(&Settings::of_test(&output, false), &bench, &[&LADDER, &BROKEN_CAT], "c", &|_| {}).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("--resume -o") && error.contains("their report is"), "{error}");
        assert_eq!(bench.pairs.get(), 4);
        let text = std::fs::read_to_string(output.join("report.md")).unwrap();
        assert!(error.contains("report.html") && text.contains("## The ladder"), "{error} {text}");
        assert!(text.contains("Not finished: cat."), "{text}");

        let error = run(&Settings::of_test(&output, false), &bench, &[&LADDER], "c", &|_| {}).unwrap_err();
        assert!(error.to_string().contains("--resume"), "a used folder is not overwritten: {error}");

        // Neither the finished part nor the race of the broken one is run again.
        let all = run(&Settings::of_test(&output, true), &bench, &[&LADDER, &CAT], "c", &|_| {}).unwrap();
        assert_eq!(bench.pairs.get(), 4);
        assert_eq!(all.parts.iter().map(|part| part.part.as_str()).collect::<Vec<_>>(), ["ladder", "cat"]);
        assert_eq!(all.parts[0].found.readings["A.ladder.1"].as_ref().unwrap().runs, [1.0, 2.0]);

        // Other settings are another experiment.
        let slow = Settings { quick: false, ..Settings::of_test(&output, true) };
        run(&slow, &bench, &[&LADDER], "c", &|_| {}).unwrap();
        assert!(load(&output, "ladder").unwrap().key.starts_with("full"));
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_of_a_part_is_read(
            values in proptest::collection::vec(proptest::num::f64::ANY, 1..4), text: String, seconds in 0.0..1e9_f64,
        ) {
            let reading = |value| Reading {
                runs: values.clone(),
                interval: Some([values[0]; 2]),
                base: Some(values.clone()),
                ..Reading::single(value, &text, ExecutedOn::Hardware, &text)
            };
            let readings = values.iter().map(|value| (format!("{text}{value}"), Ok(reading(*value))));
            let points = values.iter().map(|value| Point { label: text.clone(), y: *value, span: None });
            let series = vec![Series { name: text.clone(), points: points.collect() }];
            let chart = Chart {
                id: text.clone(), title: text.clone(), kind: ChartKind::Bars, y: text.clone(), x: text.clone(), series,
                caption: text.clone(),
            };
            let mut found = PartOutput { readings: readings.collect(), charts: vec![chart], ..PartOutput::default() };
            found.tables.push(ExtraTable::new(&*text, &text, &*text));
            found.keep_finite();
            let all = values.iter().all(|value| value.is_finite());
            proptest::prop_assert!(found.readings.values().all(|reading| reading.is_ok() == all));
            let result = PartResult {
                schema: SCHEMA.to_owned(), version: build::version().to_owned(), part: "ladder".to_owned(), key: text,
                seconds, kernel: KernelInfo::running(), environment: Environment::now(), found, ..PartResult::default()
            };
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("parts")).unwrap();
            save(folder.path(), &result).unwrap();
            proptest::prop_assert_eq!(load(folder.path(), "ladder"), Some(result));
        }
    }

    #[test]
    fn half_a_file_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let bench = mock(usize::MAX);
        run(&Settings::of_test(folder.path(), false), &bench, &[&LADDER], "c", &|_| {}).unwrap();
        for file in ["parts/ladder.json", "raw/ladder/race/0001-2.json"] {
            let path = folder.path().join(file);
            let text = std::fs::read(&path).unwrap();
            std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        }
        run(&Settings::of_test(folder.path(), true), &bench, &[&LADDER], "c", &|_| {}).unwrap();
        assert_eq!(bench.pairs.get(), 3, "one of two runs is measured again");
    }

    #[test]
    fn a_contestant_that_cannot_run_says_why_and_how() {
        let folder = tempfile::tempdir().unwrap();
        let all = run(&Settings::of_test(folder.path(), false), &mock(1), &[&LADDER], "c", &|_| {}).unwrap();
        let missing = all.parts[0].found.readings["A.ladder.1"].as_ref().unwrap_err();
        assert!(missing.why.contains("the pipe burst") && missing.command.starts_with("pipeprof run "), "{missing:?}");
        // What failed is tried again, and no more than that.
        let (bench, resumed) = (mock(usize::MAX), Settings::of_test(folder.path(), true));
        let all = run(&resumed, &bench, &[&LADDER], "c", &|_| {}).unwrap();
        assert!(all.parts[0].found.readings["A.ladder.1"].is_ok());
        run(&resumed, &bench, &[&LADDER], "c", &|_| {}).unwrap();
        assert_eq!(bench.pairs.get(), 2);
    }
}

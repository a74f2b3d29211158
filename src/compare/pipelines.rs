//! Recorded pipelines as columns: what makes them comparable, and what their counts do not show.

use super::columns::short_release;
use super::input::Input;
use super::measure::{Measure, as_f64};
use crate::profile::ProcessName;
use crate::record::work::PipelineWork;
use crate::report::number::number;
use crate::result::{Outcome, RESULT_FILE};
use crate::util::text::grouped;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Copying by instructions that count once is named if loads of one word would have been one in so many instructions.
const NOTABLE_COPYING: u64 = 10;

/// Bytes of a word.
const WORD: u64 = 8;

/// Counted recordings, which are stored at `paths`, as columns. The stages of pipelines that differ in a program are the
/// same rows.
///
/// # Errors
/// When their pipelines have different numbers of stages.
pub(crate) fn columns(mut outcomes: Vec<Outcome>, paths: &[PathBuf]) -> Result<Vec<Input>> {
    let stages = |outcome: &Outcome| outcome.document.processes.totals.names().count();
    let counts: Vec<usize> = outcomes.iter().map(stages).collect();
    if let Some(other) = counts.iter().position(|count| *count != counts[0]) {
        let place = |at: usize| paths[at].display();
        ensure!(
            false,
            "{} has {} stages and {} has {}: compare recordings of one pipeline",
            place(0),
            counts[0],
            place(other),
            counts[other]
        );
    }
    let labels = labels(&outcomes, paths);
    let mode = outcomes.first().map(|outcome| outcome.document.mode.clone()).unwrap_or_default();
    let shared: Vec<ProcessName> = (0..counts.first().copied().unwrap_or(0)).map(|at| shared(&outcomes, at)).collect();
    for outcome in &mut outcomes {
        outcome.document.mode.clone_from(&mode);
        rename(outcome, &shared);
    }
    let inputs = outcomes.into_iter().zip(paths).zip(labels);
    Ok(inputs.map(|((outcome, path), label)| Input { label, runs: vec![(shown(path), outcome)] }).collect())
}

/// The name of stage `at` in all columns: `stage2-gzip+pigz` if the programs differ.
fn shared(outcomes: &[Outcome], at: usize) -> ProcessName {
    let names = outcomes.iter().filter_map(|outcome| outcome.document.processes.totals.names().nth(at));
    let names: BTreeSet<&str> = names.map(ProcessName::as_str).collect();
    let mut names = names.into_iter();
    let first = names.next().unwrap_or_default();
    let programs = names.filter_map(|name| name.split_once('-').map(|(_, program)| program));
    ProcessName::new(&programs.fold(first.to_owned(), |all, program| format!("{all}+{program}")))
}

fn rename(outcome: &mut Outcome, names: &[ProcessName]) {
    let own: Vec<ProcessName> = outcome.document.processes.totals.names().collect();
    let new = |name: ProcessName| own.iter().position(|own| *own == name).map_or(name, |at| names[at]);
    let document = &mut outcome.document;
    document.processes.totals = document.processes.totals.iter().map(|(name, of)| (new(name), of.clone())).collect();
    document.runs.iter_mut().for_each(|run| run.processes.clone_from(&document.processes));
    let shares = &mut document.attribution.processes;
    *shares = shares.iter().map(|(name, of)| (new(name), of.clone())).collect();
    let profiles = outcome.profiles.iter_mut().chain(outcome.windows.iter_mut().flatten());
    profiles.for_each(|profile| profile.process = new(profile.process));
}

/// What distinguishes the columns, if their kernels do not: the pipelines, or where they are stored.
fn labels(outcomes: &[Outcome], paths: &[PathBuf]) -> Vec<Option<String>> {
    let different = |of: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..outcomes.len()).map(of).collect();
        (all.iter().collect::<BTreeSet<_>>().len() == all.len()).then_some(all)
    };
    if different(&|at| short_release(&outcomes[at].document.kernel.release).to_owned()).is_some() {
        return vec![None; outcomes.len()];
    }
    let named = different(&|at| outcomes[at].document.mode.clone());
    let named = named.unwrap_or_else(|| paths.iter().map(|path| shown(path)).collect());
    named.into_iter().map(Some).collect()
}

fn shown(path: &Path) -> String {
    let folder = path.parent().filter(|folder| path.ends_with(RESULT_FILE) && !folder.as_os_str().is_empty());
    folder.unwrap_or(path).display().to_string()
}

/// What explains the change of two pipelines beyond their counts, or is missing in these.
#[must_use]
pub(crate) fn remarks(works: [&PipelineWork; 2], measures: [&Measure; 2]) -> Vec<String> {
    let mut remarks = Vec::new();
    if works[0].on_disk != works[1].on_disk {
        remarks.push(
            "Files were on a disk in one of them and in memory in the other: reading differs by itself.".to_owned(),
        );
    }
    let [needless, sleeps] = [works.map(|work| work.needless), measures.map(|measure| measure.schedule.sleeps)];
    // Most of the sleeps that came or went moved nothing.
    if needless[0] != needless[1] && 2 * needless[0].abs_diff(needless[1]) > sleeps[0].abs_diff(sleeps[1]) {
        let how = if needless[1] < needless[0] { "Fewer" } else { "More" };
        remarks.push(format!(
            "{how} needless wake-ups, after which nothing moved in a pipe: {} instead of {}.",
            grouped(needless[1]),
            grouped(needless[0])
        ));
    }
    if let [Some(first), Some(second)] = works.map(|work| work.rep_bytes) {
        let more = first.abs_diff(second);
        let least = measures.map(Measure::weight).into_iter().min().unwrap_or(0);
        if more / WORD > least / NOTABLE_COPYING {
            let when = if first > second { "before" } else { "after" };
            remarks.push(format!(
                "Instructions that copy or clear memory count once, however much it is: it was {} MiB more {when}.",
                mib(more)
            ));
        }
    }
    remarks
}

fn mib(bytes: u64) -> String {
    number(as_f64(bytes) / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::WindowSchedule;
    use crate::compare::{CompareOptions, compare};
    use crate::process::Phase;
    use crate::profile::{Folded, Moved, Profile, Unit, attribute};
    use crate::result::{
        Attribution, Collector, CollectorReport, Document, Ensemble, ExecutedOn, MeasuredTarget, PairRecord,
        PipelineCommand, ProcessTotals, Processes, RecordedEnd, RecordedPipe, RecordedProcess, SCHEMA, WindowCount,
    };
    use crate::roles::Skid;

    /// `dd | PROGRAM` with 1 MiB, of which each run of the second stage executes so many instructions.
    fn counted(release: &str, program: &str, runs: &[u64]) -> Outcome {
        let stages = [vec!["dd".to_owned()], vec![program.to_owned()]];
        let profile = |name: &str, weight: u64| Profile {
            process: ProcessName::new(name),
            collector: "insn".to_owned(),
            unit: Unit::Instructions,
            skid: Skid::None,
            stacks: Folded::parse(&format!("entry_SYSCALL_64;pipe_read;copy_page_to_iter {weight}")).unwrap(),
        };
        let name = format!("stage2-{program}");
        let window = |weight: &u64| vec![profile("stage1-dd", 1_000_000), profile(&name, *weight)];
        let windows: Vec<Vec<Profile>> = runs.iter().map(window).collect();
        let moved = Moved { bytes: 1 << 20, calls: 16, cpu_ns: None };
        let end = |process| RecordedEnd { process, bytes: 1 << 20, sleeps: 5, ..RecordedEnd::default() };
        let process = |stage| RecordedProcess { stage, calls: 16, ..RecordedProcess::default() };
        let totals = |profile: &Profile| {
            let totals = ProcessTotals { bytes: 1 << 20, calls: 16, voluntary_switches: 5, ..ProcessTotals::default() };
            (profile.process, totals)
        };
        let processes = Processes { totals: windows[0].iter().map(totals).collect(), ..Processes::default() };
        let shares =
            |profile: &Profile| (profile.process, attribute(&profile.stacks, Unit::Instructions, Skid::None, &moved));
        let pipeline = PipelineCommand { stages: stages.to_vec(), shell: false };
        let count = |profiles: &Vec<Profile>| WindowCount::of(Phase(0), 1, profiles);
        let mut document = Document {
            schema: SCHEMA.to_owned(),
            mode: pipeline.text(),
            target: MeasuredTarget::Pipeline(pipeline),
            exit_codes: vec![0, 0],
            executed_on: ExecutedOn::Tcg,
            unit: Unit::Instructions,
            attribution: Attribution {
                collector: "insn".to_owned(),
                processes: windows[0].iter().map(shares).collect(),
                others: Some(5),
            },
            ensemble: Some(Ensemble::new(windows.iter().map(count).collect())),
            runs: vec![PairRecord { processes: processes.clone(), ..PairRecord::default() }; runs.len()],
            processes,
            collectors: vec![CollectorReport::ok(Collector::Insn, 0)],
            recorded: vec![process(0), process(1)],
            pipes: vec![RecordedPipe {
                between: Some([0, 1]),
                writers: vec![end(0)],
                readers: vec![end(1)],
                ..RecordedPipe::default()
            }],
            ..Document::default()
        };
        document.kernel.release = release.to_owned();
        Outcome { document, profiles: windows[0].clone(), windows, ..Outcome::default() }
    }

    fn answer(outcomes: Vec<Outcome>) -> Vec<String> {
        let paths: Vec<PathBuf> = (0..outcomes.len()).map(|at| PathBuf::from(format!("{at}/result.json"))).collect();
        let inputs = columns(outcomes, &paths).unwrap();
        let compared = compare(&inputs, &CompareOptions::default()).unwrap();
        crate::compare::answer::sentences(&compared.comparison)
    }

    #[test]
    fn counted_pipelines_are_compared_as_runs_are() {
        let [old, mid, new] = [("6.1", 1_000_000), ("6.12", 1_100_000), ("7.2", 1_100_000)]
            .map(|(release, count)| counted(release, "wc", &[count, count + 100, count - 100]));
        let said = answer(vec![old, mid, new]);
        let more = "dd | wc, 6.1 -> 6.12: more instructions per KiB without scheduling, +5.0 % (";
        assert!(said[0].starts_with(more) && said[0].contains("largest contributor: copy out"), "{said:?}");
        assert!(said[1].contains("same, exactly 2050.78 instructions per KiB"), "{said:?}");
        // The last with the first.
        assert_eq!(said.len(), 3);
        let wide = counted("7.2", "wc", &[1_000_000, 1_200_000, 900_000]);
        let said = answer(vec![counted("6.1", "wc", &[1_000_000; 3]), wide]);
        assert!(said[0].contains("undecided whether"), "{said:?}");
    }

    #[test]
    fn stages_with_other_programs_are_the_same_rows() {
        let [old, new] =
            [("gzip", 1_000_000), ("pigz", 1_200_000)].map(|(program, count)| counted("7.2", program, &[count; 3]));
        let paths = ["a", "b"].map(|name| PathBuf::from(name).join("result.json"));
        let inputs = columns(vec![old, new], &paths).unwrap();
        let labels: Vec<_> = inputs.iter().filter_map(|input| input.label.clone()).collect();
        assert_eq!(labels, ["dd | gzip", "dd | pigz"]);
        let comparison = compare(&inputs, &CompareOptions::default()).unwrap().comparison;
        let names: Vec<&str> = comparison.sections[0].processes().iter().map(|name| name.as_str()).collect();
        assert_eq!(names, ["stage1-dd", "stage2-gzip+pigz"]);
        // One program in two folders.
        let [old, new] = [1_000_000, 1_200_000].map(|count| counted("7.2", "wc", &[count; 3]));
        let labels: Vec<_> =
            columns(vec![old, new], &paths).unwrap().into_iter().filter_map(|input| input.label).collect();
        assert_eq!(labels, ["a", "b"]);
    }

    #[test]
    fn other_work_gets_no_verdict() {
        let [old, mut new] = [1_000_000, 1_200_000].map(|count| counted("7.2", "wc", &[count; 3]));
        new.document.exit_codes = vec![0, 1];
        let said = answer(vec![old.clone(), new.clone()]);
        let expected = "not the same work (they ended differently: exit codes 0, 0 and 0, 1); no verdict";
        assert!(said[0].contains(expected), "{said:?}");
        new.document.exit_codes = vec![0, 0];
        new.document.pipes[0].readers[0].bytes = 1 << 19;
        let said = answer(vec![old, new]);
        assert!(said[0].contains("from dd to wc 1.00 and 0.50 MiB"), "{said:?}");
        let [old, mut new] = [1_000_000, 1_200_000].map(|count| counted("7.2", "wc", &[count; 3]));
        new.document.processes.totals =
            new.document.processes.totals.iter().take(1).map(|(n, t)| (n, t.clone())).collect();
        let paths = ["a", "b"].map(PathBuf::from);
        let error = columns(vec![old, new], &paths).unwrap_err().to_string();
        assert!(error.contains("compare recordings of one pipeline"), "{error}");
    }

    #[test]
    fn needless_wake_ups_and_copying_that_counts_do_not_show_are_said() {
        let work = |needless, rep_bytes| PipelineWork { needless, rep_bytes, ..PipelineWork::default() };
        let measure = |sleeps| {
            let mut measure =
                Measure { schedule: WindowSchedule { sleeps, ..WindowSchedule::default() }, ..Measure::default() };
            measure.processes.get_or_default(ProcessName::new("dd")).weight = 1_000_000;
            measure
        };
        let (before, after) = (measure(44_158), measure(11));
        let said = remarks([&work(44_147, None), &work(0, Some(1))], [&before, &after]);
        assert_eq!(said, ["Fewer needless wake-ups, after which nothing moved in a pipe: 0 instead of 44,147."]);
        assert_eq!(remarks([&work(0, Some(1 << 10)), &work(0, Some(1 << 11))], [&before, &before]), [""; 0]);
        let said = remarks([&work(0, Some(40 << 20)), &work(0, Some(0))], [&before, &before]);
        assert!(said[0].contains("40.0 MiB more before"), "{said:?}");
        let disk = PipelineWork { on_disk: true, ..work(0, None) };
        assert!(remarks([&disk, &work(0, None)], [&before, &before])[0].contains("on a disk in one of them"));
    }
}

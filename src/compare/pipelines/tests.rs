use super::*;
use crate::compare::render::terminal;
use crate::compare::{CompareOptions, Comparison, compare};
use crate::process::{Phase, Processes};
use crate::profile::{Folded, Moved, Profile, attribute};
use crate::record::count::REP_BYTES;
use crate::result::{
    Collector, CollectorReport, CriticalPath, Ensemble, ExecutedOn, MeasuredTarget, PairRecord, PathPart, PathWhat,
    PipelineCommand, RecordedChannel, RecordedEnd, RecordedProcess, SCHEMA, SystemCallCount, WindowCount,
};
use crate::roles::Skid;
use crate::workload::Spec;

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
        channels: vec![RecordedChannel {
            between: Some([0, 1]),
            writers: vec![end(0)],
            readers: vec![end(1)],
            ..RecordedChannel::default()
        }],
        ..Document::default()
    };
    document.kernel.release = release.to_owned();
    Outcome { document, profiles: windows[0].clone(), windows, ..Outcome::default() }
}

/// Each outcome as a column.
fn columns_of(outcomes: Vec<Outcome>) -> Result<Vec<Input>> {
    let paths: Vec<PathBuf> = ["a", "b", "c"].iter().map(|name| PathBuf::from(name).join(RESULT_FILE)).collect();
    let inputs = outcomes.into_iter().zip(&paths);
    let input =
        |(outcome, path): (Outcome, &PathBuf)| Input { label: None, runs: vec![(path.display().to_string(), outcome)] };
    columns(inputs.map(input).collect(), &paths)
}

fn answer(outcomes: Vec<Outcome>) -> Vec<String> {
    let inputs = columns_of(outcomes).unwrap();
    let compared = compare(&inputs, &CompareOptions::default()).unwrap();
    crate::compare::answer::sentences(&compared.comparison)
}

#[test]
fn counted_pipelines_are_compared_as_runs_are() {
    let [old, mid, new] = [("6.1", 1_000_000), ("6.12", 1_100_000), ("7.2", 1_100_000)]
        .map(|(release, count)| counted(release, "wc", &[count, count + count / 9_000, count - 100]));
    let said = answer(vec![old, mid, new]);
    let more = "dd | wc, 6.1 -> 6.12: more instructions per KiB without scheduling, +5.0 % (";
    assert!(said[0].starts_with(more) && said[0].contains("largest contributor: copy out"), "{said:?}");
    assert!(said[1].contains("same, exactly 2050.79 instructions per KiB"), "{said:?}");
    // The last with the first.
    assert_eq!(said.len(), 3);
    let wide = counted("7.2", "wc", &[1_000_000, 1_200_000, 900_000]);
    let said = answer(vec![counted("6.1", "wc", &[1_000_000; 3]), wide.clone()]);
    assert!(said[0].contains("undecided whether"), "{said:?}");
    // Other calls are certain all the same, and come first.
    let process = wide.profiles[0].process;
    let calls =
        |name: &str, calls: u64| SystemCallCount { calls, range: [calls; 2], ..SystemCallCount::none(process, name) };
    let (mut before, mut after) = (counted("6.1", "wc", &[1_000_000; 3]), wide);
    before.document.system_calls = vec![calls("write", 5)];
    after.document.system_calls = vec![calls("write", 5), calls("getppid", 500)];
    let said = answer(vec![before, after]);
    let first = ": 500 more getppid (0 to 500); undecided whether";
    assert!(said[0].contains(first), "{said:?}");
}

#[test]
fn stages_with_other_programs_are_the_same_rows() {
    let [old, new] =
        [("gzip", 1_000_000), ("pigz", 1_200_000)].map(|(program, count)| counted("7.2", program, &[count; 3]));
    let inputs = columns_of(vec![old, new]).unwrap();
    let labels: Vec<_> = inputs.iter().filter_map(|input| input.label.clone()).collect();
    assert_eq!(labels, ["gzip", "pigz"]);
    let comparison = compare(&inputs, &CompareOptions::default()).unwrap().comparison;
    let names: Vec<&str> = comparison.sections[0].processes().iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["stage1-dd", "stage2-gzip+pigz"]);
    // One program in two folders.
    let [old, new] = [1_000_000, 1_200_000].map(|count| counted("7.2", "wc", &[count; 3]));
    let labels: Vec<_> = columns_of(vec![old, new]).unwrap().into_iter().filter_map(|input| input.label).collect();
    assert_eq!(labels, ["a", "b"]);
}

#[test]
fn other_work_gets_no_verdict() {
    let [old, mut new] = [1_000_000, 1_200_000].map(|count| counted("7.2", "wc", &[count; 3]));
    // A shell that ran the same stages has one exit code.
    new.document.exit_codes = vec![0];
    assert!(!answer(vec![old.clone(), new.clone()]).join(" ").contains("ended differently"));
    new.document.exit_codes = vec![0, 1];
    let said = answer(vec![old.clone(), new.clone()]);
    let expected = "not the same work (they ended differently: exit codes 0, 0 and 0, 1); no verdict";
    assert!(said[0].contains(expected), "{said:?}");
    new.document.exit_codes = vec![0, 0];
    new.document.channels[0].readers[0].bytes = 1 << 19;
    let said = answer(vec![old, new]);
    assert!(said[0].contains("from dd to wc 1.00 and 0.50 MiB"), "{said:?}");
    let [old, mut new] = [1_000_000, 1_200_000].map(|count| counted("7.2", "wc", &[count; 3]));
    new.document.processes.totals = new.document.processes.totals.iter().take(1).map(|(n, t)| (n, t.clone())).collect();
    let error = columns_of(vec![old, new]).unwrap_err().to_string();
    assert!(error.contains("compare recordings of one pipeline"), "{error}");
}

#[test]
fn needless_wake_ups_and_copying_that_counts_do_not_show_are_said() {
    let case = |needless, sleeps, rep_bytes: Option<u64>, on_disk: &[&str]| {
        let mut outcome = counted("7.2", "wc", &[1_000_000]);
        let document = &mut outcome.document;
        document.channels[0].readers[0].needless = needless;
        document.on_disk = on_disk.iter().map(|file| (*file).to_owned()).collect();
        for (_, totals) in document.processes.totals.iter_mut() {
            totals.voluntary_switches = sleeps;
            totals.counters.extend(rep_bytes.map(|bytes| (REP_BYTES.to_owned(), bytes)));
        }
        CaseMeasure::of_each(&[vec![&outcome]], 1).remove(0).unwrap()
    };
    let said = |before: &CaseMeasure, after: &CaseMeasure| remarks([before, after]);
    assert_eq!(
        said(&case(44_147, 22_079, None, &[]), &case(0, 5, Some(1), &[])),
        ["Fewer needless wake-ups, after which nothing moved in a pipe: 0 instead of 44,147."]
    );
    let few = |kib: u64| case(0, 5, Some(kib << 10), &[]);
    assert_eq!(said(&few(1), &few(2)), [""; 0]);
    assert!(said(&few(20 << 10), &few(0))[0].contains("40.0 MiB more before"));
    assert!(said(&case(0, 5, None, &["a"]), &few(0))[0].contains("on a disk in one of them"));
}

/// The same, recorded on this machine in so many ms.
fn timed(release: &str, program: &str, ms: u64) -> Outcome {
    let mut outcome = counted(release, program, &[1_000_000]);
    let document = &mut outcome.document;
    document.ensemble = None;
    (document.executed_on, document.unit) = (ExecutedOn::Hardware, Unit::Samples);
    (document.attribution, document.processes.totals) = Default::default();
    outcome.profiles.clear();
    document.processes.window_ns = ms * 1_000_000;
    for (process, name) in document.recorded.iter_mut().zip(["dd", program]) {
        (process.name, process.cpu_ns) = (name.to_owned(), ms * 400_000);
    }
    let part = PathPart { process: Some(1), what: PathWhat::OnCpu, ns: ms * 1_000_000, ..PathPart::default() };
    document.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
    outcome
}

fn compared(outcomes: Vec<Outcome>) -> Comparison {
    compare(&columns_of(outcomes).unwrap(), &CompareOptions::default()).unwrap().comparison
}

fn said(comparison: &Comparison) -> String {
    terminal::render(comparison, 120, terminal::SHOWN)
}

#[test]
fn one_recording_each_decides_nothing() {
    let comparison =
        compared([("gzip", 1000), ("pigz", 600), ("zstd", 300)].map(|(name, ms)| timed("7.2", name, ms)).into());
    let section = &comparison.sections[0];
    assert_eq!((section.steps.len(), &comparison.unit[..]), (3, "ms"));
    let step = &section.steps[0];
    assert_eq!((step.verdict.word, step.verdict.before, step.verdict.after), (Word::Undecided, 1000.0, 600.0));
    let text = said(&comparison);
    for expected in [
        "dd | gzip, gzip -> pigz: undecided: needs about 9 more runs",
        "it took 0.60 s instead of 1.00 s, in one run each",
        "gzip: 100 % `gzip` on a CPU",
        "dd to gzip (reads)",
        "stage2-gzip+pigz+zstd, CPU",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let parts: Vec<_> = step.pipeline.path.iter().map(|part| (&part.part[..], part.before, part.after)).collect();
    assert_eq!(parts, [("`gzip` on a CPU", 1000.0, 0.0), ("`pigz` on a CPU", 0.0, 600.0)]);
    let text = serde_json::to_string(&comparison).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap(), comparison);
}

#[test]
fn ten_recordings_each_decide() {
    let column = |name: &str, ms: u64| Input {
        label: None,
        runs: (0..10).map(|at| (format!("{name}/{at}"), timed("7.2", "wc", ms + at))).collect(),
    };
    let inputs = columns(vec![column("a", 1000), column("b", 500)], &["a", "b"].map(PathBuf::from)).unwrap();
    let comparison = compare(&inputs, &CompareOptions::default()).unwrap().comparison;
    let verdict = &comparison.sections[0].steps[0].verdict;
    assert_eq!((verdict.word, verdict.pairs), (Word::Faster, [10, 10]), "{}", verdict.text);
    assert!(said(&comparison).contains("faster by 49."), "{}", said(&comparison));
}

#[test]
fn times_of_emulators_and_of_other_work_have_no_verdict() {
    let of_guest = |ms| {
        let mut outcome = timed("7.2", "wc", ms);
        outcome.document.executed_on = ExecutedOn::Tcg;
        outcome
    };
    let text = |outcomes: [Outcome; 2]| compared(outcomes.into()).sections[0].steps[0].verdict.text.clone();
    assert!(text([of_guest(100), of_guest(50)]).contains("instructions that are counted in both"));
    assert!(text([of_guest(100), timed("7.2", "wc", 50)]).contains("times cannot be compared"));
    let mut failed = timed("7.2", "wc", 50);
    failed.document.exit_codes = vec![0, 1];
    let comparison = compared(vec![timed("6.1", "cat", 100), failed]);
    let text = said(&comparison);
    assert!(
        text.contains("not the same work (they ended differently") && text.contains("no verdict: -50.0 %"),
        "{text}"
    );
    assert!(text.contains("The pipelines differ, too: dd | cat; dd | wc."), "{text}");
    // One of two was counted.
    let comparison = compared(vec![timed("6.1", "wc", 100), counted("7.2", "wc", &[1_000_000; 3])]);
    assert!(said(&comparison).contains("Instructions were not counted: record with --collect insn"));
    let no_recording = Document { target: MeasuredTarget::Pair { workload: Spec::default() }, ..Document::default() };
    let error = columns_of(vec![timed("6.1", "wc", 100), Outcome { document: no_recording, ..Outcome::default() }]);
    assert!(error.unwrap_err().to_string().contains("results of one kind"));
}

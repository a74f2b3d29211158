//! A recording from what the kernel's programs had reported, without a kernel: tests/data/trace.json.gz.
//! `PIPEPROF_BLESS=1 cargo test --lib record::trace_tests -- --include-ignored`, as root, writes it.

use crate::conclude::{RecordedSymbols, concluded};
use crate::record::contents;
use crate::record::model::ended::EndedProcesses;
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::observer::{AllCounts, Observe as _};
use crate::record::observe::path::kept::{self, KeptSteps};
use crate::record::observe::raw::{PR_STEP_LOST, PrCounts, PrEnd, PrProcess, PrReason, PrStep, PrWait, PrWho};
use crate::record::observe::recorder::{Excerpts, Recorder};
use crate::record::observe::timeline::TimelineRecorder;
use crate::record::say::text;
use crate::record::start::running::RunningProcesses;
use crate::report::terminal::Style;
use crate::result::{Document, MeasuredTarget, Outcome, PathWhat, PipelineCommand, RecordLevel, check};
use crate::util::gzip_json;
use crate::workload::cpus;
use bytemuck::{Pod, Zeroable as _, bytes_of, pod_read_unaligned};
use flate2::Compression;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

const LINE: &str = "head -c 20000000 /dev/zero | tr '\\0' x | wc -c";
const BYTES: u64 = 20_000_000;

/// Keys and values, as bytes.
type PackedEntries = Vec<(Vec<u8>, Vec<u8>)>;

/// What the programs reported, each struct as its bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RecordedTrace {
    cpus: u64,
    steps: Vec<Vec<u8>>,
    /// What each thread was doing at the end.
    tasks: PackedEntries,
    /// When the counts were read, ns.
    at: u64,
    processes: PackedEntries,
    ends: PackedEntries,
    waits: PackedEntries,
    state: Vec<u8>,
}

fn packed<K: Pod, V: Pod>(entries: &[(K, V)]) -> PackedEntries {
    entries.iter().map(|(key, value)| (bytes_of(key).to_vec(), bytes_of(value).to_vec())).collect()
}

fn unpacked<K: Pod, V: Pod>(entries: &PackedEntries) -> Vec<(K, V)> {
    entries.iter().map(|(key, value)| (pod_read_unaligned(key), pod_read_unaligned(value))).collect()
}

impl RecordedTrace {
    /// The recording that follows from it.
    fn recording(&self) -> Outcome {
        let counted = RecordedCounts {
            at: self.at,
            processes: unpacked::<PrWho, PrProcess>(&self.processes),
            ends: unpacked::<PrEnd, PrCounts>(&self.ends),
            waits: unpacked::<PrReason, PrWait>(&self.waits),
            state: Some(pod_read_unaligned(&self.state)),
            ..RecordedCounts::default()
        };
        let kept = KeptSteps { steps: self.steps.clone(), tasks: unpacked(&self.tasks) };
        let path = kept.follow(self.cpus, self.at);
        of_counts((counted, EndedProcesses::default(), Some(path)))
    }
}

fn of_counts(counted: AllCounts) -> Outcome {
    let target = MeasuredTarget::Pipeline(PipelineCommand::parse(&[LINE.to_owned()]).unwrap());
    let recording = Document { target, exit_codes: vec![0], ..Document::default() };
    let symbols = RecordedSymbols::default();
    let timeline = TimelineRecorder::start();
    concluded(recording, counted, (timeline, None), &[], &RunningProcesses::default(), &symbols, None)
}

fn file() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/trace.json.gz")
}

fn stored() -> RecordedTrace {
    gzip_json::from_bytes(&std::fs::read(file()).unwrap(), "a trace").unwrap()
}

/// Nanoseconds of the path.
fn on_path(recording: &Document, holds: impl Fn(&PathWhat) -> bool) -> u64 {
    let parts = recording.path.iter().flat_map(|path| &path.parts);
    parts.filter(|part| holds(&part.what)).map(|part| part.ns).sum()
}

#[test]
#[ignore = "needs root: make test"]
fn a_trace_has_all_of_a_recording() {
    let mut recorder = Recorder::start(RecordLevel::Calls, false, Excerpts::None, None, false).unwrap();
    recorder.launching(Some(0)).unwrap();
    let mut command = Command::new("sh");
    let mut shell = command.args(["-c", LINE]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    recorder.launching(None).unwrap();
    assert!(shell.wait().unwrap().success());
    let recorded = recorder.counted().unwrap();
    let (counts, kept) = (&recorded.0, kept::take());
    let trace = RecordedTrace {
        cpus: cpus::allowed().unwrap().len() as u64,
        steps: kept.steps,
        tasks: packed(&kept.tasks),
        at: counts.at,
        processes: packed(&counts.processes),
        ends: packed(&counts.ends),
        waits: packed(&counts.waits),
        state: bytes_of(counts.state.as_ref().unwrap()).to_vec(),
    };
    let expected = of_counts(recorded).document;
    let found = trace.recording().document;
    assert_eq!(serde_json::to_value(&found).unwrap(), serde_json::to_value(&expected).unwrap());
    if std::env::var_os("PIPEPROF_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(file(), gzip_json::to_bytes(&trace, Compression::best()).unwrap()).unwrap();
    }
}

#[test]
fn a_recorded_trace_gives_the_recording() {
    let mut outcome = stored().recording();
    let recording = &outcome.document;
    check::check(recording).unwrap();
    assert!(recording.warnings.is_empty(), "{:?}", recording.warnings);
    let mut names: Vec<&str> = recording.recorded.iter().map(|process| process.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["head", "sh", "tr", "wc"]);
    let used: Vec<_> = recording.channels.iter().filter(|pipe| pipe.is_used()).collect();
    assert_eq!(used.len(), 2);
    for ends in used.iter().flat_map(|pipe| [&pipe.writers, &pipe.readers]) {
        assert_eq!(ends.iter().map(|end| end.bytes).sum::<u64>(), BYTES);
    }
    // Only tr does something with each byte.
    let first = &recording.findings[0].text;
    assert!(first.contains("`tr`"), "{first}");
    assert_eq!(on_path(recording, |_| true), recording.processes.window_ns);
    assert_eq!(on_path(recording, |what| *what == PathWhat::Unknown), 0);
    let said = text::render(recording, None, Style::PLAIN).to_string();
    assert!(said.contains(first.split(' ').next().unwrap()) && said.contains("tr to wc"), "{said}");
    let files = contents::files(&mut outcome, Vec::new()).unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    for expected in ["record.html", "timeline.svg", "critical-path.svg", "result.json"] {
        assert!(names.contains(&expected), "{names:?}");
    }
}

#[test]
fn where_steps_of_a_trace_are_lost_the_path_is_unknown() {
    let trace = stored();
    let whole = trace.recording().document.processes.window_ns;
    for part in 1..8 {
        let count = trace.steps.len();
        let [from, to] = [part, part + 1].map(|eighth| count * eighth / 9);
        let mut steps = trace.steps.clone();
        // Of a step behind the gap: the time is the third word of most.
        let at = steps[to..].iter().find(|step| step.len() == size_of::<PrStep>()).map(|step| {
            let step: PrStep = pod_read_unaligned(step);
            step.at
        });
        let lost = (to - from) as u64;
        let step = PrStep { kind: PR_STEP_LOST as u32, at: at.unwrap(), other: lost, ..PrStep::zeroed() };
        steps.splice(from..to, [bytes_of(&step).to_vec()]);
        let document = RecordedTrace { steps, ..trace.clone() }.recording().document;
        check::check(&document).unwrap();
        let unknown = on_path(&document, |what| *what == PathWhat::Unknown);
        assert_eq!(on_path(&document, |_| true), document.processes.window_ns);
        assert!(unknown > 0 && unknown < whole, "{unknown} of {whole} ns");
    }
}

//! Some of perf's events are lost: the report gives their number, and has what happens after that.

use super::*;
use crate::record::conclude::{RecordedSymbols, concluded};
use crate::record::observe::looks::Looks;
use crate::record::observe::observer::Observe as _;
use crate::record::observe::timeline::TimelineRecorder;
use crate::record::start::running::RunningProcesses;
use crate::result::{Document, MeasuredTarget, PathPart, PathWhat, PipelineCommand, WaitReason};
use crate::util::warning::WarningCode;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

/// One process sleeps all the time, and one begins to in events that are lost, after those of many others.
const LINE: &str = "sleep 60 & one=$!; for i in $(seq 1200); do /bin/true; done; sleep 61 & \
                    echo; read line; kill $one $!; wait; exec head -c 4000000000 /dev/zero >/dev/null";

#[test]
#[ignore = "needs perf events: make test"]
fn what_follows_lost_events_is_known() {
    let events = ThreadEvents::of_children(Some(1)).unwrap();
    let mut recorder = Box::new(ProcRecorder::with(Some(events), None, None));
    recorder.launching(Some(0)).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", LINE]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    recorder.launched(vec![shell.id()], &[]);
    let mut output = BufReader::new(shell.stdout.take().unwrap());
    // Meanwhile, nobody reads the rings.
    output.read_line(&mut String::new()).unwrap();
    while recorder.looks < 20 {
        std::thread::sleep(recorder.step(&mut |_, _| {}));
    }
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    while shell.try_wait().unwrap().is_none() {
        std::thread::sleep(recorder.step(&mut |_, _| {}).min(Duration::from_millis(5)));
    }
    recorder.end_now().unwrap();
    Looks::start().finish(&mut *recorder);
    let target = MeasuredTarget::Pipeline(PipelineCommand::parse(&[LINE.to_owned()]).unwrap());
    let mut recording = Document { target, exit_codes: vec![0], ..Document::default() };
    let counted = recorder.finish(&mut recording).unwrap();
    let (running, symbols) = (RunningProcesses::default(), RecordedSymbols::default());
    let timeline = (TimelineRecorder::start(), None);
    let recording = concluded(recording, counted, timeline, &[], &running, &symbols, None).document;

    let lost = recording.warnings.iter().find(|warning| warning.code == WarningCode::StepsLost).unwrap();
    let number: u64 = lost.message.split(' ').next().unwrap().parse().unwrap();
    assert!(number > 400, "{lost:?}");
    let path = recording.path.as_ref().unwrap();
    let shown = |part: &PathPart| (part.process.map(|at| &recording.recorded[at].name), part.what, part.ns);
    let parts: Vec<_> = path.parts.iter().map(shown).collect();
    assert_eq!(parts.iter().map(|(.., ns)| ns).sum::<u64>(), recording.processes.window_ns, "{parts:?}");
    assert!(parts.iter().any(|(_, what, _)| *what == PathWhat::Unknown), "{parts:?}");
    // The processes that have begun or ended in what was lost have done so.
    let named = |name: &'static str| recording.recorded.iter().filter(move |process| process.name == name);
    let shown: Vec<_> = recording.recorded.iter().map(|of| (&of.name, of.pids.len(), of.begin_ns, of.end_ns)).collect();
    assert_eq!(named("sleep").map(|process| process.pids.len()).sum::<usize>(), 2, "{shown:?}");
    let head = named("head").next().unwrap();
    assert!(named("true").all(|process| process.end_ns <= head.begin_ns), "{shown:?}");
    let works = parts.iter().filter(|(name, ..)| name.is_some_and(|name| name == "head"));
    assert!(works.map(|(.., ns)| ns).sum::<u64>() > head.lived_ns / 2, "{parts:?}");
    // Who sleeps neither works nor waits for a CPU.
    for process in named("sleep") {
        let slept = process.waits.get(&WaitReason::Timer).map_or(0, |wait| wait.ns);
        let busy = [process.cpu_ns, process.runnable_ns];
        assert!(slept > busy[0] + busy[1], "{slept} and {busy:?}: {shown:?}");
    }
}

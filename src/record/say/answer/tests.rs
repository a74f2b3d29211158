use super::*;
use crate::record::model::stages::tests::shell;
use crate::record::say::tables;
use crate::result::{CriticalPath, HeldBy, PathPart};
use crate::result::{MeasuredTarget, PipelineCommand, Processes, WaitReason};
use crate::result::{RecordedChannel, RecordedEnd};
use std::slice::from_ref;

const WINDOW: u64 = 1_000_000_000;

/// A part of process `process` that takes so many percent.
fn part(process: usize, what: PathWhat, percent: u64) -> PathPart {
    let ns = WINDOW / 100 * percent;
    PathPart { process: Some(process), what, ns, slices: vec![ns], by: None }
}

const ON_CPU: PathWhat = PathWhat::OnCpu;
const TIMER: PathWhat = PathWhat::Asleep { reason: WaitReason::Timer };

/// A pipeline of stages `a`, `b`, ..., each asleep for data and for room for so many percent of the window.
fn pipeline(stages: &[[u64; 2]], parts: &[(usize, PathWhat, u64)]) -> Document {
    let name = |stage: usize| char::from(b'a' + stage as u8).to_string();
    let end = |process, share: u64| RecordedEnd {
        process,
        bytes: 1 << 20,
        blocked_ns: share * (WINDOW / 100),
        sleeps: 1,
        ..RecordedEnd::default()
    };
    let processes = (0..stages.len()).map(|stage| RecordedProcess {
        name: name(stage),
        stage: stage as u32,
        user_share: Some(0.75),
        end_ns: WINDOW,
        ..RecordedProcess::default()
    });
    let pipes = (1..stages.len()).map(|reader| RecordedChannel {
        between: Some([reader as u32 - 1, reader as u32]),
        slots: Some([16; 3]),
        writers: vec![end(reader - 1, stages[reader - 1][1])],
        readers: vec![end(reader, stages[reader][0])],
        ..RecordedChannel::default()
    });
    Document {
        processes: Processes { window_ns: WINDOW, ..Processes::default() },
        target: MeasuredTarget::Pipeline(PipelineCommand {
            stages: (0..stages.len()).map(|stage| vec![name(stage)]).collect(),
            shell: false,
        }),
        recorded: processes.collect(),
        channels: pipes.collect(),
        path: Some(CriticalPath {
            parts: parts.iter().map(|(process, what, percent)| part(*process, *what, *percent)).collect(),
            slice_ns: vec![WINDOW],
            ..CriticalPath::default()
        }),
        ..Document::default()
    }
}

fn sentences(recording: &Document) -> Vec<String> {
    answer(recording).findings.into_iter().map(|finding| finding.text).collect()
}

fn said(recording: &Document) -> String {
    sentences(recording).join(" ")
}

fn busy() -> Document {
    pipeline(&[[0, 2], [88, 0]], &[(0, ON_CPU, 96), (1, ON_CPU, 4)])
}

#[test]
fn what_the_time_was_made_of_comes_first_and_then_who_waits() {
    assert_eq!(
        said(&busy()),
        "The 1.00 s were 96 % `a` on a CPU (75 % of it user code) and 4 % other parts. `b` waits 88 % of the time \
         because the pipe from `a` is empty."
    );
    let sleeping = pipeline(&[[0, 94], [1, 1], [96, 0]], &[(1, TIMER, 95), (2, ON_CPU, 5)]);
    assert_eq!(
        said(&sleeping),
        "The 1.00 s were 95 % `b` sleeping on a timer and 5 % `c` on a CPU (75 % of it user code). `c` waits 96 % of \
         the time because the pipe from `b` is empty."
    );
}

#[test]
fn phases_are_named() {
    let mut recording = pipeline(&[[0, 0], [0, 0]], &[(0, ON_CPU, 60), (1, ON_CPU, 40)]);
    let path = recording.path.as_mut().unwrap();
    path.slice_ns = vec![WINDOW / 5; 5];
    path.parts[0].slices = [3, 3, 3, 0, 0].map(|part| WINDOW / 15 * part).to_vec();
    path.parts[1].slices = [0, 0, 0, 3, 3].map(|part| WINDOW / 15 * part).to_vec();
    let findings = sentences(&recording);
    assert_eq!(findings[1], "Over time, mostly: 0 to 0.60 s `a` on a CPU; 0.60 to 1.00 s `b` on a CPU.");
}

#[test]
fn one_program_and_a_command_without_pipes_have_an_answer() {
    let mut recording = pipeline(&[[0, 0]], &[(0, ON_CPU, 50), (0, TIMER, 50)]);
    let path = "The 1.00 s were 50 % `a` on a CPU (75 % of it user code) and 50 % `a` sleeping on a timer.";
    assert_eq!(said(&recording), format!("{path} No pipe was used."));
    let end = RecordedEnd { calls: [("write".to_owned(), 1)].into(), bytes: 10, ..RecordedEnd::default() };
    recording.channels.push(RecordedChannel { writers: vec![end], ..RecordedChannel::default() });
    assert_eq!(said(&recording), path);
}

#[test]
fn a_stopped_stage_and_who_stopped_it_are_named() {
    let stopped = PathWhat::Asleep { reason: WaitReason::Stopped };
    let mut recording = pipeline(&[[0, 94], [10, 0]], &[(1, stopped, 64), (1, ON_CPU, 36)]);
    let said = |recording: &Document| sentences(recording).remove(0);
    assert!(said(&recording).starts_with("The 1.00 s were 64 % `b` stopped and 36 % `b` on"), "{recording:?}");
    recording.recorded[1].held_by = [(WaitReason::Stopped, [HeldBy::Program("cpulimit".to_owned())].into())].into();
    assert!(said(&recording).starts_with("The 1.00 s were 64 % `b` stopped by `cpulimit` and 36 %"));
    recording.recorded[1].held_by = [(WaitReason::Stopped, [HeldBy::Itself].into())].into();
    assert!(said(&recording).starts_with("The 1.00 s were 64 % `b` stopped by itself and 36 %"));
    recording.recorded[1].held_by = [(WaitReason::Stopped, [HeldBy::BackgroundRead].into())].into();
    assert!(said(&recording).starts_with("The 1.00 s were 64 % `b` stopped by SIGTTIN, because its job read"));
}

#[test]
fn what_was_not_seen_is_not_denied() {
    let mut recording = pipeline(&[[0, 0], [93, 0]], &[(0, ON_CPU, 100)]);
    recording.channels[0].writers.clear();
    recording.channels[0].between = None;
    let outside = "`b` waits 93 % of the time for data from a pipe";
    assert!(said(&recording).contains(&format!("{outside} that no recorded process wrote to.")));
    recording.recorded[0].unseen_requests = 1;
    let found = said(&recording);
    assert!(found.contains(&format!("{outside} whose writes were not seen.")), "{found}");
    assert!(found.ends_with("`a` uses io_submit, of which 1 request is not recorded."), "{found}");
    recording.channels.clear();
    recording.target = MeasuredTarget::Attached { pids: vec![1], group: None };
    assert!(said(&recording).contains("No use of a pipe was seen."), "{}", said(&recording));
    recording.recorded[0].unseen_requests = 0;
    assert!(said(&recording).contains("No pipe was used."), "{}", said(&recording));
}

#[test]
fn a_program_that_crashed_or_was_killed_is_named() {
    let mut recording = busy();
    recording.recorded[0].signal = Some(libc::SIGPIPE.cast_unsigned());
    assert!(!said(&recording).contains("killed"), "{}", said(&recording));
    recording.recorded[0].signal = Some(libc::SIGILL.cast_unsigned());
    assert!(said(&recording).starts_with("`a` was killed by SIGILL (illegal instruction)."), "{}", said(&recording));
    recording.executed_on = ExecutedOn::Tcg;
    assert!(said(&recording).contains("; try --cpu max. "), "{}", said(&recording));
    recording.recorded[1].out_of_memory = true;
    assert!(said(&recording).starts_with("`b` was killed for lack of memory (SIGKILL), and"), "{}", said(&recording));
}

#[test]
fn several_that_wait_at_once_have_a_mean() {
    let mut recording = pipeline(&[[0, 0], [250, 0]], &[(0, ON_CPU, 100)]);
    let last = |recording: &Document| sentences(recording).pop().unwrap();
    let why = "of the time because the pipe from `a` is empty.";
    assert_eq!(last(&recording), format!("`b` (mean of its threads) waits 83 % {why}"));
    recording.recorded[1].pids = vec![1, 2, 3, 4];
    assert_eq!(last(&recording), format!("`b` (mean of its 4 processes) waits 62 % {why}"));
}

#[test]
fn a_wait_for_something_outside_of_the_recording_is_said() {
    let mut recording = pipeline(&[[0, 0], [93, 0]], &[(0, PathWhat::PipeEmpty, 92), (0, ON_CPU, 8)]);
    let outside = RecordedEnd { blocked_ns: WINDOW / 100 * 92, sleeps: 9, ..RecordedEnd::default() };
    recording.channels.push(RecordedChannel { inode: 7, readers: vec![outside], ..RecordedChannel::default() });
    recording.path.as_mut().unwrap().parts[0].by = Some("curl".to_owned());
    let findings = sentences(&recording);
    let first = "The 1.00 s were 92 % `a` waiting for data in a pipe from `curl` (not recorded) and 8 %";
    assert!(findings[0].starts_with(first), "{findings:?}");
    assert_eq!(findings[1], "`a` waits 92 % of the time for data from a pipe that no recorded process wrote to.");
    recording.recorded[0].signal = Some(libc::SIGTERM.cast_unsigned());
    let first = "The 1.00 s were 92 % `a` waiting for data in a pipe, ended by `curl` and 8 %";
    assert!(said(&recording).starts_with(first), "{}", said(&recording));
}

#[test]
fn busy_cpus_are_said() {
    let recording = pipeline(&[[0, 0], [93, 0]], &[(0, PathWhat::ForCpu, 50), (0, ON_CPU, 50)]);
    let cautions = answer(&recording).cautions;
    assert!(cautions[0].starts_with("The CPUs are busy: the end waits for `a` 50 %"), "{cautions:?}");
}

#[test]
fn what_ran_before_has_no_start_in_its_time() {
    let mut recording = busy();
    recording.processes.window_ns = SHORT_NS / 2;
    assert!(answer(&recording).cautions[0].contains("most of it is the start"));
    recording.target = MeasuredTarget::Attached { pids: vec![1], group: None };
    assert_eq!(answer(&recording).cautions, [""; 0]);
}

#[test]
fn an_emulated_guest_with_a_disk_is_not_exact() {
    let mut recording = busy();
    recording.on_disk = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    assert!(answer(&recording).cautions.is_empty(), "times are not exact with KVM in any case");
    recording.executed_on = ExecutedOn::Tcg;
    let said = &answer(&recording).cautions[0];
    assert!(said.starts_with("Not exact: `a`, `b`, `c` and 1 more were on a disk"), "{said}");
}

#[test]
fn thousands_of_stages_take_no_thousand_times_longer() {
    const PAIRS: usize = 20_000;
    let ends: Vec<[usize; 2]> = (0..PAIRS).map(|at| [2 * at + 1, 2 * at]).collect();
    let all: Vec<usize> = (0..2 * PAIRS).collect();
    let mut pipes: Vec<[&[usize]; 2]> = ends.iter().map(|[from, to]| [from_ref(from), from_ref(to)]).collect();
    // And one that all of them write.
    pipes.push([&all, &[]]);
    let recording = shell((0..2 * PAIRS).map(|at| format!("p{at}")), &pipes);
    let stages = stages::stages(&recording);
    assert_eq!((stages.len(), &stages[..2]), (2 * PAIRS, &[vec![1], vec![0]][..]));
    let said = answer(&recording);
    let texts = said.findings.iter().map(|finding| &finding.text);
    let longest = texts.chain(&said.cautions).map(String::len).max();
    assert!(said.findings.len() < 20 && longest.is_some_and(|length| length < 300), "{said:?}");
    let tables = tables::all(&recording);
    assert!(tables.iter().all(|table| table.len() <= 40));
    assert_eq!(crate::record::process_names(&recording).len(), 2 * PAIRS);
}

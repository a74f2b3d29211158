use super::*;
use crate::result::{LeftProcesses, Processes, RecordedChannel, WaitTotal};

const WINDOW: u64 = 1_000_000_000;

#[test]
fn a_trap_that_does_not_exit_is_said() {
    let process =
        |name: &str| RecordedProcess { name: name.to_owned(), execs: 1, pids: vec![1], ..RecordedProcess::default() };
    let mut recording = Document {
        processes: Processes { window_ns: WINDOW, ..Processes::default() },
        recorded: vec![process("a"), RecordedProcess { pids: vec![2], ..process("bash") }],
        ..Document::default()
    };
    let told = &mut recording.recorded[1];
    (told.told_to_end_by, told.told_to_end_ns, told.end_ns) = (Some(0), Some(510_000_000), 900_000_000);
    (told.signal, told.started_since) = (Some(libc::SIGKILL.cast_unsigned()), 16);
    let text = |recording: &Document| {
        findings(recording).into_iter().map(|finding| finding.text).collect::<Vec<_>>().join(" ")
    };
    let found = text(&recording);
    assert!(
        found.contains("`bash` went on after the SIGTERM of `a` at 0.51 s: it started 16 processes since, and was"),
        "{found}"
    );
    recording.recorded[1].started_since = 1;
    assert!(text(&recording).contains("which it ignores or handles"), "it may clean up");
}

#[test]
fn a_job_that_ignores_the_keyboards_signals_is_said() {
    let said = |change: &dyn Fn(&mut RecordedProcess)| {
        let process = |name: &str, pid: u32| RecordedProcess {
            name: name.to_owned(),
            execs: 1,
            pids: vec![pid],
            end_ns: 9 * WINDOW,
            ..RecordedProcess::default()
        };
        let mut job = process("bash", 2);
        (job.started_by, job.told_to_end_by, job.told_to_end_ns) = (Some(0), Some(0), Some(WINDOW));
        (job.told_signal, job.told_to_end_in_vain) = (Some(libc::SIGINT.cast_unsigned()), Some(InVain::Ignored));
        change(&mut job);
        let recording = Document {
            processes: Processes { window_ns: 9 * WINDOW, ..Processes::default() },
            recorded: vec![process("sh", 1), job],
            ..Document::default()
        };
        findings(&recording).into_iter().map(|finding| finding.text).collect::<Vec<_>>()
    };
    let text = "`bash` ignores the SIGINT that `sh` sent it at 1.00 s, and goes on: the shell of a script starts a background job (`&`) so, \
                and no `trap` changes what a shell ignores from its begin. SIGTERM ends it; after `set -m`, a script's jobs get SIGINT, too.";
    assert_eq!(said(&|_| {}), [text]);
    assert!(said(&|job| job.name = "a".to_owned())[0].contains("(`&`) so. SIGTERM ends it"));
    assert!(said(&|job| job.started_by = None)[0].contains("what started it can have done so"));
    let silent: [&dyn Fn(&mut RecordedProcess); 3] =
        [&|job| job.told_to_end_in_vain = Some(InVain::Handled), &|job| job.end_ns = WINDOW + 1, &|job| {
            job.told_to_end_by = Some(1)
        }];
    assert!(silent.iter().all(|change| said(change).is_empty()));
}

#[test]
fn a_terminal_that_hung_up_is_said() {
    let (name, signal) = ("job".to_owned(), Some(libc::SIGHUP.cast_unsigned()));
    let mut recording = Document {
        processes: Processes { window_ns: WINDOW, ..Processes::default() },
        recorded: vec![RecordedProcess { name, signal, ..RecordedProcess::default() }, RecordedProcess::default()],
        ..Document::default()
    };
    let said = |recording: &Document| ended(recording).remove(0);
    assert_eq!(said(&recording).text, "`job` was ended by SIGHUP.", "no terminal: it was a process");
    recording.channels = vec![RecordedChannel { kind: ChannelKind::Pty, ..RecordedChannel::default() }];
    let found = said(&recording);
    assert_eq!(found.text, format!("`job` was ended by SIGHUP when its terminal hung up{HUNG_UP}."));
    assert_eq!(found.kind, FindingKind::GroupEnded);
    recording.recorded[0].waits = [(WaitReason::Stopped, WaitTotal { ns: WINDOW - 1, count: 1 })].into();
    assert_eq!(said(&recording).text, "`job` was ended by SIGHUP.", "it was stopped before");
    recording.recorded[0].waits.clear();
    recording.recorded[0].ended_by = Some(1);
    assert_eq!(said(&recording).kind, FindingKind::Ended);
    let shell = &mut recording.recorded[0];
    (shell.name, shell.pids, shell.ended_by) = ("bash".to_owned(), vec![7], None);
    assert!(ended(&recording).is_empty(), "it waited for a command");
    recording.recorded[1].started_by = Some(0);
    assert_eq!(said(&recording).kind, FindingKind::GroupEnded, "its job is to go on");
}

#[test]
fn who_was_ended_by_a_signal_is_said() {
    let process = |name: &str| RecordedProcess { name: name.to_owned(), ..RecordedProcess::default() };
    let mut recording = Document {
        processes: Processes { window_ns: WINDOW, ..Processes::default() },
        recorded: ["a", "b"].map(process).to_vec(),
        ..Document::default()
    };
    let said = |recording: &Document| -> Vec<String> { ended(recording).into_iter().map(|of| of.text).collect() };
    let term = Some(libc::SIGTERM.cast_unsigned());
    recording.recorded[0].signal = term;
    assert_eq!(said(&recording), ["`a` was ended by SIGTERM."]);
    recording.recorded[1].signal = term;
    assert_eq!(said(&recording), ["`a` and `b` were ended by SIGTERM."]);
    recording.recorded.push(process(TIMEOUT));
    assert_eq!(said(&recording), ["`a` and `b` were ended by SIGTERM: the time of `timeout` was over."]);
    recording.recorded[2].end_ns = WINDOW;
    assert_eq!(said(&recording), ["`a` and `b` were ended by SIGTERM."]);
    // SIGPIPE is how a pipeline ends.
    recording.recorded[0].signal = Some(libc::SIGPIPE.cast_unsigned());
    assert_eq!(said(&recording), ["`b` was ended by SIGTERM."]);
    // It was pipeprof.
    recording.duration_ns = Some(WINDOW);
    assert!(said(&recording).is_empty());
}

#[test]
fn who_goes_on_after_sigterm_is_said() {
    let recording = |end_ns: u64, duration_ns: Option<u64>, signal: Option<u32>| {
        let process = |name: &str, told_to_end_by| RecordedProcess {
            name: name.to_owned(),
            pids: vec![1],
            end_ns,
            told_to_end_by,
            ..RecordedProcess::default()
        };
        let mut recorded = vec![process("timeout", None), process("job", Some(0))];
        recorded[1].signal = signal;
        let processes = Processes { window_ns: WINDOW, ..Processes::default() };
        Document { recorded, processes, duration_ns, ..Document::default() }
    };
    let told = |end_ns: u64, duration_ns: Option<u64>, signal: Option<u32>| {
        let said = findings(&recording(end_ns, duration_ns, signal));
        said.into_iter().map(|finding| finding.text).collect::<Vec<_>>()
    };
    let text = "`job` goes on although `timeout` sent it SIGTERM, which it ignores or handles. SIGKILL ends it, as \
                `timeout -k 1` sends it.";
    assert_eq!(told(WINDOW, Some(WINDOW), None), [text]);
    assert!(told(WINDOW, None, None).is_empty() && told(WINDOW - 1, Some(WINDOW), None).is_empty());
    let killed = told(WINDOW / 2, None, Some(libc::SIGKILL.cast_unsigned()));
    let text = "`job` did not end at the SIGTERM of `timeout`, which it ignores or handles, and was ended by SIGKILL at 0.50 s.";
    assert!(killed.iter().any(|said| said == text), "{killed:?}");
    let mut recording = recording(WINDOW / 2, None, Some(libc::SIGKILL.cast_unsigned()));
    recording.recorded[1].told_to_end_in_vain = Some(InVain::Init);
    recording.recorded[1].told_signal = Some(libc::SIGTERM.cast_unsigned());
    let text = format!("which it ignores, and was ended by SIGKILL at 0.50 s.{INIT}");
    assert!(findings(&recording).iter().any(|found| found.text.ends_with(&text)));
}

#[test]
fn a_copy_that_has_sigterm_blocked_is_said() {
    let said = |change: &dyn Fn(&mut RecordedProcess)| {
        let mut process = RecordedProcess {
            name: "daemon".to_owned(),
            pids: vec![1, 2],
            forks: 1,
            end_ns: 4 * WINDOW,
            told_to_end_by: Some(0),
            told_to_end_ns: Some(2 * WINDOW),
            told_to_end_in_vain: Some(InVain::Blocked),
            ..RecordedProcess::default()
        };
        change(&mut process);
        let recorded = vec![process];
        findings(&Document { recorded, ..Document::default() }).into_iter().map(|of| of.text).collect::<String>()
    };
    let text = "A copy of `daemon` goes on although `daemon`, which had forked it, sent it SIGTERM at 2.00 s, which is blocked there.";
    assert!(said(&|_| {}).starts_with(text), "{}", said(&|_| {}));
    assert_eq!(said(&|process| process.end_ns = 2 * WINDOW), "");
    assert_eq!(said(&|process| process.told_to_end_in_vain = Some(InVain::Handled)), "");
    assert_eq!(said(&|process| process.pids.push(3)), "");
}

#[test]
fn who_ends_one_of_several_is_said() {
    let said = |until_ns: u64, by: usize| {
        let process = |name: &str, started_by, end_ns| RecordedProcess {
            name: name.to_owned(),
            pids: vec![1],
            started_by,
            end_ns,
            ..RecordedProcess::default()
        };
        let mut recorded = vec![
            process("node", None, WINDOW / 4),
            process("sleep", Some(0), WINDOW / 5),
            process("sh", Some(0), until_ns),
        ];
        recorded[0].left = Some(LeftProcesses { count: 2, processes: [2].into(), until_ns });
        (recorded[1].signal, recorded[1].ended_by) = (Some(libc::SIGINT.cast_unsigned()), Some(by));
        let said = findings(&Document { recorded, ..Document::default() });
        said.into_iter().find(|of| of.kind == FindingKind::GroupEnded).map(|of| of.text)
    };
    let text = "`node` ended `sleep`, and itself at 0.25 s, but 2 processes that it had started went on to the end of the recording (`sh`). A signal to the whole \
                group (`kill -- -PID`), or one to each, ends all.";
    assert_eq!(said(WINDOW, 0).as_deref(), Some(text));
    assert_eq!((said(WINDOW / 2, 0), said(WINDOW, 2)), (None, None));
}

#[test]
fn what_goes_on_after_its_shell_was_ended_is_said() {
    let said = |shell: &str, until_ns: u64, told: Option<usize>| {
        let process = |name: &str, started_by, end_ns| RecordedProcess {
            name: name.to_owned(),
            pids: vec![1],
            started_by,
            end_ns,
            ..RecordedProcess::default()
        };
        let mut recorded = vec![
            process("python3", None, 6 * WINDOW),
            process(shell, Some(0), 2 * WINDOW),
            process("sleep", Some(1), until_ns),
        ];
        recorded[1].left = Some(LeftProcesses { count: 1, processes: [2].into(), until_ns });
        (recorded[1].signal, recorded[1].ended_by) = (Some(libc::SIGKILL.cast_unsigned()), Some(0));
        if shell == "sudo" {
            recorded[1].lived_ns = 2 * WINDOW;
            recorded[1].waits = [(WaitReason::Child, WaitTotal { ns: 2 * WINDOW, count: 1 })].into();
        }
        recorded[2].told_to_end_by = told;
        let said = findings(&Document { recorded, ..Document::default() });
        said.into_iter().find(|of| of.kind == FindingKind::GroupEnded).map(|of| of.text)
    };
    let text = format!(
        "`sh` was ended by SIGKILL of `python3` at 2.00 s, but what it had started (`sleep`) got none, and went on to the end of the recording. \
         {BOTH_END}"
    );
    assert_eq!(said("sh", 5 * WINDOW, None).as_deref(), Some(&*text));
    assert_eq!(said("sudo", 5 * WINDOW, None), Some(text.replace("`sh`", "`sudo`")), "it only waits for its child");
    assert_eq!(
        [said("sh", 2 * WINDOW, None), said("sh", 5 * WINDOW, Some(0)), said("make", 5 * WINDOW, None)],
        [None, None, None]
    );
}

#[test]
fn a_trap_that_runs_late_is_said() {
    let said = |change: &dyn Fn(&mut Vec<RecordedProcess>)| {
        let process = |name: &str, end_ns| RecordedProcess {
            name: name.to_owned(),
            pids: vec![1],
            end_ns,
            ..RecordedProcess::default()
        };
        let mut recorded = vec![process("python3", WINDOW), process("sh", 4 * WINDOW), process("sleep", 4 * WINDOW)];
        let shell = &mut recorded[1];
        (shell.told_to_end_by, shell.told_to_end_ns) = (Some(0), Some(WINDOW));
        shell.told_to_end_in_vain = Some(InVain::Handled);
        shell.waits = [(WaitReason::Child, WaitTotal { ns: 4 * WINDOW, count: 1 })].into();
        change(&mut recorded);
        let mut recording = Document { recorded, ..Document::default() };
        recording.processes.window_ns = 5 * WINDOW;
        let said = findings(&recording);
        said.into_iter().find(|of| of.kind == FindingKind::GroupEnded).map(|of| of.text)
    };
    let text = "`sh` got the SIGTERM of `python3` at 1.00 s, for which it has a `trap`, and went on until 4.00 s: a shell runs a `trap` \
                only when its program has ended, which got no signal. With the program as `program & wait`, it runs at once.";
    assert_eq!(said(&|_| {}).as_deref(), Some(text));
    let more = said(&|recorded| recorded[1].started_since = 4);
    let end = " It started 4 processes since: `exit` in the `trap` ends the script.";
    assert_eq!(more, Some(format!("{text}{end}")));
    let silent = [
        said(&|recorded| recorded[1].told_to_end_in_vain = None),
        said(&|recorded| recorded[1].end_ns = WINDOW + 1),
        said(&|recorded| recorded[2].told_to_end_by = Some(1)),
        said(&|recorded| recorded[1].name = "python3".to_owned()),
    ];
    assert_eq!(silent, [None, None, None, None]);
}

#[test]
fn who_ends_its_whole_group_is_said() {
    let term = Some(libc::SIGTERM.cast_unsigned());
    let said = |change: &dyn Fn(&mut Document)| {
        let process = |name: &str, started_by| RecordedProcess {
            name: name.to_owned(),
            pids: vec![1],
            signal: term,
            ended_by: Some(1),
            started_by,
            end_ns: WINDOW / 2,
            ..RecordedProcess::default()
        };
        let recorded =
            vec![process("sh", None), process("logs", Some(0)), process("tail", Some(0)), process("job", Some(1))];
        let mut recording = Document { recorded, ..Document::default() };
        change(&mut recording);
        let said: Vec<Finding> =
            findings(&recording).into_iter().filter(|of| of.kind == FindingKind::GroupEnded).collect();
        said.into_iter().map(|finding| finding.text).collect::<Vec<_>>()
    };
    let text = "`logs` sent SIGTERM to its whole process group at 0.50 s (as `kill 0` does), and so ended `sh` and `tail`, too, which it \
                had not started. `kill $(jobs -p)`, or the ids of its children, ends only those; `setsid` before it gives it a group \
                of its own.";
    assert_eq!(said(&|_| {}), [text]);
    let own = said(&|recording| (recording.recorded[0].ended_by, recording.recorded[2].ended_by) = (None, None));
    assert!(own.is_empty(), "its own children");
    let ending = said(&|recording| {
        let process = &mut recording.recorded[1];
        (process.ended_by, process.signal) = (None, None);
        (process.told_to_end_by, process.told_signal) = (Some(1), term);
        recording.processes.window_ns = process.end_ns;
    });
    assert_eq!(ending, [text], "its end is not recorded");
    assert!(said(&|recording| recording.recorded[1].ended_by = None).is_empty(), "it goes on");
    assert!(said(&|recording| recording.recorded[1].signal = None).is_empty());
}

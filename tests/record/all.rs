//! `record --all`: the whole machine.
//!
//! Other tests have pipelines that stand still at the same time: only what this one has started is looked at.

use super::running::{Running, command, pair, stored};
use crate::common::{copy_program, pipeprof, program, wait_until};
use pipeprof::result::{Document, MachineChannel, MachineView, WaitCause};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const BY_LOOKS: [&str; 5] = ["--all", "--duration", "300ms", "--observe", "proc"];
const BY_PROGRAMS: [&str; 3] = ["--all", "--duration", "300ms"];

/// Whether a process sleeps in this call, by its begin in /proc/PID/syscall.
fn sleeps_in(pid: u32, call: &str) -> bool {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    read("stat").contains(") S ") && read("syscall").starts_with(call)
}

fn recorded(flags: &[&str]) -> (String, Document) {
    let (output, recording) = stored(flags);
    let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(0), "{said}");
    (said, recording.unwrap())
}

/// The places of the channels that `writer` writes, other than its standard error, which is that of the test.
fn written_by(machine: &MachineView, writer: u32) -> Vec<usize> {
    let writes = |channel: &MachineChannel| {
        channel.writers.holders.iter().any(|holder| holder.process.pid == writer && holder.fd != 2)
    };
    (0..).zip(&machine.channels).filter(|(_, channel)| writes(channel)).map(|(at, _)| at).collect()
}

/// The first pipe of `writer` is stuck, and so are all that come before it. Returns who has to read it.
fn first_is_stuck(machine: &MachineView, writer: u32) -> (&MachineChannel, &WaitCause) {
    let first = written_by(machine, writer)[0];
    assert!(machine.channels[..first].iter().all(|channel| channel.stuck.is_some()), "{:#?}", machine.channels[0]);
    let channel = &machine.channels[first];
    let stuck = channel.stuck.as_ref().unwrap_or_else(|| panic!("{channel:#?}"));
    assert!(stuck.room && stuck.process.pid == writer, "{channel:#?}");
    (channel, &stuck.cause)
}

fn one_of_two_thousand(flags: &[&str]) {
    let crowd = Running(vec![program(&["hang", "crowd"]).stdout(Stdio::null()).spawn().unwrap()]);
    let writer = crowd.0[0].id();
    assert!(wait_until(Duration::from_secs(60), || sleeps_in(writer, "1 0x")), "it does not wait");
    let (said, recording) = recorded(flags);
    let machine = recording.machine.unwrap();
    let own = written_by(&machine, writer);
    // Those, and the standard input of the child.
    assert_eq!(own.len(), 2001, "{said}");
    let (channel, cause) = first_is_stuck(&machine, writer);
    assert!(matches!(cause, WaitCause::Sleeps { .. }), "{channel:#?}");
    assert!(own[1..].iter().all(|at| machine.channels[*at].lost_ns == 0), "{said}");
    let window = recording.processes.window_ns;
    assert!(channel.lost_ns.abs_diff(window) < 2 * machine.looks && channel.empty_ns == 0, "{channel:#?}");
    let sentence = format!("(process {writer}) has waited ");
    let others = machine.channels.iter().filter(|channel| channel.stuck.is_some()).count() - 1;
    assert!(said.contains(&sentence) && said.contains("it is sleeping on a timer.") || others >= 3, "{said}");
    if let Some(slots) = channel.slots {
        assert_eq!(slots[0], slots[1], "{channel:#?}");
    }
}

#[test]
fn the_pipe_that_is_stuck_is_the_first_of_two_thousand() {
    one_of_two_thousand(&BY_LOOKS);
}

#[test]
#[ignore = "needs root: make test"]
fn with_programs_it_is_first_and_full() {
    one_of_two_thousand(&BY_PROGRAMS);
}

#[test]
fn who_waits_for_somebody_idle_loses_nothing_and_who_is_stopped_is_named() {
    let idle = pair(command(&["sleep", "600"]), command(&["cat"]));
    let folder = tempfile::tempdir().unwrap();
    let hostile = folder.path().join("\u{1b}[31m`x");
    copy_program(Path::new("/bin/cat"), &hostile);
    let stopped = pair(command(&["yes"]), command(&[hostile.to_str().unwrap()]));
    let [sleep, cat] = [0, 1].map(|at| idle.0[at].id());
    let [yes, reader] = [0, 1].map(|at| stopped.0[at].id());
    // SAFETY: sends a signal to a child of this test.
    unsafe { libc::kill(reader.cast_signed(), libc::SIGSTOP) };
    assert!(wait_until(Duration::from_secs(60), || sleeps_in(yes, "1 0x1 ") && sleeps_in(cat, "0 0x0 ")));
    let (said, recording) = recorded(&BY_LOOKS);
    let machine = recording.machine.unwrap();
    let [quiet] = written_by(&machine, sleep)[..] else { panic!("{said}") };
    let quiet = &machine.channels[quiet];
    assert!(quiet.lost_ns == 0 && quiet.empty_ns > 0 && quiet.stuck.is_none(), "{quiet:#?}");
    assert!(!said.contains('\u{1b}'), "{said}");
    let (channel, cause) = first_is_stuck(&machine, yes);
    assert!(matches!(cause, WaitCause::Stopped(process) if process.pid == reader), "{channel:#?}");
}

#[test]
fn a_chain_of_waits_is_led_to_its_cause() {
    // The first one waits for room in the second one's input, and that for room in the last one's.
    let mut first = command(&["sh", "-c", "yes | cat | sleep 600"]);
    let shell = Running(vec![first.spawn().unwrap()]);
    let children = || {
        let all = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.0[0].id())).unwrap_or_default();
        all.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    };
    let stand = || matches!(children()[..], [yes, cat, _] if sleeps_in(yes, "1 0x1 ") && sleeps_in(cat, "1 0x1 "));
    let stands = wait_until(Duration::from_secs(60), stand);
    let children = children();
    let end = || children.iter().for_each(|pid| drop(std::process::Command::new("kill").arg(pid.to_string()).status()));
    let (said, recording) = recorded(&BY_LOOKS);
    end();
    assert!(stands, "{said}");
    let machine = recording.machine.unwrap();
    let [near, far] = [children[1], children[0]].map(|writer| first_is_stuck(&machine, writer));
    for (channel, cause) in [near, far] {
        assert!(cause.process().is_some_and(|process| process.pid == children[2]), "{channel:#?}");
    }
    let steps = |channel: &MachineChannel| channel.stuck.as_ref().map(|stuck| stuck.steps);
    assert_eq!([near, far].map(|(channel, _)| steps(channel)), [Some(1), Some(2)]);
}

#[test]
#[ignore = "needs root: make test"]
fn what_moves_is_counted_until_ctrl_c_and_shown_meanwhile() {
    let moving = pair(command(&["yes"]), command(&["cat"]));
    let [writer, reader] = [0, 1].map(|at| moving.0[at].id());
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let mut recorder = pipeprof(&["record", "--all", "--live", "-o", target.to_str().unwrap()]);
    let mut recorder = Running(vec![recorder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()]);
    // It has begun to count when it shows the first time.
    let mut lines = BufReader::new(recorder.0[0].stderr.take().unwrap()).lines().map_while(Result::ok);
    let shown = lines.find(|line| line.contains(" s: ")).unwrap();
    let read = || {
        let text = std::fs::read_to_string(format!("/proc/{reader}/io")).unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = read();
    assert!(wait_until(Duration::from_secs(60), || read() > before + (1 << 20)), "{shown}");
    // SAFETY: sends a signal to a child of this test.
    unsafe { libc::kill(recorder.0[0].id().cast_signed(), libc::SIGINT) };
    let said: Vec<String> = lines.collect();
    assert_eq!(recorder.0[0].wait().unwrap().code(), Some(0), "{said:?}");
    let text = std::fs::read_to_string(target.join("result.json")).unwrap();
    let recording: Document = serde_json::from_str(&text).unwrap();
    let machine = recording.machine.unwrap();
    let [own] = written_by(&machine, writer)[..] else { panic!("{said:?}") };
    let channel = &machine.channels[own];
    assert!(channel.bytes.is_some_and(|bytes| bytes > 1 << 20) && channel.stuck.is_none(), "{channel:#?}");
}

#[test]
fn what_does_not_go_with_all_is_refused() {
    for flags in [&["--all", "--level", "stacks"][..], &["--all", "--keep", "1s"], &["--all", "-p", "1"]] {
        let (output, recording) = stored(flags);
        assert!(output.status.code() == Some(2) && recording.is_none(), "{flags:?}: {output:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    for view in [&one, &other] {
        let words = ["record", "--all", "--observe", "proc", "--duration", "100ms", "-o", view];
        assert!(pipeprof(&words).stderr(Stdio::null()).status().unwrap().success());
    }
    for words in [&["compare", &one, &other][..], &["repeat", &one]] {
        let output = pipeprof(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("a view of a whole machine"), "{words:?}: {said}");
    }
}

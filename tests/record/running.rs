//! Processes that are already running: `-p`.

use super::path::adds_up;
use super::{ALL, bytes, limited_by_timer};
use crate::common::{pipeprof, program, wait_until};
use pipeprof::result::{Document, HeldBy, RecordedChannel, RecordedEnd};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Processes that end with this value.
pub(super) struct Running(pub(super) Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `WRITER | READER`, running.
pub(super) fn pair(mut writer: Command, mut reader: Command) -> Running {
    let mut writer = writer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let pipe = writer.stdout.take().unwrap();
    let reader = reader.stdin(pipe).stdout(Stdio::null()).spawn().unwrap();
    Running(vec![writer, reader])
}

pub(super) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// Wait until each of these processes sleeps in a read or on a timer: before that, they are still being started.
fn until_asleep(pids: impl IntoIterator<Item = u32>) {
    let sleeps = |pid: u32| {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        [libc::SYS_read, libc::SYS_clock_nanosleep].iter().any(|number| call.starts_with(&format!("{number} ")))
    };
    pids.into_iter().for_each(|pid| assert!(wait_until(Duration::from_secs(60), || sleeps(pid)), "{pid}"));
}

/// Record processes with these flags.
fn attach(flags: &[&str]) -> (Output, Option<Document>) {
    let (output, recording) = stored(flags);
    recording.iter().for_each(adds_up);
    (output, recording)
}

/// Record with these flags.
pub(super) fn stored(flags: &[&str]) -> (Output, Option<Document>) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let output = pipeprof(&["record", "-o", target.to_str().unwrap()]).args(flags).output().unwrap();
    let text = std::fs::read_to_string(target.join("result.json")).ok();
    let recording: Option<Document> = text.map(|text| serde_json::from_str(&text).unwrap());
    (output, recording)
}

#[test]
#[ignore = "needs root: make test"]
fn a_running_pipeline_is_recorded_by_one_of_its_processes() {
    let slow = pair(program(&["stage", "write", "4096", ALL, "2000"]), program(&["stage", "read", "65536", ALL]));
    let reader = slow.0[1].id().to_string();
    let (output, recording) = attach(&["-p", &reader, "--duration", "700ms"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let recording = recording.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("Recorded: process {reader}: ")), "{said}");
    limited_by_timer(&recording.sentences().join(" "), "test-programs write");
    assert_eq!((recording.target.pids(), recording.target.stages().len()), (&[slow.0[1].id()][..], 0));
    let used: Vec<&RecordedChannel> = recording.channels.iter().filter(|pipe| pipe.bytes() > 0).collect();
    let [pipe] = &used[..] else { panic!("{:#?}", recording.channels) };
    // Each block is read at once, and a block may be on its way at both ends of the recording.
    let [written, read] = [bytes(&pipe.writers), bytes(&pipe.readers)];
    assert!(read > 20 * 4096 && written.abs_diff(read) <= 2 * 4096 || recording.skipped > 0, "{written}, {read}");
    assert!((0.65..60.0).contains(&(recording.processes.window_ns as f64 / 1e9)), "{}", recording.processes.window_ns);
}

#[test]
#[ignore = "needs root: make test"]
fn a_pipeline_that_hangs_is_explained() {
    let hung = pair(command(&["sleep", "600"]), command(&["cat"]));
    until_asleep(hung.0.iter().map(Child::id));
    let (output, recording) = attach(&["-p", &hung.0[1].id().to_string(), "--duration", "300ms"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("were 100 % `sleep` sleeping on a timer (`sleep 600`)."), "{said}");
    assert!(said.contains("`cat` waits 100 % of the time because the pipe from `sleep` is empty."), "{said}");
    let recording = recording.unwrap();
    let cat = |end: &RecordedEnd| recording.recorded[end.process].name == "cat";
    let pipe = recording.channels.iter().find(|pipe| pipe.readers.iter().any(cat)).unwrap();
    assert_eq!((pipe.writers.len(), pipe.readers[0].sleeps), (1, 1), "{pipe:#?}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_running_stage_that_is_stopped_limits_the_pipeline() {
    let stopped = pair(command(&["yes"]), command(&["cat"]));
    let reader = stopped.0[1].id();
    // SAFETY: sends a signal to a child of this test.
    unsafe { libc::kill(reader.cast_signed(), libc::SIGSTOP) };
    let state = || std::fs::read_to_string(format!("/proc/{reader}/stat")).unwrap();
    assert!(wait_until(Duration::from_secs(60), || state().contains(") T ")));
    let (output, recording) = attach(&["-p", &reader.to_string(), "--duration", "300ms"]);
    let said = String::from_utf8_lossy(&output.stderr);
    // It is not known by whom; old kernels do not say by what.
    assert!(said.contains("were 100 % `cat` stopped by SIGSTOP.") || said.contains("`cat` stopped."), "{said}");
    assert!(said.contains("`yes` waits 100 % of the time because the pipe to `cat` is full."), "{said}");
    let held_by = recording.unwrap().recorded[0].held_by.clone();
    assert!(held_by.values().flatten().all(|holder| *holder == HeldBy::Signal), "{held_by:?}");
}

#[test]
#[ignore = "needs root: make test"]
fn who_only_waits_at_a_pipe_that_the_stages_inherited_does_not_end_the_path() {
    let mut log = command(&["tail"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let end = OwnedFd::from(log.stdin.take().unwrap());
    let copy = || Stdio::from(end.try_clone().unwrap());
    // It ends by itself, and the log goes on.
    let mut writer =
        program(&["stage", "write", "4096", "1000", "2000"]).stdout(Stdio::piped()).stderr(copy()).spawn().unwrap();
    let data = writer.stdout.take().unwrap();
    let reader = command(&["wc", "-c"]).stdin(data).stdout(Stdio::null()).stderr(copy()).spawn().unwrap();
    let all = Running(vec![log, writer, reader]);
    let (output, recording) = attach(&["-p", &all.0[1].id().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr);
    let recording = recording.unwrap_or_else(|| panic!("{said}"));
    limited_by_timer(&recording.sentences().join(" "), "test-programs");
}

#[test]
#[ignore = "needs root: make test"]
fn the_path_ends_with_the_process_that_was_named() {
    // It never reads what it has inherited, and `sleep` goes on.
    let timed = program(&["stage", "write", "1", "1", "3000000"]);
    let all = pair(command(&["sleep", "600"]), timed);
    let (output, recording) = attach(&["-p", &all.0[1].id().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr);
    let recording = recording.unwrap_or_else(|| panic!("{said}"));
    limited_by_timer(&recording.sentences().join(" "), "test-programs");
}

#[test]
#[ignore = "needs root: make test"]
fn processes_without_pipes_stay_apart() {
    let sleep = || command(&["sleep", "600"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let both = Running(vec![sleep(), sleep()]);
    let [first, second] = [0, 1].map(|at| both.0[at].id());
    until_asleep([first, second]);
    // One is named twice.
    let (_, recording) = attach(&["-p", &format!("{first},{first},{second}"), "--duration", "300ms"]);
    let recording = recording.unwrap();
    assert_eq!(recording.target.pids(), [first, second]);
    let sleeps = |pid| format!("`sleep ({pid})` sleeping on a timer 100 %");
    assert_eq!(recording.sentences()[1], format!("No pipe was used: {} and {}.", sleeps(first), sleeps(second)));
}

/// Some virtual machines hide their first process from BPF programs.
#[test]
#[ignore = "needs root: make test"]
fn a_process_that_is_not_seen_is_an_error() {
    let (output, recording) = attach(&["-p", "1", "--duration", "100ms"]);
    let said = String::from_utf8_lossy(&output.stderr);
    match recording {
        Some(recording) => assert!(recording.recorded.iter().any(|process| process.stage == 0), "{said}"),
        None => assert!(!output.status.success() && said.contains("-p 1: nothing of it can be recorded"), "{said}"),
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_running_process_may_end_or_be_missing() {
    let short = pair(command(&["sleep", "1.5"]), command(&["cat"]));
    let ids = format!("{},{}", short.0[0].id(), short.0[1].id());
    let begin = Instant::now();
    let (output, recording) = attach(&["-p", &ids]);
    assert!(output.status.success() && begin.elapsed() < Duration::from_secs(60), "{output:?}");
    assert_eq!(recording.unwrap().target.pids().len(), 2);
    // Both have ended, but not been waited for; then their ids are gone.
    drop(short);
    let (output, recording) = attach(&["-p", &ids]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("there is no such process") && said.lines().count() == 1, "{said}");
    assert!(!output.status.success() && recording.is_none());
}

#[test]
#[ignore = "needs root: make test"]
fn ctrl_c_ends_the_recording_of_a_running_pipeline() {
    let endless = pair(command(&["sleep", "600"]), command(&["cat"]));
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let flags = ["record", "-o", target.to_str().unwrap(), "-p", &endless.0[1].id().to_string()];
    let recorder = pipeprof(&flags).stderr(Stdio::piped()).spawn().unwrap();
    // Its programs are attached.
    std::thread::sleep(Duration::from_secs(2));
    // SAFETY: sends a signal to a child of this test.
    unsafe { libc::kill(recorder.id().cast_signed(), libc::SIGINT) };
    let output = recorder.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(" % `sleep` sleeping on a timer"), "{output:?}");
    assert!(target.join("result.json").exists());
}

/// Writers of one pipe, and `cat`, which reads it.
fn writers_of_one_pipe<const N: usize>(writers: [Command; N]) -> (Running, [u32; N]) {
    let mut reader = command(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let end = OwnedFd::from(reader.stdin.take().unwrap());
    let started =
        writers.map(|mut writer| writer.stdin(Stdio::null()).stdout(end.try_clone().unwrap()).spawn().unwrap());
    let ids = started.each_ref().map(Child::id);
    (Running(started.into_iter().chain([reader]).collect()), ids)
}

#[test]
#[ignore = "needs root: make test"]
fn a_second_writer_is_recorded_with_its_bytes() {
    let writer = |size, pause| program(&["stage", "write", size, ALL, pause]);
    let (_running, [asked, second]) = writers_of_one_pipe([writer("100", "10000"), writer("65536", "1000")]);
    let (_, recording) = attach(&["-p", &asked.to_string(), "--duration", "700ms"]);
    let recording = recording.unwrap();
    let used: Vec<&RecordedChannel> = recording.channels.iter().filter(|pipe| pipe.is_used()).collect();
    let [pipe] = &used[..] else { panic!("{:#?}", recording.channels) };
    let of = |pid: u32| {
        let mut ends = pipe.writers.iter().filter(|end| recording.recorded[end.process].pids == [pid]);
        ends.next().map(|end| end.bytes)
    };
    assert!(of(asked).is_some_and(|bytes| bytes > 0) && of(second).is_some_and(|bytes| bytes > 65_536), "{pipe:#?}");
    assert!(pipe.other_writers.is_empty(), "{pipe:#?}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_process_that_only_holds_an_end_open_is_named() {
    let writer = program(&["stage", "write", "100", ALL, "10000"]);
    let (running, [asked, _]) = writers_of_one_pipe([writer, command(&["sleep", "600"])]);
    // It waits for nothing at the pipe, but does not limit the pipeline either.
    for pid in [asked, running.0[2].id()] {
        let (_, recording) = attach(&["-p", &pid.to_string(), "--duration", "700ms"]);
        let answer = recording.unwrap().sentences().join(" ");
        assert!(!answer.contains("`sleep` sleeping"), "{answer}");
        assert!(answer.contains("`sleep` only has a pipe open and makes no calls on it."), "{answer}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_pipeline_is_recorded_whole_from_any_stage_and_from_its_shell() {
    let line = "sleep 600 | cat | cat | wc -c; true";
    let mut shell = command(&["sh", "-c", line]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let children = || {
        let text = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.id())).unwrap();
        text.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let all = || children().iter().map(name).collect::<String>() == "sleep\ncat\ncat\nwc\n";
    assert!(wait_until(Duration::from_secs(60), all));
    let stages = children();
    until_asleep(stages.iter().copied());
    for asked in [shell.id(), stages[0], stages[2], stages[3]] {
        let (output, recording) = attach(&["-p", &asked.to_string(), "--duration", "300ms"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("were 100 % `sleep` sleeping on a timer (`sleep 600`)."), "{asked}: {said}");
        let recording = recording.unwrap_or_else(|| panic!("{asked}: {said}"));
        let found: Vec<u32> = recording.recorded.iter().flat_map(|process| process.pids.clone()).collect();
        assert!(stages.iter().all(|stage| found.contains(stage)), "{asked}: {found:?}, {stages:?}");
        // Nothing moved, and the capacity is known.
        let slept = recording.channels.iter().filter(|pipe| pipe.is_used());
        let slots: Vec<_> = slept.map(|pipe| pipe.slots).collect();
        assert_eq!(slots, [Some([16; 3]); 3], "{asked}: {:#?}", recording.channels);
    }
    for pid in stages.into_iter().chain([shell.id()]) {
        // SAFETY: sends a signal to a descendant of this test.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    }
    shell.wait().unwrap();
}

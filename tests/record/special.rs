//! Calls that programs seldom make, of special_calls.c.

use super::{Recorded, bytes, exact, moved, record};
use crate::common::{Cgroup, pipeprof, wait_until};
use pipeprof::result::{HeldBy, RecordedEnd, WaitReason};
use std::process::Command;
use std::time::Duration;

/// Record a line in which `@` is the program of special_calls.c.
fn record_line(line: &str) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let [source, program] = ["special.c", "special"].map(|name| folder.path().join(name));
    std::fs::write(&source, include_str!("special_calls.c")).unwrap();
    let built = Command::new("gcc").args(["-Wall", "-Werror", "-o"]).args([&program, &source]).status();
    assert!(built.unwrap().success());
    let line = line.replace('@', program.to_str().unwrap());
    let recorded = record(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(recorded.output.status.code(), Some(0), "{}", recorded.stderr());
    assert!(recorded.recording.exit_codes.iter().all(|code| *code == 0), "{}", recorded.stderr());
    recorded
}

#[test]
#[ignore = "needs root and gcc: make test"]
fn a_descriptor_may_be_used_before_it_is_open() {
    let late = record_line("@ late | wc -c");
    moved(&late.recording, &late.recording.channels[0], 1_000_000);
    assert_eq!(late.stdout(), "1000000");
}

#[test]
#[ignore = "needs root and gcc: make test"]
fn processes_can_share_a_table_of_descriptors() {
    let shared = record_line("@ shared | cat");
    let [first, other] = &shared.recording.channels[..2] else { panic!("{:#?}", shared.recording) };
    moved(&shared.recording, first, 1);
    moved(&shared.recording, other, 20 * 10_000);
}

#[test]
#[ignore = "needs root and gcc: make test"]
fn calls_of_32_bits_are_decoded() {
    let compat = record_line("@ compat-write | @ compat-read");
    let pipe = &compat.recording.channels[0];
    moved(&compat.recording, pipe, 20 * 10_000);
    exact(&compat.recording, pipe.writers[0].calls["write"], 20);
    // What has arrived can be read in parts.
    assert!(pipe.readers[0].calls["read"] > 20 || compat.recording.skipped > 0, "{pipe:#?}");
    let [writer, reader] = &compat.recording.recorded[..] else { panic!("{:#?}", compat.recording) };
    assert!(writer.waits[&WaitReason::Timer].ns >= 100_000_000, "{writer:#?}");
    assert!(!reader.waits.contains_key(&WaitReason::Disk) && compat.empty(0) > 0.0, "{reader:#?}");
}

#[test]
#[ignore = "needs root and gcc: make test"]
fn tee_consumes_nothing() {
    let copied = record_line("head -c 2000000 /dev/zero | @ copy | wc -c");
    assert_eq!(copied.stdout(), "2000000");
    copied.recording.channels[..2].iter().for_each(|pipe| moved(&copied.recording, pipe, 2_000_000));
    let reader = &copied.recording.channels[0].readers[0];
    assert!(reader.calls["tee"] > 0 && reader.calls["splice"] > 0, "{reader:#?}");
}

#[test]
#[ignore = "needs root and gcc: make test"]
fn requests_of_io_submit_are_counted_or_named() {
    let seen = record_line("@ aio-write | @ slow-splice | @ aio-read");
    let [first, second] = &seen.recording.channels[..2] else { panic!("{:#?}", seen.recording) };
    moved(&seen.recording, first, 100 * 10_000);
    moved(&seen.recording, second, 100 * 10_000);
    exact(&seen.recording, first.writers[0].calls["io_submit"], 100);
    assert!(first.writers[0].sleeps > 0 && second.readers[0].sleeps > 0, "{}", seen.stderr());
    assert!(!seen.stderr().contains("not recorded"), "{}", seen.stderr());
    let many = record_line("@ aio-many | cat");
    let requests: u64 = many.recording.recorded.iter().map(|process| process.unseen_requests).sum();
    exact(&many.recording, many.recording.channels[0].writers[0].calls["io_submit"] + requests, 400);
    let said = format!("uses io_submit, of which {requests} requests are not recorded.");
    assert!(requests >= 144 && many.answer().contains(&said), "{}", many.stderr());
}

#[test]
#[ignore = "needs root and gcc: make test"]
fn vfork_waits_for_its_child() {
    let vfork = record_line("@ child | cat");
    let child = vfork.recording.recorded[0].waits[&WaitReason::Child];
    assert!(child.ns >= 100_000_000, "{:#?}", vfork.recording);
}

/// The process at this end, if there is only one.
fn stage(recorded: &Recorded, ends: &[RecordedEnd]) -> Option<u32> {
    let [end] = ends else { return None };
    Some(recorded.recording.recorded[end.process].stage)
}

#[test]
#[ignore = "needs root and gcc: make test"]
fn waits_of_two_pipes_at_one_process_are_told_apart() {
    // The first stage is woken by a call that reads its pipe and writes another one.
    let polled = record_line("@ poll-write | @ slow-splice | cat");
    let [first, second] = &polled.recording.channels[..2] else { panic!("{:#?}", polled.recording) };
    assert!(first.writers[0].sleeps > 0, "{}", polled.stderr());
    assert_eq!([&second.writers, &second.readers].map(|ends| stage(&polled, ends)), [Some(1), Some(2)]);
    // The last but one stage waits for data at descriptor 0, to write descriptor 4.
    let spliced = record_line("head -c 500000 /dev/zero | @ slow-splice | @ splice-to-4 | wc -c");
    let [_, second, third] = &spliced.recording.channels[..3] else { panic!("{:#?}", spliced.recording) };
    assert_eq!((bytes(&second.readers), spliced.stdout()), (500_000, "500000".to_owned()));
    assert!(second.readers[0].sleeps > 0, "{}", spliced.stderr());
    assert_eq!([&third.writers, &third.readers].map(|ends| stage(&spliced, ends)), [Some(2), Some(3)]);
}

#[test]
#[ignore = "needs root and strace: make test"]
fn a_traced_stage_waits_for_nothing() {
    let traced = record(&["strace", "-f", "-o", "/dev/null", "head", "-c", "1000000", "/dev/zero", "|", "wc", "-c"]);
    assert_eq!(traced.stdout(), "1000000");
    let head = traced.recording.recorded.iter().find(|process| process.name == "head").expect("a stage");
    let calls = traced.recording.channels[0].writers[0].calls["write"];
    // Strace stops it at the begin and at the end of each call.
    assert!(head.waits[&WaitReason::Traced].count >= 2 * calls, "{head:#?}");
    assert_eq!(head.held_by[&WaitReason::Traced], [HeldBy::Program("strace".to_owned())].into());
    assert!(traced.recording.channels[0].writers[0].sleeps < calls, "{:#?}", traced.recording.channels);
}

#[test]
#[ignore = "needs root: make test"]
fn a_stopped_stage_limits_the_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    // It is killed two seconds after it should have ended.
    let mut command = pipeprof(&["record", "--duration", "500ms", "-o", target.to_str().unwrap(), "--"]);
    let output = command.args(["yes", "|", "sh", "-c", "kill -STOP $$; cat", "|", "cat"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(" % `sh` stopped by itself"), "{said}");
    assert!(said.contains("  stopped "), "{said}");
}

#[test]
#[ignore = "needs root and cgroup2: make test"]
fn a_frozen_stage_does_not_wait() {
    let (folder, cgroup) = (tempfile::tempdir().unwrap(), Cgroup::new());
    let [members, done] = [cgroup.file("cgroup.procs"), folder.path().join("done")];
    // It is frozen in a call that writes a full pipe.
    let frozen = format!("echo $$ > {}; exec cat", members.display());
    let last = format!("until [ -e {} ]; do sleep 0.05; done", done.display());
    let target = folder.path().join("recording");
    let mut command = pipeprof(&["record", "-o", target.to_str().unwrap(), "--"]);
    let pipeline = command.args(["yes", "|", "sh", "-c", &frozen, "|", "sh", "-c", &last]);
    let child = pipeline.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let freezes = |state: &str| {
        std::fs::write(cgroup.file("cgroup.freeze"), state).unwrap();
        let event = format!("frozen {state}");
        assert!(wait_until(Duration::from_secs(60), || {
            std::fs::read_to_string(cgroup.file("cgroup.events")).unwrap().contains(&event)
        }));
    };
    let waits = || {
        let pid = std::fs::read_to_string(&members).unwrap();
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| stat.contains("(cat) S "))
    };
    assert!(wait_until(Duration::from_secs(60), waits));
    freezes("1");
    std::thread::sleep(Duration::from_secs(1));
    freezes("0");
    std::fs::write(&done, "").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(target.join("result.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let recording: pipeprof::result::Document = serde_json::from_str(&text).unwrap();
    let cat = recording.recorded.iter().find(|process| process.name == "cat").expect("a stage");
    assert!(cat.waits.get(&WaitReason::Frozen).is_some_and(|wait| wait.ns > 100_000_000), "{cat:#?}");
    assert!(said.contains("  frozen "), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn files_that_have_no_position_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers").display().to_string();
    // The kernel does not move the position in this file, so it is smaller than what was written.
    let line = format!("echo 0 > /proc/self/oom_score_adj; seq 3 > {file}; cat {file}");
    let recorded = record(&["sh", "-c", &line, "|", "wc", "-l"]);
    assert_eq!((recorded.output.status.code(), recorded.stdout().as_str()), (Some(0), "3"), "{}", recorded.stderr());
    let written = recorded.recording.streams.iter().filter(|stream| stream.writes).map(|stream| &stream.file);
    assert_eq!(written.collect::<Vec<_>>(), ["numbers"]);
}

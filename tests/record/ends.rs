//! How a pipeline ends: exit codes, signals, readers that leave early.

use super::{bytes, record, record_with};
use crate::common::{binary, copy_program, pipeprof, wait_until};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs root: make test"]
fn a_reader_that_leaves_early_ends_the_writer_by_sigpipe() {
    let early = record(&["yes", "|", "head", "-c", "100000"]);
    assert_eq!(early.output.stdout.len(), 100_000);
    assert_eq!((early.output.status.code(), &early.recording.exit_codes[..]), (Some(0), &[141, 0][..]));
    let pipe = &early.recording.channels[0];
    assert!(bytes(&pipe.writers) > bytes(&pipe.readers) && bytes(&pipe.readers) >= 100_000, "{pipe:#?}");
}

#[test]
#[ignore = "needs root and python3: make test"]
fn exit_codes_input_and_output_are_those_of_the_pipeline() {
    assert_eq!(record(&["true", "|", "sh", "-c", "exit 7"]).output.status.code(), Some(7));
    assert_eq!(record(&["exit 3 | exit 9"]).output.status.code(), Some(9));
    let killed = record(&["sh", "-c", "kill -9 $$", "|", "sh", "-c", "kill -15 $$"]);
    assert_eq!((killed.output.status.code(), &killed.recording.exit_codes[..]), (Some(143), &[137, 143][..]));
    let signals: Vec<Option<u32>> = killed.recording.recorded.iter().map(|process| process.signal).collect();
    assert_eq!(signals, [Some(9), Some(15)]);
    // The shell says nothing of it. That of `kill` is no fault.
    let faults = format!("{} -c 'import ctypes; ctypes.string_at(0)' | wc -c", super::python());
    for (line, is_fault) in [(&faults[..], true), ("sh -c 'kill -SEGV $$' | wc -c", false)] {
        let crashed = record(&[line]);
        assert_eq!(crashed.output.status.code(), Some(0));
        let said = crashed.stderr().contains("` was killed by SIGSEGV (invalid memory access).");
        assert_eq!(said, is_fault, "{}", crashed.stderr());
    }
    let passed = record_with(&["cat", "|", "tr", "a-z", "A-Z"], b"input\n");
    assert_eq!(passed.stdout(), "INPUT");
    assert!(!passed.stderr().contains("INPUT"));
    let missing = pipeprof(&["record", "--", "no-such-program", "|", "cat"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no-such-program"));
}

#[test]
#[ignore = "needs root: make test"]
fn signals_reach_the_pipeline_and_it_outlives_a_killed_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let start = |name: &str, line: &str| {
        let output = path(name);
        let mut command = pipeprof(&["record", "-o", output.to_str().unwrap(), "--", line]);
        // A shell without job control lets what it starts in the background ignore SIGINT, and pipeprof leaves that so.
        let default_signals = || {
            // SAFETY: async-signal-safe.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: `default_signals` makes one call that may be made between fork and exec.
        unsafe { command.pre_exec(default_signals) };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let ready = path("ready");
    let mut ended = start("ended", &format!("touch {}; exec sleep 60", ready.display()));
    assert!(wait_until(Duration::from_secs(60), || ready.exists()));
    let begin = Instant::now();
    // SAFETY: sends a signal to a child of this test.
    unsafe { libc::kill(ended.id().cast_signed(), libc::SIGTERM) };
    assert_eq!(ended.wait().unwrap().code(), Some(143));
    assert!(begin.elapsed() < Duration::from_secs(50) && path("ended").join("result.json").exists());

    // What ignores one signal ends by three.
    let deaf = path("deaf-runs");
    let mut insisted = start("deaf", &format!("trap '' INT TERM; touch {}; sleep 60", deaf.display()));
    assert!(wait_until(Duration::from_secs(60), || deaf.exists()));
    let begin = Instant::now();
    // Two that come while it does not run are one.
    while insisted.try_wait().unwrap().is_none() && begin.elapsed() < Duration::from_secs(50) {
        // SAFETY: sends a signal to a child of this test that has not been waited for.
        unsafe { libc::kill(insisted.id().cast_signed(), libc::SIGINT) };
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(begin.elapsed() < Duration::from_secs(50) && path("deaf").join("result.json").exists());

    let (running, done) = (path("running"), path("done"));
    let mut killed = start("killed", &format!("touch {}; sleep 1; touch {}", running.display(), done.display()));
    assert!(wait_until(Duration::from_secs(60), || running.exists()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(wait_until(Duration::from_secs(60), || done.exists()), "the pipeline lives on");
}

#[test]
#[ignore = "needs root: make test"]
fn a_limit_of_file_sizes_costs_files_but_not_the_report() {
    let folder = tempfile::tempdir().unwrap();
    // In blocks of 512 bytes (dash) or 1 KiB (bash). The program is ended by the signal, as without pipeprof.
    let line = "ulimit -f 4; exec \"$0\" record -o out -- 'head -c 100000 /dev/zero > large; echo $? | wc -c'";
    let output = Command::new("sh").args(["-c", line]).arg(binary()).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).trim()), (Some(0), "4"), "{said}");
    assert!(said.contains("Recorded: head"), "{said}");
    assert!(said.contains("cannot write out/") && said.contains("`ulimit -f`"), "{said}");
    assert!(!folder.path().join("out").exists());
}

#[test]
#[ignore = "needs root: make test"]
fn a_process_that_outlives_the_stages_is_the_pipelines_own() {
    let folder = tempfile::tempdir().unwrap();
    let [busy, pid] = ["outlives", "pid"].map(|name| folder.path().join(name));
    copy_program(Path::new("/usr/bin/sha256sum"), &busy);
    // The stages end once it has computed for half a second.
    let line = format!(
        "(ulimit -t 20; exec {} /dev/zero >/dev/null 2>&1) & echo $! >{}; \
         until [ $(cut -d' ' -f14 /proc/$!/stat) -ge 50 ]; do sleep 0.1; done | cat",
        busy.display(),
        pid.display()
    );
    let outlived = record(&[&line]);
    // SAFETY: sends a signal to a process that the pipeline has started, and that only this ends.
    unsafe { libc::kill(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap(), libc::SIGKILL) };
    assert_eq!(outlived.output.status.code(), Some(0), "{}", outlived.stderr());
    assert!(outlived.recording.recorded.iter().any(|process| process.name == "outlives"), "{}", outlived.stderr());
    let others = &outlived.recording.others;
    assert!(!others.iter().any(|program| program.name == "outlives"), "{others:?}");
}

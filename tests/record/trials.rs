//! Runs with changes: `--try`.

use super::ALL;
use crate::common::{binary, pipeprof, programs};
use pipeprof::result::{Document, RefusalOutcome, TrialVerdict};
use std::process::{Command, Stdio};

/// Record `words` with trials, with `input` in a file as standard input.
fn tried(flags: &[&str], words: &[&str], input: &str) -> Document {
    let folder = tempfile::tempdir().unwrap();
    let (target, file) = (folder.path().join("recording"), folder.path().join("input"));
    std::fs::write(&file, input).unwrap();
    let mut command = pipeprof(&["record", "--runs", "7", "-o", target.to_str().unwrap()]);
    command.args(flags).arg("--").args(words).stdin(std::fs::File::open(&file).unwrap());
    let output = command.output().unwrap();
    let text = std::fs::read_to_string(target.join("result.json")).unwrap_or_else(|_| panic!("{output:?}"));
    serde_json::from_str(&text).unwrap()
}

#[test]
#[ignore = "needs root: make test"]
fn changes_with_a_known_effect_are_measured() {
    let own = programs();
    let own = own.to_str().unwrap();
    let writer = |sleep: &str| format!("stage1={own} stage write 4096 20 {sleep}");
    let [slower, faster] = ["12000", "1000"].map(writer);
    let words = [own, "stage", "write", "4096", "20", "4000", "|", own, "stage", "read", "65536", ALL];
    let recording = tried(&["--try", &slower, "--try", &faster], &words, "");
    let trials = recording.trials.as_ref().expect("trials");
    assert_eq!(trials.unchanged.seconds.len(), 7);
    let found: Vec<TrialVerdict> = trials.tried.iter().map(|trial| trial.verdict).collect();
    assert_eq!(found, [TrialVerdict::Slower, TrialVerdict::Faster], "{trials:#?}");
    let said = recording.sentences().join(" ");
    assert!(said.contains("makes it slower") && said.contains("makes it faster"), "{said}");
}

#[test]
#[ignore = "needs root and python3: make test"]
fn changes_are_applied_and_each_run_gets_the_input() {
    // The first stage exits with 1 unless its pipe holds 1 MiB, the second unless it reads all of the input.
    let size = "import fcntl, sys; print(sys.stdin.read()); sys.exit(fcntl.fcntl(1, 1032) != 1 << 20)";
    let words = ["python3", "-c", size, "|", "grep", "-q", "the input"];
    let recording =
        tried(&["--try", "pipe-size=1M", "--try", "stage2=grep -q other", "--try", "pin"], &words, "the input");
    assert_eq!(recording.exit_codes, [1, 0]);
    let [larger, other, pinned] = &recording.trials.as_ref().expect("trials").tried[..] else { panic!() };
    assert_eq!(larger.failed.as_deref(), Some("exit codes [0, 0] instead of [1, 0]"));
    assert_eq!(other.failed.as_deref(), Some("exit codes [1, 1] instead of [1, 0]"));
    assert_eq!((&pinned.failed, pinned.runs.seconds.len()), (&None, 7));
}

#[test]
#[ignore = "needs root: make test"]
fn a_line_for_the_shell_is_changed_and_what_the_path_suggests_is_tried() {
    let line = "for n in 1 2; do seq 20000; done | stdbuf -oL sed p | cat >/dev/null; sleep 0.05";
    let recording = tried(&["--advise", "--try", "program:sleep 0.05=sleep 0.3"], &[line], "");
    let trials = recording.trials.as_ref().expect("trials");
    let changes: Vec<&str> = trials.tried.iter().map(|trial| trial.change.as_str()).collect();
    assert_eq!(changes, ["program:sleep 0.05=sleep 0.3", "program:stdbuf -oL="], "{trials:#?}");
    assert!(trials.tried.iter().all(|trial| trial.failed.is_none() && trial.runs.seconds.len() == 7), "{trials:#?}");
    let said = recording.sentences().join(" ");
    assert!(
        said.contains("`sed` writes only 5 bytes per call: `stdbuf -oL` has it write each line at once."),
        "{said}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_pipeline_that_does_not_end_is_not_tried() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.arg("120").arg(binary()).args([
        "record",
        "--duration",
        "300ms",
        "--try",
        "pipe-size=1M",
        "-o",
        "out",
        "--",
    ]);
    let output = command.args(["yes", "|", "cat"]).stdout(Stdio::null()).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("Nothing could be tried: the pipeline has not ended by itself"), "{said}");
}

/// A copy by splice, which reads and writes if that fails, unless it has an argument.
const SPLICES: &str = "import os, sys
try:
    while os.splice(0, 1, 65536): pass
except OSError:
    if len(sys.argv) > 1: raise
    while part := os.read(0, 65536): os.write(1, part)";

#[test]
#[ignore = "needs root and python3: make test"]
fn who_falls_back_from_a_refused_call_is_told_from_who_fails() {
    let tried = |arguments: &[&str]| {
        let mut words = vec!["head", "-c", "1M", "/dev/zero", "|", "python3", "-c", SPLICES];
        words.extend(arguments);
        words.extend(["|", "cat"]);
        tried(&["--try", "no-splice=EPERM,no-vmsplice", "--try", "no-tee"], &words, "")
    };
    let recording = tried(&[]);
    let [splice, tee] = &recording.trials.as_ref().expect("trials").tried[..] else { panic!() };
    let [program] = &splice.refused.as_ref().expect("recorded")[..] else { panic!("{splice:#?}") };
    assert!(program.name.starts_with("python3") && program.outcome == RefusalOutcome::FellBack, "{program:#?}");
    // Each splice before; one that is refused, then reads and writes of all bytes.
    assert_eq!((program.before["splice"].bytes, program.refused["splice"]), (1 << 20, 1), "{program:#?}");
    assert!(!program.after.contains_key("splice") && program.after["write"].bytes >= 1 << 20, "{program:#?}");
    assert_eq!((splice.failed.as_ref(), splice.runs.seconds.len()), (None, 7));
    assert_eq!(tee.refused.as_deref(), Some(&[][..]));
    let said = recording.sentences().join(" ");
    assert!(said.contains("fell back from `splice` to `read` (") && said.contains("No program called `tee`"), "{said}");

    let recording = tried(&["strict"]);
    let [splice, tee] = &recording.trials.as_ref().expect("trials").tried[..] else { panic!() };
    let [program] = &splice.refused.as_ref().expect("recorded")[..] else { panic!("{splice:#?}") };
    assert_eq!((program.outcome, program.exit_code), (RefusalOutcome::Failed, Some(1)), "{program:#?}");
    assert_eq!((splice.verdict, tee.failed.as_ref()), (TrialVerdict::Failed, None));
    let said = recording.sentences().join(" ");
    assert!(said.contains("does not fall back from `splice`: it ended with exit code 1 ("), "{said}");
}

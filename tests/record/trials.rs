//! Runs with changes: `--try`.

use super::ALL;
use crate::common::{binary, pipeprof, programs};
use pipeprof::result::{Document, TrialVerdict};
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

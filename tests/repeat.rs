//! `pipeprof repeat`: a stored result is measured again, as it was or with changes.

use crate::common::{pipeprof, program};
use pipeprof::result::{Document, Measurement};
use std::path::Path;
use std::process::{Output, Stdio};

/// Run pipeprof with these words, and `-o` with this folder in `top`.
fn into(top: &Path, name: &str, words: &[&str]) -> (Output, Document) {
    let folder = top.join(name);
    let mut command = pipeprof(&[words[0]]);
    let rest = if words[0] == "repeat" {
        command.arg(top.join(words[1]));
        &words[2..]
    } else {
        &words[1..]
    };
    let output = command.arg("-o").arg(&folder).args(rest).stdin(Stdio::null()).output().unwrap();
    let text = std::fs::read_to_string(folder.join("result.json"));
    let said = String::from_utf8_lossy(&output.stderr);
    let text = text.unwrap_or_else(|error| panic!("{words:?}: {error}: {said}"));
    (output, serde_json::from_str(&text).unwrap())
}

fn refused(words: &[&str], says: &str) {
    let output = pipeprof(words).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains(says), "{words:?}: {said}");
}

#[test]
fn a_run_is_repeated_as_it_was_or_with_changes() {
    let top = tempfile::tempdir().unwrap();
    let asked = "run --mode vmsplice --buffer-size 64K --bytes 16M --warmup 0 --runs 2 --collect none --pin none";
    let words: Vec<&str> = asked.split(' ').collect();
    let (_, first) = into(top.path(), "r1", &words);
    let (output, again) = into(top.path(), "r2", &["repeat", "r1"]);
    assert_eq!((&again.request, &again.target), (&first.request, &first.target));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("stored") && said.contains("now"), "{said}");
    let output = pipeprof(&["repeat", top.path().join("r1").to_str().unwrap(), "--json", "-o"])
        .arg(top.path().join("r4"))
        .output()
        .unwrap();
    assert!(serde_json::from_slice::<Document>(&output.stdout).is_ok(), "only the document");
    // What is not given stays.
    let (_, changed) = into(top.path(), "r3", &["repeat", "r1", "--mode", "write", "--runs", "3"]);
    let Some(Measurement::Pair(mut request)) = first.request else { panic!("a run") };
    (request.workload.mode, request.runs) = (Some("write".to_owned()), Some(3));
    assert_eq!(changed.request, Some(Measurement::Pair(request)));
    assert_eq!(changed.target.workload().unwrap().buffer_size, 64 << 10);
    let r1 = top.path().join("r1");
    let r1 = r1.to_str().unwrap();
    refused(&["repeat", r1, "--stage", "1=x"], "--stage");
    refused(&["repeat", r1, "--cpus", "2"], "--cpus requires a guest");
    // A profile of another tool was not asked for.
    std::fs::write(top.path().join("stacks"), "a;vfs_write 3\n").unwrap();
    let imported = top.path().join("imported");
    let made = pipeprof(&["attribute", top.path().join("stacks").to_str().unwrap(), "-o"]).arg(&imported).output();
    assert!(made.unwrap().status.success());
    refused(&["repeat", imported.to_str().unwrap()], "nothing to repeat");
}

#[test]
#[ignore = "needs root: make test"]
fn recordings_are_repeated_with_another_stage_or_of_the_same_processes() {
    let top = tempfile::tempdir().unwrap();
    let (_, first) = into(top.path(), "p1", &["record", "--", "seq 1000 | wc -l"]);
    let (output, again) = into(top.path(), "p2", &["repeat", "p1"]);
    assert_eq!((again.request, &output.stdout[..]), (first.request, &b"1000\n"[..]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("repeating pipeprof record -- 'seq 1000 | wc -l'"), "{said}");
    let (output, changed) = into(top.path(), "p3", &["repeat", "p1", "--stage", "1=seq 2000"]);
    assert_eq!((&output.stdout[..], changed.target.stages()[0].join(" ")), (&b"2000\n"[..], "seq 2000".to_owned()));
    // Another pipeline, with the other settings of the stored one; its exit code is the command's.
    let (output, other) = into(top.path(), "p4", &["repeat", "p1", "--level", "sched", "--", "cat", "|", "false"]);
    assert_eq!((output.status.code(), other.target.stages().len()), (Some(1), 2));
    refused(&["repeat", top.path().join("p1").to_str().unwrap(), "--stage", "7=x"], "has 2 stages");

    let mut running = program(&["stage", "write", "4096", "18446744073709551615", "2000"]);
    let mut running = running.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let pid = running.id().to_string();
    let (_, first) = into(top.path(), "a1", &["record", "-p", &pid, "--duration", "50ms"]);
    let (_, again) = into(top.path(), "a2", &["repeat", "a1"]);
    assert_eq!((again.request, again.target.pids()), (first.request, &[running.id()][..]));
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
#[ignore = "boots guests: make test"]
fn counts_are_repeated_to_the_digit() {
    let top = tempfile::tempdir().unwrap();
    let guest = ["--kernel", "6.12", "--boot-limit", "600", "--collect", "insn"];
    let (_, first) = into(top.path(), "r1", &[&["run"], &guest[..], &["--calls", "100", "--runs", "2"]].concat());
    let (output, again) = into(top.path(), "r2", &["repeat", "r1"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("same"), "{said}");
    assert_eq!((again.ensemble, again.request), (first.ensemble, first.request));
    let (_, first) = into(
        top.path(),
        "p1",
        &[&["record"], &guest[..], &["--runs", "1", "--", "seq", "100", "|", "wc", "-l"]].concat(),
    );
    let (output, again) = into(top.path(), "p2", &["repeat", "p1"]);
    assert_eq!((again.ensemble, &output.stdout[..]), (first.ensemble, &b"100\n"[..]));
}

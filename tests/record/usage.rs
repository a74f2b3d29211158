//! Commands that are refused.

use crate::common::pipeprof;
use pipeprof::result::Document;
use std::process::Stdio;

#[test]
fn a_recording_without_instructions_has_no_code() {
    let folder = tempfile::tempdir().unwrap();
    let recording = Document { schema: "pipeprof.result/1".to_owned(), ..Document::default() };
    std::fs::write(folder.path().join("result.json"), serde_json::to_string(&recording).unwrap()).unwrap();
    let output = pipeprof(&["annotate", folder.path().to_str().unwrap(), "pipe_write"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("record with --kernel and --collect insn"), "{said}");
}

#[test]
fn recordings_are_compared_with_recordings_only() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("result.json"), text).unwrap();
        path.display().to_string()
    };
    let whole = serde_json::to_string(&Document { schema: "pipeprof.result/1".to_owned(), ..Document::default() });
    let [whole, old, broken] =
        [("whole", whole.unwrap().as_str()), ("old", r#"{"schema": "pipeprof.result/0"}"#), ("broken", "{")]
            .map(|(name, text)| write(name, text));
    for (runs, code, expected) in [
        (vec![&whole, &old], 1, "run again with this pipeprof"),
        (vec![&whole, &broken], 1, "truncated"),
        (vec![&whole, &format!("{}/flamegraphs/6.1-write", env!("CARGO_MANIFEST_DIR"))], 2, "results of one kind"),
        (vec![&whole, &folder.path().join("other").display().to_string()], 1, "other: file does not exist"),
    ] {
        let output = pipeprof(&["compare"]).args(&runs).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(expected), "{runs:?}: {said}");
    }
}

#[test]
fn any_number_of_recordings_is_compared_with_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let stored = include_str!("../../fuzz/base/stages.json");
    // Each has two runs that were not recorded, which count. The last column is a folder of ten.
    let names: Vec<String> =
        ["a", "b"].map(str::to_owned).into_iter().chain((0..10).map(|at| format!("c/{at}"))).collect();
    for name in &names {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("result.json"), stored).unwrap();
    }
    let report = folder.path().join("report");
    let columns = ["a", "b", "c"].map(|name| folder.path().join(name));
    let output = pipeprof(&["compare", "-o"]).arg(&report).args(&columns).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for expected in ["needs about 8 more runs", "Pipes, before and after", "dd to cat (reads)"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(report.join("report.json")).unwrap()).unwrap();
    let steps = json["sections"][0]["steps"].as_array().unwrap();
    assert_eq!((json["method"].as_str(), steps.len()), (Some("recorded"), 3));
    assert_eq!(steps[1]["verdict"]["pairs"], serde_json::json!([2, 20]));
    assert!(report.join("report.html").exists() && report.join("report.md").exists());
}

#[test]
fn what_a_guest_cannot_do_is_a_usage_error() {
    let refused = |words: &[&str]| {
        let output = pipeprof(words).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (words, expected) in [
        (&["record", "--kernel", "6.12", "--try", "pin", "--", "cat", "|", "cat"][..], "leave out --kernel"),
        (&["record", "--kernel", "6.12", "-p", "1"], "leave out --kernel"),
        (&["record", "--file", "/etc/passwd", "--", "cat"], "--kernel"),
        (&["record", "--kernel", "6.12", "--file", "/no/such", "--", "cat"], "/no/such does not exist"),
        (&["record", "--disk", "/etc/passwd", "--", "cat"], "--kernel"),
        (&["record", "--memory", "2G", "--", "cat"], "--memory requires a guest"),
        (&["record", "--collect", "insn", "--", "cat"], "add --kernel"),
        (&["record", "--collect", "fgraph", "--probe", "all", "--", "cat"], "--probe requires --collect kprobe"),
        (&["record", "--collect", "sample", "--kernel", "6.12", "--", "cat"], "leave out --kernel"),
        (&["record", "--switches", "--kernel", "6.12", "--", "cat"], "--switches needs BPF programs"),
        (&["record", "--switches", "--observe", "proc", "--", "cat"], "--switches needs BPF programs"),
    ] {
        let (code, said) = refused(words);
        assert!(code == Some(2) && said.contains(expected), "{words:?}: {code:?}: {said}");
    }
}

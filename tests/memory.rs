//! `pipeprof memory` as users run it.

use std::process::{Command, Output};

fn memory(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pipeprof")).arg("memory").args(line.split_whitespace()).output().unwrap()
}

#[test]
fn the_table_and_the_document_agree_on_the_loops() {
    let json = memory("--json --runs 1 --read-size 1M");
    assert!(json.status.success(), "{}", String::from_utf8_lossy(&json.stderr));
    let report: pipeprof::reproduce::memory::Report = serde_json::from_slice(&json.stdout).unwrap();
    let text = memory("--runs 1 --read-size 1M --code");
    let text = String::from_utf8(text.stdout).unwrap();
    for measured in &report.loops {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(&measured.name)), "{}", measured.name);
        assert!(measured.code.is_empty() || text.contains(&measured.code.join("\n")), "{}", measured.name);
    }
    assert!(text.contains("rep movsb"));
    let movsb = report.loops.iter().find(|measured| measured.name == "rep-movsb").unwrap();
    assert!(movsb.inner.iter().any(|line| line.contains("rep movsb")), "{:?}", movsb.inner);
}

#[test]
fn usage_errors_are_one_line_that_names_the_flag() {
    for (line, flag) in [("--runs 0", "--runs"), ("--cpu 4095", "--cpu"), ("--read-size 7", "--read-size")] {
        let output = memory(line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
        assert!(text.contains(flag) && text.trim_end().lines().count() == 1, "{text}");
    }
}

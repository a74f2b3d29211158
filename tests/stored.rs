//! Documents that were stored by earlier versions: the committed gallery, and executed code without names of processes.

#![expect(clippy::expect_used, reason = "a test ends where it cannot go on")]

use pipeprof::document::code::{CODE_SCHEMA, ExecutedCode};
use pipeprof::profile::ProcessName;
use pipeprof::report::files;
use pipeprof::roles::RoleId;
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn gallery() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("flamegraphs");
    let entries = std::fs::read_dir(root).expect("the gallery").map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.join("run.json").exists()).collect();
    folders.sort();
    assert!(folders.len() >= 8, "{folders:?}");
    folders
}

fn pipeprof(arguments: &[&Path]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pipeprof")).args(arguments).output().expect("pipeprof");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Renamed fields: old and new name.
const RENAMED: [(&str, &str); 1] = [("skew", "skid")];

fn renamed(key: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new)
}

/// Whether `new` has all that is in `old`; new fields are allowed.
fn holds(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            old.iter().all(|(key, old)| new.get(renamed(key)).is_some_and(|new| holds(new, old)))
        }
        (Value::Array(new), Value::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| holds(new, old))
        }
        _ => new == old,
    }
}

#[test]
fn every_stored_run_is_read_and_written_again_as_it_was() {
    for folder in gallery() {
        let outcome = files::load(&folder).expect("a run");
        assert!(outcome.profiles.iter().any(|profile| profile.process == ProcessName::WRITER), "{}", folder.display());
        for process in [ProcessName::WRITER, ProcessName::READER] {
            assert!(outcome.document.processes.of(process).bytes > 0);
            assert!(!outcome.document.attribution.of(process).is_empty());
        }
        let old: Value =
            serde_json::from_slice(&std::fs::read(folder.join("run.json")).expect("a file")).expect("JSON");
        let new: Value = serde_json::from_str(&files::to_json(&outcome.document).expect("a document")).expect("JSON");
        assert!(holds(&new, &old), "{}: a field of the stored document is gone or differs", folder.display());
    }
}

#[test]
fn stored_runs_are_drawn_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let gallery = gallery();
    for run in &gallery {
        for process in ["both", "writer"] {
            let svg = folder.path().join("out.svg");
            pipeprof(&["flamegraph".as_ref(), run, "--process".as_ref(), process.as_ref(), "-o".as_ref(), &svg]);
            assert!(std::fs::read_to_string(&svg).expect("a picture").contains("pipe"), "{}", run.display());
        }
        let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix("6.1-") else { continue };
        let other = run.with_file_name(format!("7.2-{rest}"));
        let report = folder.path().join(&name);
        if name.ends_with("-exact") {
            let said = pipeprof(&["compare".as_ref(), run, &other, "-o".as_ref(), &report]);
            assert!(said.contains("calls of reader") && said.contains("instr/KiB"), "{said}");
        }
    }
}

#[test]
fn a_column_has_runs_of_one_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs: Vec<PathBuf> = gallery()
        .into_iter()
        .filter(|run| run.ends_with("6.1-write-exact") || run.ends_with("7.2-write-exact"))
        .collect();
    for run in &runs {
        std::os::unix::fs::symlink(run, folder.path().join(run.file_name().unwrap_or_default())).expect("a link");
    }
    let compared =
        Command::new(env!("CARGO_BIN_EXE_pipeprof")).arg("compare").arg(folder.path()).arg(&runs[0]).output();
    let compared = compared.expect("pipeprof");
    let said = String::from_utf8_lossy(&compared.stderr);
    assert!(!compared.status.success() && said.contains("contains runs of two kernels (Linux 6.1"), "{said}");
}

#[test]
fn executed_code_without_names_of_processes_is_that_of_a_pair() {
    let json = format!(
        r#"{{"schema":"{CODE_SCHEMA}","functions":[{{"name":"pipe_write","address":4096,"instructions":[
            {{"offset":0,"code":"90","counts":[5,2,1]}},{{"offset":1,"code":"f3a4","counts":[5,0,0],"iterations":[40,0,0]}}]}}]}}"#
    );
    let mut file = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    file.write_all(json.as_bytes()).expect("memory");
    let code = ExecutedCode::from_bytes(&file.finish().expect("memory")).expect("executed code");
    let function = &code.functions[0];
    assert_eq!(code.of(function.calls(), Some(ProcessName::READER)), 2);
    assert_eq!((code.of(function.calls(), None), code.of_target(function.calls())), (8, 7));
    assert_eq!(code.of(&function.instructions[1].iterations, Some(ProcessName::WRITER)), 40);
}

#[test]
fn an_unknown_role_is_an_error_that_names_the_role_and_the_file() {
    let stored = std::fs::read_to_string(gallery()[0].join("run.json")).expect("a file");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    let role = |name: &str| format!("\"role\": \"{name}\"");
    std::fs::write(&file, stored.replace(&role("user"), &role("users"))).expect("a file");
    let error = format!("{:#}", files::load(&file).expect_err("an error"));
    let start = format!("{}: unknown role \"users\" at line ", file.display());
    assert!(error.starts_with(&start) && error.ends_with("; update pipeprof, or run again"), "{error}");
    // The id for interrupts-off time in documents from before its attribution to the caller.
    std::fs::write(&file, stored.replace(&role("user"), &role("irq-off"))).expect("a file");
    assert!(files::load_document(&file).expect("a document").attribution.of_target().any(|s| s.role == RoleId::IrqOff));
}

//! The committed gallery: documents that another build stored.

use pipeprof::profile::ProcessName;
use pipeprof::report::files;
use pipeprof::result;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn gallery() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("flamegraphs");
    let entries = std::fs::read_dir(root).expect("the gallery").map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.join("result.json").exists()).collect();
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

/// Whether `new` has all that is in `old`; new fields are allowed.
fn holds(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            old.iter().all(|(key, old)| new.get(key).is_some_and(|new| holds(new, old)))
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
        let outcome = result::open(&folder).expect("a run");
        assert!(outcome.profiles.iter().any(|profile| profile.process == ProcessName::WRITER), "{}", folder.display());
        for process in [ProcessName::WRITER, ProcessName::READER] {
            assert!(outcome.document.processes.of(process).bytes > 0);
            assert!(!outcome.document.attribution.of(process).is_empty());
        }
        let old: Value =
            serde_json::from_slice(&std::fs::read(folder.join("result.json")).expect("a file")).expect("JSON");
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
fn an_unknown_role_is_an_error_that_names_the_role_and_the_file() {
    let stored = std::fs::read_to_string(gallery()[0].join("result.json")).expect("a file");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let role = |name: &str| format!("\"role\": \"{name}\"");
    std::fs::write(&file, stored.replace(&role("user"), &role("users"))).expect("a file");
    let error = format!("{:#}", result::open(&file).expect_err("an error"));
    let start = format!("{}: unknown role \"users\" at line ", file.display());
    assert!(error.starts_with(&start) && error.ends_with("; update pipeprof, or run again"), "{error}");
}

/// What pipeprof says and returns. It ends long before the limit, or never.
fn ended(arguments: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeprof"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("pipeprof");
    let begun = Instant::now();
    while child.try_wait().expect("a status").is_none() {
        if begun.elapsed() > Duration::from_secs(300) {
            child.kill().expect("a process");
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

/// What can be in the place of a file.
const IN_PLACE: [&str; 4] = ["a FIFO", "a device", "a directory", "a symbolic link"];

fn put_in_place(kind: &str, file: &Path, moved: &Path) {
    std::fs::rename(file, moved).expect("a file");
    let link = |to: &Path| std::os::unix::fs::symlink(to, file).expect("a link");
    match kind {
        "a FIFO" => {
            rustix::fs::mkfifoat(rustix::fs::CWD, file, rustix::fs::Mode::RWXU).expect("a FIFO");
        }
        // Devices are made by root only; a link to one leads there just as well.
        "a device" => link(Path::new("/dev/zero")),
        "a directory" => std::fs::create_dir(file).expect("a folder"),
        _ => link(moved),
    }
}

#[test]
fn whatever_is_in_the_place_of_a_stored_file_ends_every_reader() {
    let top = tempfile::tempdir().expect("a folder");
    let at = |name: &str| top.path().join(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = |from: &Path, to: &Path| {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("a folder") {
            let path = entry.expect("an entry").path();
            std::fs::copy(&path, to.join(path.file_name().unwrap_or_default())).expect("a copy");
        }
    };
    let (run, other, recording) = (at("run"), at("other"), at("recording"));
    copy(&root.join("flamegraphs/7.2-write-exact"), &run);
    copy(&root.join("flamegraphs/6.1-write-exact"), &other);
    std::fs::create_dir(&recording).expect("a folder");
    let stored = std::fs::read(root.join("fuzz/base/stages.json")).expect("a recording");
    let mut document: Value = serde_json::from_slice(&stored).expect("JSON");
    document["files"] = vec!["off-cpu.folded"].into();
    std::fs::write(recording.join("result.json"), document.to_string()).expect("a file");
    std::fs::write(recording.join("off-cpu.folded"), "dd;read 5\n").expect("a file");
    let (comparison, report) = (at("comparison"), at("out"));
    pipeprof(&["compare".as_ref(), &other, &run, "-o".as_ref(), &comparison]);
    let words = |text: &'static str| text.split(' ').map(Path::new).collect::<Vec<_>>();
    let sweep = at("sweep");
    pipeprof(&[words("sweep --mode write --buffer-size 4K,8K --duration 1ms --runs 1 -o"), vec![&sweep]].concat());
    // Each form with what reads it, and the file that every reader needs.
    let forms: [(&Path, &str, Vec<Vec<&Path>>); 4] = [
        (
            &run,
            "result.json",
            vec![
                [words("export --to csv -o"), vec![&report, &run]].concat(),
                [words("flamegraph -o"), vec![&report, &run]].concat(),
                vec!["compare".as_ref(), &other, &run],
                vec!["annotate".as_ref(), &run, "pipe_write".as_ref()],
                [words("check --kernel 6.1 --baseline"), vec![&run]].concat(),
            ],
        ),
        (
            &recording,
            "result.json",
            vec![
                [words("export --to csv -o"), vec![&report, &recording]].concat(),
                [words("flamegraph --process off-cpu -o"), vec![&report, &recording]].concat(),
                vec!["compare".as_ref(), &recording, &recording],
            ],
        ),
        (&comparison, "report.json", vec![[words("export --to csv -o"), vec![&report, &comparison]].concat()]),
        (&sweep, "sweep.json", vec![[words("export --to csv -o"), vec![&report, &sweep]].concat()]),
    ];
    for (folder, document, readers) in &forms {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let files: Vec<PathBuf> = entries.filter(|path| path.is_file() && !path.ends_with("matrix.json")).collect();
        for file in files.iter().filter(|file| file.extension().is_none_or(|ending| ending != "svg")) {
            for kind in IN_PLACE {
                let moved = at("moved");
                put_in_place(kind, file, &moved);
                for reader in readers {
                    let output = ended(reader);
                    let said = String::from_utf8_lossy(&output.stderr);
                    if file.ends_with(document) {
                        let expected = if kind == "a device" { "a symbolic link" } else { kind };
                        assert!(!output.status.success() && said.contains(expected), "{kind} {reader:?}: {said}");
                    }
                    let _ = std::fs::remove_dir_all(&report).or_else(|_| std::fs::remove_file(&report));
                }
                std::fs::remove_file(file).or_else(|_| std::fs::remove_dir(file)).expect("what was put there");
                std::fs::rename(&moved, file).expect("a file");
            }
        }
    }
}

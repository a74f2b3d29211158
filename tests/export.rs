//! `pipeprof export` on a committed run.

use crate::common::{listing, pipeprof};
use std::path::{Path, PathBuf};
use std::process::Output;

/// A run of the committed gallery.
fn gallery(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("flamegraphs").join(name)
}

/// `pipeprof export INPUT --to FORMAT`, with `-o OUTPUT` if given.
fn export(input: &Path, format: &str, output: Option<&Path>) -> Output {
    let mut command = pipeprof(&["export", "--to", format]);
    command.arg(input);
    if let Some(output) = output {
        command.arg("-o").arg(output);
    }
    command.output().unwrap()
}

fn error(output: &Output) -> String {
    assert!(!output.status.success() && output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn files_are_written_where_asked_or_next_to_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = gallery("6.1-write-exact");
    for name in listing(&run) {
        std::fs::copy(run.join(&name), folder.path().join(&name)).unwrap();
    }
    let before = listing(folder.path());
    let output = export(folder.path(), "pprof", None);
    assert!(output.status.success(), "{output:?}");
    let written = folder.path().join("profile.pb.gz");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), written.display().to_string());
    assert_eq!(listing(folder.path()).len(), before.len() + 1);
    let bytes = std::fs::read(&written).unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b], "gzip");

    let named = folder.path().join("x.gz");
    assert!(export(&folder.path().join("result.json"), "pprof", Some(&named)).status.success());
    assert_eq!(std::fs::read(&named).unwrap(), bytes);
    assert_eq!(export(folder.path(), "pprof", Some(Path::new("-"))).stdout, bytes);
}

#[test]
fn errors_name_the_input_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let text = error(&export(&missing, "pprof", None));
    assert!(text.contains("missing") && text.contains("does not exist"), "{text}");
    let text = error(&export(&gallery("6.1-write"), "svg", None));
    assert!(text.contains("--to") && text.contains("pprof"), "{text}");
    let text = error(&export(&gallery("6.1-write"), "pprof", Some(Path::new("/nonexistent/x"))));
    assert!(text.contains("/nonexistent/x") && text.contains("-o"), "{text}");

    let document = std::fs::read_to_string(gallery("6.1-write").join("result.json")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&document).unwrap();
    document["files"] = serde_json::json!([]);
    std::fs::write(folder.path().join("result.json"), document.to_string()).unwrap();
    let text = error(&export(folder.path(), "pprof", None));
    assert!(text.contains("contains no stacks") && text.contains("--collect"), "{text}");
    let text = error(&export(folder.path(), "perfetto", None));
    assert!(text.contains("nothing over time, and no stacks") && text.contains("--collect"), "{text}");
}

#[test]
fn every_format_is_written_from_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = gallery("7.2-write-exact");
    for (format, name) in [
        ("pprof", "profile.pb.gz"),
        ("firefox", "firefox.json.gz"),
        ("speedscope", "speedscope.json"),
        ("perf-script", "perf-script.txt"),
    ] {
        let output = export(&run, format, Some(&folder.path().join(name)));
        assert!(output.status.success(), "{format}: {output:?}");
    }
    let tables = folder.path().join("tables");
    assert!(export(&run, "csv", Some(&tables)).status.success());
    assert_eq!(listing(&tables), ["functions.csv", "roles.csv", "runs.csv", "stack_functions.csv"]);
    let text = error(&export(&run, "csv", Some(Path::new("-"))));
    assert!(text.contains("-o -") && text.contains("roles.csv") && text.contains("folder"), "{text}");
}

#[test]
fn a_run_writes_formats_into_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let quick = "run --mode write --collect none --runs 1 --bytes 4M --warmup 1M --export csv -o out";
    let mut command = pipeprof(&quick.split(' ').collect::<Vec<_>>());
    let output = command.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let names = listing(&folder.path().join("out"));
    assert!(names.contains(&"runs.csv".to_owned()), "{names:?}");

    // One table can go to standard output.
    let table = folder.path().join("out/runs.csv");
    let printed = export(&folder.path().join("out"), "csv", Some(Path::new("-")));
    assert!(printed.status.success() && printed.stdout == std::fs::read(table).unwrap(), "{printed:?}");

    // Without stacks, the results are kept.
    let lacking = quick.replace("csv -o out", "pprof -o other");
    let mut command = pipeprof(&lacking.split(' ').collect::<Vec<_>>());
    let output = command.current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("--export pprof") && text.contains("no stacks"), "{text}");
    assert!(listing(&folder.path().join("other")).contains(&"result.json".to_owned()));
}

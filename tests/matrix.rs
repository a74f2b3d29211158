//! Campaigns of real cells: killed and resumed, in chunks or at once, the results are the same bytes.

use crate::common::{kernel, pipeprof};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Roles whose instructions depend on how often processes sleep.
const SCHEDULING: [&str; 8] = ["scheduler", "wake-up", "psi", "wait", "idle", "timer", "irq", "softirq"];

/// Short runs, with long limits: other tests may be using the machine.
const SPEC: &str = r#"
kernel = ["6.1", "6.12"]
mode = ["vmsplice", "write"]
cpus = 1
run-flags = "--calls 20 --runs 2 --warmup 1M --boot-limit 900 --time-limit 3000"
"#;

fn run(arguments: &[&str], folder: &Path) -> Output {
    pipeprof(arguments).current_dir(folder).output().unwrap()
}

fn good(arguments: &[&str], folder: &Path) -> String {
    let output = run(arguments, folder);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A list of four cells, in a folder of its own.
fn planned(canary: &str) -> tempfile::TempDir {
    for series in ["6.1", "6.12"] {
        kernel(series);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spec.toml"), SPEC).unwrap();
    good(&["matrix", "plan", "spec.toml", "--canary", canary], folder.path());
    folder
}

/// All files below `folder`, with their bytes.
fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(folder).unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
#[ignore = "boots guests: make test"]
fn killed_chunks_and_one_run_give_the_same_bytes() {
    let folder = planned("25%");
    let top = folder.path();
    // The first chunk is killed when its first cell is done. No other start says that it removes what is left of it.
    let chunk = ["matrix", "run", "cells.jsonl", "--chunk", "1/2", "--store", "one"];
    let mut child = pipeprof(&chunk).current_dir(top).env("TMPDIR", top).stderr(Stdio::null()).spawn().unwrap();
    let done = || {
        let visible = |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
        std::fs::read_dir(top.join("one/cells")).map_or(0, |found| found.flatten().filter(visible).count())
    };
    while done() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let first = bytes(&top.join("one/cells"));
    good(&chunk, top);
    assert!(first.iter().all(|(name, bytes)| {
        name.to_string_lossy().starts_with('.') || std::fs::read(top.join("one/cells").join(name)).unwrap() == *bytes
    }));
    assert_eq!(done(), 2);
    // The second chunk, and the canary of the first.
    good(&["matrix", "run", "cells.jsonl", "--chunk", "2/2", "--store", "two"], top);
    let merged = good(&["matrix", "merge", "one", "two", "-o", "chunks"], top);
    assert!(merged.starts_with("4 of 4 cells are done"), "{merged}");
    assert!(merged.contains("1 cell ran twice, with equal results"), "{merged}");
    assert!(merged.contains("vmsplice, 6.1 -> 6.12") && top.join("chunks/report.html").exists(), "{merged}");
    // The same as a series of kernels.
    let answer = good(&["history", "chunks", "-o", "series.html"], top);
    assert!(answer.contains("write, 1 CPU: ") && answer.contains("page allocation +"), "{answer}");
    let page = std::fs::read_to_string(top.join("series.html")).unwrap().replace("&#x2f;", "/");
    assert!(page.contains("series-steps/6.1--6.12.html") && top.join("series-steps/6.1--6.12.html").exists());
    let rows = std::fs::read_to_string(top.join("series.csv")).unwrap();
    let value = |kernel: &str, role: &str| -> f64 {
        let row = rows
            .lines()
            .find(|row| row.starts_with(&format!("write,1,,{kernel},")) && row.contains(&format!(",{role},")));
        row.unwrap().split(',').nth(6).unwrap().parse().unwrap()
    };
    // What its tables say is what the comparison's say.
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(top.join("chunks/report.json")).unwrap()).unwrap();
    let section = report["sections"].as_array().unwrap().iter().find(|section| section["mode"] == "write").unwrap();
    let role = section["steps"][0]["roles"].as_array().unwrap().iter().find(|row| row["role"] == "page-alloc").unwrap();
    for (kernel, when) in [("6.1", "before"), ("6.12", "after")] {
        assert!((value(kernel, "page-alloc") - role[when].as_f64().unwrap()).abs() < 1e-3, "{role} {rows}");
    }
    // A kernel of the series is no change; an older one took less, which only who asks for it is told.
    let check = |kernel: &str, flags: &[&str]| {
        let long = ["--run-flags", "--boot-limit 900 --time-limit 3000"];
        let arguments = [&["check", "--kernel", kernel, "--history", "chunks"][..], &long, flags].concat();
        let output = run(&arguments, top);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = check("6.12", &[]);
    assert!(code == Some(0) && said.starts_with("no difference"), "{said}");
    let (code, said) = check("6.1", &["--fail-below", "2%"]);
    assert!(code == Some(1) && said.starts_with("improvement") && said.contains("on 6.12 ("), "{said}");
    // At once, two at a time.
    good(&["matrix", "run", "cells.jsonl", "--store", "all", "--jobs", "2"], top);
    let (chunks, all) = (bytes(&top.join("chunks/cells")), bytes(&top.join("all/cells")));
    assert_eq!(chunks.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
    assert!(chunks.len() > 4 * 5);
    for (name, bytes) in &all {
        assert!(chunks[name] == *bytes, "{} differs", name.display());
    }
    // Every cell is kept: nothing runs again, and a result that differs is found.
    assert!(good(&["matrix", "run", "cells.jsonl", "--store", "all"], top).is_empty());
    let changed = top.join("all/cells").join(all.keys().find(|name| name.ends_with("writer.folded")).unwrap());
    std::fs::write(&changed, "changed 1\n").unwrap();
    let output = run(&["matrix", "merge", "chunks", "all", "-o", "both"], top);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("run the cell again: writer.folded was changed"), "{said}");
    let output = run(&["matrix", "run", "cells.jsonl", "--store", "all"], top);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("was changed"), "{output:?}");
    // As if it had been the result.
    let digest = Command::new("sha256sum").arg(&changed).output().unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let cell = changed.with_file_name("cell.json");
    let mut stored: serde_json::Value = serde_json::from_slice(&std::fs::read(&cell).unwrap()).unwrap();
    stored["files"]["writer.folded"] = digest.split(' ').next().unwrap().into();
    std::fs::write(&cell, stored.to_string()).unwrap();
    let output = run(&["matrix", "merge", "chunks", "all", "-o", "both"], top);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && said.contains("differ in writer.folded"), "{said}");
}

#[test]
#[ignore = "boots guests: make test"]
fn a_cell_that_fails_leaves_its_reason_and_runs_again() {
    let folder = planned("0%");
    let top = folder.path();
    // A cache without kernels, as on a node to which nobody has copied them.
    let cache = top.join("cache");
    let list = std::fs::read_to_string(top.join("cells.jsonl")).unwrap();
    let moved: String = list.lines().map(|line| without_image(line) + "\n").collect();
    std::fs::write(top.join("moved.jsonl"), moved).unwrap();
    let on_node =
        |arguments: &[&str]| pipeprof(arguments).current_dir(top).env("PIPEPROF_CACHE", &cache).output().unwrap();
    let failing = on_node(&["matrix", "run", "moved.jsonl", "--cell", "1", "--store", "store"]);
    assert_eq!(failing.status.code(), Some(1));
    let failed: Vec<PathBuf> =
        std::fs::read_dir(top.join("store/failed")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let reason = std::fs::read_to_string(&failed[0]).unwrap();
    assert!(failed.len() == 1 && reason.contains("pipeprof kernel bundle"), "{reason}");
    let merged = run(&["matrix", "merge", "store", "-o", "merged"], top);
    let said = String::from_utf8_lossy(&merged.stdout).into_owned();
    assert!(said.starts_with("0 of 4 cells are done") && said.contains("Failed (1)"), "{said}");
    assert!(said.contains("Missing (3)") && merged.status.code() == Some(1), "{said}");
    // With the kernels, it succeeds, and the failure is gone.
    good(&["kernel", "bundle", "6.1", "6.12", "-o", "kernels.tar"], top);
    let added = on_node(&["kernel", "add", "kernels.tar"]);
    assert_eq!(String::from_utf8_lossy(&added.stdout).lines().count(), 2, "{added:?}");
    let repeated = on_node(&["matrix", "run", "moved.jsonl", "--cell", "1", "--store", "store"]);
    assert!(repeated.status.success(), "{}", String::from_utf8_lossy(&repeated.stderr));
    assert!(!failed[0].exists());
}

/// The cell as another machine sees it: where the list was planned is not there.
fn without_image(line: &str) -> String {
    let mut cell: serde_json::Value = serde_json::from_str(line).unwrap();
    cell["kernel"]["image"] = "/nonexistent".into();
    cell.to_string()
}

#[test]
fn faults_of_lists_and_flags_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    std::fs::write(top.join("empty.jsonl"), "").unwrap();
    for (text, says) in [
        ("kernal = [\"6.1\"]", "unknown axis 'kernal'; known: kernel,"),
        ("kernel = [", "line 1"),
        ("kernel = [1.5]", "kernel: give texts"),
        ("mode = [\"write\", \"write\"]", "--mode write is given twice"),
        ("mode = \"write\"", "give kernels"),
    ] {
        std::fs::write(top.join("spec.toml"), text).unwrap();
        let output = run(&["matrix", "plan", "spec.toml"], top);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says) && said.lines().count() == 1, "{text}: {said}");
    }
    for (arguments, says) in [
        (&["matrix", "plan", "spec.toml", "--mode", "write"][..], "not both"),
        (&["matrix", "plan", "spec.toml", "--run-flags", "--calls 1"], "not both"),
        (&["matrix", "run", "empty.jsonl"], "contains no cells"),
        (&["matrix", "run", "none.jsonl"], "none.jsonl"),
        (&["matrix", "merge", "nothing", "-o", "out"], "nothing is not a store"),
    ] {
        let output = run(arguments, top);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn recordings_are_cells_and_lines_of_a_history() {
    for series in ["6.1", "6.12"] {
        kernel(series);
    }
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    std::fs::write(top.join("data"), vec![b'x'; 1 << 20]).unwrap();
    let line = "dd if=data bs=4k | cat | wc -c";
    let spec = format!(
        "kernel = [\"6.1\", \"6.12\"]\ncpus = 1\npipeline = \"{line}\"\nfile = \"data\"\n\
         run-flags = \"--runs 2 --boot-limit 900 --time-limit 3000\""
    );
    std::fs::write(top.join("spec.toml"), spec).unwrap();
    good(&["matrix", "plan", "spec.toml", "--canary", "50%"], top);
    good(&["matrix", "run", "cells.jsonl", "--chunk", "1/2"], top);
    good(&["matrix", "run", "cells.jsonl", "--chunk", "2/2"], top);
    let merged = good(&["matrix", "merge", "store", "-o", "merged"], top);
    assert!(merged.starts_with("2 of 2 cells are done"), "{merged}");
    assert!(merged.contains("1 cell ran twice, with equal results"), "{merged}");
    assert!(merged.contains(&format!("{line}, 6.1 -> 6.12: ")), "{merged}");
    let page = std::fs::read_to_string(top.join("merged/report.md")).unwrap();
    assert!(page.contains("stage1-dd") && page.contains("stage3-wc"), "{page}");
    let answer = good(&["history", "merged", "-o", "series.html"], top);
    assert!(answer.contains(&format!("{line}, 1 CPU: ")) && answer.contains("the kernel in all stages"), "{answer}");
    // Per KiB through both pipes: the sum of all stages' roles without user code.
    let id = std::fs::read_dir(top.join("merged/cells")).unwrap().next().unwrap().unwrap().path();
    let load = |path: PathBuf| -> serde_json::Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let recording = load(id.join("result.json"));
    let stages = recording["attribution"]["processes"].as_object().unwrap();
    let roles = || stages.values().flat_map(|roles| roles.as_array().unwrap());
    let per_kib = |counts: &dyn Fn(&str) -> bool| -> f64 {
        let counted = roles().filter(|role| counts(role["role"].as_str().unwrap()));
        counted.map(|role| role["weight"].as_f64().unwrap()).sum::<f64>() / 2048.0
    };
    let release = recording["kernel"]["release"].as_str().unwrap();
    let rows = std::fs::read_to_string(top.join("series.csv")).unwrap();
    let row = |role: &str| -> [f64; 3] {
        let row = rows.lines().find(|row| row.contains(&format!(",{release},{role},"))).unwrap();
        let numbers: Vec<f64> = row.split(',').skip(6).map(|number| number.parse().unwrap()).collect();
        [numbers[0], numbers[1], numbers[2]]
    };
    // The history shows all counted runs, and the recording one of them.
    let check = |row: [f64; 3], counted: f64| {
        let [value, least, greatest] = row.map(|number| (number * 1000.0).round());
        assert!((least..=greatest).contains(&value), "{row:?}");
        assert!((least - 1.0..=greatest + 1.0).contains(&(counted * 1000.0)), "{row:?} {counted}");
    };
    check(row("total"), per_kib(&|role| role != "user"));
    check(row("without-scheduling"), per_kib(&|role| role != "user" && !SCHEDULING.contains(&role)));
    // A pipeline that fails is a failed cell, and one that cannot run is no cell.
    let one = ["matrix", "plan", "--kernel", "6.12", "--cpus", "1", "-o", "one.jsonl", "--pipeline"];
    let limits = ["--run-flags", "--boot-limit 900 --time-limit 3000"];
    good(&[&one[..], &["cat nothing | wc -c"], &limits].concat(), top);
    let output = run(&["matrix", "run", "one.jsonl", "--store", "other"], top);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("[1, 0]") && said.contains("cat: nothing: No such"), "{said}");
    let output = run(&[&one[..], &["no-such-program | wc -c"]].concat(), top);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("there is no program no-such-program"), "{said}");
    // Other data give other counts, so they are not the cells of this list.
    std::fs::write(top.join("data"), vec![b'y'; 1 << 20]).unwrap();
    let output = run(&["matrix", "run", "cells.jsonl", "--cell", "1", "--store", "other"], top);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("not those with which the list was planned"), "{said}");
}

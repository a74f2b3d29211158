//! `pipeprof reproduce` and `pipeprof sweep` on this machine.

use std::path::Path;
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_pipeprof");

fn pipeprof(folder: &Path, line: &str) -> Output {
    Command::new(BINARY).args(line.split_whitespace()).current_dir(folder).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "takes over 5 seconds: make test"]
fn one_part_on_this_machine_gives_a_report_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let output = pipeprof(folder.path(), "reproduce memory --quick --kernel none -o out");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("memory") && said.contains("out/report.html"), "{said}");
    let out = folder.path().join("out");
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let (page, text, part) = (read("report.html"), read("report.md"), read("parts/memory.json"));
    for fact in ["A.memory.read", "B.memory.stos", "B.memory.movsb16"] {
        assert!(page.contains(&format!("id=\"{fact}\"")), "{fact}");
    }
    // Names of XML namespaces are URLs that nothing opens.
    let addresses = page.replace("http://www.w3.org/", "");
    for outside in ["http://", "https://", "<link", "src=\"//", "@import"] {
        assert!(!addresses.contains(outside), "the page needs nothing but itself, and has {outside}");
    }
    let picture = read("charts/memory.svg");
    assert!(picture.contains("median of") && picture.contains("This machine: "), "{picture}");
    assert!(text.contains("## Memory: the upper bounds") && text.contains("(charts/memory.svg)"));
    assert!(out.join("charts/memory.svg").exists());

    let again = pipeprof(folder.path(), "reproduce memory --quick --kernel none -o out --resume");
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(read("parts/memory.json"), part, "a finished part is kept as it is");

    let refused = pipeprof(folder.path(), "reproduce memory --quick --kernel none -o out");
    assert!(!refused.status.success() && stderr(&refused).contains("--resume"), "{}", stderr(&refused));
}

#[test]
#[ignore = "takes over 5 seconds: make test"]
fn a_sweep_measures_every_combination_and_says_which_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let line = "sweep --mode write,vmsplice --buffer-size 16K..64K --duration 20ms --runs 2 -o out --csv";
    let output = pipeprof(folder.path(), line);
    assert!(output.status.success(), "{}", stderr(&output));
    let csv = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.split(',').nth(2) == Some("2")), "{csv}");
    for file in ["sweep.json", "sweep.csv", "sweep.svg"] {
        assert!(folder.path().join("out").join(file).exists(), "{file}");
    }
    // A finished sweep has nothing left to measure; another one is not resumed, nor is its folder overwritten.
    let resumed = pipeprof(folder.path(), &format!("{line} --resume"));
    assert_eq!(String::from_utf8_lossy(&resumed.stdout), csv, "{}", stderr(&resumed));
    for (line, says) in [(line.to_owned(), "--resume"), (format!("{line} --seed 2 --resume"), "another seed")] {
        let refused = pipeprof(folder.path(), &line);
        assert!(!refused.status.success() && stderr(&refused).contains(says), "{}", stderr(&refused));
    }
    // vmsplice with two writers is a valid combination, and every kernel accepts a pipe of one byte; but a buffer of
    // one byte has no halves.
    let output = pipeprof(folder.path(), "sweep --mode write,vmsplice --buffer-size 1 --duration 20ms --runs 1 --json");
    assert!(output.status.success(), "{}", stderr(&output));
    let sweep: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(sweep["cells"][0]["median"].is_number(), "{sweep}");
    assert!(sweep["cells"][1]["reason"].is_string(), "{sweep}");
}

#[test]
fn a_sweep_ends_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let line = "sweep --buffer-size 16K,64K --duration 20ms --runs 1 --until 0.001% --max-time 1s --json";
    let output = pipeprof(folder.path(), line);
    assert!(output.status.success(), "{}", stderr(&output));
    let sweep: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sweep["ending"]["by"], "time", "{sweep}");
    assert!(stderr(&output).contains("time limit"), "{}", stderr(&output));
}

#[test]
fn a_sweep_that_measures_nothing_fails_and_its_fix_works() {
    let folder = tempfile::tempdir().unwrap();
    let one = "sweep --pairs 200 --duration 20ms --runs 1";
    let output = pipeprof(folder.path(), one);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(stderr(&output).contains("--pin none"), "{}", stderr(&output));
    let output = pipeprof(folder.path(), "sweep --pairs 1,4 --pin none --duration 20ms --runs 1 --csv");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3);
}

#[test]
fn bad_input_is_one_line_that_names_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("used")).unwrap();
    std::fs::write(folder.path().join("used/notes"), "x").unwrap();
    for (line, says) in [
        ("reproduce ladders", "ladders"),
        ("reproduce memory -o used", "used"),
        ("reproduce memory -o used --resume", "not the folder of an interrupted reproduction"),
        ("reproduce memory -o used/notes/x", "notes"),
        ("reproduce memory --kernel no-such-kernel -o new", "no-such-kernel"),
        ("reproduce memory --in-guest --kernel none -o new", "--in-guest"),
        ("sweep --buffer-size 8K..4K", "--buffer-size"),
        ("sweep --buffer-size 1..4K,x", "--buffer-size"),
        ("sweep --pairs 0", "--pairs"),
        ("sweep --pin 1", "--pin"),
        ("sweep --mode nothing", "nothing"),
        ("sweep --collect insn", "--kernel"),
        ("sweep --mode vmsplice --buffer-size 1", "buffer-size"),
        ("sweep --buffer-size 1..1T --pipe-size 1..1T --pairs 1..8", "combinations"),
    ] {
        let output = pipeprof(folder.path(), line);
        let error = stderr(&output);
        assert!(!output.status.success(), "{line} succeeded");
        assert!(error.contains(says), "{line}: {error}");
        assert!(!error.contains("panicked"), "{line}: {error}");
    }
    assert!(!folder.path().join("new").exists());
}

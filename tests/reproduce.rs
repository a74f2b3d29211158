//! `pipeprof reproduce` and `pipeprof sweep` on this machine.

use std::path::Path;
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_pipeprof");

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.args(line.split_whitespace()).current_dir(folder);
    command
}

fn pipeprof(folder: &Path, line: &str) -> Output {
    command(folder, line).output().unwrap()
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
    for (line, says) in [(line.to_owned(), "--resume"), (format!("{line} --seed 2 --resume"), "differs (seed)")] {
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
fn a_sweep_of_pipelines_times_each_and_says_which_fail() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |words: &[&str]| {
        let output = command(folder.path(), "sweep --runs 3 --json").args(words).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let pipeline = ["--pipeline", "head -c 1M /dev/zero | cat | wc -c"];
    let more = ["--pipe-size", "4K,64K", "--stage", "2=tr a b", "--stage", "2=sh -c 'exit 3'", "-o", "out"];
    let made = sweep(&[&pipeline[..], &more].concat());
    assert_eq!((&made["unit"], made["cells"].as_array().unwrap().len()), (&"s".into(), 4), "{made}");
    let axes: Vec<&str> = made["axes"].as_array().unwrap().iter().map(|axis| axis["name"].as_str().unwrap()).collect();
    assert_eq!(axes, ["pipeline", "stage2", "pipe-size"]);
    for cell in made["cells"].as_array().unwrap() {
        if cell["labels"]["stage2"] == "tr a b" {
            assert!(cell["runs"].as_array().unwrap().len() == 3 && cell["cpu_seconds"].is_number(), "{cell}");
        } else {
            assert!(cell["reason"].as_str().unwrap().contains("exit codes"), "{cell}");
        }
    }
    assert!(folder.path().join("out/sweep.csv").exists() && folder.path().join("out/plan.json").exists());
    // What the shell runs is one stage.
    let made =
        sweep(&["--pipeline", "(head -c 1M /dev/zero; true) | wc -c", "--pipeline", "head -c 1K /dev/zero | wc -c"]);
    assert!(made["cells"].as_array().unwrap().iter().all(|cell| cell["median"].is_number()), "{made}");
}

#[test]
#[ignore = "boots guests: make test"]
fn a_sweep_counts_pipelines_and_modes_on_kernels() {
    for series in ["6.1", "6.12"] {
        crate::common::kernel(series);
    }
    let folder = tempfile::tempdir().unwrap();
    let sweep = |words: &[&str]| {
        let limits = ["--run-flags", "--boot-limit 900 --time-limit 3000"];
        let output = command(folder.path(), "sweep --collect insn --json").args(words).args(limits).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let line = ["--pipeline", "head -c 2M /dev/zero | cat | wc -c", "--kernel", "6.12", "--pipe-size", "4K,64K"];
    let made = sweep(&line);
    assert_eq!(made, sweep(&line), "counts are the same every time");
    let number = |cell: usize, name: &str| made["cells"][cell][name].as_f64().unwrap();
    let sum = number(0, "user_minstr") + number(0, "kernel_minstr");
    assert!(made["unit"] == "million instructions" && (number(0, "median") - sum).abs() < 1e-9, "{made}");
    // A full pipe of 4K is waited for more often.
    assert!(number(0, "scheduling_minstr") > 1.2 * number(1, "scheduling_minstr"), "{made}");
    let made = sweep(&["--mode", "write", "--kernel", "6.1,6.12"]);
    assert!(made["cells"].as_array().unwrap().iter().all(|cell| cell["median"].as_f64().unwrap() > 400.0), "{made}");
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
        ("sweep --stage 2=cat", "--pipeline"),
        ("sweep --pipeline cat|wc --stage 0=cat", "--stage"),
        ("sweep --pipeline cat|wc --stage 3=cat", "stage3=cat: `cat | wc` has 2 stages"),
        ("sweep --pipeline cat|wc --stage 2=no-such-program", "no-such-program"),
        ("sweep --pipeline no-such-program|wc", "no-such-program"),
        ("sweep --pipeline cat|wc --buffer-size 4K", "--pipe-size"),
        ("sweep --pipeline cat|wc --mode write", "--mode"),
        ("sweep --pipeline cat|wc --kernel 6.12", "--collect insn"),
        ("sweep --pipeline (cat|wc) --pipe-size 4K,64K", "a shell makes the pipes of `(cat|wc)`"),
    ] {
        let output = pipeprof(folder.path(), line);
        let error = stderr(&output);
        assert!(!output.status.success(), "{line} succeeded");
        assert!(error.contains(says), "{line}: {error}");
        assert!(!error.contains("panicked"), "{line}: {error}");
    }
    assert!(!folder.path().join("new").exists());
    let used: Vec<_> = std::fs::read_dir(folder.path().join("used")).unwrap().map(Result::unwrap).collect();
    assert!(used.len() == 1 && used[0].file_name() == "notes", "{used:?}");
}

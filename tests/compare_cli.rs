//! `pipeprof compare` and `check` as users run them: stored runs, matrices on this machine, invalid input,
//! interruption.

use crate::compare::synthetic;
use pipeprof::report::files::Folder;
use pipeprof::result::Outcome;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn pipeprof() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeprof"));
    command.stdin(Stdio::null());
    command
}

fn store(folder: &Path, name: &str, mut outcome: Outcome) -> PathBuf {
    let path = folder.join(name);
    let target = Folder::prepare(Some(&path), "2026-01-01T00:00:00Z", "write").unwrap();
    target.write(&mut outcome).unwrap();
    path
}

fn run(command: &mut Command) -> (Output, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

/// The command fails with one line that contains all of `parts`.
fn refused(command: &mut Command, parts: &[&str]) {
    let (output, _, err) = run(command);
    assert!(!output.status.success(), "{err}");
    assert_eq!(err.trim_end().lines().count(), 1, "one line: {err}");
    for part in parts {
        assert!(err.contains(part), "'{part}' is not in: {err}");
    }
}

#[test]
fn stored_runs_give_tables_and_three_files() {
    let folder = tempfile::tempdir().unwrap();
    let stored = |name: &str, outcome| store(folder.path(), name, synthetic::in_windows(outcome));
    let (a, b) = (stored("a", synthetic::older()), stored("b", synthetic::newer()));
    let report = folder.path().join("report");
    // Give one run as a folder, the other as a file.
    let (output, out, err) = run(pipeprof().arg("compare").arg(&a).arg(b.join("result.json")).arg("-o").arg(&report));
    assert!(output.status.success(), "{err}");
    assert!(
        out.starts_with("write, 6.12.9 -> 7.2.1: more instructions per KiB without scheduling, +"),
        "the answer comes first: {out}"
    );
    for name in ["report.html", "report.md", "report.json"] {
        assert!(report.join(name).is_file(), "{name}");
    }
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(report.join("report.json")).unwrap()).unwrap();
    assert_eq!(json["schema"], "pipeprof.compare/3");
    let (_, out, _) = run(pipeprof().arg("compare").arg("--json").args([&a, &b]));
    let printed: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(printed["sections"], json["sections"], "stdout holds the same document and nothing else");
}

#[test]
fn bad_input_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let a = store(folder.path(), "a", synthetic::older());
    let b = store(folder.path(), "b", synthetic::newer());
    let compare = |paths: &[&Path]| {
        let mut command = pipeprof();
        command.arg("compare").args(paths);
        command
    };
    refused(&mut compare(&[]), &["--kernel", "--append"]);
    refused(&mut compare(&[&a]), &["two"]);
    refused(&mut compare(&[&a, &folder.path().join("nowhere")]), &["nowhere"]);
    // A model without a weight.
    let model = folder.path().join("mine.toml");
    std::fs::write(&model, "name = \"mine\"\n[weights.other]\ncycles = 1\nkind = \"guess\"\nsource = \"mine\"\n")
        .unwrap();
    refused(
        compare(&[&a, &b]).arg("--cycle-model").arg(&model),
        &["--cycle-model", "mine.toml", "'locked' is missing"],
    );
    // Another schema, a truncated file, a missing folded file.
    let newer = store(folder.path(), "newer", synthetic::newer());
    let file = newer.join("result.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("pipeprof.result/1", "pipeprof.result/99")).unwrap();
    refused(&mut compare(&[&a, &newer]), &["newer", "pipeprof.result/99"]);
    std::fs::write(&file, &text[..text.len() / 3]).unwrap();
    refused(&mut compare(&[&a, &newer]), &["newer/result.json"]);
    std::fs::write(&file, &text).unwrap();
    std::fs::remove_file(newer.join("writer.folded")).unwrap();
    refused(&mut compare(&[&a, &newer]), &["writer.folded"]);
    // Another mode.
    let mut other = synthetic::newer();
    other.document.mode = "vmsplice".into();
    let other = store(folder.path(), "other", other);
    refused(&mut compare(&[&a, &other]), &["write", "vmsplice"]);
    // A report folder that is not empty stays unchanged.
    let used = folder.path().join("used");
    std::fs::create_dir(&used).unwrap();
    std::fs::write(used.join("mine"), "mine").unwrap();
    refused(compare(&[&a, &b]).arg("-o").arg(&used), &["used", "-o"]);
    assert_eq!(std::fs::read_dir(&used).unwrap().count(), 1);
    refused(pipeprof().args(["compare", "--variant", "", "--variant", "--no-such-flag"]), &["--no-such-flag"]);
    refused(pipeprof().args(["compare", "--variant", "", "--variant", "'open"]), &["--variant", "quote"]);
    refused(
        pipeprof().args(["compare", "--mode", "write", "--mode", "write", "--kernel", "a", "--kernel", "b"]),
        &["twice"],
    );
}

/// A run of the committed gallery. It has `--cpus 2`.
fn gallery(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("flamegraphs").join(name)
}

#[test]
fn check_exits_with_125_if_it_cannot_tell() {
    let folder = tempfile::tempdir().unwrap();
    let baseline = gallery("6.1-write-exact");
    let no_kernel = folder.path().join("bzImage");
    std::fs::write(&no_kernel, "not a kernel").unwrap();
    for kernel in [folder.path().join("nowhere"), no_kernel] {
        let (output, _, err) =
            run(pipeprof().arg("check").arg("--kernel").arg(&kernel).arg("--baseline").arg(&baseline));
        assert_eq!(output.status.code(), Some(125), "{err}");
        assert!(err.contains("could not be tested"), "{err}");
    }
}

#[test]
fn wrong_flags_of_check_stop_a_bisection() {
    let baseline = gallery("6.1-write-exact");
    let check = |before: &[&str], flags: &[&str]| {
        let (output, _, err) = run(pipeprof().args(before).arg("check").arg("--baseline").arg(&baseline).args(flags));
        (output.status.code(), err)
    };
    // `git bisect run` takes 1 to 127 as a verdict on the commit, or skips it (125); at 128 it stops.
    for (flags, says) in [
        (&["--fail-above", "1x"][..], "--fail-above"),
        (&["--fail-below", "1x"], "--fail-below"),
        (&["--kernel", "nowhere"], "pipeprof kernel list"),
        (&["--kernel", "/nonexistent/bzImage"], "/nonexistent"),
        (&["--kernel", "/"], "directory"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--kernel", "6.1", "--mode", "wriet"], "--mode"),
        (&["--run-flags", "--cpus 2"], "--kernel"),
        (&["--run-flags", "'open"], "--run-flags"),
        (&["--run-flags", "--cpus two"], "--cpus"),
        (&["--run-flags", "--mode write"], "--mode"),
        (&["--kernel", "6.1", "--run-flags", "--kernel 6.12"], "--kernel"),
        (&["--kernel", "6.1", "--run-flags", "--cpus 0"], "--cpus"),
    ] {
        let (code, err) = check(&[], flags);
        assert_eq!(code, Some(128), "{flags:?}: {err}");
        assert!(err.contains(says), "{flags:?}: {err}");
    }
    let (code, err) = check(&["--color", "never", "-q"], &["--fail-above", "1x"]);
    assert_eq!(code, Some(128), "{err}");
    // What no commit can be tested with: a used folder, a missing baseline or QEMU.
    let folder = tempfile::tempdir().unwrap();
    let used = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let (code, err) = check(&[], &["--kernel", "6.1", "--run-flags", "--cpus 2", "-o", used]);
    assert!(code == Some(128) && err.contains("not empty"), "{err}");
    let missing = folder.path().join("nowhere");
    let (output, _, err) = run(pipeprof().args(["check", "--kernel", "6.1", "--baseline"]).arg(missing));
    assert!(output.status.code() == Some(128) && err.contains("--baseline"), "{err}");
    let mut command = pipeprof();
    command.env("PIPEPROF_QEMU", "/nonexistent/qemu").args(["check", "--kernel", "6.1", "--baseline"]).arg(&baseline);
    let (output, _, err) = run(&mut command);
    assert!(output.status.code() == Some(128) && err.contains("PIPEPROF_QEMU"), "{err}");
    // The baseline is missing.
    assert_eq!(run(pipeprof().arg("check")).0.status.code(), Some(128));
    for flag in ["-h", "--help", "--version"] {
        assert_eq!(run(pipeprof().args(["check", flag])).0.status.code(), Some(0), "{flag}");
    }
}

#[test]
fn check_repeats_the_settings_of_its_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let check = |baseline: &Path, flags: &[&str]| {
        let (output, _, err) = run(pipeprof().arg("check").arg("--baseline").arg(baseline).args(flags));
        (output.status.code(), err)
    };
    let exact = gallery("6.1-write-exact");
    // A flag that contradicts the baseline is refused, with both values.
    for (flags, says) in [
        ("--cpus 1", ["--cpus '1'", "'2'"]),
        ("--memory 512M", ["--memory '512M'", "'1G'"]),
        ("--append psi=0", ["--append 'psi=0'", "none"]),
        ("--cpu max", ["--cpu 'max'", "'qemu64'"]),
        ("--accel kvm", ["--accel 'kvm'", "'tcg'"]),
        ("--no-memcg", ["--no-memcg", "charged"]),
        ("--collect sample", ["--collect", "insn"]),
        ("--buffer-size 4K", ["--buffer-size '4K'", "'256K'"]),
        ("--calls 7", ["--calls '7'", "'--bytes 64M'"]),
        ("--duration 1s", ["--duration '1000000000ns'", "--bytes 64M"]),
        ("--pin none", ["--pin 'none'", "'auto'"]),
        ("--warmup 1M", ["--warmup '1M'", "'32M'"]),
        ("--verify", ["--verify 'true'", "'false'"]),
    ] {
        let (code, err) = check(&exact, &["--kernel", "nowhere", "--run-flags", flags]);
        assert_eq!(code, Some(128), "{flags}: {err}");
        assert!(says.iter().all(|part| err.contains(part)) && err.trim_end().lines().count() == 1, "{flags}: {err}");
    }
    let (code, err) = check(&exact, &["--kernel", "nowhere", "--mode", "vmsplice"]);
    assert!(code == Some(128) && err.contains("'vmsplice'") && err.contains("'write'"), "{err}");
    let (code, err) = check(&exact, &[]);
    assert!(code == Some(128) && err.contains("guest") && err.contains("--kernel"), "{err}");
    // A flag that repeats it is accepted; then the kernel is missing.
    let same = "--cpus 2 --memory 1024M --cpu qemu64 --accel tcg --append '' --buffer-size 256K --bytes 64M";
    let (code, err) = check(&exact, &["--kernel", nowhere.to_str().unwrap(), "--run-flags", same]);
    assert!(code == Some(125) && err.contains("nowhere"), "{err}");
    // A setting that the document does not hold is not guessed.
    let bare = store(folder.path(), "bare", synthetic::older());
    let (code, err) = check(&bare, &["--kernel", "nowhere"]);
    assert!(
        code == Some(128) && err.contains("does not say what was asked for") && err.contains("pipeprof run"),
        "{err}"
    );
    let hardware = store(folder.path(), "hardware", synthetic::timed("6.1.0", "write", &[1.0]));
    let (code, err) = check(&hardware, &["--kernel", "nowhere"]);
    assert!(code == Some(128) && err.contains("hardware"), "{err}");
}

/// A small timed matrix on this machine: two columns and the control.
fn here(folder: &Path, duration: &str, variants: [&str; 2]) -> Command {
    let mut command = pipeprof();
    command.args(["compare", "--mode", "write", "--variant", variants[0], "--variant", variants[1]]);
    command.args(["--run-flags", &format!("--collect none --duration {duration} --warmup 1M"), "-o"]).arg(folder);
    command
}

#[test]
#[ignore = "takes over 5 seconds: make test"]
fn an_interrupted_matrix_keeps_its_runs_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut child = here(&out, "300ms", ["", "--poll"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stored = || {
        std::fs::read_dir(out.join("runs")).map_or(0, |entries| {
            entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().join("result.json").exists())).count()
        })
    };
    let start = std::time::Instant::now();
    while stored() < 2 {
        assert!(start.elapsed().as_secs() < 600, "no run was ever stored");
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be interrupted");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // A second one says at once who is at work, and measures nothing.
    let (second, _, refused) = run(here(&out, "300ms", ["", "--poll"]).arg("--resume"));
    let holder = format!("another pipeprof (process {}) is writing into", child.id());
    assert!(!second.status.success() && refused.contains(&holder), "{refused}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("--resume"), "{said}");
    let times = || -> Vec<(PathBuf, std::time::SystemTime)> {
        let mut all: Vec<_> = std::fs::read_dir(out.join("runs"))
            .unwrap()
            .map(|entry| entry.unwrap().path().join("result.json"))
            .map(|path| (path.clone(), std::fs::metadata(&path).unwrap().modified().unwrap()))
            .collect();
        all.sort();
        all
    };
    let kept = times();
    assert!((2..36).contains(&kept.len()), "{kept:?}");
    let (output, _, err) = run(here(&out, "300ms", ["", "--poll"]).arg("--resume"));
    assert!(output.status.success(), "{err}");
    let all = times();
    assert_eq!(all.len(), 36, "two columns and the control, pair by pair in twelve blocks");
    assert!(kept.iter().all(|run| all.contains(run)), "what was done is not done again");
    assert!(out.join("report.html").is_file());
}

#[test]
#[ignore = "takes over 5 seconds: make test"]
fn the_same_setting_twice_is_not_called_different_on_this_machine() {
    // One of three may differ by chance: a level of 5 % holds over many trials, not over three.
    let mut different = Vec::new();
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let (output, printed, err) = run(here(&out, "20ms", ["", ""]).arg("--json"));
        assert!(output.status.success(), "{err}");
        let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(json["method"], "timed");
        let verdict = &json["sections"][0]["steps"][0]["verdict"];
        if !["same", "undecided"].contains(&verdict["word"].as_str().unwrap()) {
            different.push(verdict.clone());
        }
        assert!(verdict["noise_floor"].as_f64().is_some_and(|floor| floor > 0.0));
        assert!(verdict["noise_from"].as_str().unwrap().contains("control"), "{verdict}");
        assert_eq!(verdict["pairs"], serde_json::json!([12, 12]));
    }
    assert!(different.len() <= 1, "{different:?}");
}

#[test]
fn a_kernel_that_is_missing_is_said_once_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = pipeprof();
    command.current_dir(folder.path()).env("PIPEPROF_CACHE", folder.path().join("cache"));
    refused(
        command.args("compare --mode write --kernel 9.9 --kernel 9.8".split(' ')),
        &["--kernel 9.9: neither a file"],
    );
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "cache"), "{left:?}");
}

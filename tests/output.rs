//! Invalid input and unwritable places: each causes one clear line that names the flag or file and the fix, a
//! non-zero exit code, and no partial output. Guests have their own tests.

use crate::common::{binary, copy_program};
use assert_cmd::Command;
use predicates::prelude::*;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

/// The program in a temporary folder.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::cargo_bin("pipeprof").unwrap();
        command
            .current_dir(self.folder.path())
            .args(line.split_whitespace())
            .timeout(std::time::Duration::from_secs(300));
        command
    }

    /// All files and folders, recursively.
    fn contents(&self) -> Vec<String> {
        fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
                if path.is_dir() {
                    walk(&path, root, found);
                }
            }
        }
        let mut found = Vec::new();
        walk(self.folder.path(), self.folder.path(), &mut found);
        found.sort();
        found
    }

    /// `line` fails with one line on stderr that contains all of `says`, prints nothing on stdout, and leaves nothing
    /// behind.
    fn refuses(&self, line: &str, says: &[&str]) {
        let before = self.contents();
        let output = self.command(line).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "`{line}` succeeded: {stderr}");
        assert!(output.status.code().is_some(), "`{line}` died of a signal: {stderr}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "`{line}` wrote to stdout");
        // clap prints possible values and usage below its first line.
        let message = stderr.split("\n\n").next().unwrap().split("\n  [possible values").next().unwrap().trim_end();
        assert_eq!(message.lines().count(), 1, "`{line}` says more than one line: {stderr}");
        for part in says {
            assert!(message.contains(part), "`{line}` does not say {part:?}: {message}");
        }
        assert!(!message.contains("panicked"), "{message}");
        assert_eq!(self.contents(), before, "`{line}` left something behind");
    }
}

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// A short run without collectors, as fast as possible.
const QUICK: &str = "run --mode write --collect none --runs 1 --bytes 4M --warmup 1M";

#[test]
fn invalid_axes_name_their_flag() {
    let place = Place::new();
    for (line, says) in [
        ("run --mode nonsense", ["--mode", "nonsense"]),
        ("run --writer teleport", ["--writer", "teleport"]),
        ("run --collect magic", ["--collect", "magic"]),
        ("run --loader carrier-pigeon", ["--loader", "carrier-pigeon"]),
        ("run --bytes 99999999999T", ["--bytes", "16 EiB"]),
        ("run --buffer-size -1", ["--buffer-size", "-1"]),
        ("run --buffer-size 0", ["--buffer-size", "0"]),
        ("run --duration soon", ["--duration", "soon"]),
        ("run --duration 5", ["--duration", "has no unit"]),
        ("run --duration 0s", ["--duration 0", "give at least 1ms"]),
        ("run --bytes 1G --calls 7", ["--bytes", "--calls"]),
        ("run --pairs 0", ["--pairs 0", "give"]),
        ("run --pin 1", ["--pin", "0,1"]),
        ("run --mode vmsplice --buffer-size 12K", ["--buffer-size 12K", "halves"]),
        ("run --runs 0", ["--runs", "0"]),
    ] {
        place.refuses(line, &says);
    }
}

#[test]
fn usage_errors_exit_with_2_and_failures_with_1() {
    let place = Place::new();
    std::fs::write(place.path("x.json"), "{}").unwrap();
    let usage = [
        "run --no-such-flag",
        "run --buffer-size 0",
        "run --bytes 0",
        "run --mode vmsplice --pipe-size 256K",
        "run --gift",
        "run --verify --reader splice",
        "run --cpus 2",
        "run --no-memcg",
        "run --vmlinux vmlinux",
        "run --collect insn",
        "run --kernel 6.12 --collect insn,sample",
        "run --kernel 6.12 --collect insn --accel kvm",
        "run --kernel 6.12 --collect insn --duration 1s",
        "run --kernel 6.12 --collect insn --until 2%",
        "run --kernel 6.12 --source /no/such/file --writer splice",
        "run --kernel 6.12 --memory 1M",
        "compare",
        "compare x.json",
        "compare x.json x.json --resume -o out",
        "compare --kernel 6.1",
        "compare --mode nonsense --kernel 6.1 --kernel 6.12",
        "compare --variant --gift --variant --poll",
        "compare --variant --nonsense --variant --poll",
        "compare --run-flags --nonsense --kernel 6.1 --kernel 6.12",
        "sweep",
        "sweep --runs 1 --duration 20ms",
        "sweep --collect insn --mode write",
        "sweep --gift true",
        "sweep --buffer-size 1..1T --pipe-size 1..1T --pairs 1..8",
        "memory --runs 0",
        "memory --read-size 1K",
        "roles --cpus 2",
        "doctor --memory 2G",
        "kernel boot 6.12 --cpus 0",
        "reproduce --kernel none --in-guest",
        "reproduce nonsense",
    ];
    let failures = [
        "run --pin 0,4095",
        "run --kernel ./no/bzImage",
        "run --kernel no-such-kernel",
        "run --collect none -o x.json",
        "compare x.json nowhere",
        "flamegraph nowhere",
        "memory --cpu 4095",
        "kernel remove no-such-kernel",
    ];
    for (lines, code) in [(&usage[..], 2), (&failures[..], 1)] {
        for line in lines {
            place.refuses(line, &[]);
            assert_eq!(place.command(line).output().unwrap().status.code(), Some(code), "{line}");
        }
    }
    // `git bisect run` takes 1 to 124 for a regression, skips at 125 and stops at 128.
    for (line, code) in [
        ("check", 128),
        ("check --baseline x.json --run-flags --no-such-flag", 128),
        ("check --baseline nowhere", 128),
        ("check --baseline x.json --run-flags --gift", 128),
    ] {
        assert_eq!(place.command(line).output().unwrap().status.code(), Some(code), "{line}");
    }
}

#[test]
fn a_sweep_without_an_axis_names_the_axes() {
    let place = Place::new();
    place.refuses("sweep --runs 1", &["nothing to sweep", "--buffer-size 4K..4M", "--mode", "--writer", "--pairs"]);
}

#[test]
fn an_error_names_the_path_that_was_given() {
    let place = Place::new();
    std::fs::write(place.path("x.json"), "{}").unwrap();
    for (line, path) in [
        (format!("{QUICK} -o /proc/x"), "cannot create the output folder /proc/x:"),
        ("check --baseline x.json".to_owned(), "--baseline x.json: not a pipeprof result.json"),
        ("check --baseline nowhere".to_owned(), "--baseline nowhere: file does not exist"),
        ("check --baseline .".to_owned(), "--baseline .: contains no result.json, nor does a folder in it"),
    ] {
        place.refuses(&line, &[path]);
        let stderr = String::from_utf8(place.command(&line).output().unwrap().stderr).unwrap();
        assert!(!stderr.contains(".pipeprof-"), "a temporary path: {stderr}");
    }
}

#[test]
fn what_is_missing_on_this_machine_is_named() {
    let place = Place::new();
    place.refuses(&format!("{QUICK} --pin 0,4095"), &["4095"]);
    place.refuses(&format!("{QUICK} --pipe-size 3T"), &["--pipe-size"]);
    place.refuses(&format!("{QUICK} --writer splice --source /nowhere/at/all"), &["/nowhere/at/all"]);
    place.refuses("run --collect insn", &["--collect insn", "--kernel"]);
}

#[test]
fn an_output_folder_that_is_used_is_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("used")).unwrap();
    std::fs::write(place.path("used/mine"), "precious").unwrap();
    place.refuses(&format!("{QUICK} -o used"), &["used", "not empty", "-o"]);
    place.refuses(&format!("{QUICK} -o used/mine"), &["used/mine", "is a file", "-o"]);
    place.refuses(&format!("{QUICK} -o used/mine/below"), &["used/mine/below", "-o"]);
    place.refuses(&format!("{QUICK} -o /proc/nowhere"), &["/proc/nowhere", "-o"]);
    assert_eq!(std::fs::read_to_string(place.path("used/mine")).unwrap(), "precious");
}

#[test]
fn a_full_disk_leaves_nothing() {
    let place = Place::new();
    let program = assert_cmd::cargo::cargo_bin("pipeprof");
    let mut command = std::process::Command::new(program);
    command.current_dir(place.folder.path()).args(QUICK.split_whitespace()).args(["-o", "out"]);
    // A file-size limit fails like a full disk, and needs no root.
    let limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: setrlimit is async-signal-safe, and `limit` is the closure's own copy.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let last = stderr.trim_end().lines().last().unwrap();
    assert!(last.contains("out/result.json") && last.contains("-o"), "{stderr}");
    assert!(place.contents().is_empty(), "{:?}", place.contents());
}

#[test]
fn a_run_without_collectors_gives_throughput_and_a_document() {
    let place = Place::new();
    place
        .command(&format!("{QUICK} -o out"))
        .assert()
        .success()
        .stdout(predicate::str::contains("GiB/s, median of 1 run"));
    assert_eq!(place.contents(), ["out", "out/result.json"]);
    let output = place.command(&format!("{QUICK} --json")).output().unwrap();
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["mode"], "write");
    assert_eq!(document["processes"]["totals"]["writer"]["bytes"], 4 << 20);
    let schema: serde_json::Value = serde_json::from_slice(&place.command("schema").output().unwrap().stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let fresh: Vec<_> = place.contents().into_iter().filter(|name| name.ends_with("-write")).collect();
    assert_eq!(fresh.len(), 1, "one folder below runs, named after time and mode: {:?}", place.contents());
}

#[test]
fn several_modes_have_one_table_and_one_chart() {
    let place = Place::new();
    let run = "run --mode write,vmsplice --mode splice --bytes 4M --runs 2 --collect none";
    let output = place.command(&format!("{run} -o out")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("to write").count(), 1, "one table: {text}");
    for mode in ["write", "vmsplice", "splice"] {
        assert!(text.contains(&format!("\n {mode} ")), "{text}");
        let title = std::fs::read_to_string(place.path(&format!("out/{mode}/result.json"))).unwrap();
        assert!(title.contains(&format!("\"command\": \"pipeprof run --mode={mode} --bytes=4M")), "{title}");
    }
    assert_eq!(place.contents().iter().filter(|file| file.ends_with(".svg")).count(), 1, "out/modes.svg");
    let output = place.command(&format!("{run} --json -o json")).output().unwrap();
    let documents: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!([&documents[0]["mode"], &documents[2]["mode"]], ["write", "splice"]);
    let output = place
        .command("run --mode vmsplice --without-splice --bytes 4M --runs 2 --collect none -o removed")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n vmsplice-without-splice "), "{text}");
    assert!(text.contains("vmsplice, as it is -> without splice: "), "the difference: {text}");
    place.refuses("run --mode write --mode write", &["--mode write is given twice"]);
    place.refuses("run --mode write --without-splice", &["--without-splice requires --writer vmsplice or splice"]);
    place.refuses("compare --run-flags --mode=write,splice", &["--mode is given twice"]);
    place.refuses("run --mode write,vmsplice --buffer-size 12K", &["--buffer-size 12K"]);
}

/// A copy of pipeprof that every user can reach: a checkout below /root cannot be entered.
fn copied(place: &Place) -> PathBuf {
    let program = place.path("pipeprof");
    copy_program(&binary(), &program);
    program
}

/// `program` with the arguments `line`, in `place`, as a user other than root.
fn as_plain_user(place: &Place, program: &Path, line: &str) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.current_dir(place.folder.path()).args(line.split_whitespace());
    if is_root() {
        std::os::unix::fs::chown(place.folder.path(), Some(65534), Some(65534)).unwrap();
        command.uid(65534).gid(65534);
    }
    command
}

/// What docs/security.md advises.
#[test]
#[ignore = "needs root, for setcap: make test"]
fn three_capabilities_of_the_file_are_enough_to_sample() {
    assert!(is_root());
    let place = Place::new();
    let program = copied(&place);
    let samples = || {
        let run = "run --mode write --collect sample --runs 2 --bytes 64M --json -q";
        let output = as_plain_user(&place, &program, run).output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), document["collectors"][0]["samples"].as_u64())
    };
    assert_eq!(samples(), (Some(1), Some(0)));
    let setcap = std::process::Command::new("setcap").arg("cap_bpf,cap_perfmon,cap_syslog=ep").arg(&program).status();
    assert!(setcap.unwrap().success());
    let (code, samples) = samples();
    assert_eq!(code, Some(0));
    assert!(samples > Some(20), "{samples:?}");
    // What is recorded does not get them.
    let record = "record -o recorded -- grep CapEff /proc/self/status";
    let output = as_plain_user(&place, &program, record).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && place.path("recorded/result.json").exists(), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "CapEff:\t0000000000000000\n");
}

#[test]
fn without_root_throughput_still_works() {
    let place = Place::new();
    let run = "run --mode write --runs 1 --bytes 4M --warmup 1M -o out";
    let mut command = as_plain_user(&place, &copied(&place), run);
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("GiB/s"), "{stdout}");
    assert!(place.path("out/result.json").exists());
}

/// Separate namespaces; without root, also a user namespace. A machine that does not allow this fails the test.
fn unshare(arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(arguments);
    command
}

#[test]
#[ignore = "needs root or user namespaces: make test"]
fn in_a_pid_namespace_the_same_is_sampled_as_outside() {
    let place = Place::new();
    let line = "run --mode write --collect sample,fgraph --runs 1 --bytes 256M --json";
    let report = |output: std::process::Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let of = |name: &str| {
            let mut reports = document["collectors"].as_array().unwrap().iter();
            reports.find(|report| report["name"] == name).unwrap().clone()
        };
        (of("sample"), of("fgraph"))
    };
    let (outside, _) = report(place.command(line).output().unwrap());
    let mut unshare = unshare(&["--pid", "--fork", "--mount-proc"]);
    unshare.arg(assert_cmd::cargo::cargo_bin("pipeprof"));
    let (inside, fgraph) =
        report(unshare.args(line.split_whitespace()).current_dir(place.folder.path()).output().unwrap());
    assert_eq!(inside["status"], outside["status"], "{inside} {outside}");
    assert_eq!(inside["samples"].as_u64() > Some(0), outside["samples"].as_u64() > Some(0), "{inside} {outside}");
    assert_ne!(fgraph["status"], "ok", "{fgraph}");
}

/// A user without privileges, for whom nothing can be sampled.
#[test]
#[ignore = "needs root or user namespaces: make test"]
fn a_run_that_sampled_nothing_fails_after_its_report() {
    let place = Place::new();
    let run = "run --mode write --collect sample --runs 1 --bytes 1M --warmup 1M -o out";
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(assert_cmd::cargo::cargo_bin("pipeprof"));
    let output = command.args(run.split_whitespace()).current_dir(place.folder.path()).output().unwrap();
    let (report, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{report}{said}");
    assert!(report.contains("out/result.json") && place.path("out/result.json").exists(), "{report}");
    assert!(said.contains("--collect sample: "), "{said}");
}

#[test]
fn small_limits_are_named() {
    let place = Place::new();
    let limited = |resource, value| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("pipeprof"));
        command.current_dir(place.folder.path()).args(QUICK.split_whitespace());
        let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
        // SAFETY: setrlimit is async-signal-safe, and `limit` is the closure's own copy.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(resource, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said
    };
    let said = limited(libc::RLIMIT_NOFILE, 5);
    assert!(said.contains("ulimit -n"), "{said}");
    for kib in [64, 512] {
        let said = limited(libc::RLIMIT_STACK, kib << 10);
        assert!(said.contains(&format!("limited to {kib} KiB")) && said.contains("ulimit -s"), "{said}");
    }
}

#[test]
#[ignore = "needs root or user namespaces: make test"]
fn without_btf_sampling_goes_on_and_recording_looks_into_proc() {
    assert!(Path::new("/sys/kernel/btf").exists(), "this kernel has no BTF that could be hidden: use one that has");
    let place = Place::new();
    let run = "run --mode write --collect sample,kprobe --runs 1 --bytes 256M --json";
    let script = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
    let output = unshare(&["--mount", "sh", "-c", script, "sh"])
        .arg(assert_cmd::cargo::cargo_bin("pipeprof"))
        .args(run.split_whitespace())
        .current_dir(place.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = |name: &str| {
        let mut reports = document["collectors"].as_array().unwrap().iter();
        reports.find(|report| report["name"] == name).unwrap().clone()
    };
    let sample = report("sample");
    if sample["status"] == "ok" {
        assert!(sample["notes"].to_string().contains("loaded by aya"), "{sample}");
        assert!(!sample["notes"].to_string().contains("not watched"), "{sample}");
        assert!(sample["samples"].as_u64() > Some(100), "{sample}");
    } else {
        // A machine that allows no sampling reports the reason.
        assert!(!sample["reason"].to_string().contains("BTF"), "{sample}");
    }
    let kprobe = report("kprobe");
    assert_eq!(kprobe["status"], "unavailable", "{kprobe}");
    let output = unshare(&["--mount", "sh", "-c", script, "sh"])
        .arg(assert_cmd::cargo::cargo_bin("pipeprof"))
        .args(["record", "--observe", "bpf", "--", "seq 9 | wc -l"])
        .current_dir(place.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("CONFIG_DEBUG_INFO_BTF") && output.stdout.is_empty(), "{said} {output:?}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    // Looks into /proc need no BTF.
    let output = unshare(&["--mount", "sh", "-c", script, "sh"])
        .arg(assert_cmd::cargo::cargo_bin("pipeprof"))
        .args(["record", "--", "sleep 0.3 | cat; seq 9 | wc -l"])
        .current_dir(place.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`sleep` sleeping on a timer") && said.contains("CONFIG_DEBUG_INFO_BTF"), "{said}");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"9\n"[..]), "{said}");
}

#[test]
#[ignore = "needs root or user namespaces: make test"]
fn what_was_measured_is_kept_wherever_it_can_be() {
    let place = Place::new();
    let temporary = place.path("temporary");
    for folder in ["temporary", "whole", "tiny", "real"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    std::os::unix::fs::symlink("real", place.path("link")).unwrap();
    std::os::unix::fs::symlink("nothing", place.path("dangling")).unwrap();
    let run = |target: &str, temporary: &Path| {
        // File systems of this command alone; its files are copied out of them.
        let script = "mount -t tmpfs none whole && mount -t tmpfs -o size=16k none tiny && \"$@\"; code=$?; \
                      ls whole >&2; exit $code";
        let mut command = unshare(&["--mount", "sh", "-c", script, "sh"]);
        command.arg(assert_cmd::cargo::cargo_bin("pipeprof")).args(QUICK.split_whitespace()).args(["-o", target]);
        let output = command.env("TMPDIR", temporary).current_dir(place.folder.path()).output().unwrap();
        let [printed, said] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), printed, said)
    };
    // Into what a link means, and into an empty file system.
    let (code, printed, said) = run("link", &temporary);
    assert!(code == Some(0) && place.path("real/result.json").exists(), "{printed}{said}");
    let (code, printed, said) = run("whole", &temporary);
    assert!(code == Some(0) && said.contains("result.json"), "{printed}{said}");
    // Found before anything is measured.
    let (code, printed, said) = run("dangling", &temporary);
    assert!(code == Some(1) && printed.is_empty() && said.contains("is a link to nothing"), "{printed}{said}");
    // A full disk: printed, and kept elsewhere.
    let (code, printed, said) = run("tiny", &temporary);
    assert!(code == Some(1) && printed.contains("GiB/s"), "{printed}{said}");
    assert!(said.contains("No space left on device") && said.contains("instead: cannot write tiny/"), "{said}");
    let kept = std::fs::read_dir(&temporary).unwrap().next().expect("a folder").unwrap().path();
    assert!(kept.join("result.json").exists() && said.contains(&kept.display().to_string()), "{said}");
    // Nowhere: at least printed.
    let (code, printed, said) = run("tiny", &place.path("tiny"));
    assert!(code == Some(1) && printed.contains("GiB/s") && said.contains("are only printed"), "{printed}{said}");
}

#[test]
fn stored_files_that_are_broken_are_named() {
    let place = Place::new();
    place.command(&format!("{QUICK} -o out")).assert().success();
    let whole = std::fs::read_to_string(place.path("out/result.json")).unwrap();
    let store = |name: &str, text: &str| {
        std::fs::create_dir(place.path(name)).unwrap();
        std::fs::write(place.path(name).join("result.json"), text).unwrap();
    };
    store("cut", &whole[..whole.len() / 2]);
    store("newer", &whole.replace("pipeprof.result/1", "pipeprof.result/9"));
    store("other", "{}");
    std::fs::create_dir(place.path("empty")).unwrap();
    std::fs::write(place.path("cut.folded"), "a;b 1\na;c").unwrap();
    std::fs::write(place.path("fraction.folded"), "a;b 1.5\n").unwrap();
    std::fs::write(place.path("empty.folded"), "").unwrap();
    for (line, says) in [
        ("flamegraph cut", ["cut/result.json", "truncated"]),
        ("flamegraph newer", ["newer/result.json", "update pipeprof"]),
        ("flamegraph other/result.json", ["other/result.json", "not a pipeprof result.json"]),
        ("flamegraph empty", ["empty/result.json", "pipeprof run"]),
        ("flamegraph nothing.folded", ["nothing.folded", "file does not exist"]),
        ("flamegraph cut.folded", ["cut.folded, line 2", "a space and a weight"]),
        ("flamegraph fraction.folded", ["fraction.folded, line 1", "fraction"]),
        ("flamegraph empty.folded", ["empty.folded", "no stacks"]),
        ("flamegraph out", ["out", "collector"]),
        ("compare cut newer", ["cut", "truncated"]),
        ("compare out newer", ["newer", "update pipeprof"]),
    ] {
        place.refuses(line, &says);
    }
}

#[test]
fn a_picture_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    std::fs::write(place.path("x.folded"), "a;b 1\n").unwrap();
    place.refuses("flamegraph x.folded -o missing/x.svg", &["missing/x.svg", "-o"]);
    place.command("flamegraph x.folded").assert().success().stdout("x.svg\n");
    place.command("flamegraph x.folded --reverse").assert().success().stdout("x-reverse.svg\n");
    place.command("flamegraph x.folded --diff x.folded").assert().success().stdout("x-diff.svg\nx-diff-before.svg\n");
    place.command("flamegraph x.folded -o -").assert().success().stdout(predicate::str::starts_with("<?xml"));
    assert_eq!(place.contents(), ["x-diff-before.svg", "x-diff.svg", "x-reverse.svg", "x.folded", "x.svg"]);
}

#[test]
fn new_files_and_folders_follow_the_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    for (umask, file, directory) in [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0o002, 0o664, 0o775)] {
        let stacks = folder.path().join("x.folded");
        std::fs::write(&stacks, "a;b 1\n").unwrap();
        let program = || std::process::Command::new(assert_cmd::cargo::cargo_bin("pipeprof"));
        let mut draw = program();
        draw.arg("flamegraph");
        draw.arg(&stacks).arg("-o").arg(folder.path().join("x.svg"));
        let mut run = program();
        run.args(QUICK.split_whitespace());
        let out = folder.path().join(format!("out-{umask:o}"));
        run.arg("-o").arg(&out);
        for command in [&mut draw, &mut run] {
            // SAFETY: umask is async-signal-safe.
            unsafe {
                command.pre_exec(move || {
                    libc::umask(umask);
                    Ok(())
                });
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.path().join("x.svg")), file, "{umask:o}");
        assert_eq!((mode(&out), mode(&out.join("result.json"))), (directory, file), "{umask:o}");
        std::fs::remove_file(folder.path().join("x.svg")).unwrap();
    }
}

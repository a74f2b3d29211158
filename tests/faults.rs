//! Lets each system call fail that writes results, one after the other, and looks for what was measured.
//!
//! strace makes the nth call of a thread fail. Which calls write results is read from a run in which none fails: in the
//! main thread those after the first worker has ended, in all threads those that write into the folder of results.

use crate::common::{binary, listing};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Calls that write results.
const WRITING: &str = "openat,write,rename,renameat2,mkdir,fdatasync,fsync,ftruncate,fchmod";

/// What happens to them. The kernel repeats none of them by itself; a program has to repeat those that were interrupted.
const ERRORS: [&str; 3] = ["ENOSPC", "EIO", "EINTR"];

/// How often each is tried: beside other work, the same number can be another call, such as one that reads /proc once more.
const TRIES: usize = 4;

/// A system call: its name, and its number among those of this name and thread.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SystemCall {
    name: String,
    number: usize,
    line: String,
}

/// Whose calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Threads {
    Main,
    /// The nth call of each: also of workers.
    All,
}

/// A folder for results, one for temporary files, and strace's output.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::Builder::new().prefix("faults-").tempdir().unwrap());
        for name in ["temporary", "results"] {
            std::fs::create_dir(place.path(name)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn output(&self) -> PathBuf {
        self.path("results").join("out")
    }

    /// pipeprof with these arguments, in which a plus is a space; `fault`: the call that fails, and its error.
    fn run(&self, line: &str, pipeline: Option<&str>, threads: Threads, fault: Option<(&SystemCall, &str)>) -> Output {
        let mut command = Command::new("strace");
        if threads == Threads::All {
            command.arg("-f");
        }
        command.args(["-y", "-s", "40", "-o"]).arg(self.path("log"));
        match fault {
            None => command.arg("-e").arg(format!("trace={WRITING}")),
            Some((call, error)) => {
                command.arg("-e").arg(format!("trace={}", call.name));
                command.arg("-e").arg(format!("inject={}:error={error}:when={}", call.name, call.number))
            }
        };
        command.arg(binary()).args(line.split(' ').map(|word| word.replace('+', " ")));
        command.arg("-o").arg(self.output());
        if let Some(pipeline) = pipeline {
            command.args(["--", pipeline]);
        }
        command.env("TMPDIR", self.path("temporary")).stdin(std::process::Stdio::null());
        command.output().expect("strace: apt install strace")
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path("log")).unwrap()).into_owned()
    }

    /// The calls of the main thread after the first end of a child that write into this place, to standard output, or
    /// to standard error; or those of all threads that write into this place.
    fn calls(&self, threads: Threads) -> Vec<SystemCall> {
        let log = self.log();
        let own = self.0.path().display().to_string();
        let mut numbers = std::collections::BTreeMap::<&str, usize>::new();
        let mut ended = false;
        let mut calls = Vec::new();
        for line in log.lines() {
            ended |= line.starts_with("--- SIGCHLD");
            // With the thread, if there are several.
            let Some((called, arguments)) = line.split_once('(') else { continue };
            let number = numbers.entry(called).or_default();
            *number += 1;
            let name = called.rsplit(' ').next().unwrap_or(called);
            let writes = name != "openat" || arguments.contains("O_CREAT");
            let stream = arguments.starts_with("1<") || arguments.starts_with("2<");
            let counts = match threads {
                Threads::Main => ended && (arguments.contains(&own) || stream),
                Threads::All => arguments.contains(&own),
            };
            let call = SystemCall { name: name.to_owned(), number: *number, line: line.to_owned() };
            if counts && writes && !calls.contains(&call) {
                calls.push(call);
            }
        }
        calls
    }

    /// The folder that was written in place of the one asked for, if any.
    fn rescued(&self) -> Option<PathBuf> {
        let names = listing(&self.path("temporary"));
        names.iter().find(|name| name.starts_with("pipeprof-results-")).map(|name| self.path("temporary").join(name))
    }

    fn clear(&self) {
        for name in ["temporary", "results"] {
            std::fs::remove_dir_all(self.path(name)).unwrap();
            std::fs::create_dir(self.path(name)).unwrap();
        }
    }
}

/// `document`, complete, in one of the folders.
fn document(folders: &[Option<PathBuf>], document: &str) -> Option<PathBuf> {
    let whole = |folder: &Path| {
        let text = std::fs::read(folder.join(document)).ok()?;
        let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let files = value["files"].as_array().cloned().unwrap_or_default();
        files.iter().all(|name| folder.join(name.as_str().unwrap()).exists()).then(|| folder.to_owned())
    };
    folders.iter().flatten().find_map(|folder| whole(folder))
}

/// Each call of `line` fails in turn; `check` gets what failed, the output, and where results can be.
fn each_fails(
    line: &str,
    pipeline: Option<&str>,
    threads: Threads,
    check: impl Fn(&str, &SystemCall, &Output, &Place),
) {
    let place = Place::new();
    let mut whole = place.run(line, pipeline, threads, None);
    let mut calls = place.calls(threads);
    for _ in 0..20 {
        if !calls.is_empty() {
            break;
        }
        // SIGCHLD went to another thread, which strace does not follow.
        place.clear();
        whole = place.run(line, pipeline, threads, None);
        calls = place.calls(threads);
    }
    assert!(calls.len() > 3, "{line}: {whole:?} {calls:?}");
    let mut hit = 0;
    // Of all threads' calls, each run makes the same: a third of all has each kind.
    let step = if threads == Threads::All { 3 } else { 1 };
    let tried = calls.len().div_ceil(step);
    for (at, call) in calls.iter().step_by(step).enumerate() {
        let error = ERRORS[at % ERRORS.len()];
        // Only these are ever interrupted.
        let error = if error == "EINTR" && !["write", "openat"].contains(&call.name.as_str()) { "EIO" } else { error };
        for _ in 0..TRIES {
            place.clear();
            let output = place.run(line, pipeline, threads, Some((call, error)));
            let log = place.log();
            let failed: Vec<&str> = log.lines().filter(|line| line.contains("(INJECTED)")).collect();
            if failed.is_empty() {
                continue;
            }
            let failed = failed.join(", ");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let what = format!("{line}: {error} of {failed}, {:?}, {text}", output.status);
            assert!(!text.contains("panicked"), "{what}");
            check(&what, call, &output, &place);
            let hidden = |name: &String| name.starts_with(".pipeprof") || name.starts_with("pipeprof-guest");
            for folder in ["results", "temporary"] {
                let names = listing(&place.path(folder));
                assert!(!names.iter().any(hidden), "{what}: {names:?}");
            }
            if failed.contains(place.0.path().to_str().unwrap()) {
                hit += 1;
                break;
            }
        }
    }
    assert!(2 * hit > tried, "{hit} of {tried} calls were those that should fail");
}

/// What was measured is complete, in the place that was asked for or in one that is named.
fn kept(what: &str, output: &Output, place: &Place, name: &str) {
    let found = document(&[Some(place.output()), place.rescued()], name);
    let Some(found) = found else { panic!("{what}: nothing was kept") };
    let named = || String::from_utf8_lossy(&output.stderr).contains(found.to_str().unwrap());
    assert!(found == place.output() || named(), "{what}: {} is not named", found.display());
}

/// What was measured is complete, or goes on where it stopped.
fn resumed(what: &str, line: &str, output: &Output, place: &Place, [plan, name]: [&str; 2]) {
    if !output.status.success() {
        // A folder that was not even begun has nothing to go on with.
        let line = if place.output().join(plan).exists() { format!("{line} --resume") } else { line.to_owned() };
        let resumed = place.run(&line, None, Threads::Main, None);
        assert!(resumed.status.success(), "{what}, then: {resumed:?}");
    }
    assert!(place.output().join(name).exists(), "{what}");
}

#[test]
#[ignore = "needs strace: make test"]
fn a_run_survives() {
    let line = "run --mode write --bytes 1M --warmup 1M --runs 1 --collect none";
    each_fails(line, None, Threads::Main, |what, _, output, place| {
        kept(what, output, place, "result.json");
        assert!(output.status.success() == (place.rescued().is_none() && !what.contains("write(1<")), "{what}");
        let printed = String::from_utf8_lossy(&output.stdout).contains("Throughput");
        assert!(printed || what.contains("write(1<"), "{what}: nothing was printed");
    });
}

#[test]
#[ignore = "needs strace and root: make test"]
fn a_recording_survives() {
    let pipeline = "head -c 100000 /dev/zero | wc -c; exit 3";
    each_fails("record", Some(pipeline), Threads::Main, |what, _, output, place| {
        kept(what, output, place, "result.json");
        // They are the pipeline's own.
        assert_eq!(output.status.code(), Some(3), "{what}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "100000\n", "{what}");
    });
}

#[test]
#[ignore = "needs strace: make test"]
fn a_sweep_survives() {
    let line = "sweep --mode write --buffer-size 4K,64K --runs 1 --duration 20ms";
    each_fails(line, None, Threads::Main, |what, _, output, place| {
        resumed(what, line, output, place, ["plan.json", "sweep.json"]);
    });
}

#[test]
#[ignore = "needs strace: make test"]
fn a_comparison_survives() {
    let line =
        "compare --mode write --variant= --variant=--poll --runs 1 --run-flags=--bytes=1M+--warmup=1M+--collect=none";
    each_fails(line, None, Threads::All, |what, _, output, place| {
        resumed(what, line, output, place, ["matrix.json", "report.json"]);
    });
}

#[test]
#[ignore = "needs strace and root: make test"]
fn no_size_of_a_disk_loses_a_run() {
    let place = Place::new();
    let mut kept_there = 0;
    // A file that crosses the end of the disk is first written in part.
    for pages in [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 64, 256] {
        place.clear();
        let script = format!("mount -t tmpfs -o size={}k none $0 && \"$@\" && cp -r $0/out $0.kept", 4 * pages);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).arg(place.path("results")).arg(binary());
        command.args("run --mode write --bytes 1M --runs 1 --collect none".split(' ')).arg("-o").arg(place.output());
        let output = command.env("TMPDIR", place.path("temporary")).output().unwrap();
        let what = format!("{pages} pages: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Throughput"), "{what}");
        let whole = output.status.success();
        let folder = if whole { Some(place.path("results.kept")) } else { place.rescued() };
        assert!(document(std::slice::from_ref(&folder), "result.json").is_some(), "{what}");
        kept_there += usize::from(whole);
        let _ = std::fs::remove_dir_all(place.path("results.kept"));
    }
    assert!((1..13).contains(&kept_there), "{kept_there} of 13 disks were large enough");
}

//! Lets each system call fail that writes results, one after the other, and looks for what was measured.
//!
//! strace makes the nth call of pipeprof's main thread fail. Which calls write results is read from a run in which none
//! fails: those after the first worker has ended.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{binary, listing};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Calls that write results.
const WRITING: &str = "openat,write,rename,renameat2,mkdir,fdatasync,fsync,ftruncate,fchmod";

/// What happens to them. The kernel repeats none of them by itself; a program has to repeat those that were interrupted.
const ERRORS: [&str; 3] = ["ENOSPC", "EIO", "EINTR"];

/// A system call: its name, and its number among those of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SystemCall {
    name: String,
    number: usize,
    line: String,
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

    /// pipeprof with these arguments; `fault`: the call that fails, and its error.
    fn run(&self, line: &str, pipeline: Option<&str>, fault: Option<(&SystemCall, &str)>) -> Output {
        let mut command = Command::new("strace");
        command.args(["-y", "-s", "40", "-o"]).arg(self.path("log"));
        match fault {
            None => command.arg("-e").arg(format!("trace={WRITING}")),
            Some((call, error)) => {
                command.arg("-e").arg(format!("trace={}", call.name));
                command.arg("-e").arg(format!("inject={}:error={error}:when={}", call.name, call.number))
            }
        };
        command.arg(binary()).args(line.split(' ')).arg("-o").arg(self.output());
        if let Some(pipeline) = pipeline {
            command.args(["--", pipeline]);
        }
        command.env("TMPDIR", self.path("temporary")).stdin(std::process::Stdio::null());
        command.output().expect("strace: apt install strace")
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path("log")).unwrap()).into_owned()
    }

    /// The calls after the first end of a child that write into this place, to standard output, or to standard error.
    fn calls(&self) -> Vec<SystemCall> {
        let log = self.log();
        let own = self.0.path().display().to_string();
        let mut numbers = std::collections::BTreeMap::<&str, usize>::new();
        let mut ended = false;
        let mut calls = Vec::new();
        for line in log.lines() {
            ended |= line.starts_with("--- SIGCHLD");
            let Some((name, arguments)) = line.split_once('(') else { continue };
            let number = numbers.entry(name).or_default();
            *number += 1;
            let writes = name != "openat" || arguments.contains("O_CREAT");
            let here = arguments.contains(&own) || arguments.starts_with("1<") || arguments.starts_with("2<");
            if ended && writes && here {
                calls.push(SystemCall { name: name.to_owned(), number: *number, line: line.to_owned() });
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
fn each_fails(line: &str, pipeline: Option<&str>, check: impl Fn(&str, &SystemCall, &Output, &Place)) {
    let place = Place::new();
    let whole = place.run(line, pipeline, None);
    let calls = place.calls();
    assert!(calls.len() > 3, "{line}: {whole:?} {calls:?}");
    let mut hit = 0;
    for (at, call) in calls.iter().enumerate() {
        let error = ERRORS[at % ERRORS.len()];
        // Only these are ever interrupted.
        let error = if error == "EINTR" && !["write", "openat"].contains(&call.name.as_str()) { "EIO" } else { error };
        place.clear();
        let output = place.run(line, pipeline, Some((call, error)));
        let log = place.log();
        let Some(failed) = log.lines().find(|line| line.contains("(INJECTED)")) else { continue };
        hit += usize::from(failed.contains(place.0.path().to_str().unwrap()));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let what = format!("{line}: {error} of {failed}, {:?}, {text}", output.status);
        assert!(!text.contains("panicked"), "{what}");
        check(&what, call, &output, &place);
        let hidden = |name: &String| name.starts_with(".pipeprof") || name.starts_with("pipeprof-guest");
        for folder in ["results", "temporary"] {
            assert!(!listing(&place.path(folder)).iter().any(hidden), "{what}: {:?}", listing(&place.path(folder)));
        }
    }
    assert!(2 * hit > calls.len(), "{hit} of {} calls were those that should fail", calls.len());
}

/// What was measured is complete, in the place that was asked for or in one that is named.
fn kept(what: &str, output: &Output, place: &Place, name: &str) {
    let found = document(&[Some(place.output()), place.rescued()], name);
    let Some(found) = found else { panic!("{what}: nothing was kept") };
    let named = || String::from_utf8_lossy(&output.stderr).contains(found.to_str().unwrap());
    assert!(found == place.output() || named(), "{what}: {} is not named", found.display());
}

#[test]
#[ignore = "needs strace: make test"]
fn a_run_survives() {
    let line = "run --mode write --bytes 1M --warmup 1M --runs 1 --collect none";
    each_fails(line, None, |what, _, output, place| {
        kept(what, output, place, "run.json");
        assert!(output.status.success() == (place.rescued().is_none() && !what.contains("write(1<")), "{what}");
        let printed = String::from_utf8_lossy(&output.stdout).contains("Throughput");
        assert!(printed || what.contains("write(1<"), "{what}: nothing was printed");
    });
}

#[test]
#[ignore = "needs strace and root: make test"]
fn a_recording_survives() {
    let pipeline = "head -c 100000 /dev/zero | wc -c; exit 3";
    each_fails("record", Some(pipeline), |what, _, output, place| {
        kept(what, output, place, "record.json");
        // They are the pipeline's own.
        assert_eq!(output.status.code(), Some(3), "{what}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "100000\n", "{what}");
    });
}

#[test]
#[ignore = "needs strace: make test"]
fn a_sweep_survives() {
    let line = "sweep --mode write --buffer-size 4K,64K --runs 1 --duration 20ms";
    each_fails(line, None, |what, _, output, place| {
        if !output.status.success() {
            let resumed = place.run(&format!("{line} --resume"), None, None);
            assert!(resumed.status.success(), "{what}, then: {resumed:?}");
        }
        assert!(place.output().join("sweep.json").exists(), "{what}");
    });
}

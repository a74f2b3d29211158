//! Collectors follow threads, forks and execs: a family of processes whose number of calls is known, and another
//! process whose calls must not be counted.

use crate::common::{self, pipeprof};
use pipeprof::cli::follow::{Found, MEMBERS, THREAD_EXEC_MEMBERS};
use pipeprof::collect::fgraph::EXEC_DROPPED;
use pipeprof::vm::{GuestOptions, Job, run_job};

const CALLS: u64 = 60;

/// What a collector finds in a guest of two CPUs.
fn in_guest(series: &str, collector: &str, more: &[&str]) -> Found {
    let calls = CALLS.to_string();
    let words = [&["__follow", "--collect", collector, "--calls", &calls], more].concat();
    let guest = GuestOptions { cpus: 2, ..common::guest(series) };
    let command = words.into_iter().map(str::to_owned).collect();
    let reply = run_job(&guest, &Job::Command(command)).expect("a guest");
    reply.parse().expect("what was found")
}

#[test]
#[ignore = "boots guests: make test"]
fn probes_count_the_calls_of_all_descendants() {
    for (series, loader) in [("5.10", "libbpf"), ("6.1", "libbpf"), ("6.1", "aya"), ("7.2", "libbpf")] {
        let found = in_guest(series, "kprobe", &["--loader", loader]);
        assert_eq!(found.writes, CALLS * MEMBERS, "{series} {loader}: {found:?}");
        assert_eq!(found.returns, found.writes, "{series} {loader}: {found:?}");
        assert!(!found.notes.iter().any(|note| note.contains("not watched")), "{series} {loader}: {found:?}");
        // 7.2 preempts tasks inside fentry programs, and only libbpf copies programs.
        let fentry = loader == "libbpf" && series != "7.2";
        let none = |note: &String| note.starts_with("--probe ") && note.ends_with(" 0 by fentry");
        assert_eq!(!found.notes.iter().any(none), fentry, "{series} {loader}: {found:?}");
        assert!(found.warnings.is_empty(), "{series} {loader}: {found:?}");
    }
}

/// Needs root, on this machine.
#[test]
#[ignore = "needs root: make test"]
fn samples_are_of_all_descendants() {
    for loader in ["libbpf", "aya"] {
        let arguments = ["__follow", "--collect", "sample", "--loader", loader, "--calls", "60000"];
        let output = pipeprof(&arguments).output().expect("pipeprof");
        assert!(output.status.success(), "{loader}: {}", String::from_utf8_lossy(&output.stderr));
        let found: Found = serde_json::from_slice(&output.stdout).expect("what was found");
        let sampled = found.samples as f64 / 4999.0;
        let used = found.cpu_ns as f64 / 1e9;
        assert!(sampled > 0.8 * used && sampled < 1.25 * used, "{loader}: {sampled} s of {used} s: {found:?}");
        assert_eq!(found.weights.len(), 1, "{loader}: {found:?}");
        assert!(found.warnings.is_empty(), "{loader}: {found:?}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn the_call_tree_has_the_calls_of_all_descendants() {
    for series in ["6.1", "7.2"] {
        let found = in_guest(series, "fgraph", &["--without-thread-exec"]);
        assert_eq!(found.writes, CALLS * (MEMBERS - THREAD_EXEC_MEMBERS), "{series}: {found:?}");
        assert!(!found.warnings.iter().any(|(code, _)| code == EXEC_DROPPED), "{series}: {found:?}");
    }
}

/// ftrace's filter drops a process whose second thread calls exec, at the next switch to it: of its last `CALLS` calls,
/// any number may be missing. The run must say so, and nothing else may be missing.
#[test]
#[ignore = "boots guests: make test"]
fn the_call_tree_reports_a_process_that_the_kernel_drops() {
    for series in ["6.1", "7.2"] {
        let found = in_guest(series, "fgraph", &[]);
        let whole = CALLS * MEMBERS;
        assert!((whole - CALLS..=whole).contains(&found.writes), "{series}: {found:?}");
        assert_eq!(found.warnings.iter().filter(|(code, _)| code == EXEC_DROPPED).count(), 1, "{series}: {found:?}");
    }
}

//! Collectors follow threads, forks and execs: a family of processes whose number of calls is known, and another
//! process whose calls must not be counted.

use crate::common::{guest_with_programs, job, program};
use crate::printed::Found;
use pipeprof::util::warning::WarningCode::ExecNotFollowed;
use pipeprof::vm::run_job;

const CALLS: u64 = 60;
/// Number of threads and processes of the family in tests/programs/follow.rs, each of which makes so many calls.
const MEMBERS: u64 = 11;
/// Those of them that `--without-thread-exec` leaves out: a process before and after its second thread calls exec.
const THREAD_EXEC_MEMBERS: u64 = 2;

/// What a collector finds in a guest of two CPUs.
fn in_guest<const N: usize>(series: &str, collector: &str, more: &[&str]) -> [Found; N] {
    let calls = CALLS.to_string();
    let words = [&["follow", "--collect", collector, "--calls", &calls], more].concat();
    let reply = run_job(&guest_with_programs(series), &job(&words)).expect("a guest");
    let found: Vec<Found> = reply.parse().expect("what was found");
    found.try_into().expect("as many families")
}

#[test]
#[ignore = "boots guests: make test"]
fn probes_count_the_calls_of_all_descendants() {
    let [oldest] = in_guest("5.10", "kprobe", &[]);
    let [old, by_aya] = in_guest("6.1", "kprobe", &["--loader", "libbpf,aya"]);
    let [new] = in_guest("7.2", "kprobe", &[]);
    for (series, loader, found) in
        [("5.10", "libbpf", oldest), ("6.1", "libbpf", old), ("6.1", "aya", by_aya), ("7.2", "libbpf", new)]
    {
        assert_eq!(found.writes, CALLS * MEMBERS, "{series} {loader}: {found:?}");
        assert_eq!(found.returns, found.writes, "{series} {loader}: {found:?}");
        assert!(!found.notes.iter().any(|note| note.contains("not watched")), "{series} {loader}: {found:?}");
        assert!(found.notes.iter().any(|note| *note == format!("loaded by {loader}")), "{series} {loader}: {found:?}");
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
        let arguments = ["follow", "--collect", "sample", "--loader", loader, "--calls", "60000"];
        let output = program(&arguments).output().expect("a program");
        assert!(output.status.success(), "{loader}: {}", String::from_utf8_lossy(&output.stderr));
        let [found]: [Found; 1] = serde_json::from_slice(&output.stdout).expect("what was found");
        let sampled = found.samples as f64 / 4999.0;
        let used = found.cpu_ns as f64 / 1e9;
        assert!(sampled > 0.8 * used && sampled < 1.25 * used, "{loader}: {sampled} s of {used} s: {found:?}");
        assert_eq!(found.weights.len(), 1, "{loader}: {found:?}");
        assert!(found.warnings.is_empty(), "{loader}: {found:?}");
    }
}

/// ftrace's filter drops a process whose second thread calls exec, at the next switch to it: of its last `CALLS` calls,
/// any number may be missing. The run must say so, and nothing else may be missing.
#[test]
#[ignore = "boots guests: make test"]
fn the_call_tree_has_the_calls_of_all_descendants_or_reports_which_the_kernel_drops() {
    for series in ["6.1", "7.2"] {
        let [whole, without] = in_guest(series, "fgraph", &["--also-without-thread-exec"]);
        assert_eq!(without.writes, CALLS * (MEMBERS - THREAD_EXEC_MEMBERS), "{series}: {without:?}");
        assert!(!without.warnings.iter().any(|(code, _)| *code == ExecNotFollowed), "{series}: {without:?}");
        let all = CALLS * MEMBERS;
        assert!((all - CALLS..=all).contains(&whole.writes), "{series}: {whole:?}");
        assert_eq!(
            whole.warnings.iter().filter(|(code, _)| *code == ExecNotFollowed).count(),
            1,
            "{series}: {whole:?}"
        );
    }
}

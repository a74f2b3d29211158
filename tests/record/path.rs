//! The critical path: what the wall time was made of.

use super::{Recorded, record};
use crate::common::pipeprof;
use pipeprof::result::{Document, PathPart, PathWhat, WaitReason};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The parts add up to the window, in sum and in each slice.
pub(super) fn adds_up(recording: &Document) {
    let path = recording.path.as_ref().unwrap_or_else(|| panic!("no path: {:?}", recording.warnings));
    assert_eq!(path.parts.iter().map(|part| part.ns).sum::<u64>(), recording.processes.window_ns, "{path:#?}");
    for (slice, ns) in path.slice_ns.iter().enumerate() {
        assert_eq!(path.parts.iter().map(|part| part.slices[slice]).sum::<u64>(), *ns, "slice {slice}");
    }
    assert!(path.parts.iter().all(|part| part.slices.iter().sum::<u64>() == part.ns), "{path:#?}");
}

/// Seconds of the path in parts of programs called `name`.
fn seconds(recording: &Document, name: &str, is: impl Fn(&PathPart) -> bool) -> f64 {
    let named = |part: &&PathPart| part.process.is_some_and(|at| recording.recorded[at].name == name);
    let parts = recording.path.as_ref().unwrap().parts.iter().filter(named).filter(|part| is(part));
    parts.map(|part| part.ns).sum::<u64>() as f64 / 1e9
}

fn asleep(reason: WaitReason) -> impl Fn(&PathPart) -> bool {
    move |part| part.what == PathWhat::Asleep { reason }
}

fn on_cpu(part: &PathPart) -> bool {
    part.what == PathWhat::OnCpu
}

/// The part that is not known is small.
fn known(recorded: &Recorded) {
    let parts = &recorded.recording.path.as_ref().unwrap().parts;
    let unknown: u64 = parts.iter().filter(|part| part.what == PathWhat::Unknown).map(|part| part.ns).sum();
    assert!(unknown * 20 < recorded.recording.processes.window_ns, "{}", recorded.stderr());
}

/// A folder with numbers in `data`, in random order.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("sh").args(["-c", "seq 40000 | sort -R >data"]).current_dir(folder.path()).status();
        assert!(made.unwrap().success());
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Make the programs `ways` and `compute`.
    fn build_ways(&self) {
        std::fs::write(self.file("ways.c"), include_str!("path_ways.c")).unwrap();
        let [source, ways, compute] = ["ways.c", "ways", "compute"].map(|name| self.file(name));
        let built = Command::new("gcc").args(["-Wall", "-Werror", "-o"]).args([&ways, &source]).status();
        assert!(built.unwrap().success());
        std::os::unix::fs::symlink(&ways, compute).unwrap();
    }

    /// Record a line, in which `@` is this folder.
    fn record(&self, line: &str) -> Recorded {
        let recorded = record(&[&line.replace('@', self.folder.path().to_str().unwrap())]);
        known(&recorded);
        recorded
    }
}

/// The sleep of this program on a timer is the first part that is named, and takes nearly so many seconds.
fn mainly_timer(recorded: &Recorded, name: &str, expected: f64) {
    let found = seconds(&recorded.recording, name, asleep(WaitReason::Timer));
    assert!((expected * 0.95..expected * 1.2 + 0.05).contains(&found), "{found}: {}", recorded.stderr());
    let first = recorded.recording.sentences()[0].split('`').nth(1);
    assert_eq!(first, Some(name), "{}", recorded.stderr());
}

#[test]
#[ignore = "needs root: make test"]
fn what_sleeps_before_a_pipe_is_part_of_the_path() {
    let place = Place::new();
    mainly_timer(&place.record("(cat @/data; sleep 0.6; cat @/data) | wc -c"), "sleep", 0.6);
    mainly_timer(&place.record("(cat @/data; sleep 0.6; cat @/data) | sort | wc -l"), "sleep", 0.6);
    mainly_timer(&place.record("(flock 9; sleep 0.6; cat @/data) 9>@/lock | sort | tail -n 1"), "sleep", 0.6);
    mainly_timer(&place.record("for i in 1 2 3 4 5; do echo $i; sleep 0.15; done | cat"), "sleep", 0.75);
    // A thread of sort that SIGPIPE ends is ended by another one, in the handler of the signal.
    mainly_timer(&place.record("seq 100000 | sort -n | (head -n 1; sleep 0.6)"), "sleep", 0.6);
    // Who waits for a lock of a file gets the path of who held it.
    let line = "flock @/lock sleep 0.6 & sleep 0.2; flock @/lock true | cat; wait";
    let locked = place.record(line);
    let found = seconds(&locked.recording, "sleep", asleep(WaitReason::Timer));
    assert!((0.55..0.8).contains(&found), "{found}: {}", locked.stderr());
}

#[test]
#[ignore = "needs root: make test"]
fn programs_that_run_one_after_another_are_phases() {
    let place = Place::new();
    let sorted = place.record("sort @/data @/data @/data | uniq -c | sort -rn | tail -n 1");
    let recording = &sorted.recording;
    let both = seconds(recording, "sort", on_cpu) + seconds(recording, "sort", |part| part.what == PathWhat::ForCpu);
    assert!(both > 0.7 * recording.processes.window_ns as f64 / 1e9, "{both}: {}", sorted.stderr());
    let sorts = |part: &&PathPart| part.process.is_some_and(|at| recording.recorded[at].name == "sort");
    let of: Vec<usize> =
        recording.path.iter().flat_map(|path| &path.parts).filter(sorts).flat_map(|part| part.process).collect();
    assert!(of.iter().any(|process| *process != of[0]), "{}", sorted.stderr());
}

#[test]
#[ignore = "needs root, make and gzip: make test"]
fn recipes_of_make_are_part_of_the_path() {
    let place = Place::new();
    let rule = "all: a b c d\na b c d:\n\t@head -c 20000000 /dev/zero | gzip -9 >/dev/null\n";
    std::fs::write(place.file("Makefile"), rule).unwrap();
    let made = place.record("make -j2 -C @ | cat");
    let found = seconds(&made.recording, "gzip", |_| true);
    assert!(found > 0.5 * made.recording.processes.window_ns as f64 / 1e9, "{found}: {}", made.stderr());
    // On a busy machine the answer begins with that, and the processes wait for a CPU.
    let computes = |name: &str| seconds(&made.recording, name, on_cpu);
    assert!(computes("gzip") > computes("head") + computes("make") + computes("sh"), "{}", made.stderr());
}

/// A child computes for 0.4 s of CPU time and tells its parent through a socket, a terminal, a futex, or over loopback.
#[test]
#[ignore = "needs root and gcc: make test"]
fn who_computes_is_found_through_sockets_terminals_and_futexes() {
    let place = Place::new();
    place.build_ways();
    for way in ["socketpair", "terminal", "loopback", "connect", "close", "futex", "signal"] {
        let recorded = place.record(&format!("cd @; ./ways {way} | cat"));
        let recording = &recorded.recording;
        assert_eq!(recorded.output.status.code(), Some(0), "{way}: {}", recorded.stderr());
        let computed = seconds(recording, "compute", |part| matches!(part.what, PathWhat::OnCpu | PathWhat::ForCpu));
        assert!(computed >= 0.39, "{way}: {computed}: {}", recorded.stderr());
        let waits = seconds(recording, "ways", |part| matches!(part.what, PathWhat::Asleep { .. }));
        assert!(waits < 0.1, "{way}: {}", recorded.stderr());
    }
}

/// A process that ends, but must wait in the kernel before it is gone.
#[test]
#[ignore = "needs root and gcc: make test"]
fn who_delays_the_end_of_a_process_is_found() {
    let place = Place::new();
    place.build_ways();
    let recorded = place.record("cd @; ./ways namespace | cat");
    assert_eq!(recorded.output.status.code(), Some(0), "{}", recorded.stderr());
    // The namespace's first process waits for its child in the kernel, and its parent for it.
    let waits = |recorded: &Recorded, reason| -> u64 {
        recorded.recording.recorded.iter().filter_map(|process| process.waits.get(&reason)).map(|wait| wait.ns).sum()
    };
    let named = seconds(&recorded.recording, "ways", |part| matches!(part.what, PathWhat::Asleep { .. }));
    let waited = waits(&recorded, WaitReason::Child) as f64 / 1e9;
    assert!(waited > 0.005 && named < 0.1 * waited, "{waited} {named}: {}", recorded.stderr());
    assert!(waits(&recorded, WaitReason::Exit) < 1_000_000, "{}", recorded.stderr());
    // Those that wait before their files are closed.
    for way in ["lock", "requests"] {
        let recorded = place.record(&format!("cd @; ./ways {way} | cat"));
        assert_eq!(recorded.output.status.code(), Some(0), "{}", recorded.stderr());
        let [before, then] = [WaitReason::Ending, WaitReason::Exit].map(|reason| waits(&recorded, reason));
        assert!(before > 100_000 && then < before / 2, "{way}: {before}, {then}: {}", recorded.stderr());
    }
}

/// A cgroup of the first or second version of the kernel's interface, with one controller.
pub(super) struct Limited(PathBuf);

impl Limited {
    pub(super) fn new(controller: &str, name: &str) -> Self {
        let roots = [format!("/sys/fs/cgroup/{controller}"), "/sys/fs/cgroup".to_owned()];
        let root = roots.into_iter().find(|root| Path::new(root).join("cgroup.procs").exists()).expect("cgroups");
        let _ = std::fs::write(Path::new(&root).join("cgroup.subtree_control"), format!("+{controller}"));
        let folder = Path::new(&root).join(format!("pipeprof-path-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("root may make a cgroup");
        Self(folder)
    }

    pub(super) fn set(&self, values: &[(&str, &str)]) {
        let set = values.iter().any(|(file, value)| std::fs::write(self.0.join(file), value).is_ok());
        assert!(set, "{values:?}");
    }

    /// Words that run a command in it.
    pub(super) fn run(&self, command: &str) -> String {
        format!("sh -c 'echo $$ >{}/cgroup.procs; exec {command}'", self.0.display())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let removed =
            crate::common::wait_until(std::time::Duration::from_secs(20), || std::fs::remove_dir(&self.0).is_ok());
        assert!(removed || std::thread::panicking(), "{}", self.0.display());
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_quota_of_a_cgroup_is_named() {
    let place = Place::new();
    let group = Limited::new("cpu", "quota");
    // So little that it is used up on a busy machine, too.
    group.set(&[("cpu.max", "1000 100000"), ("cpu.cfs_quota_us", "1000")]);
    let recorded = place.record(&format!("head -c 4M /dev/zero | {} | wc -c", group.run("gzip -9")));
    let throttled = seconds(&recorded.recording, "gzip", |part| part.what == PathWhat::Throttled);
    // The kernel's own count, in ns or µs.
    let stat = std::fs::read_to_string(group.0.join("cpu.stat")).unwrap();
    let counted = stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_time", ns) => Some(ns.parse::<f64>().ok()? / 1e9),
        ("throttled_usec", us) => Some(us.parse::<f64>().ok()? / 1e6),
        _ => None,
    });
    let counted = counted.unwrap_or_else(|| panic!("{stat}"));
    assert!(counted > 0.5 && (throttled / counted - 1.0).abs() < 0.1, "{throttled} {stat}: {}", recorded.stderr());
    assert!(recorded.answer().contains("throttled by the CPU quota of its cgroup"), "{}", recorded.stderr());
}

#[test]
#[ignore = "needs root: make test"]
fn a_stopped_process_is_named() {
    let place = Place::new();
    // What it does then lasts longer than what is left of the shell that continues it.
    let line =
        "(sleep 0.6; kill -CONT $(cat @/pid)) & sh -c 'echo $$ >@/pid; kill -STOP $$; sleep 0.2; cat @/data' | wc -c";
    let stopped = place.record(line);
    let found = seconds(&stopped.recording, "sh", asleep(WaitReason::Stopped));
    // At least the sleep; `kill` may have to wait for a CPU.
    let whole = stopped.recording.processes.window_ns as f64 / 1e9;
    assert!(found > 0.5 && found < whole, "{found} of {whole}: {}", stopped.stderr());
    assert!(stopped.answer().contains("stopped by itself"), "{}", stopped.stderr());
}

#[test]
#[ignore = "needs root: make test"]
fn a_process_that_is_killed_for_lack_of_memory_is_named_first() {
    let group = Limited::new("memory", "killed");
    group.set(&[("memory.max", "20000000"), ("memory.limit_in_bytes", "20000000")]);
    let line = format!("seq 3000000 | {} | tail -n 1", group.run("sort -S 500M"));
    let recorded = record(&[&line]);
    let said = "`sort` was killed for lack of memory (SIGKILL), and what it had not written is lost. It ends if its cgroup's limit \
                (`memory.max`, a container's) is larger, or if it keeps less in memory.";
    assert_eq!(recorded.recording.sentences()[0], said, "{}", recorded.stderr());
}

#[test]
#[ignore = "needs root: make test"]
fn a_pipeline_that_is_ended_has_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let mut command = pipeprof(&["record", "--duration", "400ms", "-o", target.to_str().unwrap(), "--"]);
    let output = command.args(["sleep", "600", "|", "cat"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(target.join("result.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let recording: Document = serde_json::from_str(&text).unwrap();
    adds_up(&recording);
    assert!(seconds(&recording, "sleep", asleep(WaitReason::Timer)) > 0.35, "{said}");
}

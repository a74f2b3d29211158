//! Guests that start from a snapshot: their results are those of other restored guests and of booted ones; a snapshot
//! that cannot be made or used is replaced by a boot, and nothing half-made is ever used.

use crate::common::{guest, kernel, listing, pipeprof, request, spec, wait_until};
use pipeprof::profile::{CallStack, Unit};
use pipeprof::result::{Collector, Outcome};
use pipeprof::run::exact;
use pipeprof::vm::GuestOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn count(options: &GuestOptions) -> Outcome {
    let request = request(spec("write", 60), vec![Collector::Insn]);
    exact::execute(&request, options, None).expect("an exact profile")
}

/// The instructions that do not depend on when the only CPU changes its process. A wakeup that preempts at once or later
/// is a matter of where the timer was, and moves the total of so few calls by 6 %.
fn work(outcome: &Outcome) -> u64 {
    let switching = ["schedule", "__schedule", "preempt_schedule", "__wake_up", "asm_sysvec", "prepare_to_wait"];
    let counted = outcome.profiles.iter().filter(|profile| profile.unit == Unit::Instructions);
    let stacks = counted.flat_map(|profile| profile.stacks.iter());
    let is_work = |stack: &CallStack| !stack.frames().any(|frame| switching.iter().any(|name| frame.starts_with(name)));
    stacks.filter(|(stack, _)| is_work(stack)).map(|(_, instructions)| instructions).sum()
}

#[test]
#[ignore = "boots guests: make test"]
fn restored_guests_are_equal_and_count_like_booted_ones() {
    for series in ["5.10", "7.2"] {
        let options = guest(series);
        let [first, second] = [count(&options), count(&options)];
        assert_eq!(first.profiles, second.profiles, "{series}");
        assert_eq!(first.document, second.document, "{series}");
        // A booted guest has another past, so its timers and lists of free pages may differ.
        let booted = count(&GuestOptions { snapshot: false, ..options });
        let [restored, other] = [&first, &booted].map(work);
        let ratio = other as f64 / restored as f64;
        assert!((0.99..1.01).contains(&ratio), "{series}: {restored} restored, {other} booted");
        // The machine in the document is the same.
        assert_eq!(first.document.environment.emulator, booted.document.environment.emulator);
        assert_eq!(first.document.warnings, booted.document.warnings);
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn guests_with_two_cpus_are_equal_whatever_else_the_host_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let count = |cache: &str, name: &str| {
        let into = folder.path().join(name);
        let image = kernel("7.2").image;
        let mut command = pipeprof(&["run", "--collect", "insn", "--mode", "vmsplice", "--cpus", "2", "--runs", "1"]);
        command.arg("--kernel").arg(image).arg("-o").arg(&into).env("PIPEPROF_CACHE", folder.path().join(cache));
        output(command);
        ["writer", "reader", "other"]
            .map(|process| std::fs::read(into.join(format!("{process}.folded"))).expect(process))
    };
    let first = count("cache", "first");
    // The host's CPUs are busy.
    let loops: Vec<Busy> = (0..2).map(|_| Busy::start()).collect();
    let second = count("cache", "second");
    drop(loops);
    // Its snapshot is made anew.
    let other = count("other cache", "other");
    assert!(first == second, "restored guests differ");
    assert!(first == other, "guests of two snapshots differ");
}

/// A process that uses a CPU, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command whose guest is quick, in the cache `cache`.
fn roles(cache: &Path, more: &[&str]) -> Command {
    let image = kernel("6.1").image;
    let mut command = pipeprof(&["roles", "--json", "--kernel", image.to_str().expect("a path")]);
    command.args(more).env("PIPEPROF_CACHE", cache);
    command
}

/// Its standard output and error.
fn output(mut command: Command) -> (String, String) {
    let output = command.output().expect("pipeprof");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// The snapshot's folder.
fn made(cache: &Path) -> PathBuf {
    let names = listing(&cache.join("snapshots"));
    let name = names.iter().find(|name| !name.contains('.')).expect("a snapshot");
    cache.join("snapshots").join(name)
}

#[test]
#[ignore = "boots guests: make test"]
fn a_damaged_or_unfinished_snapshot_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path();
    // Kill the first one while it makes the snapshot. No other start says that it removes what is left of it.
    let mut killed =
        roles(cache, &[]).env("TMPDIR", cache).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pipeprof");
    let unfinished = || std::fs::read_dir(cache.join("snapshots")).is_ok_and(|entries| entries.count() == 2);
    assert!(wait_until(Duration::from_secs(100), unfinished));
    killed.kill().expect("SIGKILL");
    killed.wait().expect("its end");
    // Two at the same time: one of them makes it, and both use it.
    let run = || output(roles(cache, &[]));
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(run);
        (run(), other.join().expect("an output"))
    });
    assert_eq!(first.0, second.0);
    assert!(!format!("{}{}", first.1, second.1).contains("snapshot"), "{first:?}{second:?}");
    assert_eq!(listing(&cache.join("snapshots")).len(), 2, "the folder and its lock");
    let memory = std::fs::File::options().read(true).write(true).open(made(cache).join("memory")).expect("a file");
    let middle = memory.metadata().expect("its length").len() / 2;
    let mut byte = [0];
    memory.read_exact_at(&mut byte, middle).expect("a byte");
    memory.write_all_at(&[byte[0] ^ 1], middle).expect("another byte");
    let (text, said) = run();
    assert_eq!(text, first.0);
    assert!(said.contains("was booted, not restored from a snapshot: a file of it was damaged"), "{said}");
    // It is made again, and listed and removed.
    assert!(!run().1.contains("snapshot"));
    let remove = |arguments: &[&str]| {
        let mut command = pipeprof(arguments);
        command.env("PIPEPROF_CACHE", cache);
        output(command).0
    };
    assert!(remove(&["kernel", "remove", "--snapshots", "9.9"]).starts_with("removed 0 snapshots, 0 MiB of 9.9"));
    assert!(remove(&["kernel", "remove", "--snapshots"]).starts_with("removed 1 snapshot, 1"));
}

#[test]
#[ignore = "boots guests: make test"]
fn a_kernel_without_access_to_ports_is_booted() {
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        let (text, said) = output(roles(folder.path(), &["--append", "lockdown=integrity"]));
        assert!(text.contains("roles"), "{text}");
        assert!(said.contains("does not let init access the machine"), "{said}");
    }
    let state = made(folder.path()).join("state");
    assert_eq!(std::fs::metadata(state).map_or(0, |metadata| metadata.len()), 0);
}

#[test]
#[ignore = "boots guests: make test"]
fn a_cache_that_cannot_be_written_is_not_needed() {
    let (_, said) = output(roles(Path::new("/proc/nonexistent"), &[]));
    assert!(said.contains("was booted, not restored from a snapshot: cannot write"), "{said}");
}

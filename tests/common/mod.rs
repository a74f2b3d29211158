//! Shared by the tests: this build's binary, kernels by series, guests, and the state of processes.

pub(crate) mod plant;

use pipeprof::experiment::StopRule;
use pipeprof::result::{Collector, Loader, Probe, Request, Selection};
use pipeprof::vm::{GuestOptions, Job, Kernel, store::KernelCache};
use pipeprof::workload::Spec;
use pipeprof::workload::modes::Mode;
use pipeprof::workload::spec::Amount;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The kernel series that every guest test covers.
pub(crate) const SERIES: [&str; 4] = ["5.10", "6.1", "6.12", "7.2"];

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_pipeprof"))
}

/// Programs of the tests: a pipeprof with further subcommands (tests/programs).
pub(crate) fn programs() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_test-programs"))
}

/// A command that runs one of these programs.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(programs());
    command.args(arguments);
    command
}

/// The job of running a guest's own program with these arguments.
pub(crate) fn job(arguments: &[&str]) -> Job {
    Job::Command(arguments.iter().map(|word| (*word).to_owned()).collect())
}

/// A command that runs the binary with these arguments. Python buffers what programs of tests print as it does by
/// default, whatever whoever runs the tests has set: what is in a buffer is what some of them are about.
pub(crate) fn pipeprof(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("PYTHONUNBUFFERED");
    command
}

/// Copy a program. Another process does it: a test that forks at this moment would keep a copy of the descriptor, and a
/// file that is open for writing cannot be executed.
pub(crate) fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().expect("cp").success());
}

/// The kernel of a series from the user's cache. A missing one is fetched; with CI=true, where the machine is
/// prepared beforehand, it is a failure. Never skipped.
pub(crate) fn kernel(series: &str) -> Kernel {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let store = KernelCache::open().expect("a cache folder");
    if let Some(entry) = store.find(series).expect("the cache") {
        return entry.kernel();
    }
    let prepared = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!prepared, "no kernel {series} in {}: `pipeprof kernel fetch {series}` first", store.root().display());
    let status = pipeprof(&["kernel", "fetch", series]).status().expect("pipeprof");
    assert!(status.success(), "kernel {series} is not in the cache and cannot be fetched");
    store.find(series).expect("the cache").expect("fetched").kernel()
}

/// A guest of this series with this build's binary as init. If QEMU is missing, the test fails when it boots.
pub(crate) fn guest(series: &str) -> GuestOptions {
    // Long limits, because other tests may be using the machine.
    GuestOptions { init: binary(), boot_limit: Duration::from_secs(600), ..GuestOptions::of(kernel(series)) }
}

/// A guest whose init has the subcommands of [`programs`]. All have two CPUs, so that they share one snapshot.
pub(crate) fn guest_with_programs(series: &str) -> GuestOptions {
    GuestOptions { cpus: 2, init: programs(), ..guest(series) }
}

/// One pair of `workload`, profiled by `collect`.
pub(crate) fn request(workload: Spec, collect: Vec<Collector>) -> Request {
    Request {
        mode: "write".to_owned(),
        workload,
        collect: Selection::List(collect),
        loader: Loader::Libbpf,
        probe: Probe::default(),
        runs: 1,
        stop: StopRule::default(),
        seed: 1,
        memcg: true,
        command: "test".to_owned(),
    }
}

/// This number of writer calls in `mode`, after a short warm-up.
pub(crate) fn spec(mode: &str, calls: u64) -> Spec {
    let spec = Mode::find(mode).expect("a mode").spec();
    Spec { amount: Amount::Calls(calls), warmup_bytes: 4 << 20, ..spec }
}

/// The child processes of `parent`.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| stat_field(*pid, 1) == Some(parent.to_string())).collect()
}

/// Whether `pid` exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat_field(pid, 0).is_some_and(|state| state != "Z" && state != "X")
}

/// A field of /proc/PID/stat; 0 is the one after the name.
fn stat_field(pid: u32, index: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(index).map(str::to_owned)
}

/// Wait until `done` returns true; return false if it does not within `limit`.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !done() {
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// A cgroup of version 2. Dropping it moves its processes back to where this one is, and removes it.
pub(crate) struct Cgroup {
    parent: PathBuf,
    folder: PathBuf,
}

impl Cgroup {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self::named(&format!("pipeprof-test-{}-{number}", std::process::id()))
    }

    pub(crate) fn named(name: &str) -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("/proc");
        let root = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|mount| mount[2] == "cgroup2");
        let own = std::fs::read_to_string("/proc/self/cgroup").expect("/proc");
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).expect("a cgroup of version 2");
        let parent = Path::new(root.expect("cgroup2 is mounted")[1]).join(own);
        let folder = parent.join(name);
        std::fs::create_dir(&folder).expect("root may make a cgroup");
        Self { parent, folder }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.file("cgroup.freeze"), "0");
        // Processes may be starting others.
        let removed = wait_until(Duration::from_secs(60), || {
            let members = std::fs::read_to_string(self.file("cgroup.procs")).unwrap_or_default();
            for pid in members.lines() {
                let _ = std::fs::write(self.parent.join("cgroup.procs"), pid);
            }
            std::fs::remove_dir(&self.folder).is_ok()
        });
        assert!(removed || std::thread::panicking(), "{} cannot be removed", self.folder.display());
    }
}

/// The file names in a folder.
pub(crate) fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The program that `command` starts has no capability, even as root: as in a container that has none.
pub(crate) fn without_capabilities(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: prctl is safe between fork and exec. It fails for capabilities that this kernel does not have.
    unsafe {
        command.pre_exec(|| {
            for capability in 0..64 {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            Ok(())
        });
    }
}

//! One attempt: a command, a signal at a random moment, and what is left.

use super::scenarios::Scenario;
use crate::common::{Cgroup, binary, is_alive, listing, program, wait_until};
use crate::printed::KernelObjects;
use rand::Rng as _;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// All processes of an attempt have this variable in their environment.
const MARK: &str = "PIPEPROF_CHAOS_ATTEMPT";

/// A command that takes longer hangs.
const HANGS: Duration = Duration::from_secs(400);

/// Processes that live for so long after the command are left.
const LEFT: Duration = Duration::from_secs(30);

/// How long a process is stopped by SIGSTOP, or frozen.
const STOPPED: Duration = Duration::from_millis(700);

/// Who gets the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Pipeprof,
    /// A process that it started: a worker, a stage, or a helper.
    Worker,
    Qemu,
    /// It had ended before.
    Nobody,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deed {
    signal: i32,
    victim: Victim,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let victim = match self.victim {
            Victim::Pipeprof => "pipeprof",
            Victim::Worker => "a process that it started",
            Victim::Qemu => "QEMU",
            Victim::Nobody => return f.write_str("after the end"),
        };
        let signal = SIGNALS.iter().find(|(number, _)| *number == self.signal).map_or("?", |(_, name)| name);
        write!(f, "{signal} to {victim}")
    }
}

/// Instead of a signal: its cgroup is frozen for a while.
const FREEZE: i32 = -1;

const SIGNALS: [(i32, &str); 7] = [
    (FREEZE, "freezing"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGSTOP, "SIGSTOP"),
];

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Story {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Where a scenario is tried again and again.
pub(crate) struct Arena<'a> {
    pub scenario: &'a Scenario,
    folder: tempfile::TempDir,
    /// How long it took when nobody disturbed it the last time.
    takes: Cell<Duration>,
    /// What it gives then.
    result: String,
}

struct Running {
    child: Child,
    mark: String,
    folder: PathBuf,
}

impl<'a> Arena<'a> {
    /// Run `scenario` without a signal.
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let folder = tempfile::Builder::new().prefix("chaos-").tempdir().expect("a folder");
        let mut arena = Self { scenario, folder, takes: Cell::default(), result: String::new() };
        for name in ["temporary", "out", "text"] {
            std::fs::create_dir(arena.path(name)).expect("a folder");
        }
        if !scenario.makes_snapshots && scenario.line.contains("KERNEL") {
            arena.undisturbed("warm", false);
        }
        let story = arena.undisturbed("first", false);
        arena.result = (scenario.result)(&arena.output("first"), &story);
        arena
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn output(&self, name: &str) -> PathBuf {
        self.path("out").join(name)
    }

    fn start(&self, name: &str, resume: bool) -> Running {
        let mark = format!("{}-{name}", self.folder.path().display());
        let folder = self.path("text");
        let file = |what: &str| File::create(folder.join(what)).expect("a file");
        if self.scenario.makes_snapshots {
            let _ = std::fs::remove_dir_all(self.path("cache").join("snapshots"));
        }
        let mut command = Command::new(binary());
        command
            .args(self.scenario.arguments(&self.output(name), resume))
            .env(MARK, &mark)
            .env("TMPDIR", self.path("temporary"))
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"));
        if self.scenario.line.contains("KERNEL") {
            command.env("PIPEPROF_CACHE", self.path("cache"));
        }
        Running { child: command.spawn().expect("pipeprof"), mark, folder }
    }

    fn undisturbed(&self, name: &str, resume: bool) -> Story {
        let begun = Instant::now();
        let story = self.start(name, resume).ended();
        if !resume {
            self.takes.set(begun.elapsed());
        }
        assert_eq!(story.code, Some(self.scenario.code()), "{}: {story:?}", self.scenario.name);
        story
    }

    /// One attempt.
    pub(crate) fn attempt(&self, seed: u64, random: &mut SmallRng) -> Deed {
        let name = format!("attempt-{seed}");
        self.clear();
        let mut running = self.start(&name, false);
        let moment = self.takes.get().mul_f64(random.random_range(0.0..1.0));
        std::thread::sleep(moment);
        let deed = running.disturb(random);
        let what = format!("{} ({}), {deed} after {moment:?}, seed {seed}", self.scenario.name, self.scenario.line);
        let mark = running.mark.clone();
        let story = running.ended();
        // A pipeline outlives a killed recorder, and ends by itself, on a busy machine after minutes.
        let limit = if self.scenario.pipeline.is_some() { HANGS } else { LEFT };
        let gone = wait_until(limit, || processes(&mark).is_empty());
        assert!(gone, "{what}: left {:?}; {story:?}", processes(&mark));
        assert_eq!(kernel_objects(), KernelObjects::default(), "{what}");
        self.judge(&what, &name, deed, &story);
        self.repeat(&what, &name, &story, random);
        for place in ["out", "temporary"] {
            let left = listing(&self.path(place));
            let known = |entry: &String| place == "out" && ["first", "warm"].contains(&entry.as_str());
            assert!(left.iter().all(known), "{what}: left in {place}: {left:?}");
        }
        deed
    }

    /// Remove what a failed attempt has left.
    fn clear(&self) {
        for (place, keeps) in [("out", true), ("temporary", false)] {
            for entry in listing(&self.path(place)) {
                if !(keeps && ["first", "warm"].contains(&entry.as_str())) {
                    let _ = std::fs::remove_dir_all(self.path(place).join(entry));
                }
            }
        }
    }

    /// Exit code, message and folder agree.
    fn judge(&self, what: &str, name: &str, deed: Deed, story: &Story) {
        let output = self.output(name);
        let complete = || (self.scenario.result)(&output, story);
        let interrupts = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].contains(&deed.signal);
        match deed.victim {
            // It was resumed, or had ended: as if nothing had happened.
            Victim::Nobody => assert_eq!(complete(), self.result, "{what}: {story:?}"),
            Victim::Pipeprof if deed.signal == libc::SIGKILL => assert_eq!(story.signal, Some(libc::SIGKILL), "{what}"),
            Victim::Pipeprof if interrupts && story.code != Some(self.scenario.code()) => {
                // At the very start, nothing catches the signal yet.
                let ended = story.code.or(story.signal.map(|signal| 128 + signal));
                assert_eq!(ended, Some(128 + deed.signal), "{what}: {story:?}");
            }
            _ if [libc::SIGSTOP, libc::SIGPIPE, FREEZE].contains(&deed.signal) && deed.victim == Victim::Pipeprof => {
                assert_eq!(complete(), self.result, "{what}: {story:?}");
            }
            _ => {}
        }
        if story.code == Some(self.scenario.code()) && self.scenario.pipeline.is_none() {
            complete();
        } else if story.signal.is_none() && self.scenario.pipeline.is_none() {
            let last = story.stderr.lines().rfind(|line| !line.starts_with(' ')).unwrap_or_default();
            assert!(last.starts_with("pipeprof: "), "{what}: {story:?}");
        }
        assert!(!story.stderr.contains("panicked"), "{what}: {story:?}");
        // What is there is whole. A folder that can be resumed is not.
        if output.exists() && !self.scenario.resumes && story.code != Some(self.scenario.code()) {
            assert!(self.scenario.pipeline.is_some(), "{what}: {:?}", listing(&output));
            assert!(output.join("result.json").exists(), "{what}: {:?}", listing(&output));
        }
    }

    /// The same command, undisturbed, gives the same, and cleans up.
    fn repeat(&self, what: &str, name: &str, story: &Story, random: &mut SmallRng) {
        let output = self.output(name);
        let resume = self.scenario.resumes && output.exists();
        if output.exists() && !resume {
            std::fs::remove_dir_all(&output).expect("a folder");
        }
        if resume {
            self.resume_with_a_fifo(what, name, random);
        }
        let hidden = |place: &str| listing(&self.path(place)).iter().filter(|entry| entry.contains("pipeprof")).count();
        let left = hidden("out") + hidden("temporary");
        let finished = resume && story.code == Some(0);
        let next = if finished { None } else { Some(self.undisturbed(name, resume)) };
        if let Some(next) = &next {
            assert_eq!((self.scenario.result)(&output, next), self.result, "{what}, then: {next:?}");
            assert!(left == 0 || next.stderr.contains("removed"), "{what}: {left} left, then: {next:?}");
        }
        let _ = std::fs::remove_dir_all(&output);
    }
}

impl Arena<'_> {
    /// A FIFO in the place of a stored file does not stop who resumes.
    fn resume_with_a_fifo(&self, what: &str, name: &str, random: &mut SmallRng) {
        let copy = format!("{name}-with-a-fifo");
        let folder = self.output(&copy);
        let copied = Command::new("cp").arg("-a").args([&self.output(name), &folder]).status();
        assert!(copied.is_ok_and(|status| status.success()), "{what}");
        if let Some(file) = files(&folder).choose(random) {
            std::fs::remove_file(file).expect("a file");
            let made = Command::new("mkfifo").arg(file).status();
            assert!(made.is_ok_and(|status| status.success()), "{what}");
            let story = self.start(&copy, true).ended();
            let whole = story.signal.is_none() && !story.stderr.contains("panicked");
            assert!(whole, "{what}, then a FIFO as {}: {story:?}", file.display());
        }
        std::fs::remove_dir_all(&folder).expect("a folder");
    }
}

impl Running {
    fn disturb(&mut self, random: &mut SmallRng) -> Deed {
        let (signal, _) = *SIGNALS.choose(random).expect("signals");
        let victims = [Victim::Pipeprof, Victim::Worker, Victim::Qemu];
        let wanted = *victims.choose(random).expect("victims");
        let number: usize = random.random_range(0..1000);
        let own = self.child.id();
        if self.child.try_wait().expect("a child").is_some() {
            return Deed { signal: 0, victim: Victim::Nobody };
        }
        let is_qemu = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
        };
        let (qemus, others): (Vec<u32>, Vec<u32>) =
            processes(&self.mark).into_iter().filter(|pid| *pid != own).partition(is_qemu);
        let (pid, victim) = match wanted {
            Victim::Qemu if !qemus.is_empty() => (qemus[number % qemus.len()], wanted),
            Victim::Worker if !others.is_empty() => (others[number % others.len()], wanted),
            _ => (own, Victim::Pipeprof),
        };
        if signal == FREEZE {
            freeze(pid);
            return Deed { signal, victim };
        }
        // SAFETY: a process that this test started, or one of its children: they carry its mark.
        unsafe { libc::kill(pid.cast_signed(), signal) };
        if signal == libc::SIGSTOP {
            std::thread::sleep(STOPPED);
            // SAFETY: as above.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGCONT) };
        }
        Deed { signal, victim }
    }

    /// Wait for its end.
    fn ended(mut self) -> Story {
        let mut status = None;
        let ended = wait_until(HANGS, || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        let text =
            |name: &str| String::from_utf8_lossy(&std::fs::read(self.folder.join(name)).unwrap_or_default()).into();
        if !ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
            panic!("it hangs: {:?}", text("stderr") as String);
        }
        let status = status.expect("an end");
        Story { code: status.code(), signal: status.signal(), stdout: text("stdout"), stderr: text("stderr") }
    }
}

/// The regular files in a folder and below.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort();
    found
}

/// Freeze a process for a while, with those that it starts meanwhile.
fn freeze(pid: u32) {
    let cgroup = Cgroup::new();
    // It may have ended.
    let _ = std::fs::write(cgroup.file("cgroup.procs"), pid.to_string());
    std::fs::write(cgroup.file("cgroup.freeze"), "1").expect("a cgroup");
    std::thread::sleep(STOPPED);
    std::fs::write(cgroup.file("cgroup.freeze"), "0").expect("a cgroup");
}

/// The living processes with `mark` in their environment.
fn processes(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let marked = |pid: &u32| {
        let environment = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    pids.filter(|pid| marked(pid) && is_alive(*pid)).collect()
}

/// The BPF programs, tracefs instances and probes that collectors have left.
fn kernel_objects() -> KernelObjects {
    let mut left = KernelObjects::default();
    // The kernel removes programs some time after their process.
    wait_until(LEFT, || {
        let output = program(&["kernel-objects"]).output().expect("a program");
        left = serde_json::from_slice(&output.stdout).expect("a list");
        left.is_empty()
    });
    left
}

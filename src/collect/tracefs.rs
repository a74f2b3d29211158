//! Change settings in tracefs, restore them, and remove what a killed run left there.

use super::owner;
use crate::kernel::tracefs::Tracefs;
use crate::util::{atomic_file, progress, stored_json};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Prefix of this program's instances; their owner follows ([`owner::own`]).
const PREFIX: &str = "pipeprof-";
/// The same for groups of probes, whose names may not contain a dash.
const GROUP: &str = "pipeprof_";
/// Record of the top-level tracer's previous state, for the next start. Removed after a normal end.
const STATE: &str = "/run/pipeprof-tracer.json";
/// The tracers that can be set in a folder: an instance lists only those that are allowed in instances.
const TRACERS: &str = "available_tracers";

/// Remove what killed runs left. Returns messages about what was removed and what could not be removed.
pub fn clean_up(tracefs: &Tracefs) -> Vec<String> {
    clean_up_in(tracefs.root(), Path::new(STATE), &owner::is_dead)
}

fn clean_up_in(root: &Path, state: &Path, is_dead: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut report = remove_dead_instances(root, is_dead);
    report.extend(remove_dead_probes(root, is_dead));
    report.extend(restore_after_kill(root, state, is_dead));
    report
}

fn remove_dead_instances(root: &Path, is_dead: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut report = Vec::new();
    for entry in std::fs::read_dir(root.join("instances")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix(PREFIX).is_some_and(is_dead) {
            report.push(match remove_instance(&entry.path()) {
                Ok(()) => format!("removed the tracefs instance {name} of a run that was killed"),
                Err(error) => format!("cannot remove what a killed run left: {error:#}; the next run tries again"),
            });
        }
    }
    report
}

/// Remove a tracefs instance; its tracer must be stopped first.
fn remove_instance(folder: &Path) -> Result<()> {
    let ended = write(&folder.join("current_tracer"), "nop");
    std::fs::remove_dir(folder).with_context(|| match ended {
        Ok(()) => format!("remove {}", name(folder)),
        Err(error) => format!("{error:#}; remove {}", name(folder)),
    })
}

fn remove_dead_probes(root: &Path, is_dead: &dyn Fn(&str) -> bool) -> Vec<String> {
    let path = root.join("kprobe_events");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let dead = dead_probes(&text, is_dead);
    let (total, failures) = (dead.len(), remove_probes(root, &dead));
    let removed = total - failures.len();
    let mut report = Vec::new();
    if removed > 0 {
        report.push(format!(
            "removed {removed} {} of a run that was killed",
            if removed == 1 { "probe" } else { "probes" }
        ));
    }
    if let Some(first) = failures.first() {
        report.push(format!(
            "cannot remove {} of {total} probes of a run that was killed ({first}); the next run tries again",
            failures.len()
        ));
    }
    report
}

/// Remove probes from `kprobe_events`. Returns the failures.
fn remove_probes(root: &Path, probes: &[String]) -> Vec<String> {
    let remove = |probe: &String| append(&root.join("kprobe_events"), &format!("-:{probe}")).err();
    probes.iter().filter_map(remove).map(|error| format!("{error:#}")).collect()
}

fn restore_after_kill(root: &Path, state: &Path, is_dead: &dyn Fn(&str) -> bool) -> Option<String> {
    let text = std::fs::read_to_string(state).ok()?;
    let Ok(saved) = stored_json::parse::<Saved>(text.as_bytes()) else {
        let _ = std::fs::remove_file(state);
        let current = read(&root.join("current_tracer")).unwrap_or_default();
        return Some(format!(
            "removed the unreadable file {}: if no other program is tracing, set current_tracer ({current}) to nop",
            state.display()
        ));
    };
    if !is_dead(&saved.owner) {
        return None;
    }
    Some(match saved.restore(root, state) {
        Ok(()) => format!("restored the tracer to {} after a run that was killed", saved.value("current_tracer")),
        Err(error) => format!("{error:#}"),
    })
}

/// The probes in a `kprobe_events` (`r256:GROUP/NAME function`) whose process is gone.
fn dead_probes(text: &str, is_dead: &dyn Fn(&str) -> bool) -> Vec<String> {
    let dead = |line: &str| {
        let probe = line.split_once(':')?.1.split(' ').next()?;
        let owner = probe.strip_prefix(GROUP)?.split('/').next()?;
        is_dead(owner).then(|| probe.to_owned())
    };
    text.lines().filter_map(dead).collect()
}

/// Return probes for many simultaneous calls, which only tracefs can create. Elsewhere the kernel limits them to about
/// ten, and without preemption (up to 6.1) to one per CPU, which sleeping callers use up. Dropping this removes the
/// probes; programs must be detached before.
#[derive(Debug)]
pub(crate) struct ReturnProbes {
    tracefs: Tracefs,
    made: Vec<String>,
}

impl ReturnProbes {
    /// An empty set.
    pub(crate) fn open() -> Result<Self> {
        Ok(Self { tracefs: Tracefs::open()?, made: Vec::new() })
    }

    /// Create a probe on `symbol` for `room` simultaneous calls by all processes together. Returns its number, which
    /// the perf_event interface uses as a tracepoint's.
    pub(crate) fn add(&mut self, slot: usize, symbol: &str, room: u32) -> Result<u64> {
        let probe = format!("{GROUP}{}/f{slot}", owner::own());
        append(&self.tracefs.root().join("kprobe_events"), &format!("r{room}:{probe} {symbol}"))?;
        self.made.push(probe.clone());
        let id = self.tracefs.root().join("events").join(&probe).join("id");
        read(&id)?.parse().with_context(|| format!("{} is not a number", name(&id)))
    }

    /// Whether none was made.
    pub(crate) fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// Remove the probes. Returns the failures, which the next run retries.
    #[must_use]
    pub(crate) fn close(mut self) -> Vec<String> {
        self.remove()
    }

    fn remove(&mut self) -> Vec<String> {
        remove_probes(self.tracefs.root(), &std::mem::take(&mut self.made))
    }
}

impl Drop for ReturnProbes {
    fn drop(&mut self) {
        for failure in self.remove() {
            progress::problem(&format!("cannot remove a probe: {failure}; the next run tries again"));
        }
    }
}

/// Write `value` to a control file in one call. An empty value clears it.
pub fn write(path: &Path, value: &str) -> Result<()> {
    let file = std::fs::OpenOptions::new().write(true).truncate(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()));
    written.with_context(|| format!("write {value:?} to {}", name(path)))
}

/// Append a line to a control file that contains a list.
fn append(path: &Path, line: &str) -> Result<()> {
    let file = std::fs::OpenOptions::new().append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.with_context(|| format!("write {line:?} to {}", name(path)))
}

/// Read a control file.
pub fn read(path: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(path).with_context(|| format!("read {}", name(path)))?.trim().to_owned())
}

fn name(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.strip_prefix("/proc/self/fd/").map_or_else(|| text.clone().into_owned(), |rest| format!("tracefs:{rest}"))
}

/// Values of control files, restored in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    /// The process that changes them.
    owner: String,
    values: Vec<(String, String)>,
}

impl Saved {
    /// The current values of `files` below `root`. Files that do not exist in this kernel are skipped.
    fn of(root: &Path, files: &[&str]) -> Self {
        let value = |file: &&str| Some(((*file).to_owned(), read(&root.join(file)).ok()?));
        Self { owner: owner::own(), values: files.iter().filter_map(value).collect() }
    }

    fn value(&self, file: &str) -> &str {
        self.values.iter().find(|(name, _)| name == file).map_or("", |(_, value)| value)
    }

    /// Restore the values, then remove the record. If a value cannot be restored, the record stays, and the next run
    /// retries.
    fn restore(&self, root: &Path, state: &Path) -> Result<()> {
        let mut failures = Vec::new();
        failures.extend(write(&root.join("tracing_on"), "0").err());
        for (file, value) in &self.values {
            failures.extend(write(&root.join(file), &to_write(file, value)).err());
        }
        if failures.is_empty() {
            return match std::fs::remove_file(state) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("remove {}", state.display()))
                }
                _ => Ok(()),
            };
        }
        let failures: Vec<String> = failures.iter().map(|error| format!("{error:#}")).collect();
        anyhow::bail!(
            "cannot restore the tracer: {}; the previous values stay in {}, and the next run tries again",
            failures.join("; "),
            state.display()
        )
    }
}

/// The text to write so that a file contains `value` again. Some files show text that they do not accept.
fn to_write(file: &str, value: &str) -> String {
    match file {
        // `no pid`, or one id per line.
        "set_ftrace_pid" | "set_ftrace_notrace_pid" if value.starts_with("no ") => String::new(),
        "set_ftrace_pid" | "set_ftrace_notrace_pid" => value.split_whitespace().collect::<Vec<_>>().join(" "),
        // `7 (expanded: 1408)` while nothing has been traced yet.
        "buffer_size_kb" => value.split_whitespace().next().unwrap_or_default().to_owned(),
        // A star means that another user enabled the event too.
        file if file.starts_with("events/") => value.trim_end_matches('*').to_owned(),
        _ => value.to_owned(),
    }
}

/// A tracefs folder to trace in: an instance if the kernel allows the tracer there, otherwise the top folder. Dropping
/// it restores everything.
#[derive(Debug)]
pub(crate) struct Session {
    folder: PathBuf,
    /// The previous state of the top-level tracer; absent for an instance, which is removed.
    saved: Option<Saved>,
    /// The record of `saved`.
    state: PathBuf,
    open: bool,
}

/// The files that a session changes. Settings that the tracer needs come before it, `tracing_on` is last.
const CHANGED: [&str; 10] = [
    "current_tracer",
    "set_ftrace_pid",
    "set_ftrace_notrace_pid",
    "options/overwrite",
    "options/sleep-time",
    "options/function-fork",
    "events/sched/sched_process_fork/enable",
    "events/sched/sched_process_exec/enable",
    "buffer_size_kb",
    "tracing_on",
];

impl Session {
    /// A folder in which `tracer` can be set. Tracing is off in it.
    pub(crate) fn open(tracefs: &Tracefs, tracer: &str) -> Result<Self> {
        Self::open_in(tracefs.root(), tracer, Path::new(STATE))
    }

    fn open_in(root: &Path, tracer: &str, state: &Path) -> Result<Self> {
        let lists = |tracers: &str| tracers.split_whitespace().any(|name| name == tracer);
        let tracers = read(&root.join(TRACERS))?;
        anyhow::ensure!(
            lists(&tracers),
            "this kernel has no {tracer} tracer (available: {tracers}): use a guest, add --kernel NAME"
        );
        let folder = root.join("instances").join(format!("{PREFIX}{}", owner::own()));
        if std::fs::create_dir(&folder).is_ok() {
            let instance = Self { folder, saved: None, state: state.to_owned(), open: true };
            write(&instance.folder.join("tracing_on"), "0")?;
            // Most kernels allow the tracer in the top folder only. Setting it to find out would patch all functions.
            if read(&instance.folder.join(TRACERS)).is_ok_and(|tracers| lists(&tracers)) {
                return Ok(instance);
            }
        }
        // If an earlier session of this process could not restore its values, those are the ones to restore.
        if let Some(kept) =
            std::fs::read_to_string(state).ok().and_then(|text| stored_json::parse::<Saved>(text.as_bytes()).ok())
            && kept.owner == owner::own()
        {
            kept.restore(root, state)?;
        }
        let current = read(&root.join("current_tracer"))?;
        anyhow::ensure!(
            current == "nop",
            "ftrace is in use (current_tracer is {current}) and this kernel allows {tracer} only once: \
             end the other tracing, or `echo nop > {}`",
            name(&root.join("current_tracer"))
        );
        let saved = Saved::of(root, &CHANGED);
        let text = stored_json::stored_text(&saved)?;
        if let Some(folder) = state.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        atomic_file::write(state, text.as_bytes())
            .with_context(|| format!("remember the tracer's state in {}", state.display()))?;
        let session = Self { folder: root.to_owned(), saved: Some(saved), state: state.to_owned(), open: true };
        session.set("tracing_on", "0")?;
        Ok(session)
    }

    pub(crate) fn is_instance(&self) -> bool {
        self.saved.is_none()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Write one of its control files.
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<()> {
        write(&self.folder.join(file), value)
    }

    /// Stop tracing and restore everything. The record stays for the next run.
    pub(crate) fn close(mut self) -> Result<()> {
        self.restore()
    }

    fn restore(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        match &self.saved {
            Some(saved) => saved.restore(&self.folder, &self.state),
            None => {
                let _ = self.set("tracing_on", "0");
                remove_instance(&self.folder).context("the next run tries again")
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            progress::problem(&format!("{error:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_files_take_them() {
        assert_eq!(to_write("set_ftrace_pid", "no pid"), "");
        assert_eq!(to_write("set_ftrace_pid", "12\n34"), "12 34");
        assert_eq!(to_write("buffer_size_kb", "7 (expanded: 1408)"), "7");
        assert_eq!(to_write("current_tracer", "nop"), "nop");
        assert_eq!(to_write("events/sched/sched_process_fork/enable", "0*"), "0");
    }

    #[test]
    fn probes_of_the_dead_are_found() {
        let text = "r256:pipeprof_77_1/f3 schedule\np:kprobes/other do_exit\nr256:pipeprof_5_9/f1 vfs_write\nr:pipeprof_x/f1 a\n";
        assert_eq!(dead_probes(text, &|owner| owner == "77_1"), ["pipeprof_77_1/f3"]);
    }

    /// A folder with the control files that a session in the top folder changes. No instance accepts a tracer.
    fn fake() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        for (file, value) in [
            ("available_tracers", "function_graph nop"),
            ("current_tracer", "nop"),
            ("tracing_on", "1"),
            ("set_ftrace_pid", "no pid"),
            ("buffer_size_kb", "7"),
        ] {
            std::fs::write(folder.path().join(file), format!("{value}\n")).unwrap();
        }
        let state = folder.path().join("record");
        (folder, state)
    }

    /// Make writes to a control file fail, even for root.
    fn break_file(path: &Path) {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
    }

    fn mend_file(path: &Path, value: &str) {
        std::fs::remove_dir(path).unwrap();
        std::fs::write(path, value).unwrap();
    }

    #[test]
    fn values_that_cannot_be_restored_are_reported_and_stay_recorded() {
        let (folder, state) = fake();
        let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap();
        let session = Session::open_in(folder.path(), "function_graph", &state).unwrap();
        assert!(!session.is_instance());
        assert!(state.exists());
        session.set("current_tracer", "function_graph").unwrap();
        session.set("set_ftrace_pid", "12").unwrap();
        let broken = folder.path().join("set_ftrace_pid");
        break_file(&broken);
        let error = session.close().unwrap_err().to_string();
        assert!(error.contains("set_ftrace_pid") && error.contains("record"), "{error}");
        assert_eq!(read("current_tracer"), "nop\n", "what can be restored is");
        assert!(state.exists(), "{error}");

        // Each run reports the failure until restoring succeeds; then the record is removed.
        let report = clean_up_in(folder.path(), &state, &|_| true);
        assert!(report.len() == 1 && report[0].contains("cannot restore the tracer"), "{report:?}");
        assert!(state.exists());
        mend_file(&broken, "12\n");
        let report = clean_up_in(folder.path(), &state, &|_| true);
        assert!(report.len() == 1 && report[0].contains("restored the tracer to nop"), "{report:?}");
        assert_eq!(read("set_ftrace_pid"), "\n");
        assert!(!state.exists());
    }

    #[test]
    fn the_same_run_restores_what_it_kept_before_it_traces_again() {
        let (folder, state) = fake();
        let session = Session::open_in(folder.path(), "function_graph", &state).unwrap();
        session.set("buffer_size_kb", "4096").unwrap();
        let broken = folder.path().join("buffer_size_kb");
        break_file(&broken);
        drop(session);
        assert!(Session::open_in(folder.path(), "function_graph", &state).is_err());
        mend_file(&broken, "4096\n");
        let session = Session::open_in(folder.path(), "function_graph", &state).unwrap();
        session.close().unwrap();
        let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(read("buffer_size_kb"), "7\n", "not the value that the first session set");
        assert_eq!(read("tracing_on"), "1\n");
    }

    #[test]
    fn an_instance_that_cannot_be_removed_is_reported() {
        let (folder, state) = fake();
        let instance = folder.path().join("instances").join(format!("{PREFIX}77_1"));
        std::fs::create_dir_all(instance.join("busy")).unwrap();
        let report = clean_up_in(folder.path(), &state, &|owner| owner == "77_1");
        assert!(report.len() == 1 && report[0].contains("cannot remove"), "{report:?}");
        std::fs::remove_dir(instance.join("busy")).unwrap();
        let report = clean_up_in(folder.path(), &state, &|owner| owner == "77_1");
        assert!(report.len() == 1 && report[0].contains("removed the tracefs instance"), "{report:?}");
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_of_a_tracer_is_read(owner: String, values: Vec<(String, String)>) {
            let saved = Saved { owner, values };
            let text = stored_json::stored_text(&saved).unwrap();
            proptest::prop_assert_eq!(stored_json::parse::<Saved>(text.as_bytes()).unwrap(), saved);
        }
    }
}

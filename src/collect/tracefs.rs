//! What is changed in tracefs, and how it is put back; also what a killed run left there.

use super::owner;
use crate::kernel::tracefs::Tracefs;
use crate::util::atomic_file;
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What instances of this program are called, in front of their owner ([`owner::own`]).
const PREFIX: &str = "pipeprof-";
/// The same of groups of probes, whose names allow no dash.
const GROUP: &str = "pipeprof_";
/// Remembers, for the next start, what the top-level tracer was before; gone after an orderly end.
const STATE: &str = "/run/pipeprof-tracer.json";

/// Remove what runs that were killed left behind. Says what was removed.
pub fn clean_up(tracefs: &Tracefs) -> Vec<String> {
    let mut removed = Vec::new();
    for entry in std::fs::read_dir(tracefs.root().join("instances")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix(PREFIX).is_some_and(owner::is_dead) {
            // Its tracer has to end before it can go.
            let _ = write(&entry.path().join("current_tracer"), "nop");
            if std::fs::remove_dir(entry.path()).is_ok() {
                removed.push(format!("removed the tracefs instance {name} of a run that was killed"));
            }
        }
    }
    removed.extend(remove_dead_probes(tracefs));
    removed.extend(put_back_after_kill(tracefs));
    removed
}

fn remove_dead_probes(tracefs: &Tracefs) -> Option<String> {
    let path = tracefs.root().join("kprobe_events");
    let text = std::fs::read_to_string(&path).ok()?;
    let dead = dead_probes(&text, owner::is_dead);
    for probe in &dead {
        let _ = append(&path, &format!("-:{probe}"));
    }
    (!dead.is_empty()).then(|| format!("removed {} probes of a run that was killed", dead.len()))
}

fn put_back_after_kill(tracefs: &Tracefs) -> Option<String> {
    let text = std::fs::read_to_string(STATE).ok()?;
    let Ok(saved) = serde_json::from_str::<Saved>(&text) else {
        let _ = std::fs::remove_file(STATE);
        let current = read(&tracefs.root().join("current_tracer")).unwrap_or_default();
        return Some(format!(
            "removed {STATE}, which cannot be read: if nothing else traces, current_tracer ({current}) is to be nop"
        ));
    };
    if !owner::is_dead(&saved.owner) {
        return None;
    }
    saved.put_back(tracefs.root());
    let _ = std::fs::remove_file(STATE);
    Some(format!("put the tracer back to {} after a run that was killed", saved.value("current_tracer")))
}

/// The probes in a `kprobe_events` (`r256:GROUP/NAME function`) whose process is gone.
fn dead_probes(text: &str, is_dead: impl Fn(&str) -> bool) -> Vec<String> {
    let dead = |line: &str| {
        let probe = line.split_once(':')?.1.split(' ').next()?;
        let owner = probe.strip_prefix(GROUP)?.split('/').next()?;
        is_dead(owner).then(|| probe.to_owned())
    };
    text.lines().filter_map(dead).collect()
}

/// Return probes with room for many calls at once, which only tracefs can give: elsewhere the kernel decides, for ten
/// calls or so, without preemption (up to 6.1) for one per CPU, so that sleeping callers take it from all others.
/// Dropping this removes them; what is attached to them has to be gone by then.
#[derive(Debug)]
pub struct ReturnProbes {
    tracefs: Tracefs,
    made: Vec<String>,
}

impl ReturnProbes {
    /// None yet.
    ///
    /// # Errors
    /// When there is no tracefs.
    pub fn open() -> Result<Self> {
        Ok(Self { tracefs: Tracefs::open()?, made: Vec::new() })
    }

    /// Make one on `symbol`, with room for `room` calls at once, by all processes together; its number is that of a
    /// tracepoint to the perf_event interface.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add(&mut self, slot: usize, symbol: &str, room: u32) -> Result<u64> {
        let probe = format!("{GROUP}{}/f{slot}", owner::own());
        append(&self.tracefs.root().join("kprobe_events"), &format!("r{room}:{probe} {symbol}"))?;
        self.made.push(probe.clone());
        let id = self.tracefs.root().join("events").join(&probe).join("id");
        read(&id)?.parse().with_context(|| format!("{} is no number", name(&id)))
    }
}

impl Drop for ReturnProbes {
    fn drop(&mut self) {
        for probe in &self.made {
            let _ = append(&self.tracefs.root().join("kprobe_events"), &format!("-:{probe}"));
        }
    }
}

/// Write `value` to a control file, in one call. An empty value clears.
///
/// # Errors
/// The kernel's, with the file's name.
pub fn write(path: &Path, value: &str) -> Result<()> {
    let file = std::fs::OpenOptions::new().write(true).truncate(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()));
    written.with_context(|| format!("write {value:?} to {}", name(path)))
}

/// Add a line to a control file that is a list.
fn append(path: &Path, line: &str) -> Result<()> {
    let file = std::fs::OpenOptions::new().append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.with_context(|| format!("write {line:?} to {}", name(path)))
}

/// Read a control file.
///
/// # Errors
/// The kernel's, with the file's name.
pub fn read(path: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(path).with_context(|| format!("read {}", name(path)))?.trim().to_owned())
}

fn name(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.strip_prefix("/proc/self/fd/").map_or_else(|| text.clone().into_owned(), |rest| format!("tracefs:{rest}"))
}

/// Values of control files, to be written back in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    /// Who changes them.
    owner: String,
    values: Vec<(String, String)>,
}

impl Saved {
    /// The values that `files` below `root` have now. Files that this kernel has not are left out.
    fn of(root: &Path, files: &[&str]) -> Self {
        let value = |file: &&str| Some(((*file).to_owned(), read(&root.join(file)).ok()?));
        Self { owner: owner::own(), values: files.iter().filter_map(value).collect() }
    }

    fn value(&self, file: &str) -> &str {
        self.values.iter().find(|(name, _)| name == file).map_or("", |(_, value)| value)
    }

    fn put_back(&self, root: &Path) {
        let _ = write(&root.join("tracing_on"), "0");
        for (file, value) in &self.values {
            let _ = write(&root.join(file), &to_write(file, value));
        }
    }
}

/// What to write so that a file reads `value` again: some files read as words that they do not take.
fn to_write(file: &str, value: &str) -> String {
    match file {
        // `no pid`, or one id per line.
        "set_ftrace_pid" if value.starts_with("no ") => String::new(),
        "set_ftrace_pid" => value.split_whitespace().collect::<Vec<_>>().join(" "),
        // `7 (expanded: 1408)` while nothing has been traced yet.
        "buffer_size_kb" => value.split_whitespace().next().unwrap_or_default().to_owned(),
        _ => value.to_owned(),
    }
}

/// A folder of control files to trace in: an instance where the kernel allows the tracer there, else the top one.
/// Dropping it puts everything back.
#[derive(Debug)]
pub struct Session {
    folder: PathBuf,
    /// What the top-level tracer was before; absent for an instance, which just goes.
    saved: Option<Saved>,
}

/// The files that a session changes. `tracing_on` comes last, and what the tracer needs goes before it.
const CHANGED: [&str; 6] =
    ["current_tracer", "set_ftrace_pid", "options/overwrite", "options/sleep-time", "buffer_size_kb", "tracing_on"];

impl Session {
    /// A place where `tracer` can be set. Tracing is off in it.
    ///
    /// # Errors
    /// When the kernel has no such tracer, or someone else uses the only place for it.
    pub fn open(tracefs: &Tracefs, tracer: &str) -> Result<Self> {
        let tracers = read(&tracefs.root().join("available_tracers"))?;
        anyhow::ensure!(
            tracers.split_whitespace().any(|name| name == tracer),
            "this kernel has no {tracer} tracer (available: {tracers}): run inside one that has, with --kernel"
        );
        let folder = tracefs.root().join("instances").join(format!("{PREFIX}{}", owner::own()));
        if std::fs::create_dir(&folder).is_ok() {
            let instance = Self { folder, saved: None };
            write(&instance.folder.join("tracing_on"), "0")?;
            // Tried and taken back: most kernels allow it at the top only.
            if write(&instance.folder.join("current_tracer"), tracer).is_ok() {
                write(&instance.folder.join("current_tracer"), "nop")?;
                return Ok(instance);
            }
        }
        let root = tracefs.root().to_owned();
        let current = read(&root.join("current_tracer"))?;
        anyhow::ensure!(
            current == "nop",
            "ftrace is in use (current_tracer is {current}) and this kernel has {tracer} once only: \
             end the other tracing, or `echo nop > {}`",
            name(&root.join("current_tracer"))
        );
        let saved = Saved::of(&root, &CHANGED);
        let text = serde_json::to_string(&saved)?;
        if let Some(folder) = Path::new(STATE).parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        atomic_file::write(Path::new(STATE), text.as_bytes())
            .with_context(|| format!("remember the tracer's state in {STATE}"))?;
        let session = Self { folder: root, saved: Some(saved) };
        session.set("tracing_on", "0")?;
        Ok(session)
    }

    /// Whether it is an instance of its own.
    #[must_use]
    pub fn is_instance(&self) -> bool {
        self.saved.is_none()
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Write one of its control files.
    ///
    /// # Errors
    /// The kernel's, with the file's name.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        write(&self.folder.join(file), value)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        match &self.saved {
            Some(saved) => {
                saved.put_back(&self.folder);
                let _ = std::fs::remove_file(STATE);
            }
            None => {
                let _ = self.set("tracing_on", "0");
                let _ = self.set("current_tracer", "nop");
                let _ = std::fs::remove_dir(&self.folder);
            }
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
    }

    #[test]
    fn a_session_at_the_top_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file: &str, value: &str| std::fs::write(folder.path().join(file), value).unwrap();
        put("current_tracer", "nop\n");
        put("tracing_on", "1\n");
        put("set_ftrace_pid", "no pid\n");
        let saved = Saved::of(folder.path(), &CHANGED);
        assert_eq!(saved.values.len(), 3, "files that are not there are left out");
        put("current_tracer", "function_graph\n");
        saved.put_back(folder.path());
        let value = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(value("current_tracer"), "nop\n");
        assert_eq!(value("tracing_on"), "1\n");
        assert_eq!(value("set_ftrace_pid"), "\n");
    }

    #[test]
    fn probes_of_the_dead_are_found() {
        let text = "r256:pipeprof_77_1/f3 schedule\np:kprobes/other do_exit\nr256:pipeprof_5_9/f1 vfs_write\nr:pipeprof_x/f1 a\n";
        assert_eq!(dead_probes(text, |owner| owner == "77_1"), ["pipeprof_77_1/f3"]);
    }
}

//! tracefs: where it is, what is changed in it, and how it is put back; also what a killed run left there.

use crate::kernel::namespace::PidNamespace;
use anyhow::{Context as _, Result, anyhow};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// Where tracefs is mounted, if it is.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What instances of this program are called, in front of their [`owner`].
const PREFIX: &str = "pipeprof-";
/// The same of groups of probes, whose names allow no dash.
const GROUP: &str = "pipeprof_";
/// Remembers, for the next start, what the top-level tracer was before; gone after an orderly end.
const STATE: &str = "/run/pipeprof-tracer.json";

/// tracefs, mounted by someone or privately by this process.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Find it, or mount it where only this process sees it.
    ///
    /// # Errors
    /// When neither is possible: why, and what would help.
    pub fn open() -> Result<Self> {
        for root in MOUNTED {
            if Path::new(root).join("current_tracer").exists() {
                return Ok(Self { root: root.into(), _mount: None });
            }
        }
        let mount = || {
            let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        let mount = mount().map_err(|error: rustix::io::Errno| {
            anyhow!("tracefs is not mounted and cannot be ({error}): run as root, or inside a guest with --kernel")
        })?;
        let root = format!("/proc/self/fd/{}", mount.as_raw_fd()).into();
        Ok(Self { root, _mount: Some(mount) })
    }

    /// Its top folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Remove what runs that were killed left behind. Says what was removed.
    pub fn clean_up(&self) -> Vec<String> {
        let mut removed = Vec::new();
        for entry in std::fs::read_dir(self.root.join("instances")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.strip_prefix(PREFIX).and_then(pid_of).is_some_and(|pid| !alive(pid)) {
                // Its tracer has to end before it can go.
                let _ = write(&entry.path().join("current_tracer"), "nop");
                if std::fs::remove_dir(entry.path()).is_ok() {
                    removed.push(format!("removed the tracefs instance {name} of a run that was killed"));
                }
            }
        }
        removed.extend(self.remove_dead_probes());
        removed.extend(self.put_back_after_kill());
        removed
    }

    fn remove_dead_probes(&self) -> Option<String> {
        let path = self.root.join("kprobe_events");
        let text = std::fs::read_to_string(&path).ok()?;
        let dead = dead_probes(&text, alive);
        for probe in &dead {
            let _ = append(&path, &format!("-:{probe}"));
        }
        (!dead.is_empty()).then(|| format!("removed {} probes of a run that was killed", dead.len()))
    }

    fn put_back_after_kill(&self) -> Option<String> {
        // Who saved the state is named by its number in the first namespace.
        if PidNamespace::own().is_some() {
            return None;
        }
        let text = std::fs::read_to_string(STATE).ok()?;
        let saved: Saved = serde_json::from_str(&text).ok()?;
        if alive(saved.pid) {
            return None;
        }
        saved.put_back(&self.root);
        let _ = std::fs::remove_file(STATE);
        Some(format!("put the tracer back to {} after a run that was killed", saved.value("current_tracer")))
    }
}

/// The probes in a `kprobe_events` (`r256:GROUP/NAME function`) whose process is gone.
fn dead_probes(text: &str, alive: impl Fn(u32) -> bool) -> Vec<String> {
    let dead = |line: &str| {
        let probe = line.split_once(':')?.1.split(' ').next()?;
        let pid = probe.strip_prefix(GROUP)?.split('/').next().and_then(pid_of)?;
        (!alive(pid)).then(|| probe.to_owned())
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
        let probe = format!("{GROUP}{}/f{slot}", owner());
        append(&self.tracefs.root.join("kprobe_events"), &format!("r{room}:{probe} {symbol}"))?;
        self.made.push(probe.clone());
        let id = self.tracefs.root.join("events").join(&probe).join("id");
        read(&id)?.parse().with_context(|| format!("{} is no number", name(&id)))
    }
}

impl Drop for ReturnProbes {
    fn drop(&mut self) {
        for probe in &self.made {
            let _ = append(&self.tracefs.root.join("kprobe_events"), &format!("-:{probe}"));
        }
    }
}

/// This process in the names of what it makes: its id, behind its PID namespace where that is not the first.
fn owner() -> String {
    let pid = std::process::id();
    PidNamespace::own().map_or_else(|| pid.to_string(), |namespace| format!("{}_{pid}", namespace.inode))
}

/// The process that [`owner`] named; `None` for one of another namespace, of which it cannot be said whether it lives.
fn pid_of(owner: &str) -> Option<u32> {
    match PidNamespace::own() {
        None => owner.parse().ok(),
        Some(namespace) => owner.strip_prefix(&format!("{}_", namespace.inode))?.parse().ok(),
    }
}

/// Whether a process of this id lives and is one of ours.
fn alive(pid: u32) -> bool {
    let other = std::fs::read_link(format!("/proc/{pid}/exe"));
    let same_name = |path: &Path| {
        let own = std::env::current_exe().ok();
        path.file_name().is_some() && path.file_name() == own.as_deref().and_then(Path::file_name)
    };
    pid == std::process::id() || other.is_ok_and(|path| same_name(&path))
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
    pid: u32,
    values: Vec<(String, String)>,
}

impl Saved {
    /// The values that `files` below `root` have now. Files that this kernel has not are left out.
    fn of(root: &Path, files: &[&str]) -> Self {
        let value = |file: &&str| Some(((*file).to_owned(), read(&root.join(file)).ok()?));
        Self { pid: std::process::id(), values: files.iter().filter_map(value).collect() }
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
        let tracers = read(&tracefs.root.join("available_tracers"))?;
        anyhow::ensure!(
            tracers.split_whitespace().any(|name| name == tracer),
            "this kernel has no {tracer} tracer (available: {tracers}): run inside one that has, with --kernel"
        );
        let folder = tracefs.root.join("instances").join(format!("{PREFIX}{}", owner()));
        if std::fs::create_dir(&folder).is_ok() {
            let instance = Self { folder, saved: None };
            write(&instance.folder.join("tracing_on"), "0")?;
            // Tried and taken back: most kernels allow it at the top only.
            if write(&instance.folder.join("current_tracer"), tracer).is_ok() {
                write(&instance.folder.join("current_tracer"), "nop")?;
                return Ok(instance);
            }
        }
        let root = tracefs.root.clone();
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
        std::fs::write(STATE, text).with_context(|| format!("remember the tracer's state in {STATE}"))?;
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
        let text =
            "r256:pipeprof_77/f3 schedule\np:kprobes/other do_exit\nr256:pipeprof_5/f1 vfs_write\nr:pipeprof_x/f1 a\n";
        assert_eq!(dead_probes(text, |pid| pid == 5), ["pipeprof_77/f3"]);
    }

    #[test]
    fn only_the_dead_are_cleaned_up() {
        assert!(alive(std::process::id()));
        assert!(!alive(u32::MAX - 1));
    }
}

//! The processes of a cgroup and of those below, of either version.

use crate::util::regular;
use crate::util::text::read_lossy;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// include/uapi/linux/magic.h: `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC`.
const FILE_SYSTEMS: [i64; 2] = [0x0027_e0eb, 0x6367_7270];

/// Folders of which more are not looked at, and the longest list of processes that is read.
const MOST_FOLDERS: usize = 4096;
const LONGEST: u64 = 4 << 20;

/// Its processes, and those of a threaded cgroup, which has threads only.
const PROCESSES: &str = "cgroup.procs";
const THREADS: &str = "cgroup.threads";

/// A cgroup, by the folder of its file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// The one that a user named: by its folder, or by its path as in /proc/PID/cgroup.
    ///
    /// # Errors
    /// If there is no such cgroup.
    pub(crate) fn named(path: &str) -> Result<Self> {
        let mounts = read_lossy("/proc/self/mountinfo").context("cannot read which file systems are mounted")?;
        let given = Path::new(path);
        let found = std::iter::once(given.to_owned()).chain(folders_of(&mounts, given));
        for folder in found {
            if folder.join(PROCESSES).exists() {
                let kind = rustix::fs::statfs(&folder).with_context(|| format!("--cgroup {path}"))?.f_type;
                ensure!(FILE_SYSTEMS.contains(&kind), "--cgroup {path}: this folder is not a cgroup");
                return Ok(Self { folder });
            }
        }
        bail!(
            "--cgroup {path}: there is no such cgroup; give its folder, such as /sys/fs/cgroup/system.slice, or its path as \
             in /proc/PID/cgroup"
        )
    }

    /// Its processes and those of all cgroups below, by the ids that this process sees.
    pub(crate) fn members(&self) -> BTreeSet<u32> {
        let mut members = BTreeSet::new();
        let mut folders = vec![self.folder.clone()];
        let mut seen = 0;
        while let Some(folder) = folders.pop().filter(|_| seen < MOST_FOLDERS) {
            seen += 1;
            members.extend(members_of(&folder));
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|entry| entry.path()));
        }
        members
    }
}

/// The processes of a cgroup, without those below. One that has been removed has none.
fn members_of(folder: &Path) -> Vec<u32> {
    if let Ok(text) = regular::read_text(&folder.join(PROCESSES), LONGEST) {
        return numbers(&text).collect();
    }
    let threads = regular::read_text(&folder.join(THREADS), LONGEST).unwrap_or_default();
    numbers(&threads).filter_map(process_of).collect()
}

/// The ids of a list. A process that is not in this PID namespace is 0.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|id| *id > 0)
}

/// The process of a thread.
fn process_of(thread: u32) -> Option<u32> {
    let status = read_lossy(&format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Where the path of a cgroup may be, by the mounts of proc_pid_mountinfo(5): version 2 first.
fn folders_of(mounts: &str, path: &Path) -> Vec<PathBuf> {
    // A path out of the cgroup namespace of this process.
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Vec::new();
    }
    let folder = |line: &str| {
        let (fields, more) = line.split_once(" - ")?;
        let kind = more.split(' ').next()?;
        let version = ["cgroup2", "cgroup"].iter().position(|known| *known == kind)?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let rest = path.strip_prefix(fields.get(3)?).ok()?;
        Some((version, Path::new(fields.get(4)?).join(rest)))
    };
    let mut found: Vec<(usize, PathBuf)> = mounts.lines().filter_map(folder).collect();
    found.sort_by_key(|(version, _)| *version);
    found.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_cgroup_is_found_below_each_mount() {
        let mounts = "28 25 0:24 / /sys/fs/cgroup/pids rw,nosuid shared:9 - cgroup cgroup rw,pids\n\
                      29 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      30 25 0:26 /docker/abc /sys/fs/cgroup/cpu ro master:3 - cgroup cgroup rw,cpu\n\
                      31 25 0:27 / /tmp rw - tmpfs tmpfs rw\n31\n\n";
        let folders = |path: &str| folders_of(mounts, Path::new(path));
        assert_eq!(folders("/a/b"), ["/sys/fs/cgroup/unified/a/b", "/sys/fs/cgroup/pids/a/b"].map(PathBuf::from));
        assert_eq!(folders("/docker/abc/x")[2], Path::new("/sys/fs/cgroup/cpu/x"));
        assert!(folders("/../a").is_empty() && folders("a").is_empty());
    }

    #[test]
    fn a_folder_that_is_not_a_cgroup_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let refused = || Cgroup::named(path).unwrap_err().to_string();
        assert!(refused().contains("there is no such cgroup"), "{}", refused());
        std::fs::write(folder.path().join(PROCESSES), "1\n").unwrap();
        assert!(refused().ends_with("this folder is not a cgroup"), "{}", refused());
    }

    #[test]
    fn lists_have_processes_that_this_one_sees() {
        let folder = tempfile::tempdir().unwrap();
        let write = |at: &str, text: &str| std::fs::write(folder.path().join(at), text).unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        write(PROCESSES, "4711\n0\n12\n");
        write("a/cgroup.procs", "13\nx\n");
        write("a/b/cgroup.procs", "");
        let cgroup = Cgroup { folder: folder.path().to_owned() };
        assert_eq!(cgroup.members(), BTreeSet::from([12, 13, 4711]));
        // A threaded one.
        write("a/b/cgroup.threads", &format!("{}\n", std::process::id()));
        std::fs::remove_file(folder.path().join("a/b/cgroup.procs")).unwrap();
        assert!(cgroup.members().contains(&std::process::id()));
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert!(cgroup.members().is_empty());
    }
}

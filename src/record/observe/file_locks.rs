//! Who has the locks of files for which others wait. /proc/locks (proc_locks(5)) has the process that took a lock, which may
//! have ended since: a lock of flock(2) stays while any process has the open file, as after `flock 9` in a shell.

use crate::record::start::command_line::{self, program_name};
use crate::record::start::container;
use crate::record::start::open_files::{FileKind, OpenFile, open_files};
use crate::result::{LockedFile, SeenProcess};
use crate::util::process_stat::{self, ProcessStat};
use crate::util::text::read_lossy;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A lock that a process has: `FLOCK ADVISORY WRITE 12 fe:01:7 0 EOF`, as it is in /proc/locks and in the fdinfo of each
/// descriptor of its open file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct HeldLock {
    line: String,
    taken_by: Option<u32>,
}

impl HeldLock {
    /// The words after the number of a lock.
    fn of(words: &[&str]) -> Self {
        Self { line: words.join(" "), taken_by: words.get(3).and_then(|pid| pid.parse().ok()) }
    }
}

/// The locks at one moment, of which the holders are looked for once somebody waits for one.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    /// Those with a lock, by its line.
    open: Option<HashMap<String, BTreeSet<u32>>>,
    /// By the id of each process that waits for one: who has it.
    pub holders: HashMap<u32, Vec<u32>>,
    /// Those that wait for one whose taker is not among these holders: they have its open file from that.
    pub inherited: BTreeSet<u32>,
}

impl FileLocks {
    /// Find the holders of the lock for which a process waits. `files`: what each process has open.
    pub(crate) fn find<'a>(&mut self, waiting: u32, files: impl Iterator<Item = (u32, &'a [OpenFile])>) {
        let table = read_lossy("/proc/locks").unwrap_or_default();
        let Some(lock) = awaited(&table).remove(&waiting) else { return };
        let files: BTreeMap<u32, &[OpenFile]> = files.collect();
        let open = self.open.get_or_insert_with(|| with_locks(&files));
        let all = open.get(&lock.line).cloned().unwrap_or_default();
        // Its files may be those that this process may not see.
        let taken_by = lock.taken_by.filter(|pid| all.is_empty() && files.contains_key(pid));
        let found: Vec<u32> = all.into_iter().chain(taken_by).collect();
        if !found.is_empty() {
            self.inherited.extend(lock.taken_by.filter(|pid| !found.contains(pid)).map(|_| waiting));
            self.holders.insert(waiting, found);
        }
    }
}

/// The lock for which each process waits, in a table of `1: FLOCK ...` of who has it and `1: -> FLOCK ...` of each process
/// that waits. Of one whose threads wait for several, it is not known which of them waits for which.
fn awaited(table: &str) -> HashMap<u32, HeldLock> {
    let (mut held, mut waiting) = (HashMap::new(), Vec::new());
    for words in table.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>()) {
        match &words[..] {
            [lock, "->", rest @ ..] => waiting.extend(HeldLock::of(rest).taken_by.map(|pid| ((*lock).to_owned(), pid))),
            [lock, rest @ ..] => drop(held.insert((*lock).to_owned(), HeldLock::of(rest))),
            [] => {}
        }
    }
    let mut locks: BTreeMap<u32, BTreeSet<&HeldLock>> = BTreeMap::new();
    for (lock, pid) in &waiting {
        locks.entry(*pid).or_default().extend(held.get(lock));
    }
    let one = |(pid, locks): (u32, BTreeSet<&HeldLock>)| match locks.into_iter().collect::<Vec<_>>()[..] {
        [lock] => Some((pid, lock.clone())),
        _ => None,
    };
    locks.into_iter().filter_map(one).collect()
}

/// The processes that have the open file of a lock, by the lock's line.
fn with_locks(files: &BTreeMap<u32, &[OpenFile]>) -> HashMap<String, BTreeSet<u32>> {
    let mut found: HashMap<String, BTreeSet<u32>> = HashMap::new();
    for (pid, files) in files {
        for file in files.iter().filter(|file| file.kind == FileKind::Other) {
            // It may have ended.
            let info = read_lossy(&format!("/proc/{pid}/fdinfo/{}", file.fd)).unwrap_or_default();
            for line in locks_of(&info) {
                found.entry(line).or_default().insert(*pid);
            }
        }
    }
    found
}

/// Who has a lock of this file now, by one of its locks.
pub(crate) fn held(inode: u64, device: u32) -> Option<LockedFile> {
    // `fe:01:7`
    let place = format!("{:02x}:{:02x}:{inode}", device >> 20, device & 0xf_ffff);
    let files: Vec<(u32, Vec<OpenFile>)> =
        process_stat::ids().filter_map(|pid| Some((pid, open_files(pid).ok()?))).collect();
    let open = with_locks(&files.iter().map(|(pid, files)| (*pid, &files[..])).collect());
    let (line, holders) = open.into_iter().find(|(line, _)| line.split(' ').nth(4) == Some(&place))?;
    let first = holders.first()?;
    let links = files.iter().filter(|(pid, _)| pid == first).flat_map(|(_, files)| files);
    let links = links.map(|file| format!("/proc/{first}/fd/{}", file.fd));
    let is_it = |link: &String| rustix::fs::stat(link).is_ok_and(|stat| stat.st_ino == inode);
    let path = std::fs::read_link(links.into_iter().find(is_it)?).ok()?.to_string_lossy().into_owned();
    let taken_by = HeldLock::of(&line.split(' ').collect::<Vec<_>>()).taken_by.filter(|pid| !holders.contains(pid));
    Some(LockedFile {
        path,
        holders: holders.iter().copied().filter_map(named).collect(),
        inherited: taken_by.is_some(),
        refused: 0,
    })
}

/// A process that runs now, with its name.
pub(crate) fn named(pid: u32) -> Option<SeenProcess> {
    let name = program_name(&ProcessStat::of(pid)?.name, &command_line::of_process(pid));
    Some(SeenProcess { pid, name, container: container::of_process(pid), ..SeenProcess::default() })
}

/// The locks in an fdinfo: `lock: 1: FLOCK ...`.
fn locks_of(fdinfo: &str) -> impl Iterator<Item = String> {
    let words = fdinfo.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>());
    words.filter(|words| words.first() == Some(&"lock:")).filter_map(|words| Some(HeldLock::of(words.get(2..)?).line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};
    use std::process::{Command, Stdio};

    #[test]
    fn who_has_a_lock_is_read_from_the_table_of_locks() {
        let table = "1: POSIX  ADVISORY  WRITE 12 fe:01:7 0 EOF\n1: -> POSIX  ADVISORY  WRITE 13 fe:01:7 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 14 fe:01:8 0 EOF\n2:  -> FLOCK  ADVISORY  WRITE 15 fe:01:8 0 EOF\n\
                     3: OFDLCK ADVISORY  WRITE -1 fe:01:9 0 EOF\n3: -> OFDLCK ADVISORY  WRITE -1 fe:01:9 0 EOF\n\
                     3: -> OFDLCK ADVISORY  WRITE 16 fe:01:9 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 16 fe:01:8 0 EOF\n\
                     \n4:\nx\n4: ->\n";
        let found: BTreeMap<u32, Option<u32>> =
            awaited(table).into_iter().map(|(pid, lock)| (pid, lock.taken_by)).collect();
        assert_eq!(found, [(13, Some(12)), (15, Some(14))].into());
        assert!(awaited("").is_empty());
        let info = "pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 12 fe:01:7 0 EOF\nlock:\n";
        assert_eq!(locks_of(info).collect::<Vec<_>>(), ["FLOCK ADVISORY WRITE 12 fe:01:7 0 EOF"]);
    }

    #[test]
    fn a_lock_whose_taker_has_ended_is_that_of_who_has_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Another process takes the lock of this process's open file, and ends.
        let open = file.reopen().unwrap();
        let mut taker = Command::new("flock").arg("0").stdin(Stdio::from(open.try_clone().unwrap())).spawn().unwrap();
        assert!(taker.wait().unwrap().success());
        let other = file.reopen().unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err(), "it is taken");
        let mut waiting = Command::new("flock").arg("0").stdin(Stdio::from(other)).spawn().unwrap();
        let mut locks = FileLocks::default();
        let (own, id) = (std::process::id(), waiting.id());
        let begun = std::time::Instant::now();
        while locks.holders.is_empty() && begun.elapsed() < std::time::Duration::from_secs(60) {
            let open = [own, id].map(|pid| (pid, open_files(pid).unwrap_or_default()));
            locks = FileLocks::default();
            locks.find(id, open.iter().map(|(pid, files)| (*pid, &files[..])));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        drop(open);
        waiting.wait().unwrap();
        assert_eq!(locks.holders, HashMap::from([(id, vec![own])]));
        assert!(locks.inherited.contains(&id));
    }
}

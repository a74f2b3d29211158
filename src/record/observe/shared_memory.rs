//! Memory that processes share, with locks or semaphores in it.

use crate::util::text::read_lossy;
use std::io::ErrorKind;

/// Memory that processes share, by its inode and device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SharedMemory {
    inode: u64,
    device: String,
    /// Of its file. Of one without a name, only processes that were forked from each other have it, until they execute a program.
    pub path: Option<String>,
}

/// Who has the memory at an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The threads of its process.
    Threads,
    /// Other processes, too: which memory, if it is mapped.
    Processes(Option<SharedMemory>),
}

/// Who has the memory of a process at this address.
pub(crate) fn at(pid: u32, address: u64) -> Sharing {
    let maps = read_lossy(&format!("/proc/{pid}/maps")).unwrap_or_default();
    match maps.lines().find_map(|line| mapped(line).filter(|map| map.begin <= address && address < map.end)) {
        Some(MappedMemory { is_private: true, .. }) => Sharing::Threads,
        Some(map) => Sharing::Processes(Some(map.memory)),
        None => Sharing::Processes(None),
    }
}

/// Those of `processes` that have `memory`, also `pid`, which has it; `None` if that may not be known of one of them.
pub(crate) fn with(memory: &SharedMemory, pid: u32, processes: impl Iterator<Item = u32>) -> Option<Vec<u32>> {
    let program = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program(pid);
    let mut found = Vec::new();
    for other in processes.filter(|other| memory.path.is_some() || program(*other) == own) {
        match read_lossy(&format!("/proc/{other}/maps")) {
            Ok(maps) => {
                found.extend(maps.lines().filter_map(mapped).any(|map| map.memory == *memory).then_some(other));
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            // It has ended.
            Err(_) => {}
        }
    }
    Some(found)
}

/// A line of /proc/PID/maps (proc_pid_maps(5)).
struct MappedMemory {
    begin: u64,
    end: u64,
    is_private: bool,
    memory: SharedMemory,
}

/// `7f0-7f1 rw-s 00000000 00:1a 7 /dev/shm/sem (deleted)`
fn mapped(line: &str) -> Option<MappedMemory> {
    let mut words = line.split_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let is_private = words.next()?.ends_with('p');
    let (device, inode) = (words.nth(1)?.to_owned(), words.next()?.parse().ok()?);
    let path = words.next().filter(|_| !line.ends_with(" (deleted)")).map(str::to_owned);
    Some(MappedMemory {
        begin: number(begin)?,
        end: number(end)?,
        is_private,
        memory: SharedMemory { inode, device, path },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_apart_by_what_is_mapped_there() {
        let map = mapped("7f10-7f20 rw-s 00000000 00:1a 7                    /dev/shm/sem.x (deleted)").unwrap();
        assert_eq!((map.begin, map.end, map.is_private), (0x7f10, 0x7f20, false));
        assert_eq!(map.memory, SharedMemory { inode: 7, device: "00:1a".to_owned(), path: None });
        let named = mapped("7f10-7f20 rw-s 00000000 00:1a 7 /dev/shm/sem.x").unwrap();
        assert_eq!(named.memory.path.as_deref(), Some("/dev/shm/sem.x"));
        assert!(mapped("7f10-7f20 rw-p 00000000 00:00 0").is_some_and(|map| map.is_private));
        assert!(mapped("").is_none() && mapped("x").is_none());
    }

    #[test]
    fn memory_of_a_process_is_its_threads() {
        let local = 0u32;
        assert_eq!(at(std::process::id(), (&raw const local).addr() as u64), Sharing::Threads);
        assert_eq!(at(std::process::id(), 0), Sharing::Processes(None));
    }
}

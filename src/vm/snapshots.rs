//! The cache of snapshots: guests that have booted and wait for their job. Each has a folder with the guest's state
//! and `snapshot.json`, named by a digest of all that the state depends on.

use crate::util::{atomic_file, regular, stored_json};
use crate::vm::store::{CacheLock, KernelCache, lock_file, no_room, used_now};
use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::hash::Hasher as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Room for all snapshots, in bytes. One of a Debian kernel has 100 to 200 MiB. When a new one exceeds this, those that
/// were not used for the longest time are removed.
const ROOM: u64 = 4 << 30;

/// File of the guest's state without its memory: QEMU's migration stream.
const STATE: &str = "state";
/// File of its memory, which a guest maps.
const MEMORY: &str = "memory";
const FACTS: &str = "snapshot.json";

/// The longest `snapshot.json`, bytes.
const LONGEST_FACTS: u64 = 1 << 20;

/// What `snapshot.json` holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFacts {
    /// All that the state depends on.
    pub of: String,
    /// The kernel's release.
    pub release: String,
    pub state: SnapshotState,
}

/// The state of a guest, or why it cannot be saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotState {
    Saved(SavedSizes),
    /// This kernel cannot be saved, and will not be tried again.
    Impossible(String),
}

/// What the files of a guest's state hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSizes {
    pub state: Stream,
    pub memory: Stream,
    /// Inode, length and time of change of the memory's file when it was written. While they are these, it is not read to
    /// check it.
    pub mark: String,
}

/// The open files of a guest's state.
#[derive(Debug)]
pub struct SavedFiles {
    pub state: File,
    pub memory: File,
}

/// Length and CRC-32 of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    pub bytes: u64,
    pub crc: u32,
}

/// A snapshot in the list of all.
struct Entry {
    folder: PathBuf,
    /// The kernel's.
    release: String,
    bytes: u64,
    /// The last time.
    used: SystemTime,
}

/// Where the snapshots are.
#[derive(Debug, Clone)]
pub struct Snapshots {
    root: PathBuf,
}

/// Where to make a snapshot.
#[derive(Debug, Clone)]
pub struct NewFiles {
    pub state: PathBuf,
    pub memory: PathBuf,
}

#[derive(Debug, Clone)]
pub struct SnapshotPlace {
    snapshots: Snapshots,
    name: String,
    of: String,
}

/// A digest of `bytes`: 64 bits, enough to tell files apart that nobody made to be equal.
pub fn digest(bytes: &[u8]) -> u64 {
    // Its keys are fixed. Another version of the standard library may compute another value, which costs a boot.
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl Snapshots {
    /// Those in the user's cache.
    pub fn open() -> Result<Self> {
        Ok(Self { root: KernelCache::open()?.root().join("snapshots") })
    }

    /// The place of the snapshot that depends on `of`.
    pub fn place(&self, of: String) -> SnapshotPlace {
        SnapshotPlace { snapshots: self.clone(), name: format!("{:016x}", digest(of.as_bytes())), of }
    }

    /// All entries, the one that was used last first.
    fn list(&self) -> Vec<Entry> {
        let Ok(entries) = fs::read_dir(&self.root) else { return Vec::new() };
        let read = |folder: PathBuf| {
            let facts = read_facts(&folder)?;
            let used = fs::metadata(folder.join(FACTS)).and_then(|metadata| metadata.modified()).ok()?;
            let files = fs::read_dir(&folder).ok()?.flatten();
            let size = files.filter_map(|file| Some(file.metadata().ok()?.blocks() * 512)).sum();
            Some(Entry { folder, release: facts.release, bytes: size, used })
        };
        let mut list: Vec<Entry> = entries.flatten().filter_map(|entry| read(entry.path())).collect();
        list.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        list
    }

    /// Number of snapshots by release, and their size in bytes.
    pub fn of_release(&self, release: &str) -> (usize, u64) {
        let list = self.list();
        let sizes = list.iter().filter(|entry| entry.release == release).map(|entry| entry.bytes);
        sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size))
    }

    /// Remove the snapshots of the release, or all of them. Returns their number and their size in bytes.
    pub fn remove(&self, release: Option<&str>) -> Result<(usize, u64)> {
        let mut removed = (0, 0);
        for entry in self.list() {
            if release.is_none_or(|release| entry.release == release) {
                self.drop_folder(&entry.folder)?;
                removed = (removed.0 + 1, removed.1 + entry.bytes);
            }
        }
        self.sweep();
        Ok(removed)
    }

    /// Remove the entries that were not used for the longest time until all fit into `room`, but never `kept`.
    fn limit(&self, room: u64, kept: &Path) {
        let mut sum = 0;
        for entry in self.list() {
            sum += entry.bytes;
            if sum > room && entry.folder != kept {
                // If it cannot be removed, there is more than the room; the next one may succeed.
                let _ = self.drop_folder(&entry.folder);
            }
        }
    }

    /// Remove a folder so that no reader sees a part of it: readers have opened its files, or will find none.
    fn drop_folder(&self, folder: &Path) -> Result<()> {
        let gone = folder.with_extension("gone");
        // It may be there from a killed run.
        let _ = fs::remove_dir_all(&gone);
        match fs::rename(folder, &gone).and_then(|()| fs::remove_dir_all(&gone)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error)
                .with_context(|| format!("cannot remove {}: check its owner and permissions", folder.display())),
            _ => Ok(()),
        }
    }

    /// Remove what killed runs left: unfinished folders and lock files that nobody holds.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.root) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("gone") => drop(fs::remove_dir_all(&path)),
                Some("new") => {
                    // Held until the folder is gone: whoever gets the lock next makes a folder of this name.
                    let lock = regular::open(&path.with_extension("lock"));
                    if let Ok(lock) = lock
                        && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
                    {
                        let _ = fs::remove_dir_all(&path);
                    }
                }
                _ => {}
            }
        }
    }
}

impl SnapshotPlace {
    fn folder(&self) -> PathBuf {
        self.snapshots.root.join(&self.name)
    }

    /// The facts of the snapshot and, unless it is impossible, its open files. `None` if it does not exist.
    pub fn find(&self) -> Option<(SnapshotFacts, Option<SavedFiles>)> {
        let folder = self.folder();
        let facts = read_facts(&folder).filter(|facts| facts.of == self.of)?;
        let open = |name, of: &Stream| {
            let file = regular::open(&folder.join(name)).ok()?;
            (file.metadata().ok()?.len() == of.bytes).then_some(file)
        };
        let files = match &facts.state {
            SnapshotState::Saved(sizes) => {
                Some(SavedFiles { state: open(STATE, &sizes.state)?, memory: open(MEMORY, &sizes.memory)? })
            }
            SnapshotState::Impossible(_) => None,
        };
        used_now(&folder.join(FACTS));
        Some((facts, files))
    }

    /// Wait until no other process makes this snapshot, and let none begin.
    pub fn lock(&self) -> Result<CacheLock> {
        fs::create_dir_all(&self.snapshots.root).with_context(|| no_room(&self.snapshots.root))?;
        lock_file(&self.folder().with_extension("lock"))
    }

    /// An empty folder to make the snapshot in, with the paths of its files.
    pub fn begin(&self, _lock: &CacheLock) -> Result<NewFiles> {
        let folder = self.folder().with_extension("new");
        // Only the holder of the lock writes it, so anything here is of a killed run.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).with_context(|| no_room(&self.snapshots.root))?;
        Ok(NewFiles { state: folder.join(STATE), memory: folder.join(MEMORY) })
    }

    /// Remove the folder of [`Self::begin`], because no snapshot could be made.
    pub(crate) fn abandon(&self, _lock: &CacheLock) {
        // If it remains, the next run removes it.
        let _ = fs::remove_dir_all(self.folder().with_extension("new"));
    }

    /// Let the folder of [`Self::begin`] become the snapshot, and remove the oldest if there is no room for all.
    pub fn finish(&self, _lock: &CacheLock, release: &str, state: SnapshotState) -> Result<()> {
        let facts = SnapshotFacts { of: self.of.clone(), release: release.to_owned(), state };
        let (made, folder) = (self.folder().with_extension("new"), self.folder());
        atomic_file::write(&made.join(FACTS), stored_json::stored_text(&facts)?.as_bytes())?;
        self.snapshots.drop_folder(&folder)?;
        fs::rename(&made, &folder).with_context(|| no_room(&self.snapshots.root))?;
        self.snapshots.sweep();
        self.snapshots.limit(ROOM, &folder);
        Ok(())
    }

    /// Remove the snapshot, because it is damaged.
    pub fn discard(&self) {
        // If it remains, the next run finds it damaged too.
        let _ = self.snapshots.drop_folder(&self.folder());
    }
}

fn read_facts(folder: &Path) -> Option<SnapshotFacts> {
    // Unfinished folders and locks have an extension.
    if folder.extension().is_some() {
        return None;
    }
    stored_json::parse(&regular::read(&folder.join(FACTS), LONGEST_FACTS).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::time::Duration;

    fn make(place: &SnapshotPlace, bytes: &[u8]) {
        let lock = place.lock().unwrap();
        let files = place.begin(&lock).unwrap();
        fs::write(files.state, bytes).unwrap();
        fs::write(files.memory, "").unwrap();
        place.finish(&lock, "6.1-test", saved(bytes.len() as u64, 0)).unwrap();
    }

    fn saved(bytes: u64, crc: u32) -> SnapshotState {
        let (state, memory) = (Stream { bytes, crc }, Stream { bytes: 0, crc });
        SnapshotState::Saved(SavedSizes { state, memory, mark: String::new() })
    }

    fn text(place: &SnapshotPlace) -> Option<String> {
        let mut text = String::new();
        place.find()?.1?.state.read_to_string(&mut text).ok()?;
        Some(text)
    }

    #[test]
    fn a_snapshot_is_found_by_what_it_depends_on() {
        let root = tempfile::tempdir().unwrap();
        let snapshots = Snapshots { root: root.path().join("snapshots") };
        let (one, two) = (snapshots.place("one".into()), snapshots.place("two".into()));
        assert!(one.find().is_none());
        make(&one, b"1");
        make(&two, b"2");
        assert_eq!((text(&one).unwrap(), text(&two).unwrap()), ("1".to_owned(), "2".to_owned()));
        // A digest that happens to be equal is noticed.
        let same_name = SnapshotPlace { of: "other".into(), ..one.clone() };
        assert!(same_name.find().is_none());
        // A truncated state is not used.
        fs::write(one.folder().join(STATE), b"").unwrap();
        assert!(one.find().is_none());
        make(&one, b"1 again");
        assert_eq!(text(&one).unwrap(), "1 again");
        assert_eq!(snapshots.of_release("6.1-test").0, 2);
        assert_eq!(snapshots.of_release("6.1").0, 0);
        assert_eq!(snapshots.remove(Some("6.1")).unwrap().0, 0);
        assert_eq!(snapshots.remove(Some("6.1-test")).unwrap().0, 2);
        assert!(one.find().is_none());
    }

    #[test]
    fn the_oldest_are_removed_when_there_is_no_room() {
        let root = tempfile::tempdir().unwrap();
        let snapshots = Snapshots { root: root.path().to_owned() };
        let places = ["a", "b", "c"].map(|of| snapshots.place(of.into()));
        for (age, place) in [30, 20, 10].into_iter().zip(&places) {
            make(place, &[7; 100_000]);
            let facts = File::options().append(true).open(place.folder().join(FACTS)).unwrap();
            facts.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        // Using the oldest makes it the newest.
        assert!(places[0].find().is_some());
        snapshots.limit(250_000, &places[2].folder());
        let left = |place: &SnapshotPlace| place.folder().exists();
        assert_eq!(places.each_ref().map(left), [true, false, true]);
        snapshots.limit(0, &places[2].folder());
        assert_eq!(places.each_ref().map(left), [false, false, true], "the one just made is kept");
    }

    #[test]
    fn what_a_killed_run_left_is_removed_unless_it_is_being_made() {
        let root = tempfile::tempdir().unwrap();
        let snapshots = Snapshots { root: root.path().to_owned() };
        let (dead, live) = (snapshots.place("dead".into()), snapshots.place("live".into()));
        fs::write(dead.begin(&dead.lock().unwrap()).unwrap().state, b"half").unwrap();
        let lock = live.lock().unwrap();
        fs::write(live.begin(&lock).unwrap().memory, b"half").unwrap();
        assert!(dead.find().is_none() && live.find().is_none());
        snapshots.sweep();
        assert!(!dead.folder().with_extension("new").exists());
        assert!(live.folder().with_extension("new").exists());
        live.abandon(&lock);
        assert!(!live.folder().with_extension("new").exists());
        make(&dead, b"whole");
        assert_eq!(text(&dead).unwrap(), "whole");
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_of_a_snapshot_is_read(
            of: String, release: String, why: Option<String>, bytes in 0..u64::MAX, crc: u32,
        ) {
            let root = tempfile::tempdir().unwrap();
            let snapshots = Snapshots { root: root.path().to_owned() };
            let place = snapshots.place(of.clone());
            let lock = place.lock().unwrap();
            place.begin(&lock).unwrap();
            let state = why.map_or(saved(bytes, crc), SnapshotState::Impossible);
            match place.finish(&lock, &release, state.clone()) {
                Ok(()) => {
                    proptest::prop_assert_eq!(read_facts(&place.folder()), Some(SnapshotFacts { of, release, state }));
                }
                Err(_) => proptest::prop_assert!(bytes >= crate::util::stored_json::HIGHEST && !place.folder().exists()),
            }
        }
    }
}

//! Makes a snapshot of a guest, and feeds one to QEMU.

use crate::util::cancel;
use crate::vm::emulator::Qemu;
use crate::vm::monitor::Monitor;
use crate::vm::snapshots::Stream;
use anyhow::{Context as _, Result, bail};
use flate2::CrcReader;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, PipeReader, PipeWriter, Read, Seek as _, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes copied at a time.
const PIECE: usize = 1 << 20;

/// CPU time that saving may take. It takes about a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Copy what QEMU writes to `from` into a new file.
pub fn receive(from: PipeReader, path: PathBuf) -> JoinHandle<io::Result<Stream>> {
    std::thread::spawn(move || copied(from, &mut File::create(path)?))
}

/// Copy all of `from` to `to`. Its length and checksum.
fn copied(from: impl Read, to: &mut impl Write) -> io::Result<Stream> {
    let mut from = BufReader::with_capacity(PIECE, CrcReader::new(from));
    let bytes = io::copy(&mut from, to)?;
    Ok(Stream { bytes, crc: from.get_ref().crc().sum() })
}

/// Let QEMU, which has stopped its guest, write the guest's state to `to`, and end.
pub fn save(qemu: &mut Qemu, monitor: &mut Monitor, to: PipeWriter) -> Result<()> {
    monitor.give("state", &to)?;
    // QEMU's own is then the last, whose end the receiver sees.
    drop(to);
    // Bytes per second; the default of 128 MiB is for networks.
    monitor.execute("migrate-set-parameters", json!({ "max-bandwidth": 1_u64 << 40 }))?;
    monitor.execute("migrate", json!({ "uri": "fd:state" }))?;
    let begun = qemu.now();
    loop {
        let answer = monitor.execute("query-migrate", json!({}))?;
        match answer.get("status").and_then(Value::as_str) {
            Some("completed") => break,
            Some("failed" | "cancelled") => {
                let why = answer.get("error-desc").and_then(Value::as_str).unwrap_or("no reason given");
                bail!("QEMU cannot save the guest: {why}");
            }
            _ => {}
        }
        cancel::check()?;
        if qemu.ended().is_some() || qemu.is_over(&begun, LIMIT) {
            bail!("QEMU did not save the guest");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // Its end closes the pipe.
    qemu.kill();
    Ok(())
}

/// Let QEMU, started for this, read a guest's state from `from`, and let the guest run.
pub fn restore(qemu: &mut Qemu, monitor: &mut Monitor, from: PipeReader) -> Result<()> {
    monitor.give("state", &from)?;
    // If QEMU ends, the feeder must see it.
    drop(from);
    // QEMU would announce the guest's new place to its network, five times within a second of the host's time. Each
    // time its main thread also looks at the guest's timers, while the guest runs: with two CPUs, the order in which
    // they run then depends on the host. QEMU's net/announce.c.
    monitor.execute("migrate-set-parameters", json!({ "announce-rounds": 0 }))?;
    monitor.execute("migrate-incoming", json!({ "uri": "fd:state" }))?;
    let begun = qemu.now();
    while monitor.execute("query-status", json!({}))?.get("status").and_then(Value::as_str) == Some("inmigrate") {
        cancel::check()?;
        if qemu.is_over(&begun, LIMIT) {
            bail!("QEMU did not restore the guest");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // QEMU's other threads still free what the old state used (its util/rcu.c), and interrupt the guest to do so. If it
    // ran already, its results would depend on when that happens: docs/exactness.md.
    qemu.settle();
    // It is stopped, as it was when it was saved.
    monitor.execute("cont", json!({})).map(drop)
}

/// Whether a snapshot was fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedResult {
    Whole,
    /// The file is not what was saved. QEMU got nothing, so it did not start the guest.
    Damaged,
    /// QEMU did not take all of it.
    Refused,
}

/// Check the state in `file`, and write it to a QEMU that waits for it.
pub fn feed(mut file: File, saved: Stream, to: PipeWriter) -> JoinHandle<FeedResult> {
    // Fewer switches between the two processes. The default also works.
    let _ = rustix::pipe::fcntl_setpipe_size(&to, PIECE);
    std::thread::spawn(move || {
        // QEMU starts the guest before it has read the last bytes, a description that it does not need. So all of the
        // file is checked first.
        if !is_whole(&mut file, saved) {
            return FeedResult::Damaged;
        }
        // The pages of the file go into the pipe as they are.
        let mut left = saved.bytes;
        while left > 0 {
            match rustix::fs::sendfile(&to, &file, None, usize::try_from(left).unwrap_or(PIECE)) {
                Ok(sent) if sent > 0 => left = left.saturating_sub(sent as u64),
                Err(rustix::io::Errno::INTR) => {}
                _ => return FeedResult::Refused,
            }
        }
        FeedResult::Whole
    })
}

/// What tells a file from another one, and from itself after a change: device, inode, length, and when it was changed.
type FileState = (u64, u64, u64, (i64, i64));

/// The state of a file; `None` if it was changed just now, when another change need not show.
fn file_state(file: &File) -> Option<FileState> {
    let data = file.metadata().ok()?;
    let changed = data.modified().ok()?.elapsed().ok()?;
    let state = (data.dev(), data.ino(), data.len(), (data.ctime(), data.ctime_nsec()));
    (changed > Duration::from_secs(2)).then_some(state)
}

/// Whether `file` has what was `saved`, from its begin, where it is left. What this process has checked is not read again
/// unless it was changed.
fn is_whole(file: &mut File, saved: Stream) -> bool {
    static CHECKED: Mutex<BTreeSet<FileState>> = Mutex::new(BTreeSet::new());
    let state = file_state(file);
    let known = |state: &FileState| CHECKED.lock().is_ok_and(|checked| checked.contains(state));
    if state.as_ref().is_some_and(known) {
        return true;
    }
    let is_whole = copied(&mut *file, &mut io::sink()).is_ok_and(|found| found == saved);
    if let (true, Some(state), Ok(mut checked)) = (is_whole, state, CHECKED.lock()) {
        checked.insert(state);
    }
    is_whole && file.rewind().is_ok()
}

pub fn pipe() -> Result<(PipeReader, PipeWriter)> {
    io::pipe().context("cannot make a pipe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_state_is_fed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
        let (reader, mut writer) = pipe().unwrap();
        let receiver = receive(reader, path.clone());
        writer.write_all(&bytes).unwrap();
        drop(writer);
        let saved = receiver.join().unwrap().unwrap();
        assert_eq!(saved.bytes, bytes.len() as u64);
        let fed = || {
            let (mut reader, writer) = pipe().unwrap();
            let feeder = feed(File::open(&path).unwrap(), saved, writer);
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            (feeder.join().unwrap(), got)
        };
        assert_eq!(fed(), (FeedResult::Whole, bytes.clone()));
        let mut damaged = bytes.clone();
        damaged[1_234_567] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let (verdict, got) = fed();
        assert_eq!((verdict, got.len()), (FeedResult::Damaged, 0));
        std::fs::write(&path, &bytes).unwrap();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        assert_eq!(feed(File::open(&path).unwrap(), saved, writer).join().unwrap(), FeedResult::Refused);
    }
}

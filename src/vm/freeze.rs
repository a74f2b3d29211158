//! Makes a snapshot of a guest, and feeds one to QEMU. The guest's memory is a file that QEMU maps: the guest that is saved
//! shares it, and each restored one has private copies of the pages that it changes. So only the state of devices is read
//! and written as a stream, with QEMU's capability `x-ignore-shared` (its migration/ram.c).

use crate::util::{cancel, regular};
use crate::vm::emulator::Qemu;
use crate::vm::monitor::Monitor;
use crate::vm::snapshots::{SavedFiles, SavedSizes, Stream};
use anyhow::{Context as _, Result, bail};
use flate2::CrcReader;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, PipeReader, PipeWriter, Read, Seek as _, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
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

/// Leave memory that QEMU shares with a file out of the stream.
fn without_memory(monitor: &mut Monitor) -> Result<()> {
    let capability = json!({ "capability": "x-ignore-shared", "state": true });
    monitor.execute("migrate-set-capabilities", json!({ "capabilities": [capability] })).map(drop)
}

/// Length, checksum and [`mark`] of the memory's file, after the guest's end.
///
/// # Errors
/// When it cannot be read.
pub fn written(path: &Path) -> io::Result<(Stream, String)> {
    let mut file = regular::open(path)?;
    let stream = copied(&mut file, &mut io::sink())?;
    Ok((stream, mark(&file)?))
}

/// Let QEMU, which has stopped its guest, write the guest's state to `to`, and end.
pub fn save(qemu: &mut Qemu, monitor: &mut Monitor, to: PipeWriter) -> Result<()> {
    monitor.give("state", &to)?;
    // QEMU's own is then the last, whose end the receiver sees.
    drop(to);
    without_memory(monitor)?;
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
    without_memory(monitor)?;
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

/// Check the saved `files`, and write the state to a QEMU that has mapped the memory and waits for it.
pub fn feed(files: SavedFiles, saved: SavedSizes, to: PipeWriter) -> JoinHandle<FeedResult> {
    // Fewer switches between the two processes. The default also works.
    let _ = rustix::pipe::fcntl_setpipe_size(&to, PIECE);
    std::thread::spawn(move || {
        let SavedFiles { mut state, mut memory } = files;
        // QEMU starts the guest before it has read the last bytes, a description that it does not need. So all of the
        // files are checked first.
        let known = mark(&memory).is_ok_and(|mark| mark == saved.mark);
        if !(known || is_whole(&mut memory, saved.memory)) || !is_whole(&mut state, saved.state) {
            return FeedResult::Damaged;
        }
        if io::copy(&mut state, &mut &to).is_ok_and(|bytes| bytes == saved.state.bytes) {
            FeedResult::Whole
        } else {
            FeedResult::Refused
        }
    })
}

/// What tells a file from another one, and from itself after a change: inode, length, and when it was changed.
fn mark(file: &File) -> io::Result<String> {
    let data = file.metadata()?;
    Ok(format!("{} {} {}.{:09}", data.ino(), data.len(), data.ctime(), data.ctime_nsec()))
}

/// Whether `file` has what was `saved`, from its begin, where it is left.
fn is_whole(file: &mut File, saved: Stream) -> bool {
    copied(&mut *file, &mut io::sink()).is_ok_and(|found| found == saved) && file.rewind().is_ok()
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
        let state = receiver.join().unwrap().unwrap();
        assert_eq!(state.bytes, bytes.len() as u64);
        let memory_path = folder.path().join("memory");
        std::fs::write(&memory_path, &bytes[..1_000_000]).unwrap();
        let (memory, mark) = written(&memory_path).unwrap();
        let saved = SavedSizes { state, memory, mark };
        let fed = || {
            let (mut reader, writer) = pipe().unwrap();
            let files = SavedFiles { state: File::open(&path).unwrap(), memory: File::open(&memory_path).unwrap() };
            let feeder = feed(files, saved.clone(), writer);
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
        // A copy of the memory is as good as itself, and another one is not.
        let copy = folder.path().join("copy");
        std::fs::copy(&memory_path, &copy).unwrap();
        std::fs::rename(&copy, &memory_path).unwrap();
        assert_eq!(fed(), (FeedResult::Whole, bytes.clone()));
        std::fs::write(&memory_path, &damaged[1_000_000..2_000_000]).unwrap();
        assert_eq!(fed(), (FeedResult::Damaged, Vec::new()));
        std::fs::write(&memory_path, &bytes[..1_000_000]).unwrap();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let files = SavedFiles { state: File::open(&path).unwrap(), memory: File::open(&memory_path).unwrap() };
        assert_eq!(feed(files, saved, writer).join().unwrap(), FeedResult::Refused);
    }
}

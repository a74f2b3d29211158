//! Each variant makes the calls that it claims, counted by strace and not by this project's code.

use pipeprof::result::Processes;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_pipeprof");

/// What strace recorded of one process: positive results by call, and all calls.
#[derive(Debug, Default)]
struct Seen {
    bytes: BTreeMap<String, u64>,
    calls: BTreeMap<String, u64>,
}

impl Seen {
    fn bytes(&self, call: &str) -> u64 {
        self.bytes.get(call).copied().unwrap_or(0)
    }
    fn calls(&self, call: &str) -> u64 {
        self.calls.get(call).copied().unwrap_or(0)
    }
}

/// Run `line` under strace. Returns the workload's report, and what strace recorded of writer and reader within the
/// window.
fn traced(line: &str) -> (Processes, Seen, Seen) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new("strace");
    command
        .args(["-ff", "-e", "trace=read,write,vmsplice,splice,poll,lseek,execve,openat,recvfrom,sendto", "-o"])
        .arg(&log);
    command.args([BINARY, "__engine", "--json", "--warmup", "0"]).args(line.split_whitespace());
    let output = command.output().expect("strace is in the list of packages that make test installs");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let processes = serde_json::from_slice(&output.stdout).unwrap();
    let mut parts: BTreeMap<&str, Seen> = BTreeMap::new();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for (part, marker) in [("writer", "\"__worker\", \"writer\""), ("reader", "\"__worker\", \"reader\"")] {
            if text.lines().next().is_some_and(|first| first.contains(marker)) {
                parts.insert(part, seen(&text));
            }
        }
    }
    (processes, parts.remove("writer").unwrap(), parts.remove("reader").unwrap())
}

/// Count the lines after the start message, up to the message to the controller, without calls on files of /proc,
/// which the worker reads for its report.
fn seen(text: &str) -> Seen {
    let mut seen = Seen::default();
    let mut report = BTreeSet::new();
    let window = text.lines().skip_while(|line| !(line.starts_with("recvfrom") && line.contains("\"!\"")));
    for line in window.skip(1).take_while(|line| !line.starts_with("sendto")) {
        let Some((call, rest)) = line.split_once('(') else { continue };
        let answer = rest.rsplit_once(" = ").map_or("", |(_, answer)| answer.trim());
        if call == "openat" {
            let _ = if rest.contains("\"/proc/") { report.insert(answer) } else { report.remove(answer) };
            continue;
        }
        if rest.split_once(',').is_some_and(|(fd, _)| report.contains(fd)) {
            continue;
        }
        *seen.calls.entry(call.to_owned()).or_default() += 1;
        if let Ok(count) = answer.parse::<u64>() {
            *seen.bytes.entry(call.to_owned()).or_default() += count;
        }
    }
    seen
}

#[test]
#[ignore = "needs strace: make test"]
fn write_to_read() {
    let (said, writer, reader) = traced("--bytes 2M");
    assert_eq!((writer.calls("write"), writer.bytes("write")), (8, 2 << 20));
    assert_eq!((said.writer().calls, said.writer().bytes), (8, 2 << 20));
    assert_eq!((reader.calls("read"), reader.bytes("read")), (said.reader().calls, 2 << 20));
}

#[test]
#[ignore = "needs strace: make test"]
fn vmsplice_to_splice() {
    for axes in ["", "--huge-pages", "--contiguous", "--gift"] {
        let (said, writer, reader) = traced(&format!("--mode vmsplice --bytes 2M {axes}"));
        assert_eq!((writer.calls("vmsplice"), writer.bytes("vmsplice")), (16, 2 << 20), "{axes}");
        assert_eq!((said.writer().calls, writer.calls("write")), (16, 0), "{axes}");
        assert_eq!((reader.calls("splice"), reader.bytes("splice")), (said.reader().calls, 2 << 20), "{axes}");
    }
}

/// Step 2 of the ladder.
#[test]
#[ignore = "needs strace: make test"]
fn vmsplice_to_read() {
    let (said, writer, reader) = traced("--writer vmsplice --reader read --bytes 2M");
    assert_eq!((writer.calls("vmsplice"), writer.bytes("vmsplice"), writer.calls("write")), (16, 2 << 20, 0));
    assert_eq!((said.writer().calls, said.writer().bytes), (16, 2 << 20));
    assert_eq!((reader.calls("read"), reader.bytes("read")), (said.reader().calls, 2 << 20));
    assert_eq!(reader.calls("splice"), 0);
}

/// The table of buffer sizes.
#[test]
#[ignore = "needs strace: make test"]
fn write_to_splice() {
    for (buffer, calls) in [(32 << 10, 64), (128 << 10, 16)] {
        let (said, writer, reader) = traced(&format!("--reader splice --buffer-size {buffer} --bytes 2M"));
        assert_eq!((writer.calls("write"), writer.bytes("write")), (calls, 2 << 20), "{buffer}");
        assert_eq!((said.writer().calls, said.writer().bytes), (calls, 2 << 20), "{buffer}");
        assert_eq!((reader.calls("splice"), reader.bytes("splice")), (said.reader().calls, 2 << 20), "{buffer}");
        assert_eq!(reader.calls("read"), 0, "{buffer}");
    }
}

/// Locking and not touching concern pages only: the calls are the same.
#[test]
#[ignore = "needs strace: make test"]
fn locked_and_untouched_buffers_move_by_the_same_calls() {
    for axes in ["--mlock", "--no-touch", "--mlock --huge-pages"] {
        let (said, writer, reader) = traced(&format!("--mode vmsplice --bytes 2M {axes}"));
        assert_eq!((writer.calls("vmsplice"), writer.bytes("vmsplice")), (16, 2 << 20), "{axes}");
        assert_eq!((said.writer().calls, writer.calls("write")), (16, 0), "{axes}");
        assert_eq!((reader.calls("splice"), reader.bytes("splice")), (said.reader().calls, 2 << 20), "{axes}");
        let (_, writer, reader) = traced(&format!("--mode write --bytes 2M {axes}"));
        assert_eq!(
            (writer.calls("write"), writer.bytes("write"), reader.bytes("read")),
            (8, 2 << 20, 2 << 20),
            "{axes}"
        );
    }
}

#[test]
#[ignore = "needs strace: make test"]
fn splice_to_splice() {
    let (said, writer, reader) = traced("--mode splice --bytes 2M");
    assert_eq!((writer.calls("splice"), writer.bytes("splice")), (said.writer().calls, 2 << 20));
    assert_eq!((reader.calls("splice"), reader.bytes("splice")), (said.reader().calls, 2 << 20));
}

#[test]
#[ignore = "needs strace: make test"]
fn busy_loops_count_every_attempt() {
    let (said, writer, reader) = traced("--mode vmsplice-huge-busy --bytes 2M");
    assert_eq!((writer.calls("vmsplice"), writer.bytes("vmsplice")), (said.writer().calls, 2 << 20));
    assert_eq!((reader.calls("splice"), reader.bytes("splice")), (said.reader().calls, 2 << 20));
}

#[test]
#[ignore = "needs strace: make test"]
fn polls_and_extra_calls_are_counted() {
    let (said, writer, reader) = traced("--calls 20 --extra-call-every 5 --poll");
    assert_eq!((writer.calls("poll"), writer.calls("write")), (20, 20 + 4));
    assert_eq!(said.writer().calls, 44);
    assert_eq!(reader.calls("poll") + reader.calls("read"), said.reader().calls);
}

/// Article C: cat with stdio, with read and write, and with splice.
#[test]
#[ignore = "needs strace: make test"]
fn cat_five_ways() {
    let variants = [("stdio", 4 << 10), ("stdio", 128 << 10), ("read-write", 4 << 10), ("read-write", 128 << 10)];
    for (variant, buffer) in variants {
        let (said, writer, _) = traced(&format!("--writer {variant} --buffer-size {buffer} --bytes 1M"));
        let blocks = (1 << 20) / buffer;
        assert_eq!((writer.calls("write"), writer.bytes("write")), (blocks, 1 << 20), "{variant} {buffer}");
        assert_eq!((writer.calls("read"), writer.bytes("read")), (blocks, 1 << 20), "{variant} {buffer}");
        assert_eq!((said.writer().calls, said.writer().bytes), (2 * blocks, 1 << 20), "{variant} {buffer}");
    }
    let (said, writer, _) = traced("--writer splice --buffer-size 128K --bytes 1M");
    assert_eq!((writer.calls("splice"), writer.bytes("splice")), (said.writer().calls, 1 << 20));
}

/// `reproduce cat` takes half of all calls as writes: with its reader and its buffers, each write has one read.
#[test]
#[ignore = "needs strace: make test"]
fn half_of_a_cats_calls_are_writes() {
    let variants = [("stdio", 4 << 10), ("stdio", 128 << 10), ("read-write", 4 << 10), ("read-write", 128 << 10)];
    for (variant, buffer) in variants {
        let line = format!("--writer {variant} --buffer-size {buffer} --reader read-write --reader-buffer-size 8K");
        let (said, writer, _) = traced(&format!("{line} --bytes 1M"));
        assert_eq!(writer.calls("write") + writer.calls("read"), said.writer().calls, "{variant} {buffer}");
        assert_eq!(2 * writer.calls("write"), said.writer().calls, "{variant} {buffer}");
        assert_eq!(said.writer().short, 0, "{variant} {buffer}");
    }
}

#[test]
#[ignore = "needs strace: make test"]
fn a_source_that_ends_begins_again() {
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), vec![1; 100_000]).unwrap();
    let path = source.path().display();
    let (said, writer, _) = traced(&format!("--writer read-write --buffer-size 64K --bytes 300000 --source {path}"));
    // Three times through the file, two reads each; the end of file was reached twice, followed by a seek to the
    // start.
    assert_eq!((writer.calls("read"), writer.calls("write"), writer.calls("lseek")), (8, 6, 2));
    assert_eq!((said.writer().calls, said.writer().bytes), (16, 300_000));
    let (said, writer, _) = traced(&format!("--writer splice --buffer-size 64K --bytes 300000 --source {path}"));
    assert_eq!(
        (writer.calls("splice"), writer.bytes("splice"), writer.calls("lseek")),
        (said.writer().calls, 300_000, 0)
    );
}

/// `dd bs=1M`: each read is followed by a write.
#[test]
#[ignore = "needs strace: make test"]
fn a_reader_like_dd() {
    let (said, _, reader) = traced("--bytes 4M --reader read-write --reader-buffer-size 1M --pipe-size 1M");
    assert_eq!((reader.bytes("read"), reader.bytes("write")), (4 << 20, 4 << 20));
    assert_eq!(reader.calls("read"), reader.calls("write") + 1, "one read finds the end of file");
    assert_eq!(said.reader().calls, reader.calls("read") + reader.calls("write"));
}

//! `pipeprof record` with pipelines whose truth is known by construction.

mod all;
mod cases;
mod channels;
mod checked;
mod containers;
mod counts;
mod ends;
mod findings;
mod guests;
mod left;
mod levels;
mod limits;
mod live;
mod overlooked;
mod path;
mod perfetto;
mod rings;
mod running;
mod screen;
mod skipped;
mod special;
mod starved;
mod trials;
mod untrusted;
mod usage;
mod waits;
mod words;

use crate::common::{pipeprof, programs};
use pipeprof::result::{Document, RecordedChannel, RecordedEnd};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

/// More calls than any stage makes.
const ALL: &str = "1000000000";

struct Recorded {
    output: Output,
    recording: Document,
}

/// Record `words`, with `input` as standard input.
fn record_with(words: &[&str], input: &[u8]) -> Recorded {
    record_flags(&[], words, input)
}

/// The same for so long.
fn record_for(duration: &str, words: &[&str]) -> Recorded {
    record_flags(&["--duration", duration], words, b"")
}

fn record_flags(flags: &[&str], words: &[&str], input: &[u8]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let mut command = pipeprof(&["record", "-o", target.to_str().unwrap()]);
    command.args(flags).arg("--");
    let mut child =
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(target.join("result.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let recording = serde_json::from_str(&text).unwrap();
    path::adds_up(&recording);
    Recorded { recording, output }
}

fn record(words: &[&str]) -> Recorded {
    record_with(words, b"")
}

/// Record `stages` of the tests' own program with `flags`, and return the folder, too.
fn record_at_level(flags: &[&str], stages: &[&[&str]]) -> (Recorded, tempfile::TempDir) {
    let own = programs();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let mut command = pipeprof(&["record", "-o", target.to_str().unwrap()]);
    command.args(flags).arg("--");
    for (number, stage) in stages.iter().enumerate() {
        command.args((number > 0).then_some("|")).args([own.to_str().unwrap(), "stage"]).args(*stage);
    }
    // Looks take orphans of their process group for the pipeline's; other tests have some, too.
    let output = command.process_group(0).stdin(Stdio::null()).output().unwrap();
    let text = std::fs::read_to_string(target.join("result.json"));
    let text = text.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let recording = serde_json::from_str(&text).unwrap();
    path::adds_up(&recording);
    (Recorded { recording, output }, folder)
}

/// Record stages of the tests' own program.
fn record_stages(stages: &[&[&str]]) -> Recorded {
    let own = programs();
    let mut words: Vec<&str> = Vec::new();
    for stage in stages {
        if !words.is_empty() {
            words.push("|");
        }
        words.extend([own.to_str().unwrap(), "stage"]);
        words.extend(*stage);
    }
    record(&words)
}

impl Recorded {
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).trim().to_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn answer(&self) -> String {
        self.recording.sentences().join(" ")
    }

    /// Share of the window that the writers slept because the pipe was full.
    fn full(&self, pipe: usize) -> f64 {
        self.share(&self.recording.channels[pipe].writers)
    }

    /// Share of the window that the readers slept because the pipe was empty.
    fn empty(&self, pipe: usize) -> f64 {
        self.share(&self.recording.channels[pipe].readers)
    }

    fn share(&self, ends: &[RecordedEnd]) -> f64 {
        ends.iter().map(|end| end.blocked_ns).sum::<u64>() as f64 / self.recording.processes.window_ns as f64
    }
}

/// The time was mainly the sleep of `stage` on a timer.
fn limited_by_timer(answer: &str, stage: &str) {
    let (share, part) = answer.split_once(" were ").and_then(|(_, parts)| parts.split_once(" % ")).expect(answer);
    assert!(part.starts_with(&format!("`{stage}` sleeping on a timer")), "{answer}");
    assert!(share.parse::<u32>().is_ok_and(|share| share > 30), "{answer}");
}

/// The path of Python itself, which a script of its name may start: that has pipes of its own.
fn python() -> String {
    let which = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(which.stdout).unwrap().trim().to_owned()
}

fn bytes(ends: &[RecordedEnd]) -> u64 {
    ends.iter().map(|end| end.bytes).sum()
}

/// `found` calls or sleeps are `expected`. Each program that the kernel skipped, which `recording` says, can miss one.
fn exact(recording: &Document, found: u64, expected: u64) {
    nearly(recording, found, expected, 1);
}

/// The same, where each program can miss so much.
fn nearly(recording: &Document, found: u64, expected: u64, each: u64) {
    let missing = expected.checked_sub(found);
    let skipped = recording.skipped;
    let enough = missing.is_some_and(|missing| missing <= skipped * each);
    assert!(enough, "{found} of {expected}, {skipped} skipped: {recording:#?}");
}

/// Both sides of `pipe` moved `expected` bytes.
fn moved(recording: &Document, pipe: &RecordedChannel, expected: u64) {
    for ends in [&pipe.writers, &pipe.readers] {
        // The size of the largest call, as a power of two.
        let largest = ends.iter().map(|end| 1 << end.log2_sizes.len()).max().unwrap_or(0);
        nearly(recording, bytes(ends), expected, largest);
    }
}

/// A pipeline in which stage 1 forks, stage 2 starts a thread, and stage 3 executes from a second thread.
fn check_followed(recording: &Document, expected: u64) {
    assert_eq!(recording.channels.len(), 4, "{recording:#?}");
    recording.channels.iter().for_each(|pipe| moved(recording, pipe, expected));
    let of = |stage: u32| recording.recorded.iter().filter(move |process| process.stage == stage);
    assert_eq!(of(1).map(|process| process.forks).sum::<u64>(), 1, "{recording:#?}");
    assert!(of(2).any(|process| process.threads == 2), "{recording:#?}");
    assert_eq!(of(3).map(|process| process.execs).sum::<u64>(), 2, "{recording:#?}");
    let expected = usize::from(recording.skipped > 0) + usize::from(recording.unseen_switches > 0);
    assert_eq!(recording.warnings.len(), expected, "{recording:#?}");
}

//! Calls and bytes of each process at each pipe, compared with what is known otherwise.

use super::{ALL, check_followed, exact, limited_by_timer, moved, nearly, record, record_stages};
use crate::common::{pipeprof, programs};
use pipeprof::result::{Document, RecordedChannel, RecordedEnd, WaitReason};
use pipeprof::util::warning::WarningCode;
use std::process::{Command, Stdio};

#[test]
#[ignore = "needs root: make test"]
fn sizes_and_numbers_of_calls_are_exact() {
    let small = record_stages(&[&["write", "1", "5000"], &["read", "65536", ALL]]);
    assert!(small.answer().contains("writes only 1 byte per call"), "{}", small.answer());
    let writer = &small.recording.channels[0].writers[0];
    for found in [writer.calls["write"], writer.bytes, writer.log2_sizes[0], writer.requested] {
        exact(&small.recording, found, 5000);
    }
    assert_eq!((writer.log2_sizes.len(), writer.short), (1, 0));

    let reads = record_stages(&[&["write", "65536", "100"], &["read", "4096", ALL]]);
    let reader = &reads.recording.channels[0].readers[0];
    exact(&reads.recording, reader.calls["read"], 1601);
    exact(&reads.recording, reader.log2_sizes[12], 1600);
    assert!(reader.log2_sizes[..12].iter().all(|calls| *calls == 0), "{reader:#?}");

    let dd = record(&["dd", "if=/dev/zero", "bs=4k", "count=1000", "|", "wc", "-c"]);
    assert_eq!(dd.stdout(), "4096000");
    exact(&dd.recording, dd.recording.channels[0].writers[0].calls["write"], 1000);
    moved(&dd.recording, &dd.recording.channels[0], 4_096_000);
}

#[test]
#[ignore = "needs root and takes over 5 seconds: make test"]
fn thousands_of_short_processes_lose_nothing() {
    const SHORT: usize = 5000;
    let line = format!("seq {SHORT} | xargs -n1 true; head -c 3000000 /dev/zero | tail -c 1000");
    let recorded = record(&["sh", "-c", &line, "|", "cat"]);
    let recording = &recorded.recording;
    assert_eq!(recorded.output.stdout.len(), 1000);
    use WarningCode::{
        CallsNotRecorded, ProcessesNotRecorded, SleepsNotRecorded, StacksNotRecorded, ThreadsNotRecorded,
    };
    let not_recorded =
        [CallsNotRecorded, ProcessesNotRecorded, SleepsNotRecorded, StacksNotRecorded, ThreadsNotRecorded];
    let lost = recording.warnings.iter().find(|warning| not_recorded.contains(&warning.code));
    assert_eq!(lost, None, "{}", recorded.stderr());
    let named = |name: &'static str| recording.recorded.iter().filter(move |process| process.name == name);
    // One row, with all of them. Some virtual machines hide a few forks and execs.
    let [short] = named("true").collect::<Vec<_>>()[..] else { panic!("{}", recorded.stderr()) };
    let hidden = if recording.unseen_switches + recording.skipped == 0 { 0 } else { SHORT / 50 };
    assert!((SHORT - hidden..=SHORT).contains(&short.pids.len()), "{}", recorded.stderr());
    assert_eq!((short.execs, short.threads), (short.pids.len() as u64, short.pids.len() as u64));
    assert!(short.cpu_ns > 0 && short.lived_ns >= short.cpu_ns, "{short:#?}");
    let forks = named("xargs").map(|process| process.forks).sum::<u64>() as usize;
    assert!((SHORT - hidden..=SHORT).contains(&forks), "{}", recorded.stderr());
    // Those that come after them are recorded, too.
    let late = recording
        .channels
        .iter()
        .find(|pipe| pipe.writers.iter().any(|end| recording.recorded[end.process].name == "head"));
    moved(recording, late.expect("a pipe"), 3_000_000);
    let running: f64 = recording.timeline.processes.iter().flat_map(|row| &row.running).sum();
    assert!(running > 0.0);
}

#[test]
#[ignore = "needs root and strace: make test"]
fn calls_are_as_many_as_strace_counts() {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    let strace = ["-c", "-o", counts.to_str().unwrap(), "cat", "/etc/passwd"];
    assert!(Command::new("strace").args(strace).stdout(Stdio::null()).status().unwrap().success());
    let text = std::fs::read_to_string(&counts).unwrap();
    let total: u64 = text.lines().last().unwrap().split_whitespace().nth(3).unwrap().parse().unwrap();
    let recorded = record(&["cat", "/etc/passwd"]);
    // Neither counts the call that ends the process, because it does not return.
    exact(&recorded.recording, recorded.recording.recorded[0].calls, total);
}

#[test]
#[ignore = "needs root and python3: make test"]
fn bytes_and_calls_are_those_that_proc_counts() {
    // What the kernel itself counts of a process, less what reading it adds.
    let reader = "import os
io = lambda: dict((k, int(v)) for k, v in (line.split(':') for line in open('/proc/self/io')))
a = io()
while os.read(0, 65536): pass
b = io(); c = io()
print(*(b[key] - a[key] - (c[key] - b[key]) for key in ('rchar', 'syscr')))";
    let read = record(&["head", "-c", "3000000", "/dev/zero", "|", "python3", "-c", reader]);
    let counted: Vec<u64> = read.stdout().split(' ').map(|number| number.parse().unwrap()).collect();
    // The numbers in /proc/self/io get longer.
    assert!(counted[0].abs_diff(3_000_000) < 32, "{counted:?}");
    let end = &read.recording.channels[0].readers[0];
    nearly(&read.recording, end.bytes, 3_000_000, 1 << end.log2_sizes.len());
    exact(&read.recording, end.calls["read"], counted[1]);
}

#[test]
#[ignore = "needs root: make test"]
fn two_writers_of_one_pipe_are_both_counted() {
    let own = programs();
    let stage = |words: &str| format!("{} stage {words}", own.display());
    let line = format!(
        "({a} & {b}; wait) | {r}",
        a = stage("write 100 300"),
        b = stage("write 200 400"),
        r = stage(&format!("read 65536 {ALL}"))
    );
    let both = record(&[&line]);
    let pipe = both.recording.channels.iter().max_by_key(|pipe| pipe.bytes()).unwrap();
    moved(&both.recording, pipe, 300 * 100 + 400 * 200);
    // They run the same program on the same pipe, and so are one row.
    let [end] = &pipe.writers[..] else { panic!("{pipe:#?}") };
    exact(&both.recording, end.calls["write"], 700);
    assert_eq!(both.recording.recorded[end.process].pids.len(), 2);
}

#[test]
#[ignore = "needs root: make test"]
fn opening_a_fifo_waits_for_its_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("mkfifo {0}; (sleep 1; cat {0}) & echo line >{0}; wait", folder.path().join("fifo").display());
    let recorded = record(&[&line]);
    assert_eq!(recorded.stdout(), "line");
    // The other pipe is to this test.
    let pipe = recorded.recording.channels.iter().find(|pipe| !pipe.readers.is_empty()).expect("the FIFO");
    let opening = recorded.recording.recorded[pipe.writers[0].process].waits[&WaitReason::Open];
    // On a busy machine, one shell may sleep for long before the other opens.
    assert!(opening.ns > 100_000_000 && opening.ns < recorded.recording.processes.window_ns, "{opening:?}");
    assert!(recorded.answer().contains("until another process opens the other end"), "{}", recorded.stderr());
    // The path goes to the process that sleeps before it opens the other end.
    limited_by_timer(&recorded.answer(), "sleep");
}

#[test]
#[ignore = "needs root: make test"]
fn a_shell_finds_its_pipes_and_fifos() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let line = format!("mkfifo {0}; head -c 1M /dev/zero >{0} & cat {0} | wc -c; wait", fifo.display());
    let recorded = record(&[&line]);
    assert_eq!(recorded.stdout(), "1048576");
    // The other side of the last pipe is this test.
    let name = |ends: &[RecordedEnd]| {
        ends.first().map_or_else(String::new, |end| recorded.recording.recorded[end.process].name.clone())
    };
    let ends: Vec<(String, String)> =
        recorded.recording.channels.iter().map(|pipe| (name(&pipe.writers), name(&pipe.readers))).collect();
    for (from, to) in [("head", "cat"), ("cat", "wc")] {
        let at = ends.iter().position(|ends| *ends == (from.to_owned(), to.to_owned()));
        moved(
            &recorded.recording,
            &recorded.recording.channels[at.unwrap_or_else(|| panic!("{from} to {to}: {ends:?}"))],
            1 << 20,
        );
    }
}

#[test]
#[ignore = "needs root: make test"]
fn forks_threads_and_execs_are_followed() {
    let followed = record_stages(&[
        &["write", "4096", "300"],
        &["fork", "4096", ALL],
        &["thread", "4096", ALL],
        &["exec", "4096", ALL],
        &["read", "4096", ALL],
    ]);
    check_followed(&followed.recording, 300 * 4096);
}

#[test]
#[ignore = "needs root: make test"]
fn two_hundred_stages_are_recorded() {
    let mut words = vec!["head", "-c", "100000", "/dev/zero"];
    for _ in 1..200 {
        words.extend(["|", "cat"]);
    }
    let many = record(&words);
    assert_eq!(many.output.stdout.len(), 100_000);
    let inner: Vec<&RecordedChannel> = many.recording.channels.iter().filter(|pipe| pipe.between.is_some()).collect();
    assert_eq!(inner.len(), 199);
    inner.iter().for_each(|pipe| moved(&many.recording, pipe, 100_000));
}

/// Python's subprocess module makes three pipes for each child here. Only those of the last child carry something.
#[test]
#[ignore = "needs root and python3: make test"]
fn pipes_without_data_are_left_out_of_the_tables() {
    let python = super::python();
    let program = "import subprocess
for _ in range(30): subprocess.run(['true'], capture_output=True)
subprocess.run(['echo', 'text'], capture_output=True)";
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let mut command = pipeprof(&["record", "-o", target.to_str().unwrap(), "--", &python, "-c", program]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let read =
        |name: &str| std::fs::read_to_string(target.join(name)).unwrap_or_else(|error| panic!("{error}: {said}"));
    let recording: Document = serde_json::from_str(&read("result.json")).unwrap();
    let (idle, used): (Vec<_>, Vec<_>) = recording.channels.iter().partition(|pipe| pipe.bytes() == 0);
    assert_eq!((idle.len(), used.len()), (3 * 30 + 2, 1), "{said}");
    for text in [&said, read("record.html").as_str()] {
        let count = |name: &str| text.matches(name).count();
        assert_eq!((count("outside to python3"), count("92 pipes more in result.json")), (0, 1), "{text}");
        // In the table of pipes and in that of calls.
        assert!(count("echo to python3") >= 3 && count("5 bytes") == 1, "{text}");
    }
}

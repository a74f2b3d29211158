//! io_uring: what the built-in pair moves by it.

use super::guests::record_in_guest;
use super::{Recorded, bytes, exact, record};
use pipeprof::result::RecordedChannel;
use std::process::Stdio;

const BINARY: &str = env!("CARGO_BIN_EXE_pipeprof");

/// No multiple of a buffer.
const BYTES: u64 = 5_000_001;

/// The words that move [`BYTES`] with these flags.
fn pair(flags: &str) -> Vec<String> {
    let line = format!("{BINARY} __engine --warmup 0 --bytes {BYTES} {flags}");
    line.split(' ').map(str::to_owned).collect()
}

/// The pipe of the pair, all of whose bytes were seen.
fn pipe<'a>(case: &str, recorded: &'a Recorded) -> &'a RecordedChannel {
    let recording = &recorded.recording;
    let requests: Vec<_> =
        recording.recorded.iter().map(|one| (&one.name, one.ring_requests, one.worker_requests)).collect();
    let said: String = recorded.stderr().chars().take(300).collect();
    let code = recorded.output.status.code();
    // In one line: of a failure in a long log, not more may be kept.
    let seen =
        format!("{case}: {code:?}, {requests:?}, {} skipped, {:?}, {said:?}", recording.skipped, recording.warnings);
    assert_eq!(code, Some(0), "{seen}");
    let pipe = recording.channels.iter().max_by_key(|channel| bytes(&channel.writers)).unwrap();
    let moved_by = [bytes(&pipe.writers), bytes(&pipe.readers)];
    let largest = pipe.ends().map(|end| 1 << end.log2_sizes.len()).max().unwrap_or(0);
    let missing = moved_by.map(|bytes| BYTES.checked_sub(bytes));
    let most = recording.skipped * largest;
    assert!(missing.iter().all(|bytes| bytes.is_some_and(|bytes| bytes <= most)), "{moved_by:?} bytes, {seen}");
    assert!(!recorded.stderr().contains("not recorded"), "{seen}");
    pipe
}

#[test]
#[ignore = "needs root: make test"]
fn what_io_uring_moves_is_counted_and_its_waits_are_at_the_pipe() {
    for (flags, written, read) in [
        ("--mode io-uring --verify", "io_uring", "io_uring"),
        ("--mode io-uring-registered --batch 4", "io_uring", "io_uring"),
        ("--mode io-uring-sqpoll", "io_uring", "io_uring"),
        ("--mode io-uring-multishot --verify", "io_uring", "io_uring"),
        ("--mode io-uring-splice", "io_uring", "io_uring"),
        ("--mode write --reader io-uring --verify", "write", "io_uring"),
        ("--writer io-uring --reader read --verify", "io_uring", "read"),
    ] {
        // One that the kernel does not have is an error, which tests of the workload check.
        let words = pair(flags);
        let recorded = record(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let found = pipe(flags, &recorded);
        let calls = |ends: &[pipeprof::result::RecordedEnd], call: &str| {
            ends.iter().filter_map(|end| end.calls.get(call)).sum::<u64>()
        };
        assert!(calls(&found.writers, written) > 0 && calls(&found.readers, read) > 0, "{flags}: {found:#?}");
        let of = |call: &str| u64::from(call == "io_uring");
        let requests: u64 = recorded.recording.recorded.iter().map(|process| process.ring_requests).sum();
        let seen = of(written) * calls(&found.writers, written) + of(read) * calls(&found.readers, read);
        // Of requests that belong together, a short one cancels those behind it.
        let cancels = flags.contains("--batch") || flags.contains("multishot");
        if cancels {
            assert!(seen <= requests, "{flags}: {seen} of {requests}");
        } else {
            exact(&recorded.recording, seen, requests);
        }
        let polled: u64 = recorded.recording.recorded.iter().map(|process| process.poller_ns).sum();
        assert_eq!(polled > 0, flags.contains("sqpoll"), "{flags}: {polled} ns");
    }
    // The pipe is full: its reader sleeps.
    let slow = format!("{BINARY} __engine --writer io-uring --reader read-write --bytes 20000000 --warmup 0");
    let recorded = record(&["sh", "-c", &slow]);
    assert!(recorded.recording.channels.iter().any(|channel| channel.writers.iter().any(|end| end.sleeps > 0)));
}

#[test]
#[ignore = "boots guests: make test"]
fn guests_count_what_io_uring_moves() {
    for series in ["6.1", "6.12", "7.2"] {
        let words = pair("--mode io-uring --verify");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (recorded, _) = record_in_guest(series, &["--level", "stacks"], &words, Stdio::null());
        let found = pipe(series, &recorded);
        // Each sleep is at one side of the pipe, whoever waited: the program, or a thread of the kernel for it.
        let sleeps: u64 = found.ends().map(|end| end.sleeps).sum();
        let workers: u64 = recorded.recording.recorded.iter().map(|process| process.worker_requests).sum();
        assert!(sleeps > 0, "{series}: no sleeps, {workers} requests by workers");
        // Debian's 6.12 and 7.2 try a pipe without sleeping.
        assert_eq!(workers > 0, series == "6.1", "{series}: {workers}");
    }
}

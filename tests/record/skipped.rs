//! Programs that a kernel skips, because it has preempted them in another thread.

use super::guests::record_in_guest;
use super::{bytes, exact, moved};
use std::process::Stdio;

/// Processes that begin and end side by side preempt each other, and pipeprof while it reads.
#[test]
#[ignore = "boots guests: make test"]
fn no_fork_exec_or_exit_is_missed_where_programs_are_preempted() {
    let line = "i=100; while [ $i -lt 400 ]; do /bin/true & /bin/echo $i & i=$((i+1)); done | wc -c; wait";
    for series in ["6.12", "7.2"] {
        let files = ["--file", "/bin/true", "--file", "/bin/echo"];
        let (recorded, _) = record_in_guest(series, &files, &[line], Stdio::null());
        assert_eq!(recorded.stdout(), "1200", "{series}: {}", recorded.stderr());
        let recording = &recorded.recording;
        let named = |name: &str| {
            let rows = recording.recorded.iter().filter(|process| process.name == name);
            rows.map(|process| process.pids.len()).sum::<usize>()
        };
        assert_eq!(["true", "echo", "wc"].map(named), [300, 300, 1], "{series}: {} skipped", recording.skipped);
        let sum = |of: fn(&pipeprof::result::RecordedProcess) -> u64| recording.recorded.iter().map(of).sum::<u64>();
        assert_eq!(sum(|process| process.execs), 602, "{series}: {} skipped", recording.skipped);
        // Before there was a second program for each of these events, some 500 were skipped on 7.2, and bytes were missing.
        assert!(recording.skipped < 20, "{series}: {}", recording.skipped);
        let pipe = recording.channels.iter().max_by_key(|pipe| bytes(&pipe.writers)).unwrap();
        moved(recording, pipe, 1200);
        let writes = pipe.writers.iter().filter_map(|end| end.calls.get("write")).sum();
        exact(recording, writes, 300);
    }
}

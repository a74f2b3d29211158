//! What programs say of themselves, how much memory they had, and turns of loops, of pipelines that are made to do it.

use super::findings::said;
use super::{python, record};
use pipeprof::result::{FindingKind, RecordedProcess};

#[test]
#[ignore = "needs root and python3: make test"]
fn who_failed_is_quoted() {
    let missing = "`ls` wrote to its standard error: `ls: cannot access '/no/such/file': No such file or directory`.";
    said(&["sh -c 'ls /no/such/file 2>/dev/null; exit $?'"], FindingKind::ExitCode, missing);
    // In pieces, with the reason in the middle of it, and by a builtin command of a shell, whose descriptor 1 is a copy then.
    let by_python = |write: &str, text: &str| {
        let line = format!("{} -c \"import os\n{write}\nos._exit(4)\" 2>/dev/null; exit $?", python());
        said(&["sh", "-c", &line], FindingKind::ExitCode, text);
    };
    let pieces = "for text in [b'a: ', b'no config', b'\\n', b'Try a --help\\n']: os.write(2, text)";
    by_python(pieces, "wrote to its standard error: `a: no config`.");
    by_python("os.writev(2, [b'a: ', b'denied\\n'])", "wrote to its standard error: `a: denied`.");
    let builtin = "bash -c 'echo \"a: not found\" >&2; exit 4' 2>/dev/null";
    said(&[builtin], FindingKind::ExitCode, "wrote to its standard error: `a: not found`.");
    let recorded = record(&["bash -c 'echo \"a: not found\"; ls / >/dev/null; exit 4'"]);
    assert!(!recorded.answer().contains("standard error"), "standard output: {}", recorded.answer());
    let unread = "seq 300000 | gzip -1 | bash -c 'read -Z'; true";
    said(
        &[unread],
        FindingKind::Sigpipe,
        "and read nothing. `bash` wrote to its standard error: `bash: line 1: read: -Z: invalid option`.",
    );
}

#[test]
#[ignore = "needs root and python3: make test"]
fn the_most_memory_of_a_process_is_known() {
    let recorded = record(&[&python(), "-c", "a = b'x' * (200 << 20); del a"]);
    let peak = recorded.recording.recorded.iter().map(|process| process.peak_memory).max().unwrap();
    assert!((200 << 20..300 << 20).contains(&peak), "{peak}");
    // Not that of the process that executed it.
    let executed = format!("a = b'x' * (200 << 20); import os; os.execvp('{}', ['python3', '-c', ''])", python());
    let recorded = record(&[&python(), "-c", &executed]);
    let last = recorded.recording.recorded.iter().max_by_key(|process| process.end_ns).unwrap();
    assert!(last.peak_memory < 100 << 20, "{last:?}");
}

#[test]
#[ignore = "needs root: make test"]
fn three_turns_of_a_loop_are_one_row() {
    let rows = |line: &str| {
        let recorded = record(&[line]);
        let counts = |name: &str| -> Vec<usize> {
            let is_it = |process: &&RecordedProcess| process.name == name;
            recorded.recording.recorded.iter().filter(is_it).map(|process| process.pids.len()).collect()
        };
        (counts("tr"), recorded.recording.channels.iter().filter(|pipe| pipe.is_used()).count())
    };
    assert_eq!(rows("for i in 1 2 3; do seq 1000 | tr 1 2 | wc -c; done").0, [3]);
    assert_eq!(rows("for i in 1 2; do seq 1000 | tr 1 2 | wc -c; done").0, [1, 1]);
    // At the same time.
    assert_eq!(rows("for i in 1 2 3; do (seq 10; sleep 0.5) | tr 1 2 | wc -c & done; wait").0, [1, 1, 1]);
}

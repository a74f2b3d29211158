//! A recording whose parts the tests of the rules change, and what is said of it.

use super::*;
use crate::record::model::stages::tests::shell;
use crate::result::{FindingKind, NameUse, NamedFile, ProcessLife, Processes, RecordedEnd};

pub(crate) const WINDOW: u64 = 4_000_000_000;

/// `seq | grep | cat`, of which each ends in order, with a pipe between each two, through which some bytes go.
pub(crate) fn pipeline() -> Document {
    let mut recording = shell(["seq", "grep", "cat"], &[[&[0], &[1]], [&[1], &[2]]]);
    recording.processes = Processes { window_ns: WINDOW, ..Processes::default() };
    for (at, process) in (1..).zip(&mut recording.recorded) {
        process.pids = vec![at];
        process.end_ns = WINDOW - 3_000 + u64::from(at) * 1000;
    }
    for pipe in &mut recording.channels {
        pipe.slots = Some([16; 3]);
        for (name, end) in [("write", &mut pipe.writers[0]), ("read", &mut pipe.readers[0])] {
            let process = end.process;
            let calls = [(name.to_owned(), 20)].into();
            *end = RecordedEnd { process, bytes: 1000, calls, moved_ns: Some([0, WINDOW]), ..RecordedEnd::default() };
        }
    }
    recording
}

pub(crate) const MS: u64 = 1_000_000;

/// `f`, used by one of `seq | grep | cat`, whose ids are 1 to 3.
pub(crate) fn used(process: usize, does: NameUse, at: u64) -> NamedFile {
    NamedFile {
        process,
        pid: process as u32 + 1,
        path: "/t/f".to_owned(),
        does,
        at_ns: [at * MS; 2],
        inode: 7,
        size: 9,
        calls: 1,
        ..NamedFile::default()
    }
}

/// The three live all the time, and nothing is known of who started them.
pub(crate) fn lives(recording: &mut Document) {
    let life = |pid| ProcessLife { pid, lived_ns: [0, 900 * MS], ..ProcessLife::default() };
    recording.lives = (1..4).map(life).collect();
}

/// What a rule says of it after a change.
pub(crate) fn said(find: FindingRule, change: &dyn Fn(&mut Document)) -> Vec<String> {
    let mut recording = pipeline();
    change(&mut recording);
    find(&FindingView::new(&recording)).into_iter().map(|finding| finding.text).collect()
}

/// The same after another change before.
pub(crate) fn said_after(
    find: FindingRule,
    before: &dyn Fn(&mut Document),
    change: &dyn Fn(&mut Document),
) -> Vec<String> {
    said(find, &|recording| {
        before(recording);
        change(recording);
    })
}

/// A change of a recording.
pub(crate) type RecordingChange<'a> = &'a dyn Fn(&mut Document);

/// Check that a rule finds nothing after any one of these changes.
pub(crate) fn silent(said: &dyn Fn(RecordingChange<'_>) -> Vec<String>, changes: &[RecordingChange<'_>]) {
    for (at, change) in changes.iter().enumerate() {
        assert_eq!(said(change), Vec::<String>::new(), "change {at}");
    }
}

#[test]
fn nothing_is_said_of_an_ordinary_pipeline() {
    assert_eq!(all(&pipeline()), []);
    assert_eq!(all(&Document::default()), []);
}

#[test]
fn sentences_that_differ_in_numbers_only_are_one() {
    let finding =
        |at: usize, text: &str| Finding { channels: vec![at], ..Finding::new(FindingKind::Cut, [at], text.to_owned()) };
    let all = |count: usize| {
        once((0..count).map(|at| finding(at, &format!("`tee` lost {at} bytes at 1.{at} s."))).chain([finding(9, "x")]))
    };
    let merged = all(3);
    assert_eq!(merged[0].text, "`tee` lost 0 bytes at 1.0 s. The same happened 2 more times.");
    assert_eq!((merged.len(), merged[0].channels.clone()), (2, vec![0, 1, 2]));
    assert_eq!(all(2).len(), 3, "two are both said");
}

/// Makes a process fail in a pipeline whose exit code is 0.
pub(crate) fn fails(recording: &mut Document, at: usize, code: u8) {
    recording.exit_codes = vec![0];
    let process = &mut recording.recorded[at];
    (process.exit_code, process.execs) = (Some(code), 1);
}

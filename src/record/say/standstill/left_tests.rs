//! Ends that a process has only because it was left with them.

use super::tests::{end, recording, said, wait};
use super::*;

fn held(change: &dyn Fn(&mut Document)) -> String {
    let mut recording = recording(vec![LastWait { endless: false, ..wait(0, 1, 5, false, &[2]) }]);
    change(&mut recording);
    said(&recording, &[FindingKind::Held]).concat()
}

fn channel(recording: &mut Document) -> &mut crate::result::AwaitedChannel {
    let wait = &mut recording.last_look.as_mut().unwrap().waits[0];
    let WaitedFor::Channels { any, .. } = &mut wait.awaited else { panic!() };
    &mut any[0]
}

#[test]
fn a_descriptor_that_another_program_was_left_with_is_said() {
    let left = |change: &dyn Fn(&mut Document)| {
        held(&|recording| {
            // Its starter wrote there, and the program that it started is busy with something else.
            recording.channels[0].writers = vec![end(1, 61, 0)];
            (recording.recorded[2].started_by, recording.recorded[2].execs) = (Some(1), 1);
            (recording.recorded[1].end_ns, recording.duration_ns) = (100, None);
            let holder = &mut channel(recording).holders[0];
            (holder.fd, holder.process.idle) = (4, false);
            change(recording);
        })
    };
    let begin = "`client` (process 1) waits for data from the pipe: only `sleep` (process 3) still has its write end open, and wrote nothing \
                 to it. `server`, which had started it, has left that to it (descriptor 4): ";
    let shell = "in a shell, `4>&-` behind a command closes that for it; in a program, O_CLOEXEC does.";
    assert_eq!(left(&|_| {}), format!("{begin}{shell}"));
    assert_eq!(left(&|recording| recording.recorded[2].execs = 0), "", "a copy may still write");
    assert_eq!(left(&|recording| channel(recording).holders[0].fd = 1), "", "it was given that");
    assert_eq!(left(&|recording| recording.channels[0].writers.push(end(2, 1, 0))), "", "it has used it");
}

#[test]
fn an_input_that_nobody_writes_or_closes_is_said() {
    let given = |change: &dyn Fn(&mut Document)| {
        held(&|recording| {
            recording.channels[0].writers.clear();
            recording.recorded[0].started_by = Some(2);
            let channel = channel(recording);
            (channel.fd, channel.holders[0].fd) = (0, 4);
            change(recording);
        })
    };
    let text = " That is the standard input of `client`: `sleep`, which started it, has to write there and to flush, to close that end (descriptor \
                4) before it waits for `client`, or to start it with `</dev/null`.";
    assert!(given(&|_| {}).ends_with(text), "{}", given(&|_| {}));
    assert!(!given(&|recording| channel(recording).fd = 3).contains("standard input of"));
    assert!(!given(&|recording| recording.recorded[0].started_by = Some(1)).contains("standard input of"));
}

#[test]
fn a_fifo_that_was_made_meanwhile_is_not_left_over() {
    let opens = |age_ns: Option<u64>| {
        let awaited =
            WaitedFor::Opening { path: "/t/p".to_owned(), writes: true, deleted: Vec::new(), removed: false, age_ns };
        let mut recording = recording(vec![LastWait { awaited, ..wait(0, 1, 5, true, &[]) }]);
        recording.recorded[0].waits = [(WaitReason::Open, crate::result::WaitTotal { ns: 900, count: 1 })].into();
        said(&recording, &[FindingKind::Unopened]).concat()
    };
    let old = "or it was left over and can be removed.";
    assert!(opens(None).ends_with(old) && opens(Some(1_000_000_000)).ends_with(old), "{}", opens(None));
    assert!(opens(Some(900)).ends_with("if it is to have both ends itself, it opens it with O_RDWR."));
}

//! Sentences about what others pass on, share, or were told.

use super::tests::{channels, end, first, held_up, recording, said, wait};
use super::*;
use crate::result::{
    ChannelKind, EndedChild, MeasuredTarget, PipelineCommand, RecordedChannel, RecordedEnd, WaitTotal,
};

fn circle(recording: &Document) -> Vec<String> {
    said(recording, &[FindingKind::Circle, FindingKind::Remedy])
}

/// `client` and `server` wait for each other's data.
fn both_wait() -> Document {
    recording(vec![wait(0, 1, 5, false, &[1]), wait(1, 3, 0, false, &[0])])
}

fn pipe_of(inode: u64, writers: Vec<RecordedEnd>, readers: Vec<RecordedEnd>) -> RecordedChannel {
    RecordedChannel { inode, writers, readers, ..RecordedChannel::default() }
}

#[test]
fn a_relay_that_has_got_the_end_is_to_pass_it_on() {
    let relay = |at_end: u64, read: u64| {
        let mut recording = both_wait();
        let source = RecordedEnd { at_end, ..end(0, read, 0) };
        recording.channels = vec![
            pipe_of(3, vec![end(0, 290, 0)], vec![end(1, 290, 900)]),
            pipe_of(9, vec![end(2, 290, 0)], vec![source]),
        ];
        circle(&recording)[1].clone()
    };
    let text = "`client` passes to `server` what `sleep` writes (290 bytes), and has read the end of that: it has to close the write end to \
                `server` (descriptor 1), too, so that `server` gets the end.";
    assert_eq!(relay(1, 290), text);
    assert_ne!(relay(0, 290), text, "there can be more");
    assert_ne!(relay(1, 100), text, "it is not what it passes on");
}

#[test]
fn who_else_read_an_input_is_said() {
    let other = |started_by: Option<usize>, bytes: u64| {
        let mut recording = both_wait();
        recording.recorded[2].started_by = started_by;
        recording.channels = vec![pipe_of(3, vec![end(0, 55, 0)], vec![end(1, 15, 900), end(2, bytes, 0)])];
        circle(&recording)[1].clone()
    };
    let text = "`sleep`, which `server` had started, read 40 of the 55 bytes that came there: it had inherited that input. `</dev/null` behind its \
                command (`stdin=DEVNULL`) leaves all to `server`.";
    assert_eq!(other(Some(1), 40), text);
    assert_ne!(other(None, 40), text);
    assert_ne!(other(Some(1), 0), text);
}

#[test]
fn who_reads_the_commands_of_its_shell_is_said() {
    let reads = |shell: &str, bytes: u64| {
        let mut recording = both_wait();
        recording.recorded[2].name = shell.to_owned();
        recording.recorded[1].started_by = Some(2);
        recording.channels = vec![pipe_of(3, vec![end(0, 55, 0)], vec![end(1, 15, 900), end(2, bytes, 0)])];
        circle(&recording)[1].clone()
    };
    let text = "`server` reads the standard input of `bash`, which has its commands from there, of which it took 15 bytes. `</dev/null` behind \
                the command leaves them to the shell.";
    assert_eq!(reads("bash", 40), text);
    assert_ne!(reads("bash", 0), text);
    assert_ne!(reads("cat", 40), text);
}

#[test]
fn a_server_that_is_to_end_and_keeps_a_connection_is_said() {
    let mut recording = both_wait();
    let WaitedFor::Channels { any, .. } = &mut recording.last_look.as_mut().unwrap().waits[0].awaited else { panic!() };
    any[0].kind = ChannelKind::UnixStream;
    let before = circle(&recording)[1].clone();
    recording.recorded[0].told_to_end_ns = Some(100);
    let text = "`client` was to end at 0.1000 µs (a signal), but keeps its socket to `server` open, and waits for what that sends or for its \
                end. When it is to end, it has to close such connections, too.";
    assert_eq!(circle(&recording)[1], text);
    assert_ne!(before, text);
}

#[test]
fn a_circle_goes_through_a_semaphore_that_others_have() {
    let shared = |with_server: bool| {
        let server = wait(1, 2, 2, true, &[0]);
        let holders = if with_server { vec![server.process.clone()] } else { Vec::new() };
        let client = LastWait { awaited: WaitedFor::Shared { holders, path: None }, ..wait(0, 1, 5, false, &[]) };
        circle(&recording(vec![client, server])).concat()
    };
    let text = shared(true);
    assert!(text.starts_with("`server` (process 2) and `client` (process 1) wait for each other: "), "{text}");
    assert!(
        text.contains("; `client` for a lock or semaphore that it shares with `server`. Nothing can go on."),
        "{text}"
    );
    assert_eq!(shared(false), "", "it is not known who has it");
}

#[test]
fn a_semaphore_that_nobody_else_has_is_said() {
    let left = |others: &[usize], path: Option<&str>| {
        let client = wait(0, 1, 5, false, &[]);
        let holders = [client.process.clone()].into_iter();
        let holders = holders.chain(others.iter().map(|at| wait(*at, 1, 0, false, &[]).process)).collect();
        let awaited = WaitedFor::Shared { holders, path: path.map(str::to_owned) };
        let mut recording = recording(vec![LastWait { awaited, ..client }]);
        recording.recorded[0].waits = [(WaitReason::Thread, WaitTotal { ns: 900, count: 1 })].into();
        held_up(&recording).first().cloned().unwrap_or_default()
    };
    let text = "`client` (process 1) waits for a lock or semaphore in `/dev/shm/sem.x`, and no other process has that memory: nobody that runs \
                can release it.";
    assert_eq!(left(&[], Some("/dev/shm/sem.x")), text);
    assert_eq!(left(&[1], Some("/dev/shm/sem.x")), "");
    assert_eq!(left(&[], None), "");
}

#[test]
fn a_terminal_that_a_job_keeps_is_said() {
    let kept = |change: &dyn Fn(&mut Document)| {
        let poll = LastWait { endless: false, ..wait(0, 1, 3, false, &[2]) };
        let mut channel = first(poll.clone());
        (channel.kind, channel.path, channel.holders[0].fd) = (ChannelKind::Pty, Some("/dev/pts/0".to_owned()), 0);
        let mut recording = recording(vec![LastWait { awaited: channels(vec![channel], 0, true), ..poll }]);
        let ended = EndedChild { pid: 9, name: "bash".to_owned(), status: None };
        recording.last_look.as_mut().unwrap().waits[0].process.unreaped = vec![ended];
        recording.recorded[0].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
        recording.recorded[1].end_ns = 100;
        recording.recorded[2].started_by = Some(1);
        recording.recorded[2].waits = [(WaitReason::Timer, WaitTotal { ns: 900, count: 1 })].into();
        change(&mut recording);
        held_up(&recording).concat()
    };
    let text = kept(&|_| {});
    let begin = "`client` (process 1) waits for data from the terminal `/dev/pts/0`: only `sleep` (process 3) still has its other end open";
    assert!(
        text.starts_with(begin) && text.contains("has not waited for its child `bash`, which has ended: "),
        "{text}"
    );
    assert_eq!(kept(&|recording| recording.recorded[2].started_by = None), "", "it was not left");
    assert_eq!(kept(&|recording| recording.recorded[1].end_ns = 990), "");
}

#[test]
fn who_polls_for_room_that_does_not_come_is_said() {
    let polls = |eagain: u64| {
        let own = first(wait(1, 7, 6, false, &[1]));
        let mut room = first(wait(1, 2, 19, true, &[0]));
        room.kind = ChannelKind::UnixStream;
        let poll = LastWait { endless: false, ..wait(1, 2, 19, true, &[0]) };
        let awaited = channels(vec![room, own], 0, true);
        let mut recording = recording(vec![LastWait { awaited, ..poll }]);
        recording.recorded[1].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
        recording.channels[1].writers[0] = RecordedEnd { eagain, ..end(1, 65_536, 0) };
        held_up(&recording).concat()
    };
    let text = "`server` (process 2) waits for room in the socket, which is full: `client` (process 1) has it open and has never read it. \
                `client` has to read it all the time, as in another thread, or to close it.";
    assert_eq!(polls(2), text);
    assert_eq!(polls(0), "");
}

#[test]
fn those_that_take_turns_by_a_timer_do_not_stand_still() {
    let mut waits = vec![wait(0, 1, 5, false, &[1]), wait(1, 3, 0, false, &[0])];
    waits.iter_mut().for_each(|wait| wait.endless = false);
    let mut recording = recording(waits);
    recording.target = MeasuredTarget::Pipeline(PipelineCommand::default());
    recording.channels[0].readers[0].moved_ns = None;
    recording.channels.push(pipe_of(3, vec![end(0, 9, 0)], vec![end(1, 9, 900)]));
    assert!(circle(&recording)[0].ends_with("Nothing goes on."), "{:?}", circle(&recording));
    recording.channels[2].readers[0].moved_ns = Some([1, 980]);
    assert!(circle(&recording).is_empty(), "{:?}", circle(&recording));
}

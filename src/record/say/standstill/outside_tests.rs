//! Sentences about who keeps others waiting, and waits for none of them.

use super::tests::{WINDOW, channels, end, first, held_up, recording, said, wait};
use super::*;
use crate::result::{AwaitedChannel, ChannelKind, RecordedChannel, RecordedEnd, UsedPort, WaitTotal};

/// `server` waits for room in its standard error, which `client` has open.
fn full_pipe() -> Document {
    let mut recording = recording(vec![LastWait { endless: false, ..wait(1, 2, 2, true, &[0]) }]);
    recording.recorded[0].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
    recording
}

#[test]
fn who_does_not_read_is_said() {
    let begin = "`server` (process 2) waits for room in the pipe of its standard error, which is full: `client` (process 1) has it open";
    assert_eq!(
        held_up(&full_pipe()),
        [format!(
            "{begin} and has never read it. Who started it has to read that all the time, as in another thread, or to send it \
             elsewhere (`>/dev/null`, `2>/dev/null`, a file)."
        )]
    );
    let mut read_before = full_pipe();
    let reader = RecordedEnd { moved_ns: Some([10, 100]), ..end(0, 10, 0) };
    read_before.channels[1].readers = vec![reader];
    let text = held_up(&read_before);
    assert!(text[0].starts_with(&format!("{begin} and has not read it since 0.1000 µs.")), "{text:?}");
    let silent = |change: &dyn Fn(&mut Document)| {
        let mut recording = read_before.clone();
        change(&mut recording);
        assert_eq!(held_up(&recording), Vec::<String>::new());
    };
    silent(&|recording| recording.channels[1].readers[0].moved_ns = Some([10, 900]));
    silent(&|recording| recording.channels[1].writers[0].blocked_ns = 100);
    silent(&|recording| recording.recorded[1].started_by = Some(0));
    silent(&|recording| recording.recorded[1].signal = Some(libc::SIGPIPE.cast_unsigned()));
    // Who does not read waits for room itself.
    let look = |recording: &mut Document, wait: LastWait| {
        recording.last_look.iter_mut().for_each(|look| look.waits.push(wait.clone()));
    };
    silent(&|recording| look(recording, LastWait { endless: false, ..wait(0, 3, 1, true, &[2]) }));
    // Others wait for the writer.
    let mut behind = read_before.clone();
    look(&mut behind, LastWait { endless: false, ..wait(2, 3, 0, false, &[1]) });
    let text = held_up(&behind);
    assert!(text[0].ends_with("a file). Meanwhile, `sleep` (process 3) waits for it in vain."), "{text:?}");
}

#[test]
fn a_wait_of_which_another_one_is_the_end_is_no_circle() {
    // Each polls for the other, and the second also for who waits for room outside of them.
    let long = |wait: LastWait| LastWait { endless: false, ..wait };
    let both = |outside: bool| {
        let more = if outside { vec![first(wait(1, 3, 0, false, &[2]))] } else { Vec::new() };
        let any = [first(wait(1, 4, 3, false, &[0]))].into_iter().chain(more).collect();
        let poll = LastWait { awaited: channels(any, 0, true), ..wait(1, 4, 3, false, &[0]) };
        let mut recording =
            recording(vec![long(wait(0, 1, 5, false, &[1])), long(poll), long(wait(2, 5, 2, true, &[]))]);
        recording.recorded[1].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
        recording.channels.push(RecordedChannel {
            inode: 5,
            writers: vec![end(2, 65536, 900)],
            ..RecordedChannel::default()
        });
        said(&recording, &[FindingKind::Circle])
    };
    assert_eq!(both(false).len(), 1);
    assert!(both(true).is_empty(), "{:?}", both(true));
}

#[test]
fn what_was_left_by_who_has_ended_is_said_although_it_polls() {
    let left = |started: bool, fd: u32| {
        let mut wait = LastWait { endless: false, ..wait(0, 1, 3, false, &[2]) };
        if let WaitedFor::Channels { any, .. } = &mut wait.awaited {
            any[0].holders[0].process.idle = false;
            any[0].holders[0].fd = fd;
        }
        let mut recording = recording(vec![wait]);
        (recording.recorded[0].end_ns, recording.recorded[2].end_ns) = (WINDOW, WINDOW);
        recording.recorded[2].started_by = started.then_some(1);
        recording.recorded[2].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 9 })].into();
        held_up(&recording)
    };
    let text = "`client` (process 1) waits for data from the pipe: only `sleep` (process 3) still has its write end open, and wrote \
                nothing to it; `server`, which had started it, has ended. With its output elsewhere (`>/dev/null 2>&1` behind its command), the pipe ends \
                without it.";
    assert_eq!(left(true, 1), [text]);
    assert!(left(false, 1).is_empty() && left(true, 5).is_empty());
}

#[test]
fn what_was_left_may_have_said_that_it_runs() {
    let left = |last: u64| {
        let mut recording = recording(vec![LastWait { endless: false, ..wait(0, 1, 3, false, &[2]) }]);
        (recording.recorded[0].end_ns, recording.recorded[2].end_ns) = (WINDOW, WINDOW);
        recording.recorded[2].started_by = Some(1);
        recording.recorded[2].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 9 })].into();
        recording.channels[0].writers = vec![RecordedEnd { moved_ns: Some([10, last]), ..end(2, 53, 0) }];
        held_up(&recording)
    };
    assert!(
        left(100)[0].contains("write end open, and has written nothing since 0.1000 µs; `server`, which"),
        "{:?}",
        left(100)
    );
    assert!(left(800).is_empty(), "it may write again");
}

#[test]
fn who_takes_turns_is_in_no_circle() {
    let both = |last: u64| {
        let long = |wait: LastWait| LastWait { endless: false, ..wait };
        let mut recording = recording(vec![long(wait(0, 1, 5, false, &[1])), long(wait(1, 2, 2, true, &[0]))]);
        recording.channels[0].readers[0].moved_ns = Some([10, last]);
        said(&recording, &[FindingKind::Circle]).len()
    };
    assert_eq!([both(100), both(800)], [1, 0]);
}

#[test]
fn an_input_that_has_ended_is_said() {
    let ended = |at_end: u64| {
        let socket = AwaitedChannel { kind: ChannelKind::Tcp, ..first(wait(1, 3, 3, false, &[0])) };
        let poll = LastWait { awaited: channels(vec![socket], 0, true), ..wait(1, 3, 3, false, &[0]) };
        let mut recording = recording(vec![wait(0, 1, 4, false, &[1]), poll]);
        recording.recorded[1].input = Some(2);
        let input = RecordedChannel {
            inode: 9,
            readers: vec![RecordedEnd { at_end, ..end(1, 9, 0) }],
            ..RecordedChannel::default()
        };
        recording.channels.push(input);
        said(&recording, &[FindingKind::Remedy]).concat()
    };
    assert_eq!(
        ended(1),
        "`server` has read the end of its standard input, but keeps its TCP connection open for writing, so `client` waits for more. \
         `server` has to shut that down when its input ends, or `client` must not wait for the end."
    );
    assert!(!ended(0).contains("has read the end"));
}

#[test]
fn who_polls_only_its_output_is_said() {
    let watches = |room: bool, fd: u32| {
        let channel = AwaitedChannel { room, fd, ..first(wait(1, 2, fd, room, &[1])) };
        let mut recording = recording(vec![LastWait {
            awaited: channels(vec![channel], 0, true),
            endless: false,
            ..wait(1, 2, fd, room, &[1])
        }]);
        recording.recorded[1].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
        recording.recorded[1].input = Some(0);
        recording.channels[0].readers.clear();
        recording.channels[0].writers[0].bytes = 10;
        held_up(&recording)
    };
    let text = "`server` (process 2) waits in poll without a time limit, and only for its own standard output (its descriptor 1), where \
                nothing comes as long as who reads it is there. It has never read its standard input, where 10 bytes wait: it has to \
                poll both.";
    assert_eq!(watches(false, 1), [text]);
    assert!(watches(false, 7).is_empty());
}

#[test]
fn a_connection_that_is_not_accepted_is_said() {
    let waits = |unaccepted: bool, execs: u64| {
        let connection = |inode: u64| {
            let kind = ChannelKind::Tcp;
            let channel = AwaitedChannel { kind, unaccepted, ..first(wait(0, inode, 4, false, &[1])) };
            LastWait { awaited: channels(vec![channel], 0, false), endless: false, ..wait(0, inode, 4, false, &[1]) }
        };
        let mut recording = recording(vec![connection(80), connection(1 << 16 | 80)]);
        recording.recorded[0].waits = [(WaitReason::Network, WaitTotal { ns: 900, count: 1 })].into();
        recording.recorded[1].used_port = Some(UsedPort { port: 80, holders: Vec::new() });
        recording.recorded[1].execs = execs;
        held_up(&recording)
    };
    let text = "`client` (process 1) waits for 2 TCP connections to port 80 which `server` (process 2) has not accepted, although it listens \
                there (its descriptor 1). `server` has to call `accept` until there is no more (EAGAIN) each time that it is \
                told of one, and while it serves others.";
    assert_eq!(waits(true, 1), [text]);
    assert!(waits(false, 1).is_empty());
    let again = waits(true, 2).concat();
    assert!(
        again.contains("(its descriptor 1). `server` has that from before it executed its program again (`exec`),"),
        "{again}"
    );
}

#[test]
fn who_fills_a_block_is_said() {
    let both = |resumed: u64, last: u64| {
        let mut recording = recording(vec![wait(0, 1, 0, false, &[1]), wait(1, 3, 4, false, &[0])]);
        let moved_ns = Some([10, last]);
        recording.channels[0].writers = vec![RecordedEnd { moved_ns, ..end(1, 1000, 0) }];
        let calls = [("read".to_owned(), 10)].into();
        recording.channels[0].readers =
            vec![RecordedEnd { resumed, calls, moved_ns: Some([10, 100]), ..end(0, 1000, 900) }];
        said(&recording, &[FindingKind::Remedy]).concat()
    };
    assert_eq!(
        both(9, 100),
        "`client` has read all 1,000 bytes that `server` wrote, and each time asked for the rest of a larger block: it waits until that is \
         full, as `fread` or `read_exact` do. It has to use what one read gives (`read`), or `server` has to close its end."
    );
    let begin = "Each has read all that the other one wrote: `server` wrote 1 time to `client`, 1,000 bytes in all, the last at 0.1000 µs.";
    assert!(both(1, 100).starts_with(begin), "{}", both(1, 100));
    assert!(both(9, 960).starts_with("Both wait for data"), "written after the look: {}", both(9, 960));
}

#[test]
fn what_is_left_in_a_pipe_whose_writer_has_ended_is_said() {
    let left = |change: &dyn Fn(&mut Document)| {
        let poll = AwaitedChannel { fd: 7, ..first(wait(0, 9, 7, false, &[0])) };
        let mut recording = recording(vec![LastWait {
            awaited: channels(vec![poll], 0, true),
            endless: false,
            ..wait(0, 9, 7, false, &[0])
        }]);
        recording.recorded[0].pids = vec![1];
        (recording.recorded[1].pids, recording.recorded[1].started_by) = (vec![2], Some(0));
        recording.recorded[1].end_ns = 100;
        recording.channels[0].writers = vec![end(1, 1000, 0)];
        recording.channels[0].readers = vec![RecordedEnd { moved_ns: Some([10, 90]), ..end(0, 600, 0) }];
        change(&mut recording);
        held_up(&recording)
    };
    let text = "`client` (process 1) has not read 400 of 1,000 bytes that `server`, which has ended, wrote to the pipe to it, and waits for \
                something else: what waits for the end of that pipe gets it only after all is read. It has to read on.";
    assert_eq!(left(&|_| {}), [text]);
    assert!(left(&|recording| recording.channels[0].readers[0].bytes = 1000).is_empty());
    assert!(left(&|recording| recording.recorded[1].started_by = None).is_empty());
    assert!(left(&|recording| recording.recorded[1].end_ns = 900).is_empty());
}

#[test]
fn a_pipe_that_its_process_fills_is_said_with_what_it_is_for() {
    let fills = |bytes: u64| {
        let mut recording = recording(vec![wait(1, 2, 4, true, &[1])]);
        recording.channels[1].writers[0] =
            RecordedEnd { calls: [("write".to_owned(), 1000)].into(), ..end(1, bytes, 900) };
        said(&recording, &[FindingKind::Circle, FindingKind::Remedy]).concat()
    };
    assert!(fills(2000).contains("It writes so little to itself as a signal handler does"), "{}", fills(2000));
    assert!(fills(65_536).contains("Who reads it has to be started before"), "{}", fills(65_536));
}

#[test]
fn a_message_in_parts_is_said() {
    let both = |largest: usize| {
        let mut recording = recording(vec![wait(0, 1, 0, false, &[1]), wait(1, 3, 4, false, &[0])]);
        let moved_ns = Some([10, 100]);
        let writer = RecordedEnd { moved_ns, log2_sizes: vec![1; largest + 1], ..end(1, 400_000, 0) };
        let calls = [("read".to_owned(), 9)].into();
        recording.channels[0].writers = vec![writer];
        recording.channels[0].readers = vec![RecordedEnd { calls, moved_ns, ..end(0, 400_000, 900) }];
        said(&recording, &[FindingKind::Remedy]).concat()
    };
    assert_eq!(
        both(17),
        "Last, at 0.1000 µs, `server` wrote, 400,000 bytes in all with 1 call, which `client` got in 9 parts: if it takes one of these for a \
         whole message, the rest is wrong for it. It has to read until it has as many bytes as the message says, or until its end."
    );
    assert!(both(10).contains("for the end of a line or of the input"));
}

#[test]
fn a_loop_that_calls_sleep_keeps_what_both_have_inherited() {
    let held = |inherits: bool, waits: bool| {
        let mut wait = LastWait { endless: false, ..wait(0, 1, 3, false, &[1, 2]) };
        let mut holders = Vec::new();
        if let WaitedFor::Channels { any, .. } = &mut wait.awaited {
            any[0].holders.iter_mut().for_each(|holder| holder.fd = 13);
            any[0].holders[1].fd = if inherits { 13 } else { 1 };
            holders = any[0].holders.iter().map(|holder| holder.process.clone()).collect();
        }
        let children = WaitedFor::Children(vec![holders[1].clone()]);
        let of_loop = LastWait { process: holders[0].clone(), awaited: children, endless: false, stuck: false };
        let mut recording = recording([wait].into_iter().chain(waits.then_some(of_loop)).collect());
        for process in &mut recording.recorded {
            (process.end_ns, process.execs) = (WINDOW, 1);
        }
        recording.recorded[2].started_by = Some(1);
        held_up(&recording)
    };
    let text = "`client` (process 1) waits for data from the pipe: only `server` (process 2) still has its write end open, and wrote nothing to it. \
                Its descriptor 13 is inherited: in a shell, `13>&-` behind the command that starts it closes that.";
    assert_eq!(held(true, true), [text.replace("still ", "")]);
    assert!(held(false, true).is_empty() && held(true, false).is_empty(), "it can do something else");
}

#[test]
fn who_does_not_read_any_more_in_its_event_loop_is_said() {
    let mut paused = recording(vec![wait(0, 1, 5, false, &[1]), wait(1, 2, 2, true, &[0])]);
    paused.channels[1].readers = vec![RecordedEnd { unwatched: 1, ..end(0, 10, 0) }];
    let said = |of: &Document| said(of, &[FindingKind::Remedy]).concat();
    assert!(said(&paused).contains("took that out of its epoll set (EPOLL_CTL_DEL)"), "{}", said(&paused));
    // Also if all of them wait for data.
    let mut both = recording(vec![wait(0, 1, 5, false, &[1]), wait(1, 7, 0, false, &[0])]);
    both.channels[0].readers = vec![RecordedEnd { unwatched: 1, ..end(0, 9, 0) }];
    both.channels[0].writers[0].bytes = 9;
    let told = self::said(&both, &[FindingKind::Remedy]).concat();
    assert!(told.starts_with("`client` has stopped reading the pipe from `server`: "), "{told}");
    paused.channels[1].readers[0].watched = 1;
    assert!(!said(&paused).contains("EPOLL"), "{}", said(&paused));
}

//! Sentences about what stands still.

use super::*;
use crate::result::{
    AwaitedChannel, ChannelHolder, EndedChild, FailedProcess, MeasuredTarget, Processes, RecordLevel, RecordedChannel,
    RecordedEnd, RecordedProcess, WaitTotal,
};

pub(super) const WINDOW: u64 = 1000;

pub(super) fn seen(at: usize) -> SeenProcess {
    let name = ["client", "server", "sleep"][at].to_owned();
    SeenProcess { pid: at as u32 + 1, name, recorded: Some(at), idle: at == 2, ..SeenProcess::default() }
}

/// A wait of a process for room or data in a pipe that is its descriptor `fd`, and descriptor 1 of the holders.
pub(super) fn wait(at: usize, inode: u64, fd: u32, room: bool, holders: &[usize]) -> LastWait {
    let holders = holders.iter().map(|at| ChannelHolder { process: seen(*at), fd: 1 }).collect();
    let channel = AwaitedChannel { inode, fd, room, holders, ..AwaitedChannel::default() };
    LastWait { process: seen(at), awaited: channels(vec![channel], 0, false), endless: true, stuck: true }
}

pub(super) fn first(wait: LastWait) -> AwaitedChannel {
    let WaitedFor::Channels { mut any, .. } = wait.awaited else { panic!() };
    any.remove(0)
}

pub(super) fn channels(any: Vec<AwaitedChannel>, others: u64, polled: bool) -> WaitedFor {
    WaitedFor::Channels { any, others, polled, limited: false }
}

pub(super) fn end(process: usize, bytes: u64, blocked_ns: u64) -> RecordedEnd {
    let calls = if bytes > 0 { [("write".to_owned(), 1)].into() } else { BTreeMap::new() };
    RecordedEnd { process, bytes, blocked_ns, calls, ..RecordedEnd::default() }
}

/// Three processes of which the last one ended early, a pipe that the first one reads, and a full one of the second.
pub(super) fn recording(waits: Vec<LastWait>) -> Document {
    let process = |at: usize| RecordedProcess { name: seen(at).name, end_ns: 900, ..RecordedProcess::default() };
    let slots = Some([16; 3]);
    let (readers, writers) = (vec![end(0, 0, 900)], vec![end(1, 0, 0)]);
    let empty = RecordedChannel { inode: 1, slots, readers, writers, ..RecordedChannel::default() };
    let full = RecordedChannel { inode: 2, slots, writers: vec![end(1, 65536, 900)], ..RecordedChannel::default() };
    Document {
        processes: Processes { window_ns: WINDOW, ..Processes::default() },
        recorded: (0..3).map(process).collect(),
        channels: vec![empty, full],
        last_look: Some(LastLook { at_ns: 950, waits, ..LastLook::default() }),
        duration_ns: Some(WINDOW),
        ..Document::default()
    }
}

pub(super) fn said(recording: &Document, kinds: &[FindingKind]) -> Vec<String> {
    let found = standstill(recording).into_iter().filter(|finding| kinds.contains(&finding.kind));
    found.map(|finding| finding.text).collect()
}

fn endless(waits: Vec<LastWait>) -> Vec<String> {
    said(&recording(waits), &[FindingKind::Circle, FindingKind::Remedy])
}

pub(super) fn held_up(recording: &Document) -> Vec<String> {
    said(recording, &[FindingKind::Held, FindingKind::Unopened])
}

#[test]
fn a_circle_is_said_with_its_reasons_and_the_remedy() {
    let both = vec![wait(0, 1, 5, false, &[1]), wait(1, 2, 2, true, &[0])];
    assert_eq!(
        endless(both.clone()),
        [
            "`client` (process 1) and `server` (process 2) wait for each other: `client` because the pipe from the \
             standard output of `server` is empty; `server` because the pipe of its standard error is full (16 of 16 \
             slots), and `client` has never read it. Nothing can go on.",
            "`client` has to read both at once, as with threads or poll, or to discard one of them."
        ]
    );
    let went_on = |at_ns: u64| {
        let mut recording = recording(both.clone());
        recording.channels[1].writers[0].moved_ns = Some([10, at_ns]);
        said(&recording, &[FindingKind::Circle]).is_empty()
    };
    assert!(went_on(951) && !went_on(950));
    // The signal that ended it cut the call, which had moved a part.
    let mut cut = recording(both.clone());
    cut.channels[1].writers[0].moved_ns = Some([10, 951]);
    let ended = &mut cut.recorded[cut.channels[1].writers[0].process];
    (ended.signal, ended.end_ns) = (Some(libc::SIGTERM.cast_unsigned()), 952);
    assert!(!said(&cut, &[FindingKind::Circle]).is_empty());
    // What only looks again after a time does not hide a circle of long waits.
    let mut patient = both.clone();
    patient[1].endless = false;
    let said = endless(patient);
    assert!(said[0].contains("wait for each other") && said[0].ends_with("Nothing goes on."), "{said:?}");
    // One that could go on by itself is no part of a circle.
    let mut loose = both;
    (loose[1].endless, loose[1].stuck) = (false, false);
    assert!(endless(loose).is_empty());
}

#[test]
fn of_a_long_circle_a_few_are_named() {
    let member = |pid: u32| SeenProcess { pid, name: format!("p{pid}"), recorded: Some(0), ..SeenProcess::default() };
    let circle = |count: u32| {
        let of = |pid: u32| {
            let holders = vec![ChannelHolder { process: member((pid + 1) % count), fd: 1 }];
            let channel = AwaitedChannel { inode: pid.into(), holders, ..AwaitedChannel::default() };
            LastWait { process: member(pid), awaited: channels(vec![channel], 0, false), ..wait(0, 1, 5, false, &[]) }
        };
        endless((0..count).map(of).collect()).remove(0)
    };
    let text = circle(200);
    let names = "`p0` (process 0), `p1` (process 1), `p2` (process 2) and 197 more wait for each other: ";
    assert!(text.starts_with(names) && text.len() < 500, "{text}");
    assert!(text.ends_with("; and so on. Nothing can go on."), "{text}");
    assert!(circle(8).contains("`p7` because"));
}

#[test]
fn who_has_a_lock_is_said_without_who_waits() {
    let found = |holders: &[usize], inherited: bool, program: &str| {
        let holders = holders.iter().map(|at| seen(*at)).collect();
        let awaited = WaitedFor::Lock { path: "f".to_owned(), holders, inherited };
        let mut recording = recording(vec![LastWait { awaited, endless: false, ..wait(0, 1, 5, false, &[]) }]);
        recording.recorded[0].waits = [(WaitReason::FileLock, WaitTotal { ns: 900, count: 1 })].into();
        (recording.recorded[1].execs, recording.recorded[1].name) = (1, program.to_owned());
        said(&recording, &[FindingKind::FileLock]).concat()
    };
    let locked = |holders: &[usize]| found(holders, false, "server");
    let begin = "`client` (process 1) waits for the lock of `f`, which ";
    let inherited = " It has inherited the open file, to which the lock belongs: what is started with that open has the lock, too. In a \
                     shell that has it as descriptor 9, `9>&-` behind the command closes it there; O_CLOEXEC closes it for all programs.";
    assert_eq!(found(&[0, 1], true, "server"), format!("{begin}`server` (process 2) has.{inherited}"));
    assert_eq!(found(&[1], true, "bash"), format!("{begin}`server` (process 2) has."));
    assert_eq!(locked(&[1]), format!("{begin}`server` (process 2) has."));
    assert_eq!(locked(&[0, 1]), format!("{begin}`server` (process 2) has."));
    assert_eq!(locked(&[2, 1]), format!("{begin}`sleep` (process 3) and `server` (process 2) have."));
    assert_eq!(locked(&[0]), format!("{begin}it has itself."));
    assert_eq!(locked(&[]), "");
}

#[test]
fn what_a_poll_waits_for_is_told_without_its_own_pipes() {
    let any = [wait(0, 1, 5, false, &[1]), wait(0, 7, 6, false, &[0]), wait(0, 8, 7, false, &[2])].map(first);
    let polls = LastWait { awaited: channels(any.to_vec(), 1, true), ..wait(0, 1, 5, false, &[1]) };
    let said = endless(vec![polls, wait(1, 2, 2, true, &[0])]);
    let text = "`client` in poll, because the pipe from the standard output of `server` is empty, or for 2 other \
                descriptors. Nothing";
    assert!(said[0].contains(text), "{said:?}");
    // A process that waits for signals only does so by its own pipe.
    let signals = LastWait { awaited: channels(vec![any[1].clone()], 0, true), ..wait(0, 1, 5, false, &[1]) };
    assert!(endless(vec![signals]).is_empty());
}

#[test]
fn two_that_wait_for_data_are_told_to_flush_and_children_are_waited_for() {
    let said = endless(vec![wait(0, 1, 5, false, &[1]), wait(1, 3, 0, false, &[0])]);
    assert!(said[1].contains("flush"), "{said:?}");
    let text = "Both wait for data: `server` reads its standard input, to which `client` has written nothing.";
    assert!(said[1].starts_with(text), "{said:?}");
    let child = LastWait { awaited: WaitedFor::Children(vec![seen(1)]), ..wait(0, 1, 5, false, &[]) };
    let said = endless(vec![child, wait(1, 2, 1, true, &[0])]);
    assert!(said[0].contains("`client` until `server` has ended"), "{said:?}");
    assert_eq!(said[1], "`client` has to read while it waits, as in another thread.");
}

#[test]
fn a_process_that_holds_the_other_end_itself_is_said() {
    let own = endless(vec![wait(0, 1, 0, false, &[0])]);
    let text = "`client` (process 1) waits for data from the pipe, whose write end only it has itself open: there can \
                be neither data nor an end.";
    assert_eq!(own, [text, "It has to close that end (descriptor 1) before it reads."]);
    let inherited = |own: u32, kept: u32| {
        let mut waits = vec![wait(0, 1, own, false, &[0])];
        change_holders(&mut waits[0], kept);
        endless(waits).remove(1)
    };
    let text = "It has to be started without that end (O_CLOEXEC), which is its descriptor 7, or to close it.";
    assert_eq!(inherited(0, 7), text);
    assert_eq!(inherited(5, 5), "It has to open it for reading only.");
    // Room in a pipe that a child has read before it ended.
    let mut full = recording(vec![wait(1, 2, 4, true, &[1])]);
    (full.recorded[2].exit_code, full.recorded[2].end_ns) = (Some(9), 500);
    full.channels[1].readers = vec![end(2, 8192, 0)];
    let text = "`sleep`, which read 8,192 bytes of it, ended at 0.50 µs with exit code 9. `server` (process 2) gets no SIGPIPE as long as \
                it has that end open itself: it has to close it (descriptor 1) after the `fork`.";
    assert_eq!(said(&full, &[FindingKind::Remedy]), [text]);
    full.recorded[2].end_ns = WINDOW;
    assert!(said(&full, &[FindingKind::Remedy])[0].starts_with("Who reads it has to be started"), "it reads still");
}

#[test]
fn a_process_without_another_thread_is_said_to_wait_for_one() {
    let thread = |at: usize| LastWait { awaited: WaitedFor::Thread, ..wait(at, 1, 0, false, &[]) };
    let text = "`client` (process 1) waits for another thread, as for a lock that one of them has, but it has only one thread: \
                nobody can wake it.";
    assert_eq!(endless(vec![thread(0)]), [text]);
    assert!(endless(vec![thread(0), thread(0)]).is_empty());
    let mut copy = recording(vec![thread(0)]);
    (copy.recorded[0].pids, copy.recorded[0].threads) = (vec![1, 9], 3);
    assert!(
        said(&copy, &[FindingKind::Circle, FindingKind::Remedy])[1].starts_with("It was forked from a process with ")
    );
}

#[test]
fn a_process_that_waits_for_its_own_signals_is_not_told_to_close_its_pipe() {
    let dead = |pid| EndedChild { pid, name: "a".to_owned(), status: None };
    let own = |unreaped: u32| {
        let mut waits = vec![wait(0, 1, 0, false, &[0])];
        waits[0].process.unreaped = (0..unreaped).map(dead).collect();
        recording(waits)
    };
    let text = |recording: &Document| said(recording, &[FindingKind::Circle, FindingKind::Remedy]).join(" ");
    let mut wrote = own(0);
    wrote.channels[0].writers.push(end(0, 1, 0));
    assert_eq!(
        text(&wrote),
        "`client` (process 1) waits for data from its own pipe, to which it wrote before: only a signal handler or thread of its \
         own can write to it."
    );
    wrote.last_look.as_mut().unwrap().waits[0].process.unreaped = (0..4).map(dead).collect();
    assert_eq!(
        text(&wrote),
        "`client` (process 1) waits for data from its own pipe, and has not waited for 4 children of its own that have ended \
         (zombies). Several that end at once send one SIGCHLD: at each, `waitpid` has to be called until it finds no more."
    );
    // A child wrote and has ended: it waits for the end.
    assert!(text(&own(1)).ends_with("It has to close that end (descriptor 1) before it reads."));
    // What was before is not known.
    let mut running = own(2);
    running.target = MeasuredTarget::Attached { pids: vec![1], group: None };
    assert_eq!(
        text(&running),
        "`client` (process 1) waits for data from the pipe, whose write end only it has itself open: nobody else can write to it. \
         It has to close that end (descriptor 1) before it reads; or, if its own handler of SIGCHLD writes there, to call `waitpid` \
         each time until it finds no more: it has not waited for 2 children of its own that have ended."
    );
}

#[test]
fn who_was_to_open_a_fifo_and_has_ended_is_named() {
    let at_end = |unreaped: Vec<EndedChild>, args: &str, after: u64| {
        let awaited = WaitedFor::Opening {
            path: "/d/f".to_owned(),
            writes: false,
            deleted: Vec::new(),
            removed: false,
            age_ns: None,
        };
        let process = SeenProcess { unreaped, ..seen(0) };
        let mut recording = recording(vec![LastWait { process, awaited, ..wait(0, 1, 0, false, &[]) }]);
        recording.recorded[0].waits = [(WaitReason::Open, WaitTotal { ns: WINDOW, count: 1 })].into();
        (recording.recorded[1].exit_code, recording.recorded[1].args) = (Some(2), vec![args.to_owned()]);
        recording.recorded[1].end_ns = recording.recorded[0].end_ns - 1 + after;
        held_up(&recording).concat()
    };
    let opening = |unreaped: Vec<EndedChild>, args: &str| at_end(unreaped, args, 0);
    let text = "`client` (process 1) waits until another process opens the FIFO `/d/f` for writing";
    let child = |status| vec![EndedChild { pid: 9, name: "dd".to_owned(), status }];
    let nobody = format!(
        "{text}. Nothing in this recording does: what is to open it has to be started, or it was left over and can be removed."
    );
    assert_eq!(opening(Vec::new(), "of=g"), nobody);
    // `timeout 9 client /d/f` ends after it.
    assert_eq!(at_end(Vec::new(), "/d/f", 2), nobody);
    assert_eq!(opening(Vec::new(), "of=/d/f"), format!("{text}: `server`, which ended with exit code 2, will not."));
    assert_eq!(
        opening(child(Some(256)), ""),
        format!("{text}: its child `dd`, which ended with exit code 1, will not.")
    );
    assert_eq!(opening(child(Some(9)), ""), format!("{text}: its child `dd`, which signal 9 ended, will not."));
    assert_eq!(opening(child(None), ""), format!("{text}: its child `dd`, which has ended, will not."));
}

/// Give the holders of a channel this descriptor.
fn change_holders(wait: &mut LastWait, fd: u32) {
    let WaitedFor::Channels { any, .. } = &mut wait.awaited else { return };
    any.iter_mut().flat_map(|channel| &mut channel.holders).for_each(|holder| holder.fd = fd);
}

#[test]
fn an_end_that_has_to_be_closed_is_said() {
    let for_end =
        |at: usize, of: usize| LastWait { awaited: WaitedFor::Children(vec![seen(of)]), ..wait(at, 0, 0, false, &[]) };
    // What its parent keeps of the pipe that a child reads.
    let said = endless(vec![wait(1, 1, 0, false, &[0]), for_end(0, 1)]);
    let text =
        "`server` waits for the end of the pipe: `client` has to close its write end (descriptor 1) before it waits.";
    assert_eq!(said[1], text);
    // What several wait for, of which one has it.
    let mut token = recording(vec![wait(1, 1, 0, false, &[0]), for_end(0, 1)]);
    token.channels[0].writers = vec![end(0, 2, 0)];
    token.channels[0].readers = [1, 2].map(|at| RecordedEnd { requested: 1, ..end(at, 1, 0) }).to_vec();
    let text = "`server` waits for more than the 2 bytes that `client` wrote to the pipe: another process has read that. poll tells all that \
                wait, and only one gets it: with O_NONBLOCK, the others would not sleep in read.";
    assert_eq!(said_of(&token, FindingKind::Remedy), text);
    // What it keeps of one whose reader has ended.
    let mut full = recording(vec![wait(1, 2, 1, true, &[0]), for_end(0, 1)]);
    full.channels[1].readers = vec![end(2, 100, 0)];
    let remedy = |recording: &Document| said_of(recording, FindingKind::Remedy);
    let text = "`client` has to close its copy of the read end of the pipe (descriptor 1): `sleep` no longer reads it, and \
                `server` gets SIGPIPE only when nobody has it open.";
    assert_eq!(remedy(&full), text);
    full.channels[1].readers.push(end(0, 5, 0));
    assert_eq!(remedy(&full), "`client` has to read while it waits, as in another thread.");
    // What a later program has inherited.
    let mut waits = vec![wait(0, 1, 0, false, &[1]), wait(1, 2, 0, false, &[0])];
    change_holders(&mut waits[0], 7);
    let mut later = recording(waits);
    later.recorded[1].begin_ns = 5;
    later.channels[0].writers.clear();
    let text = "`server` has inherited the write end of the pipe to `client` (descriptor 7), and never wrote to it: it has to \
                close that, or to be started without it (O_CLOEXEC).";
    assert_eq!(remedy(&later), text);
    later.recorded[1].begin_ns = 0;
    assert!(remedy(&later).starts_with("Both wait for data"), "{}", remedy(&later));
}

fn said_of(recording: &Document, kind: FindingKind) -> String {
    said(recording, &[kind]).concat()
}

#[test]
fn namesakes_have_the_names_of_the_tables() {
    let mut both = recording(vec![wait(0, 1, 5, false, &[1]), wait(1, 2, 2, true, &[0])]);
    for (at, process) in both.recorded.iter_mut().enumerate() {
        process.name = "python3".to_owned();
        process.args = ["python3", "x.py", ["a", "b", "c"][at]].map(str::to_owned).to_vec();
        process.pids = vec![at as u32 + 1];
        process.execs = 1;
    }
    for wait in &mut both.last_look.as_mut().unwrap().waits {
        wait.process.name = "python3 x.py".to_owned();
        let WaitedFor::Channels { any, .. } = &mut wait.awaited else { continue };
        any[0].holders[0].process.name = "python3 x.py".to_owned();
    }
    let text = said_of(&both, FindingKind::Circle);
    assert!(text.starts_with("`python3 x.py a` (process 1) and `python3 x.py b` (process 2) wait for each"), "{text}");
    assert!(text.contains("other: `x.py a` because the pipe from the standard output of `x.py b` is empty;"), "{text}");
}

#[test]
fn who_only_has_a_pipe_open_is_said_unless_data_came() {
    let held = |change: &dyn Fn(&mut Document)| {
        let mut recording = recording(vec![LastWait { endless: false, ..wait(0, 1, 5, false, &[2]) }]);
        change(&mut recording);
        held_up(&recording)
    };
    let text = |still: &str| {
        format!(
            "`client` (process 1) waits for data from the pipe: only `sleep` (process 3) {still}has its write end open, \
             and wrote nothing to it."
        )
    };
    assert_eq!(held(&|_| {}), [text("")]);
    let leftover = |recording: &mut Document| {
        recording.channels[0].writers = vec![end(1, 5, 0)];
        recording.duration_ns = None;
    };
    let frees = " With its output elsewhere (`>/dev/null 2>&1` behind its command), the pipe ends without it.";
    assert_eq!(held(&leftover), [text("still ") + frees]);
    // It has closed its end, and lives on.
    let closed = |recording: &mut Document| {
        recording.channels[0].writers = vec![RecordedEnd { moved_ns: Some([1, 2]), ..end(1, 5, 0) }];
        recording.recorded[1].end_ns = 990;
    };
    assert_eq!(held(&closed), [text("still ") + frees]);
    let silent: [&dyn Fn(&mut Document); 6] = [
        // It ended by itself.
        &|recording| recording.duration_ns = None,
        &|recording| recording.channels[0].readers[0].blocked_ns = 400,
        // It wrote, or another process did so later.
        &|recording| recording.channels[0].writers = vec![end(2, 5, 0)],
        &|recording| {
            recording.channels[0].writers = vec![end(1, 5, 0)];
            recording.recorded[1].end_ns = 990;
        },
        &|recording| recording.level = RecordLevel::Sched,
        &|recording| recording.last_look = None,
    ];
    for change in silent {
        assert_eq!(held(change), [""; 0]);
    }
}

#[test]
fn who_was_killed_without_its_children_is_named() {
    let mut recording = recording(vec![LastWait { endless: false, ..wait(0, 1, 5, false, &[2]) }]);
    recording.recorded[2].started_by = Some(1);
    let shell = &mut recording.recorded[1];
    (shell.signal, shell.pids, shell.end_ns) = (Some(libc::SIGKILL.cast_unsigned()), vec![2], 500);
    let said = held_up(&recording).concat();
    let [begin, end] = [
        "`server`, which had started it, was ended by SIGKILL at",
        ", and that did not reach it. Signals to the whole group end",
    ];
    assert!(said.contains(begin) && said.contains(end), "{said}");
}

#[test]
fn who_has_a_deleted_fifo_is_named() {
    let awaited = WaitedFor::Opening {
        path: "/run/cmd".to_owned(),
        writes: true,
        deleted: vec![seen(1)],
        removed: false,
        age_ns: None,
    };
    let mut recording = recording(vec![LastWait { awaited, endless: false, ..wait(0, 1, 5, false, &[]) }]);
    recording.recorded[0].waits = [(WaitReason::Open, WaitTotal { ns: 600, count: 1 })].into();
    let text = "`client` (process 1) waits until another process opens the FIFO `/run/cmd` for reading. `server` (process 2) has \
                another one of this path open, which was deleted, and must open it again.";
    assert_eq!(held_up(&recording), [text]);
}

#[test]
fn fifos_that_nobody_opens_are_named() {
    let opens = |path: &str| {
        let awaited = WaitedFor::Opening {
            path: path.to_owned(),
            writes: false,
            deleted: Vec::new(),
            removed: false,
            age_ns: None,
        };
        LastWait { awaited, endless: false, ..wait(0, 1, 5, false, &[]) }
    };
    let mut recording = recording(vec![opens("b"), opens("a")]);
    assert!(held_up(&recording).is_empty(), "it waited for nothing long");
    recording.recorded[0].waits = [(WaitReason::Open, WaitTotal { ns: 600, count: 1 })].into();
    let text = "`client` (process 1) waits until another process opens the FIFOs `a` and `b` for writing. Nothing in this recording does: what is to \
                open it has to be started, or it was left over and can be removed.";
    assert_eq!(held_up(&recording), [text]);
    let mut same = recording.clone();
    let waits = &mut same.last_look.as_mut().unwrap().waits;
    *waits = vec![opens("a"), LastWait { process: seen(1), ..opens("a") }];
    same.recorded[1].waits = same.recorded[0].waits.clone();
    let text_of_same = "`client` (process 1) waits until another process opens the FIFO `a` for writing. `server` (process 2) opens it for reading as \
                        well, and nobody for writing: one of them has to.";
    assert_eq!(held_up(&same)[0], text_of_same);
    let mut walks = recording.clone();
    walks.recorded[0].args = ["client", "-r", "dir"].map(str::to_owned).to_vec();
    assert_eq!(held_up(&walks), [text]);
    walks.last_look.as_mut().unwrap().waits = vec![opens("dir/b")];
    assert!(held_up(&walks)[0].ends_with(" for writing. It goes through a folder, and has to leave out what is not a regular file, or to open with O_NONBLOCK."));
    let before = recording.last_look.clone();
    let look = recording.last_look.as_mut().unwrap();
    look.waits.truncate(1);
    let WaitedFor::Opening { removed, .. } = &mut look.waits[0].awaited else { panic!("{look:?}") };
    *removed = true;
    let gone = "for writing, which was removed: nobody can open it any more, and who writes to that path makes a file.";
    assert!(held_up(&recording)[0].ends_with(gone), "{:?}", held_up(&recording));
    recording.last_look = before;
    recording.duration_ns = None;
    assert!(held_up(&recording).is_empty(), "it was opened in the end");
    recording.recorded[0].signal = Some(15);
    assert_eq!(held_up(&recording), [text]);
}

#[test]
fn a_lock_that_ended_children_do_not_release_is_said() {
    let shared = |unreaped: &[u32]| {
        let mut waits = vec![LastWait {
            awaited: WaitedFor::Shared { holders: Vec::new(), path: None },
            endless: false,
            stuck: false,
            ..wait(0, 1, 0, false, &[])
        }];
        let dead = |pid: &u32| EndedChild { pid: *pid, name: "a".to_owned(), status: None };
        waits[0].process.unreaped = unreaped.iter().map(dead).collect();
        let mut recording = recording(waits);
        let wait = WaitTotal { ns: 900, count: 1 };
        recording.recorded[0].waits = [(WaitReason::Thread, wait)].into();
        let failed = FailedProcess { pid: 7, exit_code: 1, lived_ns: [0, 500_000_000], ..FailedProcess::default() };
        recording.failures.push(failed);
        said(&recording, &[FindingKind::Held])
    };
    let text = "`client` (process 1) waits for a lock or semaphore that it shares with other processes. Of its children, 2 have ended: \
                process 7 with exit code 1 at 0.50 s. They cannot release it any more, and it has not looked whether they live.";
    assert_eq!(shared(&[7, 8])[0], text);
    assert!(shared(&[8])[0].contains("Of its children, 1 has ended. They"));
    assert!(shared(&[]).is_empty(), "they may go on");
}

#[test]
fn who_has_the_lock_of_a_flock_that_has_ended_is_told() {
    let text = |signal: Option<i32>| {
        let mut recording = recording(Vec::new());
        recording.recorded[1].started_by = Some(0);
        let flock = &mut recording.recorded[0];
        (flock.name, flock.end_ns, flock.pids) = ("flock".to_owned(), 100_000_000, vec![1]);
        recording.recorded[0].signal = signal.map(i32::cast_unsigned);
        recording.recorded[0].args = ["flock", "f", "server"].map(str::to_owned).to_vec();
        inherited_lock(&recording, &seen(1))
    };
    let begin = " It is the program that `flock` started with the lock";
    let ended = "; SIGINT ended `flock` at 0.10 s, but not `server`, which has the lock as long as it runs. It has to end at SIGINT, too; \
                 with `flock --no-fork`, both are one process.";
    assert_eq!(text(Some(libc::SIGINT)), format!("{begin}{ended}"));
    let runs = ": signals have to go to it, or to the whole group; with `flock --no-fork`, both are one process.";
    assert_eq!(text(None), format!("{begin}{runs}"));
}

#[test]
fn who_waits_once_for_several_children_is_told() {
    let said_of = |reason: WaitReason| {
        let mut recording = recording(Vec::new());
        let unreaped = [7, 8].map(|pid| EndedChild { pid, name: "a".to_owned(), status: None }).to_vec();
        recording.last_look.as_mut().unwrap().parents = vec![SeenProcess { unreaped, ..seen(0) }];
        recording.recorded[0].waits = [(reason, WaitTotal { ns: 900, count: 1 })].into();
        said(&recording, &[FindingKind::Held]).concat()
    };
    let text = "`client` (process 1) has a handler of SIGCHLD, but has not waited for 2 children of its own that have ended (zombies): several \
                that end at once send one signal. At each, `waitpid` has to be called until it finds no more.";
    assert_eq!(said_of(WaitReason::Signal), text);
    assert_eq!(said_of(WaitReason::Child), "");
    // One that it ended itself.
    let mut recording = recording(Vec::new());
    let unreaped = vec![EndedChild { pid: 3, name: "sleep".to_owned(), status: Some(libc::SIGKILL) }];
    recording.last_look.as_mut().unwrap().parents = vec![SeenProcess { unreaped, ..seen(0) }];
    recording.recorded[0].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
    let child = &mut recording.recorded[2];
    (child.signal, child.ended_by, child.pids, child.end_ns) = (Some(9), Some(0), vec![3], 100);
    assert_eq!(
        said(&recording, &[FindingKind::Held]).concat(),
        "`client` (process 1) ended its child `sleep` by SIGKILL at 0.1000 µs, and has not waited for it since: the child stays as a zombie \
         until it calls `waitpid` for it, or ends."
    );
}

#[test]
fn the_rest_of_a_killed_writer_is_awaited_in_vain() {
    let mut recording = recording(vec![wait(0, 1, 5, false, &[1]), wait(1, 2, 5, false, &[0])]);
    recording.recorded[2].signal = Some(libc::SIGKILL.cast_unsigned());
    (recording.recorded[2].pids, recording.recorded[2].end_ns) = (vec![3], 100);
    assert_eq!(standstill(&recording)[0].kind, FindingKind::Circle);
    recording.channels[0].writers = vec![RecordedEnd { unsent: 5, ..end(2, 62_605, 0) }];
    let found = standstill(&recording);
    assert!(found.iter().all(|finding| finding.kind == FindingKind::Held), "{found:?}");
    let text = "`client` (process 1) waits for data from the pipe; `sleep` wrote 62,605 bytes to it until it was killed by SIGKILL at 0.1000 µs: it \
                cannot write the rest. There is no end of file, because `server` (process 2) still has the write end open: each \
                worker needs a pipe of its own, whose write end all others close after the `fork`.";
    assert_eq!(found[0].text, text);
}

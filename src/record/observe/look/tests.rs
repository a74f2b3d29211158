use super::*;
use crate::record::observe::thread_calls::AwaitedFiles;
use crate::record::start::launch::MadePipe;

/// Ends of pipes, and the calls of threads.
type Made<'a> = (&'a [(u64, bool)], Vec<ThreadCall>);

/// Processes 1, 2, ... with these ends of pipes (number, whether it writes), as descriptors 0, 1, ..., and the calls of
/// their threads.
fn now(processes: &[Made<'_>]) -> ProcessesNow {
    let file = |(fd, (inode, writes)): (u32, &(u64, bool))| OpenFile {
        fd,
        kind: FileKind::Pipe(MadePipe { inode: *inode, device: 1 }, None),
        reads: !writes,
        writes: *writes,
    };
    let process = |(ends, calls): &Made<'_>| ProcessNow {
        name: "p".to_owned(),
        files: Some((0..).zip(*ends).map(file).collect()),
        threads: Some((1..).zip(calls).map(|(tid, call)| ThreadNow { tid, sleeps: 0, call: call.clone() }).collect()),
        ..ProcessNow::default()
    };
    ProcessesNow { processes: (1..).zip(processes.iter().map(process)).collect(), ..ProcessesNow::default() }
}

fn reads(fd: u32) -> ThreadCall {
    ThreadCall::Files(AwaitedFiles { any: vec![(fd, false)], ..AwaitedFiles::default() })
}

fn writes(fd: u32) -> ThreadCall {
    ThreadCall::Files(AwaitedFiles { any: vec![(fd, true)], ..AwaitedFiles::default() })
}

fn endless(processes: &[Made<'_>]) -> Vec<u32> {
    now(processes).endless(false).into_iter().map(|(pid, _)| pid).collect()
}

const R1: (u64, bool) = (1, false);
const W1: (u64, bool) = (1, true);
const R2: (u64, bool) = (2, false);
const W2: (u64, bool) = (2, true);

#[test]
fn only_those_that_wait_for_each_other_wait_without_end() {
    assert_eq!(endless(&[(&[R1, W2], vec![reads(0)]), (&[W1, R2], vec![reads(1)])]), [1, 2]);
    assert_eq!(endless(&[(&[R1, W2], vec![reads(0)]), (&[W1, R2], vec![writes(0)])]), [1, 2]);
    // Who runs, or sleeps on a timer, can do anything. So can another thread, and another holder.
    for other in [ThreadCall::Busy, ThreadCall::Idle] {
        let calls = vec![reads(1), other.clone()];
        assert_eq!(endless(&[(&[R1, W2], vec![reads(0)]), (&[W1, R2], calls)]), [0; 0]);
        assert_eq!(endless(&[(&[R1, W2], vec![reads(0)]), (&[W1, R2], vec![reads(1)]), (&[W1], vec![other])]), [0; 0]);
    }
    // A pipeline whose first stage waits for a terminal.
    assert_eq!(
        endless(&[(&[W1], vec![ThreadCall::Idle]), (&[R1, W2], vec![reads(0)]), (&[R2], vec![reads(0)])]),
        [0; 0]
    );
}

#[test]
fn a_process_can_wait_for_itself_its_threads_and_its_children() {
    assert_eq!(endless(&[(&[R1, W1], vec![reads(0)])]), [1]);
    assert_eq!(endless(&[(&[R1, W1], vec![reads(0), ThreadCall::Thread])]), [1, 1]);
    assert_eq!(endless(&[(&[R1], vec![ThreadCall::Thread])]), [1], "no other thread");
    let mut children = now(&[(&[W1], vec![ThreadCall::Child(None)]), (&[R1], vec![reads(0)])]);
    assert!(children.endless(false).is_empty(), "it has no child");
    children.processes.get_mut(&2).unwrap().parent = 1;
    assert_eq!(children.endless(false).len(), 2);
}

#[test]
fn a_poll_ends_by_any_of_its_files_and_after_its_time() {
    let poll =
        |any: &[(u32, bool)], limited| ThreadCall::Files(AwaitedFiles { any: any.to_vec(), polled: true, limited });
    let pair = |call: ThreadCall| endless(&[(&[R1, R2], vec![call]), (&[W1, W2], vec![writes(1)])]);
    assert_eq!(pair(poll(&[(0, false)], false)), [1, 2]);
    assert_eq!(pair(poll(&[(0, false)], true)), [0; 0]);
    // An unknown file.
    assert_eq!(pair(poll(&[(0, false), (9, false)], false)), [0; 0]);
}

#[test]
fn what_only_looks_again_hides_no_circle() {
    let idle = || ThreadCall::Idle;
    let stuck = |first: Vec<ThreadCall>, second: Vec<ThreadCall>| {
        let threads = now(&[(&[R1, R2], first), (&[W1, W2], second)]).endless(true);
        threads.into_iter().map(|(pid, _)| pid).collect::<Vec<u32>>()
    };
    // Two threads of which one has a timer, and a writer.
    let pair = || vec![reads(0), idle()];
    assert_eq!(stuck(vec![reads(0)], vec![writes(1)]), [1, 2]);
    assert_eq!(stuck(pair(), vec![writes(1)]), [1, 2]);
    assert!(endless(&[(&[R1, R2], pair()), (&[W1, W2], vec![writes(1)])]).is_empty());
    // A process that only sleeps on a timer ends its sleep by itself.
    assert!(stuck(vec![reads(0)], vec![idle()]).is_empty());
    assert!(stuck(pair(), vec![writes(1), ThreadCall::Busy]).is_empty());
}

#[test]
fn holders_and_what_else_is_polled_are_told() {
    let call = ThreadCall::Files(AwaitedFiles { any: vec![(0, false), (9, false)], polled: true, limited: true });
    let found = now(&[(&[R1], vec![call]), (&[W1], vec![ThreadCall::Idle])]);
    let [LastWait { process, awaited: WaitedFor::Channels { any, others, polled, limited }, endless, stuck }] =
        &found.waits(&[1].into())[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!((process.pid, *others, *polled, *limited, *endless, *stuck), (1, 1, true, true, false, false));
    let [ChannelHolder { process, fd: 0 }] = &any[0].holders[..] else { panic!("{any:?}") };
    assert!((process.pid, process.idle) == (2, true) && !any[0].room, "{any:?}");
}

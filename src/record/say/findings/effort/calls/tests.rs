use super::*;
use crate::record::say::findings::tests::{MS, WINDOW, said, used};
use crate::result::{
    CriticalPath, FullTable, LeftProcesses, LockedFile, NameUse, NamedFile, PathPart, UsedPort, WaitTotal,
};

fn of(change: &dyn Fn(&mut RecordedProcess)) -> Vec<String> {
    said(find, &|recording| change(&mut recording.recorded[1]))
}

#[test]
fn calls_that_all_fail_are_said() {
    let fails = |count: u64, error: i32| {
        of(&|process| {
            (process.calls, process.failed_calls, process.cpu_ns) = (1_000_000, count, WINDOW);
            process.failure = Some(("ioctl".to_owned(), error));
        })
    };
    let text = "900,000 of 1,000,000 system calls of `grep` failed, the last one `ioctl` with \"Inappropriate ioctl for device\", and it is \
                on a CPU 100 % of the time. It expects a terminal: it may have come to the end of its standard input (`</dev/null`) \
                before, and has to stop there.";
    assert_eq!(fails(900_000, libc::ENOTTY), [text]);
    assert!(fails(900_000, libc::EACCES)[0].ends_with("It has to look at what they return."));
    let terminal = fails(900_000, 512)[0].clone();
    let why = "the last one `ioctl` with \"it has to begin anew after a signal\", and it is on a CPU 100 % of the time. It is in a background";
    assert!(terminal.contains(why), "{terminal}");
    assert!(fails(500_000, libc::EACCES).is_empty() && fails(900_000, libc::EAGAIN).is_empty());
}

#[test]
fn who_only_asks_is_said() {
    let asks = |count: u64, cpu: f64| {
        of(&|process| {
            (process.fill_asks, process.lived_ns) = (count, WINDOW);
            process.cpu_ns = (cpu * WINDOW as f64) as u64;
        })
    };
    let text = "`grep` asked 812,345 times how much there is to read (FIONREAD, as `available()` does) and read 20 times: \
                it does not sleep meanwhile. `read` or `poll` waits for data.";
    assert_eq!(asks(812_345, 0.99), [text]);
    assert!(asks(9000, 0.99).is_empty() && asks(812_345, 0.1).is_empty());
    let reads = said(find, &|recording| {
        (recording.recorded[1].fill_asks, recording.recorded[1].cpu_ns) = (20_000, WINDOW);
        recording.channels[0].readers[0].calls = [("read".to_owned(), 20_000)].into();
    });
    assert!(reads.is_empty(), "it asks before each read");
}

#[test]
fn a_loop_over_all_descriptors_is_said() {
    let closes = |failed: u64, calls: u64, cpu_ns: u64| {
        of(&|process| (process.failed_closes, process.calls, process.cpu_ns) = (failed, calls, cpu_ns))
    };
    let text = "`grep` closed 1,048,570 descriptors that were not open (EBADF), and is on a CPU 50 % of the time: such a \
                loop goes up to the limit of open files (`ulimit -n`). `close_range` closes all with one call.";
    assert_eq!(closes(1_048_570, 1_050_000, WINDOW / 2), [text]);
    let sets = |closed: u64| {
        of(&|process| {
            (process.failed_calls, process.calls, process.cpu_ns) = (8_497_641, 8_500_000, WINDOW / 2);
            (process.failure, process.failed_closes) = (Some(("fcntl".to_owned(), libc::EBADF)), closed);
        })
    };
    let text = "`grep` called `fcntl` for 8,497,641 descriptors that were not open (EBADF), and is on a CPU 50 % of the time: such a \
                loop goes up to the limit of open files (`ulimit -n`). `close_range` with CLOSE_RANGE_CLOEXEC sets this for all with \
                one call.";
    assert_eq!(sets(0), [text]);
    assert!(sets(8_400_000)[0].starts_with("`grep` closed 8,400,000 descriptors"), "most were of `close`");
    assert!(closes(1020, 1100, WINDOW / 2).is_empty(), "few");
    assert!(closes(60_000, 60_100, WINDOW / 100).is_empty(), "it takes no time");
    assert!(closes(60_000, 900_000, WINDOW / 2).is_empty(), "it does other things");
}

#[test]
fn reads_of_what_is_not_open_are_said() {
    let reads = |failed: u64| of(&|process| (process.bad_calls, process.calls) = (failed, 1_500_100));
    let text =
        "1,500,000 of 1,500,100 calls of `grep` read or wrote a descriptor that is not open (EBADF), again and again.";
    assert_eq!(reads(1_500_000), [text]);
    assert!(reads(20_000).is_empty() && reads(1).is_empty());
}

#[test]
fn a_table_without_room_is_said() {
    let full = |table| of(&|process| process.full_table = Some(table));
    let table = FullTable { calls: 1, descriptors: 64, looked_at: 64, pipes: 58, sockets: 0 };
    let text = "`grep` could not open another file, pipe or socket once, because it has as many open as it may (EMFILE): 64, and 58 of them \
                are pipe ends. It has to close what it does not need any more; `ulimit -n` only raises the limit.";
    assert_eq!(full(table), [text]);
    let sockets = FullTable { calls: 20, descriptors: 4096, looked_at: 64, pipes: 2, sockets: 60 };
    assert!(full(sockets)[0].contains("(EMFILE): 4,096, and 60 of 64 that were looked at are sockets. It"));
    assert!(full(FullTable { pipes: 2, ..table })[0].contains("(EMFILE): 64. It has"));
}

#[test]
fn a_lock_that_another_one_has_is_said() {
    let locked = |pid: u32, inherited: bool| {
        of(&|process| {
            let row = if pid == 2 { 1 } else { 2 };
            let holder = SeenProcess { pid, name: "sleep".to_owned(), recorded: Some(row), ..SeenProcess::default() };
            process.locked_out =
                Some(LockedFile { path: "/tmp/a".to_owned(), holders: vec![holder], inherited, refused: 2 });
        })
    };
    let text = "`grep` did not get the lock of `/tmp/a`, and did not wait for it: `sleep` (process 4711) has it.";
    assert_eq!(locked(4711, false), [text]);
    assert!(
        locked(4711, true)[0]
            .starts_with(&format!("{text} It has inherited the open file, to which the lock belongs:"))
    );
    assert!(locked(2, false).is_empty(), "it got it later");
    let of_row = of(&|process| {
        process.pids.push(4711);
        let holder = SeenProcess { pid: 4711, name: "sleep".to_owned(), recorded: Some(2), ..SeenProcess::default() };
        let (path, holders) = ("/tmp/a".to_owned(), vec![holder]);
        process.locked_out = Some(LockedFile { path, holders, ..LockedFile::default() });
    });
    assert_eq!(of_row, [text], "it was a copy of the same program before");
}

#[test]
fn a_sync_for_each_line_is_said() {
    let syncs = |count: u64, share: f64| {
        said(find, &|recording| {
            recording.recorded[1].syncs = count;
            let what = PathWhat::Asleep { reason: WaitReason::Disk };
            let ns = (share * WINDOW as f64) as u64;
            let part = PathPart { process: Some(1), what, ns, ..PathPart::default() };
            recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
        })
    };
    let text = "`grep` called `fsync` 1,000 times, and waits for files 85 % of the time: each call waits until the disk has \
                all that was written. One for many lines, or at the end, waits less often.";
    assert_eq!(syncs(1000, 0.85), [text]);
    assert!(syncs(5, 0.85).is_empty() && syncs(1000, 0.1).is_empty());
}

#[test]
fn calls_for_a_few_bytes_of_files_are_said() {
    let tiny = |change: &dyn Fn(&mut RecordedProcess)| {
        of(&|process| {
            (process.tiny_calls, process.calls, process.cpu_ns) = (40_000_000, 40_000_066, WINDOW);
            change(process);
        })
    };
    let text = "`grep` made 40,000,000 reads and writes of files of fewer than 16 bytes each, and is on a CPU 100 % of the time: each of them is a \
                call of the kernel. A buffer moves thousands of bytes with one (`BufReader`, `fread`, `bs=64K`).";
    assert_eq!(tiny(&|_| {}), [text]);
    assert!(tiny(&|process| process.cpu_ns = WINDOW / 10).is_empty());
    assert!(tiny(&|process| process.name = "bash".to_owned()).is_empty(), "it has to");
    let refused = of(&|process| process.refused_sizes = 476);
    assert!(refused[0].starts_with("`grep` wanted to make pipes larger 476 times and was refused"), "{refused:?}");
}

#[test]
fn a_lost_exit_code_is_said() {
    let lost = |gone: u64, forks: u64| of(&|process| (process.gone_children, process.forks) = (gone, forks));
    let text = "`grep` waited for a child that the kernel had not kept (ECHILD): its exit code is lost. It ignores SIGCHLD, so that the \
                kernel keeps no ended children, or another wait of its own was first, as one for any child in a signal handler.";
    assert_eq!(lost(1, 1), [text]);
    let several = "`grep` waited for 2 processes that the kernel had not kept (ECHILD): their exit codes are lost.";
    assert!(lost(2, 2)[0].starts_with(several));
    assert!(lost(1, 0).is_empty() && lost(0, 1).is_empty());
    // What the process was before its last exec had set it, and not who started that.
    let found = said(find, &|recording| {
        let [before, own, starter] = &mut recording.recorded[..] else { panic!() };
        (own.gone_children, own.forks, own.execs, own.ignores_sigchld) = (1, 1, 1, 1);
        (own.pids, own.started_by, own.begin_ns) = (vec![7], Some(2), 9);
        (before.pids, before.moved_on, before.execs, before.begin_ns) = (vec![7], vec![7], 1, 1);
        starter.execs = 1;
    });
    assert!(found[0].contains("It inherited from `seq` that SIGCHLD is ignored"), "{found:?}");
}

#[test]
fn reads_at_the_end_of_a_file_are_said() {
    let reads = |ends: u64, calls: u64, fd: u32| {
        of(&|process| {
            (process.ends, process.calls, process.ended) = (ends, calls, Some(fd));
            (process.cpu_ns, process.lived_ns) = (WINDOW / 10 * 9, WINDOW);
        })
    };
    let text = "`grep` read its standard input 1,242,769 times at its end, and is on a CPU 90 % of the time: it is a file or a device \
                such as /dev/null, and each read returns at once. It has to stop at the end of file.";
    assert_eq!(reads(1_242_769, 2_485_600, 0), [text]);
    assert!(reads(1_242_769, 1_300_000, 7)[0].starts_with("`grep` read descriptor 7 1,242,769 times"));
    assert!(reads(20, 30, 0).is_empty() && reads(20_000, 120_000, 3).is_empty(), "each of many files has an end");
}

#[test]
fn a_port_that_others_have_is_said() {
    let bound = |pid: u32, binds: u64, change: &dyn Fn(&mut RecordedProcess)| {
        said(find, &|recording| {
            let holder = SeenProcess { pid, name: "sleep".to_owned(), recorded: Some(2), ..SeenProcess::default() };
            recording.recorded[2].binds = binds;
            let process = &mut recording.recorded[1];
            let used_port = Some(UsedPort { port: 8080, holders: vec![holder] });
            (process.used_port, process.exit_code, process.binds) = (used_port, Some(1), 1);
            change(process);
        })
    };
    let text = "`grep` could not bind a socket to port 8080 (EADDRINUSE): `sleep` (process 4711) has it.";
    assert_eq!(bound(4711, 1, &|_| {}), [text]);
    assert!(bound(4711, 0, &|_| {})[0].starts_with(&format!("{text} Such a process has inherited the socket")));
    let own = bound(4711, 1, &|of| of.used_port.iter_mut().for_each(|used| used.holders[0].recorded = Some(1)));
    assert!(own[0].contains("`sleep` (process 4711) has it. Such a process has inherited the socket"), "{own:?}");
    assert!(bound(4711, 1, &|of| (of.exit_code, of.binds) = (None, 2)).is_empty(), "it has looked for a free one");
    let before = said(find, &|recording| {
        let process = &mut recording.recorded[1];
        let used_port = Some(UsedPort { port: 8080, holders: Vec::new() });
        (process.used_port, process.exit_code, process.binds) = (used_port, Some(1), 1);
        recording.recorded[0].waits = [(WaitReason::Stopped, WaitTotal { ns: 9, count: 1 })].into();
        let binds = NamedFile { path: "port 8080".to_owned(), ended_ns: Some(9 * MS), ..used(0, NameUse::Binds, 2) };
        recording.named_files = vec![binds];
    });
    let text = "`grep` could not bind a socket to port 8080 (EADDRINUSE): `seq`, which had bound it at 2.00 ms, had it, until 9.00 ms. It \
                was stopped, as Ctrl-Z does, and not ended: `kill` ends it.";
    assert_eq!(before, [text]);
    let left = said(find, &|recording| {
        recording.recorded[0].signal = Some(15);
        let process = &mut recording.recorded[1];
        process.used_port = Some(UsedPort { port: 8080, holders: Vec::new() });
        (process.exit_code, process.binds, process.started_by, process.pids) = (Some(1), 1, Some(0), vec![2, 9]);
        recording.named_files = vec![NamedFile { path: "port 8080".to_owned(), ..used(1, NameUse::Binds, 2) }];
    });
    let text = "`grep` could not bind a socket to port 8080 (EADDRINUSE): `grep` (process 2), which had bound it at 2.00 ms, had it. SIGTERM had \
                ended `seq`, which had started it, but not it. Signals to the whole group end both (`start_new_session` and `killpg`, `setsid` \
                and `kill -- -PID`).";
    assert_eq!(left, [text]);
    let inherited = said(find, &|recording| {
        let process = &mut recording.recorded[1];
        let used_port = Some(UsedPort { port: 8080, holders: Vec::new() });
        (process.used_port, process.exit_code, process.binds) = (used_port, Some(1), 1);
        process.left = Some(LeftProcesses { count: 2, processes: [1].into(), until_ns: WINDOW });
        let binds = NamedFile { path: "port 8080".to_owned(), ended_ns: Some(9 * MS), ..used(1, NameUse::Binds, 2) };
        recording.named_files = vec![binds];
    });
    let text = "`grep` could not bind a socket to port 8080 (EADDRINUSE): `grep` (process 2) had bound it and ended at 9.00 ms, but 2 \
                processes that it had started ran on with its socket. A signal to the whole group (`kill -- -PID`, \
                `killpg`) ends all.";
    assert_eq!(inherited, [text]);
}

#[test]
fn who_asks_for_its_child_again_and_again_is_said() {
    let asks = |count: u64, calls: u64| {
        of(&|process| {
            (process.watches, process.calls, process.lived_ns, process.cpu_ns) = (count, calls, WINDOW, WINDOW);
        })
    };
    let text = "`grep` asked 4,000,000 times whether a child had ended, without waiting between (`waitpid` with WNOHANG), and is on a CPU \
                100 % of the time. Without WNOHANG, it sleeps until one ends.";
    assert_eq!(asks(4_000_000, 4_000_100), [text]);
    assert!(asks(4_000_000, 9_000_000).is_empty() && asks(40, 50).is_empty());
}

#[test]
fn a_process_that_could_not_be_started_is_said() {
    let text = "`grep` could not start a process (3 times, EAGAIN): there were as many as its user (`ulimit -u`) or its cgroup \
                (`pids.max`) may have.";
    assert_eq!(of(&|process| process.failed_forks = 3), [text]);
    let orphans = of(&|process| {
        process.failed_forks = 3;
        process.left = Some(crate::result::LeftProcesses { count: 57, ..Default::default() });
    });
    assert!(orphans[0].contains("57 whose parents had ended before are left to process 1"), "{orphans:?}");
}

//! The workload on this machine: what it moves, what it refuses, and that nothing remains. Tests
//! wait for states; a clock only ends those that would wait for ever.

use crate::common::copy_program;
use pipeprof::result::Processes;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_pipeprof");
const MODES: [&str; 5] = ["write", "vmsplice", "vmsplice-huge", "vmsplice-huge-busy", "splice"];

fn engine(line: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("__engine").args(line.split_whitespace());
    command
}

fn output(line: &str) -> Output {
    engine(line).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The totals of the processes of `line`.
fn moved(line: &str) -> Processes {
    let output = output(&format!("--json --warmup 1M {line}"));
    assert!(output.status.success(), "{line}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The one-line error for `line`.
fn refused(line: &str) -> String {
    let output = output(line);
    assert!(!output.status.success(), "{line} was accepted");
    let text = stderr(&output);
    assert_eq!(text.trim_end().lines().count(), 1, "{line}: {text}");
    text
}

#[test]
fn every_mode_moves_exactly_the_bytes_it_says() {
    let bytes = (20 << 20) + 12_345;
    for mode in MODES {
        let processes = moved(&format!("--mode {mode} --bytes {bytes}"));
        assert_eq!((processes.writer().bytes, processes.reader().bytes), (bytes, bytes), "{mode}");
        assert!(processes.window_ns > 0 && processes.writer().calls > 0 && processes.reader().calls > 0, "{mode}");
        let expected = if mode.starts_with("vmsplice") { 128 << 10 } else { 64 << 10 };
        assert_eq!(processes.writer().pipe_size, expected, "{mode}");
        assert_eq!(processes.writer().huge_pages.is_some(), mode.contains("huge"), "{mode}");
    }
}

/// Locked and untouched buffers: the same bytes are moved, but the kernel's report on the process differs.
#[test]
fn locked_buffers_are_locked_and_untouched_ones_use_no_memory() {
    for mode in ["write", "vmsplice", "vmsplice-huge"] {
        for axis in ["--mlock", "--no-touch"] {
            let processes = moved(&format!("--mode {mode} {axis} --bytes 5000001"));
            assert_eq!((processes.writer().bytes, processes.reader().bytes), (5_000_001, 5_000_001), "{mode} {axis}");
        }
    }
    let kib = |pid: u32, field: &str| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
    };
    const BUFFER_KIB: u64 = 64 << 10;
    let line = "--mode vmsplice --buffer-size 64M --pipe-size 64K --warmup 0 --bytes 64M";
    let locked = held(&format!("{line} --mlock"));
    assert_eq!(kib(locked.workers[0], "VmLck"), BUFFER_KIB);
    drop(locked.gate);
    let [touched, untouched] = ["", "--no-touch"].map(|axis| {
        let held = held(&format!("{line} {axis}"));
        let resident = kib(held.workers[0], "RssAnon");
        drop(held.gate);
        resident
    });
    assert!(touched >= BUFFER_KIB && untouched < BUFFER_KIB / 8, "{touched} KiB touched, {untouched} KiB untouched");
}

#[test]
fn io_uring_splices_out_and_refuses_what_it_cannot_do() {
    let processes = moved("--mode io-uring-splice --batch 4 --bytes 5000001");
    assert_eq!((processes.writer().bytes, processes.reader().bytes), (5_000_001, 5_000_001));
    for (line, flag) in [
        ("--mode io-uring --busy-loop", "--busy-loop"),
        ("--mode write --sqpoll", "--sqpoll requires"),
        ("--mode write --without-splice", "--without-splice requires"),
        ("--mode vmsplice --gift --without-splice", "--gift requires"),
        ("--mode io-uring-sqpoll --defer-taskrun", "--defer-taskrun requires"),
        ("--mode io-uring-multishot --readers 2", "--readers 2"),
        ("--mode io-uring --batch 1024 --buffer-size 2M", "--batch 1024"),
        ("--mode io-uring-splice --registered-buffers", "--registered-buffers requires"),
    ] {
        assert!(refused(line).starts_with(&format!("pipeprof: {flag}")), "{line}: {}", refused(line));
    }
}

#[test]
fn calls_are_exactly_those_requested() {
    for (mode, block) in [("write", 256 << 10), ("vmsplice", 128 << 10), ("vmsplice-huge", 128 << 10)] {
        let processes = moved(&format!("--mode {mode} --calls 100"));
        assert_eq!(processes.writer().calls, 100, "{mode}");
        assert_eq!((processes.writer().bytes, processes.reader().bytes), (100 * block, 100 * block), "{mode}");
        let processes = moved(&format!("--mode {mode} --calls 100 --extra-call-every 10 --poll"));
        assert_eq!(processes.writer().calls, 100 + 10 + 100, "{mode}");
        assert_eq!(processes.reader().bytes, 100 * block, "{mode}");
    }
}

#[test]
fn a_duration_ends_and_loses_nothing() {
    for mode in MODES {
        let processes = moved(&format!("--mode {mode} --duration 50ms"));
        assert_eq!(processes.writer().bytes, processes.reader().bytes, "{mode}");
        assert!(processes.writer().bytes > 0 && processes.writer().elapsed_ns >= 50_000_000, "{mode}: {processes:?}");
    }
}

#[test]
fn every_variant_whose_bytes_can_be_checked_delivers_them() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    // Not a multiple of any buffer size, so that the file ends within a block.
    let content: Vec<u8> = (0..300_007u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&source, content).unwrap();
    let source = format!("--source {}", source.display());
    let variants = [
        "--writer write",
        "--writer write --buffer-size 1000",
        "--writer write --buffer-size 12345 --reader-buffer-size 777",
        "--writer write --buffer-offset 3 --buffer-size 1000",
        "--writer write --busy-loop",
        "--writer write --poll",
        "--writer write --poll --busy-loop",
        "--writer vmsplice",
        "--writer vmsplice --contiguous",
        "--writer vmsplice --huge-pages --busy-loop",
        "--writer vmsplice --gift --poll",
        // A pipe of one page, so that most calls are short.
        "--writer vmsplice --busy-loop --reader-buffer-size 4K",
        "--writer vmsplice --buffer-size 8K",
        "--writer vmsplice --buffer-size 24K",
        "--writer vmsplice --pipe-size 4K",
        "--writer vmsplice --without-splice",
        "--writer vmsplice --without-splice --busy-loop --buffer-size 24K",
        "--writer splice",
        "--writer splice --without-splice",
        "--writer read-write",
        "--writer stdio --buffer-size 4K",
        "--writer io-uring",
        "--writer io-uring --batch 7 --buffer-size 1000",
        "--writer io-uring --batch 3 --buffer-size 128K --pipe-size 4K",
        "--reader io-uring --batch 4 --reader-buffer-size 777",
        "--mode io-uring-registered --batch 5 --buffer-size 12345",
        "--mode io-uring-sqpoll --batch 2",
        "--mode io-uring --defer-taskrun --poll",
        "--mode io-uring-multishot",
        "--mode io-uring-multishot --batch 1 --reader-buffer-size 100 --registered-files",
        "--writer io-uring-splice --batch 3",
        &format!("--writer io-uring-splice --batch 3 --registered-files --buffer-size 10000 {source}"),
        &format!("--writer splice {source}"),
        &format!("--writer splice --busy-loop --buffer-size 10000 {source}"),
        &format!("--writer splice --without-splice --buffer-size 10000 {source}"),
        &format!("--writer read-write --buffer-size 128K {source}"),
        &format!("--writer read-write --busy-loop {source}"),
        &format!("--writer read-write --buffer-offset 4095 {source}"),
        &format!("--writer stdio --buffer-offset 1 {source}"),
        &format!("--writer stdio --buffer-size 4K {source}"),
    ];
    for variant in variants {
        let processes = moved(&format!("--verify --bytes 5000001 {variant}"));
        assert_eq!(processes.reader().bytes, 5_000_001, "{variant}");
        let verified = processes.reader().verified_bytes.unwrap();
        assert!(verified > 5_000_001, "{variant}: {verified}, the warm-up is checked too");
        assert_eq!(processes.reader().verify_errors, Vec::<String>::new(), "{variant}");
    }
}

#[test]
fn verify_reports_pages_that_are_overwritten_in_the_pipe() {
    // Writer and reader share a CPU: the writer fills the pipe, with four times a half, before the reader runs.
    let line = "--writer vmsplice --verify --buffer-size 128K --pipe-size 256K --unsafe-pipe --pin 0,0 --warmup 0";
    let output = output(&format!("--json --bytes 8M {line}"));
    assert!(!output.status.success());
    assert!(stderr(&output).contains("--verify"), "{}", stderr(&output));
    let processes: Processes = serde_json::from_slice(&output.stdout).unwrap();
    let errors = &processes.reader().verify_errors;
    assert!(errors.iter().any(|error| error.contains("page") && error.starts_with("byte ")), "{errors:?}");
}

#[test]
fn several_processes_share_the_work() {
    let bytes = 9_000_001;
    let processes = moved(&format!("--bytes {bytes} --writers 3 --readers 2 --pin none"));
    let pair = &processes.pipes[0];
    assert_eq!((pair.from.totals.len(), pair.to.totals.len()), (3, 2));
    assert_eq!(pair.from.totals.iter().map(|w| w.bytes).sum::<u64>(), bytes);
    assert_eq!((processes.writer().bytes, processes.reader().bytes), (bytes, bytes));
    for mode in ["write", "vmsplice", "splice"] {
        let processes = moved(&format!("--mode {mode} --bytes {bytes} --pairs 2 --pin none"));
        assert_eq!(processes.pipes.len(), 2, "{mode}");
        for pair in &processes.pipes {
            assert_eq!((pair.from.totals[0].bytes, pair.to.totals[0].bytes), (bytes, bytes), "{mode}");
            assert!(pair.window_ns <= processes.window_ns, "{mode}");
        }
        assert_eq!(processes.reader().bytes, 2 * bytes, "{mode}");
    }
}

#[test]
fn one_cpu_is_enough() {
    let mut command = Command::new("taskset");
    command.args(["-c", "0", BINARY, "__engine", "--json", "--bytes", "1M"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let processes: Processes = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((processes.writer().cpu, processes.reader().cpu), (Some(0), Some(0)));
}

#[test]
fn what_this_machine_does_not_support_is_refused_by_flag() {
    assert!(refused("--pin 0,4095 --bytes 1M").contains("--pin 0,4095: CPU 4095"));
    assert!(refused("--pairs 200 --bytes 1M").contains("--pin none"));
    assert!(refused("--source /nowhere --writer splice --bytes 1M").contains("--source /nowhere"));
    assert!(refused("--source / --writer read-write --bytes 1M").contains("--source /: this is a directory"));
    assert!(refused("--writer splice --source /proc/self/stat --bytes 1M").contains("--source /proc/self/stat"));
    let empty = tempfile::NamedTempFile::new().unwrap();
    let line = format!("--writer stdio --source {} --bytes 1M", empty.path().display());
    assert!(refused(&line).contains("is empty"));
    let begun = Instant::now();
    for writer in ["read-write", "splice"] {
        let said = refused(&format!("--writer {writer} --source /dev/null --bytes 1M"));
        assert!(said.contains("--source /dev/null"), "{said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "the reader waited for data");
    assert!(refused("--mode vmsplice --buffer-size 12K").contains("halves"));
    assert!(refused("--mode vmsplice --pipe-size 256K").contains("--pipe-size 256K"));
}

/// A copy of the binary that another user can run, as `user` if this one is root. Its pipes count for that user.
fn as_a_plain_user(user: u32, before: impl Fn() -> std::io::Result<()> + Send + Sync + 'static, line: &str) -> Output {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let copy = folder.path().join("pipeprof");
    copy_program(Path::new(BINARY), &copy);
    let mut command = Command::new(&copy);
    command.arg("__engine").args(line.split_whitespace()).current_dir("/");
    // SAFETY: getuid always succeeds.
    let root = unsafe { libc::getuid() } == 0;
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if root && (libc::setgroups(0, std::ptr::null()) | libc::setgid(user) | libc::setuid(user)) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            before()
        });
    }
    command.output().unwrap()
}

/// A user whose pipes use up its limit.
const FULL: u32 = 54_321;
/// A user without other pipes.
const OTHER: u32 = 54_322;

#[test]
fn the_limit_on_a_users_pipe_is_named() {
    let limit: u64 = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap().trim().parse().unwrap();
    let output = as_a_plain_user(OTHER, || Ok(()), &format!("--pipe-size {} --bytes 1M", 2 * limit));
    let text = stderr(&output);
    assert!(!output.status.success());
    assert!(text.contains("--pipe-size") && text.contains("/proc/sys/fs/pipe-max-size"), "{text}");
    let output = as_a_plain_user(OTHER, || Ok(()), &format!("--mode vmsplice --buffer-size {} --bytes 1M", 4 * limit));
    assert!(stderr(&output).contains("--buffer-size"), "{}", stderr(&output));
    let output = as_a_plain_user(OTHER, || Ok(()), "--mode vmsplice --bytes 1M --json");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_user_over_the_soft_limit_gets_a_warning_with_the_real_pipe_size() {
    let soft: u64 = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap().trim().parse().unwrap();
    let pipes = soft / 16;
    assert!(
        (1..=2000).contains(&pipes),
        "/proc/sys/fs/pipe-user-pages-soft is {soft}: set it to 16384, the kernel's default, for this test"
    );
    let fill = move || {
        let room = libc::rlimit { rlim_cur: 8192, rlim_max: 8192 };
        // SAFETY: plain system calls; the pipes must stay open in the program that is executed next.
        unsafe {
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const room) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            for _ in 0..pipes {
                let mut ends = [0; 2];
                if libc::pipe(ends.as_mut_ptr()) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
        }
        Ok(())
    };
    let output = as_a_plain_user(FULL, fill, "--bytes 1M --json");
    assert!(output.status.success(), "{}", stderr(&output));
    let processes: Processes = serde_json::from_slice(&output.stdout).unwrap();
    assert!(processes.writer().pipe_size < 64 << 10, "{}", processes.writer().pipe_size);
    let spec = pipeprof::workload::Spec::default();
    let codes: Vec<_> = pipeprof::workload::caveats(&spec, &processes).into_iter().map(|w| w.code).collect();
    assert!(codes.contains(&pipeprof::util::warning::WarningCode::PipeSmall), "{codes:?}");
    let output = as_a_plain_user(FULL, fill, "--mode vmsplice --bytes 1M");
    assert!(stderr(&output).contains("pipe-user-pages-soft"), "{}", stderr(&output));
}

/// A workload whose processes wait before the window.
struct Held {
    engine: Child,
    gate: ChildStdin,
    workers: Vec<u32>,
}

fn held(line: &str) -> Held {
    let mut engine = engine(&format!("--hold --json {line}"));
    let mut engine = engine.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(engine.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let watched: serde_json::Value = serde_json::from_str(&first).unwrap();
    let of = |name: &str| -> Vec<u32> { serde_json::from_value(watched[name].clone()).unwrap() };
    let workers = [of("writers"), of("readers")].concat();
    assert_eq!(workers.len(), 2);
    Held { gate: engine.stdin.take().unwrap(), engine, workers }
}

/// Whether the process has ended; a zombie has.
fn ended(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => matches!(stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]), Some("Z" | "X")),
        Err(_) => true,
    }
}

fn until(what: &str, state: impl Fn() -> bool) {
    for _ in 0..3000 {
        if state() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never came: {what}");
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a process that this test started.
    assert_eq!(unsafe { libc::kill(pid.cast_signed(), signal) }, 0);
}

/// Bytes that the process has moved by read and write calls.
fn has_moved(pid: u32) -> bool {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let calls = io.lines().find_map(|line| line.strip_prefix("syscw: ")?.parse::<u64>().ok());
    calls.unwrap_or(0) > 1000
}

fn finish(held: Held) -> (Output, Vec<u32>) {
    let Held { engine, gate, workers } = held;
    drop(gate);
    (engine.wait_with_output().unwrap(), workers)
}

#[test]
fn at_the_gate_the_pipe_is_empty_and_both_wait() {
    let held = held("--bytes 1M --warmup 4M");
    let pipe = std::fs::File::open(format!("/proc/{}/fd/0", held.workers[1])).unwrap();
    let mut pending = -1;
    // SAFETY: the kernel writes one int.
    let answer = unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&pipe), libc::FIONREAD, &raw mut pending) };
    assert_eq!((answer, pending), (0, 0));
    for (pid, name) in held.workers.iter().zip(["pipeprof-writer", "pipeprof-reader"]) {
        until("sleeping at the gate", || {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(&format!("({name}) S "))
        });
    }
}

#[test]
fn an_interruption_ends_everything_at_the_gate_and_in_the_window() {
    for stop in [libc::SIGINT, libc::SIGTERM] {
        let mut held = held("--duration 1h");
        held.gate.write_all(b"\n").unwrap();
        let writer = held.workers[0];
        until("the window", || has_moved(writer));
        signal(held.engine.id(), stop);
        let (output, workers) = finish(held);
        assert_eq!(output.status.code(), Some(128 + stop));
        assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
        assert!(workers.iter().all(|&pid| ended(pid)));
    }
    let held = held("--duration 1h");
    signal(held.engine.id(), libc::SIGTERM);
    let mut gate = held.gate;
    gate.write_all(b"\n").unwrap();
    let (output, workers) = finish(Held { gate, ..held });
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(workers.iter().all(|&pid| ended(pid)));
}

#[test]
fn workers_die_with_a_controller_that_is_killed() {
    for released in [false, true] {
        let mut held = held("--duration 1h");
        if released {
            held.gate.write_all(b"\n").unwrap();
            let writer = held.workers[0];
            until("the window", || has_moved(writer));
        }
        signal(held.engine.id(), libc::SIGKILL);
        // Do not read its output, which a surviving worker would keep open; the socket stays as it is.
        held.engine.wait().unwrap();
        until("the end of the workers", || held.workers.iter().all(|&pid| ended(pid)));
    }
}

#[test]
fn a_worker_that_dies_is_an_error_and_takes_the_other_along() {
    for victim in [0, 1] {
        let mut held = held("--duration 1h");
        held.gate.write_all(b"\n").unwrap();
        let writer = held.workers[0];
        until("the window", || has_moved(writer));
        signal(held.workers[victim], libc::SIGKILL);
        let (output, workers) = finish(held);
        let text = stderr(&output);
        assert!(!output.status.success());
        assert!(text.contains(["the writer process", "the reader process"][victim]), "{text}");
        assert!(text.contains("signal: 9"), "{text}");
        assert!(workers.iter().all(|&pid| ended(pid)));
    }
}

#[test]
#[ignore = "takes over 5 seconds: make test"]
fn a_worker_that_is_stopped_is_named() {
    let mut held = held("--bytes 64M");
    held.gate.write_all(b"\n").unwrap();
    let writer = held.workers[0];
    signal(writer, libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(9));
    signal(writer, libc::SIGCONT);
    let (output, _) = finish(held);
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("makes no progress") && text.contains(&format!("(process {writer})")), "{text}");
}

#[test]
fn the_folder_of_a_killed_run_is_removed_by_the_next() {
    let [parent, scratch] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let run = |name: &str, duration: &str| {
        let mut command = Command::new(BINARY);
        command.args(["run", "--collect", "none", "--warmup", "1M", "--runs", "1", "--duration", duration, "-o"]);
        // What other runs left in the usual place would be named, too.
        command.arg(parent.path().join(name)).stdout(Stdio::null()).env("TMPDIR", scratch.path());
        command
    };
    let folders =
        || -> Vec<_> { std::fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let mut killed = run("killed", "60s").stderr(Stdio::null()).spawn().unwrap();
    until("a folder in preparation", || !folders().is_empty());
    // The folder of one that is at work stays.
    let beside = stderr(&run("beside", "20ms").output().unwrap());
    assert!(!beside.contains("killed runs") && folders().len() == 2, "{beside}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let next = stderr(&run("next", "20ms").output().unwrap());
    assert!(next.contains("removed 1 temporary folder of killed runs"), "{next}");
    let mut left = folders();
    left.sort();
    assert_eq!(left, ["beside", "next"].map(|name| parent.path().join(name)));
}

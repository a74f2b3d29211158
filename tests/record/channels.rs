//! Sockets and terminals, recorded as pipes are.

use super::{Recorded, record};
use pipeprof::result::{ChannelKind, RecordedChannel};
use std::collections::BTreeMap;

/// What each program below begins with. `both` executes the second function in a child.
const PRELUDE: &str = "
import os, socket, array, pty, tempfile
def both(parent, child):
    pid = os.fork()
    if not pid:
        os.execvp('true', ['true']) if child is None else child()
        os._exit(0)
    parent()
    os.waitpid(pid, 0)
def all_of(receive, size=1 << 16):
    while receive(size): pass
";

/// Programs with the channels that they use.
const PROGRAMS: [(&str, ChannelKind, &str); 11] = [
    (
        "a stream in both directions",
        ChannelKind::UnixStream,
        "
a, b = socket.socketpair()
def one():
    b.close()
    for _ in range(50): a.sendall(b'x' * 3000)
    a.shutdown(socket.SHUT_WR)
    all_of(a.recv)
def other():
    a.close()
    all_of(b.recv)
    os.write(b.fileno(), b'y' * 7000)
both(one, other)",
    ),
    (
        "packets",
        ChannelKind::UnixPacket,
        "
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
def one():
    for _ in range(40): a.send(b'x' * 1234)
    a.send(b'')
both(one, lambda: all_of(b.recv))",
    ),
    (
        "datagrams",
        ChannelKind::UnixDatagram,
        "
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
def one():
    for _ in range(40): a.send(b'x' * 99)
    a.send(b'')
both(one, lambda: all_of(b.recv))",
    ),
    (
        "messages, and descriptors in them",
        ChannelKind::UnixStream,
        "
a, b = socket.socketpair()
r, w = os.pipe()
def one():
    for _ in range(9):
        a.sendmsg([b'some', b'thing'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [w]))])
        os.read(r, 100)
def other():
    for _ in range(9):
        data, rest, *_ = b.recvmsg(9, 100)
        fd = array.array('i', rest[0][2])[0]
        os.write(fd, b'through the pipe')
        os.close(fd)
both(one, other)",
    ),
    (
        "a look ahead",
        ChannelKind::UnixStream,
        "
a, b = socket.socketpair()
def one():
    for _ in range(9): a.send(b'x' * 500)
    a.close()
def other():
    a.close()
    while b.recv(100, socket.MSG_PEEK): b.recv(700)
both(one, other)",
    ),
    (
        "TCP",
        ChannelKind::Tcp,
        "
server = socket.create_server(('127.0.0.1', 0))
def one():
    a, _ = server.accept()
    all_of(a.recv)
    a.sendall(b'y' * 300000)
    a.close()
def other():
    b = socket.create_connection(server.getsockname())
    for _ in range(30): b.sendall(b'x' * 30000)
    b.shutdown(socket.SHUT_WR)
    all_of(b.recv)
both(one, other)",
    ),
    (
        "TCP over IPv6",
        ChannelKind::Tcp,
        "
server = socket.create_server(('::1', 0), family=socket.AF_INET6)
def one():
    a, _ = server.accept()
    all_of(lambda size: os.read(a.fileno(), size))
def other():
    b = socket.create_connection(server.getsockname()[:2])
    for _ in range(30): os.write(b.fileno(), b'x' * 300)
both(one, other)",
    ),
    (
        "TCP that was reset before anything was read",
        ChannelKind::Tcp,
        "
import struct
server = socket.create_server(('127.0.0.1', 0))
r, w = os.pipe()
def one():
    os.close(w)
    a, _ = server.accept()
    os.read(r, 1)
    try: all_of(a.recv)
    except ConnectionResetError: pass
def other():
    b = socket.create_connection(server.getsockname())
    b.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    for _ in range(9): b.sendall(b'x' * 500)
    b.close()
both(one, other)",
    ),
    (
        "a file sent to a socket",
        ChannelKind::Tcp,
        "
server = socket.create_server(('127.0.0.1', 0))
def one():
    a, _ = server.accept()
    all_of(a.recv)
def other():
    b = socket.create_connection(server.getsockname())
    with tempfile.TemporaryFile() as file:
        file.write(b'x' * 100000)
        file.flush()
        at = 0
        while at < 100000: at += os.sendfile(b.fileno(), file.fileno(), at, 40000)
both(one, other)",
    ),
    (
        "a pipe spliced to a socket and back",
        ChannelKind::UnixStream,
        "
import ctypes
splice = ctypes.CDLL(None).splice
a, b = socket.socketpair()
r, w = os.pipe()
s, v = os.pipe()
def one():
    for _ in range(20):
        os.write(w, b'x' * 5000)
        left = 5000
        while left: left -= splice(r, None, a.fileno(), None, left, 0)
    a.shutdown(socket.SHUT_WR)
def other():
    while splice(b.fileno(), None, v, None, 4096, 0) > 0: os.read(s, 4096)
both(one, other)",
    ),
    (
        "a terminal",
        ChannelKind::Pty,
        "
master, slave = pty.openpty()
import tty
tty.setraw(slave)
def one():
    for _ in range(20):
        os.write(master, b'x' * 50)
        left = 50
        while left: left -= len(os.read(master, 100))
def other():
    for _ in range(20):
        left = 50
        while left: left -= len(os.read(slave, 100))
        os.write(slave, b'y' * 50)
both(one, other)",
    ),
];

/// Calls and bytes, by the name of the call and whether it writes.
type Sums = BTreeMap<(String, bool), [u64; 2]>;

/// What strace saw of calls at pipes, sockets and pseudo-terminals.
fn of_strace(log: &str) -> Sums {
    let mut sums = Sums::new();
    let mut open: BTreeMap<&str, &str> = BTreeMap::new();
    for line in log.lines() {
        let (pid, rest) = line.split_once(' ').expect(line);
        let rest = rest.trim_start();
        // `read(3<pipe:[7]>,  <unfinished ...>`, and later `<... read resumed>"x", 9) = 1`.
        if let Some((begin, _)) = rest.split_once(" <unfinished ...>") {
            open.insert(pid, begin);
            continue;
        }
        let begin = if rest.starts_with("<... ") { open.remove(pid).expect(line) } else { rest };
        let Some((_, result)) = rest.rsplit_once(" = ") else { continue };
        let result = match result.split(' ').next() {
            // A signal ends the call, and it begins again: one more.
            Some("?") if result.contains("ERESTART") => -1,
            // A signal has ended the process.
            Some("?") => continue,
            number => number.and_then(|number| number.parse::<i64>().ok()).expect(line),
        };
        let Some((name, arguments)) = begin.split_once('(') else { continue };
        let peeks = rest.contains("MSG_PEEK");
        let is_channel = |argument: &str| {
            ["<UNIX", "<TCP", "<socket:", "<pipe:", "</dev/pts/", "</dev/ptmx", "</dev/pts/ptmx"]
                .iter()
                .any(|kind| argument.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(kind))
        };
        let mut add = |writes| {
            let sum = sums.entry((name.to_owned(), writes)).or_default();
            sum[0] += 1;
            sum[1] += if peeks { 0 } else { u64::try_from(result).unwrap_or(0) };
        };
        let all: Vec<&str> = arguments.split(", ").collect();
        let writes = ["write", "sendto", "sendmsg"].contains(&name);
        let (from, to) = match name {
            "splice" => (all.first(), all.get(2)),
            "sendfile" | "sendfile64" => (all.get(1), all.first()),
            _ if writes => (None, all.first()),
            _ => (all.first(), None),
        };
        from.into_iter().filter(|argument| is_channel(argument)).for_each(|_| add(false));
        to.into_iter().filter(|argument| is_channel(argument)).for_each(|_| add(true));
    }
    sums
}

/// What was recorded of them, without strace itself.
fn of_recording(recorded: &Recorded) -> Sums {
    let mut sums = Sums::new();
    let is_own = |process: usize| recorded.recording.recorded[process].name.starts_with("python");
    for channel in &recorded.recording.channels {
        for (ends, writes) in [(&channel.writers, true), (&channel.readers, false)] {
            for end in ends.iter().filter(|end| is_own(end.process)) {
                // Each of these programs makes one kind of call at one end, but for looks ahead.
                let mut calls = end.calls.iter();
                let (name, count) = calls.next().unwrap();
                assert!(calls.next().is_none(), "{end:?}");
                let sum = sums.entry((name.clone(), writes)).or_default();
                sum[0] += count;
                sum[1] += end.bytes;
            }
        }
    }
    sums
}

#[test]
#[ignore = "needs root, python3 and strace: make test"]
fn bytes_and_calls_at_sockets_and_terminals_are_those_that_strace_sees() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let python = super::python();
    for (what, kind, program) in PROGRAMS {
        let program = format!("{PRELUDE}{program}");
        let traced = ["-f", "-yy", "-o", log.to_str().unwrap(), "-e"];
        let calls = "trace=read,write,recvfrom,sendto,recvmsg,sendmsg,splice,sendfile";
        let recorded = record(&[&["strace"], &traced[..], &[calls, &python, "-c", &program]].concat());
        let strace = of_strace(&std::fs::read_to_string(&log).unwrap());
        if recorded.recording.skipped == 0 {
            assert_eq!(of_recording(&recorded), strace, "{what}: {:#?}", recorded.recording.channels);
        }
        let used: Vec<&RecordedChannel> =
            recorded.recording.channels.iter().filter(|channel| channel.kind == kind && channel.bytes() > 0).collect();
        assert!(!used.is_empty(), "{what}: {:#?}", recorded.recording.channels);
        for channel in used {
            assert!(!channel.writers.is_empty() && !channel.readers.is_empty(), "{what}: {channel:#?}");
        }
    }
}

#[test]
#[ignore = "needs root and python3: make test"]
fn terminals_of_two_mounts_with_one_number_are_two() {
    let program = format!(
        "{PRELUDE}
import sys, tty
bytes = int(sys.argv[1])
master, slave = pty.openpty()
tty.setraw(slave)
def one():
    left = bytes
    while left: left -= len(os.read(master, left))
both(one, lambda: os.write(slave, b'x' * bytes))"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program");
    std::fs::write(&file, program).unwrap();
    // As a container has it.
    let line = |bytes: u32| {
        format!(
            "unshare -m sh -c 'mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts && \
             mount --bind /dev/pts/ptmx /dev/ptmx && exec {} {} {bytes}'",
            super::python(),
            file.display()
        )
    };
    let recorded = record(&["sh", "-c", &format!("{} & {} & wait", line(1000), line(2000))]);
    let terminals = recorded.recording.channels.iter().filter(|channel| channel.kind == ChannelKind::Pty);
    let mut bytes: Vec<u64> = terminals.map(RecordedChannel::bytes).filter(|bytes| *bytes > 0).collect();
    bytes.sort_unstable();
    assert_eq!(bytes, [1000, 2000], "{:#?}", recorded.recording.channels);
}

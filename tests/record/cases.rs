//! What people ask about programs that hang, both ways: started by pipeprof, and recorded while they run. The first two
//! sentences have to name the cause.

use crate::common::{pipeprof, wait_until, without_capabilities};
use pipeprof::result::Document;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program, in Python, and what the first two sentences must and must not have.
struct Case {
    name: &'static str,
    script: &'static str,
    must: &'static [&'static str],
    not: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "a child whose standard error is not read",
        script: "import subprocess as s, sys\n\
                 child = [sys.executable, '-c', 'import sys; sys.stderr.write(\"x\" * 100000); print(1)']\n\
                 s.Popen(child, stdout=s.PIPE, stderr=s.PIPE).stdout.read()",
        must: &["wait for each other", "standard error is full", "(16 of 16 slots)", "standard output of"],
        not: &["outside", "timer"],
    },
    Case {
        name: "the same, in select",
        script: "import select, subprocess as s, sys\n\
                 child = [sys.executable, '-c', 'import sys; sys.stderr.write(\"x\" * 100000); print(1)']\n\
                 pipes = s.Popen(child, stdout=s.PIPE, stderr=s.PIPE)\n\
                 select.select([pipes.stdout], [], [])",
        must: &["wait for each other", "standard error is full", "in poll"],
        not: &["a timer or another event"],
    },
    Case {
        name: "a background job that inherited the pipe",
        script: "import subprocess as s\ns.Popen(['sh', '-c', 'sleep 1000 & echo'], stdout=s.PIPE).stdout.read()",
        must: &["only `sleep` (process ", "its write end open"],
        not: &["outside"],
    },
    Case {
        name: "a child of a child that was killed",
        script: "import subprocess as s\n\
                 shell = s.Popen(['sh', '-c', 'sleep 1000 & echo; wait'], stdout=s.PIPE)\n\
                 shell.stdout.readline(); shell.kill(); shell.wait(); shell.stdout.read()",
        must: &["`sleep` (process ", "its write end open"],
        not: &["outside"],
    },
    Case {
        name: "a child that waits for the end of a pipe of its parent",
        script: "import os, select\n\
                 r, w = os.pipe()\n\
                 select.select([r], [], []) if os.fork() == 0 else os.wait()",
        must: &["wait for each other", "in poll", "has ended"],
        not: &["No pipe was used"],
    },
    Case {
        name: "a circle beside a thread that only looks again",
        script: "import subprocess as s, threading, time\n\
                 def look():\n  while True: time.sleep(0.05)\n\
                 threading.Thread(target=look, daemon=True).start()\n\
                 s.Popen(['cat'], stdin=s.PIPE, stdout=s.PIPE).stdin.write(b'x' * 1000000)",
        must: &["wait for each other", "`cat`", "is full"],
        not: &["a timer or another event"],
    },
    Case {
        name: "a FIFO whose reader has its write end itself",
        script: "import os\nos.mkfifo('f')\nos.read(os.open('f', os.O_RDWR), 1)",
        must: &["waits for data from the FIFO", "itself"],
        not: &["outside"],
    },
    Case {
        name: "a FIFO that nobody reads",
        script: "import os\nos.mkfifo('f')\nopen('f', 'w')",
        must: &["waits until another process opens the FIFO `f` for reading"],
        not: &["No pipe was used"],
    },
    Case {
        name: "a FIFO that a child was to open, which failed",
        script: "import os, subprocess as s\nos.mkfifo('f')\nchild = s.Popen(['sh', '-c', 'exit 3'])\nopen('f')",
        must: &["opens the FIFO", "its child `sh`, which ", "ended", "will not"],
        not: &["No pipe was used"],
    },
    Case {
        name: "children that ended at once, for one signal",
        script: "import os, signal, time\n\
                 r, w = os.pipe()\n\
                 signal.signal(signal.SIGCHLD, lambda *_: os.write(w, b'c'))\n\
                 signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])\n\
                 children = [os.fork() or os._exit(0) for i in range(3)]\n\
                 state = lambda pid: open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[0]\n\
                 while any(state(pid) != 'Z' for pid in children): time.sleep(0.01)\n\
                 signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])\n\
                 os.read(r, 1)\nos.waitpid(-1, 0)\nos.read(r, 1)",
        must: &["children of its own that have ended", "`waitpid`"],
        not: &["outside"],
    },
    Case {
        name: "a child that has stopped itself",
        script: "import subprocess as s\n\
                 s.Popen(['sh', '-c', 'kill -STOP $$'], stdout=s.PIPE).stdout.read()",
        must: &["`sh` stopped"],
        not: &["outside"],
    },
    Case {
        name: "a chain behind a reader that sleeps",
        script: "import os\nos.system('head -c 20M /dev/zero | cat | (sleep 1000; wc -c)')",
        must: &["`sleep` sleeping on a timer", "`cat` waits ", "is full"],
        not: &["`head` waits"],
    },
    Case {
        name: "two that wait for data from each other by a pair of sockets",
        script: "import os, socket\n\
                 one, other = socket.socketpair()\n\
                 own = other if os.fork() == 0 else one\n\
                 (one if own is other else other).close()\n\
                 own.recv(1)",
        must: &["wait for each other", "socket"],
        not: &["network"],
    },
    Case {
        name: "the same by TCP",
        script: "import os, socket\n\
                 server = socket.create_server(('127.0.0.1', 0))\n\
                 if os.fork() == 0:\n  own = socket.create_connection(server.getsockname()); server.close()\n\
                 else:\n  own, _ = server.accept(); server.close()\n\
                 own.recv(1)",
        must: &["wait for each other", "TCP connection"],
        not: &["the network"],
    },
    Case {
        name: "a lock of a file that another process keeps",
        script: "import fcntl, os, time\n\
                 own = open('f', 'w')\n\
                 fcntl.flock(own, fcntl.LOCK_EX)\n\
                 if os.fork() == 0:\n  fcntl.flock(open('f'), fcntl.LOCK_EX)\n\
                 else:\n  time.sleep(1000)",
        must: &["for the lock of `", "which `python3"],
        not: &["No pipe was used"],
    },
    Case {
        name: "both sides of a terminal write",
        script: "import os, pty, tty\n\
                 pid, master = pty.fork()\n\
                 if pid == 0:\n  tty.setraw(0); os.write(1, b'x' * 1000000)\n\
                 else:\n  os.read(master, 1); os.write(master, b'y' * 1000000)",
        must: &["wait for each other", "terminal"],
        not: &["device", "No pipe was used"],
    },
];

/// The processes of a group, with the states of their threads.
fn states(group: u32) -> Vec<char> {
    let tasks = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // SAFETY: asks for a number.
        let of = unsafe { libc::getsid(pid.cast_signed()) };
        let started = is_descendant(pid, group) || of.cast_unsigned() == group;
        started.then(|| std::fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten()
    });
    let state = |path: &Path| {
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    };
    tasks.flat_map(|tasks| tasks.flatten().filter_map(|task| state(&task.path())).collect::<Vec<_>>()).collect()
}

fn is_descendant(pid: u32, of: u32) -> bool {
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    std::iter::successors(Some(pid), |pid| parent(*pid).filter(|parent| *parent > 1)).any(|pid| pid == of)
}

/// Wait until nothing of a session has run for five looks.
fn stands(session: u32) -> bool {
    let mut quiet = 0;
    wait_until(Duration::from_secs(120), || {
        let states = states(session);
        // A program that has just been started is one process.
        let sleeps = states.iter().all(|state| matches!(state, 'S' | 'T' | 'Z'));
        quiet = if sleeps && !states.is_empty() { quiet + 1 } else { 0 };
        quiet >= 25
    })
}

/// Ends all that a session has started.
struct Session(std::process::Child);

impl Drop for Session {
    fn drop(&mut self) {
        let own = self.0.id();
        let pids = || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| {
                // SAFETY: asks for a number.
                unsafe { libc::getsid(pid.cast_signed()) }.cast_unsigned() == own || is_descendant(*pid, own)
            })
        };
        for pid in pids().collect::<Vec<u32>>() {
            // SAFETY: sends a signal to a process of this test.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        }
        let _ = self.0.wait();
    }
}

/// Start `command` in a session of its own, which has none of this test's files.
fn started(command: &mut Command, folder: &Path) -> Session {
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(folder.join("stderr")).unwrap());
    // SAFETY: setsid is safe between fork and exec.
    let command = unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
    Session(command.spawn().unwrap())
}

/// `rights`: with those of the test, or without any capability.
fn recorded(folder: &Path, name: &str, flags: &[&str], words: &[&str], rights: bool) -> Document {
    let target = folder.join(name);
    let mut command = pipeprof(&["record", "-o", target.to_str().unwrap()]);
    command.args(flags).args(words);
    if !rights {
        without_capabilities(&mut command);
    }
    let mut session = started(&mut command, folder);
    session.0.wait().unwrap();
    let text = std::fs::read_to_string(target.join("result.json"));
    let text = text.unwrap_or_else(|error| panic!("{error}: {:?}", std::fs::read_to_string(folder.join("stderr"))));
    serde_json::from_str(&text).unwrap()
}

/// What is wrong with the first two sentences.
fn wrong(case: &Case, way: &str, recording: &Document) -> Option<String> {
    // On a busy machine, the start of the program is a phase of its own.
    let said: Vec<&str> = recording.sentences().into_iter().filter(|text| !text.starts_with("Over time")).collect();
    let first = said[..said.len().min(2)].join(" ");
    // The fill of a pipe is not known without its calls.
    let known = |words: &&&str| recording.looks.is_none() || !words.contains("slots");
    let missing: Vec<&&str> = case.must.iter().filter(known).filter(|words| !first.contains(**words)).collect();
    let false_words: Vec<&&str> = case.not.iter().filter(|words| first.contains(**words)).collect();
    (!missing.is_empty() || !false_words.is_empty())
        .then(|| format!("{}, {way}: without {missing:?}, with {false_words:?}:\n{}", case.name, said.join("\n")))
}

fn check(case: &Case) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let begun = Instant::now();
    let mut program = Command::new(super::python());
    program.args(["-c", case.script]);
    // Otherwise who has none cannot see what it does.
    without_capabilities(&mut program);
    let session = started(&mut program, path);
    assert!(stands(session.0.id()), "{}: it does not hang", case.name);
    let needed = begun.elapsed();
    let pid = session.0.id().to_string();
    let attached = ["-p", &pid, "--duration", "500ms"];
    let running = recorded(path, "running", &attached, &[], true);
    let looked_at = recorded(path, "looked-at", &attached, &[], false);
    drop(session);
    let _ = std::fs::remove_file(path.join("f"));
    // Most of the time it hangs, however busy the machine is.
    let duration = format!("{}ms", 1000 + 3 * needed.as_millis());
    let words = ["--", &super::python(), "-c", case.script];
    let started = recorded(path, "started", &["--duration", &duration], &words, true);
    let _ = std::fs::remove_file(path.join("f"));
    let seen = recorded(path, "seen", &["--duration", &duration], &words, false);
    let ways =
        [("running", &running), ("started", &started), ("running, by looks", &looked_at), ("started, by looks", &seen)];
    assert!([&looked_at, &seen].iter().all(|recording| recording.looks.is_some()), "they had the rights");
    ways.into_iter().filter_map(|(way, recording)| wrong(case, way, recording)).collect()
}

#[test]
#[ignore = "needs root and python3: make test"]
fn the_first_sentences_name_why_a_program_hangs() {
    // Few at a time: each has processes of its own to start.
    let found: Vec<String> = CASES
        .chunks(4)
        .flat_map(|cases| {
            std::thread::scope(|scope| {
                let each: Vec<_> = cases.iter().map(|case| scope.spawn(|| check(case))).collect();
                each.into_iter().flat_map(|check| check.join().unwrap()).collect::<Vec<_>>()
            })
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

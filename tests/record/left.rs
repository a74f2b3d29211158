//! What processes leave behind: locks, sockets, semaphores, buffers and ends that others wait for.

use super::findings::said;
use super::{python, record_for};
use pipeprof::result::FindingKind;

/// The first sentence of a recording that is ended.
fn first_said(words: &[&str]) -> String {
    let recorded = record_for("2s", words);
    recorded.recording.findings.first().unwrap_or_else(|| panic!("nothing: {}", recorded.stderr())).text.clone()
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn locks_and_sockets_that_were_left_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let lock = path("a.lock");
    let locks = "bash -c 'mkdir \"$0\"; touch \"$0/made\"; while :; do sleep 0.05; done' $0 & \
                 until [ -e $0/made ]; do sleep 0.02; done; kill -9 $!; wait; for i in 1 2 3; do mkdir $0 2>/dev/null; done; true";
    said(
        &["bash", "-c", locks, &lock],
        FindingKind::LeftLock,
        "(3 times), a folder that `mkdir` finds there (EEXIST): `bash",
    );
    let socket = path("a.sock");
    let binds = format!("import socket\ns = socket.socket(socket.AF_UNIX); s.bind('{socket}'); s.listen()");
    let twice = format!("{0} -c \"$0\"; {0} -c \"$0\" 2>/dev/null", python());
    said(&["bash", "-c", &twice, &binds], FindingKind::LeftLock, " could not bind a socket (EADDRINUSE) to `");
    // Who has it has ended when the recording does.
    let file = path("file");
    let flock = format!(
        "import fcntl, os, sys, time\nf = open('{file}', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('has it', flush=True); time.sleep(1)"
    );
    let tries = format!("import fcntl\nfcntl.lockf(open('{file}', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)");
    let both = format!("exec 3< <({0} -c \"$0\"); read -u 3 a; {0} -c \"$1\" 2>/dev/null; wait $!; true", python());
    said(&["bash", "-c", &both, &flock, &tries], FindingKind::FileLock, ") had it.");
}

#[test]
#[ignore = "needs root, python3 and cc: make test"]
fn who_waits_for_what_was_left_is_said() {
    let python = python();
    // A worker that joins its queue's thread waits for a lock that another one has, whose pipe nobody reads.
    let queue = "import multiprocessing as m\nm.set_start_method('fork')\n\
                 def work(q): q.put(b'x' * 1000000)\n\
                 q = m.Queue(); ps = [m.Process(target=work, args=(q,)) for i in range(3)]\n\
                 for p in ps: p.start()\nfor p in ps: p.join()";
    let text = first_said(&[&python, "-c", queue]);
    assert!(text.contains(" wait for each other: ") && text.ends_with("Nothing can go on."), "{text}");
    let follows = "tail -f /etc/passwd | tail -n 1";
    let text = first_said(&["bash", "-c", follows]);
    assert!(text.contains(" prints at the end of its input only, which does not come: `tail -f"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (source, program) = (path("prints.c"), path("prints"));
    std::fs::write(
        &source,
        "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"a\"); for (;;) sleep(9); }\n",
    )
    .unwrap();
    let compiled = std::process::Command::new("cc").args(["-o", &program, &source]).status().unwrap();
    assert!(compiled.success());
    let text = first_said(&["bash", "-c", &format!("{program} | cat")]);
    assert!(text.starts_with("`prints` wrote nothing to the pipe to `cat`, but asked what that is"), "{text}");
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn output_that_gets_lost_on_its_way_is_said() {
    let python = python();
    let unread = "import subprocess\nfor i in range(3):\n\
                  \u{20}   p = subprocess.Popen(['sh', '-c', 'echo a; echo b >&2'], stdout=-1, stderr=-1); p.stderr.read(); p.wait()";
    said(&[&python, "-c", unread], FindingKind::NeverRead, ", which never read them: that is lost. `");
    let cut = "import os, socket, time\na, b = socket.socketpair()\n\
               if os.fork() == 0:\n    a.close(); b.sendall(b'x' * 10000); time.sleep(0.1); os._exit(0)\n\
               b.close(); time.sleep(0.05); a.recv(4096)";
    said(&[&python, "-c", cut], FindingKind::NeverRead, " by 1 read that filled its buffer, and read no more");
    let killed = "import time\nfor i in range(100000): print('x' * 100); time.sleep(0.005)";
    let kills = format!("{python} -c \"$0\" > >(cat >/dev/null) & p=$!; sleep 1.2; kill -9 $p; wait; sleep 0.1");
    said(
        &["bash", "-c", &kills, killed],
        FindingKind::Unsent,
        ": what it printed in between was in its buffer, and is lost.",
    );
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("a.log").to_str().unwrap().to_owned();
    let rotated = "(for i in $(seq 12); do echo $i; sleep 0.1; done) >>$0 & sleep 0.35; mv $0 $0.1; echo new >$0; wait";
    said(
        &["bash", "-c", rotated, &log],
        FindingKind::Renamed,
        " gave that name to another file: what it wrote since then",
    );
}

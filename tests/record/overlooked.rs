//! What scripts and programs overlook: failures in the background, ends of children, files that others empty.

use super::findings::said;
use super::{python, record_for};
use pipeprof::result::FindingKind;

#[test]
#[ignore = "needs root, bash and make: make test"]
fn failures_that_a_script_passes_over_are_said() {
    let bash = |line: &str, kind: FindingKind, text: &str| said(&["bash", "-c", line], kind, text);
    let jobs = "bash -c 'sleep 0.1; exit 1' & sleep 0.3 & wait; true";
    bash(jobs, FindingKind::HiddenFailure, " in the background of `bash");
    let folder = tempfile::tempdir().unwrap();
    let makefile = folder.path().join("Makefile");
    std::fs::write(&makefile, "all:\n\t@if true; then bash -c 'exit 9'; bash -c true; fi\n").unwrap();
    let text = "` failed with exit code 9 at ";
    said(&["make", "-f", makefile.to_str().unwrap()], FindingKind::HiddenFailure, text);
    let broken = "all:\n\t@yes | (sleep 0.2; true)\nSHELL = /bin/bash -o pipefail\n";
    std::fs::write(&makefile, broken).unwrap();
    let text = "ended with exit code 141";
    said(&["make", "-f", makefile.to_str().unwrap()], FindingKind::ExitCode, text);
    let ended = "set -e; sleep 9 & trap 'kill $!; wait $!' EXIT; sleep 0.2";
    bash(ended, FindingKind::ExitCode, " itself, which no signal ended: `wait` had it from `sleep`");
    let stale = "sleep 9 & python3 -c 'import os, sys; os.kill(int(sys.argv[1]), 0); sys.exit(1)' $!; kill $!";
    bash(stale, FindingKind::LeftLock, "ended with exit code 1: that is `sleep`, not `python3`");
    let nothing = "set -e; n=$(printf 'a\\n' | grep -c b); echo $n";
    bash(nothing, FindingKind::ExitCode, ", which found nothing and ended at ");
    // It handles the signal, and goes on.
    let trap = "bash -c 'trap \"true\" TERM; : >'$0'; for i in $(seq 40); do sleep 0.1; done' & \
                until [ -e $0 ]; do sleep 0.05; done; kill $!; sleep 1; kill -9 $!; wait";
    let file = folder.path().join("ready");
    said(
        &["bash", "-c", trap, file.to_str().unwrap()],
        FindingKind::Held,
        " processes since, and was ended by SIGKILL at ",
    );
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn ends_of_children_that_are_looked_for_wrongly_are_said() {
    let python = python();
    let asks = "import os, sys\npid = os.fork()\nif pid == 0: os.execvp('sleep', ['sleep', '1'])\n\
                while os.waitpid(pid, os.WNOHANG) == (0, 0): pass\n\
                try: os.waitpid(pid, os.WNOHANG)\nexcept ChildProcessError: pass";
    said(&[&python, "-c", asks], FindingKind::ChildAsks, " times whether a child had ended, without waiting between");
    let naps = "import subprocess, time\nfor i in range(3):\n    p = subprocess.Popen(['sleep', '0.05'])\n\
                \u{20}   while p.poll() is None: time.sleep(0.5)";
    said(&[&python, "-c", naps], FindingKind::Naps, " after each look whether its child has ended (");
    let one = "import os\nr, w = os.pipe()\ne, f = os.pipe()\n\
               if os.fork() == 0:\n    os.dup2(w, 1); os.dup2(f, 2)\n    for fd in (r, w, e, f): os.close(fd)\n\
               \u{20}   os.execvp('sh', ['sh', '-c', 'echo a; echo b >&2; exec 2>&-; sleep 0.3; seq 100000'])\n\
               os.close(w); os.close(f)\nos.read(r, 2)\nwhile os.read(e, 100): pass";
    let parent = format!("{python} -c \"$0\"; sleep 0.6");
    said(&["bash", "-c", &parent, one], FindingKind::Cut, ", when it had got the end of one of the two pipes from `");
    let shared = "import multiprocessing as m, os\ns = m.Semaphore(0)\n\
                  def fail(): os._exit(3)\n\
                  p = m.get_context('fork').Process(target=fail); p.start(); s.acquire()";
    let recorded = record_for("2s", &[&python, "-c", shared]);
    let text = &recorded.recording.findings[0].text;
    assert!(
        text.contains(" waits for a lock or semaphore that it shares with ") && text.contains(" with exit code 3 at "),
        "{text}"
    );
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn files_that_others_take_away_are_said() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let log = path("app.log");
    let writes = format!(
        "import time\nf = open('{log}', 'w', 1)\nfor i in range(20):\n    f.write('a line\\n'); time.sleep(0.05)"
    );
    let rotated = format!("{python} -c \"$0\" & sleep 0.5; truncate -s 0 {log}; wait");
    said(&["bash", "-c", &rotated, &writes], FindingKind::Hole, " wrote on at its old position: the file begins with ");
    let temporary = path("temporary");
    let flip = format!(
        "import os, sys, time\nf = open('{temporary}', 'wb', 0)\nfor i in range(20):\n    f.write(b'x' * 1000); time.sleep(0.02)\n\
         try: os.rename('{temporary}', '{temporary}.' + sys.argv[1])\nexcept FileNotFoundError: pass"
    );
    let both = format!("for i in 1 2 3; do {python} -c \"$0\" $i & done; wait");
    said(
        &["bash", "-c", &both, &flip],
        FindingKind::Overwritten,
        "it is a temporary file, of which each process needs one",
    );
    // The server takes what one client sends, and closes the other one's connection.
    let server = "import os, socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); address = s.getsockname(); s.close()\n\
                  s = socket.socket(); s.bind(address); s.listen(8)\n\
                  if os.fork() == 0:\n    for i in range(2):\n        c = socket.create_connection(s.getsockname())\n\
                  \u{20}       c.sendall(b'message'); c.close()\n    os._exit(0)\n\
                  os.wait()\na, _ = s.accept(); a.recv(10); b, _ = s.accept(); b.close()";
    said(
        &[&python, "-c", server],
        FindingKind::NeverRead,
        " read nothing of what came by 1 of 2 connections (7 bytes)",
    );
    let stalls = "import os, select, socket, time\na, b = socket.socketpair()\n\
                  if os.fork() == 0:\n    a.close(); time.sleep(0.3)\n    while b.recv(1 << 16): pass\n    os._exit(0)\n\
                  b.close(); a.setblocking(False)\n\
                  try:\n    while True: a.send(b'x' * 4096)\nexcept BlockingIOError: pass\n\
                  p = select.epoll(); p.register(a, select.EPOLLIN); p.poll()";
    let recorded = record_for("3s", &[&python, "-c", stalls]);
    let is_said =
        recorded.recording.findings.iter().any(|found| found.text.contains("since then it polls only for input"));
    assert!(is_said, "{}", recorded.stderr());
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn what_is_closed_cut_or_ignored_without_a_word_is_said() {
    let python = python();
    // In a namespace of its own, where it is process 1, also of the signals of who made that.
    let first = "unshare --fork --pid bash -c 'bash -c \"sleep 30; true\"; true' & sleep 1; \
                 kill $(pgrep -P $!); sleep 0.5; kill -9 $(pgrep -P $!); wait";
    said(&["bash", "-c", first], FindingKind::Held, " It is process 1 of its PID namespace, as in a container");
    let cut = "import socket\na = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0))\n\
               b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
               for i in range(20): b.sendto(b'x' * (100 if i % 2 else 5000), a.getsockname()); a.recv(2048)";
    let text = "10 of the 20 datagrams that `python3` received filled its buffer of 2,048 bytes: ";
    said(&[&python, "-c", cut], FindingKind::Datagrams, text);
    let reset = "import os, socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(8)\n\
                 if os.fork() == 0:\n    c = socket.create_connection(s.getsockname())\n\
                 \u{20}   try:\n        while True: c.sendall(b'x' * 65536)\n    except OSError: os._exit(0)\n\
                 a, _ = s.accept(); a.recv(512); a.sendall(b'no'); a.close(); os.wait()";
    said(&[&python, "-c", reset], FindingKind::NeverRead, " before it had read all that ");
    let looks = "import os, time\nfor i in range(200): os.read(0, 100); time.sleep(0.002)";
    let text = " got the end of file: nobody has its write end open.";
    said(&["bash", "-c", &format!("echo 1 | {python} -c \"$0\""), looks], FindingKind::AtEnd, text);
    let folder = tempfile::tempdir().unwrap();
    let walk = "import os, sys\nos.chdir(sys.argv[1]); os.mkfifo('f')\nd = os.open('.', os.O_RDONLY)\nos.chdir('/usr'); \
                os.open('f', os.O_RDONLY, dir_fd=d)";
    let recorded = record_for("2s", &[&python, "-c", walk, folder.path().to_str().unwrap()]);
    let text = &recorded.recording.findings[0].text;
    assert!(text.contains(&format!("the FIFO `{}/f` for writing. ", folder.path().display())), "{text}");
    let paused = "import os, select, subprocess\n\
                  p = subprocess.Popen(['seq', '100000'], stdout=subprocess.PIPE)\n\
                  e = select.epoll(); e.register(p.stdout, select.EPOLLIN); e.poll(); os.read(p.stdout.fileno(), 65536)\n\
                  e.unregister(p.stdout); p.wait()";
    let recorded = record_for("2s", &[&python, "-c", paused]);
    assert!(
        recorded
            .recording
            .findings
            .iter()
            .any(|found| found.text.contains("took that out of its epoll set (EPOLL_CTL_DEL)")),
        "{}",
        recorded.stderr()
    );
}

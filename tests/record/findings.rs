//! What is not time, of pipelines that are made to do it.

use super::{Recorded, record};
use pipeprof::result::FindingKind;

/// The sentence of this kind.
fn of(recorded: &Recorded, kind: FindingKind) -> &str {
    let found = recorded.recording.findings.iter().find(|finding| finding.kind == kind);
    found.map_or_else(|| panic!("no {kind:?}: {}", recorded.stderr()), |finding| &finding.text)
}

pub(crate) fn said(words: &[&str], kind: FindingKind, text: &str) {
    let recorded = record(words);
    let found = of(&recorded, kind);
    assert!(found.contains(text), "{found}");
}

#[test]
#[ignore = "needs root and python3: make test"]
fn calls_for_nothing_are_said() {
    // It writes until the reader has ended, and then 5,000 times more: a tenth at least, also if the pipe was full before.
    let ignores =
        "trap '' PIPE; (while echo a; do :; done; for i in $(seq 5000); do echo b; done) 2>/dev/null | head -n 1";
    let recorded = record(&[ignores]);
    let first = &recorded.recording.findings[0];
    assert_eq!(first.kind, FindingKind::Broken, "{}", recorded.stderr());
    assert!(first.text.contains("after `head` had ended at ") && first.count >= Some(1000), "{first:?}");
    let at_end = "import os\nr, w = os.pipe()\nos.close(w)\nfor i in range(2000): os.read(r, 1)";
    said(&[&super::python(), "-c", at_end], FindingKind::AtEnd, "2,000 of 2,000 reads of `python3");
    let polls = "import os, select\nr, w = os.pipe()\nos.write(w, b'x')\np = select.poll()\np.register(r, select.POLLIN)\n\
                 for i in range(20000): p.poll()";
    said(&[&super::python(), "-c", polls], FindingKind::Polls, " polled 20,0");
    let select = polls.replace("p.poll()", "select.select([r], [], [])");
    said(&[&super::python(), "-c", &select], FindingKind::Polls, " polled 20,0");
}

#[test]
#[ignore = "needs root and python3: make test"]
fn data_that_is_torn_cut_taken_or_short_is_said() {
    // Two children sleep in the middle of their blocks before the parent reads.
    let torn = "import os, time\n\
                r, w = os.pipe()\n\
                def child():\n    for i in range(20): os.write(w, b'x' * 8192)\n    os._exit(0)\n\
                pids = [pid for pid in (os.fork() or child() for i in range(2))]\n\
                os.close(w)\n\
                state = lambda pid: open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[0]\n\
                while any(state(pid) != 'S' for pid in pids): time.sleep(0.01)\n\
                time.sleep(0.3)\n\
                while os.read(r, 4096): time.sleep(0.005)\n\
                for pid in pids: os.waitpid(pid, 0)";
    let recorded = record(&[&super::python(), "-c", torn]);
    let text = of(&recorded, FindingKind::Torn);
    assert!(text.starts_with("2 processes (`python3") && text.contains("8,192 bytes per call"), "{text}");
    let cut = "import os; os.set_blocking(1, False); os.write(1, b'x' * 200000)";
    said(
        &[&super::python(), "-c", cut, "|", "sh", "-c", "sleep 0.3; wc -c"],
        FindingKind::Unsent,
        "with at least 134,464 bytes unsent",
    );
    let taken = "printf '%s\\n' 1 2 3 | while read -r n; do cat >/dev/null; done";
    said(&[taken], FindingKind::Taken, "`cat` took 4 of 6 bytes");
    let short =
        "(printf 1234; while printf 1234 2>/dev/null; do sleep 0.1; done) | dd bs=4k count=1 2>/dev/null | wc -c";
    said(&[short], FindingKind::ShortBlock, " of 4,096 bytes with 1 read: `count=1` counts reads, not blocks.");
}

#[test]
#[ignore = "needs root and 5 s: make test"]
fn late_output_many_processes_and_exit_codes_are_said() {
    let late = "(for i in $(seq 12); do echo $i; sleep 0.2; done) | grep -v x | cat";
    said(&[late], FindingKind::Late, "it buffers its output. `grep --line-buffered` writes at once.");
    let flushed = record(&["(for i in $(seq 6); do echo $i; sleep 0.3; done) | grep --line-buffered -v x | cat"]);
    assert!(flushed.recording.findings.iter().all(|finding| finding.kind != FindingKind::Late), "{}", flushed.stderr());
    said(&["for i in $(seq 300); do /bin/true; done"], FindingKind::Started, "300 of them `true`");
    let broken = record(&["bash", "-c", "set -o pipefail; yes | head -n 1"]);
    let text = of(&broken, FindingKind::Sigpipe);
    assert!(text.starts_with("Exit code 141: `yes` was ended by SIGPIPE at ") && text.contains("`head`"), "{text}");
    let failed = record(&["sh -c 'ls /no/such/file 2>/dev/null; exit $?'"]);
    let text = of(&failed, FindingKind::ExitCode);
    assert!(text.starts_with("Exit code 2 is that of `ls`, which ended at ") && text.contains("; `sh"), "{text}");
}

#[test]
#[ignore = "needs root and python3: make test"]
fn what_goes_wrong_with_the_names_of_files_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("list"), "1\n").unwrap();
    // No process has this id: it is the largest, and none of this machine's limits is as high.
    std::fs::write(at("old.pid"), "4194303\n").unwrap();
    let list = at("list");
    // FIFOs keep the order; each side lives until both are done.
    let fifos = format!("rm -f {0} {1}; mkfifo {0} {1}", at("a"), at("b"));
    let [first, second] = [at("a"), at("b")];
    let update = format!(
        "{fifos}; (read a <{list}; echo >{first}; read x <{second}; echo 1 >{list}) & read x <{first}; \
         sh -c 'read b <{list}; echo 2 >{list}; true'; echo >{second}; wait"
    );
    said(&[&update], FindingKind::Overwritten, "when that was not in it yet. A lock");
    let twice = format!(
        "{fifos}; (mkdir {0}; echo >{first}; read x <{second}) & read x <{first}; mkdir {0}; r=$?; echo >{second}; wait; exit $r",
        at("d")
    );
    said(&[&twice], FindingKind::Raced, "/d` at ");
    let early = format!(
        "{fifos}; (read x <{first}; touch {0}; echo >{second}) & cat {0} 2>/dev/null; r=$?; echo >{first}; read x <{second}; wait; exit $r",
        at("late")
    );
    said(&[&early], FindingKind::Raced, "`cat` ended with exit code 1 after it did not find `");
    let deleted = format!("exec 3>>{0}; echo a >&3; rm {0}; echo b >&3", at("log"));
    said(&[&deleted], FindingKind::Deleted, "goes on writing to `log`, which `rm` removed at ");
    let left = format!("[ -e {} ] && exit 1", at("old.pid"));
    said(&[&left], FindingKind::LeftLock, "That file has the id 4194303, and no process has this id");
    let socket = "import socket, subprocess, sys\n\
                  own = socket.socket(socket.AF_UNIX)\n\
                  own.bind(sys.argv[1])\n\
                  client = 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])'\n\
                  subprocess.run([sys.executable, '-c', client, sys.argv[1]], stderr=subprocess.DEVNULL)\n\
                  own.listen()";
    said(&[&super::python(), "-c", socket, &at("socket")], FindingKind::Raced, " listened there ");
    let temporary = "f=$(mktemp); exec 3>$f; rm $f; seq 9 >&3; mkdir -p /tmp; cat </dev/null >/dev/null";
    let fine = record(&[temporary]);
    assert!(fine.recording.findings.iter().all(|finding| !finding.kind.is_fault()), "{}", fine.stderr());
}

#[test]
#[ignore = "needs root and python3: make test"]
fn data_that_is_lost_without_a_word_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f").to_str().unwrap().to_owned();
    std::fs::write(&file, "1\n").unwrap();
    // Each time the file is empty, or the pipe is full, before what matters happens: that is no question of who is faster.
    let tee = format!("(while [ -s {file} ]; do sleep 0.01; done; sort {file}) | tee {file} | wc -l");
    said(&[&tee], FindingKind::OwnInput, "`sort` reads `f`, which `tee` empties at ");
    std::fs::write(&file, "1\n").unwrap();
    let shell = format!("(while [ -s {file} ]; do sleep 0.01; done; cat {file}) | sed s/1/2/ >{file}");
    said(&[&shell], FindingKind::OwnInput, "`cat` reads `f`, which `sed` empties at ");
    said(
        &[&format!("sort {file} >{file}")],
        FindingKind::OwnInput,
        "`sort` reads `f`, which the shell has emptied before ",
    );
    let typed = "import os, pty, sys, time\n\
                 pid, master = pty.fork()\n\
                 if pid == 0: print(len(sys.stdin.readline())); sys.exit()\n\
                 time.sleep(0.5)\n\
                 os.write(master, b'x' * 6000 + b'\\n')\n\
                 while True:\n    try: os.read(master, 65536)\n    except OSError: break\n\
                 os.waitpid(pid, 0)";
    said(&[&super::python(), "-c", typed], FindingKind::LineCut, "read 4,096 of 6,001 bytes that were typed");
    let datagrams = "import os, socket\n\
                     a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
                     if os.fork() == 0:\n    for i in range(50): b.recv(1024)\n    os._exit(0)\n\
                     for i in range(50): a.send(b'x' * 4000)\n\
                     os.wait()";
    said(&[&super::python(), "-c", datagrams], FindingKind::Datagrams, "50 datagrams with a buffer of 1,024 bytes");
    // A reader that opens its FIFO for each line: of the second one it gets nothing. It waits in each open, for the writer waits
    // until it does.
    let fifo = format!(
        "await() {{ while [ ! -e {file}.$1 ]; do sleep 0.01; done; }}; \
         opening() {{ until grep -q wait_for_partner /proc/$$/wchan; do sleep 0.01; done; }}; rm {file}; mkfifo {file}; \
         (opening; printf '1\\n2\\n' >{file}; : >{file}.written; await read; opening; echo 3 >{file}) & \
         exec 3<{file}; read -r line <&3; await written; exec 3<&-; : >{file}.read; read -r line <{file}; wait"
    );
    said(&[&fifo], FindingKind::FifoLost, "2 of 6 bytes that were written to the FIFO");
    let killed = "seq 100000 | sh -c 'read -r line; kill -9 $$'; true";
    said(&[killed], FindingKind::HiddenFailure, " killed by SIGKILL, and nobody read ");
    let started = "sh -c 'seq 1000; exit 3' | wc -l";
    said(&["bash", "-c", started], FindingKind::HiddenFailure, "`sh` failed with exit code 3 at ");
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn lines_that_are_doubled_dropped_or_come_late_are_said() {
    let python = super::python();
    let doubled = "import os\nf = open(1, \"w\", buffering=8192, closefd=False)\nf.write(\"parent value\\n\")\npid = os.fork()\n\
                   f.write(\"parent\\n\" if pid else \"child\\n\")\nf.flush()\nif pid: os.waitpid(pid, 0)";
    said(
        &[&format!("{python} -c '{doubled}' | cat")],
        FindingKind::Doubled,
        "and a child that it forked began with the same 13 bytes in the pipe to `cat`",
    );
    let flushed = record(&[&format!("{python} -c '{}' | cat", doubled.replace("pid = os", "f.flush()\npid = os"))]);
    assert!(flushed.recording.findings.iter().all(|finding| finding.kind != FindingKind::Doubled));
    let order = "import os\nfor i in range(5): os.write(2, b\"warning\\n\")\nos.write(1, b\"step 1\\nstep 2\\n\")";
    said(
        &[&format!("{python} -c '{order}' 2>&1 | cat")],
        FindingKind::OutOfOrder,
        " wrote 5 times to its standard error",
    );
    let lines =
        |format: &str, more: &str| format!("printf '{format}' | (while read -r line{more}; do echo \"$line\"; done)");
    said(&["bash", "-c", &lines("a=1\\nb=2\\nc=3", "")], FindingKind::LastLine, " has no newline at its end");
    for line in [lines("a=1\\nb=2\\nc=3\\n", ""), lines("a=1\\nb=2\\nc=3", " || [ -n \"$line\" ]")] {
        let used = record(&["bash", "-c", &line]);
        assert!(used.recording.findings.iter().all(|finding| finding.kind != FindingKind::LastLine), "{line}");
    }
    let part = "part() { echo a; return 1; }; part | tee /dev/null; true";
    said(&["bash", "-c", part], FindingKind::HiddenFailure, " failed with exit code 1 at ");
    let gone = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\npid = os.fork()\nif pid == 0: os._exit(3)\n\
                try: os.waitpid(pid, 0)\nexcept OSError: pass";
    said(&[&python, "-c", gone], FindingKind::LostChild, " waited for a child that the kernel had not kept (ECHILD)");
    let keys = "import os\nfor i in range(3): os.read(0, 1)";
    let loops = format!("seq 9 | while read -r n; do {python} -c '{keys}'; done");
    said(&["bash", "-c", &loops], FindingKind::Taken, "of the same pipe that `bash");
    let found = "set -o pipefail; seq 1000000 | grep -q 5 || exit 1";
    said(
        &["bash", "-c", found],
        FindingKind::Sigpipe,
        "`grep` found what it sought and ended: `seq` was ended by SIGPIPE",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f").to_str().unwrap().to_owned();
    let left = format!(
        "exec > >(read -r a; : >{file}; sleep 5; cat >/dev/null); echo 1; echo 2; until [ -e {file} ]; do sleep 0.1; done; sleep 1"
    );
    said(&["bash", "-c", &left], FindingKind::NotAwaited, " without waiting for its child ");
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn what_is_lost_in_files_and_behind_pipes_is_said() {
    let python = super::python();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f").to_str().unwrap().to_owned();
    let bash = |line: &str, kind: FindingKind, text: &str| said(&["bash", "-c", line], kind, text);
    // Each writes where it has last ended, and the second one at the end of the file: from the second line on, over each other.
    let both = format!("exec 3>{file} 4>>{file}; for i in 1 2 3; do echo aaaa >&3; echo bbbb >&4; done");
    bash(&both, FindingKind::Overwritten, "they overwrite each other, so that 10 of 30 bytes are lost.");
    bash("seq 1000 >/dev/full; true", FindingKind::NoSpace, "1 write of `seq` failed, because there was no room");
    let loops = "seq 7 | while read -r line; do n=$line; done; echo \"$n\"";
    bash(loops, FindingKind::LostVariables, " behind a pipe, read 7 lines, wrote nothing and started nothing");
    // `wait` takes no time here: the jobs are still copies of the shell if it ends at once.
    let jobs = "seq 2 | while read -r n; do sleep 3 >/dev/null 2>&1 & done; wait; sleep 1; echo ended";
    bash(jobs, FindingKind::NotAwaited, " had started 2 processes in the background (`sleep`) that still ran when ");
    let hosts = format!("printf '1\\n2\\n3\\n' >{file}; while read -r host; do cat >/dev/null; done <{file}");
    bash(&hosts, FindingKind::Taken, "`cat` took 4 bytes of `f`, which `bash");
    let failed = "while read -r line; do :; done < <(sh -c 'exit 3'); true";
    bash(failed, FindingKind::HiddenFailure, "`sh` failed with exit code 3 at ");
    let part = "import os, subprocess\n\
                p = subprocess.Popen(['head', '-c', '500000', '/dev/zero'], stdout=subprocess.PIPE)\n\
                os.read(p.stdout.fileno(), 500000)\np.stdout.close()\np.wait()";
    said(&[&python, "-c", part], FindingKind::Unread, " less than it had asked for, because no more had come by then");
    let closed = "import os, pty\n\
                  pid, master = pty.fork()\n\
                  if pid == 0: os.execvp('echo', ['echo', 'result'])\n\
                  os.waitpid(pid, 0)\nos.close(master)";
    said(&[&python, "-c", closed], FindingKind::Unread, " closed the terminal from ");
}

#[test]
#[ignore = "needs root and python3: make test"]
fn calls_that_fail_or_only_ask_are_said() {
    let closes = "import os\nfor fd in range(3, 200000):\n    try: os.close(fd)\n    except OSError: pass";
    said(&[&super::python(), "-c", closes], FindingKind::BadDescriptors, " descriptors that were not open (EBADF)");
    let asks = "import array, fcntl, os, termios\n\
                r, w = os.pipe()\n\
                for i in range(300000): fcntl.ioctl(r, termios.FIONREAD, array.array('i', [0]))";
    said(&[&super::python(), "-c", asks], FindingKind::FillAsks, " asked 300,000 times how much there is to read");
    let queue = "import socket\n\
                 s = socket.socket(socket.AF_UNIX); s.bind('\\0pipeprof-test-queue'); s.listen(1); kept = []\n\
                 for i in range(8):\n    c = socket.socket(socket.AF_UNIX); c.setblocking(False); kept.append(c)\n\
                 \u{20}   try: c.connect('\\0pipeprof-test-queue')\n    except BlockingIOError: pass";
    said(
        &[&super::python(), "-c", queue],
        FindingKind::Refused,
        " failed with EAGAIN: the queue of the listening socket",
    );
}

#[test]
#[ignore = "needs root, bash and gzip: make test"]
fn work_for_nothing_and_parts_that_are_missing_are_said() {
    said(&["seq 300000 | gzip -c | gzip -dc | wc -l"], FindingKind::Undone, " decompresses at once: ");
    said(&["true | xargs echo"], FindingKind::EmptyInput, " started `echo` all the same, without arguments");
    let missing = "seq 9 | nonexistent-program 2>/dev/null | cat";
    said(&[missing], FindingKind::HiddenFailure, "as if a command was not found: `cat` got nothing");
    said(&["bash", "-c", "seq 100000 | tee >(true) | wc -l"], FindingKind::Cut, ": `wc` has only what was written");
}

#[test]
#[ignore = "needs root, bash, flock and python3: make test"]
fn who_has_what_others_need_is_said() {
    let python = super::python();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f").to_str().unwrap().to_owned();
    let bash = |line: &str, kind: FindingKind, text: &str| said(&["bash", "-c", line], kind, text);
    let lock =
        format!("exec 9>{file}; flock -n 9; sleep 5 >/dev/null 2>&1 </dev/null & exec 9>&-; flock -n {file} true");
    bash(&lock, FindingKind::FileLock, " has it. It has inherited the open file, to which the lock belongs");
    let full = "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\nkept = []\n\
                try:\n    while True: kept.append(os.pipe())\nexcept OSError: pass";
    said(
        &[&python, "-c", full],
        FindingKind::FullTable,
        "once, because it has as many open as it may (EMFILE): 64, and ",
    );
    let script = "printf 'echo Continue?\\nread answer\\necho $answer\\necho end\\n' | bash";
    bash(script, FindingKind::Taken, " took the next line of that script (1 time)");
    // It writes until the second reader has got a part.
    let writer = format!(
        "import os, time\nopen('{file}.pid', 'w').write(str(os.getpid()))\nos.rename('{file}.pid', '{file}.there')\n\
         while not os.path.exists('{file}.read'):\n    os.write(1, b'0123456789\\n' * 9)\n    time.sleep(0.01)"
    );
    let second = format!(
        "{python} -c \"$0\" | cat >/dev/null & until [ -e {file}.there ]; do sleep 0.05; done; \
         head -c 200 /proc/$(<{file}.there)/fd/1 >/dev/null; : >{file}.read; wait"
    );
    let recorded = record(&["bash", "-c", &second, &writer]);
    let text = of(&recorded, FindingKind::Taken);
    assert!(text.contains(" at the same time: they got ") && text.ends_with("gives all of it to each."), "{text}");
    let rotated =
        format!("echo a >{file}; tail -f {file} | cat >/dev/null & sleep 1; mv {file} {file}.1; echo b >{file}; wait");
    let recorded = super::record_for("5s", &["bash", "-c", &rotated]);
    let text = of(&recorded, FindingKind::Renamed);
    assert!(text.contains("f.1` now: what is written to `"), "{text}");
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn what_is_torn_left_or_never_read_is_said() {
    let python = super::python();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f").to_str().unwrap().to_owned();
    // In turns by two pipes, so that each line of one has one of the other within.
    let lines = "import os, sys\nfrom_other, to_other, own = int(sys.argv[1]), int(sys.argv[2]), os.open(sys.argv[3], 1025)\n\
                 for i in range(9):\n    os.write(own, b'{1')\n    os.write(to_other, b'x')\n    os.read(from_other, 1)\n\
                 \u{20}   os.write(own, b'}\\n')";
    let torn = format!(
        "import os, sys\na, b = os.pipe(), os.pipe()\nopen('{file}', 'w')\n\
         for r, w in ((a[0], b[1]), (b[0], a[1])):\n    if os.fork() == 0:\n        [os.set_inheritable(fd, True) for fd in (r, w)]\n\
         \u{20}       os.execv(sys.executable, [sys.executable, '-c', sys.argv[1], str(r), str(w), '{file}'])\n\
         os.wait(); os.wait()"
    );
    said(&[&python, "-c", &torn, lines], FindingKind::Torn, " and write a line with several calls: ");
    let left = "seq 9 | while read -r n; do echo $n; exit 1; done; echo on";
    said(
        &["bash", "-c", left],
        FindingKind::HiddenFailure,
        " ended with exit code 1 after 1 line, before it had read all",
    );
    let naps = "import os, subprocess, time\np = subprocess.Popen(['sh', '-c', 'sleep 1; cat >/dev/null'], stdin=subprocess.PIPE)\n\
                os.set_blocking(p.stdin.fileno(), False)\nleft = 200000\nwhile left > 0:\n\
                \u{20}   try: left -= os.write(p.stdin.fileno(), b'x' * left)\n    except BlockingIOError: time.sleep(0.001)\n\
                p.stdin.close(); p.wait()";
    said(&[&python, "-c", naps], FindingKind::Retries, " and it sleeps on a timer before it tries again.");
    let looks = "import subprocess, time\np = subprocess.Popen(['seq', '200000'], stdout=subprocess.PIPE)\n\
                 while p.poll() is None: time.sleep(0.02)";
    let recorded = super::record_for("3s", &[&python, "-c", looks]);
    let text = of(&recorded, FindingKind::Watches);
    assert!(text.contains(" and never reads the pipe from `seq`, which is full: "), "{text}");
    let stays = "import os, signal, subprocess, sys, time\nscript = 'trap : TERM; : >$0; sleep 2; sleep 2'\n\
                 quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n\
                 p = subprocess.Popen(['bash', '-c', script, sys.argv[1]], **quiet)\n\
                 while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n\
                 p.send_signal(signal.SIGTERM)\ntime.sleep(0.1)\np.kill()\np.wait()";
    let there = format!("{file}.there");
    said(&[&python, "-c", stays, &there], FindingKind::Held, " did not end at the SIGTERM of `python3");
}

#[test]
#[ignore = "needs root, bash and python3: make test"]
fn ends_of_files_groups_ports_and_pipes_that_are_not_read_are_said() {
    let python = super::python();
    let lines =
        |more: &str| format!("f=$(mktemp); printf 'a\\nb\\nc' >$f; while read -r x{more}; do echo $x; done <$f; rm $f");
    said(&["bash", "-c", &lines("")], FindingKind::LastLine, " has no newline at its end");
    let used = record(&["bash", "-c", &lines(" || [ -n \"$x\" ]")]);
    assert!(used.recording.findings.iter().all(|finding| finding.kind != FindingKind::LastLine));
    let ends = format!("{python} -c 'import os\nfor i in range(200000): os.read(0, 1)' </dev/null | cat");
    said(&["bash", "-c", &ends.replace("\\n", "\n")], FindingKind::AtEnd, " read its standard input 200,0");
    let group =
        format!("setsid -w bash -c '{python} -c \"import os, time; time.sleep(0.3); os.killpg(0, 15)\" | cat; true'");
    said(&["bash", "-c", &group], FindingKind::GroupEnded, " sent SIGTERM to its whole process group");
    let port = "import socket, subprocess, sys\ns = socket.socket()\ns.bind((\"127.0.0.1\", 0))\ns.listen()\n\
                code = \"import socket, sys; socket.socket().bind((\\\"127.0.0.1\\\", int(sys.argv[1])))\"\n\
                subprocess.run([sys.executable, \"-c\", code, str(s.getsockname()[1])], stderr=subprocess.DEVNULL)";
    said(&[&python, "-c", port], FindingKind::AddressInUse, " could not bind a socket to port ");
    let unread = "import subprocess, time\np = subprocess.Popen([\"seq\", \"1000000\"], stdout=subprocess.PIPE)\ntime.sleep(3)\np.kill()";
    said(&[&python, "-c", unread], FindingKind::Watches, " never reads the pipe from `seq`, its child");
}

#[test]
#[ignore = "needs root: make test"]
fn nothing_of_the_kind_is_said_of_ordinary_pipelines() {
    use FindingKind::{EmptyInput, HiddenFailure, Turns, Undone};
    let lines = [
        "seq 3 | xargs echo",
        "seq 0 | xargs -r ls; command -v nonexistent-program | cat",
        "x=$(nonexistent-program 2>/dev/null); echo $x | cat; seq 90000 | gzip -c | gzip -t",
        "seq 100000 | tee >/dev/null | tail -n 1",
        "yes | head -n 1000 | wc -l",
        "seq 5000 | grep -q 3",
        "seq 50 | while read -r n; do echo $((n * n)); done | tail -n 1",
        "seq 20 | xargs -n 1 -P 2 sh -c 'echo job $0' | sort | wc -l",
        "(read -r first; cat) < /etc/passwd | wc -l",
        "seq 100000 | (head -n 1; cat) | wc -l",
        "dd if=/dev/zero bs=64k count=100 status=none | dd bs=64k count=100 iflag=fullblock of=/dev/null status=none",
        "(seq 1000 & seq 1000; wait) | cat | wc -c",
        "(for i in 1 2 3; do echo $i; sleep 0.4; done) | sort | tail -n 1",
        "f=$(mktemp -d); seq 9 >$f/a; sort $f/a | tee $f/b | tee -a $f/a >/dev/null; cat $f/b >$f/a; rm -r $f",
        "f=$(mktemp -u); mkfifo $f; seq 1000 >$f & head -n 1 $f; wait; rm $f",
        "sleep 9 & kill -9 $!; seq 100000 | head -n 1 | cat",
        "seq 4 | while read -r n; do (sleep 0.0$n; echo $n) & done | sort | tail -n 1",
        "f=$(mktemp); for i in 1 2 3; do seq 500 >>$f & done; wait; sort $f | uniq -c | tail -n 1; rm $f",
        "f=$(mktemp); (echo a; ls /) >$f 2>&1; echo c >>$f; (read -r a; sort) <$f | tail -n 1; rm $f",
        "f=$(mktemp); (seq 9; sleep 0.1; seq 9) >>$f & sleep 0.05; seq 3 >>$f; wait $!; rm $f",
        "while read -r a; do echo $a; done </etc/passwd | tail -n 1",
        "seq 100 | while read -r n; do [ $n -gt 3 ] && break; echo $n; done | cat; echo on",
        "printf 'a\\nb\\n' | { read -r x; [ \"$x\" = b ]; }; echo on | cat",
        "printf 'cat /etc/passwd | while read -r n; do echo $n; done; [ -t 0 ] || echo no\\n' | bash | tail -n 1",
        "f=$(mktemp); exec 9>$f; flock 9; flock -n 9 && seq 3 | tail -n 1; rm $f",
        "find /usr/bin -name 'g*' | xargs grep -l a | head -n 2 | wc -l",
        "setsid -w bash -c 'trap \"kill 0\" EXIT; sleep 9 & sleep 0.1'; seq 3 | cat",
        "timeout 1 tail -f /etc/passwd | wc -l",
        "x=$(ls /nonexistent 2>/dev/null); seq 3 | while read -r n; do echo $n$x; done | wc -l",
    ];
    for line in lines {
        let recorded = record(&[line]);
        let is_said =
            |kind: FindingKind| kind.is_fault() || matches!(kind, EmptyInput | HiddenFailure | Turns | Undone);
        let faults = recorded.recording.findings.iter().filter(|finding| is_said(finding.kind));
        assert_eq!(faults.count(), 0, "{line}: {}", recorded.stderr());
    }
}

//! Who waits for whom.

use super::{record, record_at_level};
use crate::common::{pipeprof, programs};
use pipeprof::result::{Document, LastWait};
use std::process::{Command, Stdio};

/// A program that hangs in this way: the findings, and the recording. A busy machine can need seconds to start it.
fn hung(way: &str) -> (Vec<String>, Document) {
    let durations = ["2s", "8s", "32s"];
    let mut found = durations.iter().map(|duration| recorded_for(duration, way));
    let stands = |recording: &Document| {
        recording.last_look.as_ref().is_some_and(|look| look.waits.iter().any(|wait| wait.endless))
    };
    let recording = found.find(stands).unwrap_or_else(|| panic!("{way}: it does not hang"));
    (recording.sentences().into_iter().map(str::to_owned).collect(), recording)
}

fn recorded_for(duration: &str, way: &str) -> Document {
    let own = programs();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let mut command = pipeprof(&["record", "--duration", duration, "-o", target.to_str().unwrap(), "--"]);
    let output = command.args([own.to_str().unwrap(), "hang", way]).stdin(Stdio::null()).output().unwrap();
    let text = std::fs::read_to_string(target.join("result.json"));
    let text = text.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&text).unwrap()
}

/// The first sentence begins with two processes that wait for each other, and has `words`.
fn circle(said: &[String], words: &[&str]) {
    let first = &said[0];
    assert!(
        first.starts_with("`test-programs") && first.contains(" (process ") && first.contains("wait for each other: "),
        "{said:?}"
    );
    assert!(first.ends_with(". Nothing can go on."), "{said:?}");
    words.iter().for_each(|word| assert!(first.contains(word), "{word}: {said:?}"));
}

#[test]
#[ignore = "needs root: make test"]
fn processes_that_wait_for_each_other_are_the_first_sentence() {
    let errors = "because the pipe of its standard error is full (16 of 16 slots), and `test-programs errors` ";
    let of = |way| move || hung(way);
    let ways = ["errors", "poll", "empty", "full", "child"];
    let found = std::thread::scope(|scope| ways.map(|way| scope.spawn(of(way))).map(|way| way.join().unwrap()));
    let [(said, recording), (poll, _), (empty, _), (full, _), (child, _)] = found;
    circle(
        &said,
        &[errors, "has never read it", "because the pipe from the standard output of `test-programs noisy` "],
    );
    assert!(said[1].contains("has to read both at once"), "{said:?}");
    assert!(
        !said.iter().any(|text| text.contains("no recorded process") || text.contains("bytes per call")),
        "{said:?}"
    );
    let look = recording.last_look.unwrap();
    assert_eq!(look.waits.iter().filter(|wait| wait.endless).count(), 2, "{look:#?}");
    circle(&poll, &["(16 of 16 slots), and ", " in poll, because the pipe from the standard output of "]);
    circle(&empty, &["because the pipe from the standard output of"]);
    assert!(empty[1].contains("flush"), "{empty:?}");
    circle(&full, &["because the pipe of its standard output is full"]);
    circle(&child, &[" until ", " because the pipe of its standard output is full"]);
}

#[test]
#[ignore = "needs root: make test"]
fn a_process_that_waits_for_itself_is_the_first_sentence() {
    let (said, _) = hung("alone");
    assert!(said[0].contains(" waits for data from the pipe, whose write end only it has itself open"), "{said:?}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_lock_that_another_thread_had_at_the_fork_is_the_first_sentence() {
    let (said, _) = hung("forked");
    assert!(said[0].contains(" waits for another thread") && said[0].contains("it has only one thread"), "{said:?}");
    assert!(said[1].starts_with("It was forked from a process with threads"), "{said:?}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_running_circle_is_found_from_each_of_its_processes_and_from_the_shell() {
    let own = programs();
    let line = format!("{} hang errors; true", own.display());
    let mut shell = Command::new("sh")
        .args(["-c", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let children = |pid: u32| -> Vec<u32> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    let descendants = || children(shell.id()).first().and_then(|pid| Some([*pid, *children(*pid).first()?]));
    // Its child waits for room.
    let waits = || {
        descendants().is_some_and(|[_, pid]| {
            std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|place| place.contains("pipe_write"))
        })
    };
    assert!(crate::common::wait_until(std::time::Duration::from_secs(60), waits));
    let [parent, child] = descendants().unwrap();
    for pid in [shell.id(), parent, child] {
        let output = pipeprof(&[
            "record",
            "-o",
            tempfile::tempdir().unwrap().path().join("r").to_str().unwrap(),
            "-p",
            &pid.to_string(),
            "--duration",
            "300ms",
        ])
        .output()
        .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        let names = format!(
            "`test-programs errors` (process {parent}) and `test-programs noisy` (process {child}) wait for each other: "
        );
        assert!(said.starts_with(&names), "{pid}: {said}");
    }
    for pid in [child, parent, shell.id()] {
        // SAFETY: sends a signal to a descendant of this test.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    }
    shell.wait().unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn who_holds_a_pipe_open_and_writes_nothing_is_named() {
    let said = said_in_time("sleep", |seconds| format!("(sleep {seconds} & echo a) | cat"));
    assert!(
        said.contains("`cat` (process ") && said.contains("waits for data from the pipe: only `sleep` (process "),
        "{said}"
    );
    let left = ") still has its write end open, and wrote nothing to it; `sh`, which had started it, has ended. With its output";
    assert!(said.contains(left), "{said}");
}

/// The answer to a line that takes so many seconds, once it begins with a process that has its id: a busy machine is late.
fn said_in_time(name: &str, line: impl Fn(u32) -> String) -> String {
    let mut said = [2, 8, 32].into_iter().map(|seconds| record(&["sh", "-c", &line(seconds)]).answer());
    let named = format!("`{name}` (process ");
    said.find(|said| said.contains(&named)).unwrap_or_else(|| panic!("{named} is not named"))
}

#[test]
#[ignore = "needs root: make test"]
fn a_fifo_that_nobody_opens_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let line = |seconds| format!("mkfifo {0}; timeout {seconds} cat {0}; rm {0}", path.display());
    let said = said_in_time("cat", line);
    let text = format!("waits until another process opens the FIFO `{}` for writing.", path.display());
    assert!(said.starts_with("`cat` (process ") && said.contains(&text), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn ordinary_pipelines_do_not_stand_still() {
    let lines = [
        "seq 200000 | sort | wc -l",
        "(sleep 0.6; echo a) | cat | wc -c",
        "sleep 0.6; echo a | cat",
        "(echo a; sleep 0.6; echo b) | sort | wc -l",
        "head -c 20M /dev/zero | gzip -1 | wc -c",
        "yes | head -n 100000 | tail -n 1",
        "x=$(sleep 0.6; echo a); echo $x",
        "seq 9 | xargs -n 1 -P 4 sleep 0.0 | cat",
        "(while read line; do sleep 0.1; done) < /etc/passwd | cat",
        "seq 5 | while read n; do sleep 0.15; echo $n; done | cat",
        "timeout 0.6 yes | head -c 100M | wc -c",
        "find /usr/share -name 'a*' | head -n 1000 | wc -l",
        "x=$(sleep 0.6); y=$(echo a | cat); echo $x$y",
        "(sleep 0.6; echo a >&3) 3>&1 | cat",
        "timeout 9 sh -c 'sleep 0.6; echo a' | grep a",
        "trap 'exit 0' USR1; (sleep 0.6; kill -USR1 $$) & while :; do sleep 0.1; done",
        "d=$(mktemp -d); mkfifo $d/f; (sleep 0.6; seq 9 >$d/f) & sort -n $d/f | tail -n 1; rm -r $d",
        "dd if=/dev/zero bs=1M count=100 | cksum",
        "(sleep 0.6; seq 20000) | sort -rn | head -n 1",
        "tar -cf - /usr/share/perl | gzip -1 | wc -c",
    ];
    for line in lines {
        let recorded = record(&["sh", "-c", line]);
        let said = recorded.answer();
        let odd = ["wait for each other", "end open", "Nothing can go on", "opens the FIFO"];
        assert!(!odd.iter().any(|words| said.contains(words)), "{line}: {said}");
        let waits = recorded.recording.last_look.iter().flat_map(|look| &look.waits);
        let endless: Vec<&LastWait> = waits.filter(|wait| wait.endless).collect();
        assert!(endless.is_empty(), "{line}: {endless:?}");
    }
    let (recorded, _folder) =
        record_at_level(&["--duration", "600ms"], &[&["write", "9", "1000000", "1000"], &["read", "9", "1000000"]]);
    assert!(recorded.recording.last_look.is_none(), "{:?}", recorded.recording.last_look);
}

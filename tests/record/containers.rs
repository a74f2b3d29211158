//! `--cgroup` and `--container`: processes in cgroups that are named as those of engines are, in PID namespaces of their own; and
//! `--keep`.

use crate::common::{Cgroup, pipeprof, wait_until};
use pipeprof::result::{Document, MeasuredTarget, ProcessGroup, Trigger, Until, WaitReason};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// An id of a container, that of no other one of this machine, also by its first twelve digits.
fn id(number: u32) -> String {
    format!("{number:04x}{:08x}{:052x}", std::process::id(), 0)
}

fn members(cgroup: &Cgroup) -> Vec<u32> {
    let text = std::fs::read_to_string(cgroup.file("cgroup.procs")).unwrap();
    text.lines().map(|pid| pid.parse().unwrap()).collect()
}

/// Run a line of the shell in a cgroup.
fn within(cgroup: &Cgroup, line: &str) -> Command {
    let mut command = Command::new("sh");
    let enter = format!("echo $$ >{}; exec {line}", cgroup.file("cgroup.procs").display());
    command.args(["-c", &enter]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Kills them.
struct Running<'a>(Vec<Child>, Vec<&'a Cgroup>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for pid in self.1.iter().flat_map(|cgroup| members(cgroup)) {
            // SAFETY: sends a signal to a process that this test has started.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

fn record(flags: &[&str], folder: &Path) -> (Output, Document) {
    let target = folder.join("recording");
    let output = pipeprof(&["record", "-o", target.to_str().unwrap()]).args(flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(target.join("result.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output, serde_json::from_str(&text).unwrap())
}

#[test]
#[ignore = "needs root and cgroup2: make test"]
fn a_container_is_recorded_with_the_ids_of_both_sides_and_who_enters_it() {
    let (folder, id) = (tempfile::tempdir().unwrap(), id(1));
    let cgroup = Cgroup::named(&format!("docker-{id}.scope"));
    let inside = "unshare --pid --fork --kill-child sh -c 'yes | cat >/dev/null; true'";
    let running = Running(vec![within(&cgroup, inside).spawn().unwrap()], vec![&cgroup]);
    let names = || {
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        members(&cgroup).iter().map(name).collect::<String>()
    };
    assert!(
        wait_until(Duration::from_secs(60), || names().contains("yes\n") && names().contains("cat\n")),
        "{}",
        names()
    );
    // Processes that come into it one after the other, from outside.
    let enter = format!(
        "while :; do sh -c 'echo $$ >{}; exec sleep 60' & sleep 0.1; done",
        cgroup.file("cgroup.procs").display()
    );
    let entering = Command::new("sh").args(["-c", &enter]).spawn().unwrap();
    let entering = Running(vec![entering], Vec::new());
    let (output, recording) = record(&["--container", &id[..12], "--duration", "3s"], folder.path());
    drop((entering, running));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("Recorded: container {}: ", &id[..12])), "{said}");
    let MeasuredTarget::Attached { pids, group: Some(ProcessGroup::Container(container)) } = &recording.target else {
        panic!("{:?}", recording.target)
    };
    assert_eq!((&container.id, &container.name), (&id, &None));
    let yes = recording.recorded.iter().find(|process| process.name == "yes").unwrap();
    let cat = recording.recorded.iter().find(|process| process.name == "cat").unwrap();
    assert!(yes.pids.len() == 1 && pids.contains(&yes.pids[0]), "{yes:#?}");
    // The first one there is the shell.
    assert!(matches!((&yes.inner_pids[..], &cat.inner_pids[..]), ([2..10], [2..10])), "{:#?}", recording.recorded);
    let late = |pid: &u32| !pids.contains(pid);
    let entered = recording.recorded.iter().filter(|process| process.pids.iter().any(late));
    assert!(entered.clone().any(|process| process.name == "sleep"), "{:#?}", recording.recorded);
}

#[test]
#[ignore = "needs root and cgroup2: make test"]
fn a_stopped_process_of_another_container_is_named_with_it() {
    let (folder, ids) = (tempfile::tempdir().unwrap(), [id(2), id(3)]);
    let [first, other] = [&ids[0], &ids[1]].map(|id| Cgroup::named(&format!("cri-containerd-{id}.scope")));
    let mut reader = within(&other, "cat").stdin(Stdio::piped()).spawn().unwrap();
    let to_reader = reader.stdin.take().unwrap();
    // The shell is in its cgroup before it becomes `cat`.
    let is = |pid: u32, text: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(text))
    };
    assert!(wait_until(Duration::from_secs(60), || is(reader.id(), "(cat)")));
    assert_eq!(members(&other), [reader.id()]);
    // SAFETY: sends a signal to a child of this test.
    unsafe { libc::kill(reader.id().cast_signed(), libc::SIGSTOP) };
    let writer = within(&first, "yes").stdout(to_reader).spawn().unwrap();
    let (reader_id, writer_id) = (reader.id(), writer.id());
    let running = Running(vec![writer, reader], vec![&first, &other]);
    assert!(wait_until(Duration::from_secs(60), || is(writer_id, "(yes) S ")));
    for observe in ["bpf", "proc"] {
        let flags =
            ["--cgroup", first.file("").to_str().unwrap(), "--observe", observe, "--duration", "2s"].map(str::to_owned);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let target = folder.path().join(observe);
        std::fs::create_dir(&target).unwrap();
        let (output, recording) = record(&flags, &target);
        let names: Vec<&str> = recording.recorded.iter().map(|process| process.name.as_str()).collect();
        // Whoever runs the tests may have other pipes that all inherit. The other one is of another container.
        assert!(names.contains(&"yes") && !names.contains(&"cat"), "{names:?}");
        let expected = format!(
            "`yes` (process {writer_id}) waits for room in the pipe of its standard output: `cat` (process {reader_id}, in \
             container {}), which reads it, is stopped.",
            &ids[1][..12]
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(recording.sentences().contains(&expected.as_str()), "{observe}: {said}");
    }
    drop(running);
}

#[test]
#[ignore = "needs root: make test"]
fn the_last_time_before_a_stall_is_kept_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("kept");
    let mut writer = Command::new("yes").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let reader = Command::new("cat").stdin(writer.stdout.take().unwrap()).stdout(Stdio::null()).spawn().unwrap();
    let [writer_id, reader_id] = [writer.id(), reader.id()];
    let running = Running(vec![writer, reader], Vec::new());
    let mut command = pipeprof(&["record", "-o", target.to_str().unwrap(), "-p", &writer_id.to_string()]);
    command.args(["--keep", "5s", "--until", "full 2s", "--repeat", "2"]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // SAFETY: sends signals to a child of this test.
    let signal = |number| unsafe { libc::kill(reader_id.cast_signed(), number) };
    let number = std::cell::Cell::new(1);
    let is_written = || target.join(number.get().to_string()).join("result.json").exists();
    // What holds goes on to hold: that is one event.
    signal(libc::SIGSTOP);
    assert!(wait_until(Duration::from_secs(60), is_written));
    signal(libc::SIGCONT);
    number.set(2);
    std::thread::sleep(Duration::from_secs(4));
    assert!(!is_written(), "nothing happened again");
    signal(libc::SIGSTOP);
    assert!(wait_until(Duration::from_secs(60), is_written));
    let output = child.wait_with_output().unwrap();
    signal(libc::SIGCONT);
    drop(running);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = std::fs::read_to_string(target.join("2/result.json")).unwrap();
    let recording: Document = serde_json::from_str(&text).unwrap();
    let until = Some(Trigger { until: Some(Until::Full(2_000_000_000)), name: "yes".to_owned() });
    assert_eq!(recording.trigger, until, "{said}");
    assert!(recording.processes.window_ns >= 2_000_000_000, "{said}");
    let path = recording.path.as_ref().unwrap();
    assert_eq!(path.parts.iter().map(|part| part.ns).sum::<u64>(), recording.processes.window_ns);
    assert!(recording.channels.iter().any(|pipe| pipe.bytes() > 1_000_000), "{said}");
    let stopped = recording.recorded.iter().find(|process| process.name == "cat").unwrap();
    assert!(stopped.waits[&WaitReason::Stopped].ns >= 1_500_000_000, "{stopped:#?}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(", until `yes` had waited 2.00 s for room in a pipe or another channel; "), "{said}");
}

#[test]
#[ignore = "needs root and cgroup2: make test"]
fn a_cgroup_without_processes_or_a_container_that_is_not_there_is_an_error() {
    let cgroup = Cgroup::named(&format!("libpod-{}.scope", id(4)));
    let refused = |flags: &[&str]| {
        let output = pipeprof(&["record"]).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["--cgroup", cgroup.file("").to_str().unwrap()]).ends_with("no process is in it\n"));
    assert!(refused(&["--cgroup", "/no/such"]).contains("there is no such cgroup"));
    let missing = refused(&["--container", &id(4)]);
    assert!(missing.contains("no process is in a container of this name or id"), "{missing}");
}

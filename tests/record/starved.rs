//! A recorder that gets no CPU for a while: the programs in the kernel go on, and know the time.

use super::path::adds_up;
use crate::common::{pipeprof, wait_until};
use pipeprof::result::{Document, PathWhat};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

fn signal(process: &Child, signal: i32) {
    // SAFETY: sends a signal to a child of this test.
    unsafe { libc::kill(process.id().cast_signed(), signal) };
}

fn start(folder: &Path, flags: &[&str]) -> Child {
    let target = folder.join("recording");
    let mut command = pipeprof(&["record", "-o", target.to_str().unwrap()]);
    command.args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn ended(mut recorder: Child, folder: &Path) -> Document {
    recorder.wait().unwrap();
    let text = std::fs::read_to_string(folder.join("recording/result.json")).unwrap();
    let recording = serde_json::from_str(&text).unwrap();
    adds_up(&recording);
    recording
}

/// A process that ends with this value.
struct Terminated(i32);

impl Drop for Terminated {
    fn drop(&mut self) {
        // SAFETY: sends a signal to a process that the test's pipeline has started, and that only this ends.
        unsafe { libc::kill(self.0, libc::SIGTERM) };
    }
}

/// Sleeps and preemptions of the threads of a process so far; `None` once it is gone.
fn switches(process: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let of_line = |line: &str| line.split_once("ctxt_switches:")?.1.trim().parse::<u64>().ok();
    Some(status.lines().filter_map(of_line).sum())
}

#[test]
#[ignore = "needs root: make test"]
fn the_window_ends_in_time_although_the_recorder_does_not_run() {
    // It is stopped before, while and after it attaches, and goes on when the window is over.
    for stopped_at in [50, 200, 350, 500] {
        let folder = tempfile::tempdir().unwrap();
        let recorder = start(folder.path(), &["--duration", "300ms", "--", "yes | cat"]);
        std::thread::sleep(Duration::from_millis(stopped_at));
        signal(&recorder, libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(700));
        signal(&recorder, libc::SIGCONT);
        let recording = ended(recorder, folder.path());
        assert_eq!(recording.processes.window_ns, 300_000_000, "stopped at {stopped_at} ms");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn time_without_steps_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let ids = folder.path().join("ids");
    // Two processes that hand on single bytes. The ring has room for the steps of fewer sleeps than this.
    let line = format!(
        "mkfifo {0}/there {0}/back; dd bs=1 <{0}/back >{0}/there & \
         (printf x; exec dd bs=1) >{0}/back <{0}/there & echo $! >{1}; wait",
        folder.path().display(),
        ids.display()
    );
    const MOST: u64 = 100_000;
    let recorder = start(folder.path(), &["--", &line]);
    let process = || std::fs::read_to_string(&ids).ok().filter(|text| text.ends_with('\n'));
    assert!(wait_until(Duration::from_secs(60), || process().is_some()));
    let process = Path::new("/proc").join(process().unwrap().trim());
    let ends = Terminated(process.file_name().unwrap().to_str().unwrap().parse().unwrap());
    signal(&recorder, libc::SIGSTOP);
    let before = switches(&process).unwrap();
    assert!(wait_until(Duration::from_secs(120), || switches(&process).unwrap() > before + MOST));
    signal(&recorder, libc::SIGCONT);
    // After the gap, the path is known again.
    let after = switches(&process).unwrap();
    assert!(wait_until(Duration::from_secs(60), || switches(&process).unwrap() > after + 10_000));
    drop(ends);
    let recording = ended(recorder, folder.path());
    let path = recording.path.as_ref().unwrap();
    let unknown: u64 = path.parts.iter().filter(|part| part.what == PathWhat::Unknown).map(|part| part.ns).sum();
    assert!(path.lost_steps > 0 && unknown > 0, "{path:#?}");
    assert!(recording.warnings.iter().any(|warning| warning.code == pipeprof::util::warning::WarningCode::StepsLost));
    assert!(path.ceilings.is_empty());
    // No part of a process is longer than what the programs have counted of it.
    for (at, process) in recording.recorded.iter().enumerate() {
        let of = |what| path.parts.iter().filter(move |part| part.process == Some(at) && part.what == what);
        let ns = |what| of(what).map(|part| part.ns).sum::<u64>();
        assert!(ns(PathWhat::OnCpu) <= process.cpu_ns, "{path:#?} {process:#?}");
        assert!(ns(PathWhat::ForCpu) <= process.runnable_ns + waited(&recording, at), "{path:#?} {process:#?}");
    }
}

/// How long a process waited for a CPU after sleeps at pipes.
fn waited(recording: &Document, process: usize) -> u64 {
    let ends = recording.channels.iter().flat_map(|pipe| pipe.readers.iter().chain(&pipe.writers));
    ends.filter(|end| end.process == process).map(|end| end.runnable_ns).sum()
}

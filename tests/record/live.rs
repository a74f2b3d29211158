//! What `record --live` shows meanwhile.

use crate::common::{pipeprof, wait_until};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The writers of the pipe are gone most of the time, and the shell that sleeps has it open.
const LOOP: &str = "for i in 1 2 3 4; do /bin/echo x; sleep 0.9; done | cat";

#[test]
#[ignore = "needs root: make test"]
fn without_a_terminal_each_second_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let output = pipeprof(&["record", "--live", "-o", target.to_str().unwrap(), "--", LOOP]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"x\nx\nx\nx\n"[..]), "{said}");
    let seconds: Vec<&str> = said.lines().filter(|line| line.contains(" s: ")).collect();
    assert!(seconds.len() >= 2 && said.contains("Recorded: "), "{said}");
    // On a busy machine, processes start late: not in each of the seconds.
    let asleep = |line: &&&str| line.split_once(" s: ").unwrap().1.contains("`sleep` sleeping on a timer");
    assert!(seconds.iter().filter(asleep).count() >= 2, "{said}");
    assert!(seconds.iter().any(|line| line.contains(" to cat ") && line.contains(" MiB/s, ")), "{said}");
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_screen_shows_the_last_second_until_q() {
    let asleep = Running(Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let words = ["record", "--live", "-o", target.to_str().unwrap(), "-p", &asleep.0.id().to_string()].join(" ");
    let line = format!("stty columns 100 rows 20; {} {words}; stty -a", env!("CARGO_BIN_EXE_pipeprof"));
    let mut terminal = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let mut screen = terminal.stdout.take().unwrap();
    let mut terminal = Running(terminal);
    let (shown, parts) = mpsc::channel();
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = screen.read(&mut part) {
            let _ = shown.send(part[..length].to_vec());
        }
    });
    let mut seen = Vec::new();
    let mut until = |text: &str| {
        let found = wait_until(Duration::from_secs(120), || {
            seen.extend(parts.try_iter().flatten());
            String::from_utf8_lossy(&seen).contains(text)
        });
        assert!(found, "{text}: {}", String::from_utf8_lossy(&seen));
    };
    until("Now: 100 % `sleep` sleeping on a timer.");
    keys.write_all(b"q").unwrap();
    until("Written to ");
    // The terminal is as it was.
    until(" icanon ");
    terminal.0.wait().unwrap();
    let seen = String::from_utf8_lossy(&seen);
    let (_, after) = seen.rsplit_once("\x1b[?1049l").expect("the other screen is left");
    assert!(after.contains("Recorded: ") && after.contains(" echo "), "{after}");
}

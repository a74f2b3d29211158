//! What `record --live` says without a terminal.

use crate::common::pipeprof;

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

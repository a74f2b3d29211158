//! The screen of `record --live`, as a terminal shows it. Nothing depends on when: each step waits for what the one before
//! brings about.

use crate::common::{binary, is_alive, wait_until};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OutputModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Long, because other tests may be using the machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Prints to its terminal until it is ended.
const TICKS: &str = "while :; do echo tick; sleep 0.2; done | cat";

/// A terminal with a pipeprof in it.
struct TestTerminal {
    master: File,
    programs: File,
    shown: Arc<Mutex<vt100::Parser>>,
    child: Child,
    _folder: tempfile::TempDir,
}

impl TestTerminal {
    /// Run `pipeprof record FLAGS` in a terminal of this size.
    fn record(columns: u16, rows: u16, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(binary());
        command.args(["record", "--live", "-o"]).arg(folder.path().join("recording")).args(flags);
        Self::start(columns, rows, command, folder)
    }

    /// Run a shell with job control, in this folder.
    fn shell(columns: u16, rows: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("bash");
        command.args(["--norc", "--noprofile", "-i"]).env("PS1", "ready> ").current_dir(folder.path());
        Self::start(columns, rows, command, folder)
    }

    fn start(columns: u16, rows: u16, mut command: Command, folder: tempfile::TempDir) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let programs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        tcsetwinsize(&programs, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let stdio = || programs.try_clone().unwrap();
        command.stdin(stdio()).stdout(stdio()).stderr(stdio()).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        // SAFETY: three system calls between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // A shell without job control has its background jobs ignore Ctrl-C: these tests may be one.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                rustix::process::setsid()?;
                Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
            })
        };
        let child = command.spawn().unwrap();
        let master = File::from(master);
        let shown =
            Arc::new(Mutex::new(vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 1000)));
        let (screen, mut output) = (Arc::clone(&shown), master.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut part) {
                screen.lock().unwrap().process(&part[..length]);
            }
        });
        Self { master, programs, shown, child, _folder: folder }
    }

    /// What is shown, and whether it is the other screen.
    fn shown(&self) -> (String, bool) {
        let shown = self.shown.lock().unwrap();
        (shown.screen().contents(), shown.screen().alternate_screen())
    }

    /// Wait for it.
    fn until(&self, wanted: &str, is_there: impl Fn(&str, bool) -> bool) -> String {
        // The text that was looked at: the next one may be half drawn.
        let (mut text, mut is_other) = (String::new(), false);
        let found = wait_until(LIMIT, || {
            (text, is_other) = self.shown();
            is_there(&text, is_other)
        });
        assert!(found, "no {wanted}, other screen: {is_other}\n{text}");
        text
    }

    /// Wait for all of these on the screen of pipeprof.
    fn until_screen(&self, parts: &[&str]) -> String {
        self.until(&format!("{parts:?}"), |text, is_other| is_other && parts.iter().all(|part| text.contains(part)))
    }

    fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Wait until pipeprof has ended, and return its exit code and what the terminal shows, also further up.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut status = None;
        assert!(wait_until(LIMIT, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        }));
        // The terminal is as it was.
        let settings = tcgetattr(&self.programs).unwrap();
        assert!(settings.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
        assert!(settings.output_modes.contains(OutputModes::OPOST));
        let hidden = |shown: &vt100::Parser| shown.screen().alternate_screen() || shown.screen().hide_cursor();
        assert!(wait_until(LIMIT, || !hidden(&self.shown.lock().unwrap())));
        // All has been read once this is shown.
        self.programs.write_all(b"\r\nthe last line").unwrap();
        let last = |shown: &vt100::Parser| shown.screen().contents().contains("the last line");
        assert!(wait_until(LIMIT, || last(&self.shown.lock().unwrap())));
        let mut shown = self.shown.lock().unwrap();
        let mut text = String::new();
        let rows = usize::from(shown.screen().size().0.get());
        shown.screen_mut().set_scrollback(usize::MAX);
        let above = shown.screen().scrollback();
        for back in (1..=above.div_ceil(rows)).rev() {
            shown.screen_mut().set_scrollback((back * rows).min(above));
            text += &shown.screen().contents();
            text.push('\n');
        }
        shown.screen_mut().set_scrollback(0);
        text += &shown.screen().contents();
        (status.unwrap().code(), text)
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes that `parent` started.
fn children(parent: u32) -> Vec<u32> {
    crate::common::children(parent)
}

#[test]
#[ignore = "needs root: make test"]
fn a_pipeline_that_prints_to_the_terminal_has_a_screen() {
    for (columns, rows) in [(80, 24), (200, 60)] {
        let mut terminal = TestTerminal::record(columns, rows, &["--", TICKS]);
        let parts = ["Now: ", "`sleep` sleeping on a timer", "─ printed ─", "tick\n"];
        let text = terminal.until("a whole screen", |text, is_other| {
            let line = |begin: &str| text.lines().find(|line| line.trim_start().starts_with(begin)).unwrap_or_default();
            let heads = line("channel").contains("MiB/s") && line("process").contains("the last minute");
            is_other && heads && parts.iter().all(|part| text.contains(part))
        });
        // `cat` waits for the pipe, which is empty.
        let row = terminal.until("a strip", |text, _| {
            text.lines().any(|line| line.trim_start().starts_with("cat ") && line.contains("░"))
        });
        assert!(row.contains("q end   s sort"), "{row}");
        assert!(text.lines().count() <= usize::from(rows), "{text}");
        terminal.keys("s");
        terminal.until_screen(&["by work"]);
        terminal.keys("s");
        terminal.until_screen(&["by waits"]);
        terminal.keys(" ");
        terminal.until_screen(&["stands still"]);
        terminal.keys(" j\r");
        terminal.until_screen(&["Calls on pipes", "reads", "Esc close"]);
        terminal.keys("\x1b");
        terminal.until_screen(&["Enter open"]);
        terminal.keys("q");
        let (code, text) = terminal.ended();
        assert_eq!(code, Some(0), "{text}");
        // All that it printed, then the report.
        let (before, report) = text.split_once("Recorded: ").unwrap_or_else(|| panic!("no report: {text}"));
        assert!(before.matches("tick").count() >= 3 && report.contains("Written to "), "{text}");
        assert!(!text.contains("q end   s sort"), "{text}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn the_screen_steps_aside_for_who_needs_the_terminal() {
    // A password is not shown, a line is; both are read from the terminal itself, as ssh and less do.
    let line = "exec </dev/tty; sleep 0.1; printf 'Pass''word: '; stty -echo; read x; stty echo; echo got $x; \
                printf 'Na''me: '; read y; echo hello $y; printf '\\033[?1049hedi''tor'; sleep 2; printf '\\033[?1049l'; \
                sleep 600";
    let mut terminal = TestTerminal::record(80, 24, &["--", line]);
    terminal.until("a question", |text, is_other| !is_other && text.ends_with("Password: "));
    terminal.keys("secret\r");
    terminal.until("a question", |text, is_other| !is_other && text.ends_with("Name: "));
    terminal.keys("Bob\r");
    terminal.until("an editor", |text, is_other| is_other && text.starts_with("editor"));
    // It comes back.
    terminal.until_screen(&["hello Bob", "q end   s sort"]);
    terminal.keys("q");
    let (code, text) = terminal.ended();
    assert_eq!(code, Some(0), "{text}");
    for part in ["got secret", "Name: Bob", "hello Bob", "Recorded: "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("secret").count(), 1, "what is not shown was shown: {text}");
}

#[test]
#[ignore = "needs root: make test"]
fn signals_and_kills_restore_the_terminal() {
    // Ctrl-C reaches the pipeline.
    let mut terminal = TestTerminal::record(80, 24, &["--", TICKS]);
    terminal.until_screen(&["tick\n", "Now: "]);
    terminal.keys("\x03");
    let (code, text) = terminal.ended();
    assert!(code == Some(130) && text.contains("Recorded: "), "{code:?} {text}");

    // The pipeline is killed.
    let terminal = TestTerminal::record(80, 24, &["--", "sleep", "600"]);
    terminal.until_screen(&["sleep", "Now: "]);
    let recorder = children(terminal.child.id());
    let stages: Vec<u32> = recorder.iter().flat_map(|pid| children(*pid)).collect();
    let [stage] = stages[..] else { panic!("{recorder:?} {stages:?}") };
    kill(stage, "KILL");
    let (code, text) = terminal.ended();
    assert!(code == Some(137) && text.contains("Recorded: "), "{code:?} {text}");

    // The recorder is killed, which can restore nothing.
    let terminal = TestTerminal::record(80, 24, &["--", "sleep", "600"]);
    terminal.until_screen(&["sleep", "Now: "]);
    let [recorder] = children(terminal.child.id())[..] else { panic!() };
    kill(recorder, "KILL");
    let (code, _) = terminal.ended();
    assert_eq!(code, Some(137));

    // A signal for the first process is one for the pipeline.
    let terminal = TestTerminal::record(80, 24, &["--", "sleep", "600"]);
    terminal.until_screen(&["sleep", "Now: "]);
    kill(terminal.child.id(), "TERM");
    let (code, text) = terminal.ended();
    assert!(code == Some(143) && text.contains("Recorded: "), "{code:?} {text}");
}

#[test]
#[ignore = "needs root: make test"]
fn the_shell_gets_the_terminal_back_at_ctrl_z() {
    let mut terminal = TestTerminal::shell(80, 24);
    let has_shell = |text: &str, is_other: bool| !is_other && text.trim_end().ends_with("ready>");
    terminal.until("prompt", has_shell);
    let line = format!("{} record --live -o recording -- '{TICKS}'\r", binary().display());
    terminal.keys(&line);
    terminal.until_screen(&["tick\n", "Now: "]);
    terminal.keys("\x1a");
    let text = terminal.until("prompt", has_shell);
    assert!(text.contains("Stopped"), "{text}");
    terminal.keys("echo still''here\r");
    terminal.until("output", |text, is_other| !is_other && text.contains("stillhere"));
    terminal.keys("fg\r");
    terminal.until_screen(&["tick\n", "Now: "]);
    // In the background, it has no screen and takes no keys.
    terminal.keys("\x1a");
    terminal.until("prompt", has_shell);
    terminal.keys("bg\r");
    terminal.keys("echo q''uiet\r");
    terminal.until("output", |text, is_other| !is_other && text.contains("quiet"));
    terminal.keys("fg\r");
    terminal.until_screen(&["tick\n", "Now: "]);
    terminal.keys("q");
    terminal.until("report", |text, is_other| !is_other && text.contains("Written to "));
    terminal.keys("exit\r");
    let (code, text) = terminal.ended();
    assert!(code == Some(0) && !text.contains("q end   s sort"), "{text}");
}

fn kill(pid: u32, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap();
    assert!(sent.success() && (signal != "KILL" || wait_until(LIMIT, || !is_alive(pid))));
}

#[test]
#[ignore = "needs root: make test"]
fn running_processes_and_the_whole_machine_have_a_screen() {
    // This process fills the pipe, and nobody reads.
    let mut writer = Command::new("sleep").arg("600").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut pipe = writer.stdin.take().unwrap();
    let filler = std::thread::spawn(move || while pipe.write_all(&[0; 4096]).is_ok() {});
    let pid = writer.id().to_string();
    let mut terminal = TestTerminal::record(80, 24, &["-p", &pid]);
    terminal.until_screen(&["Now: ", "other sleep", "q end"]);
    terminal.keys("q");
    assert_eq!(terminal.ended().0, Some(0));
    let mut terminal = TestTerminal::record(200, 60, &["--all"]);
    terminal.until_screen(&["processes of this machine", "channel", "waits for", &format!("({pid})"), "q end"]);
    terminal.keys("q");
    let (code, text) = terminal.ended();
    assert!(code == Some(0) && text.contains("Recorded: all processes of this machine"), "{text}");
    writer.kill().unwrap();
    writer.wait().unwrap();
    filler.join().unwrap();
}

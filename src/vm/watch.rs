//! Watches a running guest: reads its messages, enforces limits, and finds the cause when it gives no answer.

use crate::result::ExecutedOn;
use crate::util::text::{clean, clean_lines};
use crate::util::{cancel, progress};
use crate::vm::GuestOptions;
use crate::vm::emulator::{Qemu, Since};
use crate::vm::monitor::Monitor;
use crate::vm::protocol::{Decoder, Message};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// A guest, and what is known of it.
pub(crate) struct Watch<'a> {
    options: &'a GuestOptions,
    on: ExecutedOn,
    boot_limit: Duration,
    pub qemu: Qemu,
    reply: File,
    /// Bytes read from `reply`.
    replied: u64,
    messages: u64,
    decoder: Decoder,
    /// `uname -r`, once the guest is ready for its job.
    pub release: Option<String>,
    pub answer: Option<Result<Vec<u8>, String>>,
    /// Why the guest's kernel cannot take part in a snapshot.
    pub(crate) no_ports: Option<String>,
}

/// How a guest's execution ended.
#[derive(Debug)]
pub(crate) enum GuestEnd {
    /// QEMU has exited.
    Exited(ExitStatus),
    /// QEMU has stopped the guest where a snapshot is to be made.
    Stopped,
    /// This side killed it.
    Killed {
        why: String,
        /// The guest did not reach init before the time limit.
        late: bool,
    },
}

/// How often to poll the guest's files.
const PACE: Duration = Duration::from_millis(5);

/// How long a guest may take to reset after its answer. Plugins write their results in that time.
const FAREWELL: Duration = Duration::from_secs(60);

/// Longer console output means a kernel that repeats itself until the disk is full.
const LONGEST_CONSOLE: u64 = 64 << 20;

/// Larger replies are invalid. The largest, of a run with all collectors, is a few MiB.
const LONGEST_REPLY: u64 = 256 << 20;

/// How much of a reply is read before limits and interruption are checked again.
const PIECE: u64 = 4 << 20;

/// More messages are invalid. A guest sends one for each run that it measures.
const MOST_MESSAGES: u64 = 100_000;

/// After more damaged messages the guest is ended: each may cost as much as the largest answer.
const MOST_DAMAGED: u64 = 100;

/// How long a panicking kernel may take to print its report.
const REPORT: Duration = Duration::from_secs(3);

impl<'a> Watch<'a> {
    pub(crate) fn new(
        options: &'a GuestOptions,
        on: ExecutedOn,
        boot_limit: Duration,
        qemu: Qemu,
        reply: File,
    ) -> Self {
        Self {
            options,
            on,
            boot_limit,
            qemu,
            reply,
            replied: 0,
            messages: 0,
            decoder: Decoder::default(),
            release: None,
            answer: None,
            no_ports: None,
        }
    }

    /// Number of damaged messages.
    pub(crate) fn damaged(&self) -> u64 {
        self.decoder.damaged()
    }

    /// Follow the guest to its end, or until `monitor` reports that it has stopped.
    pub(crate) fn follow(&mut self, console: &Path, mut monitor: Option<&mut Monitor>) -> GuestEnd {
        let started = self.qemu.now();
        let mut booted = None;
        let mut answered = None;
        let mut panicked = None;
        let mut looked = 0;
        let (mut printed, mut heard) = (0, started);
        let patience = patience(self.boot_limit, self.options);
        loop {
            let ended = self.qemu.ended();
            let read = self.read_reply();
            if let Some(status) = ended
                && !read
            {
                return GuestEnd::Exited(status);
            }
            if cancel::happened() {
                self.qemu.kill();
                return GuestEnd::Killed { why: "interrupted".to_owned(), late: false };
            }
            if let Some(monitor) = &mut monitor {
                if monitor.happened("STOP") {
                    return GuestEnd::Stopped;
                }
                if self.release.is_some() || self.no_ports.is_some() {
                    self.qemu.kill();
                    return GuestEnd::Killed { why: "did not stop where a snapshot is made".to_owned(), late: false };
                }
            }
            if self.release.is_some() && booted.is_none() {
                booted = Some(self.qemu.now());
            }
            if self.answer.is_some() && answered.is_none() {
                answered = Some(self.qemu.now());
            }
            looked += 1;
            let before = std::mem::replace(&mut printed, fs::metadata(console).map_or(0, |metadata| metadata.len()));
            if printed != before {
                heard = self.qemu.now();
            }
            if panicked.is_none() && looked % 100 == 0 && last_words(&read_text(console)).is_some() {
                panicked = Some(self.qemu.now());
            }
            let over =
                |since: &Option<Since>, limit: Duration| since.as_ref().is_some_and(|since| self.over(since, limit));
            let mut late = false;
            let why = if printed > LONGEST_CONSOLE {
                format!("printed more than {} MiB on its console", LONGEST_CONSOLE >> 20)
            } else if self.replied > LONGEST_REPLY {
                format!("answered more than {} MiB", LONGEST_REPLY >> 20)
            } else if self.messages > MOST_MESSAGES {
                format!("sent more than {MOST_MESSAGES} messages")
            } else if self.damaged() > MOST_DAMAGED {
                format!("its answer was damaged (more than {MOST_DAMAGED} frames with errors)")
            } else if over(&answered, FAREWELL) {
                format!("answered, but did not shut down within {} s", FAREWELL.as_secs())
            } else if over(&panicked, REPORT) {
                last_words(&read_text(console)).unwrap_or_else(|| "kernel panic".to_owned())
            } else if booted.is_none() && self.over(&started, self.boot_limit) {
                let limit = self.boot_limit.as_secs_f64();
                late = true;
                format!("did not reach init within {limit} s: see its last lines below, or raise --boot-limit")
            } else if let Some(patience) = patience.filter(|patience| booted.is_none() && self.over(&heard, *patience))
            {
                let silent = patience.as_secs_f64();
                late = true;
                format!(
                    "did not reach init, and has printed nothing for {silent} s: see its last lines below, or raise \
                     --boot-limit"
                )
            } else if answered.is_none() && over(&booted, self.options.time_limit) {
                let limit = self.options.time_limit.as_secs_f64();
                format!("did not finish within {limit} s: raise --time-limit, unless it hangs")
            } else {
                if !read {
                    std::thread::sleep(PACE);
                }
                continue;
            };
            self.qemu.kill();
            return GuestEnd::Killed { why, late };
        }
    }

    fn over(&self, since: &Since, limit: Duration) -> bool {
        match self.on {
            // A guest on the host's processor takes part in the host's time.
            ExecutedOn::Kvm | ExecutedOn::Hardware => since.wall.elapsed() > limit,
            ExecutedOn::Tcg => self.qemu.is_over(since, limit),
        }
    }

    /// Read the next piece of the reply, and return whether there was one.
    fn read_reply(&mut self) -> bool {
        let mut bytes = Vec::new();
        // This is a local file of ours. If a read fails, the next one gets the data.
        let _ = (&self.reply).take(PIECE).read_to_end(&mut bytes);
        if bytes.is_empty() {
            return false;
        }
        self.replied += bytes.len() as u64;
        self.decoder.feed(&bytes);
        while self.messages <= MOST_MESSAGES && self.damaged() <= MOST_DAMAGED {
            let Some(message) = self.decoder.next_message() else { break };
            self.messages += 1;
            match message {
                Message::Hello(release) => self.release = Some(clean_lines(&release)),
                Message::NoPorts(why) => self.no_ports = Some(clean_lines(&why)),
                Message::Progress(text) => {
                    progress::step(&format!("{}: {}", self.options.kernel.release, clean_lines(&text)));
                }
                Message::Answer(bytes) => self.answer = Some(Ok(bytes)),
                Message::Failure(why) => self.answer = Some(Err(clean_lines(&why))),
            }
        }
        true
    }
}

/// The text of a file of the guest.
pub fn read_text(path: &Path) -> String {
    // Only shown to people. An empty text is better than a second error that hides the first.
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).replace('\r', "")
}

/// How long a booting guest may print nothing: a kernel that hangs is known before the time limit of its boot. A whole boot
/// takes 2 to 4 s, a sixth of this. `None` if the user silences the kernel.
fn patience(boot_limit: Duration, options: &GuestOptions) -> Option<Duration> {
    let silences = |word: &str| word == "quiet" || ["console=", "loglevel="].iter().any(|name| word.starts_with(name));
    if options.append.iter().flat_map(|words| words.split_whitespace()).any(silences) {
        return None;
    }
    // While it unpacks its archive, it prints nothing either.
    let unpacking = options.files.as_ref().map_or(0, |archive| archive.len() >> 24);
    Some((boot_limit / 6).max(LEAST_PATIENCE) + Duration::from_secs(unpacking as u64))
}

/// With a low limit of the boot, too.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// The message of a kernel that has given up: in a panic, or before it was unpacked.
fn last_words(console: &str) -> Option<String> {
    let end = ["Kernel panic - not syncing", "-- System halted"];
    console.lines().find_map(|line| end.iter().find_map(|end| line.get(line.find(end)?..))).map(clean)
}

/// Why QEMU exited without an answer.
pub(crate) fn why_ended(status: ExitStatus, console: &str, errors: &str, damaged: u64) -> String {
    if let Some(panic) = last_words(console) {
        return panic;
    }
    // GLib prints "**" on a line of its own before the reason for an abort.
    let telling = |line: &&str| !line.trim().is_empty() && line.trim() != "**" && !line.contains("warning:");
    let said = errors.lines().find(telling);
    if let Some(signal) = status.signal() {
        let said = said.map(|line| format!(" ({line})")).unwrap_or_default();
        return format!("QEMU was killed by signal {signal}{said}");
    }
    if !status.success() {
        return format!("QEMU failed: {}", clean_lines(said.unwrap_or("no error message").trim()));
    }
    if damaged > 0 {
        return format!("its answer was damaged ({damaged} frames with errors)");
    }
    "ended without an answer".to_owned()
}

/// The last lines of the console, to append to a message.
pub(crate) fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let shown = lines.get(lines.len().saturating_sub(12)..).unwrap_or_default();
    let mut text = String::from("; its last lines:");
    for line in shown {
        text.push('\n');
        text.extend(clean(line).chars().take(200));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_death_is_found() {
        let console = "[    1.0] x\n[    1.2] Kernel panic - not syncing: No working init found.\n[    1.3] CPU: 0\n";
        let ok = ExitStatus::from_raw(0);
        assert_eq!(why_ended(ok, console, "", 0), "Kernel panic - not syncing: No working init found.");
        assert_eq!(why_ended(ok, "Out of memory\n\n -- System halted\n", "", 0), "-- System halted");
        assert_eq!(why_ended(ok, "", "", 0), "ended without an answer");
        assert_eq!(why_ended(ok, "", "", 2), "its answer was damaged (2 frames with errors)");
        let failed = ExitStatus::from_raw(1 << 8);
        let errors = "qemu: warning: x\nqemu-system-x86_64: could not load kernel\n";
        assert_eq!(why_ended(failed, "", errors, 0), "QEMU failed: qemu-system-x86_64: could not load kernel");
        assert_eq!(why_ended(ExitStatus::from_raw(11), "", "", 0), "QEMU was killed by signal 11");
    }

    #[test]
    fn a_silent_guest_is_not_waited_for() {
        let kernel = crate::vm::Kernel {
            image: "x".into(),
            processor: crate::arch::Processor::X86_64,
            release: "x".to_owned(),
            config: None,
        };
        let mut options = GuestOptions::of(kernel);
        let seconds =
            |limit, options: &GuestOptions| patience(Duration::from_secs(limit), options).map(|p| p.as_secs());
        assert_eq!([120, 600, 3].map(|limit| seconds(limit, &options)), [Some(20), Some(100), Some(10)]);
        options.files = Some(std::sync::Arc::new(vec![0; 64 << 20]));
        assert_eq!(seconds(120, &options), Some(24));
        for silent in ["quiet", "psi=0 loglevel=1", "console=tty0"] {
            options.append = vec![silent.to_owned()];
            assert_eq!(seconds(120, &options), None, "{silent}");
        }
    }

    #[test]
    fn a_console_cannot_control_the_terminal() {
        let text = last_lines("a\n\x1b[31mred\n");
        assert_eq!(text, "; its last lines:\na\n?[31mred");
        assert_eq!(last_lines("\n"), "; it printed nothing");
    }
}

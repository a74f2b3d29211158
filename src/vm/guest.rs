//! The host side of a guest: start QEMU, read the guest's messages, explain a missing answer, clean up.

use crate::document::{Emulator, ExecutedOn};
use crate::util::{cancel, progress};
use crate::vm::job::Assignment;
use crate::vm::protocol::{Decoder, Message};
use crate::vm::scratch::{self, Scratch};
use crate::vm::{Accel, GuestOptions, Job, elf, initramfs, kvm, qemu};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The result of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestReply {
    /// The job's answer; see [`Job`].
    pub body: Vec<u8>,
    pub executed_on: ExecutedOn,
    pub emulator: Emulator,
    /// `uname -r` in the guest.
    pub release: String,
    /// Notes for the user on how the guest was run: `KVM did not start a guest within 15 s`.
    pub notes: Vec<String>,
    /// The complete console output of the guest.
    pub console: String,
}

impl GuestReply {
    /// The answer, parsed as JSON.
    ///
    /// # Errors
    /// When the answer is not JSON of this type.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).context("cannot parse the guest's answer")
    }
}

/// Why a guest gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The guest never reached `/init`.
    #[error("{0}")]
    NotStarted(String),
    /// The guest did not reach `/init` before the time limit.
    #[error("{0}")]
    TooLate(String),
    /// The guest reached `/init`, but failed later.
    #[error("{0}")]
    Failed(String),
}

/// Boot the kernel in `options`, run `job` in it and return the answer. The guest has ended when this returns.
///
/// # Errors
/// One line with the cause, followed by the last lines of the guest's console; or the error of the job itself.
pub fn run_job(options: &GuestOptions, job: &Job) -> Result<GuestReply> {
    let version = qemu::version()?;
    static CLEANED: OnceLock<usize> = OnceLock::new();
    CLEANED.get_or_init(|| {
        let removed = scratch::clean_up();
        if removed > 0 {
            progress::note(&format!("removed temporary files of killed runs ({removed})"));
        }
        removed
    });
    let mut given_up = None;
    if options.plugin.is_some() && options.accel == Accel::Kvm {
        bail!("--accel kvm cannot count instructions: use --accel tcg");
    } else if options.plugin.is_none() && options.accel != Accel::Tcg {
        let probing = options.accel == Accel::Auto;
        match kvm::usable(&version) {
            Ok(()) => {
                let limit = if probing { options.boot_limit.min(kvm::LIMIT) } else { options.boot_limit };
                let tried = attempt(options, job, ExecutedOn::Kvm, &version, limit);
                let no_answer = tried.as_ref().err().and_then(|error| error.downcast_ref());
                match no_answer {
                    Some(NoAnswer::TooLate(_)) if probing => {
                        let why = format!("a KVM guest did not reach init within {} s", limit.as_secs());
                        given_up = Some((why, true));
                    }
                    Some(NoAnswer::NotStarted(why)) if probing => {
                        // This failure was quick, so the next run may try KVM again.
                        given_up = Some((why.lines().next().unwrap_or_default().to_owned(), false));
                    }
                    _ => {
                        return tried.map(|mut reply| {
                            if probing {
                                reply.notes.push("--accel auto: using KVM".to_owned());
                            }
                            reply
                        });
                    }
                }
            }
            Err(why) if probing => given_up = Some((why, false)),
            Err(why) => bail!("--accel kvm: {why}; use --accel tcg for emulation"),
        }
    }
    let mut reply = attempt(options, job, ExecutedOn::Tcg, &version, options.boot_limit)?;
    if let Some((why, slow)) = given_up {
        if slow {
            // TCG booted this kernel, so the failure was KVM's and not the kernel's.
            kvm::remember(&version, &why);
        }
        reply.notes.push(format!("--accel auto: using TCG, because KVM does not work: {why}"));
    } else if options.accel == Accel::Auto {
        reply.notes.push("--accel auto: using TCG, which counting instructions requires".to_owned());
    }
    Ok(reply)
}

/// Run one guest from start to end.
fn attempt(
    options: &GuestOptions,
    job: &Job,
    on: ExecutedOn,
    version: &str,
    boot_limit: Duration,
) -> Result<GuestReply> {
    let scratch = Scratch::new()?;
    let files = qemu::Files {
        initramfs: scratch.path("initramfs"),
        console: scratch.path("console"),
        reply: scratch.path("reply"),
    };
    let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).with_context(|| scratch::no_room(path));
    let assignment = Assignment { job: job.clone(), executed_on: on, cpus: options.cpus };
    // If it cannot be read, the comparison of configurations has one line less.
    let config = options.kernel.config.as_ref().and_then(|path| fs::read(path).ok());
    let config = config.as_deref().map(|config| (options.kernel.release.as_str(), config));
    let init = init_binary(&options.init)?;
    write(&files.initramfs, &initramfs::build(&init, &serde_json::to_vec(&assignment)?, config))?;
    write(&files.reply, &[])?;
    write(&files.console, &[])?;
    let errors = scratch.path("errors");
    let arguments = qemu::arguments(options, on, &files);
    progress::step(&format!("booting {}", options.kernel.release));
    progress::detail(|| format!("the guest's console, while it runs: {}", files.console.display()));
    let qemu = Qemu::start(&arguments, File::create(&errors).with_context(|| scratch::no_room(&errors))?)?;
    let mut watch = Watch {
        options,
        boot_limit,
        qemu,
        reply: File::open(&files.reply).with_context(|| format!("cannot read {}", files.reply.display()))?,
        replied: 0,
        decoder: Decoder::default(),
        release: None,
        answer: None,
    };
    let end = watch.follow(&files.console);
    let console = read_text(&files.console);
    let emulator = qemu::describe(version, &arguments, &files, options);
    if let (Ok(_), Some(answer)) = (&end, watch.answer.take()) {
        let body =
            answer.map_err(|why| NoAnswer::Failed(format!("in the guest ({}): {why}", options.kernel.release)))?;
        let release = watch.release.unwrap_or_default();
        return Ok(GuestReply { body, executed_on: on, emulator, release, notes: Vec::new(), console });
    }
    if cancel::happened() {
        return Err(cancel::Cancelled.into());
    }
    let (why, late) = match end {
        Err(GuestKilled { why, late }) => (why, late),
        Ok(status) => (why_ended(status, &console, &read_text(&errors), watch.decoder.damaged()), false),
    };
    let cramped = if watch.release.is_none() && options.memory_mib < LITTLE_MEMORY_MIB {
        format!(" (try more than --memory {}M)", options.memory_mib)
    } else {
        String::new()
    };
    let text = format!("guest {}: {why}{cramped}{}", options.kernel.release, last_lines(&console));
    Err(match (watch.release.is_some(), late) {
        (true, _) => NoAnswer::Failed(text),
        (false, true) => NoAnswer::TooLate(text),
        (false, false) => NoAnswer::NotStarted(text),
    }
    .into())
}

/// With less memory, a stock kernel may not be able to unpack its initramfs.
const LITTLE_MEMORY_MIB: u64 = 256;

/// The guest's init binary without debug sections.
fn init_binary(path: &Path) -> Result<Arc<Vec<u8>>> {
    static LAST: Mutex<Option<(PathBuf, Arc<Vec<u8>>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match &*last {
        Some((known, binary)) if known == path => Ok(Arc::clone(binary)),
        _ => {
            let file = fs::read(path).with_context(|| format!("cannot read {} (the guest's init)", path.display()))?;
            let binary = Arc::new(elf::without_debug(&file).unwrap_or(file));
            *last = Some((path.to_owned(), Arc::clone(&binary)));
            Ok(binary)
        }
    }
}

/// A running QEMU. It is killed when this value is dropped, and when this process dies.
struct Qemu {
    child: Child,
}

impl Qemu {
    fn start(arguments: &[std::ffi::OsString], errors: File) -> Result<Self> {
        let parent = std::process::id();
        let mut command = Command::new(qemu::program());
        // A separate process group: Ctrl-C goes only to this process, which then ends QEMU.
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).process_group(0);
        // SAFETY: only async-signal-safe calls (prctl, getppid) between fork and exec.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // The parent died before prctl took effect, so no signal will come.
                if std::os::unix::process::parent_id() != parent {
                    return Err(std::io::Error::other("the parent process has ended"));
                }
                Ok(())
            });
        }
        progress::detail(|| format!("starting {command:?}"));
        Ok(Self { child: command.spawn().with_context(qemu::missing)? })
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn kill(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Watch<'a> {
    options: &'a GuestOptions,
    boot_limit: Duration,
    qemu: Qemu,
    reply: File,
    /// Bytes read from `reply`.
    replied: u64,
    decoder: Decoder,
    release: Option<String>,
    answer: Option<Result<Vec<u8>, String>>,
}

/// Why this side killed the guest.
struct GuestKilled {
    why: String,
    /// The guest did not reach init before the time limit.
    late: bool,
}

/// How often to poll the guest's files.
const PACE: Duration = Duration::from_millis(10);

/// How long a guest may take to reset after its answer. Plugins write their results in that time.
const FAREWELL: Duration = Duration::from_secs(60);

/// Longer console output means a kernel that repeats itself until the disk is full.
const LONGEST_CONSOLE: u64 = 64 << 20;

/// Larger replies are invalid. The largest, of a run with all collectors, is a few MiB.
const LONGEST_REPLY: u64 = 256 << 20;

/// How long a panicking kernel may take to print its report.
const REPORT: Duration = Duration::from_secs(3);

impl Watch<'_> {
    /// Follow the guest to its end. The error says why this side killed it.
    fn follow(&mut self, console: &Path) -> Result<ExitStatus, GuestKilled> {
        let started = Instant::now();
        let mut booted = None;
        let mut answered = None;
        let mut panicked = None;
        let mut looked = 0;
        loop {
            let ended = self.qemu.ended();
            self.read_reply();
            if let Some(status) = ended {
                return Ok(status);
            }
            if cancel::happened() {
                self.qemu.kill();
                return Err(GuestKilled { why: "interrupted".to_owned(), late: false });
            }
            if self.release.is_some() && booted.is_none() {
                booted = Some(Instant::now());
            }
            if self.answer.is_some() && answered.is_none() {
                answered = Some(Instant::now());
            }
            looked += 1;
            let printed = fs::metadata(console).map_or(0, |metadata| metadata.len());
            if panicked.is_none() && looked % 50 == 0 && panic_line(&read_text(console)).is_some() {
                panicked = Some(Instant::now());
            }
            let over = |since: Option<Instant>, limit: Duration| since.is_some_and(|since| since.elapsed() > limit);
            let mut late = false;
            let why = if printed > LONGEST_CONSOLE {
                format!("printed more than {} MiB on its console", LONGEST_CONSOLE >> 20)
            } else if self.replied > LONGEST_REPLY {
                format!("answered more than {} MiB", LONGEST_REPLY >> 20)
            } else if over(answered, FAREWELL) {
                format!("answered, but did not shut down within {} s", FAREWELL.as_secs())
            } else if over(panicked, REPORT) {
                panic_line(&read_text(console)).unwrap_or_else(|| "kernel panic".to_owned())
            } else if booted.is_none() && over(Some(started), self.boot_limit) {
                let limit = self.boot_limit.as_secs_f64();
                late = true;
                format!("did not reach init within {limit} s: see its last lines below, or raise --boot-limit")
            } else if answered.is_none() && over(booted, self.options.time_limit) {
                let limit = self.options.time_limit.as_secs_f64();
                format!("did not finish within {limit} s: raise --time-limit, unless it hangs")
            } else {
                std::thread::sleep(PACE);
                continue;
            };
            self.qemu.kill();
            return Err(GuestKilled { why, late });
        }
    }

    fn read_reply(&mut self) {
        let mut bytes = Vec::new();
        // This is a local file of ours. If a read fails, the next one gets the data.
        let _ = (&self.reply).take(LONGEST_REPLY).read_to_end(&mut bytes);
        if bytes.is_empty() || self.replied > LONGEST_REPLY {
            return;
        }
        self.replied += bytes.len() as u64;
        self.decoder.feed(&bytes);
        while let Some(message) = self.decoder.next_message() {
            match message {
                Message::Hello(release) => self.release = Some(printable(&release)),
                Message::Progress(text) => {
                    progress::step(&format!("{}: {}", self.options.kernel.release, printable(&text)));
                }
                Message::Answer(bytes) => self.answer = Some(Ok(bytes)),
                Message::Failure(why) => self.answer = Some(Err(printable(&why))),
            }
        }
    }
}

fn read_text(path: &Path) -> String {
    // Only shown to people. An empty text is better than a second error that hides the first.
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).replace('\r', "")
}

/// Text from the guest, made safe to print: no control characters reach the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

/// The kernel's panic message.
fn panic_line(console: &str) -> Option<String> {
    let line = console.lines().find(|line| line.contains("Kernel panic - not syncing"))?;
    let at = line.find("Kernel panic")?;
    line.get(at..).map(printable)
}

/// Why QEMU exited without an answer.
fn why_ended(status: ExitStatus, console: &str, errors: &str, damaged: u64) -> String {
    if let Some(panic) = panic_line(console) {
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
        return format!("QEMU failed: {}", printable(said.unwrap_or("no error message").trim()));
    }
    if damaged > 0 {
        return format!("its answer was damaged ({damaged} frames with errors)");
    }
    "ended without an answer".to_owned()
}

/// The last lines of the console, indented, to append to a message.
fn last_lines(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "; it printed nothing".to_owned();
    }
    let shown = lines.get(lines.len().saturating_sub(12)..).unwrap_or_default();
    let mut text = String::from("; its last lines:");
    for line in shown {
        text.push_str("\n    ");
        text.extend(printable(line).chars().take(200));
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
        assert_eq!(why_ended(ok, "", "", 0), "ended without an answer");
        assert_eq!(why_ended(ok, "", "", 2), "its answer was damaged (2 frames with errors)");
        let failed = ExitStatus::from_raw(1 << 8);
        let errors = "qemu: warning: x\nqemu-system-x86_64: could not load kernel\n";
        assert_eq!(why_ended(failed, "", errors, 0), "QEMU failed: qemu-system-x86_64: could not load kernel");
        assert_eq!(why_ended(ExitStatus::from_raw(11), "", "", 0), "QEMU was killed by signal 11");
    }

    #[test]
    fn a_console_cannot_control_the_terminal() {
        let text = last_lines("a\n\x1b[31mred\n");
        assert_eq!(text, "; its last lines:\n    a\n     [31mred");
        assert_eq!(last_lines("\n"), "; it printed nothing");
    }
}

//! Process 1 of a guest: mount file systems, run the job, send the answer, reset.

use crate::arch::Processor;
use crate::guest::{cgroup, cpus, job, ports};
use crate::util::{memory, progress};
use crate::vm::delivery;
use crate::vm::hardware::Hardware;
use crate::vm::initramfs;
use crate::vm::job::{Assignment, GuestFacts, INSIDE, TO_RECORD};
use crate::vm::protocol::{self, Message};
use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};
use std::fs::{self, File};
use std::io::Write;
use std::panic::UnwindSafe;
use std::path::Path;
use std::sync::Arc;

/// Whether this process is the init of a pipeprof guest, and not, for example, the first process of a container.
pub fn is_init() -> bool {
    std::process::id() == 1
        && std::env::args_os().next().is_some_and(|name| name == "/init")
        && Path::new(initramfs::JOB).exists()
}

/// The serial port for messages.
const PORT: &str = Hardware::of(Processor::HERE).port;

/// File systems: type, mount point, options.
const MOUNTS: [(&str, &str, &str); 9] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("tmpfs", "/tmp", ""),
    ("tmpfs", "/dev/shm", ""),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("debugfs", "/sys/kernel/debug", ""),
    ("cgroup2", cgroup::ROOT, ""),
    ("bpf", "/sys/fs/bpf", ""),
];

/// Devices that a kernel without devtmpfs does not create: name, major, minor.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("urandom", 1, 9), ("ttyS0", 4, 64), ("ttyS1", 4, 65)];

/// Settings of the guest: file, value. Files that the kernel does not have are skipped.
const SETTINGS: [(&str, &str); 5] = [
    ("/proc/sys/kernel/kptr_restrict", "0"),
    ("/proc/sys/kernel/perf_event_paranoid", "-1"),
    // Samples are slow under emulation; do not let the kernel lower its sampling rate because of that.
    ("/proc/sys/kernel/perf_cpu_time_max_percent", "0"),
    ("/proc/sys/kernel/unprivileged_bpf_disabled", "0"),
    // From now on print only panics: the console is slow.
    ("/proc/sys/kernel/printk", "1"),
];

/// Run as init. Never returns: the guest ends.
pub fn main() -> ! {
    let mounts = prepare();
    match open_port() {
        Ok(port) => serve(&port, &mounts),
        Err(error) => util::errln!("pipeprof: {error:#}: the guest's kernel needs 8250 serial ports"),
    }
    rustix::fs::sync();
    // SAFETY: reboot(2) accesses no memory of this process, and init has nothing left to lose.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_RESTART) };
    // If the kernel cannot reset, the exit of init makes it panic, which ends the guest.
    std::process::exit(0);
}

/// Mounted file systems, and those that failed.
#[derive(Debug, Default)]
struct Mounts {
    done: Vec<String>,
    failed: Vec<String>,
}

fn prepare() -> Mounts {
    let mut mounts = Mounts::default();
    for (kind, place, options) in MOUNTS {
        // This fails in /sys, where the kernel has already created the folders that it supports.
        let _ = fs::create_dir_all(place);
        let options = std::ffi::CString::new(options).unwrap_or_default();
        match mount("none", place, kind, MountFlags::empty(), Some(options.as_c_str())) {
            Ok(()) => mounts.done.push(place.to_owned()),
            Err(error) => mounts.failed.push(format!("{place}: {error}")),
        }
    }
    for (name, major, minor) in DEVICES {
        let path = format!("/dev/{name}");
        if !Path::new(&path).exists() {
            let mode = rustix::fs::Mode::from_raw_mode(0o666);
            let device = rustix::fs::makedev(major, minor);
            // If it fails, opening the device will report it.
            let _ = rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::CharacterDevice, mode, device);
        }
    }
    for (path, value) in SETTINGS {
        let _ = fs::write(path, value);
    }
    let unlimited = rustix::process::Rlimit { current: None, maximum: None };
    // Before 5.11, BPF maps count as locked memory.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Memlock, unlimited);
    mounts
}

/// Open the serial port in raw mode: bytes are neither changed nor echoed.
fn open_port() -> Result<File> {
    let port = File::options().read(true).write(true).open(PORT).with_context(|| format!("cannot open {PORT}"))?;
    let mut settings = rustix::termios::tcgetattr(&port).with_context(|| format!("{PORT} is not a terminal"))?;
    settings.make_raw();
    rustix::termios::tcsetattr(&port, rustix::termios::OptionalActions::Now, &settings)
        .with_context(|| format!("cannot configure {PORT}"))?;
    Ok(port)
}

fn send(mut port: &File, message: &Message) -> std::io::Result<()> {
    port.write_all(&protocol::encode(message)?)?;
    rustix::termios::tcdrain(port)?;
    Ok(())
}

fn serve(port: &File, mounts: &Mounts) {
    let tell = |message: &Message| {
        if let Err(error) = send(port, message) {
            util::errln!("pipeprof: cannot write to {PORT}: {error}");
        }
    };
    if let Err(error) = cpus::bring_up(cpus::present()) {
        return tell(&Message::Failure(format!("{error:#}")));
    }
    // Whatever fails is reported when it is needed.
    if is_to_record() {
        let _ = job::own_command(&[INSIDE.to_owned()]);
    }
    if let Err(error) = ports::ready() {
        tell(&Message::NoPorts(format!("{error:#}")));
    }
    // In a restored guest, all that follows is new.
    tell(&Message::Hello(release()));
    if let Ok(port) = port.try_clone() {
        let port = Arc::new(port);
        // Lost progress messages do no harm.
        progress::redirect(move |text| drop(send(&port, &Message::Progress(text.to_owned()))));
    }
    tell(&reply(|| perform(mounts)));
}

/// Whether the host has it prepare a recording.
fn is_to_record() -> bool {
    fs::read_to_string("/proc/cmdline").is_ok_and(|words| words.split_whitespace().any(|word| word == TO_RECORD))
}

/// Its answer, or how it failed. A panic of this program must not become a panic of the kernel.
fn reply(job: impl FnOnce() -> Result<Vec<u8>> + UnwindSafe) -> Message {
    match std::panic::catch_unwind(job) {
        Ok(Ok(answer)) => Message::Answer(answer),
        Ok(Err(error)) => Message::Failure(format!("{error:#}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let text = text.unwrap_or_default();
            Message::Failure(format!("pipeprof panicked (please report this bug): {text}"))
        }
    }
}

fn perform(mounts: &Mounts) -> Result<Vec<u8>> {
    let bytes = match ports::file(delivery::FILE) {
        Some(bytes) => bytes,
        None => fs::read(initramfs::JOB).with_context(|| format!("cannot read {}", initramfs::JOB))?,
    };
    let assignment: Assignment = serde_json::from_slice(&bytes).context("cannot parse the job")?;
    unpack()?;
    cpus::bring_up(assignment.cpus)?;
    job::perform(&assignment, || facts(mounts))
}

/// Unpack the files that come with the job, if any.
fn unpack() -> Result<()> {
    let archive = match ports::file(delivery::ARCHIVE).filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => bytes,
        None if Path::new(initramfs::FILES).exists() => {
            let bytes = fs::read(initramfs::FILES).with_context(|| format!("cannot read {}", initramfs::FILES))?;
            // Its memory is of use to the job.
            fs::remove_file(initramfs::FILES).with_context(|| format!("cannot remove {}", initramfs::FILES))?;
            bytes
        }
        None => return Ok(()),
    };
    progress::step("unpacking files");
    let mut archive = tar::Archive::new(&archive[..]);
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(false);
    archive.unpack("/").context("cannot unpack the files: give the guest more --memory")
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn facts(mounts: &Mounts) -> GuestFacts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    GuestFacts {
        release: release(),
        cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        memory_kib: memory::total().unwrap_or(0) >> 10,
        command_line: read("/proc/cmdline"),
        mounts: mounts.done.clone(),
        mount_errors: mounts.failed.clone(),
        controllers: read(&format!("{}/cgroup.controllers", cgroup::ROOT)),
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        uptime_ns: u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_like_an_error() {
        assert_eq!(reply(|| Ok(vec![1])), Message::Answer(vec![1]));
        assert_eq!(reply(|| anyhow::bail!("no disk")), Message::Failure("no disk".to_owned()));
        let panicked = |text: &str| Message::Failure(format!("pipeprof panicked (please report this bug): {text}"));
        assert_eq!(reply(|| panic!("asked for")), panicked("asked for"));
        assert_eq!(
            reply(|| panic!("number {}", std::process::id())),
            panicked(&format!("number {}", std::process::id()))
        );
    }
}

//! Builds QEMU's command line, with the reason for each flag.

use crate::arch::Processor;
use crate::result::{Emulator, ExecutedOn};
use crate::util::text::two_numbers;
use crate::vm::hardware::Hardware;
use crate::vm::{GuestOptions, delivery};
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The emulator of a processor: `$PIPEPROF_QEMU`, or `qemu-system-x86_64` in PATH.
pub fn program(processor: Processor) -> OsString {
    Hardware::of(processor).program()
}

/// QEMU's version line: `QEMU emulator version 7.2.22 (Debian ...)`. It is asked once.
pub fn version(processor: Processor) -> Result<String> {
    static KNOWN: Mutex<BTreeMap<OsString, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().map_err(|_| anyhow!("internal error: a thread panicked"))?;
    if let Some(version) = known.get(&program(processor)) {
        return Ok(version.clone());
    }
    let version = asked_version(processor)?;
    known.insert(program(processor), version.clone());
    Ok(version)
}

fn asked_version(processor: Processor) -> Result<String> {
    let output = Command::new(program(processor)).arg("--version").stdin(Stdio::null()).output();
    let output = output.with_context(|| missing(processor))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().next() {
        Some(line) if output.status.success() && line.contains("version") => Ok(line.trim().to_owned()),
        _ => bail!("{} --version: this is not QEMU", program(processor).display()),
    }
}

/// The first two numbers of [`version`]: (7, 2).
pub fn version_numbers(processor: Processor) -> Result<(u32, u32)> {
    let text = version(processor)?;
    numbers_in(&text).with_context(|| format!("no version number in '{text}'"))
}

fn numbers_in(text: &str) -> Option<(u32, u32)> {
    two_numbers(text.split_once("version ")?.1)
}

/// Whether the QEMU of this [`version`] can spoil the flags of a guest's processor; see [`run_job`](crate::vm::run_job).
pub(crate) fn spoils_flags(version: &str) -> bool {
    numbers_in(version).is_some_and(|numbers| numbers < (8, 0))
}

pub fn missing(processor: Processor) -> String {
    let Hardware { package, variable, .. } = Hardware::of(processor);
    let program = program(processor);
    format!(
        "cannot start {}: install QEMU (Debian: apt install {package}), or name it in {variable}",
        program.display()
    )
}

/// Paths of the files of one guest.
#[derive(Debug, Clone)]
pub struct Files {
    pub initramfs: PathBuf,
    /// Output of the guest's first serial port: its console.
    pub console: PathBuf,
    /// Output of the second: its messages.
    pub reply: PathBuf,
    /// The job, which init reads from the emulator's configuration device; TCG only.
    pub job: PathBuf,
    /// An archive of further files, likewise.
    pub archive: PathBuf,
    /// What QEMU prints.
    pub errors: PathBuf,
}

impl Files {
    /// Those in `folder`; it is empty for arguments that are only compared.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let [initramfs, console, reply, job, archive, errors] =
            ["initramfs", "console", "reply", "job", "archive", "errors"].map(|name| folder.join(name));
        Self { initramfs, console, reply, job, archive, errors }
    }
}

/// How a guest starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'a> {
    /// With its kernel.
    Boot,
    /// With its kernel, to be stopped and saved when it is ready for a job. QEMU's monitor is on standard input, and this
    /// file is the guest's memory.
    BootToSave(&'a Path),
    /// From a saved state, which the monitor on standard input names, and this file of the guest's memory, which is not
    /// changed.
    Restore(&'a Path),
}

/// QEMU's arguments for a guest that starts in this way, without the program name.
pub(crate) fn starting(start: Start<'_>, options: &GuestOptions, on: ExecutedOn, files: &Files) -> Vec<OsString> {
    let mut arguments = arguments(options, on, files);
    let (memory, shared, added) = match start {
        Start::Boot => return arguments,
        // Stop when init says that it is ready. The last of these options counts.
        Start::BootToSave(memory) => (memory, "on", ["-action", "panic=pause"]),
        // The kernel and the initramfs are in the state.
        Start::Restore(memory) => {
            arguments.truncate(arguments.iter().position(|word| word == "-append").unwrap_or(arguments.len()));
            (memory, "off", ["-incoming", "defer"])
        }
    };
    arguments.extend(added.map(OsString::from));
    let file = format!(
        "memory-backend-file,id=memory,size={}M,share={shared},mem-path={}",
        options.memory_mib,
        escape(memory)
    );
    arguments.extend(["-object", &file, "-machine", "memory-backend=memory"].map(OsString::from));
    arguments
        .extend(["-chardev", "socket,id=monitor,fd=0", "-mon", "chardev=monitor,mode=control"].map(OsString::from));
    arguments
}

/// QEMU's arguments for a guest that boots, without the program name. Documents show these, however the guest starts.
pub fn arguments(options: &GuestOptions, on: ExecutedOn, files: &Files) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
    // Ignore the host's QEMU configuration and leave out default devices: no network, disk, monitor or display.
    add(&["-no-user-config", "-nodefaults", "-display", "none"]);
    let hardware = Hardware::of(options.kernel.processor);
    add(&["-machine", hardware.machine]);
    add(&["-cpu", cpu(options, on)]);
    add(&["-smp", &options.cpus.to_string()]);
    add(&["-m", &format!("{}M", options.memory_mib)]);
    // A guest that resets, after its job or a panic, ends QEMU.
    add(&["-no-reboot"]);
    if on == ExecutedOn::Kvm {
        add(&["-accel", "kvm"]);
    } else {
        // One thread for all CPUs: their order does not depend on the host.
        add(&["-accel", "tcg,thread=single"]);
        // The name by which turns.c finds the thread that executes the CPUs.
        add(&["-name", "pipeprof,debug-threads=on"]);
        // The guest's clock advances 1 ns per instruction. When idle, it jumps to the next timer instead of waiting.
        add(&["-icount", "shift=0,sleep=off"]);
        // QEMU's random numbers (the kernel's seed, RDRAND) are the same each time.
        add(&["-seed", "1"]);
        // The time of day starts at a fixed date and follows the guest's clock.
        add(&["-rtc", "base=2026-01-01,clock=vm"]);
        add(&["-device", hardware.ready, "-action", "panic=none"]);
        // Where init finds its job, booted or restored.
        add(&["-fw_cfg", &format!("name={},file={}", delivery::FILE, escape(&files.job))]);
        if options.files.is_some() {
            add(&["-fw_cfg", &format!("name={},file={}", delivery::ARCHIVE, escape(&files.archive))]);
        }
    }
    // Write to files, which never block. A full pipe would make the guest poll for as long as the host takes. The
    // console comes first; messages have a port of their own.
    for ((name, path), [option, port]) in
        [("console", &files.console), ("reply", &files.reply)].into_iter().zip(hardware.ports)
    {
        add(&["-chardev", &format!("file,id={name},path={}", escape(path)), option, &port.replace("NAME", name)]);
    }
    if let Some(disk) = &options.disk {
        // NVMe: stock kernels, also those for clouds, have this driver built in, unlike those of other disks.
        add(&["-drive", &format!("if=none,id=disk,format=raw,readonly=on,file={}", escape(disk))]);
        add(&["-device", "nvme,serial=pipeprof,drive=disk"]);
    }
    if let Some(plugin) = &options.plugin {
        let mut text = format!("file={}", escape(&plugin.so));
        for (name, value) in &plugin.args {
            text.push_str(&format!(",{name}={}", value.replace(',', ",,")));
        }
        add(&["-plugin", &text]);
    }
    add(&["-append", &command_line(options, on)]);
    arguments.extend(["-kernel".into(), options.kernel.image.clone().into_os_string()]);
    arguments.extend(["-initrd".into(), files.initramfs.clone().into_os_string()]);
    arguments
}

fn cpu(options: &GuestOptions, on: ExecutedOn) -> &str {
    options.cpu.as_deref().unwrap_or(cpu_model(options.kernel.processor, on))
}

/// The CPU model of guests for which none is given.
pub fn cpu_model(processor: Processor, on: ExecutedOn) -> &'static str {
    match on {
        ExecutedOn::Kvm => "host",
        _ => Hardware::of(processor).cpu,
    }
}

/// Double the commas of a path, because a single comma separates options.
fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The kernel's arguments: pipeprof's, then the user's. The kernel uses the last one if they conflict.
pub fn command_line(options: &GuestOptions, on: ExecutedOn) -> String {
    let hardware = Hardware::of(options.kernel.processor);
    let mut words = hardware.words.to_vec();
    words.extend([
        // Use the init of our archive, not one on a disk.
        "rdinit=/init",
        // Reset at once on a panic, and thereby end QEMU.
        "panic=-1",
        "oops=panic",
        // Addresses as in System.map, the same in each boot.
        "nokaslr",
        // The same for user addresses.
        "norandmaps",
        // When an algorithm is first used, as by the driver of a disk, a thread tests it, which would take the CPU from a
        // pipeline that has begun: on 6.12 for 0.2 s of the guest's clock.
        "cryptomgr.notests=1",
    ]);
    if on == ExecutedOn::Tcg {
        words.extend([
            // Random numbers depend on the seed only.
            "random.trust_cpu=off",
            // Skip module certificates and the self-test of a random number generator: a seventh of the boot's
            // instructions, not needed by pipes.
            "initcall_blacklist=load_system_certificate_list,jent_mod_init",
        ]);
        words.extend(hardware.emulated_words);
    }
    if on == ExecutedOn::Tcg && options.cpus > 1 {
        // init brings up the other CPUs (see guest::cpus), because the kernel's own way can hang.
        words.push("maxcpus=1");
    }
    if options.disk.is_some() {
        // The clock of an idle guest runs ahead while the host reads, so the driver must not count that as an error.
        words.extend(["nvme_core.io_timeout=1000000", "nvme_core.admin_timeout=1000000"]);
    }
    if options.kernel.release.contains("-rt") {
        // With interrupts in threads, Linux 6.1 takes most of those of the serial port for unhandled ones and disables it
        // after 100,000 (kernel/irq/spurious.c, `note_interrupt`): the guest's reply would not end.
        words.push("noirqdebug");
    }
    words.extend(options.append.iter().map(String::as_str));
    words.join(" ")
}

/// The emulator as recorded in the document: its version, and its arguments with run-specific paths replaced by
/// names.
pub fn describe(version: &str, arguments: &[OsString], files: &Files, options: &GuestOptions) -> Emulator {
    let mut replace: Vec<(String, String)> =
        [&files.initramfs, &files.console, &files.reply, &files.job, &files.archive]
            .iter()
            .filter_map(|path| Some((path, path.file_name()?.to_str()?.to_owned())))
            // The path after -initrd is not escaped.
            .flat_map(|(path, name)| [(escape(path), name.clone()), (path.display().to_string(), name)])
            .collect();
    replace.extend(options.disk.iter().map(|disk| (escape(disk), "disk".to_owned())));
    replace.push((options.kernel.image.display().to_string(), format!("vmlinuz-{}", options.kernel.release)));
    if let Some(plugin) = &options.plugin {
        let name = plugin.so.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        replace.push((escape(&plugin.so), name));
    }
    let text = |argument: &OsString| {
        let mut text = argument.to_string_lossy().into_owned();
        for (path, name) in &replace {
            text = text.replace(path.as_str(), name);
        }
        // A plugin's own arguments contain paths of the run.
        match text.strip_prefix("file=").and_then(|plugin| plugin.split_once(',')) {
            Some((so, _)) => format!("file={so}"),
            None => text,
        }
    };
    Emulator { version: version.to_owned(), arguments: arguments.iter().map(text).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::{Kernel, PluginArgs};

    fn options() -> GuestOptions {
        let kernel = Kernel {
            image: "/k/vmlinuz".into(),
            processor: Processor::X86_64,
            release: "6.1.0-test".into(),
            config: None,
        };
        GuestOptions { append: vec!["psi=0".into()], ..GuestOptions::of(kernel) }
    }

    fn files() -> Files {
        Files::in_folder(Path::new("/t/x,1"))
    }

    #[test]
    fn the_emulated_guest_is_deterministic_and_the_other_is_not() {
        let text = |on| {
            let arguments = arguments(&options(), on, &files());
            arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let tcg = text(ExecutedOn::Tcg);
        for flag in ["-icount shift=0,sleep=off", "-seed 1", "clock=vm", "random.trust_cpu=off", "-cpu qemu64"] {
            assert!(tcg.contains(flag), "{flag}: {tcg}");
        }
        assert!(tcg.contains("path=/t/x,,1/console"), "{tcg}");
        assert!(tcg.contains(" psi=0 -kernel"), "{tcg}");
        let kvm = text(ExecutedOn::Kvm);
        assert!(kvm.contains("-accel kvm") && kvm.contains("-cpu host") && !kvm.contains("icount"), "{kvm}");
        let mut realtime = options();
        realtime.kernel.release = "6.1.0-56-rt-amd64".to_owned();
        assert!(command_line(&realtime, ExecutedOn::Tcg).ends_with(" noirqdebug psi=0") && !tcg.contains("noirqdebug"));
        assert!(tcg.contains("pvpanic") && !kvm.contains("pvpanic") && !kvm.contains("fw_cfg"), "{kvm}");
    }

    #[test]
    fn a_restored_guest_has_the_same_machine_and_no_kernel() {
        let text = |start| {
            let arguments = starting(start, &options(), ExecutedOn::Tcg, &files());
            arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let memory = Path::new("/c/m,1");
        let (boot, save, restore) = (text(Start::Boot), text(Start::BootToSave(memory)), text(Start::Restore(memory)));
        assert!(save.starts_with(&boot) && save.contains("panic=pause"), "{save}");
        assert!(save.contains("share=on,mem-path=/c/m,,1 ") && restore.contains("share=off,"), "{save} {restore}");
        let (machine, _) = restore.split_once(" -incoming defer").unwrap();
        assert!(boot.starts_with(machine) && boot[machine.len()..].starts_with(" -append"), "{restore}");
    }

    #[test]
    fn the_document_names_no_files_of_the_run() {
        let plugin = PluginArgs { so: "/t/x,1/plug.so".into(), args: vec![("out".into(), "/t/x,1/out".into())] };
        let options = GuestOptions { plugin: Some(plugin), ..options() };
        let arguments = arguments(&options, ExecutedOn::Tcg, &files());
        let emulator = describe("QEMU", &arguments, &files(), &options);
        let text = emulator.arguments.join(" ");
        assert!(!text.contains("/t/") && !text.contains("/k/"), "{text}");
        assert!(text.contains("path=console") && text.contains("vmlinuz-6.1.0-test"), "{text}");
        assert!(text.contains("file=job"), "{text}");
        assert!(text.contains("-plugin file=plug.so -append"), "{text}");
    }

    #[test]
    fn a_disk_is_attached_read_only_and_has_no_path_in_the_document() {
        let options = GuestOptions { disk: Some("/t/x,1/disk".into()), ..options() };
        let arguments = arguments(&options, ExecutedOn::Tcg, &files());
        let text = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
        assert!(text.contains("readonly=on,file=/t/x,,1/disk -device nvme,"), "{text}");
        let shown = describe("QEMU", &arguments, &files(), &options).arguments.join(" ");
        assert!(shown.contains("readonly=on,file=disk -device nvme,"), "{shown}");
    }

    #[test]
    fn versions_have_numbers() {
        assert_eq!(numbers_in("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"), Some((7, 2)));
        assert_eq!(numbers_in("QEMU emulator version 10.0.13"), Some((10, 0)));
        assert_eq!(numbers_in("bash"), None);
    }
}

//! The host side of a guest: start QEMU, from a snapshot if possible, explain a missing answer, clean up.

use crate::arch::Processor;
use crate::result::{Emulator, ExecutedOn, Warning};
use crate::util::warning::WarningCode;
use crate::util::{cancel, progress, regular, stored_json};
use crate::vm::emulator::Qemu;
use crate::vm::freeze::{self, FeedResult};
use crate::vm::image::LARGEST_IMAGE;
use crate::vm::job::Assignment;
use crate::vm::monitor::Monitor;
use crate::vm::qemu::Start;
use crate::vm::scratch::{self, Scratch};
use crate::vm::snapshots::{
    NewFiles, SavedFiles, SavedSizes, SnapshotFacts, SnapshotPlace, SnapshotState, Snapshots, digest,
};
use crate::vm::watch::{GuestEnd, Watch, last_lines, read_text, why_ended};
use crate::vm::{Accel, GuestOptions, Job, delivery, elf, hardware, initramfs, kvm, qemu};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

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
    pub notes: Vec<Warning>,
    /// The complete console output of the guest.
    pub console: String,
}

impl GuestReply {
    /// The answer, parsed as JSON.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        stored_json::parse(&self.body).context("cannot parse the guest's answer")
    }
}

/// Why a guest gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("{why}{lines}")]
pub struct NoAnswer {
    failure: GuestFailure,
    pub why: String,
    /// The last lines of its console, as they follow the reason.
    lines: String,
}

impl NoAnswer {
    fn failed(release: &str, why: &str) -> Self {
        let why = format!("in the guest ({release}): {why}");
        Self { failure: GuestFailure::Failed, why, lines: String::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuestFailure {
    /// It never reached `/init`.
    NotStarted,
    /// It did not reach `/init` before the time limit.
    TooLate,
    /// It reached `/init`, but failed later.
    Failed,
    /// It reached `/init`, then its kernel died in an exception.
    Exception,
}

/// Boot the kernel in `options`, run `job` in it and return the answer. The guest has ended when this returns.
pub fn run_job(options: &GuestOptions, job: &Job) -> Result<GuestReply> {
    let version = qemu::version(options.kernel.processor)?;
    clean_up_once();
    let mut given_up = None;
    if options.plugin.is_some() && options.accel == Accel::Kvm {
        bail!("--accel kvm cannot count instructions: use --accel tcg");
    } else if options.kernel.processor != Processor::HERE && options.accel == Accel::Kvm {
        bail!("--accel kvm executes only kernels of this machine's processor: use --accel tcg");
    } else if options.kernel.processor == Processor::HERE && options.plugin.is_none() && options.accel != Accel::Tcg {
        let probing = options.accel == Accel::Auto;
        match kvm::usable(&version) {
            Ok(()) => {
                let limit = if probing { options.boot_limit.min(kvm::LIMIT) } else { options.boot_limit };
                let tried = Guest::new(options, ExecutedOn::Kvm, &version, limit)?.run(job);
                let no_answer = tried.as_ref().err().and_then(|error| error.downcast_ref::<NoAnswer>());
                match no_answer.map(|no_answer| (no_answer.failure, &no_answer.why)) {
                    Some((GuestFailure::TooLate, _)) if probing => {
                        let why = format!("a KVM guest did not reach init within {} s", limit.as_secs());
                        given_up = Some((why, true));
                    }
                    Some((GuestFailure::NotStarted, why)) if probing => {
                        // This failure was quick, so the next run may try KVM again.
                        given_up = Some((why.clone(), false));
                    }
                    _ => {
                        return tried.map(|mut reply| {
                            if probing {
                                reply.notes.push(accelerator("--accel auto: using KVM"));
                            }
                            reply
                        });
                    }
                }
            }
            Err(why) if probing => given_up = Some((why.to_string(), false)),
            Err(why) => bail!("--accel kvm: {why}; use --accel tcg for emulation"),
        }
    }
    let mut reply = emulated(options, job, &version)?;
    if let Some((why, slow)) = given_up {
        if slow {
            // TCG booted this kernel, so the failure was KVM's and not the kernel's.
            kvm::remember(&version, &why);
        }
        reply.notes.push(accelerator(&format!("--accel auto: using TCG, because KVM does not work: {why}")));
    } else if options.accel == Accel::Auto {
        let why = match options.kernel.processor {
            Processor::HERE => "which counting instructions requires",
            _ => "because the kernel is for another processor",
        };
        reply.notes.push(accelerator(&format!("--accel auto: using TCG, {why}")));
    }
    Ok(reply)
}

/// Run `job` in an emulated guest.
///
/// Before QEMU 8.0, `cmpxchg16b`, which the kernel's slab allocator executes, leaves a value in place of the flags if an
/// interrupt comes right after it: helper_cmpxchg16b computes them with an operation that the translator has not stored
/// (8.0 calls gen_compute_eflags first). The kernel then dies in an exception, at the same instruction each time. One
/// more argument, which the kernel ignores, moves the interrupts.
fn emulated(options: &GuestOptions, job: &Job, version: &str) -> Result<GuestReply> {
    let run = |options: &GuestOptions| Guest::new(options, ExecutedOn::Tcg, version, options.boot_limit)?.run(job);
    let first = run(options);
    let died = first.as_ref().err().and_then(|error| error.downcast_ref::<NoAnswer>());
    let died = died.filter(|died| died.failure == GuestFailure::Exception && qemu::spoils_flags(version));
    let Some(NoAnswer { why, .. }) = died else { return first };
    progress::note(&format!("{why}; QEMU before 8.0 can cause this, so the guest starts once more"));
    let mut shifted = options.clone();
    shifted.append.push(SHIFT.to_owned());
    run(&shifted)
}

/// A kernel argument without effect.
const SHIFT: &str = "pipeprof.shift=1";

/// Check that guests of this processor can start: that their QEMU and their init are there.
///
/// # Errors
/// What is missing, and how to get it.
pub fn check_programs(processor: Processor) -> Result<()> {
    qemu::version(processor)?;
    init_binary(&hardware::binary_for(processor), processor).map(drop)
}

/// Remove what killed runs left, if this process has not yet done so.
pub(crate) fn clean_up_once() {
    static CLEANED: OnceLock<usize> = OnceLock::new();
    CLEANED.get_or_init(|| {
        let removed = scratch::clean_up();
        if removed > 0 {
            progress::note(&format!("removed temporary files of killed runs ({removed})"));
        }
        removed
    });
}

fn accelerator(message: &str) -> Warning {
    Warning { code: WarningCode::Accelerator, message: message.to_owned(), action: String::new() }
}

/// What to do if QEMU's threads do not take turns.
pub const FIX_OF_TURNS: &str =
    "use a QEMU with `qemu` in its file's name, linked dynamically with glibc 2.34 or newer (PIPEPROF_QEMU)";

fn out_of_turn() -> Warning {
    Warning {
        code: WarningCode::Turns,
        message: "on a busy machine, this guest may differ from its repeats: QEMU's threads could not be put in order"
            .into(),
        action: FIX_OF_TURNS.into(),
    }
}

/// What all guests of one job share, however they start.
struct Guest<'a> {
    options: &'a GuestOptions,
    on: ExecutedOn,
    /// QEMU's version line.
    version: &'a str,
    boot_limit: Duration,
    init: Arc<Vec<u8>>,
    /// The kernel's configuration, if known.
    config: Option<Vec<u8>>,
}

struct SavedGuest {
    place: SnapshotPlace,
    files: SavedFiles,
    sizes: SavedSizes,
}

/// Why there is no saved guest, although the kernel may boot.
struct Unsaved(String);

impl<'a> Guest<'a> {
    fn new(options: &'a GuestOptions, on: ExecutedOn, version: &'a str, boot_limit: Duration) -> Result<Self> {
        let init = init_binary(&options.init, options.kernel.processor)?;
        // If it cannot be read, the comparison of configurations has one line less.
        let config = options.kernel.config.as_ref().and_then(|path| regular::read(path, LARGEST_IMAGE).ok());
        Ok(Self { options, on, version, boot_limit, init, config })
    }

    /// Run the job in a restored guest, or in one that boots.
    fn run(&self, job: &Job) -> Result<GuestReply> {
        let assignment = Assignment { job: job.clone(), executed_on: self.on, cpus: self.options.cpus };
        let job = delivery::filled(serde_json::to_vec(&assignment)?);
        let mut why_booted = None;
        // QEMU cannot save a guest with a disk.
        if self.options.snapshot && self.on == ExecutedOn::Tcg && self.options.disk.is_none() {
            match self.saved()? {
                Ok(saved) => match self.restored(&job, saved)? {
                    Ok(reply) => return Ok(reply),
                    Err(Unsaved(why)) => why_booted = Some(why),
                },
                Err(Unsaved(why)) => why_booted = Some(why),
            }
        }
        let mut reply = self.booted(&job)?;
        reply.notes.extend(why_booted.map(|why| Warning {
            code: WarningCode::Snapshot,
            message: format!("the guest was booted, not restored from a snapshot: {why}"),
            action: String::new(),
        }));
        Ok(reply)
    }

    fn booted(&self, job: &[u8]) -> Result<GuestReply> {
        let files = GuestFiles::new(&self.archive(job, self.options.files.as_deref()), job, None)?;
        progress::step(&format!("booting {}", self.options.kernel.release));
        let arguments = qemu::starting(Start::Boot, self.options, self.on, &files.names);
        let qemu = Qemu::start(
            self.options.kernel.processor,
            &arguments,
            Stdio::null(),
            files.errors()?,
            None,
            self.in_turn(),
        )?;
        let mut watch = Watch::new(self.options, self.on, self.boot_limit, qemu, files.reply()?);
        let end = watch.follow(&files.names.console, None);
        self.reply(watch, end, &files)
    }

    /// Run the job in a guest that starts from a snapshot. The inner error: it did not start.
    fn restored(&self, job: &[u8], saved: SavedGuest) -> Result<Result<GuestReply, Unsaved>> {
        let files = GuestFiles::new(&[], job, self.options.files.as_deref())?;
        progress::step(&format!("restoring {}", self.options.kernel.release));
        // Its name may be gone before QEMU opens it.
        let memory = PathBuf::from(format!("/proc/self/fd/{}", saved.files.memory.as_raw_fd()));
        let arguments = qemu::starting(Start::Restore(&memory), self.options, self.on, &files.names);
        let (mut monitor, socket) = Monitor::new()?;
        let (from, to) = freeze::pipe()?;
        let mut qemu = Qemu::start(
            self.options.kernel.processor,
            &arguments,
            OwnedFd::from(socket).into(),
            files.errors()?,
            Some(&saved.files.memory),
            self.in_turn(),
        )?;
        let feeder = freeze::feed(saved.files, saved.sizes, to);
        let restored = freeze::restore(&mut qemu, &mut monitor, from);
        let mut watch = Watch::new(self.options, self.on, self.boot_limit, qemu, files.reply()?);
        let end = match restored {
            Ok(()) => watch.follow(&files.names.console, None),
            Err(error) => GuestEnd::Killed { why: format!("{error:#}"), late: false },
        };
        if watch.release.is_some() || cancel::happened() {
            return self.reply(watch, end, &files).map(Ok);
        }
        // QEMU must not run when the feeder is waited for.
        drop(watch);
        // A snapshot that does not start once would not start again.
        saved.place.discard();
        let said = read_text(&files.names.errors);
        Ok(Err(Unsaved(match (feeder.join(), end) {
            (Ok(FeedResult::Damaged), _) => "a file of it was damaged, and it has been removed".to_owned(),
            (_, GuestEnd::Exited(status)) => why_ended(status, "", &said, 0),
            (_, GuestEnd::Stopped) => "QEMU stopped it".to_owned(),
            (_, GuestEnd::Killed { why, .. }) => said.lines().last().map_or(why, |line| line.trim().to_owned()),
        })))
    }

    /// The snapshot for this guest, made now if it does not exist. The outer error: the guest cannot boot either.
    fn saved(&self) -> Result<Result<SavedGuest, Unsaved>> {
        let place = match Snapshots::open().and_then(|snapshots| Ok(snapshots.place(self.depends_on()?))) {
            Ok(place) => place,
            Err(error) => return Ok(Err(Unsaved(format!("{error:#}")))),
        };
        let usable = |(facts, files): (SnapshotFacts, Option<SavedFiles>)| match (facts.state, files) {
            (SnapshotState::Saved(sizes), Some(files)) => Some(Ok(SavedGuest { place: place.clone(), files, sizes })),
            (SnapshotState::Impossible(why), _) => Some(Err(Unsaved(why))),
            (SnapshotState::Saved(_), None) => None,
        };
        if let Some(found) = place.find().and_then(usable) {
            return Ok(found);
        }
        let lock = match place.lock() {
            Ok(lock) => lock,
            Err(error) if cancel::happened() => return Err(error),
            Err(error) => return Ok(Err(Unsaved(format!("{error:#}")))),
        };
        // Another process may have made it in the meantime.
        if let Some(found) = place.find().and_then(usable) {
            return Ok(found);
        }
        let made = match place.begin(&lock) {
            Ok(new) => self.make(new),
            Err(error) => Ok(Err(Unsaved(format!("{error:#}")))),
        };
        let state = match made {
            Ok(Ok(state)) => state,
            failed => {
                place.abandon(&lock);
                return Ok(Err(failed?.err().unwrap_or_else(|| Unsaved("it was not made".to_owned()))));
            }
        };
        if let Err(error) = place.finish(&lock, &self.options.kernel.release, state) {
            return Ok(Err(Unsaved(format!("{error:#}"))));
        }
        Ok(place.find().and_then(usable).unwrap_or_else(|| Err(Unsaved("it has been removed again".to_owned()))))
    }

    /// Boot a guest until it is ready for a job, and save it in the `new` files. The outer error: it cannot boot.
    fn make(&self, new: NewFiles) -> Result<Result<SnapshotState, Unsaved>> {
        let release = &self.options.kernel.release;
        let files = GuestFiles::new(&self.archive(&delivery::blank(), None), &delivery::blank(), None)?;
        progress::step(&format!("booting {release} once, for a snapshot"));
        // Without the plugin, which only counts in a window, and without files, which come with a job.
        let options = GuestOptions { plugin: None, files: None, ..self.options.clone() };
        let arguments = qemu::starting(Start::BootToSave(&new.memory), &options, self.on, &files.names);
        let (mut monitor, socket) = Monitor::new()?;
        let (from, to) = freeze::pipe()?;
        let qemu = Qemu::start(
            self.options.kernel.processor,
            &arguments,
            OwnedFd::from(socket).into(),
            files.errors()?,
            None,
            self.in_turn(),
        )?;
        let mut watch = Watch::new(&options, self.on, self.boot_limit, qemu, files.reply()?);
        let end = watch.follow(&files.names.console, Some(&mut monitor));
        if let Some(why) = watch.no_ports {
            let why = format!(
                "{release} does not let init access the machine's devices (x86: CONFIG_X86_IOPL_IOPERM): {why}"
            );
            return Ok(Ok(SnapshotState::Impossible(why)));
        }
        if !matches!(end, GuestEnd::Stopped) {
            return Err(self.no_answer(watch, end, &files));
        }
        let receiver = freeze::receive(from, new.state);
        let saved = freeze::save(&mut watch.qemu, &mut monitor, to);
        cancel::check()?;
        // Without QEMU, the receiver ends. If it could not write, QEMU's error is only a consequence.
        drop(watch);
        Ok(match (receiver.join(), saved) {
            (Ok(Err(error)), _) => Err(Unsaved(format!("cannot write it: {error}"))),
            (_, Err(error)) => Err(Unsaved(format!("{error:#}"))),
            (Ok(Ok(state)), Ok(())) => match freeze::written(&new.memory) {
                Ok((memory, mark)) => Ok(SnapshotState::Saved(SavedSizes { state, memory, mark })),
                Err(error) => Err(Unsaved(format!("its memory cannot be read: {error}"))),
            },
            (Err(_), Ok(())) => Err(Unsaved("it could not be written".to_owned())),
        })
    }

    /// All that a snapshot depends on, as text.
    fn depends_on(&self) -> Result<String> {
        let image = &self.options.kernel.image;
        let image = regular::read(image, LARGEST_IMAGE).with_context(|| format!("cannot read {}", image.display()))?;
        let name = |bytes: &[u8]| format!("{:016x} ({} bytes)", digest(bytes), bytes.len());
        let names = qemu::Files::in_folder(Path::new(""));
        let options = GuestOptions { plugin: None, files: None, ..self.options.clone() };
        let arguments = qemu::arguments(&options, self.on, &names);
        let lines = [
            "format 3".to_owned(),
            format!("qemu {}: {}", qemu::program(self.options.kernel.processor).display(), self.version),
            format!("kernel {}", name(&image)),
            format!("config {}", self.config.as_deref().map(name).unwrap_or_default()),
            format!("init {}", name(&self.init)),
        ];
        let arguments = qemu::describe(self.version, &arguments, &names, &options).arguments;
        Ok([lines.join("\n"), arguments.join("\n")].join("\n"))
    }

    /// Whether the emulator's threads take turns. With KVM, the guest is not the same each time anyway; with a disk neither,
    /// and one that is busy would wait for the disk until it sleeps.
    fn in_turn(&self) -> bool {
        self.on == ExecutedOn::Tcg && self.options.disk.is_none()
    }

    fn archive(&self, job: &[u8], files: Option<&Vec<u8>>) -> Vec<u8> {
        let config = self.config.as_deref().map(|config| (self.options.kernel.release.as_str(), config));
        initramfs::build(&self.init, job, config, files.map(Vec::as_slice))
    }

    /// The guest's answer, after its end.
    fn reply(&self, mut watch: Watch<'_>, end: GuestEnd, files: &GuestFiles) -> Result<GuestReply> {
        if let (GuestEnd::Exited(_), Some(answer)) = (&end, watch.answer.take()) {
            let release = &self.options.kernel.release;
            let body = answer.map_err(|why| NoAnswer::failed(release, &why))?;
            let arguments = qemu::arguments(self.options, self.on, &files.names);
            return Ok(GuestReply {
                body,
                executed_on: self.on,
                emulator: qemu::describe(self.version, &arguments, &files.names, self.options),
                release: watch.release.unwrap_or_default(),
                notes: watch.qemu.is_out_of_turn().then(out_of_turn).into_iter().collect(),
                console: read_text(&files.names.console),
            });
        }
        Err(self.no_answer(watch, end, files))
    }

    /// Why a guest gave no answer.
    fn no_answer(&self, watch: Watch<'_>, end: GuestEnd, files: &GuestFiles) -> anyhow::Error {
        if cancel::happened() {
            return cancel::Cancelled.into();
        }
        let console = read_text(&files.names.console);
        let release = &self.options.kernel.release;
        let (why, late) = match end {
            GuestEnd::Killed { why, late } => (why, late),
            GuestEnd::Stopped => ("QEMU stopped it".to_owned(), false),
            GuestEnd::Exited(status) => match &watch.answer {
                Some(Err(why)) => return NoAnswer::failed(release, why).into(),
                _ => (why_ended(status, &console, &read_text(&files.names.errors), watch.damaged()), false),
            },
        };
        let cramped = if watch.release.is_none() && self.options.memory_mib < LITTLE_MEMORY_MIB {
            format!(" (try more than --memory {}M)", self.options.memory_mib)
        } else {
            String::new()
        };
        let failure = match (watch.release.is_some(), late) {
            (true, _) if console.contains("Kernel panic - not syncing: Fatal exception") => GuestFailure::Exception,
            (true, _) => GuestFailure::Failed,
            (false, true) => GuestFailure::TooLate,
            (false, false) => GuestFailure::NotStarted,
        };
        NoAnswer { failure, why: format!("guest {release}: {why}{cramped}"), lines: last_lines(&console) }.into()
    }
}

/// The files of one running guest.
struct GuestFiles {
    names: qemu::Files,
    _scratch: Scratch,
}

impl GuestFiles {
    /// Write them to a temporary folder.
    fn new(initramfs: &[u8], job: &[u8], archive: Option<&Vec<u8>>) -> Result<Self> {
        let scratch = Scratch::new()?;
        let names = qemu::Files::in_folder(&scratch.path(""));
        let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).with_context(|| scratch::no_room(path));
        write(&names.initramfs, initramfs)?;
        write(&names.job, job)?;
        // A guest that boots has them in its initramfs, and nothing here.
        write(&names.archive, archive.map_or(&[], Vec::as_slice))?;
        write(&names.reply, &[])?;
        write(&names.console, &[])?;
        progress::detail(|| format!("the guest's console, while it runs: {}", names.console.display()));
        Ok(Self { names, _scratch: scratch })
    }

    fn errors(&self) -> Result<File> {
        File::create(&self.names.errors).with_context(|| scratch::no_room(&self.names.errors))
    }

    fn reply(&self) -> Result<File> {
        regular::open(&self.names.reply).with_context(|| format!("cannot read {}", self.names.reply.display()))
    }
}

/// With less memory, a stock kernel may not be able to unpack its initramfs.
const LITTLE_MEMORY_MIB: u64 = 256;

/// What to do if there is no init for guests of this processor.
fn way_to_init(processor: Processor) -> String {
    if processor == Processor::HERE {
        return String::new();
    }
    let (variable, debian) = (processor.name().to_uppercase(), processor.debian());
    format!(
        ": guests of {debian} need pipeprof built for {debian}: run `make build-{debian}`, or set PIPEPROF_{variable} to its path"
    )
}

/// The guest's init binary without debug sections.
fn init_binary(path: &Path, processor: Processor) -> Result<Arc<Vec<u8>>> {
    static LAST: Mutex<Option<(PathBuf, Arc<Vec<u8>>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match &*last {
        Some((known, binary)) if known == path => Ok(Arc::clone(binary)),
        _ => {
            let file = regular::read(path, LARGEST_IMAGE).with_context(|| {
                format!("cannot read {} (the guest's init){}", path.display(), way_to_init(processor))
            })?;
            let binary = Arc::new(elf::without_debug(&file).unwrap_or(file));
            *last = Some((path.to_owned(), Arc::clone(&binary)));
            Ok(binary)
        }
    }
}

//! Count the instructions of a pipeline in a guest, by stage, calling context and role. The emulator's plugin counts;
//! nothing is attached inside the guest. Each stage marks its begin between fork and exec, and takes its children and
//! threads with it: the plugin sees where the kernel prepares the stack of a new task.

use super::launch::{Launcher, PipelineSetup, StageStreams, exit_code};
use super::model::{RecordedInstructions, Recording, StageInstructions};
use super::pipeline::PipelineCommand;
use super::stages;
use super::wait;
use crate::collect::insn::{Names, Plugin, Raw, count as named};
use crate::collect::stacks::USER;
use crate::document::code::ExecutedCode;
use crate::kernel::symbols::Symbols;
use crate::profile::{ClassifiedStacks, ProcessName, Profile, SchedulingWeight, Unit, attribute};
use crate::roles::Skid;
use crate::run::KernelFunctions;
use crate::util::marker;
use crate::vm::scratch::Scratch;
use crate::vm::{Accel, GuestOptions, PluginArgs, qemu};
use anyhow::{Context as _, Result, ensure};
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The process that starts the stages.
const STARTER: &str = "pipeprof";

/// The kernel's function that prepares the stack of a new task (arch/x86/kernel/process.c).
const BIRTH: &str = "copy_thread";

/// A pipeline that does nothing looks at its time limit so often.
const PACE: Duration = Duration::from_secs(1);

/// After its boot, a kernel still does work that changes its own code, such as the choice of the TSC as clock about one
/// second later (arch/x86/kernel/tsc.c, `tsc_refine_calibration_work`). On the guest's clock, waiting takes no time.
const BOOT_WORK: Duration = Duration::from_secs(4);

/// What a pipeline executed.
#[derive(Debug)]
pub(crate) struct CountedPipeline {
    pub instructions: RecordedInstructions,
    /// Of each stage.
    pub profiles: Vec<Profile>,
    /// The kernel's code that was executed. User code is not in it: the programs share addresses.
    pub code: ExecutedCode,
}

/// Count `pipeline`, which `run` runs in the guest that it is given and whose exit codes it returns. `recording`: the
/// same pipeline, recorded.
///
/// # Errors
/// When there are too many stages, or the guest, QEMU or the plugin gives no complete counts.
pub(super) fn count(
    pipeline: &PipelineCommand,
    guest: &GuestOptions,
    recording: &Recording,
    run: impl Fn(&GuestOptions) -> Result<Vec<u8>>,
) -> Result<CountedPipeline> {
    let stages = pipeline.stages.len();
    ensure!(stages < marker::MOST as usize, "--collect insn counts at most {} stages", marker::MOST - 1);
    let functions = KernelFunctions::of(&GuestOptions { files: None, disk: None, ..guest.clone() }, None)?;
    let scratch = Scratch::new()?;
    let so = scratch.path("plugin");
    let folder = so.parent().context("a temporary folder has a name")?;
    let births = births(&functions.symbols);
    // One window for each stage, and for the process that starts them.
    let plugin = Plugin::write(folder, qemu::version_numbers()?, &vec![1; stages + 1], 1)?.for_programs(births.clone());
    let args = PluginArgs { so: plugin.so.clone(), args: plugin.args.clone() };
    let codes = run(&GuestOptions { accel: Accel::Tcg, plugin: Some(args), ..guest.clone() })?;
    let raw = Raw::read(&plugin.out(0)).with_context(|| format!("guest {}", guest.kernel.release))?;
    let names = Names::new(functions.symbols, None, &raw);
    let mut processes = vec![ProcessName::new(STARTER)];
    processes.extend((1..).zip(&pipeline.stages).map(|(number, words)| stage_name(number, words)));
    let counted = named(&raw, &names, &processes)?;
    let mut others = 0;
    let mut profiles = Vec::new();
    for profile in counted.profiles {
        if processes.iter().skip(1).any(|stage| *stage == profile.process) {
            profiles.push(profile);
        } else {
            others += profile.stacks.total();
        }
    }
    let mut code = counted.code;
    let rep_bytes = |process: ProcessName| -> u64 {
        counted
            .classes
            .get(process)
            .into_iter()
            .flat_map(ClassifiedStacks::iter)
            .map(|(_, counts)| counts.rep_bytes)
            .sum()
    };
    code.functions.retain(|function| function.name != USER);
    let mut collector = counted.report;
    if codes != recording.exit_codes {
        // Such as SIGPIPE, which depends on who is faster.
        let recorded = &recording.exit_codes;
        collector.notes.push(format!("this run ended with exit codes {codes:?}, the recorded one with {recorded:?}"));
    }
    if births.is_none() {
        collector.notes.push(format!("this kernel has no symbol {BIRTH}: what stages fork is counted as others"));
    }
    let of_stage = |process: usize, stage: usize| recording.processes[process].stage as usize == stage;
    let moved = |stage| stages::moved(recording, |process| of_stage(process, stage));
    let stages = profiles.iter().enumerate().map(|(stage, profile)| StageInstructions {
        name: profile.process.as_str().to_owned(),
        instructions: profile.stacks.total(),
        rep_bytes: Some(rep_bytes(profile.process)),
        scheduling: SchedulingWeight::of(profile),
        roles: attribute(&profile.stacks, Unit::Instructions, Skid::None, &moved(stage)),
    });
    let instructions = RecordedInstructions {
        cpus: guest.cpus,
        stages: stages.collect(),
        others,
        collector,
        symbols: functions.roles,
    };
    Ok(CountedPipeline { instructions, profiles, code })
}

/// `stage1-dd`.
fn stage_name(number: usize, words: &[String]) -> ProcessName {
    let program = words.first().map_or("", String::as_str);
    let name = Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy());
    ProcessName::new(&format!("stage{number}-{name}"))
}

/// The addresses of [`BIRTH`].
fn births(symbols: &Symbols) -> Option<Range<u64>> {
    let start = symbols.functions(BIRTH).first()?.address;
    // Its end is the next function.
    let end = symbols.iter().map(|symbol| symbol.address).filter(|address| *address > start).min()?;
    Some(start..end)
}

/// Empty each CPU's list of free pages (mm/page_alloc.c, `struct per_cpu_pages`). It has what was freed before, such as
/// the memory into which the files were unpacked: thousands of pages, or none. The kernel returns them all at once when it
/// frees a page table after many pages, so one of the stages would do that work, and which one, if any, would depend on
/// the files' sizes. A process that uses much memory and ends does it instead.
fn empty_page_lists() -> Result<()> {
    /// More than the lists of 5.10 to 6.6 hold. Those of newer kernels can grow, but return few pages at a time.
    const MOST: u64 = 64 << 20;
    // Small guests must not run out of memory.
    let bytes = usize::try_from(MOST.min(rustix::system::sysinfo().totalram / 8))?;
    for cpu in 0..std::thread::available_parallelism()?.get() {
        let mut command = Command::new("/proc/self/exe");
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        // SAFETY: between fork and exec, the child only calls the kernel and writes to its own new mapping.
        unsafe {
            command.pre_exec(move || {
                rustix::thread::sched_setaffinity(None, &set)?;
                let flags = rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::POPULATE;
                let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
                rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)?;
                libc::_exit(0)
            });
        }
        command.spawn()?.wait()?;
    }
    Ok(())
}

/// In the guest: run `pipeline` with markers, and return its exit codes.
///
/// # Errors
/// When a program cannot be started.
pub(super) fn run_marked(
    pipeline: &PipelineCommand,
    streams: StageStreams,
    duration: Option<Duration>,
) -> Result<Vec<u8>> {
    let launcher = Launcher::new()?;
    let setup = PipelineSetup { streams: Some(streams), marked: true, ..PipelineSetup::default() };
    std::thread::sleep(BOOT_WORK);
    empty_page_lists().context("cannot prepare the guest's memory")?;
    marker::emit_begin(0);
    let started = launcher.start(pipeline, setup, &mut |_| Ok(()));
    let statuses = started.and_then(|_| wait(&launcher, duration, || PACE));
    let stages = u32::try_from(pipeline.stages.len())?;
    (0..=stages).rev().for_each(marker::emit_end);
    Ok(statuses?.into_iter().map(exit_code).collect())
}

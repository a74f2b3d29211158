//! Count the instructions of a pipeline in a guest, by stage, calling context and role. The emulator's plugin counts;
//! nothing is attached inside the guest. Each stage marks its begin between fork and exec, and takes its children and
//! threads with it: the plugin sees where the kernel prepares the stack of a new task.

use crate::arch::marker;
use crate::collect::insn::{Names, Plugin, Raw, UserFiles, count as named, system_calls};
use crate::process::Phase;
use crate::profile::{ByProcess, ClassifiedStacks, ProcessName, Profile, Unit, attribute};

use crate::record::model::stages;
use crate::record::start::launch::{Launcher, PipelineSetup};
use crate::record::waiting::wait;
use crate::result::code::{ExecutedCode, ExecutedFunction};
use crate::result::{
    Collector, CollectorReport, Document, Ensemble, Outcome, PairRecord, PipelineCommand, ProcessTotals, Processes,
    RecordedChannel, SystemCallCount, UserContexts, WindowCount,
};
use crate::roles::Skid;
use crate::run::{BIRTH, KernelFunctions};
use crate::util::own_child::pin;
use crate::util::text::{clean, counted as counted_noun};
use crate::util::warning::{Warning, WarningCode};
use crate::util::{decision, progress};
use crate::vm::hardware::Hardware;
use crate::vm::scratch::Scratch;
use crate::vm::{Accel, GuestOptions, PluginArgs, qemu, side_by_side};
use anyhow::{Context as _, Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The name of the counter of bytes that instructions with a `rep` prefix moved.
pub const REP_BYTES: &str = "rep_bytes";

/// The name of the counter of page faults: calls of [`FAULT`].
pub(crate) const PAGE_FAULTS: &str = "page_faults";

/// The kernel's function that handles a page fault of user memory (mm/memory.c).
const FAULT: &str = "handle_mm_fault";

/// The process that starts the stages.
const STARTER: &str = "pipeprof";

/// With fewer bytes, as those of a number that is printed, values per KiB say nothing: another digit would change them all.
pub(crate) const FEWEST_BYTES: u64 = 16 << 10;

/// A pipeline that does nothing looks at its time limit so often.
const PACE: Duration = Duration::from_secs(1);

/// How often a pipeline is counted: more often than `fewest` if that leaves changes undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    pub fewest: u32,
    pub most: u32,
    /// Of the first run.
    pub contexts: UserContexts,
}

impl RunLimits {
    pub const fn exactly(runs: u32) -> Self {
        Self { fewest: runs, most: runs, contexts: UserContexts::DEFAULT }
    }

    /// How many runs there should be, after `counted`.
    fn wanted(self, counted: &[CountedRun]) -> u32 {
        let totals: Vec<f64> = counted.iter().map(|run| run.window.without_scheduling() as f64).collect();
        let enough = u32::try_from(decision::windows_that_decide(&totals)).unwrap_or(u32::MAX);
        enough.clamp(self.fewest, self.most)
    }
}

/// What a pipeline executed.
#[derive(Debug)]
pub(crate) struct CountedRun {
    /// The sums of its profiles.
    window: WindowCount,
    /// Of each stage, its user code by function.
    profiles: Vec<Profile>,
    /// The same with calling contexts of user code; empty if they were not counted.
    contexts: Vec<Profile>,
    /// [`ProcessTotals::counters`] of each stage.
    counters: ByProcess<BTreeMap<String, u64>>,
    /// Instructions of pipeprof, which starts the stages, and of everything else meanwhile.
    others: u64,
    report: CollectorReport,
    system_calls: Vec<SystemCallCount>,
    /// The code that was executed, but for user code that is in no file: such programs share addresses.
    code: ExecutedCode,
    exit_codes: Vec<u8>,
    /// [`Ensemble::first_digest`].
    digest: String,
}

impl CountedRun {
    /// Whether it executed what the first run of `stored` did, in each stage, function and calling context.
    fn is_first_of(&self, stored: &Outcome) -> bool {
        self.exit_codes == stored.document.exit_codes
            && stored.windows.first() == Some(&self.profiles)
            && Some(self.others) == stored.document.attribution.others
    }
}

/// Runs a pipeline in the guest that it is given, as the run of this number, and returns its exit codes.
pub(crate) trait RunInGuest: Fn(&GuestOptions, u32) -> Result<Vec<u8>> + Sync {}

impl<F: Fn(&GuestOptions, u32) -> Result<Vec<u8>> + Sync> RunInGuest for F {}

/// Counts runs of a pipeline in guests. All runs are of one state of the guest, but each starts at another moment and with
/// another list of free pages ([`shift`]), so that they differ by what does not matter.
pub(crate) struct PipelineCounter<'a, R> {
    pipeline: &'a PipelineCommand,
    guest: &'a GuestOptions,
    /// What the guest may execute.
    files: &'a UserFiles,
    functions: KernelFunctions,
    births: Option<Range<u64>>,
    run: R,
}

impl<'a, R: RunInGuest> PipelineCounter<'a, R> {
    /// `run` runs `pipeline`.
    ///
    /// # Errors
    /// When there are too many stages, or the kernel's symbols are not known.
    pub(crate) fn new(
        pipeline: &'a PipelineCommand,
        (guest, files): (&'a GuestOptions, &'a UserFiles),
        run: R,
    ) -> Result<Self> {
        let stages = pipeline.stages.len();
        ensure!(stages < marker::MOST as usize, "--collect insn counts at most {} stages", marker::MOST - 1);
        let functions = KernelFunctions::of(guest, None)?;
        let births = functions.births();
        Ok(Self { pipeline, guest, files, functions, births, run })
    }

    /// The first run, unless what the plugin wrote of it is what it wrote of that of `stored`.
    ///
    /// # Errors
    /// When the guest, QEMU or the plugin gives no complete counts.
    pub(crate) fn first_unless_same(&self, stored: &Outcome, runs: RunLimits) -> Result<Option<RawRun>> {
        let raw = self.run(0, runs)?;
        let digest = stored.document.ensemble.as_ref().and_then(|ensemble| ensemble.first_digest.as_ref());
        let is_same = raw.exit_codes == stored.document.exit_codes && digest == Some(&raw.digest());
        Ok((!is_same).then_some(raw))
    }

    /// The fewest runs, of which the first one is known, unless that executed what the first one of `stored` did.
    ///
    /// # Errors
    /// As [`Self::first_unless_same`].
    pub(crate) fn others_unless_same(
        &self,
        first: RawRun,
        stored: &Outcome,
        runs: RunLimits,
    ) -> Result<Option<Vec<CountedRun>>> {
        let numbers: Vec<u32> = (1..runs.fewest).collect();
        std::thread::scope(|scope| {
            let others = scope.spawn(|| self.count(&numbers, runs));
            // Names take a while.
            let first = self.named(0, first)?;
            let others = others.join().map_err(|_| anyhow!("internal error: a thread panicked"))??;
            Ok((!first.is_first_of(stored)).then(|| [first].into_iter().chain(others).collect()))
        })
    }

    /// Count the fewest runs while `record` runs in a guest of its own, and return what both give.
    ///
    /// # Errors
    /// As [`Self::first_unless_same`], and those of `record`.
    pub(crate) fn beside<T: Send>(
        &self,
        record: impl Fn() -> Result<T> + Sync,
        runs: RunLimits,
    ) -> Result<(T, Vec<CountedRun>)> {
        let guests: Vec<Option<u32>> = [None].into_iter().chain((0..runs.fewest).map(Some)).collect();
        let guest = |number: &Option<u32>| match number {
            None => Ok((Some(record()?), None)),
            Some(number) => Ok((None, Some(self.run(*number, runs)?))),
        };
        let name = |number: &Option<u32>, (recorded, raw): (_, Option<RawRun>)| {
            let counted = number.zip(raw).map(|(number, raw)| self.named(number, raw)).transpose()?;
            Ok((recorded, counted))
        };
        let done = side_by_side::run_and(&guests, self.jobs(), guest, name)?;
        let (recorded, counted): (Vec<_>, Vec<_>) = done.into_iter().unzip();
        let recorded = recorded.into_iter().flatten().next().context("internal error: nothing was recorded")?;
        Ok((recorded, counted.into_iter().flatten().collect()))
    }

    /// How many guests run at a time. Several cannot write to one disk.
    pub(crate) fn jobs(&self) -> usize {
        if self.guest.disk.is_some() { 1 } else { side_by_side::most(self.guest.memory_mib << 20) }
    }

    /// Count it in so many `runs`, of which some may be `counted` already, and add the counts to `recorded`, the same
    /// pipeline, recorded.
    ///
    /// # Errors
    /// As [`Self::first_unless_same`].
    pub(crate) fn add(&self, recorded: &mut Outcome, runs: RunLimits, mut counted: Vec<CountedRun>) -> Result<()> {
        let is_begun = counted.len() < runs.fewest as usize;
        let mut wanted = if is_begun { runs.fewest } else { runs.wanted(&counted) };
        while counted.len() < wanted as usize {
            let numbers: Vec<u32> = (u32::try_from(counted.len())?..wanted).collect();
            if counted.len() >= runs.fewest as usize {
                let more = counted_noun(numbers.len() as u64, "more run");
                let text = clean(&self.pipeline.text());
                progress::note(&format!("counting {more} of {text}, because the first {} differ", counted.len()));
            }
            counted.extend(self.count(&numbers, runs)?);
            wanted = runs.wanted(&counted);
        }
        add_runs(recorded, counted);
        recorded.document.symbols.clone_from(&self.functions.roles);
        Ok(())
    }

    /// The runs of these numbers. Names take a while, so each gets them beside the next ones.
    fn count(&self, numbers: &[u32], runs: RunLimits) -> Result<Vec<CountedRun>> {
        let name = |number: &u32, raw| self.named(*number, raw);
        side_by_side::run_and(numbers, self.jobs(), |number| self.run(*number, runs), name)
    }

    fn run(&self, number: u32, runs: RunLimits) -> Result<RawRun> {
        // Flame graphs are of the first run.
        let contexts = if number == 0 { runs.contexts } else { UserContexts::NONE };
        let places = (self.births.clone(), self.functions.exec(), contexts);
        RawRun::count(self.guest, self.pipeline.stages.len(), places, |guest| (self.run)(guest, number))
    }

    /// The run of this number with names.
    fn named(&self, number: u32, run: RawRun) -> Result<CountedRun> {
        let digest = run.digest();
        let RawRun { raw, exit_codes } = run;
        let names = Names::new(self.functions.symbols.clone(), None, &raw).with_files(self.files, &raw);
        let mut processes = vec![ProcessName::new(STARTER)];
        processes.extend(stage_names(self.pipeline));
        let counted = named(&raw, &names, &processes)?;
        let mut system_calls = system_calls::of(&counted);
        system_calls.retain(|call| call.process != processes[0]);
        let is_stage = |profile: &Profile| processes.iter().skip(1).any(|stage| *stage == profile.process);
        let (profiles, rest): (Vec<Profile>, Vec<Profile>) = counted.profiles.into_iter().partition(is_stage);
        let others = rest.iter().map(|profile| profile.stacks.total()).sum();
        let contexts = counted.contexts.into_iter().filter(is_stage).collect();
        let mut code = counted.code;
        let handlers = code.functions.iter().filter(|function| function.file.is_none() && function.name == FAULT);
        let faults: BTreeMap<ProcessName, u64> = handlers
            .flat_map(|function| code.processes.iter().copied().zip(function.calls().iter().copied()))
            .collect();
        // Code of several programs that is in no file may have the same addresses.
        let is_kernel = |function: &ExecutedFunction| function.instructions.iter().all(|one| one.offset >> 63 == 1);
        code.functions.retain(|function| function.address > 0 || is_kernel(function));
        let counters = |profile: &Profile| {
            let classes = counted.classes.get(profile.process);
            let rep_bytes =
                classes.into_iter().flat_map(ClassifiedStacks::iter).map(|(_, counts)| counts.rep_bytes).sum();
            let faults = faults.get(&profile.process).copied().unwrap_or(0);
            let counters = [("instructions", profile.stacks.total()), (REP_BYTES, rep_bytes), (PAGE_FAULTS, faults)];
            (profile.process, counters.map(|(name, count)| (name.to_owned(), count)).into())
        };
        let mut report = counted.report;
        if self.births.is_none() {
            report.notes.push(format!("this kernel has no symbol {BIRTH}: what stages fork is counted as others"));
        }
        Ok(CountedRun {
            window: WindowCount::of(Phase(number), 1, &profiles),
            counters: profiles.iter().map(counters).collect(),
            profiles,
            contexts,
            others,
            report,
            system_calls,
            code,
            exit_codes,
            digest,
        })
    }
}

/// Add what was counted: all but the windows is of the first run.
fn add_runs(recorded: &mut Outcome, counted: Vec<CountedRun>) {
    let Outcome { document, profiles, windows, code, .. } = recorded;
    document.ensemble = Some(Ensemble::new(counted.iter().map(|run| run.window.clone()).collect()));
    document.unit = Unit::Instructions;
    Collector::Insn.name().clone_into(&mut document.attribution.collector);
    for (number, mut run) in counted.into_iter().enumerate() {
        let processes = totals(document, &run);
        document
            .runs
            .push(PairRecord { collectors: vec![Collector::Insn.name().to_owned()], processes: processes.clone() });
        windows.push(run.profiles.clone());
        if number > 0 {
            join(&mut document.system_calls, &run.system_calls);
            continue;
        }
        let results = std::mem::replace(&mut document.system_calls, run.system_calls);
        add_results(&mut document.system_calls, results);
        document.processes = processes;
        for (stage, profile) in run.profiles.iter().enumerate() {
            let mut moved = stages::moved(document, |process| of_stage(document, process, stage));
            moved.bytes = Some(moved.bytes).filter(|bytes| *bytes >= FEWEST_BYTES).unwrap_or_default();
            let shares = attribute(&profile.stacks, Unit::Instructions, Skid::None, &moved);
            document.attribution.processes.insert(profile.process, shares);
        }
        document.attribution.others = Some(run.others);
        document.ensemble.iter_mut().for_each(|ensemble| ensemble.first_digest = Some(run.digest.clone()));
        let (codes, recorded) = (&run.exit_codes, &document.exit_codes);
        if codes != recorded {
            // Such as SIGPIPE, which depends on who is faster.
            let note = format!("this run ended with exit codes {codes:?}, the recorded one with {recorded:?}");
            run.report.notes.push(note);
        }
        document.collectors.push(run.report);
        *profiles = if run.contexts.is_empty() { run.profiles } else { run.contexts };
        *code = Some(run.code);
    }
    let bytes = bytes_taken(document);
    if bytes < FEWEST_BYTES {
        let bytes = if bytes == 0 { "nothing".to_owned() } else { format!("only {}", counted_noun(bytes, "byte")) };
        document.warnings.push(Warning {
            code: WarningCode::NoPipes,
            message: format!("{bytes} went through its pipes, so all values are those of the whole run, not per KiB"),
            action: String::new(),
        });
    }
}

/// Add the calls of another run to those of the first.
fn join(calls: &mut Vec<SystemCallCount>, others: &[SystemCallCount]) {
    for call in calls.iter_mut() {
        let same = |other: &&SystemCallCount| (other.process, &other.name) == (call.process, &call.name);
        let other = others.iter().find(same).map_or(0, |other| other.calls);
        call.range = [call.range[0].min(other), call.range[1].max(other)];
    }
    for other in others {
        if !calls.iter().any(|call| (call.process, &call.name) == (other.process, &other.name)) {
            calls
                .push(SystemCallCount { range: [0, other.calls], ..SystemCallCount::none(other.process, &other.name) });
        }
    }
}

/// Add how the calls of the recorded run ended.
fn add_results(calls: &mut [SystemCallCount], results: Vec<SystemCallCount>) {
    for result in results {
        let same = |call: &&mut SystemCallCount| (call.process, &call.name) == (result.process, &result.name);
        if let Some(call) = calls.iter_mut().find(same) {
            (call.errors, call.bytes) = (result.errors, result.bytes);
        }
    }
}

/// The names of the stages of `pipeline`.
pub(crate) fn stage_names(pipeline: &PipelineCommand) -> Vec<ProcessName> {
    (1..).zip(&pipeline.stages).map(|(number, words)| stage_name(number, words)).collect()
}

fn of_stage(document: &Document, process: usize, stage: usize) -> bool {
    document.recorded[process].stage as usize == stage
}

/// What went through all pipes, in bytes.
fn bytes_taken(document: &Document) -> u64 {
    document.channels.iter().map(RecordedChannel::taken).sum()
}

/// What each stage did. Values per KiB refer to the bytes of the first one: these are all that went through the pipes.
fn totals(document: &Document, run: &CountedRun) -> Processes {
    let bytes = Some(bytes_taken(document)).filter(|bytes| *bytes >= FEWEST_BYTES).unwrap_or(1024);
    let switches = stages::switches(document);
    let totals = run.counters.iter().enumerate().map(|(stage, (name, counters))| {
        let own = |process: usize| of_stage(document, process, stage);
        let moved = stages::moved(document, own);
        let sum = |kind: usize| (0..).zip(&switches).filter(|(at, _)| own(*at)).map(|(_, of)| of[kind]).sum();
        let mut totals = ProcessTotals {
            bytes: moved.bytes,
            calls: moved.calls,
            voluntary_switches: sum(0),
            involuntary_switches: sum(1),
            counters: counters.clone(),
            ..ProcessTotals::default()
        };
        if stage == 0 {
            totals.bytes = bytes;
        }
        (name, totals)
    });
    Processes { totals: totals.collect(), ..document.processes.clone() }
}

/// What the plugin wrote of one run.
pub(crate) struct RawRun {
    raw: Raw,
    exit_codes: Vec<u8>,
}

impl RawRun {
    /// [`Ensemble::first_digest`].
    fn digest(&self) -> String {
        format!("{:016x}", self.raw.digest)
    }

    /// Count one run of so many stages, which `run` runs in the guest that it is given.
    fn count(
        guest: &GuestOptions,
        stages: usize,
        (births, exec, contexts): (Option<Range<u64>>, Option<u64>, UserContexts),
        run: impl Fn(&GuestOptions) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let scratch = Scratch::new()?;
        let so = scratch.path("plugin");
        let folder = so.parent().context("a temporary folder has a name")?;
        // One window for each stage, and for the process that starts them.
        let windows = vec![1; stages + 1];
        let plugin = Plugin::write(folder, qemu::version_numbers(guest.kernel.processor)?, &windows, 1)?
            .for_programs(births, exec, contexts);
        let args = PluginArgs { so: plugin.so.clone(), args: plugin.args.clone() };
        let cpu = Hardware::of(guest.kernel.processor).counted_cpu(guest.cpu.clone());
        let exit_codes = run(&GuestOptions { accel: Accel::Tcg, plugin: Some(args), cpu, ..guest.clone() })?;
        let raw = Raw::read(&plugin.out(0)).with_context(|| format!("guest {}", guest.kernel.release))?;
        Ok(Self { raw, exit_codes })
    }
}

/// `stage1-dd`.
fn stage_name(number: usize, words: &[String]) -> ProcessName {
    let program = words.first().map_or("", String::as_str);
    let name = Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy());
    ProcessName::new(&stages::numbered(number, &name))
}

/// Let run `number` start at another moment between two ticks of the clock, and with other lists of free pages. Nothing for
/// the first.
fn shift(number: u32) -> Result<()> {
    let phase = Phase(number);
    std::thread::sleep(Duration::from_nanos(phase.tick_offset_ns().unsigned_abs()));
    let bytes = usize::try_from(phase.warmup_bytes())?;
    if bytes > 0 {
        let memory = use_memory(bytes)?;
        // SAFETY: nothing refers to the mapping, which was made above.
        unsafe { rustix::mm::munmap(memory, bytes)? };
    }
    Ok(())
}

/// Map so much new memory and fill it with pages.
fn use_memory(bytes: usize) -> rustix::io::Result<*mut std::ffi::c_void> {
    let flags = rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::POPULATE;
    let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses changes no memory of the program.
    unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) }
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
        pin(&mut command, cpu);
        // SAFETY: between fork and exec, the child only calls the kernel and writes to its own new mapping.
        unsafe {
            command.pre_exec(move || {
                use_memory(bytes)?;
                libc::_exit(0)
            });
        }
        command.spawn()?.wait()?;
    }
    Ok(())
}

/// In the guest: run `pipeline` with markers, as run `number` of several, and return its exit codes.
pub(crate) fn run_marked(
    pipeline: &PipelineCommand,
    setup: PipelineSetup,
    duration: Option<Duration>,
    number: u32,
) -> Result<Vec<u8>> {
    let launcher = Launcher::new()?;
    let setup = PipelineSetup { marked: true, ..setup };
    empty_page_lists().and_then(|()| shift(number)).context("cannot prepare the guest's memory")?;
    marker::emit_begin(0);
    let started = launcher.start(pipeline, setup, &mut |_| Ok(()));
    let statuses = started.and_then(|_| wait(&launcher, duration, |_| Some(PACE)));
    let stages = u32::try_from(pipeline.stages.len())?;
    (0..=stages).rev().for_each(marker::emit_end);
    let (ended, _) = statuses?;
    Ok(ended.into_iter().map(|stage| stage.code).collect())
}

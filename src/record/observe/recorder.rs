//! Attach the BPF programs (bpf/record.bpf.c), and read what they counted. [`observer`] tells them whom to follow.

mod observer;

use crate::collect::attach::{self, Attached};
use crate::collect::bpf::shared::Settings;
use crate::collect::bpf::{Object, ToLoad};
use crate::collect::samples::{CountedSamples, SamplingClock};
use crate::kernel::preemption;
use crate::kernel::tracefs::Tracefs;
use crate::record::model::ended::EndedProcesses;
use crate::record::observe::counted::{RecordedCounts, add, add_process};
use crate::record::observe::observer::{AllCounts, Observe as _};
use crate::record::observe::path::{PathEnds, PathRecorder, TaskStates};
use crate::record::observe::raw::{
    PR_ASLEEP, PR_FRAMES, PR_LASTS, PR_PROCESSES, PR_RECORDER, PR_RUNNABLE, PR_RUNNING, PR_UNTIL, PrByCall, PrCarried,
    PrCounts, PrEnd, PrOffCpu, PrProcess, PrReason, PrState, PrTask, PrWait, PrWho,
};
use crate::record::observe::results::CallResults;
use crate::result::RecordLevel;
use crate::util::clock::monotonic_ns;
use crate::util::unpreempted::Unpreempted;
use anyhow::{Result, ensure};
use bytemuck::Zeroable as _;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The program that counts calls. Its tracepoint is known from its section.
const CALLS: &str = "pr_sys_exit";

/// The programs and their tracepoints, in the order in which they are attached: threads are followed first.
const PROGRAMS: [(&str, &str); 14] = [
    ("pr_free", "sched_process_free"),
    ("pr_exit", "sched_process_exit"),
    ("pr_exit_again", "sched_process_exit"),
    ("pr_exec", "sched_process_exec"),
    ("pr_exec_again", "sched_process_exec"),
    ("pr_fork", "sched_process_fork"),
    ("pr_fork_again", "sched_process_fork"),
    ("pr_signal", "signal_generate"),
    ("pr_victim", "mark_victim"),
    (CALLS, "sys_exit"),
    ("pr_switch", "sched_switch"),
    ("pr_waking", "sched_waking"),
    ("pr_queue_work", "workqueue_queue_work"),
    ("pr_do_work", "workqueue_execute_start"),
];

/// Those of [`PROGRAMS`] with a second one behind them: nothing is missing where the kernel skips them.
const SECONDED: [&str; 3] = ["pr_exit", "pr_exec", "pr_fork"];

/// [`CALLS`] for kernels that preempt it, at an event of tracefs.
const CALLS_EVENT: &str = "pr_sys_exit_event";
const EVENT_ID: &str = "events/raw_syscalls/sys_exit/id";

/// Waits for locks, with [`RecordLevel::Stacks`]; these tracepoints exist since 5.19.
const LOCKS: [(&str, &str); 2] = [("pr_lock_begin", "contention_begin"), ("pr_lock_end", "contention_end")];

/// Requests to io_uring, where its events give them.
const RINGS: [(&str, &str); 3] = [
    ("pr_ring_thread", "sched_wakeup_new"),
    ("pr_ring_poll", "io_uring_poll_arm"),
    ("pr_ring_async", "io_uring_queue_async_work"),
];

/// Of each, the first that the kernel accepts: names and arguments differ.
const RING_CHOICES: [[(&str, &str); 2]; 2] = [
    [("pr_ring_submit", "io_uring_submit_req"), ("pr_ring_submit", "io_uring_submit_sqe")],
    [("pr_ring_complete_numbers", "io_uring_complete"), ("pr_ring_complete", "io_uring_complete")],
];

/// By which calls bytes are moved.
const MOVES: (&str, &str) = ("pr_moves", "sys_exit");

/// Run over all threads of the machine: the first one follows those of wanted processes, the second one reads the ids and
/// times of followed ones.
const SEIZE: &str = "pr_seize";
const ACCOUNT: &str = "pr_account";

/// Runs at every tick of a sampling clock.
const SAMPLE: &str = "pr_sample";

/// Learns where the registers of a system call are on a stack.
const LEARN: &str = "pr_learn";

/// How often it is looked whether the maps need room, and from how many new entries on they do. A machine with 64 CPUs
/// starts some 20 processes per ms, of two entries each.
pub(crate) const ROOM_EVERY: Duration = Duration::from_millis(50);
const MANY_NEW: u64 = PR_PROCESSES as u64 / 8;

/// The longest window.
const MOST_NS: u64 = u64::MAX / 2;

/// Counts are read so many times at most until no thread ends meanwhile.
const READS: usize = 4;

/// The attached programs. Dropping this detaches them; the kernel does so if this process is killed.
pub(crate) struct Recorder {
    object: Object,
    attached: Vec<AttachedProgram>,
    level: RecordLevel,
    clock: Option<SamplingClock>,
    /// Whether the kernel reports waits for locks.
    locks: bool,
    /// Why requests to io_uring are not seen, although the kernel reports them.
    no_rings: Option<String>,
    path: PathRecorder,
    /// Processes whose counts are no longer in the kernel's maps.
    ended: EndedProcesses,
    /// How many entries had been made for processes when it was last looked which have ended.
    looked_at: u64,
    /// When that was.
    looked: Instant,
    /// What was counted until the end of the window, if that has been read.
    last: Option<RecordedCounts>,
}

/// A program at its tracepoint, until it is dropped.
#[expect(dead_code, reason = "held until they are dropped")]
enum AttachedProgram {
    Raw(OwnedFd),
    Event(Attached),
}

/// The number of the event for [`CALLS_EVENT`]; `None` without tracefs.
fn event_id() -> Option<u64> {
    let tracefs = Tracefs::open().ok()?;
    std::fs::read_to_string(tracefs.root().join(EVENT_ID)).ok()?.trim().parse().ok()
}

/// Attach all programs for io_uring.
///
/// # Errors
/// When the kernel refuses one of them. A kernel without io_uring has none of its tracepoints, and nothing to record there.
fn attach_rings(attach: impl Fn(&(&str, &str)) -> Result<AttachedProgram>) -> Result<Vec<AttachedProgram>> {
    let chosen = RING_CHOICES.iter().map(|[first, other]| attach(first).or_else(|_| attach(other)));
    RINGS.iter().map(&attach).chain(chosen).collect()
}

/// Which parts of the time of a recording are looked at while it goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Excerpts {
    /// None: the whole is followed.
    #[default]
    None,
    /// Each second, and the whole.
    Live,
    /// Two that begin in turn, instead of the whole.
    Kept,
    /// Nothing is looked at but by which calls bytes were moved.
    Moves,
}

/// What decides which programs a recording needs.
#[derive(Debug, Clone, Copy, Default)]
struct Chosen {
    level: RecordLevel,
    sampled: bool,
    excerpts: Excerpts,
    running: bool,
}

impl Chosen {
    /// Whether calls are recorded, those by io_uring, too.
    fn has_calls(self) -> bool {
        self.level != RecordLevel::Sched
    }

    /// The event for [`CALLS_EVENT`], if that takes the place of [`CALLS`].
    fn event(self) -> Option<u64> {
        (self.has_calls() && preemption::of_system_calls()).then(event_id).flatten()
    }

    /// The programs at raw tracepoints, with their tracepoints.
    fn raw(self, event: Option<u64>) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        PROGRAMS.iter().filter(move |(program, _)| *program != CALLS || (self.has_calls() && event.is_none()))
    }

    fn to_load(self, event: Option<u64>) -> ToLoad {
        let stacks = self.level == RecordLevel::Stacks;
        let rings = RINGS.iter().chain(RING_CHOICES.as_flattened());
        let programs = self
            .raw(event)
            .map(|(program, _)| *program)
            .chain(event.map(|_| CALLS_EVENT))
            .chain([LEARN, ACCOUNT])
            // The verifier needs some time for it.
            .chain(self.running.then_some(SEIZE))
            .chain(self.sampled.then_some(SAMPLE))
            .chain(LOCKS.iter().map(|(program, _)| *program).filter(|_| stacks))
            .chain((self.excerpts == Excerpts::Moves).then_some(MOVES.0))
            .chain(rings.map(|(program, _)| *program).filter(|_| self.has_calls()))
            .collect();
        ToLoad::record(Settings { stacks: u64::from(stacks), ..Settings::in_own_namespace() }, programs, self.sampled)
    }
}

/// Load what the default recording needs, for one that follows in this guest.
///
/// # Errors
/// When the kernel refuses it.
pub(crate) fn prepare() -> Result<()> {
    let chosen = Chosen::default();
    chosen.to_load(chosen.event()).keep()?;
    CallResults::to_load().keep()
}

impl Recorder {
    /// Attach all programs. Nothing is followed yet. Processes must be started by the thread that calls this. `sampled`:
    /// also sample what they execute. `running`: processes that were running before are followed, too. The window ends
    /// `duration` after the begin of the first process: the programs know the time, whether this process has a CPU then or not.
    ///
    /// # Errors
    /// When the kernel refuses them: the reason and a fix.
    pub(crate) fn start(
        level: RecordLevel,
        sampled: bool,
        excerpts: Excerpts,
        duration: Option<Duration>,
        running: bool,
    ) -> Result<Self> {
        let chosen = Chosen { level, sampled, excerpts, running };
        let (event, rings) = (chosen.event(), chosen.has_calls());
        let mut object = chosen.to_load(event).load()?;
        let own = u64::from(rustix::thread::gettid().as_raw_pid().cast_unsigned());
        object.set("window", PR_RECORDER as u32, own)?;
        // The programs add it to a time.
        let lasts =
            duration.map_or(0, |duration| u64::try_from(duration.as_nanos()).map_or(MOST_NS, |ns| ns.min(MOST_NS)));
        object.set("window", PR_LASTS as u32, lasts)?;
        let looked_at = match excerpts {
            Excerpts::None | Excerpts::Moves => 0,
            Excerpts::Live => 1,
            Excerpts::Kept => 2,
        };
        let path = PathRecorder::start(&object, looked_at, excerpts == Excerpts::Kept)?;
        let learn = attach::raw_tracepoint(object.program(LEARN)?, "sys_exit")?;
        // SAFETY: getppid has no preconditions. It is called for its tracepoint.
        unsafe { libc::syscall(libc::SYS_getppid) };
        drop(learn);
        let state: PrState = object.element("state", 0)?;
        ensure!(state.registers != 0, "the tracepoint sys_exit did not report a call of this process");
        let attach_raw = |(name, tracepoint): &(&str, &str)| {
            let program = object.program(name)?;
            let attached = match *name {
                CALLS => attach::typed_tracepoint(program),
                _ => attach::raw_tracepoint(program, tracepoint),
            };
            attached.map(AttachedProgram::Raw)
        };
        let mut attached = chosen.raw(event).map(attach_raw).collect::<Result<Vec<_>>>()?;
        if let Some(id) = event {
            attached.push(AttachedProgram::Event(attach::traced_event(object.program(CALLS_EVENT)?, id)?));
        }
        let mut no_rings = None;
        if rings && state.rings != 0 {
            match attach_rings(attach_raw) {
                Ok(all) => attached.extend(all),
                Err(error) => no_rings = Some(format!("{error:#}")),
            }
        }
        let mut locks = false;
        // Kernels before 5.19 do not have these tracepoints.
        if level == RecordLevel::Stacks
            && let [Ok(begin), Ok(end)] = LOCKS.each_ref().map(attach_raw)
        {
            attached.extend([begin, end]);
            locks = true;
        }
        if excerpts == Excerpts::Moves {
            attached.push(attach_raw(&MOVES)?);
        }
        let mut sampling = None;
        if sampled {
            let (clock, events) = SamplingClock::start(object.program(SAMPLE)?)?;
            attached.extend(events.into_iter().map(AttachedProgram::Event));
            sampling = Some(clock);
        }
        let (clock, ended, looked_at, looked) = (sampling, EndedProcesses::default(), 0, Instant::now());
        Ok(Self { object, attached, level, clock, locks, no_rings, path, ended, looked_at, looked, last: None })
    }

    /// Keep when each thread has a CPU, from the next step on.
    pub(crate) fn keep_switches(&mut self) {
        self.path.keep_switches();
    }

    /// Read steps of the path. Returns whether there are more already.
    pub(crate) fn step_path(&mut self) -> bool {
        let (object, attached) = (&self.object, &self.attached);
        self.path.step(|| tasks(object, attached))
    }

    /// What has been counted until now, and the path of an excerpt.
    pub(crate) fn look_at(&mut self, excerpt: usize) -> Result<(RecordedCounts, Option<PathEnds>)> {
        while self.step_path() {}
        let (counts, tasks) = self.read_with_tasks()?;
        // Steps of the time since then are those of the next excerpt.
        let path = self.path.excerpt(excerpt, counts.at, &tasks);
        Ok((counts, path))
    }

    /// An excerpt begins now. Returns what has been counted before.
    pub(crate) fn begin(&mut self, excerpt: usize) -> Result<RecordedCounts> {
        self.step_path();
        let counts = self.read()?;
        self.path.begin(excerpt, counts.at);
        Ok(counts)
    }

    /// No other thread runs on this CPU while the maps are used.
    fn unpreempted(&self) -> Option<Unpreempted> {
        unpreempted(&self.attached)
    }

    /// What each thread is doing.
    fn tasks(&self) -> Result<TaskStates> {
        tasks(&self.object, &self.attached)
    }

    /// When the window ends, by the programs' clock, ns.
    fn until(&self) -> Result<u64> {
        let _kept = self.unpreempted();
        let until: u64 = self.object.element("window", PR_UNTIL as u32)?;
        Ok(if until == 0 { u64::MAX } else { until })
    }

    /// Take what ended processes have counted out of the kernel's maps, if they are many.
    pub(crate) fn take_ended(&mut self) -> Result<Option<RecordedCounts>> {
        self.looked = Instant::now();
        let _kept = self.unpreempted();
        let state: PrState = self.object.element("state", 0)?;
        if state.processes_made - self.looked_at < MANY_NEW {
            return Ok(None);
        }
        self.looked_at = state.processes_made;
        // Who is known and has no thread is not counted any more: what is read from here on is all of it.
        let mut gone: HashSet<u32> = self.processes()?.into_iter().map(|(who, _)| who.tgid).collect();
        for (_, task) in self.tasks()? {
            gone.remove(&task.who.tgid);
        }
        let mut ended = RecordedCounts {
            processes: self.processes()?,
            ends: self.object.entries("ends")?,
            waits: self.object.entries("waits")?,
            ..RecordedCounts::default()
        };
        ended.processes.retain(|(who, _)| gone.contains(&who.tgid));
        ended.ends.retain(|(end, _)| gone.contains(&end.who.tgid));
        ended.waits.retain(|(reason, _)| gone.contains(&reason.who.tgid));
        self.remove("processes", &ended.processes)?;
        self.remove("ends", &ended.ends)?;
        self.remove("waits", &ended.waits)?;
        Ok(Some(ended))
    }

    /// The same, no more often than [`ROOM_EVERY`].
    fn take_ended_at_times(&mut self) -> Result<Option<RecordedCounts>> {
        if self.looked.elapsed() < ROOM_EVERY { Ok(None) } else { self.take_ended() }
    }

    fn processes(&self) -> Result<Vec<(PrWho, PrProcess)>> {
        self.object.entries("processes")
    }

    fn remove<K: bytemuck::Pod, V>(&self, map: &str, entries: &[(K, V)]) -> Result<()> {
        self.object.remove(map, entries.iter().map(|(key, _)| key))
    }

    /// End the window now, and read what was counted in it.
    fn last_counts(&mut self) -> Result<RecordedCounts> {
        self.end_now()?;
        self.path.end_at(self.until()?);
        // Without it, the user share of processes that still run is unknown.
        let _ = attach::run_iterator(self.object.program(ACCOUNT)?);
        let (mut counts, tasks) = self.read_with_tasks()?;
        if self.level == RecordLevel::Stacks {
            self.add_sleeps(&mut counts, &tasks)?;
        }
        self.path.close(counts.at, tasks, counts.state.map_or(0, |state| state.lost_steps));
        Ok(counts)
    }

    /// Detach, and return what was counted. What a thread was doing at that time counts until then.
    pub(crate) fn counted(mut self) -> Result<AllCounts> {
        self.attached.clear();
        let counts = self.last.take().map_or_else(|| self.last_counts(), Ok)?;
        let tables = [&PROGRAMS[..], &LOCKS, &RINGS, RING_CHOICES.as_flattened()];
        let programs: HashSet<&str> = tables.concat().into_iter().map(|(program, _)| program).collect();
        let programs = programs.into_iter().filter(|program| !SECONDED.contains(program)).chain([CALLS_EVENT]);
        let skipped = programs.filter_map(|program| self.object.passed_over(program)).sum();
        let (heads, streams) = (self.object.entries("heads")?, self.object.entries("streams")?);
        let (names, said) = (self.object.entries("names")?, self.object.entries("said")?);
        let no_rings = self.no_rings.take();
        let mut counts = RecordedCounts { skipped, no_rings, clock: self.clock, heads, said, streams, names, ..counts };
        if self.locks {
            counts.lock_waits = Some(self.object.entries("lock_waits")?);
        }
        if self.clock.is_some() || self.level == RecordLevel::Stacks {
            counts.sampled = CountedSamples::read::<PR_FRAMES>(&self.object)?;
        }
        Ok((counts, self.ended, self.path.finish()))
    }

    /// By which calls each process has moved bytes, if that is looked at.
    pub(crate) fn moves(&self) -> Result<Vec<(PrByCall, PrCarried)>> {
        self.object.entries("moves")
    }

    /// Add where threads slept.
    fn add_sleeps(&self, counts: &mut RecordedCounts, tasks: &[(u64, PrTask)]) -> Result<()> {
        counts.off_cpu = self.object.entries::<PrOffCpu, PrWait>("off_cpu")?;
        for (_, task) in tasks {
            if task.started != 0 && task.state as usize == PR_ASLEEP {
                let sleep = PrOffCpu { who: task.who, trace: task.trace, waker_trace: 0, waker: [0; 2] };
                counts.off_cpu.push((sleep, PrWait { count: 1, ns: counts.at.saturating_sub(task.since) }));
            }
        }
        Ok(())
    }

    /// What has been counted until now, but for that of [`EndedProcesses`].
    pub(crate) fn read(&self) -> Result<RecordedCounts> {
        self.read_with_tasks().map(|(counts, _)| counts)
    }

    /// The same, and what each thread is doing.
    fn read_with_tasks(&self) -> Result<(RecordedCounts, TaskStates)> {
        let _kept = self.unpreempted();
        let mut before = self.tasks()?;
        for _ in 1..READS {
            let (counts, tasks) = self.read_once()?;
            let there: HashSet<u64> = tasks.iter().map(|(key, _)| *key).collect();
            if before.iter().all(|(key, _)| there.contains(key)) {
                return Ok((counts, tasks));
            }
            before = tasks;
        }
        self.read_once()
    }

    /// The same, without what a thread has counted that ends meanwhile. The next reading has it, and would take it for new.
    fn read_once(&self) -> Result<(RecordedCounts, TaskStates)> {
        let now = monotonic_ns().min(self.until()?);
        let mut processes: HashMap<PrWho, PrProcess> = self.processes()?.into_iter().collect();
        let mut ends: HashMap<PrEnd, PrCounts> = self.object.entries("ends")?.into_iter().collect();
        let mut waits: HashMap<PrReason, PrWait> = self.object.entries("waits")?.into_iter().collect();
        // Last: a thread that ends meanwhile is missing rather than counted twice.
        let tasks = self.tasks()?;
        for (_, task) in tasks.iter().filter(|(_, task)| task.started != 0) {
            settle(*task, now, &mut processes, &mut ends, &mut waits);
        }
        let counts = RecordedCounts {
            at: now,
            processes: processes.into_iter().collect(),
            ends: ends.into_iter().collect(),
            waits: waits.into_iter().collect(),
            state: Some(self.object.element("state", 0)?),
            ..RecordedCounts::default()
        };
        Ok((counts, tasks))
    }
}

fn tasks(object: &Object, attached: &[AttachedProgram]) -> Result<TaskStates> {
    let _kept = unpreempted(attached);
    object.entries("tasks")
}

/// While a thread reads, writes or removes an entry of a map, the kernel skips the programs at events of its CPU
/// (kernel/bpf/syscall.c, `bpf_disable_instrumentation`), [`CALLS_EVENT`] among them. Others must not run there meanwhile.
fn unpreempted(attached: &[AttachedProgram]) -> Option<Unpreempted> {
    let at_event = attached.iter().any(|program| matches!(program, AttachedProgram::Event(_)));
    at_event.then(Unpreempted::begin)
}

/// Add what a thread has counted itself, as the programs do when its task is freed.
fn settle(
    mut task: PrTask,
    now: u64,
    processes: &mut HashMap<PrWho, PrProcess>,
    ends: &mut HashMap<PrEnd, PrCounts>,
    waits: &mut HashMap<PrReason, PrWait>,
) {
    if task.own.end == 0 {
        let spent = now.saturating_sub(task.since);
        match task.state as usize {
            PR_RUNNING => task.own.cpu_ns += spent,
            PR_RUNNABLE => task.own.runnable_ns += spent,
            PR_ASLEEP if task.inode != 0 => {
                let end = PrEnd { who: task.who, inode: task.inode, device: task.device, side: task.side };
                let counts = ends.entry(end).or_insert_with(PrCounts::zeroed);
                let (sleeps, ns) = match task.locked {
                    0 => (&mut counts.sleeps, &mut counts.blocked_ns),
                    _ => (&mut counts.lock_sleeps, &mut counts.lock_ns),
                };
                *sleeps += 1;
                *ns += spent;
            }
            PR_ASLEEP => {
                let PrTask { who, call, file_type, holder, .. } = task;
                let wait = waits.entry(PrReason { who, call, file_type, holder }).or_insert_with(PrWait::zeroed);
                wait.ns += spent;
                wait.count += 1;
            }
            _ => {}
        }
        task.own.end = now;
    }
    add_process(processes.entry(task.who).or_insert_with(PrProcess::zeroed), &task.own);
    for (used, side) in task.used.into_iter().zip(0..) {
        if used.inode != 0 {
            let end = PrEnd { who: task.who, inode: used.inode, device: used.device as u32, side };
            add(ends.entry(end).or_insert_with(PrCounts::zeroed), &used.counts);
        }
    }
}

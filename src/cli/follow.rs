//! `pipeprof __follow`: run one collector on a family of processes with threads, forks and execs. Tests run it on this
//! machine and in guests, and know the number of calls that the family makes.

use crate::collect::{Context, Watched, make};
use crate::document::{Collector, Loader, Probe, Status};
use crate::profile::{CallStack, ProcessName};
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::time::Duration;

/// Number of threads and processes of a family, each of which makes the given number of calls.
pub const MEMBERS: u64 = 11;
/// Those of them that `--without-thread-exec` leaves out: a process before and after its second thread calls exec.
pub const THREAD_EXEC_MEMBERS: u64 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct FollowArgs {
    /// Watch the family with this collector.
    #[arg(long)]
    collect: Option<Collector>,
    #[arg(long, default_value = "libbpf")]
    loader: Loader,
    /// Calls that each thread and process of the family makes.
    #[arg(long, default_value_t = 100)]
    calls: u64,
    /// Leave out the process whose second thread calls exec.
    #[arg(long)]
    without_thread_exec: bool,
    /// Act as a member of the family.
    #[arg(long)]
    be: Option<Member>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Member {
    /// Waits for input, then starts the others.
    Family,
    /// Two threads besides its own.
    Threaded,
    /// Becomes `single` from another thread than its first.
    Becoming,
    Single,
    /// Not a member of the family; makes calls until it is killed.
    Stranger,
}

/// A collector's results for the family.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Found {
    pub complete: bool,
    pub reason: Option<String>,
    /// Calls of `pipe_write` by all watched processes.
    pub writes: u64,
    /// Timed calls: returns in the histogram.
    pub returns: u64,
    pub missed: u64,
    /// Weight of the stacks, by process.
    pub weights: BTreeMap<String, u64>,
    /// Weight of stacks with a frame of the family's own code.
    pub named: u64,
    pub samples: u64,
    /// The CPU time of the whole family.
    pub cpu_ns: u64,
    pub notes: Vec<String>,
    /// Code and message of each warning.
    pub warnings: Vec<(String, String)>,
}

impl FollowArgs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match (self.be, self.collect) {
            (Some(member), _) => member.run(self.calls, self.without_thread_exec)?,
            (None, Some(collector)) => crate::outln!("{}", serde_json::to_string(&self.watch(collector)?)?),
            (None, None) => anyhow::bail!("--collect or --be is needed"),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn watch(&self, collector: Collector) -> Result<Found> {
        let mut stranger = command("stranger", self.calls).spawn().context("start a stranger")?;
        let mut family = command("family", self.calls);
        if self.without_thread_exec {
            family.arg("--without-thread-exec");
        }
        let found = watch_family(collector, self.loader, family);
        stranger.kill()?;
        stranger.wait()?;
        found
    }
}

fn command(member: &str, calls: u64) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["__follow", "--be", member, "--calls", &calls.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn watch_family(collector: Collector, loader: Loader, mut family: Command) -> Result<Found> {
    let mut family = family.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start a family")?;
    // Its second thread exists.
    read_byte(&mut family)?;
    let watched = Watched::one(ProcessName::new("family"), family.id());
    let mut collector = make(collector, &Context::new(loader, Probe::default()))?;
    collector.arm(&watched)?;
    let before = cpu_of_children()?;
    family.stdin.take().context("its input")?.write_all(b"g")?;
    ensure!(family.wait()?.success(), "the family failed");
    let cpu_ns = cpu_of_children()? - before;
    let collected = collector.finish()?;
    let writes = || collected.functions.iter().filter(|row| row.symbol.ends_with("pipe_write"));
    let weights = collected.stacks.iter().map(|(process, stacks)| (process.to_string(), stacks.total())).collect();
    let own = |stack: CallStack<'_>| stack.frames().any(|frame| frame.contains("::follow::"));
    let stacks = collected.stacks.iter().flat_map(|(_, stacks)| stacks.iter());
    Ok(Found {
        complete: collected.status == Status::Ok,
        reason: collected.reason.clone(),
        writes: writes().map(|row| row.calls).sum(),
        returns: writes().map(|row| row.log2_ns.count()).sum(),
        missed: collected.functions.iter().map(|row| row.missed).sum(),
        weights,
        named: stacks.filter(|(stack, _)| own(*stack)).map(|(_, weight)| weight).sum(),
        samples: collected.samples,
        cpu_ns,
        notes: collected.notes,
        warnings: collected.warnings.into_iter().map(|warning| (warning.code, warning.message)).collect(),
    })
}

fn read_byte(family: &mut Child) -> Result<()> {
    let output = family.stdout.as_mut().context("its output")?;
    output.read_exact(&mut [0]).context("the family ended before it began")
}

/// User and system time of all children that were waited for, and of their children.
fn cpu_of_children() -> Result<u64> {
    // SAFETY: all zeros is a valid value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call.
    ensure!(unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } == 0, "getrusage");
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}

impl Member {
    fn run(self, calls: u64, without_thread_exec: bool) -> Result<()> {
        match self {
            Self::Family => family(calls, without_thread_exec),
            Self::Threaded => std::thread::scope(|scope| {
                let others = [scope.spawn(|| write(calls)), scope.spawn(|| write(calls))];
                write(calls)?;
                others
                    .into_iter()
                    .try_for_each(|other| other.join().unwrap_or_else(|_| anyhow::bail!("a thread failed")))
            }),
            Self::Becoming => {
                write(calls)?;
                let become_other = move || command("single", calls).exec();
                Err(std::thread::spawn(become_other).join().map_or_else(|_| anyhow::anyhow!("no exec"), Into::into))
            }
            Self::Single => write(calls),
            Self::Stranger => loop {
                write(calls)?;
                std::thread::sleep(Duration::from_millis(50));
            },
        }
    }
}

/// The first process: two threads, one of which exists before it is watched; a thread that forks; a child that forks;
/// two children that execute this program, one of them again from its second thread.
fn family(calls: u64, without_thread_exec: bool) -> Result<()> {
    let gate = Barrier::new(2);
    std::thread::scope(|scope| {
        let early = scope.spawn(|| {
            gate.wait();
            write(calls)
        });
        // Unlike println, this is one call.
        // SAFETY: the byte outlives the call.
        unsafe { libc::write(libc::STDOUT_FILENO, b"r".as_ptr().cast(), 1) };
        let mut byte = [0];
        std::io::stdin().read_exact(&mut byte)?;
        gate.wait();
        let late = scope.spawn(|| {
            fork(|| write(calls))?;
            write(calls)
        });
        let mut threaded = command("threaded", calls).spawn().context("start a child")?;
        let becoming = (!without_thread_exec).then(|| command("becoming", calls).spawn().context("start a child"));
        let becoming = becoming.transpose()?;
        fork(|| {
            fork(|| write(calls))?;
            write(calls)
        })?;
        write(calls)?;
        ensure!(threaded.wait()?.success(), "a child failed");
        if let Some(mut becoming) = becoming {
            ensure!(becoming.wait()?.success(), "a child failed");
        }
        for thread in [early, late] {
            thread.join().unwrap_or_else(|_| anyhow::bail!("a thread failed"))?;
        }
        Ok(())
    })
}

/// Run `what` in a forked child, and wait for it.
fn fork(what: impl FnOnce() -> Result<()>) -> Result<()> {
    // SAFETY: after a fork of a process with threads, the child makes only system calls, which are safe.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = i32::from(what().is_err());
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the status outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    ensure!(child > 0 && waited == child && status == 0, "a forked child failed");
    Ok(())
}

/// Write `calls` times to a pipe, one byte each.
#[inline(never)]
fn write(calls: u64) -> Result<()> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends.
    ensure!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0, "pipe");
    let mut byte = [0u8];
    for _ in 0..calls {
        // SAFETY: the byte outlives both calls.
        let moved =
            unsafe { libc::write(ends[1], byte.as_ptr().cast(), 1) + libc::read(ends[0], byte.as_mut_ptr().cast(), 1) };
        ensure!(moved == 2, "write and read");
    }
    for end in ends {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(end) };
    }
    Ok(())
}

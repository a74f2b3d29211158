//! Run one collector on a family of processes with threads, forks and execs. Tests run it on this machine and in guests,
//! and know the number of calls that the family makes.

use super::printed::Found;
use anyhow::{Context as _, Result, ensure};
use pipeprof::collect::{Context, make};
use pipeprof::process::Watched;
use pipeprof::profile::{Folded, ProcessName};
use pipeprof::result::{Collector, Loader, Probe, Status};
use pipeprof::util::choice::Choice;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct FollowArgs {
    /// Watch the family with this collector.
    #[arg(long, value_parser = named::<Collector>)]
    collect: Option<Collector>,
    /// Once with each of these.
    #[arg(long, default_value = "libbpf", value_parser = named::<Loader>, value_delimiter = ',')]
    loader: Vec<Loader>,
    /// Calls that each thread and process of the family makes.
    #[arg(long, default_value_t = 100)]
    calls: u64,
    /// Watch a second family, without the process whose second thread calls exec.
    #[arg(long)]
    also_without_thread_exec: bool,
    #[arg(long)]
    without_thread_exec: bool,
    /// Act as a member of the family.
    #[arg(long)]
    be: Option<Member>,
}

fn named<T: Choice>(name: &str) -> Result<T, &'static str> {
    T::named(name).ok_or("unknown")
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

impl FollowArgs {
    pub(crate) fn run(self) -> Result<()> {
        match (self.be, self.collect) {
            (Some(member), _) => member.run(self.calls, self.without_thread_exec)?,
            (None, Some(collector)) => println!("{}", serde_json::to_string(&self.watch_all(collector)?)?),
            (None, None) => anyhow::bail!("--collect or --be is needed"),
        }
        Ok(())
    }

    fn watch_all(&self, collector: Collector) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        for loader in &self.loader {
            found.push(self.watch(collector, *loader, false)?);
            if self.also_without_thread_exec {
                found.push(self.watch(collector, *loader, true)?);
            }
        }
        Ok(found)
    }

    fn watch(&self, collector: Collector, loader: Loader, without_thread_exec: bool) -> Result<Found> {
        let mut stranger = command("stranger", self.calls).spawn().context("start a stranger")?;
        let mut family = command("family", self.calls);
        if without_thread_exec {
            family.arg("--without-thread-exec");
        }
        let found = watch_family(collector, loader, family);
        stranger.kill()?;
        stranger.wait()?;
        found
    }
}

fn command(member: &str, calls: u64) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["follow", "--be", member, "--calls", &calls.to_string()]);
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
    let processes = collected.stacks.names().map(|process| process.to_string());
    let weights = processes.zip(collected.stacks.values().map(Folded::total)).collect();
    Ok(Found {
        complete: collected.status == Status::Ok,
        reason: collected.reason.clone(),
        writes: writes().map(|row| row.calls).sum(),
        returns: writes().map(|row| row.log2_ns.count()).sum(),
        missed: collected.functions.iter().map(|row| row.missed).sum(),
        weights,
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

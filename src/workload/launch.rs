//! The controller: starts the workers, releases them, collects their counts, and leaves none running.

use super::cpu_counter;
use super::cpus::{self, Places};
use super::pipe::Pipe;
use super::spec::{Amount, Spec};
use super::stall::{Awaited, StallWatch};
use super::wire::{self, Failure, GO, Reply, WorkerJob, WorkerPart, WorkerWindow};
use crate::process::{Phase, PipeEnd, PipeTotals, ProcessTotals, Processes};
use crate::process::{Running, Target, Watched, WatchedProcess};
use crate::profile::ProcessName;
use crate::util::cancel;
use crate::util::own_child::OwnChild;
use anyhow::{Context, Result, anyhow, bail};
use perf_event::Counter;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often a wait checks [`cancel`].
const GLANCE_MS: i64 = 50;
/// The window of a short run: some hundred calls of a fast mode.
const SHORT_NS: u64 = 20_000_000;
/// Time limit for workers to become ready and to report; enough for an emulated guest.
const START: Duration = Duration::from_secs(300);
/// Lower limit of the warm-up's speed in bytes per second, on any machine that is not stalled, including emulated
/// ones.
const SLOWEST: u64 = 4 << 20;
/// Time that a timed window may take beyond its duration.
const GRACE: Duration = Duration::from_secs(120);
/// When one process finds the other end closed: time for the other process to report why.
const CAUSE: Duration = Duration::from_secs(2);

/// Workers that are ready or running.
#[derive(Debug)]
pub struct Launched {
    spec: Spec,
    /// Whether the workers mark their windows for the instruction collector.
    marked: bool,
    /// The counter of the CPU's instructions, or why it is not available; only if [`Spec::counted`].
    counter: Option<Result<Counter, String>>,
    workers: Vec<Worker>,
    released: Option<Instant>,
    ended: bool,
}

#[derive(Debug)]
struct Worker {
    pair: usize,
    part: WorkerPart,
    child: OwnChild,
    control: UnixStream,
    received: Vec<u8>,
    reply: Option<Reply>,
}

/// Start the processes of `spec` and return when all are ready: pinned, buffers allocated, warmed up, the pipe empty.
///
/// The workers die with the thread that calls this: keep it alive until they have ended.
///
/// # Errors
/// A contradiction in `spec`, a refusal of this machine (naming the flag), an error of a worker, or an interruption.
pub fn launch(spec: &Spec) -> Result<Launched> {
    launch_marked(spec, true)
}

/// Run `spec` once without a measurement. What a guest executes for the first pair of processes differs from what it
/// executes for all later ones: its free pages are still in order, and its scheduler knows no such processes
/// (docs/exactness.md).
///
/// # Errors
/// As [`launch`], and when the processes do not finish.
pub fn rehearse(spec: &Spec) -> Result<()> {
    let mut launched = launch_marked(spec, false)?;
    launched.release()?;
    launched.wait().map(drop)
}

fn launch_marked(spec: &Spec, marked: bool) -> Result<Launched> {
    spec.check()?;
    cancel::check()?;
    let places = cpus::places(spec)?;
    let counter = spec.counted.then(cpu_counter::of_cpu);
    let mut launched =
        Launched { spec: spec.clone(), marked, counter, workers: Vec::new(), released: None, ended: false };
    for (pair, places) in places.iter().enumerate() {
        launched.start_pair(pair, places)?;
    }
    let processes = u64::from(spec.pairs) * u64::from(spec.writers);
    let warm_up = Duration::from_secs(spec.warmup_bytes.saturating_mul(processes) / SLOWEST);
    launched.gather(Instant::now().checked_add(START + warm_up), "did not become ready")?;
    cancel::check()?;
    Ok(launched)
}

impl Launched {
    /// Let all workers continue.
    fn go_on(&mut self) -> Result<()> {
        // Readers first, so that they wait at the pipe when the first byte arrives.
        for part in [WorkerPart::Reader, WorkerPart::Writer] {
            for worker in self.workers.iter_mut().filter(|w| w.part == part) {
                worker.reply = None;
                if worker.control.write_all(&[GO]).is_err() {
                    bail!("{}", worker.end());
                }
            }
        }
        Ok(())
    }

    fn start_pair(&mut self, pair: usize, places: &Places) -> Result<()> {
        let pipe = Pipe::new(&self.spec)?;
        let shares = WorkShares::of(&self.spec, places.writers.len(), places.readers.len());
        for (index, &cpu) in places.readers.iter().enumerate() {
            let job = self.job(WorkerPart::Reader, cpu, shares.reader_warmup(index), Amount::Bytes(u64::MAX));
            self.start(pair, &job, pipe.read.try_clone()?)?;
        }
        for (index, &cpu) in places.writers.iter().enumerate() {
            let job = self.job(WorkerPart::Writer, cpu, shares.writer_warmup, shares.amount(index));
            self.start(pair, &job, pipe.write.try_clone()?)?;
        }
        Ok(())
    }

    fn job(&self, part: WorkerPart, cpu: Option<u32>, warmup: u64, amount: Amount) -> WorkerJob {
        WorkerJob {
            controller: std::process::id(),
            part,
            cpu,
            warmup,
            amount,
            marked: self.marked,
            counter: self.counter.as_ref().map(|counter| match counter {
                Ok(counter) => Ok(counter.as_raw_fd()),
                Err(reason) => Err(reason.clone()),
            }),
            spec: self.spec.clone(),
        }
    }

    /// Start one worker: this program, with the pipe where a shell would put it (a writer's standard output, a
    /// reader's standard input), and the control socket as the other of the two.
    fn start(&mut self, pair: usize, job: &WorkerJob, end: OwnedFd) -> Result<()> {
        let (control, theirs) = UnixStream::pair().context("cannot create a socket pair")?;
        let theirs = OwnedFd::from(theirs);
        let (stdin, stdout) = match job.part {
            WorkerPart::Writer => (theirs, end),
            WorkerPart::Reader => (end, theirs),
        };
        let mut command = Command::new("/proc/self/exe");
        command.arg(super::worker::SUBCOMMAND).arg(job.part.name());
        command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout));
        std::os::unix::process::CommandExt::arg0(&mut command, "pipeprof");
        let child = OwnChild::spawn(&mut command)
            .context("cannot start a worker from /proc/self/exe: check that /proc is mounted")?;
        self.workers.push(Worker { pair, part: job.part, child, control, received: Vec::new(), reply: None });
        let Some(worker) = self.workers.last_mut() else { bail!("no worker") };
        wire::send(&worker.control, job).map_err(|_| anyhow!("{}", worker.end()))?;
        worker.control.set_nonblocking(true)?;
        Ok(())
    }

    /// Wait until every worker has replied.
    fn gather(&mut self, mut deadline: Option<Instant>, late: &str) -> Result<()> {
        let mut consequence: Option<String> = None;
        let mut stall = StallWatch::new();
        loop {
            cancel::check()?;
            for worker in self.workers.iter_mut().filter(|worker| worker.reply.is_none()) {
                worker.receive()?;
                if let Some(Reply::Failed(Failure { message, consequence: follows })) = &worker.reply {
                    let message = format!("{}: {message}", worker.part.name());
                    if !follows {
                        bail!("{message}");
                    }
                    if consequence.is_none() {
                        consequence = Some(message);
                        deadline = Some(Instant::now() + CAUSE);
                    }
                }
            }
            let missing = || self.workers.iter().filter(|worker| worker.reply.is_none());
            let awaited: Vec<Awaited> =
                missing().map(|worker| Awaited { name: worker.part.name(), pid: worker.child.id() }).collect();
            if let Some(why) = stall.look(&awaited) {
                bail!("{why}");
            }
            let mut fds: Vec<_> = missing()
                .map(|worker| {
                    rustix::event::PollFd::from_borrowed_fd(worker.control.as_fd(), rustix::event::PollFlags::IN)
                })
                .collect();
            let late_by_now = deadline.is_some_and(|deadline| Instant::now() > deadline);
            match (&consequence, fds.is_empty()) {
                (None, true) => return Ok(()),
                (Some(message), true) => bail!("{message}"),
                (Some(message), false) if late_by_now => bail!("{message}"),
                (None, false) if late_by_now => {
                    let names: Vec<&str> = awaited.iter().map(|worker| worker.name).collect();
                    bail!(
                        "the workload {late} in time ({}): check whether the machine is overloaded",
                        names.join(", ")
                    );
                }
                _ => {}
            }
            let glance = rustix::event::Timespec { tv_sec: 0, tv_nsec: GLANCE_MS * 1_000_000 };
            match rustix::event::poll(&mut fds, Some(&glance)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for the workers"),
            }
        }
    }
}

impl Target for Spec {
    fn start(&self, phase: Phase) -> Result<Box<dyn Running>> {
        let mut spec = self.clone();
        spec.warmup_bytes =
            spec.warmup_bytes.saturating_add(phase.warmup_blocks(spec.block()).saturating_mul(spec.block()));
        Ok(Box::new(launch(&spec)?))
    }

    fn start_short(&self) -> Result<Option<Box<dyn Running>>> {
        let short = Self { amount: Amount::DurationNs(SHORT_NS), ..self.clone() };
        Ok(Some(Box::new(launch(&short)?)))
    }
}

impl Running for Launched {
    fn watched(&self) -> Watched {
        let of = |part: WorkerPart| {
            let pids = self.workers.iter().filter(|worker| worker.part == part).map(|worker| worker.child.id());
            WatchedProcess { name: part.process(), pids: pids.collect() }
        };
        Watched { processes: vec![of(WorkerPart::Writer), of(WorkerPart::Reader)], programs: false }
    }

    fn release(&mut self) -> Result<()> {
        cancel::check()?;
        self.go_on()?;
        self.released = Some(Instant::now());
        Ok(())
    }

    /// All writers are done, and all readers at end of file.
    fn wait_for_end(&mut self) -> Result<()> {
        let Some(released) = self.released else { bail!("internal error: wait before release") };
        if self.ended {
            return Ok(());
        }
        let deadline = match self.spec.amount {
            Amount::DurationNs(ns) => released.checked_add(Duration::from_nanos(ns).saturating_add(GRACE)),
            Amount::Bytes(_) | Amount::Calls(_) => None,
        };
        self.gather(deadline, "did not finish")?;
        self.ended = true;
        Ok(())
    }

    fn wait(&mut self) -> Result<Processes> {
        self.wait_for_end()?;
        self.go_on()?;
        self.gather(Some(Instant::now() + START), "did not report")?;
        let mut pairs: Vec<PipeWorkers> = Vec::new();
        pairs.resize_with(self.spec.pairs as usize, PipeWorkers::default);
        for worker in &mut self.workers {
            if let Some(Reply::Done(finished)) = worker.reply.take() {
                match worker.part {
                    WorkerPart::Writer => pairs[worker.pair].writers.push(*finished),
                    WorkerPart::Reader => pairs[worker.pair].readers.push(*finished),
                }
            }
            worker.child.wait().context("cannot wait for a worker")?;
        }
        self.workers.clear();
        Ok(processes(pairs))
    }
}

impl Worker {
    /// Receive what has arrived, and set `reply` when a message is complete.
    fn receive(&mut self) -> Result<()> {
        let mut chunk = [0; 4096];
        loop {
            match self.control.read(&mut chunk) {
                Ok(0) => bail!("{}", self.end()),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => bail!("{}", self.end()),
            }
            if self.received.last() == Some(&b'\n') {
                let reply = serde_json::from_slice(&self.received).context("cannot parse a worker's reply")?;
                self.received.clear();
                self.reply = Some(reply);
                return Ok(());
            }
        }
    }

    /// Why the worker exited without a reply.
    fn end(&mut self) -> String {
        let how = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        format!("the {} process {} exited early: {how}", self.part.name(), self.child.id())
    }
}

/// How the warm-up and the amount are divided among the processes of one pipe.
#[derive(Debug)]
struct WorkShares {
    amount: Amount,
    writers: u64,
    readers: u64,
    writer_warmup: u64,
}

impl WorkShares {
    fn of(spec: &Spec, writers: usize, readers: usize) -> Self {
        // Whole blocks, so that the window begins at the start of a block.
        let writer_warmup = spec.warmup_bytes.div_ceil(spec.block()) * spec.block();
        Self { amount: spec.amount, writers: writers as u64, readers: readers as u64, writer_warmup }
    }

    fn reader_warmup(&self, index: usize) -> u64 {
        share(self.writer_warmup * self.writers, self.readers, index as u64)
    }

    fn amount(&self, index: usize) -> Amount {
        match self.amount {
            Amount::Bytes(bytes) => Amount::Bytes(share(bytes, self.writers, index as u64)),
            other => other,
        }
    }
}

/// Share `index` of `total` divided by `parts`; the first shares include the remainder.
fn share(total: u64, parts: u64, index: u64) -> u64 {
    total / parts + u64::from(index < total % parts)
}

#[derive(Debug, Default)]
struct PipeWorkers {
    writers: Vec<WorkerWindow>,
    readers: Vec<WorkerWindow>,
}

fn processes(pairs: Vec<PipeWorkers>) -> Processes {
    let window = |pairs: &[&PipeWorkers]| {
        let begin = pairs.iter().flat_map(|pair| &pair.writers).map(|f| f.begin_ns).min().unwrap_or(0);
        let all = pairs.iter().flat_map(|pair| pair.writers.iter().chain(&pair.readers));
        all.map(|f| f.end_ns).max().unwrap_or(0).saturating_sub(begin)
    };
    let window_ns = window(&pairs.iter().collect::<Vec<_>>());
    let end = |process, ended: &[WorkerWindow]| PipeEnd {
        process,
        totals: ended.iter().map(|finished| finished.totals.clone()).collect(),
    };
    let pipes: Vec<PipeTotals> = pairs
        .iter()
        .map(|pair| PipeTotals {
            window_ns: window(&[pair]),
            from: end(ProcessName::WRITER, &pair.writers),
            to: end(ProcessName::READER, &pair.readers),
        })
        .collect();
    let writer = ProcessTotals::sum(pipes.iter().flat_map(|pipe| &pipe.from.totals));
    let reader = ProcessTotals::sum(pipes.iter().flat_map(|pipe| &pipe.to.totals));
    // For one writer and one reader, the sums contain everything.
    let single = pipes.len() == 1 && pipes[0].from.totals.len() == 1 && pipes[0].to.totals.len() == 1;
    let pipes = if single { Vec::new() } else { pipes };
    Processes { pipes, ..Processes::of_pair(writer, reader, window_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (total, parts) in [(10, 3), (0, 2), (7, 7), (5, 8), (u64::MAX, 3)] {
            assert_eq!((0..parts).map(|index| share(total, parts, index)).sum::<u64>(), total);
        }
    }

    #[test]
    fn the_window_of_a_pair_is_from_its_first_write_to_its_last_end() {
        let finished = |begin_ns, end_ns, bytes| WorkerWindow {
            begin_ns,
            end_ns,
            totals: ProcessTotals { bytes, elapsed_ns: end_ns - begin_ns, ..ProcessTotals::default() },
        };
        let pair = PipeWorkers { writers: vec![finished(100, 200, 7)], readers: vec![finished(50, 260, 7)] };
        let one = processes(vec![pair]);
        assert_eq!((one.window_ns, one.writer().bytes, one.pipes.len()), (160, 7, 0));
        let pairs = vec![
            PipeWorkers { writers: vec![finished(0, 10, 1), finished(5, 30, 2)], readers: vec![finished(0, 40, 3)] },
            PipeWorkers { writers: vec![finished(10, 50, 4)], readers: vec![finished(0, 55, 4)] },
        ];
        let two = processes(pairs);
        assert_eq!((two.window_ns, two.writer().bytes, two.reader().bytes), (55, 7, 7));
        assert_eq!(two.pipes.iter().map(|pair| pair.window_ns).collect::<Vec<_>>(), [40, 45]);
    }
}

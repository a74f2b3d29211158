//! One process of a workload: this program, started by [`super::launch()`] with a hidden subcommand.
//!
//! A writer has the pipe as standard output and the controller's socket as standard input; a reader has them the
//! other way round.

pub mod buffer;
mod counters;
mod hot;
mod ports;
mod ring;
mod stamp;
mod stdio;

use super::cpus;
use super::spec::{Amount, Reader, Spec, Writer};
use super::wire::{self, Failure, GO, Reply, WorkerJob, WorkerPart, WorkerWindow};
use crate::process::GotAsked;
use crate::util::privileges;
use anyhow::{Context, Result, bail, ensure};
use buffer::Mapping;
use counters::Counters;
use hot::Tally;
pub use hot::now_ns;
use std::io::Read;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// `argv[1]` of a worker.
pub const SUBCOMMAND: &str = "__worker";

/// A worker's whole life.
pub fn main(part: &str) -> ExitCode {
    let (part, control, end) = match part {
        "writer" => (WorkerPart::Writer, libc::STDIN_FILENO, libc::STDOUT_FILENO),
        "reader" => (WorkerPart::Reader, libc::STDOUT_FILENO, libc::STDIN_FILENO),
        _ => return ExitCode::FAILURE,
    };
    // Not before the exec, which ends it if the file of this program gives rights.
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)) {
        util::errln!("pipeprof: cannot tie the {} to its controller: {error}", part.name());
        return ExitCode::FAILURE;
    }
    // SAFETY: the controller passed its socket as this descriptor, and nothing else in this process owns it.
    let control = unsafe { UnixStream::from_raw_fd(control) };
    // Signals are handled by the controller, which ends its workers.
    for signal in [libc::SIGINT, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a valid disposition.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let reply = match work(&control, part, end) {
        Ok(finished) => Reply::Done(Box::new(finished)),
        Err(error) => Reply::Failed(Failure {
            message: format!("{error:#}"),
            consequence: error.downcast_ref::<hot::OtherEndGone>().is_some(),
        }),
    };
    // If the controller has exited, nobody receives the error.
    let _ = wire::send(&control, &reply);
    ExitCode::SUCCESS
}

fn work(control: &UnixStream, part: WorkerPart, end: RawFd) -> Result<WorkerWindow> {
    let job: WorkerJob = wire::receive(control).context("no job received from the controller")?;
    ensure!(job.part == part, "the controller sent a job for another process");
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    // The kernel sends no death signal if the parent died before it was requested. If the controller is process 1 of
    // its PID namespace, the two PIDs agree anyway.
    ensure!(parent.map(i32::cast_unsigned) == Some(job.controller), "the controller has exited");
    set_name(part);
    if let Some(cpu) = job.cpu {
        cpus::bind(cpu)?;
    }
    // Threads of the kernel that are to be counted with this process are started until the warm-up ends.
    let prepared = (job.marked && job.spec.has_ring()).then_some(part);
    hot::mark_begin(prepared);
    let mut engine = Engine::new(&job.spec, part, end)?;
    let supplied = |tally: Tally| {
        // A pipe takes at least one byte, so it was the source that ended: the reader would wait for ever.
        let source = || job.spec.source.as_deref().map_or_else(String::new, |path| format!(" {}", path.display()));
        ensure!(part != WorkerPart::Writer || !tally.ended, "--source{}: it is empty, or became empty", source());
        Ok(tally)
    };
    engine.run(Amount::Bytes(job.warmup), None).and_then(supplied).context("warm-up")?;
    hot::mark_end(prepared);
    let mut counters = Counters::new(job.counter);
    // The file of this program may have given rights, which only opening the counters needs.
    privileges::drop_given();
    hot::install_timer()?;
    let pipe_size = pipe_size(end)?;
    wire::send(control, &Reply::Ready)?;
    wait_for_go(control)?;

    counters.begin();
    let tally = engine.run(job.amount, job.marked.then_some(part)).and_then(supplied)?;
    counters.end();

    // Do as little as possible before the next wait, because collectors are still active. But close the pipe: the
    // reader waits for the end of file.
    if part == WorkerPart::Writer {
        engine.port.release()?;
        // SAFETY: the pipe's end was passed as this descriptor, and nothing uses it after this.
        unsafe { libc::close(end) };
    }
    wire::send(control, &Reply::Ended)?;
    wait_for_go(control)?;

    let mut totals = counters.totals();
    totals.bytes = tally.bytes;
    totals.calls = tally.calls;
    totals.short = tally.short;
    totals.eagain = tally.eagain;
    totals.elapsed_ns = tally.end_ns - tally.begin_ns;
    totals.cpu = job.cpu;
    totals.pipe_size = pipe_size;
    totals.huge_pages = engine.huge_pages()?;
    totals.notes.extend(engine.port.note().map(str::to_owned));
    if let Some(verified) = engine.verified() {
        totals.verified_bytes = Some(verified.0);
        totals.verify_errors = verified.1;
    }
    Ok(WorkerWindow { begin_ns: tally.begin_ns, end_ns: tally.end_ns, totals })
}

/// The name shown by `ps` and profiles: `pipeprof-writer`, `pipeprof-reader` (15 bytes, the longest name possible).
fn set_name(part: WorkerPart) {
    let name = match part {
        WorkerPart::Writer => c"pipeprof-writer",
        WorkerPart::Reader => c"pipeprof-reader",
    };
    // SAFETY: the pointer is to a static, terminated string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn wait_for_go(mut control: &UnixStream) -> Result<()> {
    let mut byte = [0];
    match control.read_exact(&mut byte) {
        Ok(()) if byte[0] == GO => Ok(()),
        _ => bail!("the controller has exited"),
    }
}

fn pipe_size(end: RawFd) -> Result<u64> {
    // SAFETY: a plain system call on an open descriptor.
    let size = unsafe { libc::fcntl(end, libc::F_GETPIPE_SZ) };
    u64::try_from(size).map_err(|_| std::io::Error::last_os_error()).context("cannot read the pipe's size")
}

/// What this process does to the pipe, as configured by the axes.
struct Engine {
    port: Box<dyn ports::Run>,
    options: hot::HotOptions,
}

impl Engine {
    fn new(spec: &Spec, part: WorkerPart, end: RawFd) -> Result<Self> {
        let options = hot::HotOptions {
            poll: spec.poll.then_some((end, if part == WorkerPart::Writer { libc::POLLOUT } else { libc::POLLIN })),
            extra_every: spec.extra_call_every.filter(|_| part == WorkerPart::Writer),
            extra_fd: end,
        };
        let port = match part {
            WorkerPart::Writer => writer(spec, end)?,
            WorkerPart::Reader => reader(spec, end)?,
        };
        Ok(Self { port, options })
    }

    fn run(&mut self, amount: Amount, window: Option<WorkerPart>) -> Result<Tally> {
        self.port.run(amount, window, &self.options)
    }

    fn huge_pages(&self) -> Result<Option<GotAsked>> {
        buffer::huge_pages(&self.port.mappings())
    }

    fn verified(&self) -> Option<(u64, Vec<String>)> {
        self.port.verified()
    }
}

fn non_blocking(end: RawFd) -> Result<()> {
    // SAFETY: plain system calls on an open descriptor.
    let failed = unsafe {
        let flags = libc::fcntl(end, libc::F_GETFL);
        flags < 0 || libc::fcntl(end, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0
    };
    ensure!(!failed, "--busy-loop: cannot make the pipe non-blocking: {}", std::io::Error::last_os_error());
    Ok(())
}

fn splice_flags(spec: &Spec, gift: libc::c_uint) -> libc::c_uint {
    (if spec.busy_loop { libc::SPLICE_F_NONBLOCK } else { 0 }) | (if spec.gift { gift } else { 0 })
}

fn writer(spec: &Spec, end: RawFd) -> Result<Box<dyn ports::Run>> {
    let writer = match spec.writer {
        Writer::Splice if spec.without_splice => Writer::ReadWrite,
        other => other,
    };
    if spec.busy_loop && (spec.without_splice || matches!(writer, Writer::Write | Writer::ReadWrite)) {
        non_blocking(end)?;
    }
    let block = usize::try_from(spec.block())?;
    Ok(match (writer, spec.verify) {
        (Writer::Write, false) => Box::new(ports::Write::<false>::new(end, Mapping::new(block, spec)?)),
        (Writer::Write, true) => Box::new(ports::Write::<true>::new(end, Mapping::new(block, spec)?)),
        (Writer::Vmsplice, verify) => {
            let halves = if spec.contiguous {
                ports::Halves::contiguous(Mapping::new(2 * block, spec)?, block)
            } else {
                ports::Halves::apart([Mapping::new(block, spec)?, Mapping::new(block, spec)?], block)
            };
            let flags = splice_flags(spec, libc::SPLICE_F_GIFT);
            match (verify, spec.without_splice) {
                (true, true) => Box::new(ports::Vmsplice::<true, true>::new(end, halves, flags)),
                (true, false) => Box::new(ports::Vmsplice::<true, false>::new(end, halves, flags)),
                (false, true) => Box::new(ports::Vmsplice::<false, true>::new(end, halves, flags)),
                (false, false) => Box::new(ports::Vmsplice::<false, false>::new(end, halves, flags)),
            }
        }
        (Writer::Splice, _) => {
            let flags = splice_flags(spec, libc::SPLICE_F_MOVE);
            Box::new(ports::SpliceIn::new(end, ports::Source::open(spec)?, block, flags)?)
        }
        (Writer::ReadWrite, _) => {
            Box::new(ports::ReadWrite::new(end, ports::Source::open(spec)?, Mapping::new(block, spec)?))
        }
        (Writer::IoUring, false) => Box::new(ports::UringWrite::<false>::new(end, block, spec)?),
        (Writer::IoUring, true) => Box::new(ports::UringWrite::<true>::new(end, block, spec)?),
        (Writer::IoUringSplice, _) => {
            let flags = splice_flags(spec, libc::SPLICE_F_MOVE);
            let from = ports::SpliceIn::new(end, ports::Source::open(spec)?, block, flags)?;
            Box::new(ports::UringSpliceIn::new(end, from, spec)?)
        }
        (Writer::Stdio, _) => Box::new(stdio::Stdio::new(end, ports::Source::open(spec)?, spec)?),
    })
}

fn check(spec: &Spec) -> Result<ports::Check> {
    Ok(ports::Check(stamp::Checker::new(stamp::Expected::of(spec)?)))
}

fn reader(spec: &Spec, end: RawFd) -> Result<Box<dyn ports::Run>> {
    let reader = match spec.reader {
        Reader::Splice if spec.without_splice => Reader::ReadWrite,
        other => other,
    };
    if spec.busy_loop && reader != Reader::Splice {
        non_blocking(end)?;
    }
    let block = usize::try_from(spec.reader_block())?;
    Ok(match (reader, spec.verify) {
        (Reader::Read, false) => Box::new(ports::Read::new(end, Mapping::new(block, spec)?, ports::CountOnly)),
        (Reader::Read, true) => Box::new(ports::Read::new(end, Mapping::new(block, spec)?, check(spec)?)),
        (Reader::IoUring, false) => Box::new(ports::UringRead::new(end, block, spec, ports::CountOnly)?),
        (Reader::IoUring, true) => Box::new(ports::UringRead::new(end, block, spec, check(spec)?)?),
        (Reader::IoUringMultishot, false) => Box::new(ports::UringMultishot::new(end, block, spec, ports::CountOnly)?),
        (Reader::IoUringMultishot, true) => Box::new(ports::UringMultishot::new(end, block, spec, check(spec)?)?),
        (Reader::IoUringSplice, _) => Box::new(ports::UringSpliceOut::new(end, ports::null()?, block, spec)?),
        (Reader::ReadWrite, _) => {
            Box::new(ports::Read::new(end, Mapping::new(block, spec)?, ports::Copy::new(ports::null()?)))
        }
        (Reader::Splice, _) => {
            Box::new(ports::SpliceOut::new(end, ports::null()?, block, splice_flags(spec, libc::SPLICE_F_MOVE)))
        }
    })
}

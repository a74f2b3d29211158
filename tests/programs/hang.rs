//! Processes that wait for each other, or for nobody.

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, set_parent_process_death_signal, setrlimit};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

/// More than any pipe holds.
static MUCH: [u8; 2 << 20] = [b'x'; 2 << 20];

/// So many pipes.
const CROWD: u64 = 2000;

/// Hang, in a way that is known
#[derive(Debug, clap::Args)]
pub(crate) struct HangArgs {
    #[command(subcommand)]
    way: HangWay,
}

#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum HangWay {
    /// Read all output of a child, which fills its standard error, before its errors
    Errors,
    /// The same, in poll
    Poll,
    /// Read from a child that reads from this process
    Empty,
    /// Write to a child that writes to this process
    Full,
    /// Wait for a child that writes to a pipe which nobody reads
    Child,
    /// Read from a pipe whose write end only this process has open
    Alone,
    /// Wait for a copy of this process, whose lock another thread had when it was forked
    Forked,
    /// Write to one of 2,000 pipes, whose reader only sleeps
    Crowd,
    /// As a child: sleep until the parent has ended
    Asleep,
    /// As a child: write to standard error, then to standard output
    Noisy,
}

impl HangArgs {
    /// # Errors
    /// When a call fails, or it ends.
    pub(crate) fn run(self) -> Result<()> {
        match self.way {
            HangWay::Errors => read_one(&mut start(&["hang", "noisy"])?)?,
            HangWay::Poll => {
                let child = start(&["hang", "noisy"])?;
                let output = child.stdout.as_ref().context("no output")?;
                // Its own end of this one is for signals.
                let (own, _other) = rustix::pipe::pipe()?;
                let any = &mut [PollFd::new(output, PollFlags::IN), PollFd::new(&own, PollFlags::IN)];
                poll(any, None)?;
            }
            HangWay::Empty => read_one(&mut start(&["stage", "copy", "1", "1"])?)?,
            HangWay::Full => {
                let mut child = start(&["stage", "copy", "65536", "1000"])?;
                child.stdin.take().context("no input")?.write_all(&MUCH)?;
            }
            HangWay::Child => drop(start(&["stage", "write", "65536", "1000"])?.wait()?),
            HangWay::Alone => {
                let (read, _write) = rustix::pipe::pipe()?;
                rustix::io::read(&read, &mut [0])?;
            }
            HangWay::Forked => forked()?,
            HangWay::Crowd => crowd()?,
            HangWay::Asleep => {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                std::thread::sleep(Duration::from_secs(3600));
            }
            HangWay::Noisy => std::io::stderr().write_all(&MUCH)?,
        }
        bail!("it did not hang")
    }
}

static LOCK: Mutex<()> = Mutex::new(());

fn forked() -> Result<()> {
    let (has_it, waits) = channel();
    std::thread::spawn(move || {
        let _locked = LOCK.lock();
        has_it.send(()).ok();
        std::thread::sleep(Duration::from_secs(3600));
    });
    waits.recv()?;
    // SAFETY: the copy allocates nothing, and takes no lock but this one, which it is made for.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        drop(LOCK.lock());
        std::process::abort();
    }
    rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
    Ok(())
}

fn crowd() -> Result<()> {
    setrlimit(Resource::Nofile, Rlimit { current: Some(2 * CROWD + 100), maximum: Some(2 * CROWD + 100) })?;
    // The child inherits both ends.
    let pipes = (0..CROWD).map(|_| rustix::pipe::pipe()).collect::<Result<Vec<_>, _>>()?;
    let _child = start(&["hang", "asleep"])?;
    let (read, written): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    drop(read);
    let one = written.get(written.len() / 2).context("no pipe")?;
    while rustix::io::write(one, &MUCH)? > 0 {}
    Ok(())
}

/// Read a byte of its output.
fn read_one(child: &mut Child) -> Result<()> {
    child.stdout.as_mut().context("no output")?.read_exact(&mut [0])?;
    Ok(())
}

/// This program with these arguments. Its three standard files are pipes.
fn start(arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

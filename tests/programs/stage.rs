//! Programs whose behaviour at pipes is known exactly, and a recording printed as JSON.

use anyhow::{Context as _, Result, bail, ensure};
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Act as one stage of a pipeline, with plain read and write calls
#[derive(Debug, clap::Args)]
pub(crate) struct StageArgs {
    #[command(subcommand)]
    part: StagePart,
}

#[derive(Debug, clap::Subcommand)]
enum StagePart {
    /// Write COUNT times SIZE bytes to standard output
    Write(Pace),
    /// Read SIZE bytes at a time from standard input, to its end
    Read(Pace),
    /// Set the capacity of standard output's pipe to one page, and write
    Shrink(Pace),
    /// Read and write
    Copy(Pace),
    /// Copy in a child process
    Fork(Pace),
    /// Copy in a second thread
    Thread(Pace),
    /// Execute this program again, as Copy, from a second thread
    Exec(Pace),
    /// Record a pipeline of this program's stages, then one that is already running, and print all documents
    Record {
        /// Stages, each the arguments of this subcommand in one word
        #[arg(long, num_args = 1..)]
        started: Vec<String>,
        /// Stages of the one that is recorded by its first process
        #[arg(long, num_args = 1..)]
        running: Vec<String>,
        /// Collectors with each of which the first one is recorded again, and the second one with the first of them
        #[arg(long, num_args = 1..)]
        collect: Vec<String>,
    },
}

#[derive(Debug, Clone, clap::Args)]
struct Pace {
    /// Bytes per call
    size: usize,
    /// Calls; for readers, the maximum
    count: u64,
    /// Microseconds to sleep after each call
    #[arg(default_value_t = 0)]
    sleep: u64,
}

impl StageArgs {
    /// # Errors
    /// When a call fails.
    pub(crate) fn run(self) -> Result<()> {
        match self.part {
            StagePart::Write(pace) => pace.run(false, true)?,
            StagePart::Shrink(pace) => {
                rustix::pipe::fcntl_setpipe_size(io::stdout(), 4096).context("set the size of the pipe")?;
                pace.run(false, true)?;
            }
            StagePart::Read(pace) => pace.run(true, false)?,
            StagePart::Copy(pace) => pace.run(true, true)?,
            StagePart::Fork(pace) => {
                let status = own(&pace.words()).status().context("start a child")?;
                ensure!(status.success(), "the child failed");
            }
            StagePart::Thread(pace) => {
                let copy = std::thread::spawn(move || pace.run(true, true));
                copy.join().unwrap_or_else(|_| bail!("the thread failed"))?;
            }
            StagePart::Exec(pace) => {
                let mut command = own(&pace.words());
                let execute = move || std::os::unix::process::CommandExt::exec(&mut command);
                return Err(std::thread::spawn(execute).join().map_or_else(|_| anyhow::anyhow!("no exec"), Into::into));
            }
            StagePart::Record { started, running, collect } => {
                let mut documents = vec![record(&started, &[])?, attach(&running, &["--collect", "sample"])?];
                documents.push(watched(&running, |_| recording(&["--all", "--observe", "bpf", "--duration", "1s"]))?);
                for collector in &collect {
                    documents.push(record(&started, &["--collect", collector])?);
                }
                if let Some(collector) = collect.first() {
                    documents.push(attach(&running, &["--collect", collector])?);
                }
                println!("[{}]", documents.join(","));
            }
        }
        Ok(())
    }
}

/// This program, as a stage.
fn own(words: &[String]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("stage").args(words);
    command
}

fn record(stages: &[String], flags: &[&str]) -> Result<String> {
    let mut words = [flags, &["--"]].concat();
    for (number, stage) in stages.iter().enumerate() {
        if number > 0 {
            words.push("|");
        }
        words.extend(["/proc/self/exe", "stage"]);
        words.extend(stage.split_whitespace());
    }
    recording(&words)
}

fn attach(stages: &[String], flags: &[&str]) -> Result<String> {
    watched(stages, |first| recording(&[flags, &["-p", first, "--duration", "1s"]].concat()))
}

/// Start stages, and `record` while they run: it gets the process id of the first one.
fn watched(stages: &[String], record: impl FnOnce(&str) -> Result<String>) -> Result<String> {
    let mut running = StartedStages(Vec::new());
    let mut input = Stdio::null();
    for (number, stage) in stages.iter().enumerate() {
        let words: Vec<String> = stage.split_whitespace().map(str::to_owned).collect();
        let last = number + 1 == stages.len();
        let output = if last { Stdio::null() } else { Stdio::piped() };
        let mut child = own(&words).stdin(input).stdout(output).spawn().context("start a stage")?;
        input = child.stdout.take().map_or_else(Stdio::null, Stdio::from);
        running.0.push(child);
    }
    let first = running.0.first().context("no stages")?.id().to_string();
    // Until all of them are in their loops.
    std::thread::sleep(Duration::from_millis(500));
    record(&first)
}

/// Stages that end with this value.
struct StartedStages(Vec<std::process::Child>);

impl Drop for StartedStages {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Run `pipeprof record` with these arguments, and return the document.
fn recording(words: &[&str]) -> Result<String> {
    // A guest's file system has no such folder yet.
    std::fs::create_dir_all(std::env::temp_dir()).context("the folder of temporary files")?;
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let output = folder.path().join("recording");
    let mut command = Command::new("/proc/self/exe");
    command.arg("record").arg("-o").arg(&output).args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().context("start the recording")?;
    ensure!(status.success(), "the recording failed: {status}");
    std::fs::read_to_string(output.join("result.json")).context("result.json")
}

impl Pace {
    fn words(&self) -> Vec<String> {
        let numbers = [self.size as u64, self.count, self.sleep].map(|number| number.to_string());
        std::iter::once("copy".to_owned()).chain(numbers).collect()
    }

    fn run(&self, reads: bool, writes: bool) -> Result<()> {
        let mut buffer = vec![0u8; self.size];
        for _ in 0..self.count {
            let mut length = self.size;
            if reads {
                // SAFETY: the buffer is as long as said, and outlives the call.
                length = moved(unsafe { libc::read(libc::STDIN_FILENO, buffer.as_mut_ptr().cast(), self.size) })?;
                if length == 0 {
                    break;
                }
            }
            let mut rest = &buffer[..length];
            while writes && !rest.is_empty() {
                // SAFETY: as above.
                let done = moved(unsafe { libc::write(libc::STDOUT_FILENO, rest.as_ptr().cast(), rest.len()) })?;
                rest = &rest[done..];
            }
            if self.sleep > 0 {
                std::thread::sleep(Duration::from_micros(self.sleep));
            }
        }
        Ok(())
    }
}

fn moved(result: isize) -> Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error()).context("a call at a pipe failed")
}

//! Pipelines of two programs: `cat | head`, `cat | dd`. They run at once: other programs do not wait for a release.

use crate::result::{ProcessTotals, Processes};
use crate::util::own_child::{OwnChild, pin};
use crate::util::process_stat::children_ns;
use crate::util::{cancel, limits};
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `writer | reader >/dev/null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pipeline {
    pub writer: Vec<String>,
    pub reader: Vec<String>,
    /// The CPUs of writer and reader.
    pub cpus: [Option<u32>; 2],
    pub end: End,
}

/// When a pipeline ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    /// When the reader has read this many bytes. The closed pipe ends the writer.
    Bytes(u64),
    /// After this many nanoseconds the writer is killed. The reader ends at the end of file and reports, as dd does,
    /// the bytes copied.
    After(u64),
}

/// A command of these words on this CPU. What it says on stderr is dropped.
///
/// # Errors
/// Without words.
pub(super) fn command(words: &[impl AsRef<OsStr>], cpu: Option<u32>) -> Result<Command> {
    let (program, arguments) = words.split_first().context("no program")?;
    let mut command = Command::new(program);
    command.args(arguments).stderr(Stdio::null()).env("LC_ALL", "C");
    if let Some(cpu) = cpu {
        pin(&mut command, cpu as usize);
    }
    limits::restore_file_size(&mut command);
    Ok(command)
}

/// # Errors
/// Names the program that cannot be started.
pub(super) fn start(mut command: Command) -> Result<OwnChild> {
    let started = OwnChild::spawn(&mut command);
    started.with_context(|| format!("cannot start {}: is it installed?", command.get_program().display()))
}

impl Pipeline {
    /// Run it: bytes, and each program's time, from the start of the first to the end of the last.
    pub(crate) fn run(&self) -> Result<Processes> {
        let Self { reader: words, cpus, end, .. } = self;
        let begin = Instant::now();
        let mut first = command(&self.writer, cpus[0])?;
        first.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut writer = start(first)?;
        let pipe = writer.stdout.take().context("no pipe")?;
        let mut second = command(words, cpus[1])?;
        second.stdin(pipe).stdout(Stdio::null()).stderr(Stdio::piped());
        // `start` drops `second`, and with it this process's copy of the pipe's reading end: so the writer finds the pipe
        // closed.
        let mut reader = start(second)?;
        if let End::After(ns) = end {
            let until = begin + Duration::from_nanos(*ns);
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                cancel::check()?;
                std::thread::sleep(left.min(Duration::from_millis(50)));
            }
            writer.kill().context("cannot end the writer")?;
        }
        // Reaped one by one, so that the difference belongs to one program.
        let before = children_ns()?;
        let status = reader.wait().context("cannot wait for the reader")?;
        let window_ns = u64::try_from(begin.elapsed().as_nanos())?;
        let between = children_ns()?;
        writer.wait().context("cannot wait for the writer")?;
        let after = children_ns()?;
        let mut said = String::new();
        if let Some(mut stderr) = reader.stderr.take() {
            stderr.read_to_string(&mut said).context("cannot read what the reader says")?;
        }
        if !status.success() {
            bail!("{} failed: {status}", words.join(" "));
        }
        let bytes = match end {
            End::Bytes(bytes) => *bytes,
            End::After(_) => {
                copied(&said).with_context(|| format!("{} does not say how many bytes it copied", words.join(" ")))?
            }
        };
        let totals = |from: [u64; 2], to: [u64; 2], cpu| ProcessTotals {
            bytes,
            elapsed_ns: window_ns,
            user_ns: to[0].saturating_sub(from[0]),
            system_ns: to[1].saturating_sub(from[1]),
            cpu,
            ..ProcessTotals::default()
        };
        let (reader, writer) = (totals(before, between, cpus[1]), totals(between, after, cpus[0]));
        Ok(Processes::of_pair(writer, reader, window_ns))
    }
}

/// The number of bytes in dd's report: `1048576 bytes (1.0 MB, 1.0 MiB) copied, 0.1 s, 10 MB/s`.
fn copied(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("copied"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPUs that this process may use.
    fn allowed() -> Vec<u32> {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        (0..1024).filter(|cpu| set.is_set(*cpu as usize)).collect()
    }

    fn pipeline(writer: &str, reader: &str, end: End) -> Result<Processes> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let cpu = allowed().last().copied();
        Pipeline { writer: words(writer), reader: words(reader), cpus: [None, cpu], end }.run()
    }

    #[test]
    fn a_pipeline_is_timed_and_a_missing_program_named() {
        const BYTES: u64 = 10_000_000;
        let pair = pipeline("cat /dev/zero", &format!("head -c {BYTES}"), End::Bytes(BYTES)).unwrap();
        assert!(pair.window_ns > 0 && pair.reader().bytes == BYTES && pair.reader().cpu.is_some(), "{pair:?}");
        let failure = |writer, reader| pipeline(writer, reader, End::Bytes(1)).unwrap_err().to_string();
        let error = failure("no-such-program", "head -c 1");
        assert!(error.contains("no-such-program"), "{error}");
        let error = failure("cat /dev/zero", "head --nonsense");
        assert!(error.contains("head --nonsense failed"), "{error}");
    }

    #[test]
    fn programs_run_on_the_cpus_they_are_given() {
        let here = allowed();
        for cpu in here {
            let ask = format!("test $(awk '/^Cpus_allowed_list/ {{ print $2 }}' /proc/self/status) = {cpu}");
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let (writer, reader) = (words(&["cat", "/dev/null"]), words(&["sh", "-c", &ask]));
            Pipeline { writer, reader, cpus: [Some(cpu); 2], end: End::Bytes(0) }.run().unwrap();
        }
    }

    #[test]
    fn a_pipeline_that_never_ends_is_ended_and_its_bytes_are_told() {
        let pair = pipeline("cat /dev/zero", "dd bs=1M", End::After(50_000_000)).unwrap();
        assert!(pair.window_ns >= 50_000_000 && pair.reader().bytes > 0, "{pair:?}");
        assert!(pipeline("cat /dev/zero", "wc -c", End::After(1)).unwrap_err().to_string().contains("how many bytes"));
        assert_eq!(
            copied("0+9 records in\n0+9 records out\n589824 bytes (590 kB, 576 KiB) copied, 1 s, 1 B/s\n"),
            Some(589_824)
        );
        assert_eq!(copied("nothing"), None);
    }
}

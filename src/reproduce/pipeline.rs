//! Pipelines of programs that are on this machine anyway: `cat | head`, `cat | dd`, timed and their calls counted.

use anyhow::{Context as _, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// What a shell's `time` says of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub real_s: f64,
    /// Both programs.
    pub user_s: f64,
    pub system_s: f64,
}

/// Children that do not outlive this.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(words: &[String]) -> Result<Command> {
    let (program, arguments) = words.split_first().context("no program")?;
    let mut command = Command::new(program);
    command.args(arguments).stderr(Stdio::null()).env("LC_ALL", "C");
    Ok(command)
}

fn start(words: &[String], mut command: Command) -> Result<Killed> {
    let name = words.first().map_or("", String::as_str);
    command.spawn().map(Killed).with_context(|| format!("cannot start {name}: is it installed?"))
}

/// `writer | reader >/dev/null`: the reader ends by itself, the writer of the closed pipe.
///
/// # Errors
/// When a program cannot be started, or the reader fails.
pub fn time(writer: &[String], reader: &[String]) -> Result<Times> {
    let before = children()?;
    let begin = Instant::now();
    run(writer, reader)?;
    let real_s = begin.elapsed().as_secs_f64();
    let after = children()?;
    Ok(Times { real_s, user_s: after[0] - before[0], system_s: after[1] - before[1] })
}

fn run(writer: &[String], reader: &[String]) -> Result<()> {
    let mut first = command(writer)?;
    first.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut first = start(writer, first)?;
    let pipe = first.0.stdout.take().ok_or_else(|| anyhow!("no pipe"))?;
    let mut second = command(reader)?;
    second.stdin(pipe).stdout(Stdio::null());
    let mut second = start(reader, second)?;
    // Gone with it: this process's copy of the pipe's reading end, so that the writer finds the pipe closed.
    let status = second.0.wait().context("cannot wait for the reader")?;
    if !status.success() {
        bail!("{} failed: {status}", reader.join(" "));
    }
    first.0.wait().context("cannot wait for the writer")?;
    Ok(())
}

/// User and system seconds of all children that were waited for.
fn children() -> Result<[f64; 2]> {
    // SAFETY: a structure of numbers, for which all bits zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for the call to fill.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return Err(std::io::Error::last_os_error()).context("getrusage");
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok([seconds(usage.ru_utime), seconds(usage.ru_stime)])
}

/// How many write(2) calls `program` makes for `bytes`, counted by strace.
///
/// # Errors
/// When strace is not there or not allowed, or the program makes none.
pub fn writes(program: &[String], bytes: u64) -> Result<u64> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let log = folder.path().join("calls");
    let mut traced: Vec<String> = ["strace", "-c", "-e", "trace=write", "-o"].map(str::to_owned).to_vec();
    traced.push(log.to_string_lossy().into_owned());
    traced.extend_from_slice(program);
    run(&traced, &["head".to_owned(), "-c".to_owned(), bytes.to_string()])?;
    let text = std::fs::read_to_string(&log).context("strace left no count: install it, and allow ptrace")?;
    counted(&text, "write").ok_or_else(|| anyhow!("it makes no write calls: this cat moves bytes by other calls"))
}

/// The calls of `name` in the table of `strace -c`.
fn counted(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.split_whitespace().last() == Some(name))?;
    // % time, seconds, usecs/call, calls, errors (may be empty), syscall
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_timed_and_a_missing_program_named() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let times = time(&words("cat /dev/zero"), &words("head -c 10000000")).unwrap();
        assert!(times.real_s > 0.0 && times.user_s >= 0.0 && times.system_s >= 0.0, "{times:?}");
        let error = time(&words("no-such-program"), &words("head -c 1")).unwrap_err().to_string();
        assert!(error.contains("no-such-program"), "{error}");
        let error = time(&words("cat /dev/zero"), &words("head --nonsense")).unwrap_err().to_string();
        assert!(error.contains("head --nonsense failed"), "{error}");
    }

    #[test]
    fn strace_tables_are_read() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.032443           3      8193         1 write\n\
                     100.00    0.032443           3      8193         1 total\n";
        assert_eq!(counted(table, "write"), Some(8193));
        assert_eq!(counted(table, "splice"), None);
    }
}

//! Programs that the articles measure and pipeprof does not contain: `--program NAME=PATH`.

use crate::reproduce::parts::shared::prelude::*;
use crate::reproduce::pipeline::{command, start};
use crate::util::cancel;
use crate::util::find_program::find_program;
use crate::workload;
use anyhow::{Context as _, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The time before the first count: the program makes its buffers.
const WARM_UP: Duration = Duration::from_millis(300);

/// How often pv prints the number of bytes, as it takes it.
const INTERVAL: &str = "0.1";

/// The speed of FizzBuzz into pv, as in both articles: each on a CPU of its own. `None` if it was not given.
pub(super) fn fizzbuzz(lab: &Lab<'_>) -> Result<Option<Taken<Reading>>> {
    const NAME: &str = "fizzbuzz";
    let Some(program) = lab.settings.programs.get(NAME) else { return Ok(None) };
    let command = format!("taskset -c 0 {} | taskset -c 1 pv >/dev/null", program.path.display());
    let missing = |why: &str| Ok(Some(Err(Missing::new(why, command.clone()))));
    if lab.settings.in_guest.is_some() {
        return missing("--program runs on this machine: leave out --in-guest");
    }
    if find_program("pv").is_none() {
        return missing("there is no pv: install the package pv");
    }
    let window = Duration::from_nanos(lab.settings.window_ns()).max(Duration::from_millis(500));
    let mut speeds = Vec::new();
    for round in 0..lab.settings.rounds() {
        cancel::check()?;
        lab.say(&format!("{NAME}: run {} of {}", round + 1, lab.settings.rounds()));
        match speed(&program.path, window) {
            Ok(speed) => speeds.push(speed),
            Err(error) => return missing(&format!("{error:#}")),
        }
    }
    let how = format!("median of {}, by pv", counted(speeds.len() as u64, "run"));
    Ok(Some(
        Reading::median(speeds, "GiB/s", ExecutedOn::Hardware, &how).ok_or_else(|| Missing::new("no run", command)),
    ))
}

/// GiB/s from `writer` to pv, during `window`.
fn speed(writer: &Path, window: Duration) -> Result<f64> {
    let allowed = workload::cpus::allowed()?;
    let cpu = |side: usize| allowed.get(side).copied().filter(|_| allowed.len() > 1);
    let mut first = command(&[writer], cpu(0))?;
    first.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut writer = start(first)?;
    let pipe = writer.stdout.take().context("the program has no standard output")?;
    let mut second = command(&["pv", "-n", "-b", "-i", INTERVAL], cpu(1))?;
    second.stdin(pipe).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut reader = start(second)?;
    let counts = reader.stderr.take().context("pv has no standard error")?;
    let begin = Instant::now();
    let mut first: Option<(Instant, u64)> = None;
    for line in BufReader::new(counts).lines() {
        let line = line.context("cannot read from pv")?;
        let now = Instant::now();
        let bytes: u64 = line.trim().parse().ok().with_context(|| format!("pv printed '{line}', not bytes"))?;
        match first {
            None if now.duration_since(begin) >= WARM_UP => first = Some((now, bytes)),
            Some((since, before)) if now.duration_since(since) >= window => {
                ensure!(bytes > before, "the program wrote nothing");
                return Ok((bytes - before) as f64 / now.duration_since(since).as_secs_f64() / (1u64 << 30) as f64);
            }
            _ => {}
        }
    }
    anyhow::bail!("the program ended within {:.1} s", (WARM_UP + window).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    fn script(folder: &Path, text: &str) -> std::path::PathBuf {
        let path = folder.join("program");
        // Another test that forks meanwhile must not hold it open for writing.
        std::fs::write(folder.join("text"), format!("#!/bin/sh\n{text}\n")).unwrap();
        let copied = Command::new("install").args(["-m", "755"]).arg(folder.join("text")).arg(&path).status().unwrap();
        assert!(copied.success() && path.metadata().unwrap().permissions().mode() & 0o111 != 0);
        path
    }

    #[test]
    #[ignore = "needs pv: make test"]
    fn a_program_of_known_speed_has_this_speed_and_one_that_ends_is_named() {
        let folder = tempfile::tempdir().unwrap();
        // 8 MiB/s, by pv's own limit.
        let slow = script(folder.path(), "exec pv -q -L 8M /dev/zero");
        let measured = speed(&slow, Duration::from_secs(1)).unwrap() * 1024.0;
        assert!((6.0..10.0).contains(&measured), "{measured} MiB/s");
        let ended = script(folder.path(), "echo 1");
        assert!(speed(&ended, Duration::from_secs(1)).unwrap_err().to_string().contains("ended within 1.3 s"));
        assert!(speed(Path::new("/nonexistent"), WARM_UP).unwrap_err().to_string().contains("cannot start"));
    }
}

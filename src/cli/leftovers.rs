//! `pipeprof __leftovers`: list what collectors have attached to this kernel, and what remains after one was killed.
//! Tests run it in guests.

use crate::collect::leftovers::Leftovers;
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Time limit for arming a collector, in an emulated guest.
const ARMED: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub(crate) struct LeftoversArgs {
    /// Run this collector, end it with a signal while it is armed, then run it again.
    #[arg(long)]
    kill: Option<String>,
    /// The signal's number.
    #[arg(long, default_value_t = libc::SIGKILL)]
    signal: i32,
}

/// What was found, and when.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Story {
    pub before: Leftovers,
    /// While the collector was armed.
    pub armed: Leftovers,
    pub after_kill: Leftovers,
    pub after_next: Leftovers,
    /// Notes and warnings of the next run.
    pub next_notes: Vec<String>,
}

impl LeftoversArgs {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Some(collector) = self.kill else {
            crate::outln!("{}", serde_json::to_string(&Leftovers::now())?);
            return Ok(ExitCode::SUCCESS);
        };
        crate::outln!("{}", serde_json::to_string(&story(&collector, self.signal)?)?);
        Ok(ExitCode::SUCCESS)
    }
}

fn command(collector: &str, amount: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    let folder = std::env::temp_dir().join(format!("pipeprof-leftovers-{}-{}", std::process::id(), amount.concat()));
    command.args(["run", "--mode", "write", "--runs", "1", "--json", "--collect", collector, "-o"]).arg(folder);
    command.args(amount).stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn story(collector: &str, signal: i32) -> Result<Story> {
    std::fs::create_dir_all(std::env::temp_dir())?;
    let mut story = Story { before: Leftovers::now(), ..Story::default() };
    let mut run = command(collector, &["--duration", "3s"]).stdout(Stdio::null()).spawn().context("start a run")?;
    let begun = Instant::now();
    while story.armed.is_empty() && begun.elapsed() < ARMED && run.try_wait()?.is_none() {
        story.armed = Leftovers::now();
        std::thread::sleep(Duration::from_millis(20));
    }
    // Attaching continues after the first object appears, until the window.
    std::thread::sleep(Duration::from_secs(1));
    story.armed = Leftovers::now();
    // SAFETY: the process is our child and not waited for yet, so the id is its own.
    ensure!(unsafe { libc::kill(run.id().try_into()?, signal) } == 0, "cannot signal the run");
    run.wait()?;
    std::thread::sleep(Duration::from_millis(500));
    story.after_kill = Leftovers::now();

    let next = command(collector, &["--calls", "20"]).stdout(Stdio::piped()).output().context("start the next run")?;
    ensure!(next.status.success(), "the next run failed");
    let document: serde_json::Value = serde_json::from_slice(&next.stdout).context("the next run's document")?;
    let notes = document["collectors"].as_array().into_iter().flatten().flat_map(|one| one["notes"].as_array());
    let warnings = document["warnings"].as_array().into_iter().flatten().map(|warning| &warning["message"]);
    story.next_notes = notes.flatten().chain(warnings).filter_map(|note| Some(note.as_str()?.to_owned())).collect();
    story.after_next = Leftovers::now();
    Ok(story)
}

//! List what a collector has created in this kernel, and what remains after it was killed. Tests run it in guests.

use super::printed::{Ended, KernelObjects, Story};
use anyhow::{Context as _, Result, ensure};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for arming a collector, in an emulated guest.
const ARMED: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub(crate) struct LeftoversArgs {
    /// Run this collector, end it with a signal while it is armed, then run it again.
    #[arg(long)]
    kill: String,
    /// The numbers of the signals. It is run anew for each.
    #[arg(long, value_delimiter = ',', required = true)]
    signal: Vec<i32>,
}

impl LeftoversArgs {
    pub(crate) fn run(self) -> Result<()> {
        println!("{}", serde_json::to_string(&story(&self.kill, &self.signal)?)?);
        Ok(())
    }
}

fn command(collector: &str, name: &str, amount: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    let folder = std::env::temp_dir().join(format!("pipeprof-leftovers-{}-{name}", std::process::id()));
    command.args(["run", "--mode", "write", "--runs", "1", "--json", "--collect", collector, "-o"]).arg(folder);
    command.args(amount).stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn story(collector: &str, signals: &[i32]) -> Result<Story> {
    std::fs::create_dir_all(std::env::temp_dir())?;
    let mut story = Story { before: KernelObjects::now(), ..Story::default() };
    for signal in signals {
        story.ended.push(ended(collector, *signal)?);
    }

    let next =
        command(collector, "next", &["--calls", "20"]).stdout(Stdio::piped()).output().context("start the next run")?;
    ensure!(next.status.success(), "the next run failed");
    let document: serde_json::Value = serde_json::from_slice(&next.stdout).context("the next run's document")?;
    let notes = document["collectors"].as_array().into_iter().flatten().flat_map(|one| one["notes"].as_array());
    let warnings = document["warnings"].as_array().into_iter().flatten().map(|warning| &warning["message"]);
    story.next_notes = notes.flatten().chain(warnings).filter_map(|note| Some(note.as_str()?.to_owned())).collect();
    story.after_next = KernelObjects::now();
    Ok(story)
}

/// Run the collector and end it with the signal while it is armed.
fn ended(collector: &str, signal: i32) -> Result<Ended> {
    let mut run = command(collector, &signal.to_string(), &["--duration", "3s"]);
    let mut run = run.stdout(Stdio::null()).spawn().context("start a run")?;
    let mut armed = KernelObjects::default();
    let begun = Instant::now();
    while armed.is_empty() && begun.elapsed() < ARMED && run.try_wait()?.is_none() {
        armed = KernelObjects::now();
        std::thread::sleep(Duration::from_millis(20));
    }
    // Attaching continues after the first object appears, until the window.
    std::thread::sleep(Duration::from_secs(1));
    armed = KernelObjects::now();
    // SAFETY: the process is our child and not waited for yet, so the id is its own.
    ensure!(unsafe { libc::kill(run.id().try_into()?, signal) } == 0, "cannot signal the run");
    run.wait()?;
    std::thread::sleep(Duration::from_millis(500));
    Ok(Ended { armed, after: KernelObjects::now() })
}

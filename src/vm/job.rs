//! What a guest is started for. A new kind of job is a variant here and an arm in [`Job::perform`].

use crate::document::{ExecutedOn, Request};
use crate::run::{self, Setting};
use crate::util::progress;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::process::Command;

/// Something to do inside a guest; its answer is JSON unless said otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// [`crate::run::execute`]; answers with an [`crate::document::Outcome`].
    Run(Box<Request>),
    /// This binary's own command line, `["roles", "--json"]`; answers with its standard output as it is.
    Command(Vec<String>),
    /// Answers with this text, as it is.
    Echo(String),
    /// Answers with [`Facts`].
    Facts,
    /// Answers with what a file of the guest holds, as it is.
    Read(String),
    /// Never answers: for tests of time limits.
    Hang,
    /// Ends at once without an answer: for tests of guests that give none.
    Mute,
}

/// What the guest finds: its job, and what executes it, which it cannot see for itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub job: Job,
    pub executed_on: ExecutedOn,
}

/// What a guest says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub release: String,
    pub cpus: u32,
    pub memory_kib: u64,
    pub command_line: String,
    /// File systems that init mounted, and those that it could not.
    pub mounts: Vec<String>,
    pub mount_errors: Vec<String>,
    /// `cgroup.controllers` of the root.
    pub controllers: String,
    /// `current_clocksource`.
    pub clock_source: String,
    /// Nanoseconds since the boot.
    pub uptime_ns: u64,
}

impl Assignment {
    /// Do the job, in the guest.
    ///
    /// # Errors
    /// Travel to the host as text.
    pub fn perform(&self, facts: impl Fn() -> Facts) -> Result<Vec<u8>> {
        match &self.job {
            Job::Run(request) => Ok(serde_json::to_vec(&run::execute(request, &self.setting())?)?),
            Job::Command(arguments) => own_command(arguments),
            Job::Echo(text) => Ok(text.clone().into_bytes()),
            Job::Facts => Ok(serde_json::to_vec(&facts())?),
            Job::Read(path) => std::fs::read(path).with_context(|| format!("cannot read {path}")),
            Job::Hang => loop {
                std::thread::sleep(std::time::Duration::from_secs(3600));
            },
            Job::Mute => bail!(Muted),
        }
    }

    fn setting(&self) -> Setting<'static> {
        Setting {
            executed_on: self.executed_on,
            release_on_second: self.executed_on == ExecutedOn::Tcg,
            progress: &|number, of, watched| progress::step(&format!("measuring {number}/{of} ({watched})")),
        }
    }
}

/// The job wants no answer to be given.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("no answer wanted")]
pub struct Muted;

fn own_command(arguments: &[String]) -> Result<Vec<u8>> {
    // Under another name than /init, so that it is the command line that starts and not init.
    let output = Command::new("/proc/self/exe").args(arguments).output().context("cannot start /proc/self/exe")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.trim().trim_start_matches("pipeprof: "));
    }
    Ok(output.stdout)
}

//! What a guest is started for. A new kind of job is a variant here and an arm in `guest::job`.

use crate::document::{ExecutedOn, Outcome, Request};
use serde::{Deserialize, Serialize};

/// Something to do inside a guest; its answer is JSON unless said otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// `run::execute`; answers with an [`crate::document::Outcome`].
    Run(Box<Request>),
    /// `run::execute` of a request without collectors, for the plugin outside to watch; answers with a [`CountAnswer`].
    Count { request: Box<Request>, symbols: bool },
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
    /// Fails by a panic of the program.
    Panic,
    /// Ends at once without an answer: for tests of guests that give none.
    Mute,
}

/// Answer to [`Job::Count`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountAnswer {
    pub outcome: Outcome,
    /// The kernel's own functions, in the form of /proc/kallsyms; absent where not asked for or not there.
    pub symbols: Option<String>,
}

/// What the guest finds: its job, and what executes it, which it cannot see for itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub job: Job,
    pub executed_on: ExecutedOn,
    /// CPUs that the guest has to have when the job begins.
    pub cpus: u32,
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

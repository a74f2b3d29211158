//! Jobs that a guest is started for. To add one, add a variant here and an arm in `guest::job`.

use crate::result::{ExecutedOn, Request};
use serde::{Deserialize, Serialize};

/// The hidden command that records in a guest. Without an argument it loads what a recording needs, for one that follows.
pub const INSIDE: &str = "__inside";

/// The kernel argument of a guest that is to record: what it needs is loaded before the snapshot.
pub const TO_RECORD: &str = "pipeprof.record=1";

/// A job to run in a guest. Its answer is JSON unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Call `run::execute`. Answer: an [`crate::result::Outcome`].
    Run(Box<Request>),
    /// Call `run::execute_counted`: a run whose instructions the emulator counts. Answer: an
    /// [`crate::result::Outcome`] without the kernel's functions.
    Count(Box<Request>),
    /// Answer: the kernel's functions, in the format of /proc/kallsyms, after a comment with those of the roles
    /// (`kernel::resolve::to_comment`); empty if it has no list. This is a job of its own because a job that is counted
    /// must not depend on whether the list is known.
    Functions,
    /// Run this binary with these arguments, such as `["roles", "--json"]`. Answer: its raw standard output.
    Command(Vec<String>),
    /// Answer: this text, unchanged.
    Echo(String),
    /// Answer: [`GuestFacts`].
    Facts,
}

/// What the guest's init reads: the job, and what executes the guest, which the guest cannot find out itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub job: Job,
    pub executed_on: ExecutedOn,
    /// CPUs that must be online when the job begins.
    pub cpus: u32,
}

/// Facts that a guest reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestFacts {
    pub release: String,
    pub cpus: u32,
    pub memory_kib: u64,
    pub command_line: String,
    /// File systems that init mounted, and those that failed.
    pub mounts: Vec<String>,
    pub mount_errors: Vec<String>,
    /// `cgroup.controllers` of the root cgroup.
    pub controllers: String,
    /// `current_clocksource`.
    pub clock_source: String,
    /// Nanoseconds since the boot.
    pub uptime_ns: u64,
}

//! Runs a job inside the guest.

use crate::guest::cgroup::GuestCgroup;
use crate::kernel::reach::Listed;
use crate::kernel::resolve;
use crate::kernel::symbols::{KALLSYMS, Symbols};
use crate::result::{ExecutedOn, Outcome, Request};
use crate::run::{self, Setting};
use crate::util::progress;
use crate::vm::job::{Assignment, GuestFacts, Job};
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Run the job and return its answer; see [`Job`].
pub fn perform(assignment: &Assignment, facts: impl Fn() -> GuestFacts) -> Result<Vec<u8>> {
    match &assignment.job {
        Job::Run(request) => Ok(serde_json::to_vec(&measure(request, assignment.executed_on, run::execute)?)?),
        Job::Count(request) => {
            Ok(serde_json::to_vec(&measure(request, assignment.executed_on, run::execute_counted)?)?)
        }
        Job::Functions => Ok(functions().into_bytes()),
        Job::Command(arguments) => own_command(arguments),
        Job::Echo(text) => Ok(text.clone().into_bytes()),
        Job::Facts => Ok(serde_json::to_vec(&facts())?),
    }
}

type Execute = fn(&Request, &Setting<'_>) -> Result<Outcome>;

fn measure(request: &Request, executed_on: ExecutedOn, execute: Execute) -> Result<Outcome> {
    if request.memcg {
        // Children inherit the cgroup, so the workload's processes are charged like a user's.
        GuestCgroup::create()?.add(std::process::id())?;
    }
    let setting = Setting {
        executed_on,
        settle: executed_on == ExecutedOn::Tcg,
        progress: &|at, watched| progress::step(&format!("measuring {} ({watched})", at.next_text())),
    };
    execute(request, &setting)
}

/// The kernel's functions, without data and modules, because the serial port is slow; before them, as a comment, the
/// functions of the roles.
fn functions() -> String {
    let list = std::fs::read_to_string(KALLSYMS).unwrap_or_default();
    let is_function =
        |line: &&str| matches!(line.as_bytes().get(17), Some(b't' | b'T' | b'w' | b'W')) && !line.ends_with(']');
    let lines: Vec<&str> = list.lines().filter(is_function).collect();
    let functions = lines.join("\n");
    match Symbols::read(functions.as_bytes()).and_then(Symbols::with_addresses) {
        Ok(symbols) => resolve::to_comment(&resolve::resolve(&symbols, &Listed::running())) + &functions,
        // The host explains what is missing.
        Err(_) => functions,
    }
}

pub(super) fn own_command(arguments: &[String]) -> Result<Vec<u8>> {
    // Not under the name /init, so that it starts as the command-line program.
    let output = Command::new("/proc/self/exe").args(arguments).output().context("cannot start /proc/self/exe")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.trim().trim_start_matches("pipeprof: "));
    }
    Ok(output.stdout)
}

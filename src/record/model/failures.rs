//! Lists each process that failed, and whether its starter had started another one meanwhile.

use crate::record::observe::counted::{ProcessStart, RecordedCounts};
use crate::record::observe::raw::{PrProcess, PrWho};
use crate::result::FailedProcess;
use std::collections::{BTreeMap, HashMap};

/// When processes were started, as far as that is known.
pub(crate) fn starts_of(counted: &RecordedCounts) -> Vec<ProcessStart> {
    counted.starts.iter().copied().chain(counted.processes.iter().map(ProcessStart::of)).collect()
}

/// The processes that ended with another exit code than 0.
pub(crate) fn failures(
    counted: &RecordedCounts,
    begin: u64,
    index: &BTreeMap<PrWho, usize>,
) -> Vec<(PrWho, FailedProcess)> {
    // Each program of a process has an entry; the first one is that of its fork.
    let mut starts: HashMap<u32, ProcessStart> = HashMap::new();
    for start in starts_of(counted) {
        let first = starts.entry(start.tgid).or_insert(start);
        first.at = first.at.min(start.at);
    }
    let beside = |who: &PrWho, process: &PrProcess| {
        let own = starts.get(&who.tgid).map_or(process.begin, |start| start.at);
        let lived = own + 1..process.end;
        let is_other = |start: &&ProcessStart| start.tgid != who.tgid && u64::from(start.parent) == process.parent;
        process.parent > 0 && starts.values().filter(is_other).any(|start| lived.contains(&start.at))
    };
    let mut ends: HashMap<u32, [u64; 2]> = HashMap::new();
    for (who, process) in counted.processes.iter().filter(|(_, process)| process.execs > 0) {
        let members = counted.members.get(who).map_or(std::slice::from_ref(&who.tgid), |members| &members.pids);
        ends.extend(members.iter().map(|pid| (*pid, [process.input, process.output])));
    }
    let piped = |process: &PrProcess| {
        let parent = ends.get(&(process.parent as u32)).copied().unwrap_or_default();
        let own = [process.input, process.output];
        own.iter().zip(parent).any(|(own, parent)| *own > 0 && *own != parent)
    };
    let failed = |(who, process): &(PrWho, PrProcess)| {
        let failed = FailedProcess {
            process: *index.get(who)?,
            pid: who.tgid,
            parent: process.parent as u32,
            args: Vec::new(),
            exit_code: u8::try_from(process.code).ok()?,
            lived_ns: [process.begin, process.end].map(|at| at.saturating_sub(begin)),
            errors: process.errors,
            beside: beside(who, process),
            again: false,
            quiet: process.quiet > 0,
            piped: piped(process),
        };
        Some((*who, failed))
    };
    counted.failures.iter().filter_map(failed).collect()
}

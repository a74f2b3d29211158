//! Select the threads that the BPF programs watch (bpf/follow.bpf.h): those of the target's processes, and all that
//! they fork.

use super::bpf::shared::{
    PP_COUNT_FOLLOWED, PP_COUNT_GIVEN, PP_COUNT_UNFOLLOWED, PP_COUNT_UNTIMED, PP_FAST, PP_GIVEN, PP_WATCHED, Settings,
};
use super::bpf::{self, Object};
use super::{Watched, attach, loss_warning};
use crate::result::{Loader, Warning};
use anyhow::{Result, ensure};
use std::os::fd::OwnedFd;

/// The programs that follow forks, and their tracepoints. They need no kernel types.
pub(super) const PROGRAMS: [(&str, &str); 2] = [("pp_fork", "sched_process_fork"), ("pp_free", "sched_process_free")];

/// The watched ids, each with the number of its process: the index in `watched`.
pub(super) fn numbered(watched: &Watched) -> Vec<(u32, u32)> {
    let all = (0u32..).zip(&watched.processes);
    all.flat_map(|(number, process)| process.pids.iter().map(move |pid| (*pid, number))).collect()
}

/// Whether all threads are compared with directly, as far as they exist now.
pub(super) fn only_direct(watched: &Watched) -> bool {
    let ids = numbered(watched);
    ids.len() <= PP_FAST && ids.iter().all(|(pid, _)| threads(*pid).len() == 1)
}

/// Settings of the programs, fixed before loading.
pub(super) fn settings(watched: &Watched, cookies: bool) -> Settings {
    let mut settings = Settings { cookies: u32::from(cookies), ..Settings::in_own_namespace() };
    for (place, (pid, process)) in numbered(watched).into_iter().take(PP_FAST).enumerate() {
        settings.pids[place] = pid;
        settings.processes[place] = process;
    }
    settings
}

/// Load `programs` and the programs that follow forks. If the kernel rejects the latter, load without them and give
/// the reason.
pub(super) fn load(
    loader: Loader,
    settings: &Settings,
    programs: &[&str],
    stacks: u32,
) -> Result<(Object, Option<String>)> {
    let all: Vec<&str> = programs.iter().copied().chain(PROGRAMS.map(|(program, _)| program)).collect();
    match bpf::load(loader, settings, &all, stacks) {
        Ok(object) => Ok((object, None)),
        Err(error) => Ok((bpf::load(loader, settings, programs, stacks)?, Some(format!("{error:#}")))),
    }
}

/// Threads and forks are followed until this is dropped.
#[derive(Debug)]
pub(super) struct Following {
    attached: Vec<OwnedFd>,
    refused: Option<String>,
}

/// The result of following.
#[derive(Debug)]
pub(super) struct Followed {
    pub notes: Vec<String>,
    pub warnings: Vec<Warning>,
    /// Threads and forks that were not watched.
    pub unfollowed: u64,
    /// Whether any thread was watched in addition to those that the programs compare with directly.
    pub others: bool,
}

impl Following {
    /// Give the programs all threads of `watched`, and follow their forks. `refused` is the reason if that is not
    /// possible.
    pub(crate) fn start(object: &mut Object, watched: &Watched, refused: Option<String>) -> Result<Self> {
        let mut following = Self { attached: Vec::new(), refused };
        if following.refused.is_none() {
            match attach_all(object) {
                Ok(attached) => following.attached = attached,
                Err(error) => following.refused = Some(format!("{error:#}")),
            }
        }
        give(object, watched)?;
        Ok(following)
    }

    /// Stop following and return the result.
    pub(crate) fn finish(&mut self, object: &Object) -> Result<Followed> {
        self.attached.clear();
        let count = |which: usize| object.element::<u64>("counts", which as u32);
        let (given, followed) = (count(PP_COUNT_GIVEN)?, count(PP_COUNT_FOLLOWED)?);
        let (unfollowed, untimed) = (count(PP_COUNT_UNFOLLOWED)?, count(PP_COUNT_UNTIMED)?);
        let mut notes = Vec::new();
        notes.extend(self.refused.take().map(|why| format!("new threads and child processes were not watched: {why}")));
        let mut warnings = Vec::new();
        if unfollowed > 0 {
            let message = format!("{unfollowed} of {followed} new threads and child processes were not watched");
            warnings.push(loss_warning("threads-not-watched", message));
        }
        if untimed > 0 {
            let message = format!("{untimed} calls were counted but not timed: too many threads at once");
            warnings.push(loss_warning("calls-not-timed", message));
        }
        Ok(Followed { notes, warnings, unfollowed, others: given + followed > 0 })
    }
}

fn attach_all(object: &Object) -> Result<Vec<OwnedFd>> {
    PROGRAMS.iter().map(|(program, tracepoint)| attach::raw_tracepoint(object.program(program)?, tracepoint)).collect()
}

/// Add all threads of `watched` to the programs' map, except those that they compare with directly. Meanwhile threads
/// may start. Those started by known threads are followed; repeated scans find the others.
fn give(object: &mut Object, watched: &Watched) -> Result<()> {
    let processes = watched.processes.len();
    ensure!(processes <= PP_WATCHED, "at most {PP_WATCHED} processes can be watched, not {processes}");
    let ids = numbered(watched);
    let mut known: Vec<u32> = ids.iter().take(PP_FAST).map(|(pid, _)| *pid).collect();
    let direct = known.len();
    loop {
        let before = known.len();
        for (pid, process) in &ids {
            for thread in threads(*pid) {
                if !known.contains(&thread) {
                    known.push(thread);
                    ensure!(known.len() - direct <= PP_GIVEN, "at most {PP_GIVEN} threads can be watched");
                    object.insert("given", thread, *process)?;
                }
            }
        }
        if known.len() > direct {
            object.set("counts", PP_COUNT_GIVEN as u32, (known.len() - direct) as u64)?;
        }
        if known.len() == before {
            return Ok(());
        }
    }
}

/// The threads of process `pid`; only `pid` if it is a thread or has ended.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    if ids.is_empty() { vec![pid] } else { ids }
}

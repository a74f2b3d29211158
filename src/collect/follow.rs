//! Select the threads that the BPF programs watch (bpf/follow.bpf.h): those of the target's processes, and all that
//! they fork.

use super::bpf::shared::{
    PP_COUNT_FOLLOWED, PP_COUNT_GIVEN, PP_COUNT_NUMBERS, PP_COUNT_UNFOLLOWED, PP_COUNT_UNTIMED, PP_FAST, PP_GIVEN,
    PP_PROGRAMS, PP_WATCHED, Program, Settings,
};
use super::bpf::{self, Object};
use super::{ProgramId, Programs, Watched, attach, loss_warning};
use crate::profile::ProcessName;
use crate::result::{Loader, Warning};
use crate::util::warning::WarningCode;
use anyhow::{Result, ensure};
use bytemuck::Zeroable as _;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The programs that follow forks, and their tracepoints. They need no kernel types.
pub(super) const PROGRAMS: [(&str, &str); 3] =
    [("pp_fork", "sched_process_fork"), ("pp_exec", "sched_process_exec"), ("pp_free", "sched_process_free")];

/// The counts without which threads are not looked up.
const LOOKED_UP: [usize; 2] = [PP_COUNT_GIVEN, PP_COUNT_FOLLOWED];

/// The watched ids, each with the number of its process: the index in `watched`.
pub(super) fn numbered(watched: &Watched) -> Vec<(u32, u32)> {
    let all = (0u32..).zip(&watched.processes);
    all.flat_map(|(number, process)| process.pids.iter().map(move |pid| (*pid, number))).collect()
}

/// Those of them that the programs compare with directly. They keep their numbers.
pub(super) fn direct(watched: &Watched) -> Vec<(u32, u32)> {
    if watched.programs { Vec::new() } else { numbered(watched).into_iter().take(PP_FAST).collect() }
}

/// The name of each number's process; none for those that are not of the target.
pub(super) fn names(object: &Object, watched: &Watched, programs: &Programs) -> Result<Vec<Option<ProcessName>>> {
    if !watched.programs {
        return Ok(watched.processes.iter().map(|process| Some(process.name)).collect());
    }
    let numbers: BTreeMap<u32, Program> = object.entries("programs")?.into_iter().collect();
    Ok(named(&numbers, programs))
}

fn named(numbers: &BTreeMap<u32, Program>, programs: &Programs) -> Vec<Option<ProcessName>> {
    let mut ids: BTreeMap<u32, ProgramId> = (0..).zip(programs.first.iter().copied()).collect();
    for (number, program) in numbers {
        let inherited = ids.get(&program.from).map_or([0; 2], |(_, name)| *name);
        let name = if program.name == [0; 2] { inherited } else { program.name };
        ids.entry(*number).or_insert((program.tgid, name));
    }
    let name = |number: u32| programs.names.get(ids.get(&number)?).copied();
    (0..=ids.keys().last().copied().unwrap_or(0)).map(name).collect()
}

/// Whether all threads are compared with directly, as far as they exist now.
pub(super) fn only_direct(watched: &Watched) -> bool {
    let ids = numbered(watched);
    ids.len() == direct(watched).len() && ids.iter().all(|(pid, _)| threads(*pid).len() == 1)
}

/// Settings of the programs, fixed before loading.
pub(super) fn settings(watched: &Watched, cookies: bool) -> Settings {
    let mut settings =
        Settings { cookies: u32::from(cookies), programs: u64::from(watched.programs), ..Settings::in_own_namespace() };
    for (place, (pid, process)) in direct(watched).into_iter().enumerate() {
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
    /// The counts of given and followed threads while no other thread than the direct ones is watched.
    paused: Option<[u64; 2]>,
}

/// The result of following.
#[derive(Debug)]
pub(super) struct Followed {
    pub notes: Vec<String>,
    pub warnings: Vec<Warning>,
    /// Threads and forks that were not watched.
    pub(crate) unfollowed: u64,
    /// Whether any thread was watched in addition to those that the programs compare with directly.
    pub others: bool,
}

impl Following {
    /// Give the programs all threads of `watched`, and follow their forks. `refused` is the reason if that is not
    /// possible.
    pub(crate) fn start(object: &mut Object, watched: &Watched, refused: Option<String>) -> Result<Self> {
        let mut following = Self { attached: Vec::new(), refused, paused: None };
        if following.refused.is_none() {
            match attach_all(object) {
                Ok(attached) => following.attached = attached,
                Err(error) => following.refused = Some(format!("{error:#}")),
            }
        }
        give(object, watched)?;
        if watched.programs {
            // They may run while probes are attached, so that a call would be seen without its return.
            following.pause(object)?;
        }
        Ok(following)
    }

    /// Watch only threads that the programs compare with directly: a count of 0 skips the lookup of all others.
    pub(crate) fn pause(&mut self, object: &mut Object) -> Result<()> {
        let mut counts = [0; 2];
        for (count, which) in counts.iter_mut().zip(LOOKED_UP) {
            *count = object.element("counts", which as u32)?;
            object.set("counts", which as u32, 0_u64)?;
        }
        self.paused = Some(counts);
        Ok(())
    }

    /// Watch all threads again.
    pub(crate) fn resume(&mut self, object: &mut Object) -> Result<()> {
        for (count, which) in self.paused.take().into_iter().flatten().zip(LOOKED_UP) {
            object.set("counts", which as u32, count)?;
        }
        Ok(())
    }

    /// Stop following and return the result.
    pub(crate) fn finish(&mut self, object: &Object) -> Result<Followed> {
        self.attached.clear();
        let count = |which: usize| object.element::<u64>("counts", which as u32);
        let [given, followed] = match self.paused {
            Some(counts) => counts,
            None => [count(PP_COUNT_GIVEN)?, count(PP_COUNT_FOLLOWED)?],
        };
        let (unfollowed, untimed) = (count(PP_COUNT_UNFOLLOWED)?, count(PP_COUNT_UNTIMED)?);
        let mut notes = Vec::new();
        notes.extend(self.refused.take().map(|why| format!("new threads and child processes were not watched: {why}")));
        let mut warnings = Vec::new();
        if unfollowed > 0 {
            let message = format!("{unfollowed} of {followed} new threads and child processes were not watched");
            warnings.push(loss_warning(WarningCode::ThreadsNotWatched, message));
        }
        if untimed > 0 {
            let message = format!("{untimed} calls were counted but not timed: too many threads at once");
            warnings.push(loss_warning(WarningCode::CallsNotTimed, message));
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
    let most = if watched.programs { PP_PROGRAMS / 2 } else { PP_WATCHED };
    ensure!(processes <= most, "at most {most} processes can be watched, not {processes}");
    if watched.programs {
        for number in 0..processes as u32 {
            object.insert("programs", number, Program::zeroed())?;
        }
        object.set("counts", PP_COUNT_NUMBERS as u32, processes as u64)?;
    }
    let ids = numbered(watched);
    let mut known: Vec<u32> = direct(watched).into_iter().map(|(pid, _)| pid).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_has_the_name_of_its_parent_until_it_executes() {
        let (sh, cat) = ([1, 0], [2, 0]);
        let program = |from, tgid, name| Program { from, tgid, name };
        let starter = Program::zeroed();
        let numbers: BTreeMap<u32, Program> = [
            (0, starter),
            (1, program(0, 7, [0; 2])),
            (2, program(1, 7, sh)),
            (3, program(2, 8, [0; 2])),
            (5, program(3, 8, cat)),
        ]
        .into();
        let name = |id, name: &str| (id, ProcessName::new(name));
        let names = [name((7, sh), "sh"), name((8, sh), "sh-2"), name((8, cat), "cat")].into();
        let programs = Programs { names, first: vec![(0, [0; 2])] };
        let found: Vec<Option<&str>> =
            named(&numbers, &programs).into_iter().map(|name| name.map(ProcessName::as_str)).collect();
        assert_eq!(found, [None, None, Some("sh"), Some("sh-2"), None, Some("cat")]);
        assert!(programs.has_process(8) && !programs.has_process(9) && !programs.has_process(6));
    }
}

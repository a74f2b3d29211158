//! What the end of the pipeline waits for at one moment: from its last process along the waits for others, to who runs or
//! sleeps for something else.

use super::ProcRecorder;
use super::thread::{LookedProcess, LookedThread, Sleep, ThreadState};
use crate::record::observe::path::at_pipe;
use crate::record::observe::raw::{PR_WRITE, PrWho};
use crate::record::observe::reason::why;
use crate::record::start::open_files::FileKind;
use crate::result::{PathWhat, WaitReason};
use std::collections::BTreeSet;

impl ProcRecorder {
    /// Who held up the end since the last look, and what it did: each until which part of that time.
    pub(super) fn blamed(&self) -> Vec<(PrWho, PathWhat, f64)> {
        let Some(end) = self.last_process() else { return Vec::new() };
        let mut before = BTreeSet::from([end]);
        let mut pid = end;
        loop {
            let Some(process) = self.processes.get(&pid) else { return Vec::new() };
            let Some(thread) = telling(process) else { return Vec::new() };
            let ThreadState::Sleeps(sleep) = &thread.state else {
                let [cpu, waiting] = thread.spent;
                let on_cpu = if cpu + waiting == 0 { 1.0 } else { cpu as f64 / (cpu + waiting) as f64 };
                return vec![(process.who, PathWhat::OnCpu, on_cpu), (process.who, PathWhat::ForCpu, 1.0)];
            };
            let (others, _) = self.now.enders(pid, &sleep.call, false);
            let next = others.into_iter().filter(|other| !before.contains(other)).filter_map(|other| {
                let process = self.processes.get(&other)?;
                let runs = telling(process).is_some_and(|thread| thread.state == ThreadState::Runs);
                Some((runs, process.started, other))
            });
            // Of several, one that runs; otherwise the one that was started last, as the end of a pipeline in a shell.
            let Some((.., other)) = next.max() else { return vec![(process.who, what(thread, sleep), 1.0)] };
            before.insert(other);
            pid = other;
        }
    }

    /// The process whose end is that of the pipeline: the first one of the last stage that lives, or what comes last behind the
    /// one that was asked for.
    fn last_process(&self) -> Option<u32> {
        let living = |pid: &&u32| self.processes.contains_key(pid);
        if !self.is_attached {
            return self.roots.iter().rev().find(living).or_else(|| self.processes.keys().next_back()).copied();
        }
        let mut last = *self.roots.iter().find(living)?;
        let mut seen = BTreeSet::from([last]);
        while let Some(next) = self.readers(last).into_iter().find(|pid| !seen.contains(pid)) {
            seen.insert(next);
            last = next;
        }
        Some(last)
    }

    /// The processes that read the pipes which one writes, and not itself.
    fn readers(&self, pid: u32) -> Vec<u32> {
        let files =
            |pid: u32| self.now.processes.get(&pid).and_then(|process| process.files.as_deref()).unwrap_or_default();
        let pipes = |pid: u32, writes: bool| -> BTreeSet<_> {
            let of_side = files(pid).iter().filter(|file| if writes { file.writes } else { file.reads });
            of_side.filter_map(|file| if let FileKind::Pipe(pipe, _) = file.kind { Some(pipe) } else { None }).collect()
        };
        let written: BTreeSet<_> = pipes(pid, true).difference(&pipes(pid, false)).copied().collect();
        let reads = |other: &&u32| **other != pid && !pipes(**other, false).is_disjoint(&written);
        self.processes.keys().filter(reads).copied().collect()
    }
}

/// The thread of a process that tells most: one that runs, then one that waits for others, and last those that only wait for
/// other threads or look again after a time.
fn telling(process: &LookedProcess) -> Option<&LookedThread> {
    let patience = |thread: &&LookedThread| match &thread.state {
        ThreadState::Runs => 0,
        ThreadState::Sleeps(sleep) if sleep.at.is_some() => 1,
        ThreadState::Sleeps(sleep) => match why(sleep.number, sleep.file_type) {
            WaitReason::Poll => 3,
            WaitReason::Timer => 4,
            WaitReason::Signal => 5,
            WaitReason::Thread => 6,
            _ => 2,
        },
    };
    process.threads.values().min_by_key(patience)
}

/// What a thread does that waits for no process which is followed.
fn what(thread: &LookedThread, sleep: &Sleep) -> PathWhat {
    match thread.channel {
        Some((_, side)) => at_pipe(side as usize == PR_WRITE, false),
        None => PathWhat::Asleep { reason: why(sleep.number, sleep.file_type) },
    }
}

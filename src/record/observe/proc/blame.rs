//! What the end of the pipeline waited for between two looks: from its last process along the waits for others, to who ran or
//! slept for something else.

use super::ProcRecorder;
use super::thread::{LookedProcess, LookedThread, Sleep, ThreadState};
use crate::record::observe::path::at_pipe;
use crate::record::observe::raw::{PR_WRITE, PrWho};
use crate::record::observe::reason::why;
use crate::record::start::open_files::FileKind;
use crate::result::{PathWhat, WaitReason};
use std::collections::BTreeSet;

/// A process on the way from the end to the cause, since the last look.
struct BlameLink {
    pid: u32,
    who: PrWho,
    /// Parts of the time.
    cpu: f64,
    waiting: f64,
    asleep: f64,
    /// How often it slept; at least once.
    sleeps: f64,
    /// What it did when it slept.
    what: PathWhat,
    /// It slept for no process that is followed.
    waits_alone: bool,
    /// If it slept for one before it on the way.
    waits_for: Option<u32>,
}

impl BlameLink {
    /// `share` of the time as the process spent it.
    fn parts(&self, share: f64) -> Vec<(PrWho, PathWhat, f64)> {
        let asleep = if self.waits_alone { self.asleep } else { 0.0 };
        let all = self.cpu + self.waiting + asleep;
        if all <= 0.0 {
            return vec![(self.who, self.what, share)];
        }
        let times = [(PathWhat::OnCpu, self.cpu), (PathWhat::ForCpu, self.waiting), (self.what, asleep)];
        times.map(|(what, time)| (self.who, what, share * time / all)).into_iter().filter(|part| part.2 > 0.0).collect()
    }
}

impl ProcRecorder {
    /// Who held up the end since the look before, what it did, and the part of that time.
    ///
    /// When looks happen depends on who has the CPUs, so the states that they see have a bias. Times and numbers of sleeps of
    /// threads are exact. A path that is followed from wake-up to wake-up has, for each sleep of a process, one stretch of work
    /// of who ended it; what is left is that of who slept for nobody else.
    pub(super) fn blamed(&self, ns: u64) -> Vec<(PrWho, PathWhat, f64)> {
        let links = self.links(ns);
        let rest = links.get(1..).unwrap_or_default();
        let (mut left, mut reached) = (1.0_f64, 1.0_f64);
        let mut blamed = Vec::new();
        for (at, (before, link)) in links.iter().zip(rest).enumerate() {
            // All of the time for which the one before slept is that of this one, and for each sleep a stretch of its work.
            reached *= (before.sleeps / link.sleeps).min(1.0).max(before.asleep);
            let is_last = at + 1 == rest.len();
            let own = if is_last && link.waits_alone { 1.0 } else { link.cpu + link.waiting };
            let share = (reached * own).min(left);
            blamed.extend(link.parts(share));
            left -= share;
        }
        // Who it is that the last one waited for.
        let bound = links.last().and_then(|last| links.iter().find(|link| Some(link.pid) == last.waits_for));
        // The end itself has what is left, unless it slept all the time.
        let works = |link: &&BlameLink| link.cpu + link.waiting > 0.0;
        let ran = bound.filter(works).or_else(|| links.iter().find(works));
        blamed.extend(ran.or(links.last()).into_iter().flat_map(|link| link.parts(left)));
        blamed
    }

    /// The end, whom it slept for, whom that slept for, and so on.
    fn links(&self, ns: u64) -> Vec<BlameLink> {
        let mut links: Vec<BlameLink> = Vec::new();
        let mut next = self.last_process();
        while let Some(pid) = next {
            let Some(process) = self.processes.get(&pid) else { break };
            let Some(thread) = telling(process) else { break };
            let [cpu, waiting] = thread.spent.map(|spent| (spent as f64 / ns.max(1) as f64).min(1.0));
            let asleep = (1.0 - cpu - waiting).max(0.0);
            let slept = thread.slept.as_ref().filter(|_| asleep > 0.0);
            let others = slept.map(|slept| self.others(pid, slept)).unwrap_or_default();
            let is_known = |other: &u32| links.iter().any(|link| link.pid == *other);
            next = others.iter().copied().find(|other| !is_known(other));
            links.push(BlameLink {
                pid,
                who: process.who,
                cpu,
                waiting,
                asleep: slept.map_or(0.0, |_| asleep),
                sleeps: thread.sleeps.max(1) as f64,
                what: slept.map_or(PathWhat::OnCpu, |slept| what(thread, slept)),
                waits_alone: slept.is_some() && others.is_empty(),
                waits_for: others.first().copied().filter(|_| next.is_none()),
            });
        }
        links
    }

    /// The processes that can end a sleep: one that runs first, then the one that was started last, as the end of a pipeline in
    /// a shell.
    fn others(&self, pid: u32, sleep: &Sleep) -> Vec<u32> {
        let (others, _) = self.now.enders(pid, &sleep.call, false);
        let known = others.into_iter().filter(|other| *other != pid).filter_map(|other| {
            let process = self.processes.get(&other)?;
            let runs = telling(process).is_some_and(|thread| thread.state == ThreadState::Runs);
            Some((runs, process.started, other))
        });
        let mut known: Vec<_> = known.collect();
        known.sort_unstable_by(|one, other| other.cmp(one));
        known.into_iter().map(|(.., other)| other).collect()
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

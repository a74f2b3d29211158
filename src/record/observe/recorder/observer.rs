//! The BPF programs as the observer of a recording.

use super::{ACCOUNT, ROOM_EVERY, Recorder, SEIZE};
use crate::collect::attach;
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::observer::{AllCounts, Observe};
use crate::record::observe::path::PathEnds;
use crate::record::observe::raw::{PR_ASLEEP, PR_UNTIL, PrTask, PrWho};
use crate::record::observe::reason::why;
use crate::record::start::launch::MadePipe;
use crate::record::start::running::RunningProcesses;
use crate::result::{Document, WaitReason};
use crate::util::clock::monotonic_ns;
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

impl Recorder {
    /// Follow processes that run, each as a stage. Their ids are those that this process sees.
    fn follow(&mut self, wanted: &[(u32, u32)]) -> Result<()> {
        let _kept = self.unpreempted();
        let object = &mut self.object;
        let added = wanted.iter().try_for_each(|(pid, stage)| object.insert("wanted", *pid, *stage));
        attach::run_iterator(self.object.program(SEIZE)?)?;
        // A process that comes later may have its id.
        self.object.remove("wanted", wanted.iter().map(|(pid, _)| pid))?;
        added.context("too many processes")
    }
}

impl Observe for Recorder {
    fn launching(&mut self, stage: Option<u32>) -> Result<()> {
        let _kept = self.unpreempted();
        self.object.set("launch", 0, stage.map_or(0, |stage| u64::from(stage) + 1))
    }

    fn launched(&mut self, _: Vec<u32>, pipes: &[MadePipe]) {
        let made = pipes.iter().map(|pipe| (pipe.inode, pipe.device)).zip(0..);
        self.path.open.extend(made.flat_map(|(pipe, stage)| [(pipe, true, stage), (pipe, false, stage + 1)]));
    }

    fn seize(&mut self, running: &RunningProcesses) -> Result<()> {
        self.follow(&running.pids.iter().copied().zip(0..).collect::<Vec<_>>())?;
        let seized: BTreeSet<u32> = self.read()?.processes.into_iter().map(|(who, _)| who.stage).collect();
        let unseen = (0..).zip(running.asked()).find(|(stage, _)| !seized.contains(stage));
        match (unseen, &running.group) {
            (Some((_, pid)), None) => bail!(
                "-p {pid}: nothing of it can be recorded: it has just ended, or the kernel does not show it to BPF programs"
            ),
            // Of many, some may have just ended.
            (Some(_), Some(_)) if seized.is_empty() => {
                bail!("nothing of {} can be recorded: its processes have just ended", running.target().text())
            }
            _ => {}
        }
        self.path.open.extend(running.known_ends(&(0..running.pids.len()).collect::<Vec<_>>()));
        Ok(())
    }

    fn join(&mut self, running: &RunningProcesses, new: &[usize]) {
        if new.is_empty() {
            return;
        }
        let wanted: Vec<(u32, u32)> = new.iter().map(|at| (running.pids[*at], *at as u32)).collect();
        // A process at the same place has ended.
        self.path.open.retain(|(_, _, stage)| !wanted.iter().any(|(_, new)| new == stage));
        // Without an answer of the kernel, they are not recorded.
        let _ = self.follow(&wanted);
        self.path.open.extend(running.known_ends(new));
    }

    fn needs_no_rights(&self) -> bool {
        true
    }

    fn step(&mut self, ended: &mut dyn FnMut(&RecordedCounts, HashMap<PrWho, PrWho>)) -> Duration {
        // Without an answer of the kernel, what has no room any more is counted as lost.
        if let Ok(Some(taken)) = self.take_ended_at_times() {
            let groups = self.ended.add(&taken);
            ended(&taken, groups);
        }
        if self.step_path() { Duration::ZERO } else { ROOM_EVERY }
    }

    fn counts(&self) -> Option<RecordedCounts> {
        self.read().ok()
    }

    fn look(&mut self) -> Option<(RecordedCounts, Option<PathEnds>)> {
        self.step_path();
        let (counts, tasks) = self.read_with_tasks().ok()?;
        let path = self.path.excerpt(0, counts.at, &tasks);
        self.path.begin(0, counts.at);
        Some((counts, path))
    }

    fn find(&self, happened: &dyn Fn(&PrTask, u64) -> bool) -> Result<Option<PrWho>> {
        let now = monotonic_ns();
        let tasks = self.tasks()?;
        let found = tasks.into_iter().map(|(_, task)| task).find(|task| task.started != 0 && happened(task, now));
        Ok(found.map(|task| task.who))
    }

    fn id_here(&self, tgid: u32) -> u32 {
        self.path.id_here(tgid)
    }

    /// Without an answer of the kernel, none is known.
    fn living(&self) -> HashSet<u32> {
        let tasks = || {
            attach::run_iterator(self.object.program(ACCOUNT)?)?;
            self.tasks()
        };
        tasks().unwrap_or_default().into_iter().filter_map(|(_, task)| u32::try_from(task.id).ok()).collect()
    }

    /// Without an answer of the kernel, none is known.
    fn sleepers(&self, ns: u64) -> Option<(u64, BTreeMap<u32, PrWho>)> {
        let now = monotonic_ns().min(self.until().ok()?);
        let for_others = |task: &PrTask| {
            use WaitReason::{Connect, FileLock, Network, Open, Other, Poll, Signal, Thread};
            let why = why(task.call, task.file_type);
            task.inode != 0 || matches!(why, Poll | Open | Network | Connect | FileLock | Thread | Signal | Other)
        };
        let sleeps_long = |task: &PrTask| {
            task.started != 0 && task.state as usize == PR_ASLEEP && task.since + ns <= now && for_others(task)
        };
        if !self.tasks().ok()?.iter().any(|(_, task)| sleeps_long(task)) {
            return None;
        }
        attach::run_iterator(self.object.program(ACCOUNT).ok()?).ok()?;
        let followed = self.tasks().ok()?.into_iter().filter(|(_, task)| task.started != 0);
        Some((now, followed.filter_map(|(_, task)| Some((u32::try_from(task.id).ok()?, task.who))).collect()))
    }

    fn know_awaited(&mut self, awaited: BTreeMap<u32, Vec<u32>>) {
        self.path.know_awaited(awaited);
    }

    fn end_now(&mut self) -> Result<()> {
        let now = monotonic_ns();
        if now < self.until()? {
            let _kept = self.unpreempted();
            self.object.set("window", PR_UNTIL as u32, now)?;
        }
        Ok(())
    }

    /// Detaching takes about 0.1 s.
    fn read_last(&mut self) -> Result<()> {
        self.last = Some(self.last_counts()?);
        Ok(())
    }

    fn finish(self: Box<Self>, _: &mut Document) -> Result<AllCounts> {
        self.counted()
    }
}

//! Looks into /proc as the observer of a recording.

use super::switched::Switched;
use super::thread::{LookedThread, ThreadState};
use super::{COST, FIRST, FIRST_COST, FIRST_OFTEN, OFTEN, ProcRecorder, SELDOM, if_possible};
use crate::record::model::ended::EndedProcesses;
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::observer::{AllCounts, Observe};
use crate::record::observe::raw::{PrState, PrWho};
use crate::record::observe::thread_calls::ThreadCall;
use crate::record::start::launch::MadePipe;
use crate::record::start::running::RunningProcesses;
use crate::result::{Document, ProcLooks, RecordLevel};
use crate::util::clock::monotonic_ns;
use crate::util::process_stat::ProcessStat;
use crate::util::warning::{Warning, WarningCode};
use anyhow::{Result, ensure};
use bytemuck::Zeroable as _;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

impl Observe for ProcRecorder {
    /// The window begins with the first stage.
    fn launching(&mut self, stage: Option<u32>) -> Result<()> {
        if stage == Some(0) {
            self.begin_now();
        }
        Ok(())
    }

    fn launched(&mut self, pids: Vec<u32>, _: &[MadePipe]) {
        self.follow(pids, false);
    }

    fn seize(&mut self, running: &RunningProcesses) -> Result<()> {
        self.begin_now();
        self.follow(running.pids.iter().copied(), true);
        let mut refused = self.refused.take();
        if_possible(self.wanted, &mut refused, || self.read_events())?;
        self.refused = refused;
        ensure!(!self.living().is_empty(), "{}: none of its processes runs any more", running.target().text());
        Ok(())
    }

    /// Each is a further stage, unless it is followed already.
    fn join(&mut self, running: &RunningProcesses, new: &[usize]) {
        for pid in new.iter().map(|place| running.pids[*place]) {
            let stage = self.roots.len() as u32;
            self.roots.push(pid);
            if !self.processes.contains_key(&pid)
                && let Some(stat) = ProcessStat::of(pid).filter(|stat| stat.state != 'Z')
            {
                self.others.remove(&pid);
                let at = monotonic_ns();
                self.know_ancestors(stat.parent);
                self.add(pid, stage, &stat, at, true);
                // What cannot be followed is looked at.
                let _ = self.seize_process(pid, at);
            }
        }
    }

    /// Look, if it is time to.
    fn step(&mut self, _: &mut dyn FnMut(&RecordedCounts, HashMap<PrWho, PrWho>)) -> Duration {
        let (last, long) = (self.last, self.every.as_nanos() as u64 / 2);
        let is_time =
            self.switched.as_mut().is_some_and(|switched| switched.due().is_zero() && switched.read(last, long));
        if Instant::now() >= self.next || is_time {
            let ns = self.look();
            let (cost, often) = if self.looks < FIRST { (FIRST_COST, FIRST_OFTEN) } else { (COST, OFTEN) };
            let wanted = Duration::from_nanos(ns).div_f64(cost).clamp(often, SELDOM);
            // One long look, as at the start, is no reason to look seldom.
            self.every = (self.every * 3 + wanted) / 4;
            self.next = Instant::now() + self.every;
        }
        let read = self.switched.as_ref().map_or(Duration::MAX, Switched::due);
        self.next.saturating_duration_since(Instant::now()).min(read)
    }

    fn counts(&self) -> Option<RecordedCounts> {
        let living = self.processes.iter().filter(|(pid, _)| !self.ending.contains(pid));
        let counts = self.totals.counts(self.last, living.map(|(_, process)| process.who));
        let lost = self.switched.as_ref().map_or(0, Switched::lost);
        let state = (lost > 0).then(|| PrState { lost_steps: lost, ..PrState::zeroed() });
        Some(RecordedCounts { state, ..counts })
    }

    fn living(&self) -> HashSet<u32> {
        self.processes.keys().copied().filter(|pid| !self.ending.contains(pid)).collect()
    }

    fn sleepers(&self, ns: u64) -> Option<(u64, BTreeMap<u32, PrWho>)> {
        let is_long = |thread: &LookedThread| {
            matches!(&thread.state, ThreadState::Sleeps(sleep) if !matches!(sleep.call, ThreadCall::Busy | ThreadCall::Idle))
                && thread.since + ns <= self.last
        };
        let found = self.processes.values().any(|process| process.threads.values().any(is_long));
        found.then(|| (self.last, self.processes.iter().map(|(pid, process)| (*pid, process.who)).collect()))
    }

    fn end_now(&mut self) -> Result<()> {
        if self.until == u64::MAX {
            self.look();
            self.until = self.last;
            for (pid, process) in &self.processes {
                let files = self.now.processes.get(pid).and_then(|process| process.files.as_deref());
                self.totals.add_open(&process.who, files.unwrap_or_default());
            }
            self.add_unseen();
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, recording: &mut Document) -> Result<AllCounts> {
        self.end_now()?;
        let counts = self.counts().unwrap_or_default();
        let mean_ns = (self.last - self.begin) / self.looks.max(1);
        let switched = self.switched.take();
        let events = switched.as_ref().map(|switched| switched.count);
        let unseen_ns = switched.as_ref().map_or(0, |switched| switched.unseen_ns);
        let seen = ProcLooks { looks: self.looks, mean_ns, unreadable: self.unreadable, events, unseen_ns };
        (recording.looks, recording.level) = (Some(seen), RecordLevel::Sched);
        if let Some(why) = self.refused.take() {
            let shares = if events.is_none() { ", wake-ups and exact shares" } else { " and wake-ups" };
            let message = format!("calls, bytes{shares} are not recorded");
            recording.warnings.push(Warning { code: WarningCode::LookedOnly, message, action: format!("{why:#}") });
        }
        if seen.unreadable > seen.looks / 10 {
            recording.warnings.push(Warning {
                code: WarningCode::SleepsUnreadable,
                message: "what some of the processes sleep for cannot be read: another user's, or one with more rights"
                    .to_owned(),
                action: "record as their user, or as root".to_owned(),
            });
        }
        let path = match switched {
            Some(switched) => self.followed(switched),
            None => self.path.finish(),
        };
        Ok((counts, EndedProcesses::default(), Some(path)))
    }
}

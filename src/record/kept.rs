//! Watch running processes for as long as it takes, and keep only the last time before something happens. Memory is bounded:
//! there are two excerpts, of which each begins anew in turn, and what happened before the older one is forgotten.

use crate::kernel::environment::Environment;
use crate::record::conclude::{RecordedSymbols, concluded};
use crate::record::model::ended::EndedProcesses;
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::looks::Looks;
use crate::record::observe::observer::Observe as _;
use crate::record::observe::others::ProgramTimes;
use crate::record::observe::raw::{PR_ASLEEP, PR_READ, PR_STOPPED, PR_WRITE, PrTask, PrWho};
use crate::record::observe::reason::name_of;
use crate::record::observe::recorder::{Excerpts, Recorder};
use crate::record::observe::timeline::TimelineRecorder;
use crate::record::observe::user_pages::UserPages;
use crate::record::options::{RecordOptions, give_up};
use crate::record::start::running::RunningProcesses;
use crate::result::{Document, Keep, Outcome, RecordingTarget, Trigger, Until};
use crate::util::clock::monotonic_ns;
use anyhow::{Context as _, Result};
use easy_ext::ext;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether a condition holds, and of which part of the time looking may take.
const OFTEN: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_millis(250);
const COST: u32 = 50;

/// A rate is that of this time, ns.
const SECOND_NS: u64 = 1_000_000_000;

/// A part of the time, from its begin until now.
struct Excerpt {
    begun: Instant,
    /// What had been counted before.
    before: RecordedCounts,
    ended: EndedProcesses,
    timeline: TimelineRecorder,
    programs: ProgramTimes,
    pages: UserPages,
}

impl Excerpt {
    fn new(before: RecordedCounts, keep: Duration) -> Self {
        Self {
            begun: Instant::now(),
            before,
            ended: EndedProcesses::default(),
            timeline: TimelineRecorder::for_time(keep * 2),
            programs: ProgramTimes::now(),
            pages: UserPages::default(),
        }
    }
}

/// Keeps the last time of a recording.
struct KeptTime {
    keep: Duration,
    excerpts: [Excerpt; 2],
}

impl KeptTime {
    fn start(recorder: &mut Recorder, keep: Duration) -> Result<Self> {
        let mut new = |number| recorder.begin(number).map(|before| Excerpt::new(before, keep));
        Ok(Self { keep, excerpts: [new(0)?, new(1)?] })
    }

    fn older(&self) -> usize {
        usize::from(self.excerpts[1].begun < self.excerpts[0].begun)
    }

    /// Read what has happened, and forget what is no longer of use. Without an answer of the kernel, it is done later.
    fn step(&mut self, recorder: &mut Recorder) {
        if let Ok(Some(ended)) = recorder.take_ended() {
            for Excerpt { before, ended: all, timeline, .. } in &mut self.excerpts {
                let new = ended.since(before);
                let groups = all.add(&new);
                timeline.end(&new, groups);
            }
        }
        recorder.step_path();
        if self.excerpts.iter().any(|excerpt| excerpt.timeline.due().is_zero())
            && let Ok(counts) = recorder.read()
        {
            for Excerpt { before, timeline, pages, .. } in &mut self.excerpts {
                let read = timeline.step(|| Some(counts.since(before)));
                read.iter().for_each(|counts| pages.step(counts, |tgid| recorder.id_here(tgid)));
            }
        }
        let older = self.older();
        let [age, younger] = [older, 1 - older].map(|at| self.excerpts[at].begun.elapsed());
        if age >= 2 * self.keep && younger >= self.keep {
            self.begin(recorder, older);
        }
    }

    fn begin(&mut self, recorder: &mut Recorder, number: usize) {
        if let Ok(before) = recorder.begin(number) {
            self.excerpts[number] = Excerpt::new(before, self.keep);
        }
    }

    /// A recording of what is kept, which begins anew then.
    fn take(
        &mut self,
        recorder: &mut Recorder,
        running: &RunningProcesses,
        recording: Document,
        slept_ns: u64,
    ) -> Result<Outcome> {
        let seen = Looks::once(recorder, slept_ns);
        let older = self.older();
        let (counts, path) = recorder.look_at(older)?;
        let new = recorder.begin(older)?;
        let Excerpt { before, ended, timeline, programs, pages, .. } =
            std::mem::replace(&mut self.excerpts[older], Excerpt::new(new, self.keep));
        let others = programs.others_since(&recorder.living());
        let recording = Document { warnings: running.unknown_pipes(), others, user_pipes: pages.found, ..recording };
        let counted = (counts.since(&before), ended, path);
        let symbols = RecordedSymbols::default();
        Ok(concluded(recording, counted, (timeline, seen), &[], running, &symbols, None))
    }
}

/// Whether a condition holds now.
struct ConditionWatch<'a> {
    conditions: &'a [Until],
    requested: Arc<AtomicBool>,
    next: Instant,
    /// Processes of those asked for that had ended.
    ended: usize,
    /// It held when it was last looked: that is one event.
    held: bool,
    /// What had been counted a second ago, and how much was read in the second before, in bytes; `None` if it is not known.
    counted: RecordedCounts,
    read: Option<u64>,
}

impl<'a> ConditionWatch<'a> {
    /// # Errors
    /// If SIGUSR1 cannot be handled.
    fn start(conditions: &'a [Until]) -> Result<Self> {
        let requested = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&requested))
            .context("cannot handle SIGUSR1")?;
        Ok(Self {
            conditions,
            requested,
            next: Instant::now(),
            ended: 0,
            held: false,
            counted: RecordedCounts::default(),
            read: None,
        })
    }

    /// What has happened since this was last called.
    fn happened(&mut self, recorder: &Recorder, running: &RunningProcesses) -> Option<Trigger> {
        if self.requested.swap(false, Ordering::Relaxed) {
            return Some(Trigger { until: None, name: String::new() });
        }
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.count(recorder);
        let found = self.find(recorder, running);
        let every = self.conditions.iter().map(|until| Duration::from_nanos(until.slept_ns()) / 4);
        let every = every.min().unwrap_or(SELDOM).clamp(OFTEN, SELDOM);
        self.next = Instant::now() + every.max(now.elapsed() * COST);
        let held = std::mem::replace(&mut self.held, found.is_some());
        found.filter(|_| !held)
    }

    /// Count what was read, once a second.
    fn count(&mut self, recorder: &Recorder) {
        let is_wanted = self.conditions.iter().any(|until| matches!(until, Until::Rate(_)));
        if !is_wanted || monotonic_ns() < self.counted.at + SECOND_NS {
            return;
        }
        // Without an answer of the kernel, nothing is known.
        let Ok(counts) = recorder.read() else { return };
        let before = std::mem::replace(&mut self.counted, counts);
        let ns = self.counted.at.saturating_sub(before.at);
        self.read = (before.at > 0 && ns > 0).then(|| {
            let new = self.counted.since(&before);
            let readers = new.ends.iter().filter(|(end, _)| end.side as usize == PR_READ);
            let bytes: u64 = readers.map(|(_, counts)| counts.bytes).sum();
            (u128::from(bytes) * u128::from(SECOND_NS) / u128::from(ns)) as u64
        });
    }

    fn find(&mut self, recorder: &Recorder, running: &RunningProcesses) -> Option<Trigger> {
        let ended = running.ended();
        let has_ended = ended > std::mem::replace(&mut self.ended, ended);
        for until in self.conditions.iter().copied() {
            if until == Until::Exit && has_ended {
                return Some(Trigger { until: Some(until), name: String::new() });
            }
            if let Until::Rate(limit) = until
                && self.read.is_some_and(|read| read < limit)
            {
                return Some(Trigger { until: Some(until), name: String::new() });
            }
            // Without an answer of the kernel, nothing is known.
            if let Ok(Some(PrWho { name, .. })) = recorder.find(&|task, now| until.holds(task, now)) {
                return Some(Trigger { until: Some(until), name: name_of(name) });
            }
        }
        None
    }
}

#[ext(HoldsUntil)]
impl Until {
    /// Whether it holds for a thread.
    fn holds(self, task: &PrTask, now: u64) -> bool {
        let asleep = task.state as usize == PR_ASLEEP && task.woken == 0;
        let at_channel = |writes: bool, ns: u64| {
            let is_side = (task.side & 1 == PR_WRITE as u32) == writes;
            asleep && task.inode != 0 && task.locked == 0 && is_side && now.saturating_sub(task.since) >= ns
        };
        match self {
            Self::Full(ns) => at_channel(true, ns),
            Self::Empty(ns) => at_channel(false, ns),
            Self::Stopped => asleep && task.call as usize == PR_STOPPED,
            Self::Rate(_) | Self::Exit => false,
        }
    }

    /// For how long a thread has slept then.
    fn slept_ns(self) -> u64 {
        match self {
            Self::Full(ns) | Self::Empty(ns) => ns,
            Self::Rate(_) | Self::Stopped | Self::Exit => u64::MAX,
        }
    }
}

/// Watch `wanted` until what `keep` waits for has happened as often as it is to be written, all have ended, or an
/// interruption. Each time, `write` what was kept.
///
/// # Errors
/// Why nothing can be recorded, or that of `write`.
pub(crate) fn watch(
    wanted: &RecordingTarget,
    options: &RecordOptions,
    keep: &Keep,
    write: &mut dyn FnMut(Outcome) -> Result<()>,
) -> Result<()> {
    let environment = Environment::now();
    let level = options.settings.level;
    let mut running = RunningProcesses::find(wanted)?;
    let mut recorder = Recorder::start(level, false, Excerpts::Kept, None, true)?;
    recorder.seize(&running)?;
    give_up(options.drop_rights);
    let mut watch = ConditionWatch::start(&keep.until)?;
    let mut kept = KeptTime::start(&mut recorder, Duration::from_nanos(keep.ns))?;
    let recording = Document { target: running.target(), environment, level, ..Document::default() };
    let mut left = keep.repeat;
    let (mut failed, mut is_done) = (None, false);
    let mut look =
        |watch: &mut ConditionWatch<'_>, recorder: &mut Recorder, running: &RunningProcesses| -> Result<bool> {
            if let Some(trigger) = watch.happened(recorder, running) {
                let slept_ns = trigger.until.map_or(u64::MAX, |until| until.slept_ns());
                let recording = Document { trigger: Some(trigger), ..recording.clone() };
                write(kept.take(recorder, running, recording, slept_ns)?)?;
                left -= 1;
            }
            kept.step(recorder);
            Ok(left > 0)
        };
    running.wait(options.settings.duration, |running| {
        let new = running.newcomers();
        recorder.join(running, &new);
        match look(&mut watch, &mut recorder, running) {
            Ok(more) => {
                is_done = !more;
                more.then_some(OFTEN)
            }
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        // The last of them may just have ended.
        None if !is_done => {
            watch.next = Instant::now();
            look(&mut watch, &mut recorder, &running).map(drop)
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable as _;

    #[test]
    fn a_condition_holds_for_threads_that_sleep_long_at_a_side() {
        let task = |side: usize, since| PrTask {
            state: PR_ASLEEP as u32,
            inode: 7,
            side: side as u32,
            since,
            ..PrTask::zeroed()
        };
        let holds = |until: Until, task: &PrTask| until.holds(task, 1000);
        assert!(holds(Until::Full(500), &task(PR_WRITE, 500)) && !holds(Until::Full(501), &task(PR_WRITE, 500)));
        assert!(!holds(Until::Empty(1), &task(PR_WRITE, 0)) && holds(Until::Empty(1), &task(0, 0)));
        // Woken, for the lock, or elsewhere.
        for other in [
            PrTask { woken: 900, ..task(PR_WRITE, 0) },
            PrTask { locked: 1, ..task(PR_WRITE, 0) },
            PrTask { inode: 0, ..task(PR_WRITE, 0) },
            PrTask { state: 1, ..task(PR_WRITE, 0) },
        ] {
            assert!(!holds(Until::Full(1), &other));
        }
        let stopped = PrTask { call: PR_STOPPED as u32, inode: 0, ..task(0, 999) };
        assert!(holds(Until::Stopped, &stopped) && !holds(Until::Stopped, &task(0, 0)));
    }
}

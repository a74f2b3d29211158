//! What a pipeline does while it is recorded: each second, a recording of that second, shown as a recording is.
//! [`since`] takes the difference of counts. [`output`] is a screen or lines.
//!
//! The screen: [`terminal`] is the real one, [`pty`] the one that the pipeline gets, [`printed`] what it prints there;
//! [`screen`] reads both and [`keys`], keeps a [`state`] of [`frame`]s and their [`history`], and has it [`draw`]n.

mod draw;
pub(crate) mod frame;
mod history;
mod keys;
pub(crate) mod output;
mod printed;
mod pty;
mod screen;
mod since;
mod state;
mod terminal;

use crate::profile::few;
use crate::record::live::frame::LiveFrame;
use crate::record::live::output::{LiveOutput, LivePlace};
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::observer::Observe;
use crate::record::observe::others::ProgramTimes;
use crate::record::observe::raw::{PR_ASLEEP, PR_READ, PR_TERMINAL, PrTask};
use crate::record::say::{answer, pipe_rows, words};
use crate::record::start::described::described;
use crate::record::start::launch::MadePipe;
use crate::record::start::running::RunningProcesses;
use crate::report::number::{number, percent};
use crate::result::{Document, RecordLevel};
use std::time::{Duration, Instant};

/// How often it is shown, and how often it is looked whether to end.
const EVERY: Duration = Duration::from_secs(1);
const KEYS_EVERY: Duration = Duration::from_millis(100);

const MIB: f64 = (1 << 20) as f64;

/// Shows what happens.
pub(crate) struct LiveView {
    output: LiveOutput,
    begun: Instant,
    next: Instant,
    before: RecordedCounts,
    /// Of processes that have ended since then, and are not in the next counts.
    ended: RecordedCounts,
    programs: ProgramTimes,
    /// When it is looked again whether a program waits for a line.
    next_read: Instant,
}

impl LiveView {
    /// `is_pipeline`: what is recorded has the terminal of `place`, too.
    pub(crate) fn start(place: LivePlace, is_pipeline: bool) -> Self {
        let begun = Instant::now();
        Self {
            output: LiveOutput::start(place, is_pipeline),
            begun,
            next: begun + EVERY,
            before: RecordedCounts::default(),
            ended: RecordedCounts::default(),
            programs: ProgramTimes::now(),
            next_read: begun,
        }
    }

    /// Time until [`Self::step`] has something to do.
    pub(crate) fn due(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now()).min(KEYS_EVERY)
    }

    /// Whether the user wants to see the report.
    pub(crate) fn is_left(&self) -> bool {
        self.output.is_left()
    }

    /// Add counts that are no longer in the kernel's maps.
    pub(crate) fn end(&mut self, ended: &RecordedCounts) {
        self.ended.processes.extend(&ended.processes);
        self.ended.ends.extend(&ended.ends);
        self.ended.waits.extend(&ended.waits);
    }

    /// Show the last second, if it is over. Without an answer of the kernel, nothing is shown. `recording` has what is
    /// known of it from the start, `pipes` are those between its stages.
    pub(crate) fn step(
        &mut self,
        observer: &mut dyn Observe,
        recording: &Document,
        pipes: &[MadePipe],
        running: &RunningProcesses,
    ) {
        self.look_who_reads(observer);
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        let Some((counts, path)) = observer.look() else { return };
        let mut all = RecordedCounts { at: counts.at, ..std::mem::take(&mut self.ended) };
        all.processes.extend(&counts.processes);
        all.ends.extend(&counts.ends);
        all.waits.extend(&counts.waits);
        let new = all.since(&self.before);
        self.before = counts;
        let programs = std::mem::replace(&mut self.programs, ProgramTimes::now());
        let others = programs.others_since(&observer.living());
        // It goes on.
        let shown = Document { others, duration_ns: Some(0), ..recording.clone() };
        let (shown, _) = described(shown, &new, (path, None), pipes, running);
        let elapsed = format!("{} s", self.begun.elapsed().as_secs());
        self.output.show(|| LiveFrame::of_recording(&shown, elapsed.clone()), || line(&shown, &elapsed));
    }

    /// A program that waits for a line needs the terminal.
    fn look_who_reads(&mut self, observer: &dyn Observe) {
        let LiveOutput::Screen(screen) = &self.output else { return };
        if Instant::now() < self.next_read {
            return;
        }
        self.next_read = Instant::now() + KEYS_EVERY;
        let Some(typed) = screen.typed_channel() else { return };
        let reads = |task: &PrTask, _: u64| {
            task.state as usize == PR_ASLEEP
                && task.side as usize == PR_READ
                && (u64::from(task.device), task.inode) == (PR_TERMINAL as u64, typed)
        };
        // Without an answer of the kernel, it is as before.
        if let Ok(found) = observer.find(&reads) {
            screen.set_reads(found.is_some());
        }
    }
}

/// The last second in one line.
fn line(shown: &Document, elapsed: &str) -> String {
    let seconds = shown.processes.window_ns.max(1) as f64 / 1e9;
    let share = |ns: u64| percent((ns as f64 / 1e9 / seconds).min(1.0));
    let rows = pipe_rows::rows(shown);
    let pipe = |row: &pipe_rows::PipeRow<'_>| {
        let rate = match shown.level {
            RecordLevel::Sched => String::new(),
            _ => format!("{} MiB/s, ", number(row.bytes() as f64 / MIB / seconds)),
        };
        format!("{} {rate}full {}, empty {}", row.name, share(row.blocked_ns(false)), share(row.blocked_ns(true)))
    };
    let pipes = few(rows.iter().map(pipe));
    let path = words::made_of(shown).unwrap_or_else(|| "nothing of it runs".to_owned());
    let parts = [path, pipes, answer::busy_others(&shown.others).unwrap_or_default()];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{elapsed}: {}", parts.join("; "))
}

//! What a pipeline does while it is recorded: each second, a recording of that second, shown as a recording is.
//! [`since`] takes the difference of counts, and [`screen`] has the terminal.

pub(crate) mod screen;
mod since;

use crate::profile::few;
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::others::ProgramTimes;
use crate::record::observe::recorder::Recorder;
use crate::record::say::{answer, pipe_rows, tables, words};
use crate::record::start::described::described;
use crate::record::start::launch::MadePipe;
use crate::record::start::running::RunningProcesses;
use crate::report::block::ReportBlock;
use crate::report::number::{number, percent};
use crate::result::{Document, RecordLevel};
use crate::util::text::capitalized;
use screen::LiveOutput;
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
}

impl LiveView {
    /// `is_shared`: the pipeline prints to the same terminal.
    pub(crate) fn start(is_shared: bool) -> Self {
        let begun = Instant::now();
        Self {
            output: LiveOutput::new(is_shared),
            begun,
            next: begun + EVERY,
            before: RecordedCounts::default(),
            ended: RecordedCounts::default(),
            programs: ProgramTimes::now(),
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
        recorder: &mut Recorder,
        recording: &Document,
        pipes: &[MadePipe],
        running: &RunningProcesses,
    ) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        let Ok((counts, path)) = recorder.look() else { return };
        let mut all = RecordedCounts { at: counts.at, ..std::mem::take(&mut self.ended) };
        all.processes.extend(&counts.processes);
        all.ends.extend(&counts.ends);
        all.waits.extend(&counts.waits);
        let new = all.since(&self.before);
        self.before = counts;
        let programs = std::mem::replace(&mut self.programs, ProgramTimes::now());
        let others = programs.others_since(&recorder.living());
        // It goes on.
        let shown = Document { others, duration_ns: Some(0), ..recording.clone() };
        let (shown, _) = described(shown, &new, (path, None), pipes, running);
        let elapsed = format!("{} s", self.begun.elapsed().as_secs());
        self.output.show(&blocks(&shown, &elapsed), &line(&shown, &elapsed));
    }
}

/// The last second.
fn blocks(shown: &Document, elapsed: &str) -> Vec<ReportBlock> {
    let about = ReportBlock::Note(format!("{}: {elapsed}; q ends this and prints the report", shown.mode));
    let path = match words::made_of(shown) {
        Some(parts) => format!("Now: {parts}."),
        None => "Nothing of it runs now.".to_owned(),
    };
    let others = answer::busy_others(&shown.others).map(|busy| ReportBlock::Note(format!("{}.", capitalized(&busy))));
    let tables = tables::live(shown).into_iter().map(ReportBlock::Table);
    [about, ReportBlock::Sentence(path)].into_iter().chain(others).chain(tables).collect()
}

/// The same in one line.
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

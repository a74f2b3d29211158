//! Show the progress of each column of a matrix: a line per column, if stderr is a terminal.

use crate::compare::matrix::MatrixRun;
use crate::compare::plan::MatrixPlan;
use crate::experiment::{Event, State};
use crate::util::progress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::cell::Cell as ThreadCell;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

thread_local! {
    /// The column of this thread's run.
    static COLUMN: ThreadCell<Option<usize>> = const { ThreadCell::new(None) };
}

/// A column's line.
#[derive(Debug)]
struct ColumnLine {
    bar: ProgressBar,
    done: usize,
    failed: usize,
    of: usize,
}

/// All lines.
pub(crate) struct MatrixProgress {
    lines: Arc<Mutex<Vec<ColumnLine>>>,
    /// The line for all runs, with the time left.
    total: Option<ProgressBar>,
    all: MultiProgress,
    shown: bool,
}

fn bar(all: &MultiProgress, name: String) -> ProgressBar {
    let bar = all.add(ProgressBar::new_spinner());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix:24} {wide_msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_prefix(name);
    bar.set_message("waiting");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl MatrixProgress {
    /// Start, with a line per column of `plan`.
    pub(crate) fn start(plan: &MatrixPlan) -> Self {
        let all = MultiProgress::new();
        let shown = std::io::stderr().is_terminal() && !progress::is_quiet();
        let lines = Arc::new(Mutex::new(Vec::new()));
        if shown && let Ok(mut lines) = lines.lock() {
            let of = plan.cases().count() * plan.blocks;
            let names =
                plan.columns.iter().map(|column| column.label.clone().or_else(|| column.options.kernel.clone()));
            let names: Vec<String> = names.map(|name| name.unwrap_or_else(|| "this kernel".to_owned())).collect();
            let control = plan.control.then(|| "control".to_owned());
            for name in names.into_iter().chain(control) {
                lines.push(ColumnLine { bar: bar(&all, name), done: 0, failed: 0, of });
            }
        }
        let total = shown.then(|| bar(&all, "all".to_owned()));
        let shared = Arc::clone(&lines);
        // Even if nothing is shown: progress of one guest would be misleading.
        progress::redirect(move |text| {
            if let (Ok(lines), Some(column)) = (shared.lock(), COLUMN.get())
                && let Some(line) = lines.get(column)
            {
                line.bar.set_message(format!("{}/{} done, {text}", line.done, line.of));
            }
        });
        Self { lines, total, all, shown }
    }

    /// Show a changed state of a run. Called on its thread.
    pub(crate) fn show(&self, event: &Event<'_, MatrixRun>) {
        let (cell, state) = (event.cell, &event.state);
        COLUMN.set(Some(cell.column));
        if let Some(total) = &self.total {
            total.set_message(event.progress.text());
        }
        let Ok(mut lines) = self.lines.lock() else { return };
        let Some(line) = lines.get_mut(cell.column) else { return };
        let message = match state {
            State::Running => format!("{}/{} done, {} begins", line.done, line.of, cell.mode),
            State::Kept | State::Done => {
                line.done += 1;
                // A stop rule may need more runs than planned.
                line.of = line.of.max(line.done + line.failed);
                format!("{}/{} done", line.done, line.of)
            }
            State::Failed(why) => {
                line.failed += 1;
                format!("{}/{} done, {} failed: {why}", line.done, line.of, cell.mode)
            }
        };
        if line.done + line.failed == line.of {
            line.bar.finish_with_message(message);
        } else {
            line.bar.set_message(message);
        }
    }

    /// Remove the lines before something is printed.
    pub(crate) fn finish(&self) {
        if self.shown {
            let _ = self.all.clear();
        }
    }
}

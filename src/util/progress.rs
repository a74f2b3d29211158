//! Progress and notes on stderr. The current step is one line on a terminal, or in a guest a message to the host.
//! Notes are permanent lines. `--quiet` and `--verbose` select what is printed.

use crate::util::text::{clean, clean_lines};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// How much is printed in addition to the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Only the result and errors.
    Quiet,
    #[default]
    Normal,
    /// Also commands, files and choices.
    Verbose,
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Normal as u8);

/// Choose how much is printed.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

fn at_least(level: Level) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level as u8
}

/// Whether only the result and errors are printed.
pub fn is_quiet() -> bool {
    !at_least(Level::Normal)
}

/// Print a note on stderr.
pub fn note(text: &str) {
    if at_least(Level::Normal) {
        problem(text);
    }
}

/// Print a verbose message on stderr. It is computed only if it is printed.
pub fn detail(text: impl FnOnce() -> String) {
    if at_least(Level::Verbose) {
        problem(&text());
    }
}

/// Print a problem on stderr, even with `--quiet`, without what could control a terminal.
pub fn problem(text: &str) {
    // A line of others, such as a name with a line break, does not look like one of this program.
    let text = clean_lines(text).replace('\n', "\n    ");
    let print = || crate::errln!("pipeprof: {text}");
    match SINK.lock().as_deref() {
        Ok(ProgressSink::Bar(bar)) => bar.suspend(print),
        _ => print(),
    }
}

enum ProgressSink {
    /// Nothing shown yet.
    Idle,
    Bar(ProgressBar),
    /// A callback receives the messages.
    Other(Box<dyn Fn(&str) + Send>),
}

static SINK: Mutex<ProgressSink> = Mutex::new(ProgressSink::Idle);

/// Send all further messages to `sink`.
pub fn redirect(sink: impl Fn(&str) + Send + 'static) {
    if let Ok(mut guard) = SINK.lock() {
        *guard = ProgressSink::Other(Box::new(sink));
    }
}

/// The task that the steps are part of, and whether steps are not shown.
static TASK: Mutex<Option<(String, bool)>> = Mutex::new(None);

/// Show the task at work until [`clear`], and its steps after it. `alone`: do not show them, because they would be those of
/// several tasks.
pub fn task(text: &str, alone: bool) {
    if let Ok(mut task) = TASK.lock() {
        *task = Some((text.to_owned(), alone));
    }
    show(text);
}

/// Show the current step: `measuring 3/10`.
pub fn step(text: &str) {
    match TASK.lock().as_deref() {
        Ok(Some((_, true))) => {}
        Ok(Some((task, false))) => show(&format!("{task}: {text}")),
        _ => show(text),
    }
}

fn show(text: &str) {
    let Ok(mut guard) = SINK.lock() else { return };
    match &*guard {
        ProgressSink::Other(sink) => sink(text),
        ProgressSink::Bar(bar) => bar.set_message(clean(text)),
        ProgressSink::Idle if std::io::stderr().is_terminal() && !is_quiet() => {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(clean(text));
            bar.enable_steady_tick(Duration::from_millis(120));
            *guard = ProgressSink::Bar(bar);
        }
        ProgressSink::Idle => {}
    }
}

/// Remove the line, before something is printed.
pub fn clear() {
    if let Ok(mut task) = TASK.lock() {
        *task = None;
    }
    let Ok(mut guard) = SINK.lock() else { return };
    if let ProgressSink::Bar(bar) = &*guard {
        bar.finish_and_clear();
        *guard = ProgressSink::Idle;
    }
}

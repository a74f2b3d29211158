//! What a person is told besides the result: what is being done right now, as one line on a terminal's stderr (in a guest, a
//! message to the host), and lines that stay. `--quiet` and `--verbose` choose which.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// How much is printed besides the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Only the result and errors.
    Quiet,
    #[default]
    Normal,
    /// What is being done, too: commands, files, choices.
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

/// Whether only the result and errors are wanted.
#[must_use]
pub fn is_quiet() -> bool {
    !at_least(Level::Normal)
}

/// Print a line on stderr that the result does not need.
pub fn note(text: &str) {
    if at_least(Level::Normal) {
        problem(text);
    }
}

/// Print a line on stderr about what is being done. Made only where it is wanted.
pub fn detail(text: impl FnOnce() -> String) {
    if at_least(Level::Verbose) {
        problem(&text());
    }
}

/// Print a line on stderr that must be seen.
pub fn problem(text: &str) {
    let print = || eprintln!("pipeprof: {text}");
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

/// Show the current step: `measuring 3/10`.
pub fn step(text: &str) {
    let Ok(mut guard) = SINK.lock() else { return };
    match &*guard {
        ProgressSink::Other(sink) => sink(text),
        ProgressSink::Bar(bar) => bar.set_message(text.to_owned()),
        ProgressSink::Idle if std::io::stderr().is_terminal() && !is_quiet() => {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(text.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            *guard = ProgressSink::Bar(bar);
        }
        ProgressSink::Idle => {}
    }
}

/// Remove the line, before something is printed.
pub fn clear() {
    let Ok(mut guard) = SINK.lock() else { return };
    if let ProgressSink::Bar(bar) = &*guard {
        bar.finish_and_clear();
        *guard = ProgressSink::Idle;
    }
}

//! Shows progress: one line on stderr if it is a terminal; in a guest, a message to the host.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

enum Sink {
    /// Nothing shown yet.
    Idle,
    Bar(ProgressBar),
    /// A callback receives the messages.
    Other(Box<dyn Fn(&str) + Send>),
}

static SINK: Mutex<Sink> = Mutex::new(Sink::Idle);

/// Send all further messages to `sink`.
pub fn redirect(sink: impl Fn(&str) + Send + 'static) {
    if let Ok(mut guard) = SINK.lock() {
        *guard = Sink::Other(Box::new(sink));
    }
}

/// Show the current step: `measuring 3/10`.
pub fn step(text: &str) {
    let Ok(mut guard) = SINK.lock() else { return };
    match &*guard {
        Sink::Other(sink) => sink(text),
        Sink::Bar(bar) => bar.set_message(text.to_owned()),
        Sink::Idle if std::io::stderr().is_terminal() => {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(text.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            *guard = Sink::Bar(bar);
        }
        Sink::Idle => {}
    }
}

/// Remove the line, before something is printed.
pub fn clear() {
    let Ok(mut guard) = SINK.lock() else { return };
    if let Sink::Bar(bar) = &*guard {
        bar.finish_and_clear();
        *guard = Sink::Idle;
    }
}

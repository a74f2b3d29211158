//! Show what an experiment is doing, in one line.

use super::engine::{Event, State};
use crate::util::progress;

/// A watcher that shows the number and the `label` of what is measured, and the time left: `sweep 3/60, 40 s left: write
/// 64K`. `jobs`: how many run at a time. What one of several does is not shown.
pub fn show<C>(what: &str, jobs: usize, label: impl Fn(&Event<'_, C>) -> String) -> impl Fn(&Event<'_, C>) {
    move |event| {
        if event.state == State::Running {
            progress::task(&format!("{what} {}: {}", event.progress.next_text(), label(event)), jobs > 1);
        }
    }
}

//! Wait for the end of a pipeline.

use crate::record::observe::recorder;
use crate::record::start::launch::{EndedStage, Launcher};
use crate::util::progress;
use anyhow::Result;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How long a pipeline may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A pipeline that goes on so long after a signal that was to end it may never do so.
const PATIENCE: Duration = Duration::from_secs(3);

/// Wait until all stages have ended, or end them after `duration`. `step` is called meanwhile, with whether they are
/// about to be ended; it returns when it wants to be called again, or `None` to end them now. Returns also after which
/// time it did so.
pub(crate) fn wait(
    launcher: &Launcher,
    duration: Option<Duration>,
    mut step: impl FnMut(bool) -> Option<Duration>,
) -> Result<(Vec<EndedStage>, Option<Duration>)> {
    std::thread::scope(|scope| {
        let (ended, ends) = std::sync::mpsc::channel::<()>();
        let waiting = scope.spawn(|| {
            let statuses = launcher.wait();
            drop(ended);
            statuses
        });
        let begun = Instant::now();
        let stops = |end: Option<Duration>| end.into_iter().flat_map(|end| [(end, false), (end + GRACE, true)]);
        let mut ended_by_user = None;
        let mut told = false;
        let mut stops_at = stops(duration).peekable();
        loop {
            let due = step(false);
            if !told && launcher.asked_since().is_some_and(|ago| ago >= PATIENCE) {
                told = true;
                progress::note(if launcher.is_sent() {
                    "the pipeline goes on after the signal: 10 s after that, the recording ends it, and gives the answer"
                } else {
                    "the pipeline goes on after the signal: three signals within 3 s (Ctrl-C three times) end it, and give the answer"
                });
            }
            if (due.is_none() || launcher.is_insisted()) && ended_by_user.is_none() {
                ended_by_user = Some(begun.elapsed());
                stops_at = stops(ended_by_user).peekable();
            }
            let stop = stops_at.peek().map_or(Duration::MAX, |(at, _)| at.saturating_sub(begun.elapsed()));
            if ends.recv_timeout(due.unwrap_or(recorder::ROOM_EVERY).min(stop)) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            if let Some((_, kill)) = stops_at.next_if(|(at, _)| begun.elapsed() >= *at) {
                step(true);
                launcher.stop(kill);
            }
        }
        let ended = waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((ended, ended_by_user))
    })
}

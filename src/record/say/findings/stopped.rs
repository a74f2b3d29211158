//! Processes that were stopped all the time.

use crate::profile::few;
use crate::record::say::findings::view::FindingView;
use crate::record::say::words;
use crate::result::{Finding, FindingKind, HeldBy, PathWhat, WaitReason};
use std::collections::BTreeSet;

/// From this part of its life on, a process is stopped all the time; from this part of the path on, the path says it.
const ALWAYS: f64 = 0.95;
const SAID: f64 = 0.05;

/// `` `cat` and `sort` are stopped, and were so all the time: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let window = document.processes.window_ns;
    let on_path = |at: usize| view.on_path(at, PathWhat::Asleep { reason: WaitReason::Stopped }) >= SAID;
    let is_stopped = |at: &usize| {
        let process = &document.recorded[*at];
        let stopped = process.waits.get(&WaitReason::Stopped).map_or(0, |wait| wait.ns);
        stopped > 0 && stopped as f64 >= ALWAYS * window as f64 && !on_path(*at)
    };
    let stopped: Vec<usize> = (0..document.recorded.len()).filter(is_stopped).collect();
    if stopped.is_empty() {
        return Vec::new();
    }
    let [are, were, them] = if stopped.len() == 1 { ["is", "was", "it"] } else { ["are", "were", "them"] };
    let names = few(stopped.iter().map(|at| view.name(*at)));
    let held = |at: &usize| document.recorded[*at].held_by.get(&WaitReason::Stopped).cloned().unwrap_or_default();
    let by: BTreeSet<HeldBy> = stopped.iter().flat_map(held).collect();
    let why = match &by.into_iter().collect::<Vec<HeldBy>>()[..] {
        [] => format!(
            "a signal did it, as Ctrl-Z does, or a terminal whose background job wants to read. `fg` or `kill -CONT` lets {them} \
             go on."
        ),
        [HeldBy::BackgroundRead] => format!(
            "by SIGTTIN, because a background job read from its terminal. `fg` brings {them} to the foreground; `</dev/null` \
             gives a background job no terminal to read."
        ),
        [HeldBy::BackgroundWrite] => format!(
            "by SIGTTOU, because a background job changed its terminal, or wrote to it after `stty tostop`. `fg` brings {them} \
             to the foreground."
        ),
        by => format!("by {}. `fg` or `kill -CONT` lets {them} go on.", few(by.iter().map(words::holder))),
    };
    let text = format!("{names} {are} stopped, and {were} all the time: {why}");
    vec![Finding { count: Some(stopped.len() as u64), ..Finding::new(FindingKind::Stopped, stopped, text) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::{Document, WaitTotal};

    fn stopped(recording: &mut Document, share: f64) {
        let ns = (share * recording.processes.window_ns as f64) as u64;
        recording.recorded[1].waits.insert(WaitReason::Stopped, WaitTotal { ns, count: 1 });
    }

    #[test]
    fn who_is_stopped_all_the_time_is_named() {
        let texts = said(find, &|recording| {
            recording.processes.window_ns = 1_000_000;
            stopped(recording, 1.0);
        });
        assert!(texts[0].starts_with("`grep` is stopped, and was all the time: a signal did it,"), "{texts:?}");
        let by = |holder: HeldBy| {
            said(find, &|recording| {
                recording.processes.window_ns = 1_000_000;
                stopped(recording, 1.0);
                recording.recorded[1].held_by = [(WaitReason::Stopped, [holder.clone()].into())].into();
            })
            .concat()
        };
        assert!(by(HeldBy::BackgroundRead).contains("all the time: by SIGTTIN, because a background job read"));
        assert!(by(HeldBy::Suspended).contains("all the time: by SIGTSTP, as Ctrl-Z sends it. `fg`"));
        let short = said(find, &|recording| {
            recording.processes.window_ns = 1_000_000;
            stopped(recording, 0.5);
        });
        assert!(short.is_empty(), "{short:?}");
    }
}

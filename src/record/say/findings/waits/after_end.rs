//! Who goes on after the end of its standard input.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::standstill;
use crate::result::{Finding, FindingKind};

/// It goes on for this part of the window at least, and so long, ns.
const GOES_ON: f64 = 0.5;
const LONG_NS: u64 = 1_000_000_000;

/// `` `node server.js` got the end of its standard input at 1.02 s, when `sleep` had ended, and goes on: ... ``
pub(crate) fn after_end(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if !document.is_cut_off() || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let found = document.recorded.iter().enumerate().filter_map(|(at, process)| {
        let input = document.channels.get(process.input?).filter(|_| process.execs > 0 && view.is_one(at))?;
        let is_read = input.readers.iter().any(|end| end.process == at && (1..=2).contains(&end.at_end));
        // Copies of a shell can have had the end, too.
        let writers = input.writers.iter().filter_map(|end| view.process(end));
        let given = document.recorded.iter().filter(|of| of.output == process.input);
        let ended = writers.chain(given).map(|of| of.end_ns).max()?;
        let rest = document.processes.window_ns.saturating_sub(ended);
        let waits = standstill::event_of(document, at)?;
        let is_long = rest >= LONG_NS && rest as f64 >= GOES_ON * view.window();
        if !is_read || !is_long || !view.goes_on(process) || process.is_shell() {
            return None;
        }
        let text = format!(
            "{name} got the end of its standard input at {}, when who wrote there had ended, and goes on: since then it waits for {waits}. If it \
             serves only who started it, it has to end there (in node, at `end` of `process.stdin`).",
            after(ended),
            name = view.name(at)
        );
        Some(Finding { at_ns: Some(ended), ..Finding::new(FindingKind::Held, [at], text) })
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, EventSource, EventWait, LastLook, SeenProcess};

    #[test]
    fn who_goes_on_after_the_end_of_its_input_is_said() {
        let goes_on = |change: &dyn Fn(&mut Document)| {
            said(after_end, &|recording| {
                (recording.interrupted_ns, recording.recorded[0].end_ns) = (Some(WINDOW), WINDOW / 4);
                let process = &mut recording.recorded[1];
                (process.input, process.execs, process.end_ns) = (Some(0), 1, WINDOW);
                recording.channels[0].readers[0].at_end = 1;
                let process = SeenProcess { recorded: Some(1), ..SeenProcess::default() };
                let event = EventWait { process, any: [EventSource::FileChanges].into(), limited: false };
                recording.last_look = Some(LastLook { events: vec![event], ..LastLook::default() });
                change(recording);
            })
        };
        let text = "`grep` got the end of its standard input at 1.00 s, when who wrote there had ended, and goes on: since then it waits for changes \
                    of files (inotify). If it serves only who started it, it has to end there (in node, at `end` of `process.stdin`).";
        assert_eq!(goes_on(&|_| {}), [text]);
        silent(
            &goes_on,
            &[
                &|recording| recording.interrupted_ns = None,
                &|recording| recording.recorded[0].end_ns = WINDOW - 10,
                &|recording| recording.recorded[1].end_ns = WINDOW / 2,
                &|recording| recording.channels[0].readers[0].at_end = 0,
                &|recording| recording.last_look = None,
            ],
        );
    }
}

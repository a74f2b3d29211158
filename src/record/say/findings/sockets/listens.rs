//! Who goes on because it listens.

use crate::profile::few;
use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{ChannelKind, Finding, FindingKind, NameUse, RecordedChannel, RecordedEnd, WaitReason};
use crate::util::text::clean;
use std::collections::BTreeSet;

/// Who sleeps for so much of the window in `poll` waits for connections.
const WAITS: f64 = 0.8;

/// `` `node a.js` listens at port 8080, where nobody has connected, and does not end as long as it does: ... ``
pub(crate) fn keeps_listening(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if !document.is_cut_off() || document.looks.is_some() {
        return Vec::new();
    }
    let each = document.recorded.iter().enumerate().filter(|(at, process)| process.execs > 0 && view.is_one(*at));
    let found = each.filter_map(|(at, process)| {
        let poll = process.waits.get(&WaitReason::Poll).map_or(0, |wait| wait.ns) as f64 / view.window();
        let places: BTreeSet<String> = document
            .named_files
            .iter()
            .filter(|file| file.process == at && file.does == NameUse::Listens && file.error.is_none())
            .map(|file| if file.path.starts_with("port ") { file.path.clone() } else { format!("`{}`", clean(&file.path)) })
            .collect();
        let is_connection = |channel: &&RecordedChannel| matches!(channel.kind, ChannelKind::Tcp | ChannelKind::UnixStream);
        let uses = |channel: &RecordedChannel| channel.ends().any(|end: &RecordedEnd| end.process == at && end.all_calls() > 0);
        let serves = document.channels.iter().filter(is_connection).any(uses);
        let goes_on = process.end_ns >= document.processes.window_ns || process.signal.is_some();
        // A daemon is to go on.
        let is_left = process.started_by.and_then(|by| document.recorded.get(by)).is_some_and(|by| by.end_ns < process.end_ns);
        if is_left || poll < WAITS || places.is_empty() || serves || !goes_on {
            return None;
        }
        let text = format!(
            "{name} listens at {}, where nobody has connected, and waits for that {} of the time: as long as it listens, an event loop does \
             not end. `close` of that socket (in node also `unref`) lets it end.",
            few(places),
            percent(poll.min(1.0)),
            name = view.name(at)
        );
        Some(Finding::new(FindingKind::Held, [at], text))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent, used};
    use crate::result::{Document, NamedFile, WaitTotal};

    #[test]
    fn who_only_listens_is_said() {
        let listens = |change: &dyn Fn(&mut Document)| {
            said(keeps_listening, &|recording| {
                recording.duration_ns = Some(WINDOW);
                let process = &mut recording.recorded[0];
                (process.execs, process.end_ns) = (1, WINDOW);
                process.waits = [(WaitReason::Poll, WaitTotal { ns: WINDOW / 10 * 9, count: 1 })].into();
                let path = "port 8080".to_owned();
                recording.named_files = vec![NamedFile { path, ..used(0, NameUse::Listens, 1) }];
                change(recording);
            })
        };
        let text = "`seq` listens at port 8080, where nobody has connected, and waits for that 90 % of the time: as long as it listens, an event \
                    loop does not end. `close` of that socket (in node also `unref`) lets it end.";
        assert_eq!(listens(&|_| {}), [text]);
        silent(
            &listens,
            &[
                &|recording| recording.duration_ns = None,
                &|recording| recording.recorded[0].waits.clear(),
                &|recording| recording.named_files[0].process = 1,
                &|recording| recording.channels[0].kind = ChannelKind::Tcp,
            ],
        );
    }
}

//! A program that waits for something to be typed, where nobody types.

use crate::record::say::findings::view::FindingView;
use crate::result::{ChannelKind, Finding, FindingKind, RecordedChannel, RecordedEnd};

/// From this part of the window on.
const LONG: f64 = 0.5;

/// `` `git` waits for something to be typed at its terminal, and nothing was: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let window = document.processes.window_ns;
    let waits = |end: &RecordedEnd| {
        let lasts = end.blocked_ns as f64 >= LONG * window as f64 && end.bytes == 0 && end.at_end == 0;
        // What ended by itself has gone on.
        lasts && view.process(end).is_some_and(|process| process.signal.is_some() || process.end_ns >= window)
    };
    // The other direction, which is shown, has an odd number.
    let is_typed = |channel: &RecordedChannel| channel.kind == ChannelKind::Pty && channel.inode.is_multiple_of(2);
    let typed = view.readers().filter(|(_, channel, end)| is_typed(channel) && waits(end));
    let text = |(at, _, end): (usize, &RecordedChannel, &RecordedEnd)| {
        let text = format!(
            "{} waits for something to be typed at its terminal, and nothing was: it asks there, as for a name or a password. An \
             option or a setting (for git, GIT_TERMINAL_PROMPT=0) has it fail instead, and `setsid` leaves it without a terminal.",
            view.name(end.process)
        );
        Finding { channels: vec![at], ..Finding::new(FindingKind::Held, [end.process], text) }
    };
    typed.map(text).take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    fn asks(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            (recording.channels[0].kind, recording.channels[0].inode) = (ChannelKind::Pty, 8);
            let end = &mut recording.channels[0].readers[0];
            (end.bytes, end.blocked_ns) = (0, WINDOW / 10 * 9);
            recording.recorded[1].signal = Some(15);
            change(recording);
        })
    }

    #[test]
    fn what_is_asked_at_a_terminal_is_said() {
        let said = asks(&|_| {});
        assert!(
            said[0].starts_with("`grep` waits for something to be typed at its terminal, and nothing was:"),
            "{said:?}"
        );
        let silent: [&dyn Fn(&mut Document); 5] = [
            &|recording| recording.channels[0].readers[0].bytes = 1,
            &|recording| recording.channels[0].readers[0].blocked_ns = WINDOW / 10,
            &|recording| recording.channels[0].kind = ChannelKind::Pipe,
            &|recording| recording.channels[0].inode = 7,
            &|recording| recording.recorded[1].signal = None,
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(asks(change).is_empty(), "{at}");
        }
    }
}

//! Who reads on no more, although what others write goes on.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{ChannelKind, Finding, FindingKind, RecordedChannel, RecordedEnd};
use crate::util::text::{counted, grouped};

/// Writes go on for so long after the last read, ns, and for this part of the window.
const LONG_NS: u64 = 1_000_000_000;
const SHARE: f64 = 0.25;

/// Fewer bytes are how one wakes another.
const FEW: u64 = 64;

/// `` `python3 a.py` has read nothing from the terminal since 1.13 s, although `tee` wrote there until 19.7 s: ... ``
pub(crate) fn stops_reading(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.readers().filter_map(|(at, channel, reader)| {
        let process = view.process(reader).filter(|_| is_read(channel) && view.is_one(reader.process))?;
        let last = reader.moved_ns.filter(|_| reader.bytes > 0 && reader.at_end == 0)?[1];
        let wrote = channel.writers.iter().filter_map(|end| end.moved_ns).map(|[_, last]| last).max()?;
        // Who waits for room is part of a circle, or of a chain of waits.
        let waits = |end: &RecordedEnd| end.blocked_ns as f64 >= SHARE * view.window();
        let is_alone = channel.readers.len() == 1 && channel.other_readers.is_empty();
        let is_own = channel.writers.iter().any(|end| end.process == reader.process || waits(end));
        let goes_on = wrote.saturating_sub(last);
        let left = channel.written().saturating_sub(reader.bytes);
        let is_long = goes_on >= LONG_NS && goes_on as f64 >= SHARE * view.window();
        if !is_alone || is_own || !is_long || left < FEW || process.end_ns + LONG_NS < wrote || process.moves_unseen() {
            return None;
        }
        let text = format!(
            "{} has read nothing from the {} since {}, although {} wrote there until {}: {} of {} are unread. It has to read on while it does \
             something else, as in another thread.",
            view.name(reader.process),
            channel.kind.noun(),
            after(last),
            view.names(&channel.writers),
            after(wrote),
            grouped(left),
            counted(channel.written(), "byte")
        );
        let finding = Finding::new(FindingKind::Unread, [reader.process], text);
        Some(Finding { channels: vec![at], bytes: Some(left), at_ns: Some(last), ..finding })
    });
    found.take(1).collect()
}

/// Whether its bytes are to be read, and not what somebody types.
fn is_read(channel: &RecordedChannel) -> bool {
    channel.is_stream() || channel.kind == ChannelKind::Pty && !channel.is_typed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, said_after, silent};
    use crate::result::Document;

    fn stops(recording: &mut Document) {
        let channel = &mut recording.channels[0];
        (channel.writers[0].bytes, channel.writers[0].moved_ns) = (1404, Some([0, WINDOW - 10]));
        (channel.readers[0].bytes, channel.readers[0].moved_ns) = (95, Some([0, WINDOW / 4]));
        (channel.readers[0].at_end, channel.writers[0].blocked_ns) = (0, 0);
        recording.recorded[1].end_ns = WINDOW;
    }

    #[test]
    fn who_reads_no_more_is_said() {
        let text = "`grep` has read nothing from the pipe since 1.00 s, although `seq` wrote there until 4.00 s: 1,309 of 1,404 bytes are \
                    unread. It has to read on while it does something else, as in another thread.";
        assert_eq!(said(stops_reading, &stops), [text]);
        silent(
            &|change| said_after(stops_reading, &stops, change),
            &[
                &|recording| recording.channels[0].readers[0].moved_ns = Some([0, WINDOW - 20]),
                &|recording| recording.channels[0].readers[0].bytes = 1400,
                &|recording| recording.channels[0].writers[0].blocked_ns = WINDOW / 2,
                &|recording| recording.recorded[1].end_ns = WINDOW / 2,
                &|recording| recording.channels[0].readers[0].at_end = 1,
            ],
        );
    }
}

//! A program that ends before a child of its own has read what it wrote, as with `>(...)` of a shell.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess, WaitReason};
use crate::util::text::{counted, grouped};

/// A child that reads on for so long afterwards did not only wait for a CPU, ns.
const LONG_NS: u64 = 50_000_000;

/// From this part of the time since the first write on, what it did otherwise kept it from reading.
const ELSEWHERE: f64 = 0.5;

/// `` `bash log.sh` ended at 5.9 ms and did not wait for `bash (4711)`, which it had started ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || document.skipped > 0 || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let channels = document.channels.iter().enumerate();
    channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..left(view, channel)? })).collect()
}

fn left(view: &FindingView<'_>, channel: &RecordedChannel) -> Option<Finding> {
    let document = view.document;
    let [reader] = &channel.readers[..] else { return None };
    let child = view.process(reader)?;
    let starter = child.started_by?;
    let own = channel.writers.iter().find(|end| end.process == starter && end.bytes > 0)?;
    let parent = view.process(own)?;
    let window = document.processes.window_ns;
    // Others may have written later.
    let others_end = channel.writers.iter().filter_map(|end| view.process(end)).map(|process| process.end_ns).max()?;
    let is_alone = parent.pids.len() == 1 && child.pids.len() == 1 && child.signal.is_none() && parent.signal.is_none();
    if !is_alone || others_end > parent.end_ns || parent.end_ns >= window || !channel.other_readers.is_empty() {
        return None;
    }
    let written: u64 = channel.writers.iter().map(|end| end.bytes).sum();
    let unread = written.saturating_sub(reader.bytes);
    let (name, reads) = (view.name(own.process), view.name(reader.process));
    let ended = after(parent.end_ns);
    let text = if unread > 0 && reader.at_end == 0 && is_elsewhere(child, own, window) {
        format!(
            "{name} ended at {ended} without waiting for its child {reads}, which had read {} of {} that it had written by the \
             end of the recording: what depends on the rest comes later, or never. `wait` for it before the end.",
            grouped(reader.bytes),
            counted(written, "byte")
        )
    } else if reader.moved_ns.is_some_and(|[_, last]| last >= parent.end_ns + LONG_NS) {
        format!(
            "{name} ended at {ended} without waiting for its child {reads}, which went on until {}: it still read what {name} had \
             written. `wait` for it before the end.",
            after(child.end_ns)
        )
    } else {
        return None;
    };
    let finding = Finding::new(FindingKind::NotAwaited, [own.process, reader.process], text);
    Some(Finding { bytes: Some(unread), at_ns: Some(parent.end_ns), ..finding })
}

/// Whether a child waited mostly for something else since its parent first wrote to it.
fn is_elsewhere(child: &RecordedProcess, own: &RecordedEnd, window: u64) -> bool {
    let kept = |reason: &WaitReason| !matches!(reason, WaitReason::Stopped | WaitReason::Traced | WaitReason::Frozen);
    let ns: u64 = child.waits.iter().filter(|(reason, _)| kept(reason)).map(|(_, wait)| wait.ns).sum();
    let first = own.moved_ns.map_or(0, |[first, _]| first);
    ns as f64 >= ELSEWHERE * window.saturating_sub(first) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{Document, WaitTotal};

    /// `seq` has started `grep` and ends early.
    fn early(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            recording.recorded[0].end_ns = WINDOW / 4;
            let child = &mut recording.recorded[1];
            child.started_by = Some(0);
            child.waits = [(WaitReason::Child, WaitTotal { ns: WINDOW / 10 * 8, count: 2 })].into();
            let channel = &mut recording.channels[0];
            (channel.writers[0].bytes, channel.readers[0].bytes) = (71, 7);
            change(recording);
        })
    }

    #[test]
    fn what_a_child_has_not_read_at_the_end_is_said() {
        let text = "`seq` ended at 1.00 s without waiting for its child `grep`, which had read 7 of 71 bytes that it had written by \
                    the end of the recording: what depends on the rest comes later, or never. `wait` for it before the end.";
        assert_eq!(early(&|_| {}), [text]);
        let later = early(&|recording| recording.channels[0].readers[0].bytes = 71);
        assert!(
            later[0].contains("`grep`, which went on until 4.00 s: it still read what `seq` had written."),
            "{later:?}"
        );
    }

    #[test]
    fn others_and_what_was_waited_for_are_not() {
        let silent: [&dyn Fn(&mut Document); 4] = [
            &|recording| recording.recorded[1].started_by = Some(2),
            &|recording| recording.recorded[0].end_ns = WINDOW,
            &|recording| recording.channels[0].writers[0].process = 2,
            &|recording| {
                recording.channels[0].readers[0].moved_ns = Some([0, WINDOW / 8]);
                recording.recorded[1].waits.clear();
            },
        ];
        for change in silent {
            let found = early(change);
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

//! Two programs that wait for each other until the time of one is over.

use crate::record::say::findings::view::FindingView;
use crate::report::number::time;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, WaitReason};
use crate::util::text::counted;

/// From this part of the window on, both wait most of the time.
const LONG: f64 = 0.5;

/// So many sleeps on a timer are looks, and it lives on for this part of the window.
const NAPS: u64 = 20;
const END: f64 = 0.9;

/// Who reads lines asks for such blocks, bytes.
const BLOCK: u64 = 1024;

/// `` `peer.py` and `helper` waited for each other until the time of `poll` in `peer.py` was over (1 time, 6.00 s in all): ... ``
pub(crate) fn timed_circle(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let found = document.channels.iter().enumerate().filter_map(|(at, channel)| {
        let ([writer], [reader]) = (&channel.writers[..], &channel.readers[..]) else { return None };
        let process = view.process(reader).filter(|_| view.is_one(reader.process) && writer.process != reader.process)?;
        let waits = |reason: WaitReason| process.waits.get(&reason).copied().unwrap_or_default();
        let (poll, naps) = (waits(WaitReason::Poll), waits(WaitReason::Timer));
        let polls = process.timeouts > 0 && poll.ns as f64 >= LONG * view.window();
        // Who naps and looks again answers later, if it can.
        let last = [channel].into_iter().flat_map(RecordedChannel::ends).filter_map(|end| end.moved_ns).map(|[_, last]| last).max()?;
        let looks = naps.count >= NAPS && naps.ns as f64 >= LONG * view.window() && (last as f64) < LONG * view.window();
        let in_vain = polls || looks && process.end_ns as f64 >= END * view.window();
        let has_all = reader.bytes == writer.bytes && reader.bytes > 0 && reader.at_end == 0;
        if !in_vain || !has_all || !waits_for(view, writer.process, reader.process) || talks_to_others(view, reader.process, writer.process)
        {
            return None;
        }
        let (name, other) = (view.name(reader.process), view.name(writer.process));
        let reads = reader.all_calls() - reader.eagain;
        let in_blocks = reads > 0 && reader.requested >= BLOCK * reads;
        let why = if in_blocks {
            format!(
                "{name} asked for whole blocks and got {} by {}: if that had more than one line or message, the rest is in the buffer of its \
                 stream, where `poll` and `select` do not see it. It has to look there first, or to read without a buffer",
                counted(reader.bytes, "byte"),
                counted(reads, "read")
            )
        } else {
            "One of them waits for more than the other has sent, which may be in a buffer of that (`flush`, `stdbuf -oL`)".to_owned()
        };
        let (count, ns) = if polls { (process.timeouts, poll.ns) } else { (naps.count, naps.ns) };
        let until = if polls {
            format!("until the time of `poll` or `select` in {name} was over")
        } else {
            format!("while {name} slept and looked again")
        };
        let text = format!(
            "{name} and {other} waited for each other {until} ({}, {} in all): each had read all that the other had written. {why}.",
            counted(count, "time"),
            time(ns as f64 / 1e9)
        );
        let finding = Finding::new(FindingKind::TimedCircle, [reader.process, writer.process], text);
        Some(Finding { channels: vec![at], count: Some(count), ns: Some(ns), ..finding })
    });
    found.take(1).collect()
}

/// Whether a process sleeps most of the time until another one writes.
fn waits_for(view: &FindingView<'_>, process: usize, other: usize) -> bool {
    let from =
        |channel: &RecordedChannel| matches!(&channel.writers[..], [end] if end.process == other && end.bytes > 0);
    let sleeps = |end: &RecordedEnd| end.process == process && end.blocked_ns as f64 >= LONG * view.window();
    view.readers().any(|(_, channel, end)| sleeps(end) && from(channel) && channel.read() == channel.written())
}

/// Whether a process reads what others than its partner wrote, too, which may be what it waits for.
fn talks_to_others(view: &FindingView<'_>, process: usize, partner: usize) -> bool {
    let of_others = |channel: &RecordedChannel| {
        let by_partner = channel.writers.iter().any(|end| end.process == partner);
        !by_partner && channel.writers.iter().any(|end| end.process != process && end.bytes > 0)
    };
    view.readers().any(|(_, channel, end)| end.process == process && of_others(channel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, WaitTotal};

    #[test]
    fn who_waits_until_its_time_is_over_is_said() {
        let waits = |change: &dyn Fn(&mut Document)| {
            said(timed_circle, &|recording| {
                recording.recorded[1].timeouts = 1;
                recording.recorded[1].waits = [(WaitReason::Poll, WaitTotal { ns: WINDOW - 1, count: 2 })].into();
                let mut back = recording.channels[0].clone();
                std::mem::swap(&mut back.writers, &mut back.readers);
                (back.readers[0].blocked_ns, back.inode) = (WINDOW - 1, 99);
                back.readers[0].bytes = back.writers[0].bytes;
                let forth = &mut recording.channels[0];
                let end = &mut forth.readers[0];
                (end.calls, end.requested, end.at_end) = ([("read".to_owned(), 1)].into(), 8192, 0);
                end.bytes = forth.writers[0].bytes;
                recording.channels = vec![forth.clone(), back];
                change(recording);
            })
        };
        let text = "`grep` and `seq` waited for each other until the time of `poll` or `select` in `grep` was over (1 time, 4.00 s in all): each had \
                    read all that the other had written. `grep` asked for whole blocks and got 1,000 bytes by 1 read: if that had more than";
        assert!(waits(&|_| {}).concat().starts_with(text), "{:?}", waits(&|_| {}));
        let naps = |last: u64| {
            waits(&|recording| {
                let process = &mut recording.recorded[1];
                (process.timeouts, process.end_ns) = (0, WINDOW);
                process.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW - 1, count: 1300 })].into();
                (recording.channels[0].writers[0].moved_ns, recording.channels[0].readers[0].moved_ns) =
                    (Some([0, last]), None);
            })
        };
        let text =
            "`grep` and `seq` waited for each other while `grep` slept and looked again (1,300 times, 4.00 s in all): ";
        assert!(naps(WINDOW / 4).concat().starts_with(text), "{:?}", naps(WINDOW / 4));
        assert!(naps(WINDOW - 1).is_empty(), "it goes on");
        silent(
            &waits,
            &[
                &|recording| recording.recorded[1].timeouts = 0,
                &|recording| recording.channels[0].readers[0].bytes = 1,
                &|recording| recording.channels[1].readers[0].blocked_ns = 0,
                &|recording| recording.channels[1].writers[0].bytes = 5,
            ],
        );
    }
}

//! Channels that stay full, because who has the other end open does not read.

use crate::profile::few;
use crate::record::model::labels::labels;
use crate::record::say::standstill::waiting::{LONG, NAMED, channel_name, full_name, is_hung, of_its, recorded, role};
use crate::report::number::time;
use crate::result::{
    AwaitedChannel, ChannelHolder, ChannelKind, Document, LastLook, LastWait, RecordedEnd, WaitReason, WaitedFor,
};
use crate::util::text::{capitalized, clean, counted, grouped};
use std::collections::BTreeSet;

/// `` `ffmpeg` (process 4711) waits for room in the pipe of its standard error, which is full: ... ``
pub(super) fn full(recording: &Document, look: &LastLook) -> Vec<String> {
    let texts = look.waits.iter().filter_map(|wait| {
        let at = wait.process.recorded.filter(|at| is_hung(recording, *at))?;
        // Its reader has ended since, and so did the wait.
        let is_over = recording.recorded.get(at)?.signal == Some(libc::SIGPIPE.cast_unsigned());
        let channel = for_room(wait).filter(|_| !is_over)?;
        if let Some(text) = without_reader(recording, look, wait, channel) {
            return Some(text);
        }
        let long = blocked_ns(recording, at, wait, channel) as f64 >= LONG * recording.processes.window_ns as f64;
        long.then(|| text(recording, look, wait, channel)).flatten()
    });
    texts.take(NAMED).collect()
}

/// The channel of a wait that is for room there, and for nothing else of other processes.
fn for_room(wait: &LastWait) -> Option<&AwaitedChannel> {
    let WaitedFor::Channels { any, others: 0, .. } = &wait.awaited else { return None };
    let of_others = |channel: &&AwaitedChannel| channel.holders.iter().any(|of| of.process.pid != wait.process.pid);
    let mut channels = any.iter().filter(of_others);
    channels.next().filter(|channel| channel.room && channels.next().is_none())
}

/// How long a process waited for room there, also in `poll` after a write that failed.
fn blocked_ns(recording: &Document, process: usize, wait: &LastWait, channel: &AwaitedChannel) -> u64 {
    let writers = recorded(recording, channel).map_or(&[][..], |pipe| &pipe.writers[..]);
    let own = || writers.iter().filter(|end| end.process == process);
    let polls = is_polled(wait) && own().any(|end| end.eagain + end.short > 0);
    let polled = recording.recorded.get(process).and_then(|process| process.waits.get(&WaitReason::Poll));
    own().map(|end| end.blocked_ns).sum::<u64>() + polled.filter(|_| polls).map_or(0, |wait| wait.ns)
}

fn is_polled(wait: &LastWait) -> bool {
    matches!(wait.awaited, WaitedFor::Channels { polled: true, .. })
}

/// A shorter wait may be about to end.
const WITHOUT_READER_NS: u64 = 300_000_000;

/// The same of a channel whose readers have all ended: others have inherited its end, so that its writer gets no SIGPIPE.
fn without_reader(recording: &Document, look: &LastLook, wait: &LastWait, channel: &AwaitedChannel) -> Option<String> {
    let at = wait.process.recorded.filter(|_| channel.kind.is_pipe())?;
    let reading = &recorded(recording, channel)?.readers;
    let readers: BTreeSet<usize> = reading.iter().filter(|end| end.bytes > 0).map(|end| end.process).collect();
    let ended = readers.iter().map(|reader| recording.recorded[*reader].end_ns).max()?;
    let others: Vec<_> = channel.holders.iter().filter(|holder| holder.process.pid != wait.process.pid).collect();
    let one_reads = others.iter().any(|holder| holder.process.recorded.is_none_or(|at| readers.contains(&at)));
    if ended >= look.at_ns || one_reads || blocked_ns(recording, at, wait, channel) < WITHOUT_READER_NS {
        return None;
    }
    let labels = labels(recording);
    let [has, reads] = if others.len() == 1 { ["has", "reads"] } else { ["have", "read"] };
    Some(format!(
        "{} waits for room in {}, whose reader {} ended at {}. It gets no SIGPIPE, because {} still {has} the read end open, and never {reads} \
         it: who has inherited it only has to close it after the `fork`.",
        full_name(&wait.process),
        channel_name(channel),
        few(readers.iter().map(|reader| format!("`{}`", labels[*reader]))),
        time(ended as f64 / 1e9),
        few(others.iter().map(|holder| full_name(&holder.process)))
    ))
}

fn text(recording: &Document, look: &LastLook, wait: &LastWait, channel: &AwaitedChannel) -> Option<String> {
    let others: Vec<_> = channel.holders.iter().filter(|holder| holder.process.pid != wait.process.pid).collect();
    // Who waits for room elsewhere, for the end of a child, or for another one to open a FIFO, has that as its cause.
    let waits_itself = |pid: u32| {
        let own = || look.waits.iter().filter(|other| other.process.pid == pid);
        own().any(|other| {
            for_room(other).is_some()
                || matches!(other.awaited, WaitedFor::Children(_) | WaitedFor::Opening { .. } | WaitedFor::Lock { .. })
        })
    };
    // So has who is on a CPU all the time.
    let is_busy = |holder: &&ChannelHolder| {
        let process = holder.process.recorded.and_then(|at| recording.recorded.get(at));
        process.is_some_and(|of| of.cpu_ns as f64 >= LONG * recording.processes.window_ns as f64)
    };
    if others.is_empty() || others.iter().any(|holder| waits_itself(holder.process.pid) || is_busy(holder)) {
        return None;
    }
    let reading = recorded(recording, channel).map_or(&[][..], |pipe| &pipe.readers[..]);
    let last = |end: &RecordedEnd| end.moved_ns.filter(|_| end.bytes > 0).map(|[_, last]| last);
    let last = reading.iter().filter_map(last).max();
    // `never_read` speaks of parents that do not read their children's pipes.
    let parent = recording.recorded.get(wait.process.recorded?)?.started_by;
    let by_parent = parent.is_some() && reading.iter().any(|end| Some(end.process) == parent);
    if by_parent || last.is_some_and(|last| last > recording.processes.window_ns / 2) {
        return None;
    }
    let from_begin = recording.target.pids().is_empty();
    let reads = match last {
        Some(last) => format!("has not read it since {}", time(last as f64 / 1e9)),
        None if from_begin => "has never read it".to_owned(),
        None => "does not read it".to_owned(),
    };
    let who = few(others.iter().map(|holder| full_name(&holder.process)));
    let [has, reads] =
        if others.len() == 1 { ["has", &reads] } else { ["have", reads.trim_start_matches("has ")] }.map(str::to_owned);
    let name = full_name(&wait.process);
    let again = capitalized(&few(others.iter().map(|holder| format!("`{}`", clean(&holder.process.name)))));
    let what = channel_name(channel);
    let of = of_its(recording, wait.process.recorded, channel);
    let remedy = if channel.kind == ChannelKind::Pty {
        format!("{} has to go on reading, or to be ended; with O_NONBLOCK, the writer would not wait", again)
    } else if channel.fd > 0 && role(channel.fd).is_some() {
        "Who started it has to read that all the time, as in another thread, or to send it elsewhere (`>/dev/null`, `2>/dev/null`, a file)"
            .to_owned()
    } else {
        let polls = if is_polled(wait) { "" } else { "; with O_NONBLOCK, the writer would not wait" };
        format!("{again} has to read it all the time, as in another thread, or to close it{polls}")
    };
    Some(format!(
        "{name} waits for room in {what}{of}, which is full: {who} {has} it open and {reads}. {remedy}.{}",
        behind(look, wait)
    ))
}

/// ` Meanwhile, ...`: those that wait for data of a process that waits for room.
fn behind(look: &LastLook, wait: &LastWait) -> String {
    let pid = wait.process.pid;
    let for_it = |other: &&LastWait| {
        other.process.pid != pid
            && matches!(&other.awaited, WaitedFor::Channels { any, .. }
                if any.iter().any(|of| !of.room && of.holders.iter().any(|holder| holder.process.pid == pid)))
    };
    let names: BTreeSet<String> = look.waits.iter().filter(for_it).map(|other| full_name(&other.process)).collect();
    let wait = if names.len() == 1 { "waits" } else { "wait" };
    if names.is_empty() { String::new() } else { format!(" Meanwhile, {} {wait} for it in vain.", few(names)) }
}

/// `` `a.py` (process 4711) has not read 34,464 of 100,000 bytes that `cat`, which has ended, wrote to its pipe: ... ``
pub(super) fn left_unread(recording: &Document, look: &LastLook) -> Vec<String> {
    // Without calls, it is not known who wrote; before the recording, others may have.
    if recording.looks.is_some() || !recording.target.pids().is_empty() || recording.skipped > 0 {
        return Vec::new();
    }
    let window = recording.processes.window_ns;
    let texts = recording.channels.iter().filter(|channel| channel.kind.is_pipe()).filter_map(|channel| {
        let ([writer], [reader]) = (&channel.writers[..], &channel.readers[..]) else { return None };
        let (wrote, own) = (recording.recorded.get(writer.process)?, recording.recorded.get(reader.process)?);
        let left = channel.written().saturating_sub(channel.read());
        let is_over = wrote.end_ns < window / 2 && wrote.started_by == Some(reader.process);
        let is_alone = channel.other_readers.is_empty() && channel.other_writers.is_empty() && own.is_one();
        let reads_on = reader.moved_ns.is_some_and(|[_, last]| last > window / 2);
        if left == 0 || !is_over || !is_alone || reads_on || own.moves_unseen() || !is_hung(recording, reader.process) {
            return None;
        }
        // Who waits for it gets it; and it has to wait for something.
        let waits: Vec<&LastWait> = look.waits.iter().filter(|wait| wait.process.recorded == Some(reader.process)).collect();
        let for_it = |wait: &&LastWait| {
            matches!(&wait.awaited, WaitedFor::Channels { any, .. }
                if any.iter().any(|of| (of.inode, of.device) == (channel.inode, channel.device)))
        };
        let name = full_name(&waits.first()?.process);
        (!waits.iter().any(for_it)).then(|| {
            format!(
                "{name} has not read {} of {} that `{}`, which has ended, wrote to the pipe to it, and waits for something else: what waits for \
                 the end of that pipe gets it only after all is read. It has to read on.",
                grouped(left),
                counted(channel.written(), "byte"),
                clean(&wrote.name)
            )
        })
    });
    texts.take(NAMED).collect()
}

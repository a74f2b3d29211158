//! Channels that stay full, because who has the other end open does not read.

use crate::profile::few;
use crate::record::say::standstill::waiting::{LONG, NAMED, channel_name, full_name, is_hung, recorded, role};
use crate::report::number::time;
use crate::result::{AwaitedChannel, ChannelKind, Document, LastLook, LastWait, RecordedEnd, WaitedFor};
use crate::util::text::capitalized;

/// `` `ffmpeg` (process 4711) waits for room in the pipe of its standard error, which is full: ... ``
pub(super) fn full(recording: &Document, look: &LastLook) -> Vec<String> {
    let texts = look.waits.iter().filter_map(|wait| {
        let at = wait.process.recorded.filter(|at| is_hung(recording, *at))?;
        let channel = for_room(wait)?;
        let long = blocked_ns(recording, at, channel) as f64 >= LONG * recording.processes.window_ns as f64;
        long.then(|| text(recording, look, wait, channel)).flatten()
    });
    texts.take(NAMED).collect()
}

/// The only channel in which a wait is for room.
fn for_room(wait: &LastWait) -> Option<&AwaitedChannel> {
    match &wait.awaited {
        WaitedFor::Channels { any, others: 0, .. } => match &any[..] {
            [channel] => Some(channel).filter(|channel| channel.room),
            _ => None,
        },
        _ => None,
    }
}

/// How long a process waited for room there.
fn blocked_ns(recording: &Document, process: usize, channel: &AwaitedChannel) -> u64 {
    let writers = recorded(recording, channel).map_or(&[][..], |pipe| &pipe.writers[..]);
    writers.iter().filter(|end| end.process == process).map(|end| end.blocked_ns).sum()
}

fn text(recording: &Document, look: &LastLook, wait: &LastWait, channel: &AwaitedChannel) -> Option<String> {
    let others: Vec<_> = channel.holders.iter().filter(|holder| holder.process.pid != wait.process.pid).collect();
    // Who waits for room elsewhere, or for the end of a child, has that as its cause.
    let waits_itself = |pid: u32| {
        let own = || look.waits.iter().filter(|other| other.process.pid == pid);
        own().any(|other| for_room(other).is_some() || matches!(other.awaited, WaitedFor::Children(_)))
    };
    if others.is_empty() || others.iter().any(|holder| waits_itself(holder.process.pid)) {
        return None;
    }
    let reading = recorded(recording, channel).map_or(&[][..], |pipe| &pipe.readers[..]);
    let last = |end: &RecordedEnd| end.moved_ns.filter(|_| end.bytes > 0).map(|[_, last]| last);
    let last = reading.iter().filter_map(last).max();
    // That of a parent which reads it no more is said where what it does meanwhile is looked at.
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
    let what = channel_name(channel);
    let of = role(channel.fd).map_or_else(String::new, |role| format!(" of its {role}"));
    let remedy = if channel.kind == ChannelKind::Pty {
        format!(
            "{} has to go on reading, or to be ended; with O_NONBLOCK, the writer would not wait",
            capitalized(&who)
        )
    } else if channel.fd > 0 && role(channel.fd).is_some() {
        "Who started it has to read that all the time, as in another thread, or to send it elsewhere (`>/dev/null`, `2>/dev/null`, a file)"
            .to_owned()
    } else {
        format!("{} has to read it all the time, as in another thread, or to close it", capitalized(&who))
    };
    Some(format!("{name} waits for room in {what}{of}, which is full: {who} {has} it open and {reads}. {remedy}."))
}

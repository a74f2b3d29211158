//! Data that lies unread while its reader waits for more.

use crate::profile::few;
use crate::record::say::killed;
use crate::record::say::standstill::waiting::{
    LONG, NAMED, channel_name, full_name, is_hung, is_stuck, killed_writer, recorded,
};
use crate::result::{ChannelHolder, Document, LastLook, LastWait, WaitedFor};
use crate::util::text::counted;
use std::collections::BTreeSet;

/// `` `server` (process 4711) waits in poll, although 5,905 bytes lie unread in the socket: ... ``
pub(super) fn left_data(recording: &Document, look: &LastLook) -> Vec<String> {
    // Without calls, it is not known what was read; before the recording, others may have written.
    if recording.looks.is_some() || !recording.target.pids().is_empty() || recording.skipped > 0 {
        return Vec::new();
    }
    look.waits.iter().filter_map(|wait| text(recording, look, wait)).take(NAMED).collect()
}

fn text(recording: &Document, look: &LastLook, wait: &LastWait) -> Option<String> {
    let at = wait.process.recorded.filter(|at| is_hung(recording, *at) && is_stuck(recording, wait))?;
    let WaitedFor::Channels { any, polled: true, .. } = &wait.awaited else { return None };
    any.iter().filter(|awaited| !awaited.room && !awaited.unaccepted).find_map(|awaited| {
        let channel = recorded(recording, awaited)?;
        let [reader] = &channel.readers[..] else { return None };
        let unread = channel.written().saturating_sub(channel.read());
        // What was sent before the connection was accepted was not seen, but what one read left of it was.
        let unseen = channel.written() < channel.read() && reader.all_calls() == 1;
        let some = unseen && channel.mean_filled.is_some_and(|filled| filled > 0.0);
        let is_alone = channel.other_readers.is_empty() && channel.other_writers.is_empty();
        let last = reader.moved_ns.filter(|_| reader.process == at && is_alone && (unread > 0 || some))?[1];
        // It filled its buffer, and looked no further.
        let is_left = reader.unsent == 0 && reader.bytes > 0 && reader.eagain == 0;
        let is_long = (last as f64) < (1.0 - LONG) * recording.processes.window_ns as f64;
        // What came later, as when who waits was ended, it has not left.
        let was_there = channel.writers.iter().filter_map(|end| end.moved_ns).all(|[_, last]| last <= look.at_ns);
        (is_left && is_long && was_there).then(|| {
            format!(
                "{} waits in poll, although {} unread in {}: its last read filled its buffer, and it did not read on. With EPOLLET, the \
                 kernel tells only what comes later: it has to read until EAGAIN, or to wait without EPOLLET.",
                full_name(&wait.process),
                if some { "data lies".to_owned() } else { format!("{} lie", counted(unread, "byte")) },
                channel_name(awaited)
            )
        })
    })
}

/// `` `main` (process 4711) waits for data from the pipe; `worker` wrote 62,605 bytes to it until it was killed ...: ... ``
///
/// Those that only have its end open may wait for something else, which is no circle.
pub(super) fn cut(recording: &Document, look: &LastLook) -> Vec<String> {
    let all = look.waits.iter().filter_map(|wait| {
        wait.process.recorded.filter(|at| is_hung(recording, *at) && is_stuck(recording, wait))?;
        let WaitedFor::Channels { any, polled: false, .. } = &wait.awaited else { return None };
        let [channel] = &any[..] else { return None };
        let known = recorded(recording, channel).filter(|_| !channel.room)?;
        let mut writers = known.writers.iter().filter(|end| end.bytes > 0);
        let is_killed = |at: usize| recording.recorded.get(at).is_some_and(|of| killed::at_once(of.signal).is_some());
        if !known.writers.iter().any(|end| end.unsent > 0) || !writers.all(|end| is_killed(end.process)) {
            return None;
        }
        let holder = |of: &ChannelHolder| match of.process.pid == wait.process.pid {
            true => "itself".to_owned(),
            false => full_name(&of.process),
        };
        let holders: BTreeSet<String> = channel.holders.iter().map(holder).collect();
        let has = if holders.len() == 1 { "has" } else { "have" };
        Some(format!(
            "{} waits for data from {}{}. There is no end of file, because {} still {has} the write end open: each worker needs a pipe of its \
             own, whose write end all others close after the `fork`.",
            full_name(&wait.process),
            channel_name(channel),
            killed_writer(recording, channel)?,
            few(holders)
        ))
    });
    all.take(NAMED).collect()
}

/// `` `daemon` (process 4711) waits in poll for data or the end of a pipe whose write end only it has itself: ... ``
///
/// A child that has ended can no longer write to it, and its parent does not notice that.
pub(super) fn own_end(recording: &Document, look: &LastLook) -> Vec<String> {
    let own = look.waits.iter().filter_map(|wait| {
        let at = wait.process.recorded.filter(|at| is_hung(recording, *at) && is_stuck(recording, wait))?;
        let WaitedFor::Channels { any, others: 0, polled: true, limited: false } = &wait.awaited else { return None };
        let [channel] = &any[..] else { return None };
        let holder = channel.holders.first().filter(|of| of.process.pid == wait.process.pid)?;
        let written = recorded(recording, channel).is_some_and(|channel| channel.written() > 0);
        // An event loop has a pipe for its handlers of signals.
        let handles = look.parents.iter().any(|parent| parent.pid == wait.process.pid);
        let ended = !wait.process.unreaped.is_empty() && !handles && recording.recorded.get(at)?.forks > 0;
        let is_own = channel.holders.len() == 1 && channel.kind.is_pipe() && !channel.room && !written && ended;
        is_own.then(|| {
            format!(
                "{} waits in poll for {} whose write end only it has itself (its descriptor {}): neither data nor an end can come, also when \
                 the child that had the other copy has ended. It has to close that end after the `fork`.",
                full_name(&wait.process),
                channel_name(channel),
                holder.fd
            )
        })
    });
    own.take(NAMED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::standstill::tests::{recording, said, wait};
    use crate::result::{ChannelKind, EndedChild, FindingKind, WaitReason, WaitTotal};

    #[test]
    fn data_that_an_edge_triggered_wait_leaves_is_said() {
        let left = |change: &dyn Fn(&mut Document)| {
            let mut recording = recording(vec![wait(0, 1, 5, false, &[1])]);
            let WaitedFor::Channels { any, polled, .. } = &mut recording.last_look.as_mut().unwrap().waits[0].awaited
            else {
                panic!()
            };
            *polled = true;
            any[0].kind = ChannelKind::UnixStream;
            recording.recorded[0].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
            let channel = &mut recording.channels[0];
            channel.writers[0].bytes = 10_001;
            let reader = &mut channel.readers[0];
            (reader.process, reader.bytes, reader.moved_ns) = (0, 4096, Some([10, 20]));
            change(&mut recording);
            said(&recording, &[FindingKind::Held]).concat()
        };
        let text = "`client` (process 1) waits in poll, although 5,905 bytes lie unread in the socket: its last read filled its buffer, and it \
                    did not read on. With EPOLLET, the kernel tells only what comes later: it has to read until EAGAIN, or to wait without \
                    EPOLLET.";
        assert_eq!(left(&|_| {}), text);
        let unseen = left(&|recording| {
            let channel = &mut recording.channels[0];
            (channel.writers[0].bytes, channel.mean_filled) = (0, Some(12_544.0));
            channel.readers[0].calls = [("read".to_owned(), 1)].into();
        });
        assert_eq!(unseen, text.replace("5,905 bytes lie", "data lies"));
        let others: [&dyn Fn(&mut Document); 4] = [
            &|recording| recording.channels[0].readers[0].unsent = 9,
            &|recording| recording.channels[0].readers[0].eagain = 1,
            &|recording| recording.channels[0].readers[0].bytes = 10_001,
            &|recording| recording.channels[0].readers[0].moved_ns = Some([10, 900]),
        ];
        for (at, change) in others.into_iter().enumerate() {
            assert!(!left(change).contains("lie unread"), "{at}");
        }
    }

    #[test]
    fn who_polls_a_pipe_that_only_it_can_write_is_said() {
        let polls = |holder: usize, written: u64, handles: bool| {
            let mut recording = recording(vec![wait(0, 1, 5, false, &[holder])]);
            let look = recording.last_look.as_mut().unwrap();
            look.waits[0].process.unreaped = vec![EndedChild { pid: 7, name: "a".to_owned(), status: None }];
            look.parents.extend(handles.then(|| look.waits[0].process.clone()));
            let WaitedFor::Channels { polled, .. } = &mut recording.last_look.as_mut().unwrap().waits[0].awaited else {
                panic!()
            };
            *polled = true;
            recording.recorded[0].waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
            (recording.recorded[0].forks, recording.channels[0].writers[0].bytes) = (1, written);
            own_end(&recording, recording.last_look.as_ref().unwrap()).concat()
        };
        let text = "`client` (process 1) waits in poll for the pipe whose write end only it has itself (its descriptor 1): neither data nor an \
                    end can come, also when the child that had the other copy has ended. It has to close that end after the `fork`.";
        assert_eq!(polls(0, 0, false), text);
        assert_eq!([polls(1, 0, false), polls(0, 9, false), polls(0, 0, true)], ["", "", ""]);
    }
}

//! Data that lies unread while its reader waits for more.

use crate::record::say::standstill::waiting::{LONG, NAMED, channel_name, full_name, is_hung, is_stuck, recorded};
use crate::result::{Document, LastLook, LastWait, WaitedFor};
use crate::util::text::counted;

/// `` `server` (process 4711) waits in poll, although 5,905 bytes lie unread in the socket: ... ``
pub(super) fn left_data(recording: &Document, look: &LastLook) -> Vec<String> {
    // Without calls, it is not known what was read; before the recording, others may have written.
    if recording.looks.is_some() || !recording.target.pids().is_empty() || recording.skipped > 0 {
        return Vec::new();
    }
    look.waits.iter().filter_map(|wait| text(recording, wait)).take(NAMED).collect()
}

fn text(recording: &Document, wait: &LastWait) -> Option<String> {
    let at = wait.process.recorded.filter(|at| is_hung(recording, *at) && is_stuck(recording, wait))?;
    let WaitedFor::Channels { any, polled: true, .. } = &wait.awaited else { return None };
    any.iter().filter(|awaited| !awaited.room && !awaited.unaccepted).find_map(|awaited| {
        let channel = recorded(recording, awaited)?;
        let [reader] = &channel.readers[..] else { return None };
        let unread = channel.written().saturating_sub(channel.read());
        let is_alone = channel.other_readers.is_empty() && channel.other_writers.is_empty();
        let last = reader.moved_ns.filter(|_| reader.process == at && is_alone && unread > 0)?[1];
        // It filled its buffer, and looked no further.
        let is_left = reader.unsent == 0 && reader.bytes > 0 && reader.eagain == 0;
        let is_long = (last as f64) < (1.0 - LONG) * recording.processes.window_ns as f64;
        (is_left && is_long).then(|| {
            format!(
                "{} waits in poll, although {} lie unread in {}: its last read filled its buffer, and it did not read on. With EPOLLET, the \
                 kernel tells only what comes later: it has to read until EAGAIN, or to wait without EPOLLET.",
                full_name(&wait.process),
                counted(unread, "byte"),
                channel_name(awaited)
            )
        })
    })
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

//! Ends of input that a process has not noticed, or has not passed on.

use crate::record::say::standstill::waiting::{NAMED, channel_name, full_name, is_hung, is_stuck, of_its, recorded};
use crate::report::number::time;
use crate::result::{AwaitedChannel, ChannelHolder, Document, LastLook, LastWait, RecordedProcess, WaitedFor};

/// `` `reader` (process 4711) waits in poll for the pipe of its standard input, whose write end nobody has open any more: ... ``
pub(super) fn hung_up(recording: &Document, look: &LastLook) -> Vec<String> {
    let all = look.waits.iter().filter_map(|wait| {
        wait.process.recorded.filter(|at| is_hung(recording, *at) && is_stuck(recording, wait))?;
        let WaitedFor::Channels { any, polled: true, limited: false, .. } = &wait.awaited else { return None };
        let is_over = |channel: &&AwaitedChannel| channel.kind.is_pipe() && !channel.room && channel.holders.is_empty();
        let channel = any.iter().find(is_over)?;
        Some(format!(
            "{} waits in poll for {}{}, whose write end nobody has open any more: its end is there, and it has not read it. With EPOLLET or \
             EPOLLONESHOT, the kernel tells that only once (EPOLLHUP, without EPOLLIN if nothing is left): then, too, it has to read until \
             there are 0 bytes.",
            full_name(&wait.process),
            channel_name(channel),
            of_its(recording, wait.process.recorded, channel),
        ))
    });
    all.take(NAMED).collect()
}

/// `` `cat` (process 4711) waits for the end of its input, which only `playpen` can give it: ... ``
///
/// That one stands between two others, and the one before it has ended.
pub(super) fn not_passed_on(recording: &Document, look: &LastLook) -> Vec<String> {
    let all = look.waits.iter().filter_map(|wait| {
        let reader = wait.process.recorded.filter(|at| is_hung(recording, *at) && is_stuck(recording, wait))?;
        let WaitedFor::Channels { any, polled: false, .. } = &wait.awaited else { return None };
        let [channel] = &any[..] else { return None };
        let holder = only_holder(channel).filter(|of| of.process.pid != wait.process.pid && !channel.room)?;
        let between = holder.process.recorded?;
        let wrote = recorded(recording, channel)?.writers.iter().any(|end| end.process == between && end.bytes > 0);
        // What it gets back comes from the reader.
        let waits_back = |other: &LastWait| match &other.awaited {
            WaitedFor::Channels { any, polled: true, .. } => {
                other.process.pid == holder.process.pid
                    && any.iter().any(|back| !back.room && only_holder(back).is_some_and(|of| of.process.recorded == Some(reader)))
            }
            _ => false,
        };
        let ended = input_ended(recording, recording.recorded.get(between)?)?;
        (wrote && look.waits.iter().any(waits_back)).then(|| {
            format!(
                "{} waits for data from {}, or its end, and only {} can write there (its descriptor {}), which waits for what comes back. \
                 Its own input has ended at {}: then it has to close that descriptor, or `shutdown` it, so that the reader gets the end of \
                 file.",
                full_name(&wait.process),
                channel_name(channel),
                full_name(&holder.process),
                holder.fd,
                time(ended as f64 / 1e9),
            )
        })
    });
    all.take(NAMED).collect()
}

fn only_holder(channel: &AwaitedChannel) -> Option<&ChannelHolder> {
    match &channel.holders[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// When all had ended that wrote to what a process got as its standard input.
fn input_ended(recording: &Document, process: &RecordedProcess) -> Option<u64> {
    let input = recording.channels.get(process.input?)?;
    let alone = input.other_writers.is_empty() && input.writers.iter().any(|end| end.bytes > 0);
    let ends = input.writers.iter().map(|end| recording.recorded.get(end.process).map(|of| of.end_ns));
    let last = ends.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    (alone && last < recording.processes.window_ns).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::standstill::tests::{held_up, recording, wait};
    use crate::result::{ChannelKind, WaitReason, WaitTotal};

    fn polled(wait: LastWait) -> LastWait {
        let WaitedFor::Channels { any, others, .. } = wait.awaited else { panic!() };
        LastWait { awaited: WaitedFor::Channels { any, others, polled: true, limited: false }, ..wait }
    }

    fn hangs(waits: Vec<LastWait>, change: &dyn Fn(&mut Document)) -> Vec<String> {
        let mut recording = recording(waits);
        for process in &mut recording.recorded {
            process.waits = [(WaitReason::Poll, WaitTotal { ns: 900, count: 1 })].into();
            process.signal = Some(15);
        }
        for wait in &mut recording.last_look.as_mut().unwrap().waits {
            (wait.endless, wait.stuck) = (false, false);
        }
        change(&mut recording);
        held_up(&recording)
    }

    #[test]
    fn an_end_that_an_edge_triggered_wait_does_not_read_is_said() {
        let text = "`client` (process 1) waits in poll for the pipe of its standard input, whose write end nobody has open any more: its end is \
                    there, and it has not read it. With EPOLLET or EPOLLONESHOT, the kernel tells that only once (EPOLLHUP, without EPOLLIN if \
                    nothing is left): then, too, it has to read until there are 0 bytes.";
        let hung = |holders: &[usize], room: bool| hangs(vec![polled(wait(0, 1, 0, room, holders))], &|_| {});
        assert_eq!(hung(&[], false), [text]);
        assert!(hung(&[1], false).iter().all(|said| said != text));
        assert!(hung(&[], true).iter().all(|said| said != text));
    }

    #[test]
    fn who_does_not_pass_on_an_end_is_said() {
        let of = |change: &dyn Fn(&mut Document)| {
            // The second one writes to the first, waits for what comes back, and got what the third one wrote.
            hangs(vec![wait(0, 1, 0, false, &[1]), polled(wait(1, 7, 5, false, &[0]))], &|recording| {
                recording.channels[0].writers[0].bytes = 6;
                let input = &mut recording.channels[1];
                (input.kind, input.writers[0].process) = (ChannelKind::Pipe, 2);
                recording.recorded[1].input = Some(1);
                recording.recorded[2].end_ns = 500;
                change(recording);
            })
            .concat()
        };
        let text = "and only `server` (process 2) can write there (its descriptor 1), which waits for what comes back. Its own input has ended \
                    at";
        assert!(of(&|_| {}).contains(text), "{}", of(&|_| {}));
        let others: [&dyn Fn(&mut Document); 3] = [
            &|recording| recording.recorded[2].end_ns = 1000,
            &|recording| recording.recorded[1].input = None,
            &|recording| recording.channels[0].writers[0].bytes = 0,
        ];
        others.into_iter().for_each(|change| assert!(!of(change).contains(text), "{}", of(change)));
    }
}

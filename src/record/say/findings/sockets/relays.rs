//! Programs that pass data on both ways, and end when one of them has ended.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::programs::{Does, does};
use crate::result::{Finding, FindingKind, RecordedEnd, WaitReason};
use crate::util::text::{clean, counted};

/// `` `socat` had ended at 1.73 s when `daemon.py` answered `client.py` through it: what it wrote was refused (EPIPE). ... ``
pub(crate) fn ended_early(view: &FindingView<'_>) -> Vec<Finding> {
    let refused = view.writers().filter(|(_, channel, end)| channel.is_stream_socket() && end.epipe > 0);
    let found = refused.filter_map(|(at, channel, end)| {
        let [reader] = &channel.readers[..] else { return None };
        let relay = view.process(reader).filter(|relay| relay.signal.is_none() && reader.process != end.process)?;
        view.process(end).filter(|server| relay.end_ns < server.end_ns && view.is_one(reader.process))?;
        // What it passed on to the server came from a third process, to its end.
        let mut sources = view.readers().filter(|(_, source, input)| {
            input.process == reader.process && input.at_end > 0 && input.bytes > 0 && source.is_stream_socket()
        });
        let (_, source, _) = sources.find(|(_, source, _)| {
            source.writers.iter().all(|writer| writer.process != end.process && writer.process != reader.process)
        })?;
        // Who wrote is not known of each socket.
        let passed_on = view.readers().any(|(_, to, of)| {
            let by_relay = to.writers.iter().all(|own| own.process == reader.process);
            of.process == end.process && of.bytes > 0 && to.is_stream_socket() && by_relay
        });
        if !passed_on {
            return None;
        }
        let (name, server) = (view.name(reader.process), view.name(end.process));
        let client = view.names(&source.writers);
        let client = if client.is_empty() { "the other side".to_owned() } else { client };
        let switch = match relay.program() {
            "socat" => " (`socat -t 60`: it waits for 0.5 s otherwise)",
            program if does(program, Does::Connects) => " (without `-q` or `-N`)",
            _ => "",
        };
        let text = format!(
            "{name} had ended at {} when {server} answered {client} through it: what {server} wrote was refused (EPIPE), and is lost. {name} had \
             got the end of what {client} sent, and ended soon after that. Who passes data on both ways has to wait for the end of both{switch}.",
            after(relay.end_ns)
        );
        let finding = Finding::new(FindingKind::Broken, [reader.process, end.process], text);
        Some(Finding { channels: vec![at], at_ns: Some(relay.end_ns), ..finding })
    });
    found.collect()
}

/// `` `nc -w 4` ended at 4.76 s, because nothing had come for the time of its `-w`: ... ``
pub(crate) fn idle(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.readers().filter_map(|(at, channel, end)| {
        let process = view.process(end).filter(|of| does(of.program(), Does::Connects) && view.is_one(end.process))?;
        let option = process.args.iter().position(|word| word.starts_with("-w"))?;
        let word = process.args.get(option)?;
        let limit = if word == "-w" { format!("-w {}", process.args.get(option + 1)?) } else { word.clone() };
        let is_cut = Some(at) == process.input && end.at_end == 0 && end.bytes > 0 && process.timeouts > 0;
        let refused = channel.writers.iter().any(|writer| writer.epipe > 0 || view.process(writer).is_some_and(|of| of.signal.is_some()));
        if !is_cut || !refused || process.signal.is_some() {
            return None;
        }
        let text = format!(
            "{} ended at {}, because nothing had come for the time of its `{}`: it had got {} of {} by then, and what came later is lost. A larger \
             number waits longer.",
            view.name(end.process),
            after(process.end_ns),
            clean(&limit),
            counted(end.bytes, "byte"),
            view.pipe_from(channel)
        );
        let finding = Finding::new(FindingKind::Cut, [end.process], text);
        Some(Finding { channels: vec![at], bytes: Some(end.bytes), at_ns: Some(process.end_ns), ..finding })
    });
    found.take(1).collect()
}

/// Shorter waits, ns, are for something else than an answer: socat(1), `-t`, waits for 0.5 s.
const ANSWER_NS: u64 = 400_000_000;

/// `` `socat` got the end of its input and ended, after it had waited for an answer for 0.50 s: ... ``
pub(crate) fn unanswered(view: &FindingView<'_>) -> Vec<Finding> {
    let all = view.document.recorded.iter().enumerate();
    let found = all.filter(|(_, process)| process.program() == "socat").filter_map(|(at, process)| {
        let own = |end: &RecordedEnd| end.process == at;
        let poll = process.waits.get(&WaitReason::Poll)?;
        let waited = process.timeouts > 0 && poll.ns >= ANSWER_NS;
        let ended = process.ends > 0 || view.readers().any(|(_, _, end)| own(end) && end.at_end > 0);
        let is_over = process.signal.is_none() && process.end_ns < view.document.processes.window_ns && view.is_one(at);
        let chosen = process.args.iter().any(|word| word.starts_with("-t") || word.starts_with("-T"));
        let (channel, socket, _) =
            view.writers().find(|(_, to, end)| own(end) && to.is_stream_socket() && end.bytes > 0)?;
        let answered = view.readers().any(|(_, from, end)| own(end) && from.is_stream_socket() && end.bytes > 0);
        if !waited || !ended || !is_over || chosen || answered {
            return None;
        }
        let text = format!(
            "{} got the end of its input and ended at {}, after it had waited for an answer for {}: none had come by {} by then. `socat -t 60` \
             waits longer than 0.5 s.",
            view.name(at),
            after(process.end_ns),
            after(poll.ns),
            view.pipe_to(socket)
        );
        let finding = Finding::new(FindingKind::Cut, [at], text);
        Some(Finding { channels: vec![channel], at_ns: Some(process.end_ns), ..finding })
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_waits_for_so_long_only_is_said() {
        let idle = |change: &dyn Fn(&mut Document)| {
            said(idle, &|recording| {
                let process = &mut recording.recorded[1];
                (process.name, process.timeouts, process.end_ns, process.input) =
                    ("nc".to_owned(), 1, WINDOW / 2, Some(0));
                process.args = ["nc", "-w", "4", "host"].map(str::to_owned).to_vec();
                recording.channels[0].writers[0].epipe = 1;
                change(recording);
            })
        };
        let text = "ended at 2.00 s, because nothing had come for the time of its `-w 4`: it had got 1,000 bytes of the pipe from `seq` by then, and \
                    what came later is lost. A larger number waits longer.";
        assert!(idle(&|_| {})[0].ends_with(text), "{:?}", idle(&|_| {}));
        silent(
            &idle,
            &[
                &|recording| recording.recorded[1].timeouts = 0,
                &|recording| recording.recorded[1].args = vec!["nc".to_owned()],
                &|recording| recording.channels[0].readers[0].at_end = 1,
                &|recording| recording.channels[0].writers[0].epipe = 0,
            ],
        );
    }

    #[test]
    fn an_answer_that_came_too_late_is_said() {
        let late = |change: &dyn Fn(&mut Document)| {
            said(unanswered, &|recording| {
                let process = &mut recording.recorded[0];
                (process.name, process.timeouts, process.ends, process.end_ns) = ("socat".to_owned(), 1, 1, WINDOW / 4);
                process.waits = [(WaitReason::Poll, WaitTotal { ns: 500_000_000, count: 2 })].into();
                recording.channels[0].kind = ChannelKind::Tcp;
                recording.channels[1].readers[0].process = 2;
                change(recording);
            })
        };
        let begin = "`socat` got the end of its input and ended at 1.00 s, after it had waited for an answer for 0.50 s: none had come by the";
        assert!(late(&|_| {}).concat().starts_with(begin), "{:?}", late(&|_| {}));
        silent(
            &late,
            &[
                &|recording| recording.recorded[0].args = vec!["socat".to_owned(), "-t5".to_owned()],
                &|recording| recording.recorded[0].timeouts = 0,
                &|recording| recording.recorded[0].ends = 0,
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
            ],
        );
    }

    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{ChannelKind, Document, RecordedChannel, WaitTotal};

    #[test]
    fn a_relay_that_ends_too_early_is_said() {
        let early = |change: &dyn Fn(&mut Document)| {
            said(ended_early, &|recording| {
                let end = |process: usize, at_end: u64, epipe: u64| RecordedEnd {
                    process,
                    bytes: 9,
                    at_end,
                    epipe,
                    ..RecordedEnd::default()
                };
                let socket = |writer: RecordedEnd, reader: RecordedEnd| RecordedChannel {
                    kind: ChannelKind::Tcp,
                    writers: vec![writer],
                    readers: vec![reader],
                    ..RecordedChannel::default()
                };
                let [request, passed_on, answer] = [
                    socket(end(0, 0, 0), end(1, 1, 0)),
                    socket(end(1, 0, 0), end(2, 0, 0)),
                    socket(end(2, 0, 1), end(1, 0, 0)),
                ];
                recording.channels = vec![request, passed_on, answer];
                (recording.recorded[1].name, recording.recorded[1].end_ns) = ("socat".to_owned(), WINDOW / 4);
                recording.recorded[2].end_ns = WINDOW / 2;
                change(recording);
            })
        };
        let text = "`socat` had ended at 1.00 s when `cat` answered `seq` through it: what `cat` wrote was refused (EPIPE), and is lost. `socat` had \
                    got the end of what `seq` sent, and ended soon after that. Who passes data on both ways has to wait for the end of both \
                    (`socat -t 60`: it waits for 0.5 s otherwise).";
        assert_eq!(early(&|_| {}), [text]);
        silent(
            &early,
            &[
                &|recording| recording.channels[2].writers[0].epipe = 0,
                &|recording| recording.channels[0].readers[0].at_end = 0,
                &|recording| recording.channels[1].readers[0].bytes = 0,
                &|recording| recording.recorded[1].end_ns = WINDOW,
                &|recording| recording.channels[2].kind = ChannelKind::Pipe,
            ],
        );
    }
}

//! Programs that pass data on both ways, and end when one of them has ended.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind};

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
            "nc" | "ncat" | "nc.openbsd" | "nc.traditional" => " (without `-q` or `-N`)",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{ChannelKind, Document, RecordedChannel, RecordedEnd};

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

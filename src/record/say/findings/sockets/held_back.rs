//! Messages of which TCP keeps a part back until what was sent before is acknowledged.

use crate::record::say::findings::view::FindingView;
use crate::result::{ChannelKind, Finding, FindingKind};
use crate::util::text::{counted, grouped};

/// Fewer are the begin or the end of a connection, and a smaller part of the window does not matter.
const LEAST: u64 = 5;
const LONG: f64 = 0.1;

/// The least time for which the kernel delays an acknowledgement, ns, and a little less: include/net/tcp.h, TCP_DELACK_MIN.
const DELAYED_NS: u64 = 36_000_000;

/// The writes of a process to a connection.
struct MessageParts {
    channel: usize,
    from: usize,
    to: usize,
    held: u64,
    writes: u64,
}

/// `` 50 of 100 writes of `a.py` to the TCP connection to `b.py` were sent only once those before were acknowledged: ... ``
pub(crate) fn held_back(view: &FindingView<'_>) -> Vec<Finding> {
    let channels = view.document.channels.iter().enumerate().filter(|(_, channel)| channel.kind == ChannelKind::Tcp);
    let slow = channels.filter_map(|(channel, connection)| {
        let ([from], [to]) = (&connection.writers[..], &connection.readers[..]) else { return None };
        // Several parts can wait for one acknowledgement: then each sleep of the reader is as long as that takes.
        let held = from.held_back;
        let of_sleep = to.blocked_ns / to.sleeps.max(1);
        let several = held > to.sleeps && (DELAYED_NS..DELAYED_NS / 2 * 3).contains(&of_sleep);
        let least_ns = if several { to.sleeps } else { held } * DELAYED_NS;
        // Of many bytes in a row, the last ones of each write go with the next one.
        let waits = to.blocked_ns >= least_ns && least_ns as f64 >= LONG * view.window();
        let writes = from.all_calls();
        let is_so = held >= LEAST && waits && from.process != to.process;
        is_so.then_some(MessageParts { channel, from: from.process, to: to.process, held, writes })
    });
    let slow: Vec<MessageParts> = slow.collect();
    // Who passes on what comes in parts sends it in parts: the first one of a chain delays all.
    let passes_on = |parts: &MessageParts| slow.iter().any(|other| other.to == parts.from && other.from != parts.to);
    let Some(first) = slow.iter().find(|parts| !passes_on(parts)).or(slow.first()) else { return Vec::new() };
    let back = slow.iter().find(|parts| (parts.from, parts.to) == (first.to, first.from));
    let relays = slow.iter().any(|parts| parts.from == first.to && parts.to != first.from);
    let (one, other) = (view.name(first.from), view.name(first.to));
    let others = match back {
        Some(parts) => {
            format!(" So were {} of {} of {other} the other way.", grouped(parts.held), grouped(parts.writes))
        }
        None if relays => format!(" {other} passes on what it gets in such parts, and needs it, too."),
        None => String::new(),
    };
    let text = format!(
        "{} of {} of {one} to the TCP connection to {other} were sent only once those before were acknowledged, which takes up to 40 ms \
         each time (Nagle's algorithm): it sends a message in several parts. One write for all parts, or TCP_NODELAY on \
         both sides, does not wait.{others}",
        grouped(first.held),
        counted(first.writes, "write")
    );
    let finding = Finding::new(FindingKind::Naps, [first.from, first.to], text);
    let channels = [first.channel].into_iter().chain(back.map(|parts| parts.channel)).collect();
    vec![Finding { channels, count: Some(first.held), of: Some(first.writes), ..finding }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::Document;

    #[test]
    fn messages_in_parts_are_said() {
        let asks = |change: &dyn Fn(&mut Document)| {
            said(held_back, &|recording| {
                let [requests, answers] = &mut recording.channels[..] else { panic!() };
                (requests.kind, answers.kind) = (ChannelKind::Tcp, ChannelKind::Tcp);
                requests.writers[0].calls = [("sendto".to_owned(), 160)].into();
                (requests.writers[0].held_back, requests.readers[0].blocked_ns) = (80, WINDOW / 10 * 9);
                (answers.writers[0].process, answers.readers[0].process) = (1, 0);
                change(recording);
            })
        };
        let text = "80 of 160 writes of `seq` to the TCP connection to `grep` were sent only once those before were acknowledged, which takes \
                    up to 40 ms each time (Nagle's algorithm): it sends a message in several parts. One write for all parts, or \
                    TCP_NODELAY on both sides, does not wait.";
        assert_eq!(asks(&|_| {}), [text]);
        let both = asks(&|recording| {
            let answers = &mut recording.channels[1];
            answers.writers[0].calls = [("sendto".to_owned(), 240)].into();
            (answers.writers[0].held_back, answers.readers[0].blocked_ns) = (70, WINDOW);
        });
        assert_eq!(both, [format!("{text} So were 70 of 240 of `grep` the other way.")]);
        let of_three = asks(&|recording| {
            recording.channels[0].writers[0].held_back = 150;
            let reader = &mut recording.channels[0].readers[0];
            (reader.sleeps, reader.blocked_ns) = (50, 50 * DELAYED_NS);
        });
        assert!(of_three[0].starts_with("150 of 160 writes of `seq`"), "{of_three:?}");
        // `cat` sends what it gets from `seq` to `grep`: `seq` is the first.
        let relayed = asks(&|recording| {
            let mut more = recording.channels.clone();
            (more[0].readers[0].process, more[1].writers[0].process) = (2, 2);
            recording.channels[0].writers[0].process = 2;
            recording.channels.extend(more);
        });
        assert!(relayed[0].starts_with("80 of 160 writes of `seq` to the TCP connection to `cat`"), "{relayed:?}");
        assert!(relayed[0].ends_with("`cat` passes on what it gets in such parts, and needs it, too."), "{relayed:?}");
        silent(
            &asks,
            &[
                &|recording| recording.channels[0].writers[0].held_back = 4,
                &|recording| recording.channels[0].readers[0].blocked_ns = WINDOW / 10,
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
            ],
        );
    }
}

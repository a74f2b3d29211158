//! Datagrams that were not sent.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{ChannelKind, Finding, FindingKind, RecordedChannel};
use crate::util::text::{counted, grouped};

/// Fewer are no loss of a program that tries again.
const SHARE: f64 = 0.1;
const MANY: u64 = 10;

/// `` `a` could not send 979 of 1,000 datagrams to `b` (98 %): the socket was full, and it does not wait (EAGAIN). ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, channel, end) in view.writers().filter(|(_, channel, _)| channel.kind == ChannelKind::UnixDatagram) {
        let calls = end.all_calls();
        if end.eagain < MANY || (end.eagain as f64) < SHARE * calls as f64 {
            continue;
        }
        let (name, to) = (view.name(end.process), view.names(&channel.readers));
        let to = if to.is_empty() { String::new() } else { format!(" to {to}") };
        let text = format!(
            "{name} could not send {} of {} datagrams{to} ({}): the socket was full, and it does not wait (EAGAIN). What is \
             not sent again is lost.",
            grouped(end.eagain),
            grouped(calls),
            percent(end.eagain as f64 / calls.max(1) as f64)
        );
        let finding = Finding::new(FindingKind::Datagrams, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(end.eagain), of: Some(calls), ..finding });
    }
    found.extend(view.document.channels.iter().enumerate().filter_map(|(at, channel)| cut(view, at, channel)));
    found
}

/// `` `b` received 50 datagrams with a buffer of 1,024 bytes: of each, the rest was lost. ``
fn cut(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    let ([writer], [reader]) = (&channel.writers[..], &channel.readers[..]) else { return None };
    let is_datagram = matches!(channel.kind, ChannelKind::UnixDatagram | ChannelKind::UnixPacket);
    let received = reader.all_calls() - reader.eagain - reader.errors - reader.at_end;
    let sent = writer.all_calls() - writer.eagain - writer.epipe - writer.errors;
    // All filled its buffer, and the smallest that was sent is larger.
    let fills = reader.bytes > 0
        && reader.short == 0
        && reader.bytes == reader.requested
        && reader.bytes % received.max(1) == 0;
    let smallest = writer.log2_sizes.iter().position(|count| *count > 0).map_or(0, |bucket| 1_u64 << bucket);
    let buffer = reader.bytes / received.max(1);
    if !is_datagram || !fills || received < MANY || sent < received || smallest <= buffer || view.document.skipped > 0 {
        return None;
    }
    let text = format!(
        "{} received {} with a buffer of {}, and {} sent larger ones ({} in the mean): the rest of each was lost. A larger buffer \
         takes all; `recv` with MSG_TRUNC says how much there was.",
        view.name(reader.process),
        counted(received, "datagram"),
        counted(buffer, "byte"),
        view.name(writer.process),
        counted(writer.bytes / sent, "byte")
    );
    let finding = Finding::new(FindingKind::Datagrams, [reader.process], text);
    Some(Finding { channels: vec![at], count: Some(received), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn sends(recording: &mut Document, kind: ChannelKind, calls: u64, eagain: u64) {
        let channel = &mut recording.channels[0];
        channel.kind = kind;
        let end = &mut channel.writers[0];
        (end.calls, end.eagain) = ([("sendto".to_owned(), calls)].into(), eagain);
    }

    #[test]
    fn datagrams_that_did_not_fit_are_said() {
        let received = |buffer: u64, read: u64, bucket: usize| {
            said(find, &|recording| {
                sends(recording, ChannelKind::UnixDatagram, 50, 0);
                let channel = &mut recording.channels[0];
                channel.writers[0].bytes = 200_000;
                channel.writers[0].log2_sizes = [vec![0; bucket], vec![50]].concat();
                let reader = &mut channel.readers[0];
                (reader.calls, reader.bytes) = ([("recvfrom".to_owned(), 50)].into(), 50 * read);
                reader.requested = 50 * buffer;
            })
        };
        let text = "`grep` received 50 datagrams with a buffer of 1,024 bytes, and `seq` sent larger ones (4,000 bytes in the mean): \
                    the rest of each was lost. A larger buffer takes all; `recv` with MSG_TRUNC says how much there was.";
        assert_eq!(received(1024, 1024, 11), [text]);
        assert!(received(8192, 4000, 11).is_empty(), "they fit");
        assert!(received(4000, 4000, 11).is_empty() && received(2048, 2048, 11).is_empty(), "they may fit");
    }

    #[test]
    fn what_a_full_socket_refused_is_said() {
        let text = "`seq` could not send 979 of 1,000 datagrams to `grep` (98 %): the socket was full, and it does not wait \
                    (EAGAIN). What is not sent again is lost.";
        assert_eq!(said(find, &|recording| sends(recording, ChannelKind::UnixDatagram, 1000, 979)), [text]);
        for (kind, calls, eagain) in [
            (ChannelKind::Pipe, 1000, 979),
            (ChannelKind::UnixDatagram, 1000, 9),
            (ChannelKind::UnixDatagram, 9000, 50),
        ] {
            assert!(said(find, &|recording| sends(recording, kind, calls, eagain)).is_empty());
        }
    }
}

//! Datagrams that were not sent.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{ChannelKind, Finding, FindingKind};
use crate::util::text::grouped;

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
    found
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

//! Who has asked something by a connection, and got no answer.

use crate::record::say::findings::view::{FindingView, after};
use crate::report::number::time;
use crate::result::{ChannelKind, Finding, FindingKind, RecordedEnd, WaitReason};
use crate::util::text::{clean, counted};

/// From this part of the window on, it waits most of the time.
const LONG: f64 = 0.5;

/// `` `curl` sent 80 bytes to `python3 httpd.py` by 12.3 ms, and got no answer until the end (9.83 s): ... ``
///
/// If the other side was recorded, too, what that does says more.
pub(crate) fn no_answer(view: &FindingView<'_>) -> Vec<Finding> {
    let Some(look) = &view.document.last_look else { return Vec::new() };
    let found = look.waits.iter().filter(|wait| !wait.endless).filter_map(|wait| {
        let at = wait.process.recorded.filter(|at| view.is_one(*at))?;
        let process = view.document.recorded.get(at)?;
        let of_tcp = |end: &RecordedEnd, kind: ChannelKind| end.process == at && kind == ChannelKind::Tcp;
        let (channel, _, end) = view.writers().find(|(_, to, end)| of_tcp(end, to.kind) && end.bytes > 0)?;
        let answered = view.readers().any(|(_, from, end)| of_tcp(end, from.kind) && end.bytes + end.at_end > 0);
        let reasons = [WaitReason::Poll, WaitReason::Network];
        let polled = reasons.iter().filter_map(|reason| process.waits.get(reason)).map(|wait| wait.ns);
        let blocked = view.readers().filter(|(_, from, end)| of_tcp(end, from.kind)).map(|(_, _, end)| end.blocked_ns);
        let ns = polled.chain(blocked).max()?;
        let mut sockets = wait.channels().iter().filter(|of| !of.room && of.kind == ChannelKind::Tcp);
        let other = sockets.find_map(|of| of.holders.iter().find(|holder| holder.process.pid != wait.process.pid))?;
        let is_client = process.connects > 0 && other.process.recorded.is_none();
        if answered || !is_client || (ns as f64) < LONG * view.window() {
            return None;
        }
        let limit = match process.program() {
            "curl" => " (`curl --max-time`; `--connect-timeout` is for connecting only)",
            "wget" => " (`wget --read-timeout`)",
            _ => "",
        };
        let text = format!(
            "{} sent {} to `{}` by {}, and got no answer to the end ({} in all): that has the connection open, and has sent nothing. A limit for \
             the answer ends such a wait{limit}.",
            view.name(at),
            counted(end.bytes, "byte"),
            clean(&other.process.name),
            after(end.moved_ns.map_or(0, |[_, last]| last)),
            time(ns as f64 / 1e9),
        );
        let finding = Finding::new(FindingKind::Held, [at], text);
        Some(Finding { channels: vec![channel], ns: Some(ns), ..finding })
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, WINDOW, said, silent};
    use crate::result::{
        AwaitedChannel, ChannelHolder, Document, LastLook, LastWait, RecordedChannel, SeenProcess, WaitTotal, WaitedFor,
    };

    #[test]
    fn a_server_that_does_not_answer_is_said() {
        let asks = |change: &dyn Fn(&mut Document)| {
            said(no_answer, &|recording| {
                let curl = &mut recording.recorded[1];
                (curl.name, curl.connects) = ("curl".to_owned(), 1);
                curl.waits = [(WaitReason::Poll, WaitTotal { ns: WINDOW, count: 4 })].into();
                let end = RecordedEnd { process: 1, bytes: 80, moved_ns: Some([9 * MS; 2]), ..RecordedEnd::default() };
                let (kind, writers) = (ChannelKind::Tcp, vec![end]);
                recording.channels[1] = RecordedChannel { kind, writers, ..RecordedChannel::default() };
                let server = SeenProcess { pid: 70, name: "httpd".to_owned(), ..SeenProcess::default() };
                let holders = vec![ChannelHolder { process: server, fd: 3 }];
                let any = vec![AwaitedChannel { kind: ChannelKind::Tcp, holders, ..AwaitedChannel::default() }];
                let process = SeenProcess { pid: 2, recorded: Some(1), ..SeenProcess::default() };
                let awaited = WaitedFor::Channels { any, others: 0, polled: true, limited: true };
                let waits = vec![LastWait { process, awaited, endless: false, stuck: false }];
                recording.last_look = Some(LastLook { waits, ..LastLook::default() });
                change(recording);
            })
        };
        let text = "`curl` sent 80 bytes to `httpd` by 9.00 ms, and got no answer to the end (4.00 s in all): that has the connection open, and has \
                    sent nothing. A limit for the answer ends such a wait (`curl --max-time`; `--connect-timeout` is for connecting only).";
        assert_eq!(asks(&|_| {}), [text]);
        silent(
            &asks,
            &[
                &|recording| recording.recorded[1].connects = 0,
                &|recording| recording.recorded[1].waits.clear(),
                &|recording| {
                    let end = RecordedEnd { process: 1, bytes: 1, ..RecordedEnd::default() };
                    recording.channels[1].readers = vec![end];
                },
            ],
        );
    }
}

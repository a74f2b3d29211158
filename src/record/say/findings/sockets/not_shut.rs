//! Who has sent all of its input, and keeps its connection open for writing: the other side waits for more until its time is over.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::programs::{Does, does};
use crate::report::number::time;
use crate::result::{
    AwaitedChannel, ChannelKind, Finding, FindingKind, LastWait, RecordedProcess, WaitReason, WaitedFor,
};
use crate::util::text::{clean, counted};

/// From this part of the window on, it waits most of the time.
const LONG: f64 = 0.5;

/// `` `nc` had sent all of its input by 9.57 ms, and `python3 paste.py` waited for more from it until its time was over ... ``
pub(crate) fn not_shut(view: &FindingView<'_>) -> Vec<Finding> {
    let Some(look) = &view.document.last_look else { return Vec::new() };
    let found = look.waits.iter().filter(|wait| !wait.endless).filter_map(|wait| {
        let at = wait.process.recorded.filter(|at| view.is_one(*at))?;
        let process = view.document.recorded.get(at)?;
        let reasons = [WaitReason::Poll, WaitReason::Network];
        let waits = reasons.iter().filter_map(|reason| process.waits.get(reason)).map(|wait| wait.ns);
        let blocked = view.readers().filter(|(_, from, end)| end.process == at && from.is_stream_socket());
        let ns = waits.chain(blocked.map(|(_, _, end)| end.blocked_ns)).max()?;
        let (channel, _, end) =
            view.writers().find(|(_, to, end)| end.process == at && to.kind == ChannelKind::Tcp && end.bytes > 0)?;
        let other = partner(&look.waits, wait)?;
        if (ns as f64) < LONG * view.window() || !has_sent_all(view, at, process) {
            return None;
        }
        let (name, other) = (view.name(at), clean(&other.process.name));
        let option =
            if does(process.program(), Does::Connects) { " (`nc -N`, `ncat --send-only`, `socat`)" } else { "" };
        let text = format!(
            "{name} had sent all of its input by {} ({}), but kept its side of the connection open, and `{other}` waited for more: both waited for each \
             other ({} in all). {name} has to shut that down for writing when its input ends{option}, or `{other}` must not wait for the end.",
            after(end.moved_ns.map_or(0, |[_, last]| last)),
            counted(end.bytes, "byte"),
            time(ns as f64 / 1e9),
        );
        let finding = Finding::new(FindingKind::TimedCircle, [at], text);
        Some(Finding { channels: vec![channel], ns: Some(ns), ..finding })
    });
    found.take(1).collect()
}

/// Whoever is at the other side of a connection for which `wait` is, and waits there, too, for nothing else and for a time only. A
/// server that polls its clients all the time is in no need of an end.
fn partner<'a>(all: &'a [LastWait], wait: &LastWait) -> Option<&'a LastWait> {
    let sockets = wait.channels().iter().filter(|of| !of.room && of.kind == ChannelKind::Tcp);
    let pids: Vec<u32> = sockets.flat_map(|of| &of.holders).map(|holder| holder.process.pid).collect();
    let own = wait.process.pid;
    all.iter().filter(|other| other.process.pid != own && pids.contains(&other.process.pid)).find(|other| {
        let WaitedFor::Channels { any, others: 0, limited: true, .. } = &other.awaited else { return false };
        let is_back = |of: &AwaitedChannel| of.holders.iter().any(|holder| holder.process.pid == own);
        matches!(&any[..], [only] if !only.room && only.kind == ChannelKind::Tcp && is_back(only))
    })
}

/// Whether a process has read all that came to its standard input, and nobody can write more.
fn has_sent_all(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> bool {
    let Some(input) = process.input.and_then(|input| view.document.channels.get(input)) else {
        return process.ends > 0;
    };
    let is_over = |pid: usize| view.document.recorded.get(pid).is_some_and(|of| of.end_ns < process.end_ns);
    let read = input.readers.iter().any(|end| end.process == at && end.bytes > 0);
    read && input.read() == input.written() && input.writers.iter().all(|end| is_over(end.process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, WINDOW, said, silent};
    use crate::result::{
        AwaitedChannel, ChannelHolder, Document, LastLook, RecordedChannel, RecordedEnd, SeenProcess, WaitTotal,
        WaitedFor,
    };

    fn waits_for(own: u32, name: &str, recorded: Option<usize>, other: u32) -> LastWait {
        let seen = |pid: u32| SeenProcess { pid, name: "server".to_owned(), ..SeenProcess::default() };
        let holders = vec![ChannelHolder { process: seen(other), fd: 3 }];
        let channel = AwaitedChannel { kind: ChannelKind::Tcp, holders, ..AwaitedChannel::default() };
        let any = vec![channel];
        let process = SeenProcess { pid: own, name: name.to_owned(), recorded, ..SeenProcess::default() };
        let awaited = WaitedFor::Channels { any, others: 0, polled: true, limited: true };
        LastWait { process, awaited, endless: false, stuck: false }
    }

    #[test]
    fn a_side_that_is_not_shut_down_is_said() {
        let open = |change: &dyn Fn(&mut Document)| {
            said(not_shut, &|recording| {
                let nc = &mut recording.recorded[1];
                (nc.name, nc.input) = ("nc".to_owned(), Some(0));
                nc.waits = [(WaitReason::Poll, WaitTotal { ns: WINDOW, count: 1 })].into();
                recording.recorded[0].end_ns = 9 * MS;
                let end = RecordedEnd { process: 1, bytes: 6, moved_ns: Some([9 * MS; 2]), ..RecordedEnd::default() };
                let (kind, writers) = (ChannelKind::Tcp, vec![end]);
                recording.channels[1] = RecordedChannel { kind, writers, ..RecordedChannel::default() };
                let waits = vec![waits_for(2, "nc", Some(1), 70), waits_for(70, "server", None, 2)];
                recording.last_look = Some(LastLook { waits, ..LastLook::default() });
                change(recording);
            })
        };
        let text = "`nc` had sent all of its input by 9.00 ms (6 bytes), but kept its side of the connection open, and `server` waited for more: both \
                    waited for each other (4.00 s in all). `nc` has to shut that down for writing when its input ends (`nc -N`, `ncat \
                    --send-only`, `socat`), or `server` must not wait for the end.";
        assert_eq!(open(&|_| {}), [text]);
        silent(
            &open,
            &[
                &|recording| recording.recorded[0].end_ns = WINDOW,
                &|recording| drop(recording.last_look.as_mut().unwrap().waits.pop()),
                &|recording| recording.recorded[1].waits.clear(),
                &|recording| {
                    let wait = &mut recording.last_look.as_mut().unwrap().waits[1];
                    let WaitedFor::Channels { limited, .. } = &mut wait.awaited else { panic!() };
                    *limited = false;
                },
                &|recording| recording.channels[0].writers[0].bytes = 2000,
            ],
        );
    }
}

//! Connections of TCP on this machine whose data nobody took, or to which nobody writes on.

use crate::record::say::findings::view::{FindingView, after};
use crate::report::number::time;
use crate::result::{ChannelKind, Finding, FindingKind, LastWait, NameUse, RecordedChannel, WaitReason, WaitedFor};
use crate::util::text::{counted, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// The port at the end that reads: bpf/record_channels.h, `PR_SOCKET_TCP`.
fn receiver(channel: &RecordedChannel) -> Option<u16> {
    (channel.kind == ChannelKind::Tcp).then_some((channel.inode >> 16) as u16)
}

/// Whether a process waited for an answer to this at the end, by a connection that nobody had accepted.
fn is_unaccepted(view: &FindingView<'_>, channel: &RecordedChannel) -> bool {
    let waits = view.document.last_look.iter().flat_map(|look| &look.waits);
    let mut unaccepted = waits.flat_map(LastWait::channels).filter(|of| of.unaccepted && of.kind == channel.kind);
    // The answer comes the other way.
    channel
        .ports()
        .is_some_and(|[from, to]| unaccepted.any(|of| [of.inode as u16, (of.inode >> 16) as u16] == [to, from]))
}

/// `` `server`, which listens at port 8080, read nothing of what came by 6 of 8 connections (54 bytes): it is lost. ``
pub(crate) fn unread(view: &FindingView<'_>) -> Vec<Finding> {
    /// Connections to a port.
    #[derive(Default)]
    struct Connections {
        all: u64,
        unread: Vec<usize>,
        bytes: u64,
    }
    let mut ports: BTreeMap<u16, Connections> = BTreeMap::new();
    for (at, channel) in view.document.channels.iter().enumerate().filter(|(_, channel)| channel.written() > 0) {
        let Some(port) = receiver(channel) else { continue };
        let port = ports.entry(port).or_default();
        port.all += 1;
        if channel.readers.is_empty() && channel.other_readers.is_empty() && !is_unaccepted(view, channel) {
            port.unread.push(at);
            port.bytes += channel.written();
        }
    }
    let found = ports.into_iter().filter_map(|(number, port)| {
        let name = format!("port {number}");
        let listens = view.document.named_files.iter().find(|file| {
            file.does == NameUse::Listens && file.error.is_none() && file.path == name
        })?;
        let process = view.document.recorded.get(listens.process)?;
        // That it reads some tells that its reads are seen.
        if port.unread.is_empty() || port.unread.len() as u64 == port.all || process.moves_unseen() {
            return None;
        }
        let text = format!(
            "{}, which listens at {name}, read nothing of what came by {} of {} ({}): it is lost when the connection is closed. It has to \
             read until the end of each before it closes it, also when the other side has closed already (EPOLLHUP, EPOLLRDHUP).",
            view.name(listens.process),
            grouped(port.unread.len() as u64),
            counted(port.all, "connection"),
            counted(port.bytes, "byte")
        );
        let finding = Finding::new(FindingKind::NeverRead, [listens.process], text);
        Some(Finding { channels: port.unread, bytes: Some(port.bytes), ..finding })
    });
    found.collect()
}

/// `` `server` closed 5 connections before it had read all that `client` sent (9,000 bytes unread): ... ``
///
/// The kernel answers with RST then, not FIN (RFC 2525, 2.17), and the other side loses what it had not read.
pub(crate) fn reset(view: &FindingView<'_>) -> Vec<Finding> {
    let ports = |channel: &RecordedChannel| [channel.inode as u16, (channel.inode >> 16) as u16];
    let tcp = || view.document.channels.iter().enumerate().filter(|(_, channel)| channel.kind == ChannelKind::Tcp);
    let mut of_ends: BTreeMap<[usize; 2], (Vec<usize>, u64, u64)> = BTreeMap::new();
    for (at, channel) in tcp() {
        let ([writer], [reader]) = (&channel.writers[..], &channel.readers[..]) else { continue };
        let unread = channel.written().saturating_sub(channel.read());
        // A signal makes a call fail, too.
        let is_ended = view.document.is_excerpt() || view.process(writer).is_none_or(|of| of.signal.is_some());
        if is_ended
            || writer.errors + writer.epipe == 0
            || unread == 0
            || reader.at_end > 0
            || reader.process == writer.process
        {
            continue;
        }
        let [from, to] = ports(channel);
        let answer = tcp().find(|(_, other)| ports(other) == [to, from]).map_or(0, |(_, other)| {
            let written = other.writers.iter().filter(|end| end.process == reader.process).map(|end| end.bytes).sum();
            u64::saturating_sub(written, other.read())
        });
        let known = of_ends.entry([reader.process, writer.process]).or_default();
        known.0.push(at);
        known.1 += unread;
        known.2 += answer;
    }
    let say = |([reader, writer], (channels, unread, lost)): ([usize; 2], (Vec<usize>, u64, u64))| {
        let (name, other) = (view.name(reader), view.name(writer));
        let loses = if lost > 0 {
            format!(", so that {other} could not read the {} that {name} had answered", counted(lost, "byte"))
        } else {
            String::new()
        };
        let text = format!(
            "{name} closed {} before it had read all that {other} sent ({} unread): the kernel resets such a connection (RST), and the \
             writes of {other} fail{loses}. {name} has to read until the end before it closes, or to shut down its own direction first \
             (`shutdown` with SHUT_WR) and then to read and discard.",
            counted(channels.len() as u64, "connection"),
            counted(unread, "byte")
        );
        let finding = Finding::new(FindingKind::NeverRead, [reader, writer], text);
        Finding { channels, bytes: Some(unread), ..finding }
    };
    of_ends.into_iter().map(say).collect()
}

/// The kernel sends the first packet of a connection again after so long, ns: `TCP_TIMEOUT_INIT` of include/net/tcp.h, less what a clock
/// rounds off; and then after twice as long, each time.
const AGAIN_NS: u64 = 950_000_000;

/// `` 4 of 8 connections to port 80 of `server` took 1 s or more, although both are on this machine: ... ``
pub(crate) fn dropped(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let listeners = document.named_files.iter().filter(|file| file.does == NameUse::Listens && file.error.is_none());
    let found = listeners.filter_map(|listens| {
        let port: u16 = listens.path.strip_prefix("port ")?.parse().ok()?;
        // What comes by a connection to it.
        let requests = document.channels.iter().filter(|channel| receiver(channel) == Some(port));
        let clients: BTreeSet<usize> = requests.flat_map(|channel| channel.writers.iter().map(|end| end.process)).collect();
        let slow = |at: &usize| {
            let wait = document.recorded.get(*at)?.waits.get(&WaitReason::Connect)?;
            (wait.ns >= AGAIN_NS * wait.count).then_some(wait)
        };
        let waits: Vec<_> = clients.iter().filter_map(slow).collect();
        let of = |at: &usize| document.recorded.get(*at).map_or(0, |process| process.connects);
        let all = clients.iter().map(of).sum::<u64>();
        let late: u64 = waits.iter().map(|wait| wait.count).sum();
        let longest = waits.iter().map(|wait| wait.ns / wait.count.max(1)).max()?;
        let name = view.name(listens.process);
        let text = format!(
            "{} of {} to port {port} of {name} took up to {}, although both are on this machine: its queue of connections was full, so the \
             kernel dropped their first packets (SYN) and sent them again after 1 s, 2 s more, 4 s more. {name} has to `listen` with a \
             larger backlog, or to accept sooner.",
            grouped(late),
            counted(all.max(late), "connection"),
            time(longest as f64 / 1e9)
        );
        let finding = Finding::new(FindingKind::Refused, clients.iter().copied().filter(|at| slow(at).is_some()), text);
        Some(Finding { count: Some(late), of: Some(all), ..finding })
    });
    found.take(1).collect()
}

/// Who sleeps for so much of the window for more waits for what does not come.
const WAITS: f64 = 0.5;

/// `` `server` could not send all to `client` at 0.64 s (EAGAIN), and waits only for input since: ... ``
pub(crate) fn not_resumed(view: &FindingView<'_>) -> Vec<Finding> {
    let Some(look) = view.document.last_look.as_ref().filter(|_| view.document.is_cut_off()) else { return Vec::new() };
    // The only thing that a thread of it waits for.
    let polls_for_input = |process: usize| {
        let mut own = look.waits.iter().filter(|wait| wait.process.recorded == Some(process));
        let [Some(wait), None] = [own.next(), own.next()] else { return false };
        matches!(&wait.awaited, WaitedFor::Channels { any, polled: true, .. } if any.iter().all(|channel| !channel.room))
    };
    let found = view.writers().filter_map(|(at, channel, end)| {
        (end.eagain > 0).then_some(())?;
        let waits = channel.readers.iter().find(|reader| reader.blocked_ns as f64 >= WAITS * view.window())?;
        let [_, last] = end.moved_ns?;
        // All that was sent has been read.
        let is_empty = channel.read() == channel.written();
        if !is_empty || last as f64 > (1.0 - WAITS) * view.window() || !polls_for_input(end.process) {
            return None;
        }
        let (name, reader, noun) = (view.name(end.process), view.name(waits.process), channel.kind.noun());
        let text = format!(
            "{name} could not write on to {reader} at {} (EAGAIN), after {}, and has not tried again: since then it polls only for input, and \
             {reader} waits for more, although there is room in the {noun}. It has to poll for room as well (EPOLLOUT, POLLOUT) until all is \
             written.",
            after(last),
            counted(end.bytes, "byte")
        );
        let finding = Finding::new(FindingKind::Unsent, [end.process, waits.process], text);
        Some(Finding { channels: vec![at], at_ns: Some(last), ..finding })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{AwaitedChannel, Document, LastLook, LastWait, NamedFile, SeenProcess, WaitTotal};

    fn connections(recording: &mut Document) {
        for (port, channel) in (1u64..).zip(&mut recording.channels) {
            (channel.kind, channel.inode) = (ChannelKind::Tcp, 8080 << 16 | port);
            channel.writers[0].bytes = 9;
        }
        recording.channels[1].readers.clear();
        let file =
            NamedFile { process: 1, path: "port 8080".to_owned(), does: NameUse::Listens, ..NamedFile::default() };
        recording.named_files = vec![file];
    }

    #[test]
    fn a_connection_that_nobody_reads_is_said() {
        let text = "`grep`, which listens at port 8080, read nothing of what came by 1 of 2 connections (9 bytes): it is lost when the \
                    connection is closed. It has to read until the end of each before it closes it, also when the other side has closed \
                    already (EPOLLHUP, EPOLLRDHUP).";
        assert_eq!(said(unread, &connections), [text]);
        let none = said(unread, &|recording| {
            connections(recording);
            recording.channels[0].readers.clear();
        });
        assert!(none.is_empty(), "its reads are not seen: {none:?}");
        let other = said(unread, &|recording| {
            connections(recording);
            recording.named_files[0].path = "port 80".to_owned();
        });
        assert!(other.is_empty(), "{other:?}");
    }

    #[test]
    fn connections_whose_first_packets_were_dropped_are_said() {
        let late = |change: &dyn Fn(&mut Document)| {
            said(dropped, &|recording| {
                connections(recording);
                let client = &mut recording.recorded[0];
                client.connects = 3;
                client.waits = [(WaitReason::Connect, WaitTotal { ns: 2_050_000_000, count: 2 })].into();
                change(recording);
            })
        };
        let text = "2 of 4 connections to port 8080 of `grep` took up to 1.02 s, although both are on this machine: its queue of connections \
                    was full, so the kernel dropped their first packets (SYN) and sent them again after 1 s, 2 s more, 4 s more. `grep` has \
                    to `listen` with a larger backlog, or to accept sooner.";
        let said = late(&|recording| recording.recorded[1].connects = 1);
        assert_eq!(said, [text]);
        silent(
            &late,
            &[
                &|recording| {
                    recording.recorded[0].waits = [(WaitReason::Connect, WaitTotal { ns: 90_000_000, count: 2 })].into()
                },
                &|recording| recording.channels.iter_mut().for_each(|channel| channel.kind = ChannelKind::UnixStream),
                &|recording| recording.named_files[0].path = "port 80".to_owned(),
            ],
        );
    }

    #[test]
    fn a_connection_that_is_closed_with_data_unread_is_said() {
        let resets = |change: &dyn Fn(&mut Document)| {
            said(reset, &|recording| {
                let [request, answer] = &mut recording.channels[..] else { panic!() };
                (request.kind, answer.kind) = (ChannelKind::Tcp, ChannelKind::Tcp);
                (request.inode, answer.inode) = (80 << 16 | 4000, 4000 << 16 | 80);
                (request.writers[0].bytes, request.writers[0].errors, request.readers[0].bytes) = (9000, 1, 512);
                answer.writers[0].bytes = 81;
                answer.readers.clear();
                change(recording);
            })
        };
        let text = "`grep` closed 1 connection before it had read all that `seq` sent (8,488 bytes unread): the kernel resets such a \
                    connection (RST), and the writes of `seq` fail, so that `seq` could not read the 81 bytes that `grep` had answered. `grep` \
                    has to read until the end before it closes, or to shut down its own direction first (`shutdown` with SHUT_WR) and then \
                    to read and discard.";
        assert_eq!(resets(&|_| {}), [text]);
        silent(
            &resets,
            &[
                &|recording| recording.channels[0].writers[0].errors = 0,
                &|recording| recording.channels[0].readers[0].bytes = 9000,
                &|recording| recording.channels[0].readers[0].at_end = 1,
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
                &|recording| recording.recorded[0].signal = Some(15),
                &|recording| recording.duration_ns = Some(WINDOW),
            ],
        );
    }

    #[test]
    fn a_writer_that_does_not_wait_for_room_is_said() {
        let found = |room: bool, read: u64| {
            said(not_resumed, &|recording| {
                recording.duration_ns = Some(WINDOW);
                let channel = &mut recording.channels[0];
                let end = &mut channel.writers[0];
                (end.bytes, end.eagain, end.moved_ns) = (500, 1, Some([0, 640_000_000]));
                let end = &mut channel.readers[0];
                (end.bytes, end.blocked_ns) = (read, WINDOW / 10 * 9);
                let (kind, inode, device) = (channel.kind, channel.inode, channel.device);
                let (fd, path, unaccepted, holders) = (5, None, false, Vec::new());
                let awaited = AwaitedChannel {
                    kind,
                    inode,
                    device,
                    path,
                    fd,
                    is_error: false,
                    hidden: false,
                    room,
                    unaccepted,
                    holders,
                };
                let awaited = WaitedFor::Channels { any: vec![awaited], others: 0, polled: true, limited: false };
                let process = SeenProcess { recorded: Some(0), ..SeenProcess::default() };
                let wait = LastWait { process, awaited, endless: false, stuck: false };
                recording.last_look = Some(LastLook { at_ns: WINDOW, waits: vec![wait], ..LastLook::default() });
            })
        };
        let text = "`seq` could not write on to `grep` at 0.64 s (EAGAIN), after 500 bytes, and has not tried again: since then it polls only \
                    for input, and `grep` waits for more, although there is room in the pipe. It has to poll for room as well (EPOLLOUT, \
                    POLLOUT) until all is written.";
        assert_eq!(found(false, 500), [text]);
        assert!(found(true, 500).is_empty() && found(false, 400).is_empty());
    }
}

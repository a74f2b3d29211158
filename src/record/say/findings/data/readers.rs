//! What is lost because a reader has ended, or gives too little room.

use crate::profile::few;
use crate::record::say::findings::ends::broken_pipe::SOON;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::at_once;
use crate::record::start::command_line::operands;
use crate::report::number::percent;
use crate::result::{ChannelKind, Finding, FindingKind, RecordedChannel, RecordedProcess};
use crate::util::text::{clean, counted, grouped};

/// Fewer are how a program that ignores SIGPIPE finds out, unless its reader failed.
const MANY: u64 = 3;

/// Of so many, it does not matter how the program ended.
const SURELY: u64 = 100;

/// Of the calls.
const SHARE: f64 = 0.1;

/// `` `bash` went on after `head` had ended at 10.2 ms: 399,574 of 400,000 writes failed with EPIPE. ``
pub(crate) fn broken(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.writers() {
        let (lost, all) = (end.epipe, end.all_calls());
        let Some(process) = view.process(end).filter(|_| lost > 0) else { continue };
        let name = view.name(end.process);
        let ended = view.readers_ended(pipe, process.end_ns);
        // Whoever the end of the recording ends writes to others that it has ended.
        let interrupted = |end: u64| view.document.ended_by_interruption(end);
        if ended.map_or_else(|| interrupted(process.end_ns), interrupted) {
            continue;
        }
        let readers = view.names(&pipe.readers);
        let of_reader = |of: fn(&RecordedProcess) -> Option<u32>| {
            pipe.readers.iter().filter_map(|end| view.process(end)).find_map(of)
        };
        let killed = of_reader(|process| process.signal).and_then(|signal| at_once(Some(signal)));
        let failed = of_reader(|process| process.exit_code.map(u32::from));
        // Whom SIGPIPE ended does not ignore it.
        let is_ended = process.signal == Some(libc::SIGPIPE.cast_unsigned());
        // Who ends soon, or with an error, has noticed it.
        let noticed =
            is_ended || process.exit_code.is_some() || ended.is_some_and(|ended| process.end_ns < ended + SOON);
        let many = lost >= MANY && (lost as f64) >= SHARE * all as f64 && (lost >= SURELY || !noticed);
        let left = end.bytes.saturating_sub(pipe.read());
        if !many && !pipe.kind.is_pipe() && !pipe.readers.is_empty() && left > 0 {
            // If the other side failed, another rule says why. A signal that ended it can be the one that ended the recording.
            if failed.is_some() || of_reader(|process| process.signal.or(process.got_signal)).is_some() {
                continue;
            }
            // Of a socket, the first one that the other side does not take succeeds.
            let text = format!(
                "{name} wrote {} to {} that nobody read, because the other side had closed it: only a later write fails (EPIPE). To \
                 look for the end of file before each write, or to wait for an answer, tells earlier.",
                counted(left, "byte"),
                view.pipe_to(pipe)
            );
            let finding = Finding::new(FindingKind::Broken, [end.process], text);
            found.push(Finding { channels: vec![at], bytes: Some(left), ..finding });
            continue;
        }
        if !many && (noticed || killed.is_none() && failed.is_none()) {
            continue;
        }
        let why = match ended {
            Some(ended) if !readers.is_empty() => {
                let how = match (killed, failed) {
                    (Some(signal), _) => format!("been killed by {signal}"),
                    (_, Some(code)) => format!("failed with exit code {code}"),
                    _ => "ended".to_owned(),
                };
                format!("after {readers} had {how} at {}", after(ended))
            }
            _ => format!("although nobody could read the {} any more", pipe.kind.noun()),
        };
        let remedy = match view.left_by(end.process, |process| process.ignores_sigpipe) {
            Some(by) => {
                let by = view.name(by);
                format!(
                    ", as {by} does, which it inherited: between `fork` and `exec`, {by} has to set that to its default (SIG_DFL)"
                )
            }
            None => ". It has to end at the first, or not to ignore that signal".to_owned(),
        };
        let text = format!(
            "{name} went on {why}: {} of {} writes failed with EPIPE, because it ignores SIGPIPE{remedy}.",
            grouped(lost),
            grouped(all)
        );
        let finding = Finding::new(FindingKind::Broken, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(lost), of: Some(all), at_ns: ended, ..finding });
    }
    found
}

/// `` `tee` was ended by SIGPIPE at 12.0 ms, because `head` did not read on: `all.txt` has only what was written until
/// then. `tee -p` writes on. ``
pub(crate) fn cut(view: &FindingView<'_>) -> Vec<Finding> {
    let is_cut =
        |process: &RecordedProcess| process.name == "tee" && process.signal == Some(libc::SIGPIPE.cast_unsigned());
    let all = view.document.recorded.iter().enumerate();
    let found = all.filter(|(_, process)| is_cut(process)).filter_map(|(at, process)| {
        // It writes to all in turn, so the one that broke has least; standard output is its first.
        let ends = || view.writers().filter(|(_, _, end)| end.process == at);
        let broken = ends().min_by_key(|(channel, _, end)| (end.bytes, process.output != Some(*channel)));
        let (channel, pipe, _) = broken?;
        let readers = view.names(&pipe.readers);
        let why = match readers.is_empty() {
            true if process.output != Some(channel) => "the program in `>(...)` did not read on".to_owned(),
            true => "nobody read on".to_owned(),
            false => format!("{readers} did not read on"),
        };
        let is_file = |word: &&String| !word.starts_with('-') && !word.starts_with("/dev/fd/");
        let files = operands(&process.args).iter().filter(is_file).map(|word| format!("`{}`", clean(word)));
        let others = ends().filter(|(other, pipe, _)| *other != channel && !pipe.readers.is_empty());
        let cut: Vec<String> = files.chain(others.map(|(_, pipe, _)| view.names(&pipe.readers))).collect();
        let have = if cut.len() == 1 { "has" } else { "have" };
        let is_known = !cut.is_empty();
        let text = format!(
            "{} was ended by SIGPIPE at {}, because {why}: {} {have} only what was written until then. `tee -p` writes on.",
            view.name(at),
            after(process.end_ns),
            few(cut)
        );
        let finding = Finding::new(FindingKind::Cut, [at], text);
        is_known.then(|| Finding { channels: vec![channel], at_ns: Some(process.end_ns), ..finding })
    });
    found.chain(by_node(view)).collect()
}

/// Fewer bytes are no reason to end a child: node took so many at most, in older releases.
const SMALLEST_MAXIMUM: u64 = 200 << 10;

/// A child that node ended, because it wrote more than node takes: `` `node a.js` ended `sh` with SIGTERM at 1.28 s, after
/// 206,329 bytes of its output: ... ``
fn by_node(view: &FindingView<'_>) -> Vec<Finding> {
    let all = &view.document.recorded;
    let of = |(at, process): (usize, &RecordedProcess)| {
        let sent = process.ended_by.filter(|by| *by != at && process.signal == Some(libc::SIGTERM.cast_unsigned()));
        let by = sent.filter(|by| all[*by].name == "node")?;
        let mut readers = view.document.channels.get(process.output?)?.readers.iter();
        let read = readers.find(|end| end.process == by && end.bytes >= SMALLEST_MAXIMUM)?;
        let text = format!(
            "{} ended {} with SIGTERM at {}, after {} of its output: the rest is lost. `exec` and its like do so if there is more than \
             `maxBuffer` (1 MiB unless it is set); `spawn` reads without a limit.",
            view.name(by),
            view.name(at),
            after(process.end_ns),
            counted(read.bytes, "byte")
        );
        let finding = Finding::new(FindingKind::Cut, [at, by], text);
        Some(Finding { bytes: Some(read.bytes), at_ns: Some(process.end_ns), ..finding })
    };
    all.iter().enumerate().filter_map(of).collect()
}

/// Fewer are no loss of a program that tries again.
const DATAGRAMS_SHARE: f64 = 0.1;
const DATAGRAMS_MANY: u64 = 10;

/// Fewer datagrams that fill a buffer can have its size by chance, and a smaller buffer is one for a part of a message.
const FILLED_MANY: u64 = 3;
const LEAST_BUFFER: u64 = 64;

/// `` `a` could not send 979 of 1,000 datagrams to `b` (98 %): the socket was full, and it does not wait (EAGAIN). ... ``
pub(crate) fn datagrams(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, channel, end) in view.writers().filter(|(_, channel, _)| channel.kind == ChannelKind::UnixDatagram) {
        let calls = end.all_calls();
        if end.eagain < DATAGRAMS_MANY || (end.eagain as f64) < DATAGRAMS_SHARE * calls as f64 {
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
    found.extend(view.document.recorded.iter().enumerate().filter_map(|(at, process)| {
        let (lost, all) = (process.unsendable, process.sends);
        let text = format!(
            "{} could not send {} of {} messages ({}) to sockets that it is not connected to: there was no room, and it does not wait \
             (EAGAIN). What is not sent again is lost. net.unix.max_dgram_qlen is how many wait there; without MSG_DONTWAIT and \
             O_NONBLOCK, it waits for room.",
            view.name(at),
            grouped(lost),
            grouped(all),
            percent(lost as f64 / all.max(1) as f64)
        );
        let is_much = lost >= DATAGRAMS_MANY && lost as f64 >= DATAGRAMS_SHARE * all as f64;
        is_much.then(|| Finding { count: Some(lost), of: Some(all), ..Finding::new(FindingKind::Datagrams, [at], text) })
    }));
    let each = || view.document.recorded.iter().enumerate();
    found.extend(each().filter_map(|(at, process)| filled(view, at, process)));
    found.extend(each().filter_map(|(at, process)| dropped(view, at, process)));
    found
        .extend(view.document.channels.iter().enumerate().filter_map(|(at, channel)| datagrams_cut(view, at, channel)));
    found
}

/// `` 2,606 datagrams for `recv.py` were dropped, because its receive buffer was full when they came: ... ``
fn dropped(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let (lost, got) = (process.dropped_datagrams, process.received);
    // A socket that is older than the recording has drops from before.
    if !view.document.target.pids().is_empty() {
        return None;
    }
    let text = format!(
        "{} for {} were dropped, because its receive buffer was full when they came; it got {}. The sender is not told. A larger buffer \
         (SO_RCVBUF up to net.core.rmem_max), a thread that only reads, or a sender that waits for answers, loses none.",
        counted(lost, "datagram"),
        view.name(at),
        grouped(got)
    );
    let finding = Finding::new(FindingKind::Datagrams, [at], text);
    (lost > 0 && got > 0).then_some(Finding { count: Some(lost), of: Some(lost + got), ..finding })
}

/// `` 50 of the 200 datagrams that `b` received filled its buffer of 2,048 bytes: ... ``
///
/// Where all do, they may have one size; of those that differ, a few have just this one by chance at most.
fn filled(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let (count, all) = (process.filling, process.received);
    if count < FILLED_MANY || count == all || process.filling_bytes < LEAST_BUFFER {
        return None;
    }
    let text = format!(
        "{} of the {} that {} received filled its buffer of {}: the kernel cuts what is longer, and the rest is lost. A larger buffer \
         (65,535 bytes hold each) takes all; `recv` with MSG_TRUNC says how much there was.",
        grouped(count),
        counted(all, "datagram"),
        view.name(at),
        counted(process.filling_bytes, "byte")
    );
    Some(Finding { count: Some(count), of: Some(all), ..Finding::new(FindingKind::Datagrams, [at], text) })
}

/// `` `b` received 50 datagrams with a buffer of 1,024 bytes: of each, the rest was lost. ``
fn datagrams_cut(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
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
    if !is_datagram
        || !fills
        || received < DATAGRAMS_MANY
        || sent < received
        || smallest <= buffer
        || view.document.skipped > 0
    {
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
    use crate::result::MeasuredTarget;

    fn writes(recording: &mut Document, lost: u64, all: u64) {
        let end = &mut recording.channels[0].writers[0];
        (end.epipe, end.calls) = (lost, [("write".to_owned(), all)].into());
        recording.recorded[1].end_ns = 10_200_000;
    }

    #[test]
    fn most_writes_after_the_end_of_the_reader_are_said() {
        let text = "`seq` went on after `grep` had ended at 10.2 ms: 399,574 of 400,000 writes failed with EPIPE, because it \
                    ignores SIGPIPE. It has to end at the first, or not to ignore that signal.";
        assert_eq!(said(broken, &|recording| writes(recording, 399_574, 400_000)), [text]);
        let closed = said(broken, &|recording| {
            writes(recording, 500, 1000);
            recording.recorded[1].end_ns = u64::MAX;
        });
        let ended = said(broken, &|recording| {
            writes(recording, 1, 1);
            recording.recorded[0].signal = Some(libc::SIGPIPE.cast_unsigned());
            recording.recorded[1].exit_code = Some(1);
        });
        assert!(ended.is_empty(), "{ended:?}");
        assert!(
            closed[0].starts_with("`seq` went on although nobody could read the pipe any more: 500 of"),
            "{closed:?}"
        );
    }

    #[test]
    fn who_left_sigpipe_ignored_is_said() {
        let inherits = |own: u64, executed: u64| {
            said(broken, &|recording| {
                writes(recording, 399_574, 400_000);
                recording.recorded[0].started_by = Some(2);
                (recording.recorded[0].execs, recording.recorded[0].ignores_sigpipe) = (1, own);
                recording.recorded[2].execs = executed;
            })
        };
        let text = "because it ignores SIGPIPE, as `cat` does, which it inherited: between `fork` and `exec`, `cat` has to set that to its \
                    default (SIG_DFL).";
        assert!(inherits(1, 1)[0].ends_with(text), "{:?}", inherits(1, 1));
        assert!(inherits(0, 1)[0].ends_with("or not to ignore that signal."));
        assert!(inherits(1, 0)[0].ends_with("or not to ignore that signal."), "nobody is known");
    }

    #[test]
    fn datagrams_that_a_full_buffer_dropped_are_said() {
        let dropped = |lost: u64, attached: bool| {
            said(datagrams, &|recording| {
                (recording.recorded[1].dropped_datagrams, recording.recorded[1].received) = (lost, 558);
                if attached {
                    recording.target = MeasuredTarget::Attached { pids: vec![1], group: None };
                }
            })
        };
        let text = "2,442 datagrams for `grep` were dropped, because its receive buffer was full when they came; it got 558. The sender is not \
                    told. A larger buffer (SO_RCVBUF up to net.core.rmem_max), a thread that only reads, or a sender that waits for answers, \
                    loses none.";
        assert_eq!(dropped(2442, false), [text]);
        assert!(dropped(0, false).is_empty() && dropped(2442, true).is_empty(), "some may be older than the recording");
    }

    #[test]
    fn datagrams_that_fill_the_buffer_are_said() {
        let filled = |filling: u64, received: u64, bytes: u64| {
            said(datagrams, &|recording| {
                let process = &mut recording.recorded[1];
                (process.filling, process.received, process.filling_bytes) = (filling, received, bytes);
            })
        };
        let text = "50 of the 200 datagrams that `grep` received filled its buffer of 2,048 bytes: the kernel cuts what is longer, and the \
                    rest is lost. A larger buffer (65,535 bytes hold each) takes all; `recv` with MSG_TRUNC says how much there was.";
        assert_eq!(filled(50, 200, 2048), [text]);
        assert!(filled(200, 200, 2048).is_empty(), "all have one size");
        assert!(filled(2, 200, 2048).is_empty() && filled(50, 200, 8).is_empty());
    }

    #[test]
    fn messages_to_full_sockets_without_a_connection_are_said() {
        let lost = |lost: u64| {
            said(datagrams, &|recording| (recording.recorded[0].sends, recording.recorded[0].unsendable) = (5600, lost))
        };
        let text = "`seq` could not send 1,075 of 5,600 messages (19 %) to sockets that it is not connected to: there was no room, and it \
                    does not wait (EAGAIN). What is not sent again is lost. net.unix.max_dgram_qlen is how many wait there; without \
                    MSG_DONTWAIT and O_NONBLOCK, it waits for room.";
        assert_eq!(lost(1075), [text]);
        assert!(lost(9).is_empty());
    }

    #[test]
    fn the_one_write_that_tells_a_program_is_not_said() {
        assert!(said(broken, &|recording| writes(recording, 1, 2)).is_empty());
        assert!(said(broken, &|recording| writes(recording, 100, 2000)).is_empty());
        let ended = said(broken, &|recording| {
            writes(recording, 4, 8);
            recording.recorded[0].end_ns = 30_000_000;
        });
        assert!(ended.is_empty(), "{ended:?}");
    }

    #[test]
    fn a_few_writes_after_the_reader_had_failed_are_said() {
        let failed = |change: &dyn Fn(&mut RecordedProcess)| {
            said(broken, &|recording| {
                writes(recording, 1, 200);
                change(&mut recording.recorded[1]);
            })
        };
        let killed = failed(&|reader| reader.signal = Some(libc::SIGKILL.cast_unsigned()));
        assert!(
            killed[0].starts_with("`seq` went on after `grep` had been killed by SIGKILL at 10.2 ms: 1 of 200 writes"),
            "{killed:?}"
        );
        assert!(failed(&|reader| reader.exit_code = Some(2))[0].contains("`grep` had failed with exit code 2 at"));
        assert!(failed(&|_| {}).is_empty());
        let socket = said(broken, &|recording| {
            writes(recording, 1, 3);
            recording.channels[0].kind = ChannelKind::Tcp;
            recording.channels[0].readers[0].bytes = 990;
        });
        assert!(
            socket[0].starts_with("`seq` wrote 10 bytes to the TCP connection to `grep` that nobody"),
            "{socket:?}"
        );
    }

    fn tee(recording: &mut Document, line: &str, signal: i32) {
        let process = &mut recording.recorded[1];
        process.name = "tee".to_owned();
        process.args = line.split_whitespace().map(str::to_owned).collect();
        (process.signal, process.end_ns) = (Some(signal.cast_unsigned()), 12_000_000);
    }

    #[test]
    fn a_file_that_is_cut_is_said() {
        let text = "`tee` was ended by SIGPIPE at 12.0 ms, because `cat` did not read on: `all.txt` has only what was written \
                    until then. `tee -p` writes on.";
        assert_eq!(said(cut, &|recording| tee(recording, "tee all.txt", libc::SIGPIPE)), [text]);
        assert!(said(cut, &|recording| tee(recording, "tee", libc::SIGPIPE)).is_empty(), "no file");
        let other = said(cut, &|recording| {
            tee(recording, "tee /dev/fd/63", libc::SIGPIPE);
            recording.recorded[1].output = Some(1);
            let mut fork = recording.channels[1].clone();
            (fork.inode, fork.writers[0].bytes) = (77, 0);
            fork.readers.clear();
            recording.channels.push(fork);
        });
        let text = "`tee` was ended by SIGPIPE at 12.0 ms, because the program in `>(...)` did not read on: `cat` has only what was \
                    written until then. `tee -p` writes on.";
        assert_eq!(other, [text]);
        assert!(said(cut, &|recording| tee(recording, "tee all.txt", libc::SIGTERM)).is_empty());
    }

    #[test]
    fn a_child_that_wrote_too_much_for_node_is_said() {
        let ended = |name: &str, bytes: u64| {
            said(cut, &|recording| {
                name.clone_into(&mut recording.recorded[1].name);
                let child = &mut recording.recorded[0];
                (child.signal, child.ended_by, child.output) = (Some(libc::SIGTERM.cast_unsigned()), Some(1), Some(0));
                child.end_ns = 1_280_000_000;
                recording.channels[0].readers[0].bytes = bytes;
            })
        };
        let text = "`node` ended `seq` with SIGTERM at 1.28 s, after 206,329 bytes of its output: the rest is lost.";
        assert!(ended("node", 206_329)[0].starts_with(text));
        assert!(ended("timeout", 206_329).is_empty() && ended("node", 0).is_empty());
    }

    fn sends(recording: &mut Document, kind: ChannelKind, calls: u64, eagain: u64) {
        let channel = &mut recording.channels[0];
        channel.kind = kind;
        let end = &mut channel.writers[0];
        (end.calls, end.eagain) = ([("sendto".to_owned(), calls)].into(), eagain);
    }

    #[test]
    fn datagrams_that_did_not_fit_are_said() {
        let received = |buffer: u64, read: u64, bucket: usize| {
            said(datagrams, &|recording| {
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
        assert_eq!(said(datagrams, &|recording| sends(recording, ChannelKind::UnixDatagram, 1000, 979)), [text]);
        for (kind, calls, eagain) in [
            (ChannelKind::Pipe, 1000, 979),
            (ChannelKind::UnixDatagram, 1000, 9),
            (ChannelKind::UnixDatagram, 9000, 50),
        ] {
            assert!(said(datagrams, &|recording| sends(recording, kind, calls, eagain)).is_empty());
        }
    }
}

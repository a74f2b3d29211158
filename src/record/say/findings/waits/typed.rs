//! What waits for somebody to type at its terminal.

use crate::profile::{few, listed};
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{
    AwaitedChannel, ChannelKind, Document, Finding, FindingKind, LastWait, RecordedChannel, RecordedEnd,
    RecordedProcess, WaitReason, WaitedFor,
};
use crate::util::text::{clean, counted, grouped};

/// From this part of the window on, a process waits most of the time.
const LONG: f64 = 0.5;

/// `` `git` waits for something to be typed at its terminal, and nothing was: ... ``
pub(crate) fn typed(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let window = document.processes.window_ns;
    let waits = |end: &RecordedEnd| {
        let lasts = end.blocked_ns as f64 >= LONG * window as f64 && end.bytes == 0 && end.at_end == 0;
        // What ended by itself has gone on.
        let goes_on = |process: &RecordedProcess| process.signal.is_none() && process.end_ns < window;
        // A signal that a program handles ends its read as well.
        lasts && (end.errors > 0 || view.process(end).is_some_and(|process| !goes_on(process)))
    };
    let typed = view.readers().filter(|(_, channel, end)| channel.is_typed() && waits(end));
    let text = |(at, _, end): (usize, &RecordedChannel, &RecordedEnd)| {
        let text = format!("{} {}", view.name(end.process), what(view, at, end.process));
        Finding { channels: vec![at], ..Finding::new(FindingKind::Held, [end.process], text) }
    };
    let found: Vec<Finding> = typed.map(text).take(1).collect();
    if found.is_empty() { polled(view).into_iter().collect() } else { found }
}

/// Whether what a thread polls is its standard input, a terminal.
fn is_input(channel: &AwaitedChannel) -> bool {
    channel.kind == ChannelKind::Pty && channel.fd == 0 && !channel.room
}

/// Who waits in `poll` for its standard input, a terminal where nothing was typed, and all that it waits for.
pub(crate) fn polling_terminal<'a>(view: &FindingView<'a>) -> Option<(usize, &'a [AwaitedChannel])> {
    let document = view.document;
    document.last_look.iter().flat_map(|look| &look.waits).find_map(|wait| {
        let at = wait.process.recorded.filter(|at| view.is_one(*at))?;
        let WaitedFor::Channels { any, others, polled: true, limited } = &wait.awaited else { return None };
        // Who looks at nothing else shows a dialog there, and may look again after a time. The side of who shows it is no dialog.
        let dialog = || any.first().filter(|of| any.len() == 1 && *others == 0 && of.is_typed() && !of.room);
        let input = any.iter().find(|channel| is_input(channel) && !limited).or_else(dialog)?;
        let slept = document.recorded.get(at)?.waits.get(&WaitReason::Poll).map_or(0, |wait| wait.ns);
        let of_input =
            |channel: &&RecordedChannel| [channel.inode, channel.device.into()] == [input.inode, input.device.into()];
        let is_typed = document.channels.iter().filter(of_input).any(|channel| channel.read() > 0);
        (!is_typed && slept as f64 >= LONG * view.window()).then_some((at, &any[..]))
    })
}

/// `` `nc 127.0.0.1` waits in poll for its standard input, which is the terminal, or for ..., and nothing was typed ... ``
fn polled(view: &FindingView<'_>) -> Option<Finding> {
    let document = view.document;
    let (at, any) = polling_terminal(view)?;
    if !any.iter().any(is_input) {
        let waits = view.document.last_look.iter().flat_map(|look| &look.waits);
        let pids = &document.recorded.get(at)?.pids;
        let waits_for = |pid: u32| {
            let is_it = |channel: &AwaitedChannel| channel.holders.iter().any(|holder| holder.process.pid == pid);
            waits.clone().find(|wait| wait.process.pid != pid && wait.channels().iter().any(is_it))
        };
        let after_it = std::iter::successors(waits_for(*pids.last()?), |wait| waits_for(wait.process.pid)).take(CHAIN);
        let names: Vec<String> = after_it.filter_map(|wait| Some(view.name(wait.process.recorded?))).collect();
        let chain = match &names[..] {
            [] => String::new(),
            [one] => format!(" {one} waits for it."),
            [one, rest @ ..] => format!(" {one} waits for it, and {} for that.", listed(rest.iter().cloned())),
        };
        let is_gpg = document.recorded.get(at)?.name.starts_with(OF_GPG);
        let options = if is_gpg { " (for gpg, `--batch` and `--pinentry-mode loopback`)" } else { "" };
        let text = format!(
            "{} waits for something to be typed at its terminal, and nothing was.{chain} Where nobody types, an option has to give the answer, or \
             to have it fail instead{options}.",
            view.name(at)
        );
        return Some(Finding::new(FindingKind::Held, [at], text));
    }
    let known = |other: &AwaitedChannel| {
        let is_it = |channel: &&RecordedChannel| channel.inode == other.inode && channel.device == other.device;
        document.channels.iter().find(is_it)
    };
    let others = any.iter().filter(|channel| !is_input(channel) && !channel.room).filter_map(known);
    let others = few(others.map(|channel| view.pipe_from(channel)));
    let or = if others.is_empty() { String::new() } else { format!(", or for {others}") };
    let text = format!(
        "{} waits in poll for its standard input, which is the terminal{or}, and nothing was typed. `</dev/null` behind its command gives it \
         an input that ends.",
        view.name(at)
    );
    Some(Finding::new(FindingKind::Held, [at], text))
}

/// So many reads of a terminal were refused that who reads tries again at once.
const REFUSED: u64 = 1000;

/// `` `dcli` read its terminal 3,492,752 times from the background, and each was refused: ... ``
pub(crate) fn in_background(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.readers().filter_map(|(at, terminal, end)| {
        let all = end.all_calls();
        if !terminal.is_typed() || end.errors < REFUSED || 10 * end.errors < 9 * all || end.bytes > 0 {
            return None;
        }
        let text = format!(
            "{} read its terminal {} times, and each time was refused: it is in the background there, so that the kernel sends it SIGTTIN, which \
             it catches, and then tries again at once. `</dev/null` gives it no terminal to read; it has to stop there, or to read only in the \
             foreground (`tcgetpgrp`).",
            view.name(end.process),
            grouped(all)
        );
        let finding = Finding::new(FindingKind::Retries, [end.process], text);
        Some(Finding { channels: vec![at], count: Some(end.errors), of: Some(all), ..finding })
    });
    found.take(1).collect()
}

/// What asks for the passphrases of GnuPG.
const OF_GPG: &str = "pinentry";

/// More processes that wait for each other in turn are not named.
const CHAIN: usize = 3;

/// Who asks waits at once: so much of a wait can be that of an earlier one, ns.
const BEGIN_NS: u64 = 500_000_000;

/// What came before the terminal was changed so that it throws away what it has.
fn thrown_away(view: &FindingView<'_>, channel: usize) -> Option<String> {
    let terminal = view.document.channels.get(channel)?;
    let left = terminal.written().checked_sub(terminal.read()).filter(|left| *left > 0)?;
    let [writer] = &terminal.writers[..] else { return None };
    Some(format!(
        "waits for something to be typed at its terminal, although {} wrote {} there at {}: that never came. A change of the terminal with \
         TCSAFLUSH, as programs make it before they ask for a password, throws away what was typed before. It has to be sent after that, as when \
         the prompt is there and a little later.",
        view.name(writer.process),
        counted(left, "byte"),
        after(writer.moved_ns?[1])
    ))
}

fn what(view: &FindingView<'_>, channel: usize, process: usize) -> String {
    if let Some(text) = thrown_away(view, channel) {
        return text;
    }
    const ELSEWHERE: &str =
        "It has to be shown, or given by an option or a file; what asks at /dev/tty is seen in any case.";
    // What it wrote after the wait had ended asks for nothing.
    let waited =
        view.document.channels.get(channel).and_then(|of| of.readers.iter().find(|end| end.process == process));
    let ended = view.document.recorded.get(process).map_or(0, |of| of.end_ns.min(view.document.processes.window_ns));
    let until = ended.saturating_sub(waited.map_or(0, |end| end.blocked_ns)) + BEGIN_NS;
    let shown = view.writers().filter(|(_, to, end)| to.kind == ChannelKind::Pty && end.process == process);
    let shown =
        shown.filter_map(|(_, _, end)| end.moved_ns).map(|[first, last]| if last < until { last } else { first });
    let shown = shown.filter(|at| *at < until).max();
    let hidden = is_hidden(view.document, process);
    if let Some((last, bytes, place)) =
        asked(view, process).filter(|(last, ..)| *last < until && shown.is_none_or(|shown| shown < *last))
    {
        let what = if hidden {
            "waits for a password at the terminal (what is typed is not shown: ECHO is off), and nothing was typed."
        } else {
            "waits for something to be typed at its terminal, and nothing was."
        };
        return format!(
            "{what} What it wrote last, {} at {}, went to {place}: if that asks for something, nobody sees it. {ELSEWHERE}",
            counted(bytes, "byte"),
            after(last)
        );
    }
    let waits = view.document.last_look.iter().flat_map(|look| &look.waits);
    let mut awaited = waits.filter(|wait| wait.process.recorded == Some(process)).flat_map(LastWait::channels);
    let is_input = awaited.any(is_input)
        || view.document.recorded.get(process).is_some_and(|process| process.input == Some(channel));
    if hidden {
        "waits for a password at the terminal (what is typed is not shown: ECHO is off), and nothing was typed. An option or a setting \
         gives it one or has it fail instead (for ssh, `-o BatchMode=yes`; for git, GIT_TERMINAL_PROMPT=0; for sudo, `-n`)."
            .to_owned()
    } else if is_input && view.document.recorded.get(process).is_some_and(RecordedProcess::has_threads) {
        "waits in one of its threads for something to be typed at its standard input, which is the terminal, and nothing was. Such a read cannot \
         be cancelled: if the program is to end without it, it has to end at once (`exit`), or to poll before it reads."
            .to_owned()
    } else if is_input && shown.is_none() {
        "reads its standard input, which is the terminal, and nothing was typed there: it was given no file. `<FILE` behind its \
         command, a file as its argument, or a pipe gives it one."
            .to_owned()
    } else {
        "waits for something to be typed at its terminal, and nothing was: it asks there, as for a name or a password. An option or \
         a setting (for git, GIT_TERMINAL_PROMPT=0) has it fail instead, and `setsid` leaves it without a terminal."
            .to_owned()
    }
}

/// When a process wrote last to what is no terminal, how many bytes in all, and where that is.
fn asked(view: &FindingView<'_>, process: usize) -> Option<(u64, u64, String)> {
    let pipes = view.writers().filter(|(_, to, end)| to.kind != ChannelKind::Pty && end.process == process);
    let pipes = pipes.filter_map(|(_, to, end)| Some((end.moved_ns?[1], end.bytes, view.pipe_to(to))));
    let streams = view.document.streams.iter().filter(|stream| stream.process == process && stream.writes);
    let files = streams.map(|stream| (stream.moved_ns[1], stream.bytes, format!("the file `{}`", clean(&stream.file))));
    pipes.chain(files).max_by_key(|(last, ..)| *last)
}

/// Whether a process reads a terminal that does not show what is typed.
fn is_hidden(document: &Document, process: usize) -> bool {
    let waits = document.last_look.iter().flat_map(|look| &look.waits);
    let own = waits.filter(|wait| wait.process.recorded == Some(process));
    own.flat_map(LastWait::channels).any(|channel| channel.hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, WINDOW, said, silent};
    use crate::result::{ChannelHolder, LastLook, RecordedStream, SeenProcess, WaitTotal};

    fn asks(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(typed, &|recording| {
            (recording.channels[0].kind, recording.channels[0].inode) = (ChannelKind::Pty, 8);
            let end = &mut recording.channels[0].readers[0];
            (end.bytes, end.blocked_ns) = (0, WINDOW / 10 * 9);
            recording.channels[0].writers[0].bytes = 0;
            recording.recorded[1].signal = Some(15);
            // It has written nothing.
            (recording.channels[1].writers[0].moved_ns, recording.channels[1].writers[0].bytes) = (None, 0);
            change(recording);
        })
    }

    #[test]
    fn what_is_asked_at_a_terminal_is_said() {
        let said = asks(&|_| {});
        assert!(
            said[0].starts_with("`grep` waits for something to be typed at its terminal, and nothing was:"),
            "{said:?}"
        );
        let is_input = |shows: bool| {
            asks(&|recording| {
                recording.recorded[1].input = Some(0);
                recording.channels[1].kind = ChannelKind::Pty;
                recording.channels[1].writers[0].moved_ns = shows.then_some([0, MS]);
            })
        };
        assert!(
            is_input(false)[0].starts_with("`grep` reads its standard input, which is the terminal, and"),
            "{:?}",
            is_input(false)
        );
        assert!(is_input(true)[0].contains("it asks there"), "it showed a question");
        silent(
            &asks,
            &[
                &|recording| recording.channels[0].readers[0].bytes = 1,
                &|recording| recording.channels[0].readers[0].blocked_ns = WINDOW / 10,
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
                &|recording| recording.channels[0].inode = 7,
                &|recording| recording.recorded[1].signal = None,
            ],
        );
    }

    #[test]
    fn what_a_change_of_the_terminal_threw_away_is_said() {
        let thrown = asks(&|recording| {
            let end = &mut recording.channels[0].writers[0];
            (end.bytes, end.moved_ns) = (7, Some([0, 12 * MS]));
        });
        let text = "`grep` waits for something to be typed at its terminal, although `seq` wrote 7 bytes there at 12.0 ms: that never came.";
        assert!(thrown.len() == 1 && thrown[0].starts_with(text), "{thrown:?}");
    }

    #[test]
    fn reads_from_the_background_are_said() {
        let refused = |errors: u64| {
            said(in_background, &|recording| {
                (recording.channels[0].kind, recording.channels[0].inode) = (ChannelKind::Pty, 8);
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.errors, end.calls) = (0, errors, [("read".to_owned(), 5000)].into());
            })
        };
        let text = "`grep` read its terminal 5,000 times, and each time was refused: it is in the background there, ";
        assert!(refused(5000)[0].starts_with(text), "{:?}", refused(5000));
        assert!(refused(1).is_empty());
    }

    #[test]
    fn a_question_that_nobody_sees_is_said() {
        let secret = |recording: &mut Document| {
            let channel = AwaitedChannel { kind: ChannelKind::Pty, hidden: true, ..AwaitedChannel::default() };
            let process = SeenProcess { recorded: Some(1), ..SeenProcess::default() };
            let awaited = WaitedFor::Channels { any: vec![channel], others: 0, polled: false, limited: false };
            let wait = LastWait { process, awaited, endless: false, stuck: false };
            recording.last_look = Some(LastLook { waits: vec![wait], ..LastLook::default() });
        };
        let begin = "`grep` waits for a password at the terminal (what is typed is not shown: ECHO is off), and nothing was typed.";
        assert!(asks(&secret)[0].starts_with(&format!("{begin} An option or a setting gives it one")));
        let end = ": if that asks for something, nobody sees it. It has to be shown, or given by an option or a file; what asks at \
                   /dev/tty is seen in any case.";
        let piped = asks(&|recording| {
            secret(recording);
            let end = &mut recording.channels[1].writers[0];
            (end.moved_ns, end.bytes) = (Some([0, 55 * MS]), 36);
        });
        assert_eq!(piped, [format!("{begin} What it wrote last, 36 bytes at 55.0 ms, went to the pipe to `cat`{end}")]);
        let file = asks(&|recording| {
            let stream = RecordedStream { process: 1, writes: true, bytes: 9, ..RecordedStream::default() };
            recording.streams = vec![RecordedStream { file: "tree".to_owned(), moved_ns: [0, MS], ..stream }];
        });
        let begin = "`grep` waits for something to be typed at its terminal, and nothing was.";
        assert_eq!(file, [format!("{begin} What it wrote last, 9 bytes at 1.00 ms, went to the file `tree`{end}")]);
    }

    #[test]
    fn who_polls_its_terminal_is_said() {
        let polls = |change: &dyn Fn(&mut Document)| {
            asks(&|recording| {
                let awaited = |inode: u64, fd: u32| {
                    let kind = if fd == 0 { ChannelKind::Pty } else { ChannelKind::Tcp };
                    AwaitedChannel { kind, inode, fd, ..AwaitedChannel::default() }
                };
                let end = &mut recording.channels[0].readers[0];
                end.blocked_ns = 0;
                (recording.channels[1].kind, recording.channels[1].inode) = (ChannelKind::Tcp, 9);
                recording.channels[1].readers[0].process = 1;
                recording.recorded[1].waits = [(WaitReason::Poll, WaitTotal { ns: WINDOW, count: 1 })].into();
                let any = vec![awaited(8, 0), awaited(9, 3)];
                let awaited = WaitedFor::Channels { any, others: 0, polled: true, limited: false };
                let process = SeenProcess { pid: 2, recorded: Some(1), ..SeenProcess::default() };
                let wait = LastWait { process, awaited, endless: false, stuck: false };
                recording.last_look = Some(LastLook { waits: vec![wait], ..LastLook::default() });
                change(recording);
            })
        };
        let begin = "`grep` waits in poll for its standard input, which is the terminal";
        let text = format!(
            "{begin}, or for the TCP connection from `grep`, and nothing was typed. `</dev/null` behind its command gives it an input that ends."
        );
        assert_eq!(polls(&|_| {}), [text]);
        let dialog = polls(&|recording| {
            let look = recording.last_look.as_mut().unwrap();
            let channel = AwaitedChannel { kind: ChannelKind::Pty, inode: 8, fd: 5, ..AwaitedChannel::default() };
            look.waits[0].awaited = WaitedFor::Channels { any: vec![channel], others: 0, polled: true, limited: true };
            let holder = SeenProcess { pid: 2, ..SeenProcess::default() };
            let holders = vec![ChannelHolder { process: holder, fd: 1 }];
            let pipe = AwaitedChannel { inode: 9, fd: 3, holders, ..AwaitedChannel::default() };
            let awaited = WaitedFor::Channels { any: vec![pipe], others: 0, polled: false, limited: false };
            let process = SeenProcess { pid: 1, recorded: Some(0), ..SeenProcess::default() };
            look.waits.push(LastWait { process, awaited, endless: false, stuck: false });
        });
        let begin = "`grep` waits for something to be typed at its terminal, and nothing was. `seq` waits for it. Where nobody types,";
        assert!(dialog[0].starts_with(begin), "{dialog:?}");
        silent(
            &polls,
            &[
                &|recording| recording.channels[0].readers[0].bytes = 1,
                &|recording| recording.recorded[1].waits.clear(),
                &|recording| recording.last_look = None,
            ],
        );
    }
}

//! Why a program failed, as far as its calls, its input and what it had started tell.

use crate::record::say::findings::children::xargs;
use crate::record::say::findings::data::ignored;
use crate::record::say::findings::data::unread::short_input;
use crate::record::say::findings::ends::last_words;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{
    ChannelKind, HeldBy, NameError, NameUse, NamedFile, RecordedChannel, RecordedEnd, RecordedProcess, WaitReason,
};
use crate::util::text::{clean, counted, error_message, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// `` . `tool.py` set O_NONBLOCK on it, ... `` Who made a file not block for all that have it open. Without a full stop.
pub(crate) fn unready_by(view: &FindingView<'_>, at: usize) -> Option<String> {
    let by = view.document.recorded.get(at)?.unready_by?;
    // Who began later had it so from the begin.
    let ended = view.document.recorded.get(by)?.end_ns < view.document.recorded.get(at)?.begin_ns;
    let left = if ended { ", and ended without setting it back" } else { "" };
    Some(format!(
        ". {name} made it so for all that have inherited the same open file{left}. With an input or output of \
         its own (`</dev/null`, `| cat`), it changes only that",
        name = view.name(by)
    ))
}

/// Why a program failed, as far as errors of its calls tell: `: it could not write on (EPIPE), ...`.
pub(crate) fn why(view: &FindingView<'_>, at: usize) -> Option<String> {
    let process = view.document.recorded.get(at)?;
    // Who was to read had failed before.
    let failed = |(channel, pipe, end): (usize, &RecordedChannel, &RecordedEnd)| {
        let is_refused = end.process == at && end.epipe > 0 && pipe.readers.iter().all(|reader| reader.bytes == 0);
        let of =
            |of: &RecordedProcess| of.input == Some(channel) && of.exit_code.is_some() && of.end_ns <= process.end_ns;
        is_refused.then(|| view.document.recorded.iter().position(of))?
    };
    if let Some((reader, of)) =
        view.writers().find_map(failed).and_then(|of| Some((of, view.document.recorded.get(of)?)))
    {
        return Some(format!(
            ": it could not write to {} (EPIPE), which had failed with exit code {} at {}, before it read anything",
            view.name(reader),
            of.exit_code.unwrap_or_default(),
            after(of.end_ns)
        ));
    }
    let unread = |(_, pipe, end): &(usize, &RecordedChannel, &RecordedEnd)| {
        end.process == at && end.epipe > 0 && !pipe.readers.is_empty()
    };
    if let Some((_, pipe, _)) = view.writers().find(unread) {
        let readers = view.names(&pipe.readers);
        return Some(format!(
            ": it could not write on (EPIPE), because {readers} did not read on, and it ignores SIGPIPE"
        ));
    }
    let nobody = |(_, pipe, end): (usize, &RecordedChannel, &RecordedEnd)| {
        end.process == at && end.epipe > 0 && pipe.kind.is_pipe() && pipe.other_readers.is_empty()
    };
    if view.writers().any(nobody) {
        return Some(
            ": it could not write to a pipe (EPIPE), because who was to read that had ended, and it ignores SIGPIPE, which ends others without \
             an error"
                .to_owned(),
        );
    }
    // Who waits with `poll` reads until there is nothing, too.
    let is_last = process.words.as_ref().is_some_and(|words| AGAIN.iter().any(|said| words.begin.contains(said)));
    let too_early = |(channel, _, end): (usize, &RecordedChannel, &RecordedEnd)| {
        let is_input = end.process == at && Some(channel) == process.input && end.eagain > 0;
        is_input && (is_last || end.eagain == end.all_calls())
    };
    if view.readers().any(too_early) {
        let by = unready_by(view, at);
        let own = if process.name == "node" {
            ". node makes its own so: `fs.readFileSync(0)` then fails, and events of `process.stdin` do not"
        } else {
            ""
        };
        let by = by.unwrap_or_else(|| own.to_owned());
        return Some(format!(
            ": its standard input does not block (O_NONBLOCK), and it read before there was data (EAGAIN){by}"
        ));
    }
    if let Some(text) = xargs::failed(view, at, process) {
        return Some(text);
    }
    let eio = |(_, channel, end): &(usize, &RecordedChannel, &RecordedEnd)| {
        end.process == at && end.errors > 0 && channel.kind == ChannelKind::Pty
    };
    if let Some((_, channel, _)) = view.readers().find(eio) {
        let was_stopped = |held: &BTreeSet<HeldBy>| held.contains(&HeldBy::BackgroundRead);
        if process.held_by.get(&WaitReason::Stopped).is_some_and(was_stopped) {
            return Some(format!(
                ": it read {} as a background job, which stopped it (SIGTTIN), and the read failed (EIO) when the shell that could bring it to \
                 the foreground had ended. `</dev/null` (for ssh, `-n`) gives a background job no terminal to read",
                if channel.is_typed() { "its terminal".to_owned() } else { view.pipe_from(channel) }
            ));
        }
        return Some(format!(
            ": its read of {} failed (EIO), as it does on Linux when nobody has its other side open any more. That is the end of file of a \
             pseudo-terminal, and no error",
            view.pipe_from(channel)
        ));
    }
    let of_input = got_nothing(view, at, process).or_else(|| left_alone(view, at, process));
    if let Some(text) = of_input.or_else(|| got_several(view, at)).or_else(|| short_input(view, at)) {
        return Some(text);
    }
    let by_name = || was_there(view, at, process).or_else(|| left_name(view, at, process));
    if let Some(text) = part_as_all(view, at, process).or_else(|| too_long(view, at, process)).or_else(by_name) {
        return Some(text);
    }
    if let Some(text) = denied(view, at, process.end_ns).or_else(|| no_room(process)) {
        return Some(text);
    }
    // Its reads of what it had closed failed.
    if let Some(bytes) =
        ignored::find(view).into_iter().find(|found| found.processes.first() == Some(&at)).and_then(|found| found.bytes)
    {
        return Some(format!(
            ": it never read the {} that its child had written to a pipe, and closed that, as Go's `Wait` does: it has to read before",
            counted(bytes, "byte")
        ));
    }
    let refused = process.connects > 0 && process.connects == process.refused_connects;
    refused.then(|| {
        ": its connections were refused (ECONNREFUSED): nobody listens there, not yet or not any more".to_owned()
    })
}

/// Calls that send.
const SENDS: [&str; 3] = ["sendmsg", "sendto", "sendmmsg"];

/// The last call of it that failed was to send something, and found no room.
fn no_room(process: &RecordedProcess) -> Option<String> {
    let (call, error) = process.failure.as_ref()?;
    (SENDS.contains(&call.as_str()) && *error == libc::EAGAIN).then(|| {
        format!(
            ": its `{call}` found no room in the queue of the receiver and does not wait (EAGAIN, of a socket with O_NONBLOCK). A socket of Unix \
             datagrams has room for 10 messages (net.unix.max_dgram_qlen). It has to wait until there is room (`poll` for POLLOUT), and to send \
             that again"
        )
    })
}

/// What programs write of EAGAIN.
const AGAIN: [&str; 2] = ["EAGAIN", "temporarily unavailable"];

/// Who fails because another one has failed does so soon, ns.
const SOON_NS: u64 = 300_000_000;

/// `: `node server.mjs`, whose output it read, had failed with exit code 1 at 2.26 s`: who got the end of what one wrote that had failed
/// just before.
fn left_alone(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    let inputs = view.readers().filter(|(_, channel, end)| end.process == at && end.at_end > 0 && channel.is_stream());
    let failed = inputs.filter_map(|(number, channel, _)| {
        // Who failed at once wrote nothing.
        let had_it = || view.document.recorded.iter().position(|of| of.output == Some(number) && of.execs > 0);
        let of = match &channel.writers[..] {
            [end] => end.process,
            [] => had_it()?,
            _ => return None,
        };
        let writer = view.document.recorded.get(of).filter(|_| of != at && view.is_one(of))?;
        let before = writer.end_ns <= process.end_ns && process.end_ns - writer.end_ns < SOON_NS;
        let code = writer.exit_code.filter(|_| before && !writer.is_shell() && writer.errors > 0)?;
        Some((of, writer, code, channel.writers.is_empty()))
    });
    let (first, writer, code, wrote_nothing) = failed.min_by_key(|(_, writer, ..)| writer.end_ns)?;
    let said =
        last_words::wrote(view, first).map_or_else(String::new, |said| format!(".{}", said.trim_end_matches('.')));
    Some(format!(
        ": {}, whose output it {}, had failed first, with exit code {code} at {} and a message on its standard error{said}",
        view.name(first),
        if wrote_nothing { "was to read" } else { "read" },
        after(writer.end_ns)
    ))
}

/// `: it got nothing from `curl`, which ended without an error at 8.95 ms`: an empty input.
fn got_nothing(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    // A copy of it may read for it, as of `tar`. What a shell reads itself may well be empty.
    let is_copy = |of: usize| {
        let copy = view.document.recorded.get(of);
        let is_its = copy.is_some_and(|copy| copy.execs == 0 && copy.name == process.name);
        is_its && view.with_starters(of).any(|above| above == at)
    };
    let own = |of: usize| (of == at || is_copy(of)) && !process.is_shell();
    let empty = |end: &RecordedEnd| end.bytes == 0 && end.at_end > 0 && own(end.process);
    let inputs = view.readers().filter(|(_, channel, end)| empty(end) && channel.is_stream() && channel.written() == 0);
    let all = &view.document.recorded;
    let writer = |(input, ..): (usize, &RecordedChannel, &RecordedEnd)| {
        let writes = |of: &RecordedProcess| of.output == Some(input) && of.execs > 0 && of.end_ns <= process.end_ns;
        all.iter().rposition(writes).filter(|of| view.is_one(*of) && view.with_starters(*of).all(|above| above != at))
    };
    let writer = inputs.filter_map(writer).next()?;
    let well = all.get(writer).filter(|of| of.exit_code.is_none() && of.signal.is_none())?;
    // What it was to write may be in what comes before it, or at the other side of its connection.
    let hint = match well.program() {
        "curl" => {
            ": what a server answers can be empty, as a redirection is, which `-L` follows, and `-f` makes an error of the server one of `curl`"
        }
        _ => "",
    };
    Some(format!(
        ": it got nothing from {}, which wrote nothing and ended without an error at {}{hint}",
        view.name(writer),
        after(well.end_ns)
    ))
}

/// What joins the output of what it starts.
const JOINS: &str = "parallel";

/// `: `parallel` gave it the output of 3 `bwa` as one, one after the other: ...`
fn got_several(view: &FindingView<'_>, at: usize) -> Option<String> {
    let inputs = view.readers().filter(|(_, channel, end)| end.process == at && channel.kind.is_pipe());
    let mut joined = inputs.filter_map(|(_, channel, _)| match &channel.writers[..] {
        [end] if view.is_one(end.process) => view.process(end).filter(|of| of.name == JOINS).map(|_| end.process),
        _ => None,
    });
    let joins = joined.next()?;
    // It starts others for itself, which do nothing.
    let mut runs: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for of in view.document.recorded.iter().filter(|of| of.started_by == Some(joins) && of.execs > 0) {
        let (cpu_ns, count) = runs.entry(of.program()).or_default();
        (*cpu_ns, *count) = (*cpu_ns + of.cpu_ns, *count + of.execs);
    }
    let (program, (_, count)) = runs.into_iter().max_by_key(|(_, work)| *work).filter(|(_, (_, count))| *count > 1)?;
    let joins = view.name(joins);
    Some(format!(
        ": {joins} gave it the output of {count} `{}` as one, one after the other (a reader for each belongs to the command of {joins}, in quotes: \
         `'command | reader'`)",
        clean(program)
    ))
}

/// Who fails because of a call that was refused does so soon after it, ns.
const DENIED_NS: u64 = 500_000_000;

/// `: its `rename` of `openwb.conf` was refused with "Device or resource busy"; something is mounted there ...`, of a process that ended at
/// `end`, ns.
pub(crate) fn denied(view: &FindingView<'_>, at: usize, end: u64) -> Option<String> {
    let refusal = view.document.recorded.get(at)?.refusal.as_ref()?;
    let just_before = |then: u64| then <= end && end < then + DENIED_NS;
    // Of several in a row, the last one's is known, and where each was refused.
    let is_it =
        |file: &&NamedFile| file.process == at && file.error == Some(NameError::Denied) && just_before(file.at_ns[1]);
    let file = view.document.named_files.iter().rfind(is_it);
    if file.is_none() && !just_before(refusal.at_ns) {
        return None;
    }
    let of = file.map_or_else(String::new, |file| format!(" of `{}`", clean(&file.path)));
    let hint = match (refusal.call.as_str(), refusal.error) {
        ("rename" | "renameat" | "renameat2", libc::EBUSY) => {
            " (something is mounted there, such as a single file of a container: `cat new > file` writes it, but it cannot be replaced)"
        }
        (_, libc::ETXTBSY) => {
            " (a process executes that file: `mv` and `install` give its name to another one, which does not disturb it)"
        }
        ("execve" | "execveat", libc::ENOEXEC) => {
            " (the file is no program of this machine, and has no `#!` line that the kernel takes, of at most 255 bytes)"
        }
        ("execve" | "execveat", libc::E2BIG) => {
            " (the command line is too long, as with a pattern that many files match, or its environment is: `xargs` divides it)"
        }
        (_, libc::EROFS) => " (the file system can only be read)",
        (_, libc::EACCES | libc::EPERM) => " (its user may not do that)",
        (_, libc::ENAMETOOLONG) => " (a name has at most 255 bytes, and a path 4,095)",
        _ => "",
    };
    Some(format!(": its `{}`{of} was refused with \"{}\"{hint}", refusal.call, error_message(refusal.error)))
}

/// What one read gives at most, or reads ask for: bytes.
const BLOCKS: [u64; 6] = [4096, 8192, 16_384, 32_768, 65_536, 131_072];

/// `: its message names byte 65,536, at which the first read of the pipe from `npm` ended ...`: who took a part of a message for all, and
/// could not read it.
fn part_as_all(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    let words = process.words.as_ref()?;
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    };
    let named = [numbers(&words.begin), numbers(&words.last)].concat();
    let (_, pipe, block) = view.readers().find_map(|(channel, pipe, end)| {
        // Of a message that is larger than the block, which it has read at least.
        let is_part = |block: &u64| named.contains(block) && end.bytes >= *block && pipe.written() > *block;
        let block = BLOCKS.into_iter().find(is_part).filter(|_| end.process == at && pipe.is_stream())?;
        Some((channel, pipe, block))
    })?;
    Some(format!(
        ": its message names byte {}, which is where a read of {} ends, and that had written {}. One read is a part of a message: it has to read \
         until the end, and to take all of it together",
        grouped(block),
        view.pipe_from(pipe),
        counted(pipe.written(), "byte")
    ))
}

/// The longest line that event loops and scanners take by default, bytes: asyncio/streams.py, `_DEFAULT_LIMIT`; bufio/scan.go,
/// `MaxScanTokenSize`.
const LONGEST_LINE: u64 = 65_536;

/// A program that cannot go on ends so soon after what it has read last, ns.
const AT_ONCE_NS: u64 = 100_000_000;

/// It failed right after it had read a message of more than 64 KiB, the first of its writer.
fn too_long(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    let large = |end: &RecordedEnd| {
        end.log2_sizes.iter().skip(LONGEST_LINE.ilog2() as usize).sum::<u64>() == 1
            && end.bytes > LONGEST_LINE
            && end.all_calls() > 1
    };
    let (_, pipe, end) = view.readers().find(|(_, pipe, end)| {
        let last = end.moved_ns.map_or(0, |[_, last]| last);
        let soon = last <= process.end_ns && process.end_ns < last + AT_ONCE_NS;
        end.process == at && end.at_end == 0 && soon && matches!(&pipe.writers[..], [writer] if large(writer))
    })?;
    let (read, written) = (end.bytes, pipe.writers.iter().map(|writer| writer.requested).sum::<u64>());
    if read < written {
        return Some(format!(
            ": right before, it had read {} of {} that {} wrote, a part of the first message of more than 64 KiB. Such a message comes in parts, \
             and who takes one for all fails; it has to read until it has the end of the message (`readline` of asyncio and `bufio.Scanner` of Go \
             do so up to 64 KiB, unless `limit` or `Buffer` is larger)",
            grouped(read),
            counted(written, "byte"),
            view.names(&pipe.writers)
        ));
    }
    Some(format!(
        ": right before, it had read the first message of more than 64 KiB from {}, and `readline` of asyncio (unless `limit` is larger) and \
         `bufio.Scanner` of Go (unless its `Buffer` is) take no line that is longer",
        view.names(&pipe.writers)
    ))
}

/// It failed right after it could not create a file that was there before the recording.
fn was_there(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    process.failure.as_ref().filter(|(_, error)| *error == libc::EEXIST)?;
    let named = &view.document.named_files;
    let last = |file: &&NamedFile| {
        file.process == at && file.error == Some(NameError::Exists) && file.at_ns[1] + AT_ONCE_NS > process.end_ns
    };
    let file = named.iter().filter(last).max_by_key(|file| file.at_ns[1])?;
    let made = |other: &NamedFile| other.path == file.path && other.error.is_none() && other.does > NameUse::Reads;
    let from = if named.iter().any(made) { "" } else { ", as from an earlier run" };
    Some(format!(": it could not create `{}`, which was there already (EEXIST){from}", clean(&file.path)))
}

/// It failed after it could not bind a socket to a path that another one had left.
fn left_name(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    let named = &view.document.named_files;
    let failed = |file: &&NamedFile| {
        file.process == at && file.error == Some(NameError::InUse) && !file.path.starts_with("port ")
    };
    let file = named.iter().find(failed).filter(|_| process.exit_code.is_some())?;
    let bound = |other: &&NamedFile| {
        let before = other.ended_ns.is_some_and(|ended| ended < file.at_ns[0]);
        other.path == file.path && other.does == NameUse::Binds && other.error.is_none() && before
    };
    let by = named.iter().rfind(bound)?;
    Some(format!(
        ": it could not bind `{}` (EADDRINUSE), which {} had left when it ended: nobody listens there. A server removes the file at its end, \
         or before it binds (`unlink`)",
        clean(&file.path),
        view.name(by.process)
    ))
}

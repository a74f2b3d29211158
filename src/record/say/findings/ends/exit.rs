//! Which process the exit code comes from, if a shell only passes it on.

use crate::record::say::findings::data::ignored;
use crate::record::say::findings::data::unread::short_input;
use crate::record::say::findings::ends::answers::is_answer;
use crate::record::say::findings::ends::broken_pipe::{BROKEN_PIPE, broken};
use crate::record::say::findings::ends::exit_of::{of_ended_child, of_recipe, recipe};
use crate::record::say::findings::ends::last_words;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::TIMEOUT;
use crate::record::say::programs::meaning;
use crate::result::{
    ChannelKind, Finding, FindingKind, HeldBy, NameError, NameUse, NamedFile, RecordedChannel, RecordedEnd,
    RecordedProcess, WaitReason,
};
use crate::util::text::{clean, counted, error_message, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// `` Exit code 141: `printf` was ended by SIGPIPE at 12.0 ms, because `grep` had ended. `` or `` Exit code 2 is that of `ls`,
/// which ended at 0.30 s. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let recording = view.document;
    let code = recording.exit_codes.last().copied().filter(|code| *code > 0 && !recording.was_limited());
    let Some(code) = code else { return Vec::new() };
    let kind = if code == BROKEN_PIPE { FindingKind::Sigpipe } else { FindingKind::ExitCode };
    let found = if kind == FindingKind::Sigpipe {
        let signal = Some(libc::SIGPIPE.cast_unsigned());
        view.last_ended(|process| process.signal == signal)
            .and_then(|(at, process)| Some((at, process, format!("{}.", broken(view, at, process)?))))
    } else {
        // What a signal ended passes on nothing.
        let is_killed = |at: usize| recording.recorded.get(at).is_some_and(|of| of.signal.is_some() && view.is_one(at));
        let is_lost =
            |process: &RecordedProcess| process.started_by.is_some_and(|by| view.with_starters(by).any(is_killed));
        // A copy of a shell only passes it on, too.
        let has_it = |process: &RecordedProcess| process.exit_code == Some(code) && process.execs > 0;
        view.last_ended(|process| has_it(process) && !is_lost(process)).map(|(at, process)| {
            let own = |of: usize| why(view, of).or_else(|| recipe(view, of));
            let inner = own(at).is_none().then(|| innermost(view, at, code)).flatten();
            // A shell only passes it on.
            let (of, program) = inner.filter(|(_, inner)| inner.execs > 0).unwrap_or((at, process));
            let part = || inner.filter(|(_, inner)| inner.execs == 0).map(|(part, _)| of_part(view, part));
            let reason = own(of).or_else(part);
            // What says no reason names the shell.
            let is_named = of == at || reason.is_none();
            let place = if is_named { String::new() } else { format!(" in {}", view.name(at)) };
            let why = reason.or_else(|| unwanted(view, of, program, code)).unwrap_or_default();
            let (name, ended) = (view.name(of), answer(program, code).ended());
            let end = after(program.end_ns);
            let text = match went_on(view, at, process) {
                Some(shell) => {
                    format!(
                        " is that of {name}{ended} at {end}{place}{why}. {shell} went on after that, and ended with the same exit code."
                    )
                }
                None => format!(" is that of {name}{ended} at {end}{place}{why}."),
            };
            (of, program, text)
        })
    };
    let in_shell = found.as_ref().is_none_or(|(_, process, _)| SHELLS.contains(&process.name.as_str()));
    if kind == FindingKind::ExitCode
        && in_shell
        && let Some(inverted) = inverted(view, code)
    {
        return vec![inverted];
    }
    // A program whose time was over says nothing of itself: what it waited for comes first.
    let is_over = found.as_ref().is_some_and(|(_, process, _)| process.name == TIMEOUT);
    let kind = if is_over { FindingKind::Tolerated } else { kind };
    let finding = |(at, process, text): (usize, &RecordedProcess, String)| Finding {
        count: Some(u64::from(code)),
        at_ns: Some(process.end_ns),
        ..Finding::new(kind, [at], format!("Exit code {code}{text}"))
    };
    let itself = || {
        view.outermost().and_then(|at| {
            let of_child = of_ended_child(view, at, code).or_else(|| of_recipe(view, at, code));
            of_child.or_else(|| itself(view, at, code))
        })
    };
    found.map(finding).or_else(itself).into_iter().collect()
}

/// The shell that started a process, if it has started programs afterwards which did not fail: its exit code is then what it had
/// kept of that one, as before a `trap`, or it decided so itself.
fn went_on(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    let by = process.started_by?;
    let shell = view.document.recorded.get(by).filter(|shell| shell.is_shell() && shell.execs > 0)?;
    let is_later = |(of, other): (usize, &RecordedProcess)| {
        let well = other.exit_code.is_none() && other.signal.is_none() && other.execs > 0 && view.is_one(of);
        of != at
            && other.started_by == Some(by)
            && well
            && other.begin_ns > process.end_ns
            && other.end_ns <= shell.end_ns
    };
    view.document.recorded.iter().enumerate().any(is_later).then(|| view.name(by))
}

/// If a script ended with a code that none of its programs had.
fn itself(view: &FindingView<'_>, at: usize, code: u8) -> Option<Finding> {
    let is_it = |process: &&RecordedProcess| {
        process.is_shell() && process.execs > 0 && process.exit_code == Some(code) && code < OF_SIGNALS
    };
    let shell = view.document.recorded.get(at).filter(is_it)?;
    // In a part of it, the same could be said of that.
    let is_other = |(of, process): (usize, &RecordedProcess)| of != at && process.exit_code == Some(code);
    if view.document.recorded.iter().enumerate().any(is_other) || !view.is_one(at) {
        return None;
    }
    // What it ended with on purpose comes behind the time.
    let (kind, why) = if shell.errors > 0 {
        let why = "It wrote an error message itself: an unset variable (`set -u`), a redirection or a syntax error ends it so, also in a \
                   `trap`";
        (FindingKind::ExitCode, why)
    } else {
        (FindingKind::Tolerated, "`exit`, a test or another builtin command ended it so")
    };
    let name = view.name(at);
    let text = format!("Exit code {code} is that of {name} itself: no program that it started ended with it. {why}.");
    Some(Finding { count: Some(code.into()), ..Finding::new(kind, [at], text) })
}

/// Exit codes from here on are of signals (128 and the number), or of a program that is not there.
const OF_SIGNALS: u8 = 126;

/// The exit code of a command after which `xargs` starts no other one.
const STOPS_XARGS: u8 = 255;

/// Shells that know `pipefail`.
const SHELLS: [&str; 5] = ["bash", "zsh", "ksh", "mksh", "sh"];

/// Programs that end once they have found something, and options with which they do.
const FINDERS: [&str; 3] = ["grep", "egrep", "fgrep"];
const AT_FIRST: [&str; 5] = ["-q", "-m", "--quiet", "--silent", "--max-count"];

/// If SIGPIPE ended who wrote to a program that had found what it sought: with `pipefail`, that is a failure.
fn inverted(view: &FindingView<'_>, code: u8) -> Option<Finding> {
    let signal = Some(libc::SIGPIPE.cast_unsigned());
    let (at, pipe, end) = view.writers().find(|(_, pipe, end)| {
        let found = |end: &RecordedEnd| {
            view.process(end).is_some_and(|process| {
                let options = process.args.iter().skip(1);
                let at_first = |word: &String| {
                    let short = word.starts_with('-') && !word.starts_with("--") && word.contains(['q', 'm']);
                    short || AT_FIRST.iter().any(|option| word.starts_with(option))
                };
                FINDERS.contains(&process.name.as_str())
                    && process.pids.len() == 1
                    && process.exit_code.is_none()
                    && options.into_iter().any(at_first)
            })
        };
        let writer = view.process(end);
        writer.is_some_and(|process| process.signal == signal && process.pids.len() == 1)
            && matches!(&pipe.readers[..], [reader] if found(reader))
    })?;
    let process = view.process(end)?;
    let reader = view.names(&pipe.readers);
    let text = format!(
        "Exit code {code}, and {reader} found what it sought and ended: {} was ended by SIGPIPE at {}, which is a failure with \
         `set -o pipefail`. `grep pattern <<<\"$(command)\"`, or `grep pattern >/dev/null`, which reads all, does not \
         fail.",
        view.name(end.process),
        after(process.end_ns)
    );
    let finding = Finding::new(FindingKind::Sigpipe, [end.process], text);
    Some(Finding { channels: vec![at], count: Some(u64::from(code)), at_ns: Some(process.end_ns), ..finding })
}

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
    // The row of the command can be one of others, too; that of the copy of `xargs` before is not.
    let is_child = |of: &RecordedProcess| of.started_by == Some(at);
    let copies: Vec<u32> =
        view.document.recorded.iter().filter(|of| is_child(of)).flat_map(|of| of.pids.clone()).collect();
    let stopped = |of: &&RecordedProcess| {
        of.exit_code == Some(STOPS_XARGS) && (is_child(of) || of.pids.iter().any(|pid| copies.contains(pid)))
    };
    if let Some(child) = view.document.recorded.iter().find(stopped).filter(|_| process.name == "xargs") {
        let text = format!(": `{}` ended with exit code {STOPS_XARGS}, at which it leaves out the rest", child.name);
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
    if let Some(text) =
        left_alone(view, at, process).or_else(|| got_several(view, at)).or_else(|| short_input(view, at))
    {
        return Some(text);
    }
    let by_name = || was_there(view, at, process).or_else(|| left_name(view, at, process));
    if let Some(text) = too_long(view, at, process).or_else(by_name) {
        return Some(text);
    }
    if let Some(text) = denied(view, at, process.end_ns) {
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
            " (the command line, or its environment, is too long: `xargs` divides it)"
        }
        (_, libc::EROFS) => " (the file system can only be read)",
        (_, libc::EACCES | libc::EPERM) => " (its user may not do that)",
        (_, libc::ENAMETOOLONG) => " (a name has at most 255 bytes, and a path 4,095)",
        _ => "",
    };
    Some(format!(": its `{}`{of} was refused with \"{}\"{hint}", refusal.call, error_message(refusal.error)))
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

/// What ended in a shell with the code that the shell ended with, the last of several: a program, or a part of the shell.
fn innermost<'a>(view: &FindingView<'a>, at: usize, code: u8) -> Option<(usize, &'a RecordedProcess)> {
    let all = &view.document.recorded;
    let shell = all.get(at).filter(|shell| shell.is_shell())?;
    // As far as it is known who started whom.
    let starters = |of: usize| std::iter::successors(Some(of), |of| all.get(*of)?.started_by).skip(1).take(8);
    let last_of = |starter: usize| {
        let failed = all.iter().enumerate().filter(|(other, process)| {
            let is_part = process.execs == 0 && process.name == shell.name && process.pids.len() == 1;
            let failed = process.exit_code == Some(code) && process.end_ns <= shell.end_ns;
            failed && (process.execs > 0 || is_part) && starters(*other).any(|by| by == starter)
        });
        failed.max_by_key(|(_, process)| process.end_ns)
    };
    let mut found = last_of(at)?;
    // A part of a shell ends with the code of its last command, and a script of one that failed in it.
    while (found.1.execs == 0 || found.1.is_shell())
        && let Some(inner) = last_of(found.0)
    {
        found = inner;
    }
    Some(found)
}

/// `; the last that ended in it with this code was a part of it, ...`
fn of_part(view: &FindingView<'_>, part: usize) -> String {
    let all = &view.document.recorded;
    let empty = view.readers().find(|(_, _, end)| end.process == part && end.at_end > 0);
    let read = empty.map_or_else(String::new, |(channel, pipe, end)| {
        let has = |of: &&RecordedProcess| of.output == Some(channel);
        let writer = pipe.writers.is_empty().then(|| all.iter().position(|of| has(&of))).flatten();
        let pipe = writer.map_or_else(|| view.pipe_from(pipe), |by| format!("the pipe from {}", view.name(by)));
        let nothing = if end.bytes == 0 { ", in which there was nothing" } else { "" };
        format!(", which got the end of {pipe}{nothing}: `read` fails then, and `set -e` ends the script")
    });
    format!("; the last that ended in it with this code was a part of it, {}{read}", view.name(part))
}

/// What an exit code of a program means.
fn answer(process: &RecordedProcess, code: u8) -> ExitMeaning {
    match process.name.as_str() {
        "diff" | "cmp" if is_answer(process, code) => ExitMeaning::Found("differences"),
        "sort" | "awk" | "mawk" | "gawk" | "git" if is_answer(process, code) => ExitMeaning::Unknown,
        _ if is_answer(process, code) => ExitMeaning::Found("nothing"),
        name => meaning(name, code).map_or(ExitMeaning::Unknown, ExitMeaning::Meaning),
    }
}

/// What an exit code tells.
enum ExitMeaning {
    /// What was found, or that nothing was.
    Found(&'static str),
    Meaning(&'static str),
    Unknown,
}

impl ExitMeaning {
    /// `, which found nothing and ended`: the end of a program.
    fn ended(&self) -> String {
        match self {
            Self::Found(what) => format!(", which found {what} and ended"),
            Self::Meaning(meaning) => format!(" ({meaning}), which ended"),
            Self::Unknown => ", which ended".to_owned(),
        }
    }
}

/// A script ends so long after a command that ended it, at most, ns.
const AT_ONCE: u64 = 30_000_000;

/// Why a script may have ended with what one of its commands ended with, and how to avoid that.
fn unwanted(view: &FindingView<'_>, at: usize, process: &RecordedProcess, code: u8) -> Option<String> {
    let shell = process.started_by.and_then(|by| view.document.recorded.get(by));
    let pipe = process.output.and_then(|output| view.document.channels.get(output));
    // Not `$(...)`, which the shell reads itself.
    let reads_on = |end: &RecordedEnd| Some(end.process) != process.started_by && end.process != at;
    if let Some(pipe) = pipe.filter(|pipe| pipe.readers.iter().any(reads_on)) {
        return Some(format!(
            ", although its output went to {}: {} does that, and `|| true` behind it avoids it",
            view.pipe_to(pipe),
            view.pipefail(at)
        ));
    }
    let ended = shell.filter(|shell| {
        let is_its = shell.is_shell() && shell.execs > 0 && shell.exit_code == Some(code);
        let later = |of: &RecordedProcess| of.started_by == process.started_by && of.end_ns > process.end_ns;
        // A `trap`, or an `exit` with its code behind other commands.
        is_its && !view.document.recorded.iter().any(later) && shell.end_ns.saturating_sub(process.end_ns) < AT_ONCE
    });
    let (_, by) = ended.zip(process.started_by)?;
    // Whoever hides a failure does not know of it.
    let avoid = if matches!(answer(process, code), ExitMeaning::Found(_)) {
        ": `|| true` behind the command avoids that"
    } else {
        ""
    };
    Some(format!(
        "; {} ended with it: it was its last command, or the script ended there (`set -e`, `exit`){avoid}",
        view.name(by)
    ))
}

#[cfg(test)]
mod tests;

//! What ended by SIGPIPE, and why.

use crate::profile::listed;
use crate::record::say::findings::ends::last_words::wrote;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess};
use crate::util::text::clean;

/// What a shell makes of a child that SIGPIPE ended.
pub(crate) const BROKEN_PIPE: u8 = 128 + libc::SIGPIPE as u8;

/// The kernel closes the files of a process that ends so long before it is gone, at most, ns.
pub(crate) const SOON: u64 = 100_000_000;

/// Why SIGPIPE ended a process: `: `printf` was ended by SIGPIPE at 12.0 ms, because ...`, without a full stop.
pub(crate) fn broken(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    let own = || view.writers().filter(|(_, _, end)| end.process == at);
    // A process can write to several: where nobody read at all, who was to do so is asked for.
    let refused = own().find(|(_, _, end)| end.epipe > 0);
    let no_reader = refused.filter(|(_, pipe, _)| pipe.readers.is_empty()).map(|(output, ..)| output);
    let read = |(_, pipe, _): &(usize, &RecordedChannel, &RecordedEnd)| !pipe.readers.is_empty();
    let Some((_, pipe, _)) = refused.or_else(|| own().find(read)).filter(read) else {
        return no_reader.or(process.output).and_then(|output| unread(view, at, process, output));
    };
    let (pipe, between) = first_cut(view, pipe);
    let ended = view.readers_ended(pipe, process.end_ns + SOON).is_some();
    let all = &view.document.recorded;
    // Both are of one pipeline of a shell, which ends with what its first program did.
    let beside = pipe.readers.iter().filter_map(|end| view.process(end)).any(|of| of.started_by == process.started_by);
    let shell = process.started_by.and_then(|by| all.get(by)).filter(|shell| shell.is_shell() && beside);
    let only = match shell {
        Some(shell) if shell.exit_code == Some(BROKEN_PIPE) => {
            "no data is missing, only the exit code is in the way: `set -o pipefail` makes it that of the pipeline, and `set -e` ends the script \
             there, before what follows. A reader that reads to the end avoids it"
        }
        _ => "nothing is wrong: a reader that reads to the end avoids it",
    };
    Some(format!(
        ": {} was ended by SIGPIPE at {}{}, because {readers} had {}. If {readers} had all that it wanted, {only}",
        view.name(at),
        after(process.end_ns),
        if between.is_empty() { String::new() } else { format!(", as {} was", listed(between)) },
        if ended { "ended" } else { "closed the pipe" },
        readers = view.names(&pipe.readers)
    ))
}

/// The pipe whose reader went away first, of those behind `pipe`: who reads that can have been ended by SIGPIPE itself, as those
/// that are named.
fn first_cut<'a>(view: &FindingView<'a>, mut pipe: &'a RecordedChannel) -> (&'a RecordedChannel, Vec<String>) {
    let signal = Some(libc::SIGPIPE.cast_unsigned());
    let mut between = Vec::new();
    while let [reader] = &pipe.readers[..]
        && view.process(reader).is_some_and(|of| of.signal == signal)
        && between.len() < view.document.recorded.len()
    {
        let mut cut = view.writers().filter(|(_, _, end)| end.process == reader.process && end.epipe > 0);
        let Some((_, next, _)) = cut.find(|(_, next, _)| !next.readers.is_empty()) else { break };
        between.push(view.name(reader.process));
        pipe = next;
    }
    (pipe, between)
}

/// `` `a.sh` was ended by SIGPIPE at 4.05 s, when it wrote after `head` had ended: ... `` A script that does more than to write to that
/// pipe, whose exit code nobody gets.
pub(crate) fn cut_script(view: &FindingView<'_>) -> Vec<Finding> {
    let signal = Some(libc::SIGPIPE.cast_unsigned());
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let script = view.process(end).filter(|of| of.signal == signal && view.is_one(end.process))?;
        // Who writes elsewhere, too, does more than its reader wanted.
        let does_more = script.execs > 0 && script.effects > end.all_calls() - end.epipe;
        let ended = view.readers_ended(pipe, script.end_ns + SOON)?;
        if !script.is_shell() || !does_more || end.epipe == 0 || view.document.exit_codes.last() == Some(&BROKEN_PIPE) {
            return None;
        }
        let (name, readers) = (view.name(end.process), view.names(&pipe.readers));
        let text = format!(
            "{name} was ended by SIGPIPE at {}, when it wrote to the pipe after {readers} had ended (at {}): what comes later in it was not \
             done. If it is to go on, the reader has to read to the end (`{{ head; cat >/dev/null; }}`), or the script sets `trap '' PIPE` \
             and leaves the errors.",
            after(script.end_ns),
            after(ended)
        );
        let finding = Finding::new(FindingKind::Sigpipe, [end.process], text);
        Some(Finding { channels: vec![at], at_ns: Some(script.end_ns), ..finding })
    });
    found.collect()
}

/// `` `bash a.sh` was ended by SIGPIPE at 0.1 s, when it wrote to the pipe first: ... `` A part of a script in parentheses, or before a
/// pipe, whose reader has ended and read nothing.
pub(crate) fn cut_part(view: &FindingView<'_>) -> Vec<Finding> {
    let signal = Some(libc::SIGPIPE.cast_unsigned());
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let part = view.process(end).filter(|of| of.signal == signal && of.is_shell() && view.is_one(end.process))?;
        let is_first = end.bytes == 0 && end.epipe > 0 && pipe.read() == 0;
        // One without programs of its own may have had nothing more to do.
        if part.execs > 0 || part.forks == 0 || !is_first {
            return None;
        }
        let text = format!(
            "{} was ended by SIGPIPE at {}, at its first output: what was to read that had ended and read nothing. What comes later in this \
             part of the script (in `( )` or before `|`) was not done, and no exit code says so. The other side has to read to the end \
             (`cat >/dev/null`), or nothing may be written to it.",
            view.name(end.process),
            after(part.end_ns)
        );
        let finding = Finding::new(FindingKind::Sigpipe, [end.process], text);
        Some(Finding { channels: vec![at], at_ns: Some(part.end_ns), ..finding })
    });
    found.take(1).collect()
}

/// `` `gzip` was ended by SIGPIPE at 4.0 ms, when it wrote first: `bash`, which was to read that, had ended at 2.0 ms and read nothing. `bash`
/// wrote to its standard error: ... `` Nobody gets the exit code of a loop that ends so.
pub(crate) fn unread_by_failed(view: &FindingView<'_>) -> Vec<Finding> {
    let all = || view.document.recorded.iter().enumerate();
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let writer = view.process(end).filter(|of| of.signal == Some(libc::SIGPIPE.cast_unsigned()))?;
        let is_first = end.epipe > 0 && pipe.readers.is_empty() && pipe.other_readers.is_empty() && view.is_one(end.process);
        if !is_first || view.document.exit_codes.last() == Some(&BROKEN_PIPE) {
            return None;
        }
        // A part of a shell has no input of its own, as nothing that it executes.
        let was_to_read = |(_, of): &(usize, &RecordedProcess)| {
            let is_part = of.execs == 0 && of.is_shell() && of.input.is_none();
            of.started_by == writer.started_by && of.end_ns < writer.end_ns && (of.input == Some(at) || is_part)
        };
        let (reader, of) = all().filter(|(other, _)| *other != end.process).find(was_to_read)?;
        let text = format!(
            "{} was ended by SIGPIPE at {}, when it wrote first: {}, which was to read that, had ended at {} and read nothing.{}",
            view.name(end.process),
            after(writer.end_ns),
            view.name(reader),
            after(of.end_ns),
            wrote(view, reader)?
        );
        let finding = Finding::new(FindingKind::Sigpipe, [end.process, reader], text);
        Some(Finding { channels: vec![at], at_ns: Some(writer.end_ns), ..finding })
    });
    found.take(1).collect()
}

/// What the C library and shells say of EPIPE.
const SAID: &str = "roken pipe";

/// `` `bash drive.sh` wrote `printf: write error: Broken pipe` to its standard error, because `head` had ended: ... `` What ends others
/// without a word is an error where SIGPIPE is ignored.
pub(crate) fn noisy(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let process = view.process(end).filter(|of| of.signal.is_none() && of.errors > 0 && end.epipe > 0)?;
        let words = process.words.as_ref().filter(|words| words.last.contains(SAID) || words.begin.contains(SAID))?;
        // Who fails for it has a sentence of its own.
        let is_said = process.exit_code.is_some() && process.execs > 0;
        let by = view.left_by(end.process, |of| of.ignores_sigpipe).filter(|_| !is_said && pipe.kind.is_pipe())?;
        let readers = view.names(&pipe.readers);
        let line = if words.last.contains(SAID) { &words.last } else { &words.begin };
        let by = view.name(by);
        let text = format!(
            "{} wrote `{}` to its standard error, because {} did not read on. SIGPIPE, which ends others without a word, is ignored there, as in \
             {by}, from which it has that: {by} has to set it to its default (SIG_DFL) between `fork` and `exec`; a shell cannot.",
            view.name(end.process),
            clean(line),
            if readers.is_empty() { "who was to read".to_owned() } else { readers }
        );
        let finding = Finding::new(FindingKind::Sigpipe, [end.process], text);
        Some(Finding { channels: vec![at], count: Some(process.refused_writes), ..finding })
    });
    found.take(1).collect()
}

/// What [`broken`] says if nobody has read its standard output, because who was to do that had failed before.
fn unread(view: &FindingView<'_>, at: usize, process: &RecordedProcess, output: usize) -> Option<String> {
    let all = view.document.recorded.iter().enumerate();
    let failed = all.filter(|(_, of)| of.input == Some(output) && of.end_ns < process.end_ns);
    // A shell has its code from the program that it started.
    let (of, code) = failed
        .filter_map(|(of, reader)| Some((of, reader.exit_code?)))
        .min_by_key(|(of, _)| view.document.recorded[*of].is_shell())?;
    let (name, reader) = (view.name(at), view.name(of));
    Some(format!(
        ": {name} was ended by SIGPIPE at {}, because {reader}, which was to read that, had ended at {} with exit code {code} and read nothing",
        after(process.end_ns),
        after(view.document.recorded.get(of)?.end_ns)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, ProcessWords};

    #[test]
    fn a_reader_that_failed_at_once_is_said() {
        let cut = |change: &dyn Fn(&mut Document)| {
            said(unread_by_failed, &|recording| {
                recording.recorded[0].signal = Some(13);
                (recording.recorded[0].end_ns, recording.recorded[0].started_by) = (WINDOW / 2, Some(2));
                let part = &mut recording.recorded[1];
                (part.name, part.execs, part.end_ns, part.started_by) = ("bash".to_owned(), 0, WINDOW / 4, Some(2));
                let line = "bash: read: -N: invalid option".to_owned();
                part.words = Some(ProcessWords { begin: line.clone(), last: line, unfinished: false });
                recording.channels[0].readers.clear();
                recording.channels[0].writers[0].epipe = 1;
                change(recording);
            })
        };
        let text = "`seq` was ended by SIGPIPE at 2.00 s, when it wrote first: `bash`, which was to read that, had ended at 1.00 s and read \
                    nothing. `bash` wrote to its standard error: `bash: read: -N: invalid option`.";
        assert_eq!(cut(&|_| {}), [text]);
        silent(
            &cut,
            &[
                &|recording| recording.recorded[1].words = None,
                &|recording| recording.recorded[1].started_by = None,
                &|recording| recording.recorded[1].end_ns = WINDOW,
                &|recording| recording.recorded[0].signal = None,
                &|recording| recording.exit_codes = vec![141],
            ],
        );
    }

    #[test]
    fn a_message_of_who_inherited_an_ignored_sigpipe_is_said() {
        let noisy = |change: &dyn Fn(&mut Document)| {
            said(noisy, &|recording| {
                let [writer, _, starter] = &mut recording.recorded[..] else { panic!() };
                (writer.errors, writer.execs, writer.ignores_sigpipe, writer.started_by) = (3, 1, 1, Some(2));
                let line = "printf: write error: Broken pipe".to_owned();
                writer.words = Some(ProcessWords { begin: line.clone(), last: line, unfinished: false });
                starter.execs = 1;
                recording.channels[0].writers[0].epipe = 1;
                change(recording);
            })
        };
        let text = "`seq` wrote `printf: write error: Broken pipe` to its standard error, because `grep` did not read on. SIGPIPE, which ends others \
                    without a word, is ignored there, as in `cat`, from which it has that: `cat` has to set it to its default (SIG_DFL) between \
                    `fork` and `exec`; a shell cannot.";
        assert_eq!(noisy(&|_| {}), [text]);
        silent(
            &noisy,
            &[
                &|recording| recording.recorded[0].ignores_sigpipe = 0,
                &|recording| recording.recorded[0].words = None,
                &|recording| recording.recorded[0].exit_code = Some(1),
                &|recording| recording.channels[0].writers[0].epipe = 0,
            ],
        );
    }

    #[test]
    fn a_part_of_a_script_that_nobody_read_is_said() {
        let cut = |change: &dyn Fn(&mut Document)| {
            said(cut_part, &|recording| {
                let part = &mut recording.recorded[0];
                (part.name, part.signal, part.forks, part.execs, part.end_ns) =
                    ("bash".to_owned(), Some(13), 1, 0, WINDOW / 2);
                recording.channels[0].readers.clear();
                let end = &mut recording.channels[0].writers[0];
                (end.bytes, end.epipe) = (0, 1);
                change(recording);
            })
        };
        let start = "`bash` was ended by SIGPIPE at 2.00 s, at its first output: what was to read that had ended and read nothing.";
        let said = cut(&|_| {});
        assert!(said.len() == 1 && said[0].starts_with(start), "{said:?}");
        silent(
            &cut,
            &[
                &|recording| recording.recorded[0].forks = 0,
                &|recording| recording.recorded[0].execs = 1,
                &|recording| recording.recorded[0].signal = None,
                &|recording| recording.channels[0].writers[0].bytes = 4,
            ],
        );
    }

    #[test]
    fn a_script_that_does_more_than_to_write_is_said() {
        let cut = |change: &dyn Fn(&mut Document)| {
            said(cut_script, &|recording| {
                let script = &mut recording.recorded[0];
                (script.name, script.args) = ("a.sh".to_owned(), vec!["/bin/bash".to_owned(), "./a.sh".to_owned()]);
                (script.signal, script.execs, script.effects, script.end_ns) = (Some(13), 1, 4, WINDOW / 2);
                recording.recorded[1].end_ns = WINDOW / 4;
                let end = &mut recording.channels[0].writers[0];
                (end.calls, end.epipe) = ([("write".to_owned(), 4)].into(), 1);
                change(recording);
            })
        };
        let text = "`a.sh` was ended by SIGPIPE at 2.00 s, when it wrote to the pipe after `grep` had ended (at 1.00 s): what comes later in it \
                    was not done. If it is to go on, the reader has to read to the end (`{ head; cat >/dev/null; }`), or the script sets \
                    `trap '' PIPE` and leaves the errors.";
        assert_eq!(cut(&|_| {}), [text]);
        silent(
            &cut,
            &[
                &|recording| recording.recorded[0].effects = 3,
                &|recording| recording.recorded[0].signal = Some(15),
                &|recording| recording.recorded[0].execs = 0,
                &|recording| recording.recorded[0].args = vec!["yes".to_owned()],
                &|recording| recording.exit_codes = vec![141],
            ],
        );
    }
}

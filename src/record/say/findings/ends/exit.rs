//! Which process the exit code comes from, if a shell only passes it on.

use crate::record::say::findings::ends::answers::{ExitMeaning, answer};
use crate::record::say::findings::ends::broken_pipe::{BROKEN_PIPE, broken};
use crate::record::say::findings::ends::exit_of::{of_ended_child, of_recipe, recipe};
use crate::record::say::findings::ends::why::why;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::TIMEOUT;
use crate::result::{Finding, FindingKind, RecordedEnd, RecordedProcess};

/// `` Exit code 141: `printf` was ended by SIGPIPE at 12.0 ms, because `grep` had ended. `` or `` Exit code 2 is that of `ls`,
/// which ended at 0.30 s. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let recording = view.document;
    let code = recording.exit_codes.last().copied().filter(|code| *code > 0 && !recording.was_limited());
    let Some(code) = code else { return Vec::new() };
    if let Some(read) = of_read(view, code) {
        return vec![read];
    }
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
            let reason = own(of).or_else(part).or_else(|| builtin(view, of, program));
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

/// If the last thing that a script did was a `read` that got the end of an empty pipe, as with `lastpipe`.
fn of_read(view: &FindingView<'_>, code: u8) -> Option<Finding> {
    let all = &view.document.recorded;
    let found = view.readers().find_map(|(channel, _, end)| {
        // `read` reads byte by byte.
        let is_read = end.bytes == 0 && end.at_end == 1 && end.requested == 1;
        let shell = view.process(end).filter(|of| is_read && of.is_shell() && of.execs > 0)?;
        let writer = all.iter().rposition(|of| of.output == Some(channel) && of.execs > 0)?;
        let soon = all[writer].end_ns <= shell.end_ns && shell.end_ns - all[writer].end_ns < AT_ONCE;
        (soon && code == 1 && shell.exit_code == Some(code)).then_some((end.process, channel, writer))
    });
    let (at, channel, writer) = found?;
    let text = format!(
        "Exit code {code} is that of {} itself: its `read` got the end of the pipe from {}, in which there was nothing, and failed, at which \
         `set -e` ends a script. `|| true` behind `read` avoids that.",
        view.name(at),
        view.name(writer)
    );
    let finding = Finding::new(FindingKind::ExitCode, [at, writer], text);
    Some(Finding { channels: vec![channel], count: Some(u64::from(code)), ..finding })
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

/// `: no program that it started failed ...`, of a script that ends so itself, without a message.
fn builtin(view: &FindingView<'_>, at: usize, script: &RecordedProcess) -> Option<String> {
    let mut options = script.args.iter().skip(1).take_while(|word| word.starts_with('-'));
    let ends = options.any(|word| !word.starts_with("--") && word.contains('e'));
    let started = |of: &RecordedProcess| of.started_by == Some(at) && of.execs > 0;
    let ended_well = |of: &RecordedProcess| of.exit_code.is_none() && of.signal.is_none();
    let children = || view.document.recorded.iter().filter(|of| started(of));
    let silent = script.is_shell() && script.exit_code == Some(1) && script.errors == 0;
    let all_well = children().next().is_some() && children().all(ended_well);
    let how = if ends { "at which `-e` ends it" } else { "at which `set -e` ends a script, or `exit` did" };
    (silent && all_well).then(|| {
        format!(
            ": no program that it started failed, so that a builtin command did, {how} without a word: `((n++))` where `n` was 0, `let`, `[ ... ]` \
             or `read`. `|| true` behind that avoids it, and `bash -x` shows where"
        )
    })
}

/// Exit codes from here on are of signals (128 and the number), or of a program that is not there.
const OF_SIGNALS: u8 = 126;

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
                    && process.is_one()
                    && process.exit_code.is_none()
                    && options.into_iter().any(at_first)
            })
        };
        let writer = view.process(end);
        writer.is_some_and(|process| process.signal == signal && process.is_one())
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

/// What ended in a shell with the code that the shell ended with, the last of several: a program, or a part of the shell.
fn innermost<'a>(view: &FindingView<'a>, at: usize, code: u8) -> Option<(usize, &'a RecordedProcess)> {
    let all = &view.document.recorded;
    let shell = all.get(at).filter(|shell| shell.is_shell())?;
    // As far as it is known who started whom.
    let starters = |of: usize| std::iter::successors(Some(of), |of| all.get(*of)?.started_by).skip(1).take(8);
    let last_of = |starter: usize| {
        let failed = all.iter().enumerate().filter(|(other, process)| {
            let is_part = process.execs == 0 && process.name == shell.name && process.is_one();
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

/// A script ends so long after a command that ended it, at most, ns.
const AT_ONCE: u64 = 30_000_000;

/// Why a script may have ended with what one of its commands ended with, and how to avoid that.
fn unwanted(view: &FindingView<'_>, at: usize, process: &RecordedProcess, code: u8) -> Option<String> {
    let shell = process.started_by.and_then(|by| view.document.recorded.get(by));
    let pipe = process.output.and_then(|output| view.document.channels.get(output));
    // Not `$(...)`, which the shell reads itself.
    let reads_on = |end: &RecordedEnd| Some(end.process) != process.started_by && end.process != at;
    if let Some(pipe) = pipe.filter(|pipe| pipe.readers.iter().any(reads_on)) {
        // Whoever hides a failure does not know of it.
        let is_answer = matches!(answer(process, code), ExitMeaning::Found(_));
        let avoid = if is_answer { ", and `|| true` behind it avoids it" } else { "" };
        return Some(format!(
            ", although its output went to {}: {} does that{avoid}",
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

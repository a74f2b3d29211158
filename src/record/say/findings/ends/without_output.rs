//! Programs that failed before they wrote anything: who reads takes nothing for all.

use crate::record::say::findings::ends::answers::{Failed, TIMED_OUT, answers, fails, hiding_shell, is_quiet};
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::TIMEOUT;
use crate::record::say::programs::{Does, does};
use crate::result::{Finding, FindingKind, RecordedProcess};

/// What to do about the exit code of a process substitution.
pub(crate) const SUBSTITUTED: &str =
    "A shell does not get the exit code of `<(...)`: `wait $!` does, or a file instead.";

/// A program that wrote nothing itself: who reads its standard output takes that for all.
pub(crate) fn without_output(view: &FindingView<'_>, at: usize, process: &RecordedProcess, code: u8) -> Option<Failed> {
    let is_timeout = process.name == TIMEOUT && code == TIMED_OUT;
    let channel = process.output.filter(|_| !answers(view, at, process, code) && !is_timeout)?;
    let pipe = view.document.channels.get(channel).filter(|pipe| pipe.kind.is_pipe())?;
    let wrote = pipe.writers.iter().any(|end| end.process == at && end.bytes > 0);
    if wrote || process.execs == 0 || !view.is_one(at) || !pipe.other_readers.is_empty() {
        return None;
    }
    let reader = pipe.readers.iter().find(|end| end.at_end > 0 && end.process != at)?;
    let reading = view.process(reader)?;
    // What packs nothing, or keeps it in a file, wanted more than an answer.
    if !(fails(process, code) || pipe.read() == 0 && does(&reading.name, Does::Keeps)) {
        return None;
    }
    if is_quiet(view, at) && !does(&reading.name, Does::Keeps) {
        return None;
    }
    // A shell gets the exit code of `$(...)`, which it reads in blocks, but not that of `<(...)`.
    let by_bytes = reader.requested == reader.all_calls();
    if process.started_by.and_then(|starter| view.document.recorded.get(starter)?.exit_code) == Some(code) {
        return None;
    }
    let substituted = Some(reader.process) == process.started_by || reader.process == at;
    let beside = reading.started_by.is_some() && reading.started_by == process.started_by;
    let what = if substituted && reading.is_shell() && by_bytes {
        SUBSTITUTED.to_owned()
    } else if beside && reading.execs > 0 {
        format!("{} keeps it, where both are one pipeline.", view.pipefail(at))
    } else {
        return None;
    };
    let of_whom = match hiding_shell(view, process).filter(|_| view.document.exit_codes.last() != Some(&0)) {
        Some(shell) => format!("the exit code of {}", view.name(shell)),
        None => "the exit code".to_owned(),
    };
    // What it has started, such as its compressor, may have written.
    let others = view.names(pipe.writers.iter().filter(|end| end.bytes > 0));
    let only = if others.is_empty() { String::new() } else { format!(" but what {others} wrote") };
    let text = format!(
        "{} failed with exit code {code} at {} and wrote nothing{only} to {}, which took that for all: {of_whom} is 0. {what}",
        view.name(at),
        after(process.end_ns),
        view.pipe_to(pipe)
    );
    Some((FindingKind::HiddenFailure, Some(channel), text))
}

/// A part of a pipeline that a shell could not execute: who was to read it got nothing.
pub(crate) fn not_found(view: &FindingView<'_>, (at, shell): (usize, &RecordedProcess)) -> Option<Finding> {
    // It says so, unlike `command -v`.
    let code = shell.exit_code.filter(|_| shell.is_shell() && shell.effects > 0)?;
    let why = match code {
        126 => "could not be executed",
        127 => "was not found",
        _ => return None,
    };
    let (channel, _, reader) = view.readers().find(|(channel, pipe, end)| {
        let is_empty = end.bytes == 0 && end.at_end > 0 && pipe.writers.is_empty() && pipe.other_writers.is_empty();
        let reader = view.process(end).filter(|process| process.execs > 0 && process.started_by == Some(at));
        pipe.kind.is_pipe() && is_empty && reader.is_some_and(|process| process.input == Some(*channel))
    })?;
    let text = format!(
        "A part of {} ended with exit code {code}, as if a command {why}: {} got nothing from it, and the exit code is 0. {} \
         keeps it.",
        view.name(at),
        view.name(reader.process),
        view.pipefail(at)
    );
    let finding = Finding::new(FindingKind::HiddenFailure, [at, reader.process], text);
    Some(Finding { channels: vec![channel], count: Some(code.into()), ..finding })
}

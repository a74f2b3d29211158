//! Programs that failed in the middle of a pipeline whose exit code does not show it.

use crate::record::say::findings::answers::{fails, is_answer};
use crate::record::say::findings::exit::{BROKEN_PIPE, SOON};
use crate::record::say::findings::view::{FindingView, after};
use crate::record::start::command_line::is_shell;
use crate::result::{Finding, FindingKind, RecordedEnd, RecordedProcess};

/// `` `dump` failed with exit code 1 at 0.30 s, and the pipeline's exit code is 0: that of its last program. `set -o pipefail`
/// keeps it. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.exit_codes.last() != Some(&0) || document.is_excerpt() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, process) in document.recorded.iter().enumerate() {
        let Some(code) = process.exit_code.filter(|code| ![0, BROKEN_PIPE].contains(code)) else { continue };
        // The code of a part of a shell is that of its last command, which may be a test. People lose it to `tee`.
        let is_part = process.execs == 0;
        if is_answer(process, code) || is_part && !is_logged(view, at) || process.signal.is_some() {
            continue;
        }
        // A process that it has started, which had its row until it executed its own program.
        let started = |pid: &u32| {
            let is_other =
                |(other, of): (usize, &RecordedProcess)| (other != at && of.pids.contains(pid)).then_some(other);
            document.recorded.iter().enumerate().find_map(is_other)
        };
        let children: Vec<usize> = process.pids.iter().filter_map(started).collect();
        // Of several with one name, one may have written and another one failed.
        if process.pids.iter().filter(|pid| started(pid).is_none()).count() > 1 {
            continue;
        }
        let is_own = |of: &usize| *of == at || process.forks > 0 && children.contains(of);
        if children.iter().any(|of| is_answer(&document.recorded[*of], code)) {
            continue;
        }
        if is_passed_on(view, process, code) {
            continue;
        }
        let mut written = view.writers().filter(|(_, pipe, end)| {
            let reads_on = pipe.readers.iter().any(|reader| {
                let until = |other: &RecordedProcess| other.end_ns + SOON >= process.end_ns;
                let apart = view.process(reader).is_some_and(|other| other.started_by != Some(at) && until(other));
                !is_own(&reader.process) && apart
            });
            is_own(&end.process) && pipe.kind.is_pipe() && end.bytes > 0 && end.epipe == 0 && reads_on
        });
        let Some((channel, pipe, end)) = written.next() else { continue };
        let who = if end.process == at { "it".to_owned() } else { view.name(end.process) };
        let text = format!(
            "{} failed with exit code {code} at {}, after {who} had written to {}, and the pipeline's exit code is 0: that of \
             its last program. `set -o pipefail` keeps it.",
            view.name(at),
            after(process.end_ns),
            view.pipe_to(pipe)
        );
        let finding = Finding::new(FindingKind::HiddenFailure, [at], text);
        found.push(Finding {
            channels: vec![channel],
            count: Some(code.into()),
            at_ns: Some(process.end_ns),
            ..finding
        });
    }
    found.extend(document.recorded.iter().enumerate().filter_map(|of| without_output(view, of)));
    found.extend(document.recorded.iter().enumerate().filter_map(|of| not_found(view, of)));
    found
}

/// Whether who started a process gets its exit code: a program, or a shell that ends with it. In a pipeline, a shell has only
/// that of the last program.
fn is_passed_on(view: &FindingView<'_>, process: &RecordedProcess, code: u8) -> bool {
    let starter = process.started_by.and_then(|starter| view.document.recorded.get(starter));
    starter.is_some_and(|starter| !is_shell(&starter.name) || starter.exit_code == Some(code))
}

/// A program that failed and wrote nothing: who reads its standard output takes that for all.
fn without_output(view: &FindingView<'_>, (at, process): (usize, &RecordedProcess)) -> Option<Finding> {
    let code = process.exit_code.filter(|code| *code != BROKEN_PIPE && fails(process, *code))?;
    let channel = process.output?;
    let pipe = view.document.channels.get(channel).filter(|pipe| pipe.kind.is_pipe())?;
    let wrote = view.writers().any(|(_, _, end)| end.process == at && end.bytes > 0);
    if wrote
        || process.execs == 0
        || process.pids.len() != 1
        || process.signal.is_some()
        || !pipe.other_readers.is_empty()
    {
        return None;
    }
    let reader = pipe.readers.iter().find(|end| end.at_end > 0 && end.process != at)?;
    let reading = view.process(reader)?;
    // A shell gets the exit code of `$(...)`, which it reads in blocks, but not that of `<(...)`.
    let by_bytes = reader.requested == reader.all_calls();
    if process.started_by.and_then(|starter| view.document.recorded.get(starter)?.exit_code) == Some(code) {
        return None;
    }
    let substituted = Some(reader.process) == process.started_by || reader.process == at;
    let beside = reading.started_by.is_some() && reading.started_by == process.started_by;
    let what = if substituted && is_shell(&reading.name) && by_bytes {
        "A shell does not get the exit code of `<(...)`: `wait $!` does, or a file instead."
    } else if beside && reading.execs > 0 {
        "`set -o pipefail` keeps it, where both are one pipeline."
    } else {
        return None;
    };
    let text = format!(
        "{} failed with exit code {code} at {} and wrote nothing to {}, which took that for all: the exit code is 0. {what}",
        view.name(at),
        after(process.end_ns),
        view.pipe_to(pipe)
    );
    let finding = Finding::new(FindingKind::HiddenFailure, [at], text);
    Some(Finding { channels: vec![channel], count: Some(code.into()), at_ns: Some(process.end_ns), ..finding })
}

/// A part of a pipeline that a shell could not execute: who was to read it got nothing.
fn not_found(view: &FindingView<'_>, (at, shell): (usize, &RecordedProcess)) -> Option<Finding> {
    // It says so, unlike `command -v`.
    let code = shell.exit_code.filter(|_| is_shell(&shell.name) && shell.effects > 0)?;
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
        "A part of {} ended with exit code {code}, as if a command {why}: {} got nothing from it, and the exit code is 0. \
         `set -o pipefail` keeps it.",
        view.name(at),
        view.name(reader.process)
    );
    let finding = Finding::new(FindingKind::HiddenFailure, [at, reader.process], text);
    Some(Finding { channels: vec![channel], count: Some(code.into()), ..finding })
}

/// Whether all that a process wrote went to `tee`, which has its output in a file.
fn is_logged(view: &FindingView<'_>, at: usize) -> bool {
    let reads = |end: &RecordedEnd| view.process(end).is_some_and(|process| process.name == "tee");
    let mut own =
        view.writers().filter(|(_, pipe, end)| end.process == at && pipe.kind.is_pipe() && end.bytes > 0).peekable();
    own.peek().is_some() && own.all(|(_, pipe, _)| !pipe.readers.is_empty() && pipe.readers.iter().all(reads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn fails(recording: &mut Document, at: usize, code: u8) {
        recording.exit_codes = vec![0];
        let process = &mut recording.recorded[at];
        (process.exit_code, process.execs) = (Some(code), 1);
    }

    #[test]
    fn a_failure_that_no_exit_code_shows_is_said() {
        let text = "`seq` failed with exit code 2 at 4.00 s, after it had written to the pipe to `grep`, and the pipeline's exit \
                    code is 0: that of its last program. `set -o pipefail` keeps it.";
        assert_eq!(said(find, &|recording| fails(recording, 0, 2)), [text]);
    }

    #[test]
    fn a_failure_without_output_is_said() {
        let silent = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                fails(recording, 0, 128);
                recording.recorded[1].name = "bash".to_owned();
                (recording.recorded[0].output, recording.recorded[0].started_by) = (Some(0), Some(1));
                recording.channels[0].writers[0].bytes = 0;
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.at_end, end.calls) = (0, 1, [("read".to_owned(), 1)].into());
                end.requested = 1;
                change(recording);
            })
        };
        let text = "`seq` failed with exit code 128 at 4.00 s and wrote nothing to the pipe to `bash`, which took that for all: the \
                    exit code is 0. A shell does not get the exit code of `<(...)`: `wait $!` does, or a file instead.";
        assert_eq!(silent(&|_| {}), [text]);
        assert!(silent(&|recording| recording.channels[0].readers[0].requested = 128).is_empty(), "$(...)");
        assert!(silent(&|recording| recording.recorded[0].exit_code = Some(1)).is_empty(), "an answer");
        let found = silent(&|recording| {
            (recording.recorded[0].name, recording.recorded[0].exit_code) = ("find".to_owned(), Some(1));
        });
        assert!(found[0].starts_with("`find` failed with exit code 1 at"), "{found:?}");
        let beside = silent(&|recording| {
            (recording.recorded[0].started_by, recording.recorded[1].started_by) = (Some(2), Some(2));
            recording.recorded[1].execs = 1;
        });
        assert!(beside[0].ends_with("`set -o pipefail` keeps it, where both are one pipeline."), "{beside:?}");
    }

    #[test]
    fn a_failure_of_who_started_the_writer_is_said() {
        let script = |recording: &mut Document, child_code: Option<u8>| {
            fails(recording, 0, 1);
            (recording.recorded[0].pids, recording.recorded[0].forks) = (vec![1, 9], 1);
            recording.recorded.push(RecordedProcess {
                name: "grep".to_owned(),
                pids: vec![9],
                execs: 1,
                exit_code: child_code,
                ..RecordedProcess::default()
            });
            recording.channels[0].writers[0].process = 3;
        };
        let text = said(find, &|recording| script(recording, None));
        assert!(text[0].starts_with("`seq` failed with exit code 1 at 4.00 s, after `grep` had written"), "{text:?}");
        assert!(said(find, &|recording| script(recording, Some(1))).is_empty(), "it passes on an answer");
        let unrelated = said(find, &|recording| {
            script(recording, None);
            recording.recorded[3].pids = vec![10];
        });
        assert!(unrelated.is_empty(), "{unrelated:?}");
    }

    #[test]
    fn a_code_that_is_passed_on_is_not() {
        let started = |by: &str, code: Option<u8>| {
            said(find, &|recording| {
                fails(recording, 0, 2);
                recording.recorded[0].started_by = Some(2);
                (recording.recorded[2].name, recording.recorded[2].exit_code) = (by.to_owned(), code);
            })
        };
        assert_eq!(started("bash", None).len(), 1);
        assert!(started("python3", None).is_empty() && started("bash", Some(2)).is_empty());
    }

    #[test]
    fn a_part_of_a_shell_is_said_before_tee_only() {
        let part = |reader: &str| {
            said(find, &|recording| {
                fails(recording, 0, 1);
                recording.recorded[0].execs = 0;
                recording.recorded[1].name = reader.to_owned();
            })
        };
        assert!(
            part("tee")[0]
                .starts_with("`seq` failed with exit code 1 at 4.00 s, after it had written to the pipe to `tee`")
        );
        assert!(part("sort").is_empty());
    }

    #[test]
    fn an_answer_or_what_is_shown_is_not() {
        assert!(said(find, &|recording| fails(recording, 1, 1)).is_empty(), "grep found nothing");
        assert!(said(find, &|recording| fails(recording, 2, 1)).is_empty(), "it writes to no pipe");
        let shown = said(find, &|recording| {
            fails(recording, 0, 2);
            recording.exit_codes = vec![2];
        });
        assert!(shown.is_empty(), "{shown:?}");
    }

    #[test]
    fn a_command_that_was_not_found_is_said() {
        let missing = |code: u8, bytes: u64| {
            said(find, &|recording| {
                let shell = RecordedProcess {
                    name: "sh".to_owned(),
                    exit_code: Some(code),
                    effects: 1,
                    ..RecordedProcess::default()
                };
                recording.recorded.push(shell);
                recording.exit_codes = vec![0];
                let cat = &mut recording.recorded[2];
                (cat.started_by, cat.execs, cat.input) = (Some(3), 1, Some(1));
                recording.channels[1].writers.clear();
                let end = &mut recording.channels[1].readers[0];
                (end.bytes, end.at_end) = (bytes, 1);
            })
        };
        let text = "A part of `sh` ended with exit code 127, as if a command was not found: `cat` got nothing from it, and the exit \
                    code is 0. `set -o pipefail` keeps it.";
        assert_eq!(missing(127, 0), [text]);
        assert!(missing(1, 0).is_empty() && missing(127, 5).is_empty());
    }
}

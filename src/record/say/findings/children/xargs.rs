//! What `xargs` starts, and with what exit code it ends for that.

use crate::record::say::findings::ends::answers::{ExitMeaning, answer};
use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::{clean, grouped};

/// The program that starts others.
const XARGS: &str = "xargs";

/// `` `xargs` got nothing from the pipe from `find` and started `rm` all the same: ... ``
pub(crate) fn empty_input(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.document.recorded.iter().enumerate().filter_map(|(at, process)| {
        let (channel, text) = for_nothing(view, at, process)?;
        let text = format!("{} {text}.", view.name(at));
        Some(Finding { channels: vec![channel], ..Finding::new(FindingKind::EmptyInput, [at], text) })
    });
    found.collect()
}

/// The channel of which `xargs` got nothing, and what it did all the same.
fn for_nothing(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<(usize, String)> {
    if process.name != XARGS || process.forks != 1 || is_asked(process) {
        return None;
    }
    let (input, channel, _) = view.readers().find(|(input, _, end)| {
        end.process == at && process.input == Some(*input) && end.bytes == 0 && end.at_end > 0
    })?;
    let started = view.document.recorded.iter().position(|other| other.started_by == Some(at) && other.execs > 0);
    let program = started.map_or_else(|| "its program".to_owned(), |other| view.name(other));
    let text = format!(
        "got nothing from {} and started {program} all the same, without arguments: `xargs -r` starts it only if there are some",
        view.pipe_from(channel)
    );
    Some((input, text))
}

/// Whether it was told not to, or how to replace a word; then it starts none.
fn is_asked(process: &RecordedProcess) -> bool {
    let mut words = process.args.iter().skip(1);
    while let Some(word) = words.next().filter(|word| word.starts_with('-')) {
        let is_short = !word.starts_with("--");
        if word == "--no-run-if-empty" || is_short && word.contains(['r', 'i', 'I', 'L', 'l']) {
            return true;
        }
        // The value is the next word.
        if ["-n", "-P", "-d", "-E", "-s", "-a"].contains(&word.as_str()) {
            words.next();
        }
    }
    process.args.is_empty()
}

/// The exit code of a command after which `xargs` starts no other one.
const STOPS_XARGS: u8 = 255;

/// Failures of what it starts, as it passes them on: xargs(1).
const OF_COMMANDS: u8 = 123;

/// `: 5 of the 8 `grep` that it had started ended with exit code 1`: why `xargs` failed.
pub(crate) fn failed(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    if process.name != XARGS {
        return None;
    }
    let all = &view.document.recorded;
    // The row of the command can be one of others, too; that of the copy of `xargs` before is not.
    let is_child = |of: &RecordedProcess| of.started_by == Some(at);
    let copies: Vec<u32> = all.iter().filter(|of| is_child(of)).flat_map(|of| of.pids.clone()).collect();
    let stopped = |of: &&RecordedProcess| {
        of.exit_code == Some(STOPS_XARGS) && (is_child(of) || of.pids.iter().any(|pid| copies.contains(pid)))
    };
    if let Some(child) = all.iter().find(stopped) {
        return Some(format!(": `{}` ended with exit code {STOPS_XARGS}, at which it leaves out the rest", child.name));
    }
    if let Some((_, text)) = for_nothing(view, at, process) {
        return Some(format!(": it {text}"));
    }
    let own = |parent: u32| process.pids.contains(&parent);
    let failed = view.document.failures.iter().filter(|failed| own(failed.parent));
    let first = failed.clone().next().filter(|_| process.exit_code == Some(OF_COMMANDS))?;
    let same = failed.filter(|of| of.exit_code == first.exit_code && of.process == first.process).count();
    let started = view.document.lives.iter().filter(|life| own(life.parent)).count();
    let program = all.get(first.process)?;
    let meaning = match answer(program, first.exit_code) {
        ExitMeaning::Found(what) => {
            format!(
                ", because they found {what}: no failure for `{name}`, but one for `{XARGS}`. `sh -c '{name} … || true'` as its command \
                 avoids that",
                name = clean(program.program())
            )
        }
        ExitMeaning::Meaning(meaning) => format!(" ({meaning})"),
        ExitMeaning::Unknown => String::new(),
    };
    Some(format!(
        ": {} of the {} `{}` that it had started ended with exit code {}{meaning}",
        grouped(same as u64),
        grouped(started.max(same) as u64),
        clean(program.program()),
        first.exit_code
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{pipeline, said};
    use crate::result::{Document, FailedProcess, ProcessLife};

    #[test]
    fn xargs_without_input_is_said() {
        let xargs = |line: &str, bytes: u64| {
            said(empty_input, &|recording| {
                let process = &mut recording.recorded[1];
                process.name = "xargs".to_owned();
                process.args = line.split_whitespace().map(str::to_owned).collect();
                (process.forks, process.input) = (1, Some(0));
                (recording.recorded[2].started_by, recording.recorded[2].execs) = (Some(1), 1);
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.at_end) = (bytes, 1);
            })
        };
        let text = "`xargs` got nothing from the pipe from `seq` and started `cat` all the same, without arguments: `xargs -r` starts it \
                    only if there are some.";
        assert_eq!(xargs("xargs -0 -n 1 rm -r", 0), [text]);
        for (line, bytes) in [("xargs cat", 5), ("xargs -0r cat", 0), ("xargs -I{} cat {}", 0), ("", 0)] {
            assert!(xargs(line, bytes).is_empty(), "{line}");
        }
    }

    #[test]
    fn what_failed_of_what_it_had_started_is_said() {
        let why = |code: u8, name: &str| {
            let mut recording = pipeline();
            let xargs = &mut recording.recorded[1];
            (xargs.name, xargs.exit_code) = ("xargs".to_owned(), Some(123));
            (recording.recorded[2].name, recording.recorded[2].exit_code) = (name.to_owned(), Some(code));
            let failed =
                |pid: u32| FailedProcess { process: 2, pid, parent: 2, exit_code: code, ..FailedProcess::default() };
            recording.failures = vec![failed(8), failed(9)];
            recording.lives = (7..12).map(|pid| ProcessLife { pid, parent: 2, ..ProcessLife::default() }).collect();
            failed_of(&recording)
        };
        let found = why(1, "grep").unwrap();
        assert!(
            found.starts_with(
                ": 2 of the 5 `grep` that it had started ended with exit code 1, because they found nothing:"
            ),
            "{found}"
        );
        assert_eq!(
            why(2, "grep").unwrap(),
            ": 2 of the 5 `grep` that it had started ended with exit code 2 (an error, not an answer)"
        );
    }

    fn failed_of(recording: &Document) -> Option<String> {
        failed(&FindingView::new(recording), 1, &recording.recorded[1])
    }
}

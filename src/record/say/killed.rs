//! Programs that were killed: by the kernel, for a fault of their own, or by others.

use crate::profile::few;
use crate::record::model::labels::labels;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::first_of::first_of;
use crate::record::start::command_line::is_shell;
use crate::result::{Document, ExecutedOn, Finding, FindingKind, RecordedProcess};
use std::collections::BTreeSet;

/// Signals by which the kernel ends a program for what it did.
const FAULTS: [(i32, &str, &str); 6] = [
    (libc::SIGILL, "SIGILL", "illegal instruction"),
    (libc::SIGABRT, "SIGABRT", "it aborted"),
    (libc::SIGBUS, "SIGBUS", "bad memory access"),
    (libc::SIGFPE, "SIGFPE", "arithmetic error"),
    (libc::SIGSEGV, "SIGSEGV", "invalid memory access"),
    (libc::SIGSYS, "SIGSYS", "forbidden system call"),
];

/// Signals by which others end a program.
const REQUESTS: [(i32, &str); 6] = [
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGTERM, "SIGTERM"),
];

/// A program that ends another one after some time, and how long it takes at most to end itself then, ns.
pub(crate) const TIMEOUT: &str = "timeout";
const SOON: u64 = 100_000_000;

/// Who was killed, and by what.
pub(crate) fn findings(recording: &Document) -> Vec<Finding> {
    let all = |kind: FindingKind, say: &dyn Fn(&RecordedProcess) -> Option<String>| {
        let each = recording.recorded.iter().enumerate();
        first_of(each.filter_map(|(at, process)| Some(Finding::new(kind, [at], say(process)?))))
    };
    let crashed = all(FindingKind::Crashed, &|process| crashed(recording, process));
    let labels = labels(recording);
    let each = recording.recorded.iter().enumerate();
    let goes_on = each.filter_map(|(at, process)| {
        let text = goes_on(recording, &labels, at, process)?;
        Some(Finding::new(FindingKind::Held, [at], text))
    });
    [all(FindingKind::Starved, &starved), crashed, ended(recording), first_of(goes_on)].concat()
}

/// A program that was to end, and still ran at the end of the recording.
fn goes_on(recording: &Document, labels: &[String], at: usize, process: &RecordedProcess) -> Option<String> {
    let is_there = process.end_ns >= recording.processes.window_ns && recording.is_excerpt();
    let is_killed = process.signal == Some(libc::SIGKILL.cast_unsigned());
    let by = process.told_to_end_by.filter(|by| *by != at && (is_there || is_killed))?;
    if !FindingView::new(recording).is_one(at) {
        return None;
    }
    if is_killed {
        let waits = if is_shell(&process.name) {
            " A shell waits for its program, which gets no signal: `exec` before the last command, or a `trap` that ends it, passes \
             it on."
        } else {
            ""
        };
        return Some(format!(
            "`{}` did not end at the SIGTERM of `{}`, which it ignores or handles, and was ended by SIGKILL at {}.{waits}",
            labels.get(at)?,
            labels.get(by)?,
            after(process.end_ns)
        ));
    }
    let kills = if recording.recorded.get(by)?.name == TIMEOUT { ", as `timeout -k 1` sends it" } else { "" };
    Some(format!(
        "`{}` goes on although `{}` sent it SIGTERM: it ignores that signal, or handles it. SIGKILL ends it{kills}.",
        labels.get(at)?,
        labels.get(by)?
    ))
}

/// A program that the kernel ended because there was no memory.
fn starved(process: &RecordedProcess) -> Option<String> {
    process.out_of_memory.then(|| format!("`{}` was killed for lack of memory.", process.name))
}

/// A program that a fault of its own ended. A shell reports only that of the last one.
fn crashed(recording: &Document, process: &RecordedProcess) -> Option<String> {
    let number = i32::try_from(process.signal?).ok()?;
    let (_, name, what) = FAULTS.into_iter().find(|(signal, ..)| *signal == number)?;
    let advice = match number {
        libc::SIGILL if recording.executed_on == ExecutedOn::Tcg => {
            ": the guest's CPU may lack what it was compiled for; try --cpu max"
        }
        _ => "",
    };
    Some(format!("`{}` was killed by {name} ({what}){advice}.", process.name))
}

/// The name of a signal that lets a program do nothing more: SIGKILL, or one for a fault of its own.
pub(crate) fn at_once(signal: Option<u32>) -> Option<&'static str> {
    let number = i32::try_from(signal?).ok()?;
    let fault = FAULTS.iter().find(|(fault, ..)| *fault == number).map(|(_, name, _)| *name);
    fault.or((number == libc::SIGKILL).then_some("SIGKILL"))
}

/// Whether another program has ended this one.
pub(crate) fn by_others(process: &RecordedProcess) -> bool {
    REQUESTS.iter().any(|(number, _)| process.signal == Some(number.cast_unsigned()))
}

/// The programs that others have ended: for each signal a sentence. pipeprof itself does so after `--duration`.
fn ended(recording: &Document) -> Vec<Finding> {
    if recording.was_limited() {
        return Vec::new();
    }
    let labels = labels(recording);
    let all = || recording.recorded.iter();
    let sentence = |(number, signal): (i32, &str)| {
        let by = |process: &&RecordedProcess| process.signal == Some(number.cast_unsigned()) && !process.out_of_memory;
        let (which, last): (Vec<usize>, Vec<u64>) =
            all().enumerate().filter(|(_, process)| by(process)).map(|(at, process)| (at, process.end_ns)).unzip();
        let names: BTreeSet<&str> = which.iter().filter_map(|at| labels.get(*at)).map(String::as_str).collect();
        let last = last.into_iter().max()?;
        // It waits for its program, and ends with it.
        let is_over = |other: &RecordedProcess| other.name == TIMEOUT && other.end_ns.abs_diff(last) < SOON;
        let why = match all().find(|other| is_over(other)) {
            Some(_) => format!(": the time of `{TIMEOUT}` was over"),
            None => String::new(),
        };
        let were = if names.len() == 1 { "was" } else { "were" };
        let senders: BTreeSet<Option<usize>> = which.iter().map(|at| recording.recorded[*at].ended_by).collect();
        let sender = match senders.into_iter().collect::<Vec<_>>()[..] {
            [Some(by)] if !which.contains(&by) => labels.get(by).map(|name| format!(" of `{name}`")),
            _ => None,
        };
        let names = few(names.iter().map(|name| format!("`{name}`")));
        let text = format!("{names} {were} ended by {signal}{}{why}.", sender.unwrap_or_default());
        Some(Finding { at_ns: Some(last), ..Finding::new(FindingKind::Ended, which, text) })
    };
    REQUESTS.into_iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Processes;

    const WINDOW: u64 = 1_000_000_000;

    #[test]
    fn who_was_ended_by_a_signal_is_said() {
        let process = |name: &str| RecordedProcess { name: name.to_owned(), ..RecordedProcess::default() };
        let mut recording = Document {
            processes: Processes { window_ns: WINDOW, ..Processes::default() },
            recorded: ["a", "b"].map(process).to_vec(),
            ..Document::default()
        };
        let said = |recording: &Document| -> Vec<String> { ended(recording).into_iter().map(|of| of.text).collect() };
        let term = Some(libc::SIGTERM.cast_unsigned());
        recording.recorded[0].signal = term;
        assert_eq!(said(&recording), ["`a` was ended by SIGTERM."]);
        recording.recorded[1].signal = term;
        assert_eq!(said(&recording), ["`a` and `b` were ended by SIGTERM."]);
        recording.recorded.push(process(TIMEOUT));
        assert_eq!(said(&recording), ["`a` and `b` were ended by SIGTERM: the time of `timeout` was over."]);
        recording.recorded[2].end_ns = WINDOW;
        assert_eq!(said(&recording), ["`a` and `b` were ended by SIGTERM."]);
        // SIGPIPE is how a pipeline ends.
        recording.recorded[0].signal = Some(libc::SIGPIPE.cast_unsigned());
        assert_eq!(said(&recording), ["`b` was ended by SIGTERM."]);
        // It was pipeprof.
        recording.duration_ns = Some(WINDOW);
        assert!(said(&recording).is_empty());
    }

    #[test]
    fn who_goes_on_after_sigterm_is_said() {
        let told = |end_ns: u64, duration_ns: Option<u64>, signal: Option<u32>| {
            let process = |name: &str, told_to_end_by| RecordedProcess {
                name: name.to_owned(),
                pids: vec![1],
                end_ns,
                told_to_end_by,
                ..RecordedProcess::default()
            };
            let mut recorded = vec![process("timeout", None), process("job", Some(0))];
            recorded[1].signal = signal;
            let processes = Processes { window_ns: WINDOW, ..Processes::default() };
            let said = findings(&Document { recorded, processes, duration_ns, ..Document::default() });
            said.into_iter().map(|finding| finding.text).collect::<Vec<_>>()
        };
        let text = "`job` goes on although `timeout` sent it SIGTERM: it ignores that signal, or handles it. SIGKILL ends it, as \
                    `timeout -k 1` sends it.";
        assert_eq!(told(WINDOW, Some(WINDOW), None), [text]);
        assert!(told(WINDOW, None, None).is_empty() && told(WINDOW - 1, Some(WINDOW), None).is_empty());
        let killed = told(WINDOW / 2, None, Some(libc::SIGKILL.cast_unsigned()));
        let text = "`job` did not end at the SIGTERM of `timeout`, which it ignores or handles, and was ended by SIGKILL at 0.50 s.";
        assert!(killed.iter().any(|said| said == text), "{killed:?}");
    }
}

//! Programs that failed in a script which went on all the same.

use crate::record::say::findings::ends::answers::{TIMED_OUT, answers, fails};
use crate::record::say::findings::ends::why;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::TIMEOUT;
use crate::record::say::programs::{Does, does};
use crate::record::start::command_line::{inline_code, operands, program_name};
use crate::result::{FailedProcess, Finding, FindingKind, RecordedProcess};
use crate::util::text::clean;

/// Programs that scripts start to see whether they fail.
const TRIED: [&str; 9] = ["cc", "gcc", "g++", "c++", "clang", "clang++", "ld", "conftest", "pkg-config"];

/// Programs end with more than this and a signal's number, if that is what ended them.
const BY_SIGNAL: u8 = 128;

/// More are not said.
const MOST: usize = 2;

/// `` `yarn build` failed with exit code 1 at 0.50 s, and `sh` went on, which has started it in the background: ... ``
pub(crate) fn unheeded(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() {
        return Vec::new();
    }
    let mut known: Vec<(usize, &[String])> = Vec::new();
    let mut found = Vec::new();
    for failed in &document.failures {
        let Some(process) = document.recorded.get(failed.process) else { continue };
        // Of one that is alone in its row, other rules have said what its pipes tell.
        if known.contains(&(failed.process, &failed.args)) || found.len() == MOST || !is_failure(view, failed, process)
        {
            continue;
        }
        // Errors of its calls say more.
        if process.is_one() && why::why(view, failed.process).is_some() {
            continue;
        }
        let Some((kind, why)) = why(view, failed, process) else { continue };
        known.push((failed.process, &failed.args));
        let (name, code) = (shown(process, &failed.args), failed.exit_code);
        let denied = why::denied(view, failed.process, failed.lived_ns[1]).unwrap_or_default();
        let text = format!("`{name}` failed with exit code {code} at {}{denied}{why}", after(failed.lived_ns[1]));
        let finding = Finding::new(kind, [failed.process], text);
        found.push(Finding { count: Some(code.into()), at_ns: Some(failed.lived_ns[1]), ..finding });
    }
    found
}

/// A program with as much of its command line as there is room for.
fn shown(process: &RecordedProcess, args: &[String]) -> String {
    const ROOM: usize = 60;
    let mut name = program_name(&process.name, args);
    for word in operands(args) {
        if name.len() + word.len() >= ROOM || word.contains('\n') {
            break;
        }
        name = format!("{name} {word}");
    }
    clean(&name)
}

/// Whether its exit code is a failure that nobody has seen, and that was not tried again.
fn is_failure(view: &FindingView<'_>, failed: &FailedProcess, process: &RecordedProcess) -> bool {
    let all = &view.document.failures;
    let code = failed.exit_code;
    let says_so = failed.errors > 0 && !does(&process.name, Does::AnswersWith1);
    // Or what it had started was killed.
    let child_killed = || {
        let mut all = view.document.recorded.iter();
        all.any(|of| of.started_by == Some(failed.process) && of.signal.is_some() && of.end_ns <= failed.lived_ns[1])
    };
    let is_passed_on = || all.iter().any(|other| other.pid == failed.parent) || child_killed();
    let is_over = process.name == TIMEOUT && code == TIMED_OUT && !failed.beside;
    // Another rule says that its connections failed.
    let is_said = process.full_queues + process.refused_connects > 0;
    // A handler of a signal ends many a program so.
    let is_ended = process.told_to_end_by.is_some() || code > BY_SIGNAL;
    process.execs > 0
        && !is_over
        && !is_ended
        && !is_said
        && (fails(process, code) || says_so || failed.beside)
        && !answers(view, failed.process, process, code)
        && !is_passed_on()
        && !failed.again
}

/// Why the script went on, as far as that is known, and how much that matters.
fn why(view: &FindingView<'_>, failed: &FailedProcess, process: &RecordedProcess) -> Option<(FindingKind, String)> {
    let shell = process.started_by?;
    let script = view.document.recorded.get(shell)?;
    let is_it =
        script.is_shell() && script.execs > 0 && script.signal.is_none() && script.pids.contains(&failed.parent);
    // A program that says nothing itself may not have looked at the exit code.
    let is_silent = script.errors == 0 && script.exit_code.is_none() && script.signal.is_none();
    if !script.is_shell() && script.execs > 0 && is_silent && failed.errors > 0 && !failed.quiet && !is_tried(process) {
        let text = format!(
            ", with a message on its standard error. {}, which started it, reported no error and ended with 0.",
            view.name(shell)
        );
        return Some((FindingKind::Tolerated, text));
    }
    let of = is_it.then(|| view.name(shell))?;
    // A pipeline has rules of its own.
    if failed.piped {
        return None;
    }
    if failed.beside {
        let text = format!(
            " in the background of {of}, which ended with 0: neither `wait` without a process id nor `set -e` looks at how such a job \
             ended. `wait $pid || exit` for each of them does."
        );
        return Some((FindingKind::HiddenFailure, text));
    }
    if inline_code(&script.args).is_some_and(|code| is_followed(code, &failed.args)) {
        let text = format!(
            ", and {of} went on with what stands behind `;`, whose exit code counts. `&&` instead, or `set -e`, stops there."
        );
        return Some((FindingKind::HiddenFailure, text));
    }
    let is_said = failed.errors > 0 && !failed.quiet && !is_tried(process);
    if is_said {
        let text = format!(
            ", with a message on its standard error, and {of} went on and ended with 0. `set -e` ends a script there, but not at a command \
             before `&&` or `||`, in an `if`, or in the background (`wait $!` gets the code of such a one)."
        );
        return Some((FindingKind::HiddenFailure, text));
    }
    // A script may have asked whether it fails.
    let alone = process.is_one() && fails(process, failed.exit_code);
    (!alone && !failed.quiet)
        .then(|| (FindingKind::Tolerated, format!(". {of}, which started it, went on, and its exit code is 0.")))
}

/// Whether it is started to see whether it fails.
fn is_tried(process: &RecordedProcess) -> bool {
    TRIED.contains(&process.name.as_str())
}

/// Whether a command stands before `;` or the end of a line in this code, and nothing asks for its exit code.
fn is_followed(code: &str, args: &[String]) -> bool {
    // A script has its interpreter before its own name.
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let names: Vec<String> = args.iter().take(2).map(|word| name(word)).collect();
    let code = code.replace("\\\n", " ");
    let mut rest = code.as_str();
    while let Some(at) = rest.find(['\n', ';', '|', '&']) {
        let (part, behind) = rest.split_at(at);
        let words: Vec<&str> = part.split_whitespace().collect();
        let begin = words.iter().take_while(|word| ["then", "do", "else", "{"].contains(word)).count();
        let is_it = words.get(begin).is_some_and(|word| names.contains(&name(word)));
        let more = behind.trim_start_matches([';', '\n', ' ', '\t']);
        let ends = more.is_empty() || more == "fi" || more == "done";
        if is_it && matches!(behind.chars().next(), Some(';' | '\n')) && !ends {
            return true;
        }
        rest = behind.trim_start_matches(['\n', ';', '|', '&']);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    /// `grep` of `sh`, as one of two.
    fn failed(recording: &mut Document, code: u8) {
        recording.exit_codes = vec![0];
        let (shell, other) = recording.recorded.split_at_mut(1);
        (shell[0].name, shell[0].execs) = ("sh".to_owned(), 1);
        (other[0].name, other[0].execs, other[0].started_by) = ("build".to_owned(), 2, Some(0));
        (other[0].pids, other[0].exit_code) = (vec![2, 7], Some(code));
        let args = ["build", "one"].map(str::to_owned).to_vec();
        let lived_ns = [0, 500_000_000];
        let failed = FailedProcess {
            process: 1,
            pid: 7,
            parent: 1,
            args,
            exit_code: code,
            lived_ns,
            errors: 1,
            ..FailedProcess::default()
        };
        recording.failures.push(failed);
    }

    #[test]
    fn a_failure_in_the_background_is_said() {
        let found = said(unheeded, &|recording| {
            failed(recording, 1);
            recording.failures[0].beside = true;
        });
        let text = "`build one` failed with exit code 1 at 0.50 s in the background of `sh`, which ended with 0: neither `wait` \
                    without a process id nor `set -e` looks at how such a job ended. `wait $pid || exit` for each of them does.";
        assert_eq!(found, [text]);
        let silent = said(unheeded, &|recording| {
            failed(recording, 1);
            recording.failures[0].errors = 0;
        });
        assert!(silent.is_empty(), "it said nothing: {silent:?}");
        let message = said(unheeded, &|recording| failed(recording, 9));
        assert!(
            message[0]
                .contains(" at 0.50 s, with a message on its standard error, and `sh` went on and ended with 0. "),
            "{message:?}"
        );
        let ended = said(unheeded, &|recording| {
            failed(recording, 1);
            recording.failures[0].beside = true;
            recording.recorded[1].told_to_end_by = Some(0);
        });
        assert!(ended.is_empty(), "a server that was ended: {ended:?}");
        let passed = said(unheeded, &|recording| {
            failed(recording, 1);
            recording.failures.push(FailedProcess { pid: 1, exit_code: 1, ..FailedProcess::default() });
        });
        assert!(passed.is_empty(), "{passed:?}");
    }

    #[test]
    fn a_failure_before_a_semicolon_is_said() {
        let in_code = |code: &str| {
            said(unheeded, &|recording| {
                failed(recording, 100);
                recording.recorded[0].args = ["sh", "-c", code].map(str::to_owned).to_vec();
                recording.failures[0].errors = 0;
            })
        };
        let found = in_code("if true; then \\\n  ./build one; \\\n  ./build two; \\\nfi");
        assert!(found[0].ends_with("stops there."), "{found:?}");
        let asked = in_code("./build one || ./other; true");
        assert_eq!(
            asked,
            [
                "`build one` failed with exit code 100 at 0.50 s. `sh`, which started it, went on, and its exit code is 0."
            ]
        );
        assert!(!in_code("true; ./build one;")[0].contains("stops there"));
    }

    #[test]
    fn a_program_that_does_not_look_is_said() {
        let of = |change: &dyn Fn(&mut Document)| {
            said(unheeded, &|recording| {
                failed(recording, 1);
                (recording.recorded[0].name, recording.failures[0].piped) = ("node".to_owned(), true);
                change(recording);
            })
        };
        let text = "`build one` failed with exit code 1 at 0.50 s, with a message on its standard error. `node`, which started it, reported no error \
                    and ended with 0.";
        assert_eq!(of(&|_| {}), [text]);
        assert!(of(&|recording| recording.recorded[0].errors = 1).is_empty(), "it has said so");
        assert!(of(&|recording| recording.failures[0].errors = 0).is_empty());
        assert!(of(&|recording| recording.recorded[0].exit_code = Some(1)).is_empty());
    }
}

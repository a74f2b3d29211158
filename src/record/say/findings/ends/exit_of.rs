//! Exit codes that a program takes from what it had started: of a recipe of `make`, and of a child that a script ended itself.

use crate::record::say::findings::ends::broken_pipe::{BROKEN_PIPE, broken};
use crate::record::say::findings::view::FindingView;
use crate::record::say::killed;
use crate::result::{Finding, FindingKind, RecordedProcess};

/// Programs that start recipes, and end with a code of their own if one of these fails.
pub(crate) const MAKES: [&str; 4] = ["make", "gmake", "ninja", "samu"];

/// A shell has 128 and the signal's number of a child that a signal ended.
const BY_SIGNAL: u8 = 128;

/// `: its recipe ended with exit code 141; `md5sum` was ended by SIGPIPE ...`, of a `make` that failed.
pub(crate) fn recipe(view: &FindingView<'_>, at: usize) -> Option<String> {
    let process = view.document.recorded.get(at).filter(|process| MAKES.contains(&process.name.as_str()))?;
    let own = view.document.failures.iter().filter(|failed| process.pids.contains(&failed.parent));
    let failed = own.max_by_key(|failed| failed.lived_ns[1])?;
    let name = view.name(failed.process);
    if failed.exit_code == BROKEN_PIPE {
        let is_it = |of: &RecordedProcess| {
            of.signal == Some(libc::SIGPIPE.cast_unsigned()) && of.end_ns <= failed.lived_ns[1] + killed::ITSELF_NS
        };
        let why = view.last_ended(is_it).and_then(|(of, ended)| broken(view, of, ended));
        let why = why.unwrap_or_else(|| " (SIGPIPE ended one of its programs, whose output nobody read on)".to_owned());
        return Some(format!("; its recipe {name} ended with exit code 141{why}"));
    }
    Some(format!("; of its recipe, {name} ended with exit code {}", failed.exit_code))
}

/// The same if nothing but that `make` was recorded.
pub(crate) fn of_recipe(view: &FindingView<'_>, at: usize, code: u8) -> Option<Finding> {
    let text = format!("Exit code {code} is that of {}{}.", view.name(at), recipe(view, at)?);
    Some(Finding { count: Some(code.into()), ..Finding::new(FindingKind::ExitCode, [at], text) })
}

/// `` Exit code 143 is that of `a.sh` itself, which no signal ended: `wait` had it from `sleep` ... ``
pub(crate) fn of_ended_child(view: &FindingView<'_>, at: usize, code: u8) -> Option<Finding> {
    let own = view.document.recorded.get(at).filter(|process| process.is_shell() && code > BY_SIGNAL)?;
    // No signal ended it.
    view.document.failures.iter().find(|failed| failed.process == at && failed.exit_code == code)?;
    let number = u32::from(code - BY_SIGNAL);
    let ended = |of: &RecordedProcess| of.ended_by == Some(at) && of.signal == Some(number);
    let mut all = view.document.recorded.iter().enumerate();
    // A copy of itself is in its own row.
    let (child, process) = all
        .find(|(of, process)| ended(process) && (process.started_by == Some(at) || *of == at && own.pids.len() > 1))?;
    let signal = killed::requested(process)?;
    let name = view.name(at);
    let child_name = if child == at { "a part of it in the background".to_owned() } else { view.name(child) };
    let text = format!(
        "Exit code {code} is that of {name} itself, which no signal ended: `wait` had it from {child_name}, which {name} had ended by \
         {signal}. `|| true` behind that `wait`, as in a `trap`, or an `exit` with the code that is meant, keeps that."
    );
    Some(Finding { count: Some(code.into()), ..Finding::new(FindingKind::ExitCode, [at, child], text) })
}

#[cfg(test)]
mod tests {
    use crate::record::say::findings::ends::exit::find;
    use crate::record::say::findings::tests::said;
    use crate::result::FailedProcess;

    #[test]
    fn a_recipe_that_failed_is_said() {
        let recipe = |exit_code: u8, signal: Option<u32>| {
            said(find, &|recording| {
                recording.exit_codes = vec![2];
                recording.recorded[2].name = "make".to_owned();
                (recording.recorded[2].exit_code, recording.recorded[2].execs) = (Some(2), 1);
                recording.recorded[1].signal = signal;
                let lived_ns = [0, recording.recorded[1].end_ns];
                recording.failures =
                    vec![FailedProcess { process: 0, parent: 3, exit_code, lived_ns, ..FailedProcess::default() }];
            })
        };
        let failed = &recipe(7, None)[0];
        assert!(failed.ends_with("; of its recipe, `seq` ended with exit code 7."), "{failed}");
        let broken = &recipe(141, Some(libc::SIGPIPE.cast_unsigned()))[0];
        assert!(
            broken.contains("; its recipe `seq` ended with exit code 141: `grep` was ended by SIGPIPE at "),
            "{broken}"
        );
    }

    #[test]
    fn the_code_of_a_child_that_a_script_ended_is_said() {
        let ends = |by: usize| {
            said(find, &|recording| {
                recording.exit_codes = vec![143];
                recording.recorded.iter_mut().for_each(|process| process.stage = 0);
                recording.recorded[0].name = "bash".to_owned();
                (recording.recorded[0].exit_code, recording.recorded[0].execs) = (Some(143), 1);
                recording.failures = vec![FailedProcess { process: 0, exit_code: 143, ..FailedProcess::default() }];
                let child = &mut recording.recorded[1];
                (child.signal, child.ended_by, child.started_by) = (Some(15), Some(by), Some(0));
            })
        };
        let text = "Exit code 143 is that of `bash` itself, which no signal ended: `wait` had it from `grep`, which `bash` had ended by \
                    SIGTERM. `|| true` behind that `wait`, as in a `trap`, or an `exit` with the code that is meant, keeps that.";
        assert_eq!(ends(0), [text]);
        assert!(!ends(2).concat().contains("`wait` had it"), "{:?}", ends(2));
    }
}

//! Programs that a shell could not start, and went on.

use crate::record::say::findings::ends::why;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{FailedProcess, Finding, FindingKind};

/// What a part of a shell ends with that could not start its program, and one that did not find it (sh(1), "Exit status for commands").
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

/// `` `bash a.sh` could not start a program at 0.66 s: its `execve` was refused with "Argument list too long" ..., and went on. ``
pub(crate) fn not_started(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let found = |failed: &FailedProcess| {
        let shell = document.recorded.get(failed.process).filter(|of| of.is_shell() && of.execs > 0)?;
        // It has a row of its own if it executed anything.
        let is_part = failed.parent > 0 && shell.pids.contains(&failed.pid) && shell.pids.contains(&failed.parent);
        let is_seen = !failed.quiet && failed.errors > 0 && document.exit_codes.last() == Some(&0);
        let at = failed.lived_ns[1];
        let (kind, what, why) = match failed.exit_code {
            _ if !is_part || !is_seen || document.is_excerpt() => return None,
            NOT_STARTED => (FindingKind::HiddenFailure, "start", why::denied(view, failed.process, at)?),
            NOT_FOUND => (FindingKind::Tolerated, "find", String::new()),
            _ => return None,
        };
        let text = format!(
            "{} could not {what} a program at {}{why}, and went on: `set -e` would have ended it.",
            view.name(failed.process),
            after(at),
        );
        let finding = Finding::new(kind, [failed.process], text);
        Some(Finding { count: Some(failed.exit_code.into()), at_ns: Some(at), ..finding })
    };
    document.failures.iter().find_map(found).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, said, silent};
    use crate::result::{Document, ProcessRefusal};

    #[test]
    fn a_program_that_was_not_started_is_said() {
        let failed = |change: &dyn Fn(&mut Document)| {
            said(not_started, &|recording| {
                let shell = &mut recording.recorded[0];
                (shell.name, shell.execs, shell.pids) = ("bash".to_owned(), 1, vec![1, 9]);
                shell.refusal = Some(ProcessRefusal { call: "execve".to_owned(), error: libc::E2BIG, at_ns: 100 * MS });
                let lived_ns = [90 * MS, 101 * MS];
                let part = FailedProcess { pid: 9, parent: 1, exit_code: 126, errors: 1, ..FailedProcess::default() };
                recording.failures = vec![FailedProcess { lived_ns, ..part }];
                recording.exit_codes = vec![0];
                change(recording);
            })
        };
        let text = "`bash` could not start a program at 0.10 s: its `execve` was refused with \"Argument list too long\" (the command line is too long, \
                    as with a pattern that many files match, or its environment is: `xargs` divides it), and went on: `set -e` would have ended it.";
        assert_eq!(failed(&|_| {}), [text]);
        let not_found = failed(&|recording| recording.failures[0].exit_code = 127);
        assert_eq!(
            not_found,
            ["`bash` could not find a program at 0.10 s, and went on: `set -e` would have ended it."]
        );
        silent(
            &failed,
            &[
                &|recording| recording.failures[0].exit_code = 1,
                &|recording| recording.failures[0].quiet = true,
                &|recording| recording.failures[0].pid = 8,
                &|recording| recording.exit_codes = vec![126],
                &|recording| recording.recorded[0].refusal = None,
            ],
        );
    }
}

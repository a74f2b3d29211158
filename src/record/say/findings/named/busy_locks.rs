//! Lock files that another process had made, which was still at work.

use crate::record::model::labels::with_id;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::start::command_line::program_name;
use crate::result::{FailedProcess, Finding, FindingKind, NameError, NameUse, NamedFile};
use crate::util::text::{clean, grouped};

/// An exit code up to this one can be an answer.
const ANSWER: u8 = 1;

/// `` `git add` (process 12004) ended with exit code 128, because `index.lock` was there (EEXIST): ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let refused = |file: &&NamedFile| {
        let is_it = |failed: &&FailedProcess| failed.pid == file.pid && failed.exit_code > ANSWER && failed.errors > 0;
        let exists = file.error == Some(NameError::Exists) && file.is_of_lock();
        let failed = document.failures.iter().find(is_it).filter(|_| exists)?;
        // Whoever has it works on.
        let has = |other: &&NamedFile| {
            let makes = (NameUse::Creates..=NameUse::Makes).contains(&other.does) && other.error.is_none();
            let then = other.at_ns[0] < file.at_ns[1] && other.ended_ns.is_none_or(|end| end > file.at_ns[1]);
            makes && then && other.pid != file.pid && other.is_same_place(file)
        };
        let holder = document.named_files.iter().filter(has).max_by_key(|other| other.at_ns[0])?;
        Some((failed.clone(), (*file).clone(), holder.clone()))
    };
    let all: Vec<(FailedProcess, NamedFile, NamedFile)> =
        document.named_files.iter().filter_map(|file| refused(&file)).collect();
    let Some((failed, file, holder)) = all.first() else { return Vec::new() };
    let same = all.iter().filter(|(_, other, _)| other.is_same_place(file)).count() as u64;
    let name = with_id(&program_name(&document.recorded[failed.process].name, &failed.args), failed.pid, None, None);
    let by = with_id(&document.recorded[holder.process].name, holder.pid, None, None);
    let more = if same > 1 { format!(" ({} in all)", grouped(same)) } else { String::new() };
    let git = if document.recorded[holder.process].program() == "git" {
        " What only looks can leave the lock alone: `GIT_OPTIONAL_LOCKS=0 git status`."
    } else {
        ""
    };
    let text = format!(
        "{name} ended with exit code {} at {}{more}, because `{}` was there (EEXIST): {by} had made it {} before, and was still at work. Such a \
         lock lets one at a time go on: who is to come later has to wait for the other one to end, or to try again.{git}",
        failed.exit_code,
        after(file.at_ns[1]),
        clean(file.last_name()),
        after(file.at_ns[1] - holder.at_ns[0]),
    );
    let finding = Finding::new(FindingKind::FileLock, [failed.process, holder.process], text);
    vec![Finding { count: Some(same), at_ns: Some(file.at_ns[1]), ..finding }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, said, silent, used};
    use crate::result::Document;

    #[test]
    fn a_lock_of_who_is_still_at_work_is_said() {
        let busy = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let lock = |file: NamedFile| NamedFile { path: "/t/index.lock".to_owned(), ..file };
                let exists = NamedFile { error: Some(NameError::Exists), ..used(1, NameUse::Opens, 3) };
                recording.named_files = vec![lock(used(0, NameUse::Creates, 1)), lock(exists)];
                let failed =
                    FailedProcess { process: 1, pid: 2, exit_code: 128, errors: 1, ..FailedProcess::default() };
                recording.failures = vec![failed];
                change(recording);
            })
        };
        let text = "`grep` (process 2) ended with exit code 128 at 3.00 ms, because `index.lock` was there (EEXIST): `seq` (process 1) had made it \
                    2.00 ms before, and was still at work. Such a lock lets one at a time go on: who is to come later has to wait for the other one \
                    to end, or to try again.";
        assert_eq!(busy(&|_| {}), [text]);
        silent(
            &busy,
            &[
                &|recording| recording.failures[0].exit_code = 1,
                &|recording| recording.failures[0].errors = 0,
                &|recording| recording.named_files[0].ended_ns = Some(2 * MS),
                &|recording| recording.named_files[1].path = "/t/f".to_owned(),
                &|recording| recording.named_files[1].error = None,
            ],
        );
    }
}

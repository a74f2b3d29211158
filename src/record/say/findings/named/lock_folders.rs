//! Folders and files that are locks: `mkdir`, or an opening with O_EXCL, makes one, and fails if it is there.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed;
use crate::report::number::{percent, time};
use crate::result::{Finding, FindingKind, NameError, NameUse, NamedFile, RecordedProcess};
use crate::util::text::{clean, counted};
use std::collections::BTreeSet;

/// From this part of the window on that such a lock is free while others sleep until they look again, it matters.
const FREE: f64 = 0.3;

/// What was done with one folder.
struct LockFolder<'a> {
    made: Vec<&'a NamedFile>,
    removed: Vec<&'a NamedFile>,
    /// In vain, without a message.
    tried: Vec<&'a NamedFile>,
}

impl<'a> LockFolder<'a> {
    /// That which `tried` wanted.
    fn of(view: &FindingView<'a>, tried: &NamedFile) -> Self {
        let there = view.document.named_files.iter().filter(|file| file.is_same_place(tried));
        let all = |does: NameUse, error: Option<NameError>| {
            there.clone().filter(|file| file.does == does && file.error == error).collect::<Vec<_>>()
        };
        let quiet = |file: &&NamedFile| {
            let mut failed = view.document.failures.iter().filter(|failed| failed.pid == file.pid);
            failed.any(|failed| failed.quiet) || file.exit_code.is_none()
        };
        let in_vain = |does: NameUse| all(does, Some(NameError::Exists)).into_iter().filter(quiet);
        // A file that is created with O_EXCL.
        let (tried, made) = match tried.does {
            NameUse::Opens => (in_vain(NameUse::Opens).collect(), all(NameUse::Creates, None)),
            _ => (in_vain(NameUse::Makes).collect(), all(NameUse::Makes, None)),
        };
        Self { made, removed: all(NameUse::Removes, None), tried }
    }
}

/// Who called `mkdir`, or had it called: its id, and its row.
fn owner(view: &FindingView<'_>, by: &NamedFile) -> Option<(u32, usize)> {
    let all = &view.document.recorded;
    let executes = |pid: u32| all.iter().rposition(|process| process.execs > 0 && process.pids.contains(&pid));
    if all.get(by.process)?.program() != "mkdir" {
        return Some((by.pid, by.process));
    }
    let parent = view.life(by.pid)?.parent;
    // A copy of a shell that executes nothing has the row of that.
    Some((parent, executes(parent).or(all.get(by.process)?.started_by)?))
}

/// The first use of each folder in vain.
fn folders<'a>(view: &FindingView<'a>) -> Vec<LockFolder<'a>> {
    let mut known: Vec<&NamedFile> = Vec::new();
    for file in &view.document.named_files {
        let in_vain = [NameUse::Makes, NameUse::Opens].contains(&file.does) && file.error == Some(NameError::Exists);
        if in_vain && !known.iter().any(|other| other.is_same_place(file)) {
            known.push(file);
        }
    }
    known.into_iter().map(|file| LockFolder::of(view, file)).collect()
}

/// `` `mkdir` failed 5 times, because `x.lock` was there: `bash hook.sh`, which had made it at 11.8 ms, was ended by SIGKILL ... ``
pub(crate) fn left(view: &FindingView<'_>) -> Vec<Finding> {
    let found = |folder: LockFolder<'_>| {
        let (first, last_tried, last) = (folder.tried.first()?, folder.tried.last()?, folder.made.last());
        let name = clean(&first.path);
        let times = counted(folder.tried.iter().map(|file| file.calls).sum(), "time");
        let (who, at) = owner(view, first).map(|(_, at)| (view.name(at), at))?;
        let later = |file: &&&NamedFile| last.is_none_or(|made| file.at_ns[0] > made.at_ns[0]);
        if folder.removed.iter().any(|file| later(&file)) || !folder.tried.iter().any(|file| later(&file)) {
            return None;
        }
        let remedy =
            "Such a lock outlives its process; what `flock` locks is free once that has ended, however it did.";
        let (why, by) = match last {
            Some(made) => {
                let (pid, by) = owner(view, made)?;
                let process: &RecordedProcess = view.document.recorded.get(by)?;
                let end = view.life(pid)?.lived_ns[1];
                let signal = killed::requested(process).filter(|_| end < last_tried.at_ns[1])?;
                let made_at = after(made.at_ns[0]);
                let name = view.name(by);
                (
                    format!(
                        "{name}, which had made it at {made_at}, was ended by {signal} at {}, and nobody has removed it",
                        after(end)
                    ),
                    Some(by),
                )
            }
            None if first.is_of_lock() && folder.removed.is_empty() => (
                "it was there before the recording, and nobody in that removes it: who made it may have ended"
                    .to_owned(),
                None,
            ),
            None => return None,
        };
        let [what, how] = if first.does == NameUse::Opens { ["file", "O_EXCL"] } else { ["folder", "`mkdir`"] };
        let text = format!(
            "{who} did not get the lock `{name}` ({times}), a {what} that {how} finds there (EEXIST): {why}. {remedy}"
        );
        let finding = Finding::new(FindingKind::LeftLock, [at].into_iter().chain(by), text);
        Some(Finding { count: Some(folder.tried.len() as u64), at_ns: Some(first.at_ns[0]), ..finding })
    };
    folders(view).into_iter().find_map(found).into_iter().collect()
}

/// `` The lock `x.lock` was free 70 % of the time, while `install.sh` slept until it tried again (10 times): ... ``
pub(crate) fn free(view: &FindingView<'_>) -> Vec<Finding> {
    let found = |folder: LockFolder<'_>| {
        let first = folder.tried.first()?;
        let (_, at) = owner(view, first)?;
        // Of several calls of a process, only the first and the last are known by their times.
        if folder.made.iter().chain(&folder.removed).any(|file| file.calls > 1) {
            return in_turn(view, &folder, at);
        }
        let next = |after: u64| folder.made.iter().map(|file| file.at_ns[0]).filter(|at| *at > after).min();
        let waits = |until: u64| folder.tried.iter().any(|file| file.at_ns[0] < until);
        let removed = folder.removed.iter().map(|file| file.at_ns[0]).filter(|at| waits(*at));
        let ns: u64 = removed.filter_map(|from| Some(next(from)? - from)).sum();
        let part = ns as f64 / view.window();
        let text = format!(
            "The lock `{}` was free {} of the time ({}), while {} slept until it tried again to make it ({} in vain): `flock` \
             gets a lock at once when it is free, and so does a shorter sleep, nearly.",
            clean(&first.path),
            percent(part.min(1.0)),
            time(ns as f64 / 1e9),
            view.name(at),
            counted(folder.tried.iter().map(|file| file.calls).sum(), "call")
        );
        let finding = Finding::new(FindingKind::Naps, [at], text);
        (part >= FREE).then_some(Finding { ns: Some(ns), count: Some(folder.tried.len() as u64), ..finding })
    };
    folders(view).into_iter().find_map(found).into_iter().collect()
}

/// Fewer tries in vain, and fewer times that such a lock changed hands, do not matter.
const TRIED: u64 = 20;
const TURNS: u64 = 4;

/// `` `worker.py` tried 115 times in vain to make the lock `lock_dir`, which 4 processes had 48 times in turn: ... ``
fn in_turn(view: &FindingView<'_>, folder: &LockFolder<'_>, at: usize) -> Option<Finding> {
    let calls = |files: &[&NamedFile]| files.iter().map(|file| file.calls).sum::<u64>();
    let (tried, made) = (calls(&folder.tried), calls(&folder.made));
    let had: BTreeSet<u32> = folder.made.iter().map(|file| file.pid).collect();
    let text = format!(
        "{} tried {} in vain to make the lock `{}`, which {} had {} in turn: only one of them goes on at a time, and each of the others \
         sleeps until it tries again. Keep it for a shorter time; with `flock`, who waits for it is woken at once.",
        view.name(at),
        counted(tried, "time"),
        clean(&folder.tried.first()?.path),
        counted(had.len() as u64, "process"),
        counted(made, "time"),
    );
    let finding = Finding::new(FindingKind::Naps, [at], text);
    (tried >= TRIED && made >= TURNS && had.len() > 1).then_some(Finding { count: Some(tried), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, said_after, silent, used};
    use crate::result::{Document, FailedProcess, ProcessLife};

    /// `seq` has `grep`, which is `mkdir` here, make a folder, and `cat` does so in vain.
    fn both(recording: &mut Document) {
        let life = |pid, parent, end| ProcessLife { pid, parent, lived_ns: [0, end * MS] };
        recording.lives = vec![life(1, 0, 5), life(2, 1, 3), life(3, 0, 900)];
        recording.recorded[0].signal = Some(9);
        recording.recorded.iter_mut().for_each(|process| process.execs = 1);
        recording.recorded[1].name = "mkdir".to_owned();
        let tried = NamedFile { error: Some(NameError::Exists), exit_code: Some(1), ..used(2, NameUse::Makes, 8) };
        recording.named_files = vec![used(1, NameUse::Makes, 2), tried];
        recording.failures =
            vec![FailedProcess { process: 2, pid: 3, quiet: true, exit_code: 1, ..FailedProcess::default() }];
    }

    #[test]
    fn a_folder_that_a_killed_process_has_left_is_said() {
        let find = |change: &dyn Fn(&mut Document)| said_after(left, &both, change);
        let begin = "`cat` did not get the lock `/t/f` (1 time), a folder that `mkdir` finds there (EEXIST): ";
        let end = ". Such a lock outlives its process; what `flock` locks is free once that has ended, however it did.";
        let killed = "`seq`, which had made it at 2.00 ms, was ended by SIGKILL at 5.00 ms, and nobody has removed it";
        assert_eq!(find(&|_| {}), [format!("{begin}{killed}{end}")]);
        let before = find(&|recording| {
            recording.named_files.remove(0);
            recording.named_files[0].path = "/t/x.lock".to_owned();
        });
        assert!(before[0].contains("`/t/x.lock` (1 time)") && before[0].contains("it was there before"), "{before:?}");
        silent(
            &find,
            &[
                &|recording| recording.recorded[0].signal = None,
                &|recording| recording.failures[0].quiet = false,
                &|recording| recording.named_files.push(used(2, NameUse::Removes, 9)),
                &|recording| drop(recording.named_files.remove(0)),
                &|recording| recording.lives[0].lived_ns[1] = 9 * MS,
            ],
        );
    }

    #[test]
    fn a_lock_that_is_free_while_others_sleep_is_said() {
        let find = |change: &dyn Fn(&mut Document)| {
            said_after(free, &both, &|recording| {
                recording.named_files.extend([used(0, NameUse::Removes, 10), used(2, NameUse::Makes, 2810)]);
                change(recording);
            })
        };
        let text = find(&|_| {}).concat();
        assert!(text.starts_with("The lock `/t/f` was free 70 % of the time (2.80 s), while `cat` slept"), "{text}");
        let turns = find(&|recording| {
            recording.named_files.iter_mut().for_each(|file| file.calls = 12);
            recording.named_files[1].calls = 115;
        });
        let text = "`cat` tried 115 times in vain to make the lock `/t/f`, which 2 processes had 24 times in turn: only one of them goes \
                    on at a time, and each of the others sleeps until it tries again. Keep it for a shorter time; with `flock`, who waits \
                    for it is woken at once.";
        assert_eq!(turns, [text]);
        silent(
            &find,
            &[
                &|recording| recording.named_files[3].at_ns = [200 * MS; 2],
                &|recording| drop(recording.named_files.remove(1)),
                &|recording| recording.named_files[2].at_ns = [7 * MS; 2],
            ],
        );
    }
}

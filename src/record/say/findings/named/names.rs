//! Files that another name, or the file of a name that came too late, explains.

use crate::record::model::related_names::{NEWEST, folder_of};
use crate::record::say::findings::ends::exit_of::MAKES;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameError, NameUse, NamedFile, RecordedProcess};
use crate::util::text::clean;
use std::collections::BTreeSet;

/// `` `sed` gave the name `config/a` to a new file at 3.90 ms, and `a`, which `cat` opened at 3.03 s, is still the old one: ... ``
///
/// A hard link, a symbolic link and a mounted file all name the inode that the name had before.
pub(crate) fn other_name(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |renames: &NamedFile| {
        let opened = |file: &&NamedFile| file.error.is_none() && file.inode > 0 && file.does <= NameUse::Empties;
        let before = |file: &&NamedFile| file.is_same_place(renames) && file.at_ns[0] < renames.at_ns[0];
        let old = files.iter().filter(opened).find(before)?;
        // What a recorded process made, or gave that name, is no other name from before. A number that is free is used again.
        let is_made = |other: &NamedFile| {
            let makes =
                |does: NameUse| (NameUse::Creates..=NameUse::Renames).contains(&does) && does != NameUse::Removes;
            files.iter().any(|file| makes(file.does) && file.error.is_none() && file.is_same_place(other))
        };
        let is_old = |file: &&NamedFile| {
            (file.inode, file.device, file.size) == (old.inode, old.device, old.size)
                && file.does == NameUse::Reads
                && file.at_ns[1] > renames.at_ns[0]
                && !file.is_same_place(renames)
        };
        let other = files.iter().filter(opened).filter(is_old).find(|file| !is_made(file))?;
        let text = format!(
            "{} gave the name `{}` to a new file at {} (rename), but `{}`, which {} opened at {}, is still the old one: both were names of one \
             file, as by a link, or by a mount of the file. What replaces a file (`sed -i`, editors) leaves its other names with the old content: \
             to write into it (`cat new > file`; for a symbolic link `sed -i --follow-symlinks`), or to mount its folder, changes it for all.",
            view.name(renames.process),
            clean(&renames.path),
            after(renames.at_ns[0]),
            clean(&other.path),
            view.name(other.process),
            after(other.at_ns[1])
        );
        let finding = Finding::new(FindingKind::Renamed, [renames.process, other.process], text);
        Some(Finding { at_ns: Some(renames.at_ns[0]), ..finding })
    };
    let renames = files.iter().filter(|file| file.does == NameUse::Renames && file.error.is_none());
    renames.filter_map(found).take(1).collect()
}

/// Who fails because a file was not there ends so much later at most, ns.
const ENDS_NS: u64 = 1_000_000_000;

/// `` `cc1` did not find the folder `out` for `out/a.d` at 15.0 ms: `mkdir` made it only at 2.02 s. ``
pub(crate) fn folder_too_late(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |file: &NamedFile| {
        let (code, end) = (file.exit_code?, file.ended_ns?);
        let is_missing = file.error == Some(NameError::Missing) && file.does == NameUse::Opens;
        let folder = file.path.trim_end_matches('/').rsplit_once('/').map(|(folder, _)| folder)?;
        let place = NamedFile { path: folder.to_owned(), ..file.clone() };
        let makes = |other: &&NamedFile| {
            let is_later = other.at_ns[0] > file.at_ns[1] && other.pid != file.pid;
            other.does == NameUse::Makes && other.error.is_none() && is_later && other.is_same_place(&place)
        };
        let made = files.iter().filter(|_| is_missing && end < file.at_ns[1] + ENDS_NS).find(makes)?;
        // What one script does in turn is not of two at once; recipes of make are, unless one is a prerequisite of the other.
        let by_make = |pid: u32| {
            let line =
                std::iter::successors(view.life(pid), |life| view.life(life.parent)).take(view.document.lives.len());
            let is_make = |of: &&RecordedProcess| MAKES.contains(&of.name.as_str());
            let mut makes = view.document.recorded.iter().filter(is_make);
            let pids: BTreeSet<u32> = line.map(|life| life.pid).collect();
            makes.any(|of| of.pids.iter().any(|pid| pids.contains(pid)))
        };
        let beside = view.beside(file.pid, made.pid).is_some() || by_make(file.pid) && by_make(made.pid);
        let text = format!(
            "{name} ended with exit code {code} at {}: it did not find the folder `{folder}` for `{}` at {}, which {maker} made only at {}. What \
             needs it has to be started after that: in make, `| {folder}` behind the other prerequisites (an order-only one) waits for it.",
            after(end),
            clean(file.last_name()),
            after(file.at_ns[1]),
            after(made.at_ns[0]),
            folder = clean(folder),
            name = view.name(file.process),
            maker = view.name(made.process),
        );
        let finding = Finding::new(FindingKind::Raced, [file.process, made.process], text);
        beside.then_some(Finding { at_ns: Some(file.at_ns[1]), ..finding })
    };
    files.iter().filter_map(found).take(1).collect()
}

/// `` `cp` copied `notes.db` without `notes.db-wal`, in which `app.py` had written: ... ``
pub(crate) fn without_newest(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |newest: &NamedFile| {
        let writes = (NameUse::Writes..=NameUse::Empties).contains(&newest.does) && newest.error.is_none();
        let path = newest.path.strip_suffix(NEWEST).filter(|_| writes)?;
        let main = NamedFile { path: path.to_owned(), ..newest.clone() };
        let copies = |file: &&NamedFile| {
            let is_it = file.does == NameUse::Reads && file.error.is_none() && file.is_same_place(&main);
            // While it is there: who has the database open last writes all to that, and removes it.
            let is_gone = |other: &NamedFile| {
                other.does == NameUse::Removes && other.is_same_place(newest) && other.at_ns[0] < file.at_ns[0]
            };
            let then = file.at_ns[0] > newest.at_ns[0] && newest.ended_ns.is_none_or(|end| end > file.at_ns[0]);
            let with_it = |other: &NamedFile| other.pid == file.pid && other.path.ends_with(NEWEST);
            let name = view.document.recorded.get(file.process).map_or("", |of| of.name.as_str());
            // SQLite opens it to write, so that who only reads it beside that copies it.
            let one = file.pid == newest.pid || COPIES.contains(&name) && !files.iter().any(with_it);
            is_it && then && one && !files.iter().any(is_gone)
        };
        let copy = files.iter().find(copies)?;
        let text = format!(
            "{} copied `{name}` at {} without `{name}{NEWEST}`, where {} writes its newest changes (SQLite in WAL mode): the copy lacks them, \
             or is broken. `sqlite3 {name} \".backup copy\"` or `VACUUM INTO` make a whole one.",
            view.name(copy.process),
            after(copy.at_ns[0]),
            view.name(newest.process),
            name = clean(main.last_name()),
        );
        let finding = Finding::new(FindingKind::Raced, [copy.process, newest.process], text);
        Some(Finding { at_ns: Some(copy.at_ns[0]), ..finding })
    };
    files.iter().filter_map(found).take(1).collect()
}

/// Programs that copy files.
const COPIES: [&str; 8] = ["cp", "rsync", "tar", "scp", "cat", "dd", "gzip", "zstd"];

/// `` `inotifywait` watches what was `conf` until `sed` gave that name to another file at 2.01 s: ... ``
pub(crate) fn watched(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |watch: &NamedFile| {
        let same = files.iter().filter(|file| file.inode > 0 && file.is_same_place(watch));
        let before = same.filter(|file| file.at_ns[0] < watch.at_ns[0]).max_by_key(|file| file.at_ns[0]);
        let takes = |file: &&NamedFile| {
            // Editors rename the old file, and write a new one.
            let is_new =
                file.does == NameUse::Creates && file.inode > 0 && before.is_some_and(|of| of.inode != file.inode);
            let takes = [NameUse::Renames, NameUse::Removes].contains(&file.does);
            let is_taken = (takes || is_new) && file.error.is_none();
            is_taken && file.pid != watch.pid && file.at_ns[0] > watch.at_ns[0] && file.is_same_place(watch)
        };
        let taken = files.iter().filter(takes).min_by_key(|file| file.at_ns[0])?;
        let looks_again = files.iter().any(|file| {
            let again = file.is_same_place(watch) && file.at_ns[1] > taken.at_ns[0];
            let folder = folder_of(&watch.path);
            let whole = NamedFile { path: folder.unwrap_or_default().to_owned(), ..watch.clone() };
            file.does == NameUse::Watches && file.pid == watch.pid && (again || file.is_same_place(&whole))
        });
        let goes_on = watch.ended_ns.is_none_or(|end| end > taken.at_ns[0] + ENDS_NS);
        let code = watch.exit_code.filter(|_| !goes_on);
        let (name, file, by) = (view.name(watch.process), clean(&watch.path), view.name(taken.process));
        let at = after(taken.at_ns[0]);
        let what = match (taken.does, code) {
            (NameUse::Removes, Some(code)) => {
                format!(
                    "{name} ended with exit code {code}, because {by} removed `{file}`, which it watched (inotify), at {at}."
                )
            }
            (NameUse::Removes, None) => format!("{name} watches `{file}` (inotify), which {by} removed at {at}."),
            (_, Some(code)) => {
                format!(
                    "{name} ended with exit code {code}, because {by} gave the name `{file}`, which it watched (inotify), to another file at {at}."
                )
            }
            (NameUse::Creates, None) => {
                format!("{name} watches (inotify) what was `{file}` until {by} made another file of that name at {at}.")
            }
            (_, None) => format!(
                "{name} watches (inotify) what was `{file}` until {by} gave that name to another file (rename) at {at}."
            ),
        };
        let text = format!(
            "{what} A watch belongs to the file, not to its name: nothing that happens to a new one of that name is told. A watch of its folder \
             tells that (`close_write`, `moved_to`, `delete`)."
        );
        let finding = Finding::new(FindingKind::Renamed, [watch.process, taken.process], text);
        (!looks_again && (goes_on || code.is_some())).then_some(Finding { at_ns: Some(taken.at_ns[0]), ..finding })
    };
    let watches = files.iter().filter(|file| file.does == NameUse::Watches && file.error.is_none());
    watches.filter_map(found).take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, said, silent};
    use crate::result::{Document, ProcessLife};

    fn file(process: usize, path: &str, does: NameUse, at: u64) -> NamedFile {
        NamedFile {
            process,
            pid: process as u32 + 1,
            path: path.to_owned(),
            folder: 7,
            does,
            at_ns: [at; 2],
            ..NamedFile::default()
        }
    }

    #[test]
    fn the_old_file_of_another_name_is_said() {
        let replaced = |change: &dyn Fn(&mut Document)| {
            said(other_name, &|recording| {
                let opened =
                    |process, path, at| NamedFile { inode: 9, size: 4, ..file(process, path, NameUse::Reads, at) };
                recording.named_files =
                    vec![opened(0, "a", MS), file(0, "a", NameUse::Renames, 2 * MS), opened(1, "old/a", 3 * MS)];
                change(recording);
            })
        };
        let text = replaced(&|_| {});
        let begin = "`seq` gave the name `a` to a new file at 2.00 ms (rename), but `old/a`, which `grep` opened at 3.00 ms, is still the old one:";
        assert!(text[0].starts_with(begin), "{text:?}");
        silent(
            &replaced,
            &[
                &|recording| recording.named_files[2].inode = 8,
                &|recording| recording.named_files[2].size = 5,
                &|recording| recording.named_files[2].path = "a".to_owned(),
                &|recording| recording.named_files[2].at_ns = [MS; 2],
                &|recording| recording.named_files.push(file(1, "old/a", NameUse::Makes, 0)),
            ],
        );
    }

    #[test]
    fn a_database_that_is_copied_without_its_newest_changes_is_said() {
        let copied = |change: &dyn Fn(&mut Document)| {
            said(without_newest, &|recording| {
                recording.named_files =
                    vec![file(0, "a.db-wal", NameUse::Creates, MS), file(2, "a.db", NameUse::Reads, 2 * MS)];
                recording.recorded[2].name = "cp".to_owned();
                change(recording);
            })
        };
        let text = "`cp` copied `a.db` at 2.00 ms without `a.db-wal`, where `seq` writes its newest changes (SQLite in WAL mode): the copy lacks \
                    them, or is broken. `sqlite3 a.db \".backup copy\"` or `VACUUM INTO` make a whole one.";
        assert_eq!(copied(&|_| {}), [text]);
        silent(
            &copied,
            &[
                &|recording| recording.recorded[2].name = "sqlite3".to_owned(),
                &|recording| recording.named_files[1].at_ns = [0; 2],
                &|recording| recording.named_files[0].ended_ns = Some(MS),
                &|recording| recording.named_files.push(file(2, "a.db-wal", NameUse::Reads, 2 * MS)),
            ],
        );
    }

    #[test]
    fn a_folder_that_came_too_late_is_said() {
        let late = |change: &dyn Fn(&mut Document)| {
            said(folder_too_late, &|recording| {
                let missing = NamedFile {
                    error: Some(NameError::Missing),
                    exit_code: Some(1),
                    ended_ns: Some(2 * MS),
                    ..file(0, "out/a.d", NameUse::Opens, MS)
                };
                recording.named_files = vec![missing, file(1, "out", NameUse::Makes, 3 * MS)];
                let life = |pid: u32| ProcessLife { pid, lived_ns: [0, 4 * MS], ..ProcessLife::default() };
                recording.lives = [1, 2].map(life).to_vec();
                change(recording);
            })
        };
        let text = "`seq` ended with exit code 1 at 2.00 ms: it did not find the folder `out` for `a.d` at 1.00 ms, which `grep` made only at 3.00 \
                    ms. What needs it has to be started after that: in make, `| out` behind the other prerequisites (an order-only one) waits for \
                    it.";
        assert_eq!(late(&|_| {}), [text]);
        silent(
            &late,
            &[
                &|recording| recording.named_files[0].exit_code = None,
                &|recording| recording.named_files[1].at_ns = [0; 2],
                &|recording| recording.named_files[1].path = "other".to_owned(),
                &|recording| recording.named_files[0].error = None,
                &|recording| recording.lives[1].lived_ns = [4 * MS, 5 * MS],
            ],
        );
    }

    #[test]
    fn a_watch_of_a_file_that_was_replaced_is_said() {
        let watches = |change: &dyn Fn(&mut Document)| {
            said(watched, &|recording| {
                recording.named_files =
                    vec![file(0, "conf", NameUse::Watches, MS), file(1, "conf", NameUse::Renames, 2 * MS)];
                change(recording);
            })
        };
        let tail = " A watch belongs to the file, not to its name: nothing that happens to a new one of that name is told. A watch of its folder \
                    tells that (`close_write`, `moved_to`, `delete`).";
        let begin =
            "`seq` watches (inotify) what was `conf` until `grep` gave that name to another file (rename) at 2.00 ms.";
        assert_eq!(watches(&|_| {}), [format!("{begin}{tail}")]);
        // Editors rename the old one, and write another one.
        let written = |inode: u64| {
            watches(&|recording| {
                (recording.named_files[1].does, recording.named_files[1].inode) = (NameUse::Creates, inode);
                recording.named_files.push(NamedFile { inode: 5, ..file(2, "conf", NameUse::Reads, MS / 2) });
            })
        };
        let begin = "`seq` watches (inotify) what was `conf` until `grep` made another file of that name at 2.00 ms.";
        assert_eq!(written(6), [format!("{begin}{tail}")]);
        assert!(written(5).is_empty(), "it is the same");
        let removed = watches(&|recording| {
            recording.named_files[1].does = NameUse::Removes;
            (recording.named_files[0].exit_code, recording.named_files[0].ended_ns) = (Some(1), Some(3 * MS));
        });
        let begin =
            "`seq` ended with exit code 1, because `grep` removed `conf`, which it watched (inotify), at 2.00 ms.";
        assert_eq!(removed, [format!("{begin}{tail}")]);
        silent(
            &watches,
            &[
                &|recording| recording.named_files[0].ended_ns = Some(3 * MS),
                &|recording| recording.named_files[1].at_ns = [0; 2],
                &|recording| recording.named_files[0].at_ns = [MS, 3 * MS],
                &|recording| recording.named_files.push(file(0, ".", NameUse::Watches, MS)),
                &|recording| recording.named_files[1].pid = 1,
            ],
        );
    }
}

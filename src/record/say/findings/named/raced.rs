//! What goes wrong because several use the name of a file or a socket: who overwrites what another one has just written, who comes
//! too early or too late, and what somebody has left.

use crate::record::say::findings::ends::answers::is_answer;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameError, NameUse, NamedFile, RecordedProcess};
use crate::util::text::{clean, grouped};

/// A process that fails because of a name ends so much later at most, ns.
const ENDS_NS: u64 = 1_000_000_000;
/// Less is only said to be short, ns.
const JUST_NS: u64 = 1_000_000;
/// What is there so much later at most was only not there yet, ns.
const SOON_NS: u64 = 5_000_000_000;

/// `` Process 12 overwrites what process 11 has written to `tasks.json`: ... ``
pub(crate) fn lost_update(view: &FindingView<'_>) -> Vec<Finding> {
    update_found(view).into_iter().collect()
}

fn update_found(view: &FindingView<'_>) -> Option<Finding> {
    let files: Vec<&NamedFile> = view.document.named_files.iter().filter(|file| file.error.is_none()).collect();
    let replaces = |file: &NamedFile| matches!(file.does, NameUse::Empties | NameUse::Renames);
    // A part of a shell, as `$(...)`, reads for it, and a program that it starts renames for it.
    let actors = |file: &NamedFile| [file.pid, view.life(file.pid).map_or(0, |life| life.parent)];
    let all: Vec<&NamedFile> =
        files.iter().copied().filter(|file| file.does == NameUse::Reads && file.size > 0).collect();
    let read = |actor: u32, written: &NamedFile, other: &NamedFile| {
        let reads = all
            .iter()
            .filter(|file| file.pid != other.pid && actors(file).contains(&actor) && file.is_same_place(written));
        reads.map(|reads| reads.at_ns[1]).filter(|at| *at < written.at_ns[0]).max()
    };
    // What had started both did not read for one of them, and who waits for the other one knows.
    let updates = |file: &NamedFile, other: &NamedFile| {
        let [own, parent] = actors(file);
        let parent = Some(parent).filter(|parent| view.beside(*parent, other.pid).is_some());
        [Some(own), parent].into_iter().flatten().filter_map(|actor| read(actor, file, other)).max()
    };
    let is_shell_of = |file: &NamedFile| view.document.recorded.get(file.process).is_some_and(|of| of.is_shell());
    let (first, second, read) = files.iter().filter(|file| replaces(file)).find_map(|second| {
        files.iter().copied().find_map(|first| {
            let is_between = first.pid != second.pid && first.at_ns[1] < second.at_ns[0];
            if !replaces(first) || !is_between || !first.is_same_place(second) {
                return None;
            }
            // What it had started itself, it has waited for.
            if view.life(first.pid).is_some_and(|life| life.parent == second.pid && is_shell_of(second)) {
                return None;
            }
            let read = updates(second, first).filter(|read| *read < first.at_ns[0])?;
            updates(first, second)?;
            Some((first, *second, read))
        })
    })?;
    let text = format!(
        "{} overwrites what {} has written to `{}` {} before: it had read the file at {}, when that was not in it yet. A lock \
         around reading and writing, in both (`flock`), keeps both changes.",
        one_of(view, second, first),
        one_of(view, first, second),
        clean(second.last_name()),
        after(second.at_ns[0] - first.at_ns[1]),
        after(read)
    );
    Some(Finding::new(FindingKind::Overwritten, [second.process, first.process], text))
}

/// The name of the process; with its id if that of another one is the same.
fn one_of(view: &FindingView<'_>, file: &NamedFile, other: &NamedFile) -> String {
    let name = view.name(file.process);
    if view.name(other.process) == name { format!("{name} (process {})", file.pid) } else { name }
}

/// Fewer times, it may have been removed.
const IN_VAIN: u64 = 3;

/// `` 54 of 120 renames of `server` to `list` found nothing to rename (ENOENT): ... ``
pub(crate) fn renames_in_vain(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let failed = files.iter().filter(|file| {
        file.does == NameUse::Renames && file.error == Some(NameError::Missing) && file.calls >= IN_VAIN
    });
    let found = failed.filter_map(|file| {
        // The name that the file was to get.
        let other = files.iter().find(|other| {
            let is_it = other.does == NameUse::Renames && other.error.is_none() && other.pid == file.pid;
            is_it && other.calls >= IN_VAIN && other.is_same_place(file)
        })?;
        let threads = view.document.recorded.get(file.process).is_some_and(|process| process.threads > 1);
        let all = file.calls + other.calls;
        let text = format!(
            "{} of {} renames of {} to `{}` found nothing to rename (ENOENT): another thread of it had renamed that file before, so both wrote \
             to one, which is a mix. Each needs a temporary file with a name of its own (`mkstemp`).",
            grouped(file.calls),
            grouped(all),
            view.name(file.process),
            clean(file.last_name())
        );
        let finding = Finding::new(FindingKind::Raced, [file.process], text);
        threads.then_some(Finding { count: Some(file.calls), of: Some(all), ..finding })
    });
    found.take(1).collect()
}

/// `` `mkdir` ended with exit code 1, because it could not create `d`: ... ``
pub(crate) fn raced(view: &FindingView<'_>) -> Vec<Finding> {
    race_found(view).into_iter().collect()
}

fn race_found(view: &FindingView<'_>) -> Option<Finding> {
    let files = &view.document.named_files;
    // Where all went well in the end, what a shell or `grep` found out was what it was asked for.
    let well = !view.document.exit_codes.is_empty() && view.document.exit_codes.iter().all(|code| *code == 0);
    let asked = |file: &&NamedFile| {
        let process = view.document.recorded.get(file.process);
        process.zip(file.exit_code).is_some_and(|(process, code)| {
            is_answer(process, code) || file.does == NameUse::Looks && process.is_shell()
        })
    };
    let ends = |file: &&NamedFile| {
        let soon = file.ended_ns.is_some_and(|end| end.saturating_sub(file.at_ns[1]) < ENDS_NS);
        let fails = file.error.is_some() && !file.is_of_sqlite();
        fails && file.does != NameUse::Connects && file.exit_code.is_some() && soon
    };
    // One that tries again later is prepared for it.
    let tries = |failed: &&NamedFile| {
        let again = |other: &NamedFile| {
            let [one, second] = [view.life(failed.pid), view.life(other.pid)];
            one.zip(second).is_some_and(|(one, second)| {
                let apart = one.lived_ns[1] <= second.lived_ns[0] || second.lived_ns[1] <= one.lived_ns[0];
                other.process == failed.process && one.parent == second.parent && apart
            })
        };
        // So is who made it itself, or used it when it was there.
        let later =
            |other: &NamedFile| other.pid == failed.pid && other.error.is_none() && other.at_ns[1] > failed.at_ns[1];
        !files.iter().any(|other| (again(other) || later(other)) && other.is_same_place(failed))
    };
    let mut failed: Vec<&NamedFile> =
        files.iter().filter(ends).filter(tries).filter(|file| !well || !asked(file)).collect();
    // Who only looks may be prepared for both.
    failed.sort_by_key(|file| (file.error == Some(NameError::Missing), file.does == NameUse::Looks));
    failed.into_iter().find_map(|failed| race_of(view, failed, well))
}

const APART: &str = "A folder for each (`mktemp -d`), or one after the other, keeps them apart";

/// Who waits for a file looks so often.
const POLLS: u64 = 5;

/// Why the use of a name failed, if another process that lived at the same time is the reason.
/// `well`: all has ended with exit code 0.
fn race_of(view: &FindingView<'_>, failed: &NamedFile, well: bool) -> Option<Finding> {
    let at = failed.at_ns[1];
    let others: Vec<(&NamedFile, u64)> = {
        let beside = |by: &NamedFile| view.beside(failed.pid, by.pid).map(|[own, _]| own.lived_ns[0]);
        let used = view.document.named_files.iter().filter(|by| by.error.is_none());
        used.filter_map(|by| Some((by, beside(by)?))).collect()
    };
    let makes = |by: &NamedFile| by.does > NameUse::Writes && by.does != NameUse::Removes;
    let removes = |by: &NamedFile| by.does == NameUse::Removes;
    let made = || {
        let made = others.iter().filter(|(by, _)| makes(by) && by.is_same_place(failed)).map(|(by, _)| *by);
        made.filter(|by| by.at_ns[0] < at).max_by_key(|by| by.at_ns[0])
    };
    let (by, could, why, remedy) = match failed.error? {
        NameError::Missing => {
            let within = |by: &NamedFile| failed.path.starts_with(&format!("{}/", by.path.trim_end_matches('/')));
            // It began before that: it could not know.
            let gone = others.iter().filter(|(by, begun)| removes(by) && (*begun..at).contains(&by.at_ns[1]));
            let gone = gone.map(|(by, _)| *by).filter(|by| by.is_same_place(failed) || within(by));
            if let Some(by) = gone.max_by_key(|by| by.at_ns[1]) {
                let what = if by.is_same_place(failed) { "it".to_owned() } else { format!("`{}`", clean(&by.path)) };
                let why = format!("{} had removed {what} {}", one_of(view, by, failed), before(at - by.at_ns[1]));
                (by, "did not find", why, APART)
            } else {
                // Without it, all went well; or it had gone on without it before, and did not wait for it.
                let went_on = failed.calls < POLLS && at - failed.at_ns[0] > ENDS_NS;
                if well && failed.exit_code == Some(1) || went_on {
                    return None;
                }
                let later = others.iter().map(|(by, _)| *by).filter(|by| makes(by) && by.is_same_place(failed));
                let by = later.filter(|by| (at..at + SOON_NS).contains(&by.at_ns[0])).min_by_key(|by| by.at_ns[0])?;
                let why = format!("{} created it {} that", one_of(view, by, failed), later_by(by.at_ns[0] - at));
                (by, "did not find", why, "Create it before both are started, or wait until it is there")
            }
        }
        NameError::Exists => {
            let by = made()?;
            let is_lock = |gone: &NamedFile| removes(gone) && gone.at_ns[1] > by.at_ns[0] && gone.is_same_place(by);
            // A lock is meant to be there only once.
            if failed.is_of_lock() || view.document.named_files.iter().any(is_lock) {
                return None;
            }
            let why = format!("{} had created it {}", one_of(view, by, failed), before(at - by.at_ns[0]));
            let folders = [failed, by].iter().all(|file| file.does == NameUse::Makes);
            let remedy = if folders {
                "`mkdir -p` does not mind, and a name for each (`mktemp -d`) keeps them apart"
            } else {
                "A name for each (`mktemp`) keeps them apart"
            };
            (by, "could not create", why, remedy)
        }
        NameError::NotEmpty => {
            let within = format!("{}/", failed.path.trim_end_matches('/'));
            let filled = others.iter().map(|(by, _)| *by).filter(|by| makes(by) && by.path.starts_with(&within));
            let by = filled.filter(|by| by.at_ns[0] < at).max_by_key(|by| by.at_ns[0])?;
            let (who, name) = (one_of(view, by, failed), clean(by.last_name()));
            let why = format!("{who} had created `{name}` in it {}", before(at - by.at_ns[0]));
            (by, "could not remove", why, APART)
        }
        NameError::Refused | NameError::InUse | NameError::Denied => return None,
    };
    let text = format!(
        "{} ended with exit code {} after it {could} `{}` at {}: {why}. {remedy}.",
        one_of(view, failed, by),
        failed.exit_code?,
        clean(&failed.path),
        after(at)
    );
    Some(Finding { at_ns: Some(at), ..Finding::new(FindingKind::Raced, [failed.process, by.process], text) })
}

/// `` `client` ended with exit code 1 after it was refused at port 80 at 12.3 ms: ... ``
pub(crate) fn not_listening_yet(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |failed: &NamedFile| {
        let soon = failed.ended_ns?.saturating_sub(failed.at_ns[1]) < ENDS_NS;
        let is_refused = failed.does == NameUse::Connects && failed.error.is_some();
        let at = failed.at_ns[1];
        let there = |does: NameUse| {
            let mut found =
                files.iter().filter(move |by| by.does == does && by.error.is_none() && by.is_same_place(failed));
            found.next()
        };
        // Others of its script have tried, too, or will: it is a loop.
        let tries = |other: &&NamedFile| {
            other.does == NameUse::Connects
                && other.error.is_some()
                && other.is_same_place(failed)
                && other.process == failed.process
        };
        // Who was accepted is in no list, but has the same starter.
        let tries_again = |(of, other): (usize, &RecordedProcess)| {
            let own = &view.document.recorded[failed.process];
            let later = other.pids.len() > 1 || other.begin_ns > failed.at_ns[1];
            other.name == own.name
                && other.started_by == own.started_by
                && later
                && (of != failed.process || other.pids.len() > 1)
        };
        if files.iter().filter(tries).count() > 1 || view.document.recorded.iter().enumerate().any(tries_again) {
            return None;
        }
        let (listens, binds) = (there(NameUse::Listens), there(NameUse::Binds));
        let by = listens.or(binds).filter(|by| is_refused && soon && by.pid != failed.pid)?;
        let who = one_of(view, by, failed);
        let why = match listens {
            Some(listens) if listens.at_ns[0] < at => return None,
            Some(listens) => format!("{who} listened there {} that", later_by(listens.at_ns[0] - at)),
            None if by.at_ns[0] < at => format!("{who} had that address (`bind`), but did not listen yet"),
            None => format!("{who} got that address {} that, and did not listen yet", later_by(by.at_ns[0] - at)),
        };
        let place =
            if failed.path.starts_with("port ") { failed.path.clone() } else { format!("`{}`", clean(&failed.path)) };
        let text = format!(
            "{} ended with exit code {} after it was refused at {place} at {}: {why}. It has to try again until it is accepted, for a \
             limited time.",
            one_of(view, failed, by),
            failed.exit_code?,
            after(at)
        );
        Some(Finding { at_ns: Some(at), ..Finding::new(FindingKind::Raced, [failed.process, by.process], text) })
    };
    files.iter().find_map(found).into_iter().collect()
}

/// `just before`, `38.7 ms before`.
fn before(ns: u64) -> String {
    if ns < JUST_NS { "just before".to_owned() } else { format!("{} before", after(ns)) }
}

/// `just after`, `38.7 ms after`.
fn later_by(ns: u64) -> String {
    if ns < JUST_NS { "just after".to_owned() } else { format!("only {} after", after(ns)) }
}

/// `` `sync` found `sync.pid` at 12.3 ms, and then ended: ... ``
pub(crate) fn left_lock(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |file: &NamedFile| {
        let pid = file.left_by?;
        let ended = file.ended_ns.filter(|end| end.saturating_sub(file.at_ns[1]) < ENDS_NS)?;
        let writes = |other: &NamedFile| other.pid == file.pid && other.does > NameUse::Reads && other.error.is_none();
        // Who reads it may ask whether that process runs.
        let asks = file.does == NameUse::Looks && file.error.is_none() || file.error == Some(NameError::Exists);
        // Who is given it by name does something else with it.
        let given = view.document.recorded.get(file.process).is_some_and(|process| process.args.contains(&file.path));
        if !asks || given || file.exit_code.is_none() || files.iter().any(writes) {
            return None;
        }
        let text = format!(
            "{} found `{}` at {}, and ended {} later. That file has the id {pid}, and no process has this id: who wrote it ended without \
             removing the file. A lock by `flock` is released when its process ends, however it ends.",
            view.name(file.process),
            clean(&file.path),
            after(file.at_ns[1]),
            after(ended.saturating_sub(file.at_ns[1]))
        );
        Some(Finding { at_ns: Some(file.at_ns[1]), ..Finding::new(FindingKind::LeftLock, [file.process], text) })
    };
    files.iter().find_map(found).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, RecordingChange, lives, said_after, silent, used};
    use crate::result::{Document, ProcessLife};

    fn failed(mut file: NamedFile, error: NameError) -> NamedFile {
        (file.error, file.exit_code, file.ended_ns) = (Some(error), Some(1), Some(file.at_ns[1] + MS));
        NamedFile { inode: 0, ..file }
    }

    #[test]
    fn a_temporary_file_of_several_threads_is_said() {
        let renames = |change: RecordingChange<'_>| {
            said_after(
                renames_in_vain,
                &|recording| {
                    recording.recorded[0].threads = 3;
                    let renames = NamedFile { calls: 66, ..used(0, NameUse::Renames, 1) };
                    let failed = NamedFile { calls: 54, error: Some(NameError::Missing), ..renames.clone() };
                    recording.named_files = vec![renames, failed];
                },
                change,
            )
        };
        let text = "54 of 120 renames of `seq` to `f` found nothing to rename (ENOENT): another thread of it had renamed that file before, so \
                    both wrote to one, which is a mix. Each needs a temporary file with a name of its own (`mkstemp`).";
        assert_eq!(renames(&|_| {}), [text]);
        silent(
            &renames,
            &[
                &|recording| recording.recorded[0].threads = 1,
                &|recording| recording.named_files[1].calls = 2,
                &|recording| recording.named_files[0].pid = 9,
            ],
        );
    }

    #[test]
    fn a_change_that_another_one_overwrites_is_said() {
        let before: RecordingChange<'_> = &|recording| {
            recording.named_files = vec![
                used(0, NameUse::Reads, 1),
                used(1, NameUse::Reads, 2),
                used(0, NameUse::Empties, 3),
                used(1, NameUse::Renames, 5),
            ];
        };
        let find = |change: RecordingChange<'_>| said_after(lost_update, before, change);
        let text = "`grep` overwrites what `seq` has written to `f` 2.00 ms before: it had read the file at 2.00 ms, when that was not \
                    in it yet. A lock around reading and writing, in both (`flock`), keeps both changes.";
        assert_eq!(find(&|_| {}), [text]);
        // `n=$(cat f)`, in two parts of a shell.
        let by_children: RecordingChange<'_> = &|recording| {
            lives(recording);
            (recording.lives[0].parent, recording.lives[1].parent) = (9, 9);
            for (pid, parent) in [(11, 1), (12, 2)] {
                recording.lives.push(ProcessLife { pid, parent, ..ProcessLife::default() });
            }
            (recording.named_files[0].pid, recording.named_files[1].pid) = (11, 12);
        };
        assert_eq!(find(by_children), [text]);
        silent(
            &find,
            &[
                &|recording| {
                    by_children(recording);
                    recording.lives[4].parent = 9;
                },
                &|recording| recording.named_files[1].at_ns = [4 * MS; 2],
                &|recording| recording.named_files[1].size = 0,
                &|recording| recording.named_files[3].path = "/t/g".to_owned(),
                &|recording| recording.named_files[2].pid = 2,
                &|recording| recording.named_files[3].does = NameUse::Creates,
                &|recording| drop(recording.named_files.remove(0)),
            ],
        );
    }

    #[test]
    fn who_comes_too_early_or_too_late_is_said() {
        let after = |failed: NamedFile, by: NamedFile, change: RecordingChange<'_>| {
            let before = |recording: &mut Document| {
                lives(recording);
                (recording.named_files, recording.exit_codes) = (vec![failed.clone(), by.clone()], vec![1]);
            };
            said_after(raced, &before, change)
        };
        let missing = |does| failed(used(1, does, 50), NameError::Missing);
        let text = |failed: NamedFile, by: NamedFile| after(failed, by, &|_| {}).concat();
        let said = text(missing(NameUse::Looks), used(0, NameUse::Creates, 60));
        let start = "`grep` ended with exit code 1 after it did not find `/t/f` at 50.0 ms: ";
        assert!(
            said.starts_with(&format!("{start}`seq` created it only 10.0 ms after that. Create it before ")),
            "{said}"
        );
        let said = text(missing(NameUse::Opens), used(0, NameUse::Removes, 20));
        assert!(said.starts_with(&format!("{start}`seq` had removed it 30.0 ms before. A folder for each ")), "{said}");
        let folder = NamedFile { path: "/t".to_owned(), ..used(0, NameUse::Removes, 20) };
        assert!(text(missing(NameUse::Opens), folder).contains(" had removed `/t` 30.0 ms before"));
        let exists = failed(used(1, NameUse::Makes, 50), NameError::Exists);
        let said = text(exists.clone(), NamedFile { at_ns: [50 * MS - 1; 2], ..used(0, NameUse::Makes, 0) });
        assert!(
            said.contains(" after it could not create `/t/f` at 50.0 ms: `seq` had created it just before."),
            "{said}"
        );
        let not_empty =
            failed(NamedFile { path: "/t".to_owned(), ..used(1, NameUse::Removes, 50) }, NameError::NotEmpty);
        let said = text(not_empty, used(0, NameUse::Empties, 40));
        assert!(
            said.contains(" could not remove `/t` at 50.0 ms: `seq` had created `f` in it 10.0 ms before. "),
            "{said}"
        );
        let find = |change: RecordingChange<'_>| after(exists.clone(), used(0, NameUse::Makes, 40), change);
        assert_eq!(find(&|_| {}).len(), 1);
        let silent_after: [RecordingChange<'_>; 11] = [
            &|recording| recording.named_files[0].exit_code = None,
            &|recording| recording.named_files[0].ended_ns = Some(2000 * MS),
            &|recording| recording.named_files[1].pid = 2,
            &|recording| recording.named_files[1].path = "/t/g".to_owned(),
            &|recording| recording.named_files[1].at_ns = [55 * MS; 2],
            &|recording| recording.named_files[1].does = NameUse::Removes,
            &|recording| (recording.exit_codes, recording.recorded[1].exit_code) = (vec![0], Some(1)),
            &|recording| recording.lives[0].parent = 2,
            &|recording| recording.lives[1].parent = 1,
            &|recording| (recording.lives[0].lived_ns[1], recording.lives[1].lived_ns[0]) = (45 * MS, 46 * MS),
            &|recording| recording.named_files.push(used(0, NameUse::Removes, 60)),
        ];
        silent(&find, &silent_after);
        // What began later could have looked first.
        let began = |recording: &mut Document| recording.lives[1].lived_ns[0] = 30 * MS;
        assert!(after(missing(NameUse::Opens), used(0, NameUse::Removes, 20), &began).is_empty());
        let tries = |recording: &mut Document| {
            let again = NamedFile { pid: 9, ..used(1, NameUse::Reads, 70) };
            recording.lives.push(ProcessLife { pid: 9, ..ProcessLife::default() });
            recording.named_files.push(again);
        };
        assert!(after(missing(NameUse::Opens), used(0, NameUse::Creates, 60), &tries).is_empty());
    }

    #[test]
    fn who_does_not_listen_yet_is_said() {
        let port = |file: NamedFile| NamedFile { path: "port 80".to_owned(), ..file };
        let before: RecordingChange<'_> = &|recording| {
            recording.named_files = vec![
                port(failed(used(1, NameUse::Connects, 50), NameError::Refused)),
                port(used(0, NameUse::Binds, 40)),
                port(used(0, NameUse::Listens, 60)),
            ];
        };
        let find = |change: RecordingChange<'_>| said_after(not_listening_yet, before, change);
        let text = "`grep` ended with exit code 1 after it was refused at port 80 at 50.0 ms: `seq` listened there only 10.0 ms after \
                    that. It has to try again until it is accepted, for a limited time.";
        assert_eq!(find(&|_| {}), [text]);
        let bound = find(&|recording| drop(recording.named_files.pop()));
        assert!(bound[0].contains(": `seq` had that address (`bind`), but did not listen yet. "), "{bound:?}");
        let changes: [RecordingChange<'_>; 4] = [
            &|recording| recording.named_files[2].at_ns = [45 * MS; 2],
            &|recording| recording.named_files[0].exit_code = None,
            &|recording| recording.named_files[0].path = "port 81".to_owned(),
            &|recording| recording.named_files[0].ended_ns = Some(2000 * MS),
        ];
        silent(&find, &changes);
    }

    #[test]
    fn a_lock_of_a_process_that_has_ended_is_said() {
        let before: RecordingChange<'_> = &|recording| {
            let path = "/t/f.pid".to_owned();
            let ended_ns = Some(52 * MS);
            let looks = used(1, NameUse::Looks, 50);
            recording.named_files = vec![NamedFile { path, ended_ns, left_by: Some(99), exit_code: Some(1), ..looks }];
        };
        let find = |change: RecordingChange<'_>| said_after(left_lock, before, change);
        let text = "`grep` found `/t/f.pid` at 50.0 ms, and ended 2.00 ms later. That file has the id 99, and no process has this \
                    id: who wrote it ended without removing the file. A lock by `flock` is released when its process ends, however it \
                    ends.";
        assert_eq!(find(&|_| {}), [text]);
        silent(
            &find,
            &[
                &|recording| recording.named_files[0].left_by = None,
                &|recording| recording.named_files[0].ended_ns = None,
                &|recording| recording.named_files[0].exit_code = None,
                &|recording| recording.recorded[1].args = vec!["tar".to_owned(), "/t/f.pid".to_owned()],
                &|recording| recording.named_files[0].does = NameUse::Reads,
                &|recording| recording.named_files.push(used(1, NameUse::Creates, 51)),
            ],
        );
    }
}

//! What goes wrong because several use the name of a file: who empties what is to be read, who overwrites what another one has just
//! written, and who comes too early or too late.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameError, NameUse, NamedFile, RecordedChannel};
use crate::util::text::clean;
use std::collections::BTreeSet;

/// A process that fails because of a name ends so much later at most, ns.
const ENDS_NS: u64 = 200_000_000;
/// Less is only said to be short, ns.
const JUST_NS: u64 = 1_000_000;
/// What is there so much later at most was only not there yet, ns.
const SOON_NS: u64 = 2_000_000_000;

/// `` `jq` reads `in.json` when it is empty: ... ``
pub(crate) fn own_input(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let read = |read: &&NamedFile| read.does == NameUse::Reads && read.error.is_none();
    let of_file = |one: &NamedFile, other: &NamedFile| (one.inode, one.device) == (other.inode, other.device);
    let mut found: Vec<Finding> = Vec::new();
    for empties in files.iter().filter(|file| file.does == NameUse::Empties && file.error.is_none()) {
        for reads in files.iter().filter(read).filter(|reads| of_file(reads, empties)) {
            let new = found.iter().all(|known| known.processes.first() != Some(&reads.process));
            let own = reads.own_output && reads.size == 0;
            let by = if own { Some(empties.process) } else { empties_input(view, empties, reads) };
            found.extend(by.filter(|_| new).map(|by| own_input_found(view, reads, by, own)));
        }
    }
    found
}

fn own_input_found(view: &FindingView<'_>, reads: &NamedFile, by: usize, own: bool) -> Finding {
    let (reader, file) = (view.name(reads.process), clean(reads.last_name()));
    let lost = if own {
        format!(
            "{reader} reads `{file}`, which the shell has emptied before it starts {reader}, because the output goes there, too \
             (`>{file}`): what was in it is lost"
        )
    } else {
        let by = view.name(by);
        format!("{reader} reads `{file}`, which {by} empties in the same pipeline: what is not read by then is lost")
    };
    let text = format!("{lost}. Another file that is renamed afterwards, or `sponge`, keeps it.");
    Finding::new(FindingKind::OwnInput, [reads.process, by], text)
}

/// The process that empties a file, or the program that got it as its output, if what is read goes to it through pipes.
fn empties_input(view: &FindingView<'_>, empties: &NamedFile, reads: &NamedFile) -> Option<usize> {
    if reads.pid == empties.pid {
        return None;
    }
    let rows = view.document.recorded.iter().enumerate().filter(|(_, process)| process.pids.contains(&empties.pid));
    // One that started what reads does so for something else.
    let mut to = rows.map(|(at, _)| at).filter(|at| *at != reads.process);
    to.find(|at| {
        let end = view.document.recorded[*at].end_ns;
        reads.at_ns[0] < end && feeders(view, *at, end).contains(&reads.process)
    })
}

/// Those whose output goes to a process through pipes.
fn feeders(view: &FindingView<'_>, at: usize, end: u64) -> BTreeSet<usize> {
    let mut before = BTreeSet::from([at]);
    loop {
        let reads = view.readers().filter(|(_, _, end)| before.contains(&end.process));
        let more: BTreeSet<usize> = reads.flat_map(|(_, pipe, _)| writers(view, pipe, end)).collect();
        if more.is_subset(&before) {
            before.remove(&at);
            return before;
        }
        before.extend(more);
    }
}

/// Who writes a pipe. If nothing was ever written, all that could have: who wrote to no pipe, and began before `end` (ns). A
/// program whose input `tee` has emptied already has nothing to write.
fn writers<'a>(
    view: &'a FindingView<'_>,
    pipe: &'a RecordedChannel,
    end: u64,
) -> impl Iterator<Item = usize> + use<'a> {
    let silent = move |at: &usize| {
        pipe.writers.is_empty()
            && pipe.other_writers.is_empty()
            && view.document.recorded[*at].begin_ns < end
            && view.writers().all(|(_, _, end)| end.process != *at)
    };
    let silent = (0..view.document.recorded.len()).filter(silent);
    pipe.writers.iter().map(|end| end.process).chain(silent)
}

/// `` Process 12 overwrites what process 11 has written to `tasks.json`: ... ``
pub(crate) fn lost_update(view: &FindingView<'_>) -> Vec<Finding> {
    update_found(view).into_iter().collect()
}

fn update_found(view: &FindingView<'_>) -> Option<Finding> {
    let files: Vec<&NamedFile> = view.document.named_files.iter().filter(|file| file.error.is_none()).collect();
    let replaces = |file: &NamedFile| matches!(file.does, NameUse::Empties | NameUse::Renames);
    // Reads before the other one writes, and writes after it.
    let updates = |second: &&NamedFile| {
        let before = |file: &&&NamedFile| {
            file.pid == second.pid && file.does == NameUse::Reads && file.is_same_place(second) && file.size > 0
        };
        files.iter().find(before).map(|reads| reads.at_ns[1])
    };
    let (first, second, read) = files.iter().filter(|file| replaces(file)).find_map(|second| {
        let read = updates(second)?;
        let lost = |first: &&&NamedFile| {
            replaces(first)
                && first.pid != second.pid
                && first.is_same_place(second)
                && read < first.at_ns[0]
                && first.at_ns[1] < second.at_ns[0]
                && updates(first).is_some_and(|read| read < first.at_ns[0])
        };
        Some((*files.iter().find(lost)?, *second, read))
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

/// `` `mkdir` ended with exit code 1, because it could not create `d`: ... ``
pub(crate) fn raced(view: &FindingView<'_>) -> Vec<Finding> {
    race_found(view).into_iter().collect()
}

fn race_found(view: &FindingView<'_>) -> Option<Finding> {
    let files = &view.document.named_files;
    // Who only looks may be prepared for both.
    let rank = |file: &&NamedFile| (file.error == Some(NameError::Missing), file.does == NameUse::Looks);
    let ends = |file: &&NamedFile| {
        let soon = file.ended_ns.is_some_and(|end| end.saturating_sub(file.at_ns[1]) < ENDS_NS);
        file.error.is_some() && file.does != NameUse::Connects && file.exit_code.is_some() && soon
    };
    let mut failed: Vec<&NamedFile> = files.iter().filter(ends).collect();
    failed.sort_by_key(rank);
    failed.into_iter().find_map(|failed| {
        let other = |by: &&NamedFile| {
            by.pid != failed.pid && by.error.is_none() && !is_started_by(view, by.process, failed.process)
        };
        let by = files.iter().filter(other);
        let at = failed.at_ns[1];
        let makes = |by: &&NamedFile| by.does > NameUse::Writes && by.does != NameUse::Removes;
        let (by, why, remedy) = match failed.error? {
            NameError::Missing => {
                // It runs already when another one removes the file, or its folder: it could not know.
                let begun = view.document.recorded.get(failed.process)?.begin_ns;
                let removes = |by: &&NamedFile| {
                    let there = by.is_same_place(failed) || failed.path.starts_with(&format!("{}/", by.path));
                    by.does == NameUse::Removes && there && (begun..at).contains(&by.at_ns[1])
                };
                let makes_later = |by: &&NamedFile| {
                    makes(by) && by.is_same_place(failed) && (at..at + SOON_NS).contains(&by.at_ns[0])
                };
                if let Some(by) = by.clone().filter(removes).max_by_key(|by| by.at_ns[1]) {
                    let what =
                        if by.is_same_place(failed) { "it".to_owned() } else { format!("`{}`", clean(&by.path)) };
                    let why = format!("{} had removed {what} {}", one_of(view, by, failed), before(at - by.at_ns[1]));
                    (by, why, "A folder of its own for each (`mktemp -d`), or one after the other, keeps them apart")
                } else {
                    let by = by.clone().filter(makes_later).min_by_key(|by| by.at_ns[0])?;
                    let why = format!("{} created it {} that", one_of(view, by, failed), later(by.at_ns[0] - at));
                    (by, why, "Create it before both are started, or wait until it is there")
                }
            }
            NameError::Exists => {
                let made = |by: &&NamedFile| makes(by) && by.is_same_place(failed) && by.at_ns[0] < at;
                let by = by.clone().filter(made).max_by_key(|by| by.at_ns[0])?;
                let why = format!("{} had created it {}", one_of(view, by, failed), before(at - by.at_ns[0]));
                (by, why, "Let one of them create it, use `mkdir -p`, or a name of its own for each (`mktemp -d`)")
            }
            NameError::Refused => return None,
            NameError::NotEmpty => {
                let within = format!("{}/", failed.path.trim_end_matches('/'));
                let filled = |by: &&NamedFile| makes(by) && by.path.starts_with(&within) && by.at_ns[0] < at;
                let by = by.clone().filter(filled).max_by_key(|by| by.at_ns[0])?;
                let why = format!(
                    "{} had created `{}` in it {}",
                    one_of(view, by, failed),
                    clean(by.last_name()),
                    before(at - by.at_ns[0])
                );
                (by, why, "A folder of its own for each (`mktemp -d`), or one after the other, keeps them apart")
            }
        };
        let could = match failed.error? {
            NameError::Missing => "did not find",
            NameError::Exists => "could not create",
            NameError::NotEmpty => "could not remove",
            NameError::Refused => return None,
        };
        let text = format!(
            "{} ended with exit code {} after it {could} `{}` at {}: {why}. {remedy}.",
            one_of(view, failed, by),
            failed.exit_code?,
            clean(&failed.path),
            after(at)
        );
        Some(Finding { at_ns: Some(at), ..Finding::new(FindingKind::Raced, [failed.process, by.process], text) })
    })
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
        let (listens, binds) = (there(NameUse::Listens), there(NameUse::Binds));
        let by = listens.or(binds).filter(|by| is_refused && soon && by.pid != failed.pid)?;
        let who = one_of(view, by, failed);
        let why = match listens {
            Some(listens) if listens.at_ns[0] < at => return None,
            Some(listens) => format!("{who} listened there {} that", later(listens.at_ns[0] - at)),
            None if by.at_ns[0] < at => format!("{who} had that address (`bind`), but did not listen yet"),
            None => format!("{who} got that address {} that, and did not listen yet", later(by.at_ns[0] - at)),
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
fn later(ns: u64) -> String {
    if ns < JUST_NS { "just after".to_owned() } else { format!("only {} after", after(ns)) }
}

/// Whether a process, or one before it, was started by another one.
fn is_started_by(view: &FindingView<'_>, process: usize, starter: usize) -> bool {
    let recorded = &view.document.recorded;
    let before = |at: &usize| recorded.get(*at)?.started_by.filter(|before| before != at);
    std::iter::successors(before(&process), before).take(recorded.len()).any(|at| at == starter)
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
        if !asks || files.iter().any(writes) {
            return None;
        }
        let text = format!(
            "{} found `{}` at {}, and ended {} later. Process {pid}, whose id that file has, did not run any more: it had ended \
             without removing the file. A lock of the file (`flock`) ends with its process.",
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
    use crate::record::say::findings::tests::{RecordingChange, said_after, silent};
    use crate::result::Document;

    const MS: u64 = 1_000_000;

    /// `f`, used by one of `seq | grep | cat`, whose ids are 1 to 3.
    fn used(process: usize, does: NameUse, at: u64) -> NamedFile {
        NamedFile {
            process,
            pid: process as u32 + 1,
            path: "/t/f".to_owned(),
            does,
            at_ns: [at * MS; 2],
            inode: 7,
            size: 9,
            calls: 1,
            ..NamedFile::default()
        }
    }

    fn failed(mut file: NamedFile, error: NameError) -> NamedFile {
        (file.error, file.exit_code, file.ended_ns) = (Some(error), Some(1), Some(file.at_ns[1] + MS));
        NamedFile { inode: 0, ..file }
    }

    #[test]
    fn what_is_emptied_before_it_is_read_is_said() {
        let before: RecordingChange<'_> = &|recording| {
            recording.named_files = vec![used(2, NameUse::Empties, 1), used(0, NameUse::Reads, 2)];
        };
        let find = |change: RecordingChange<'_>| said_after(own_input, before, change);
        let text = "`seq` reads `f`, which `cat` empties in the same pipeline: what is not read by then is lost. Another file that \
                    is renamed afterwards, or `sponge`, keeps it.";
        assert_eq!(find(&|_| {}), [text]);
        assert_eq!(find(&|recording| recording.named_files.reverse()), [text], "who is first does not matter");
        let own: RecordingChange<'_> = &|recording| {
            (recording.named_files[0].process, recording.named_files[0].pid) = (1, 2);
            (recording.named_files[1].own_output, recording.named_files[1].size) = (true, 0);
        };
        let text = &find(own)[0];
        assert!(text.starts_with("`seq` reads `f`, which the shell has emptied before it starts `seq`, "), "{text}");
        silent(
            &find,
            &[
                &|recording| recording.named_files[1].inode = 8,
                &|recording| recording.named_files[0].does = NameUse::Creates,
                &|recording| recording.named_files[1].process = 2,
                &|recording| recording.recorded[2].end_ns = MS,
                &|recording| recording.channels[1].readers.clear(),
                &|recording| {
                    own(recording);
                    recording.named_files[1].size = 9;
                    recording.channels[0].readers.clear();
                },
                &|recording| {
                    own(recording);
                    recording.named_files[1].own_output = false;
                    recording.channels[0].readers.clear();
                },
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
        silent(
            &find,
            &[
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
            said_after(raced, &|recording| recording.named_files = vec![failed.clone(), by.clone()], change)
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
        assert!(
            said.starts_with(&format!("{start}`seq` had removed it 30.0 ms before. A folder of its own ")),
            "{said}"
        );
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
        let silent_after: [RecordingChange<'_>; 7] = [
            &|recording| recording.named_files[0].exit_code = None,
            &|recording| recording.named_files[0].ended_ns = Some(900 * MS),
            &|recording| recording.named_files[1].pid = 2,
            &|recording| recording.named_files[1].path = "/t/g".to_owned(),
            &|recording| recording.named_files[1].at_ns = [55 * MS; 2],
            &|recording| recording.named_files[1].does = NameUse::Removes,
            &|recording| recording.recorded[0].started_by = Some(1),
        ];
        silent(&find, &silent_after);
        // What began later could have looked first.
        let began = |recording: &mut Document| recording.recorded[1].begin_ns = 30 * MS;
        assert!(after(missing(NameUse::Opens), used(0, NameUse::Removes, 20), &began).is_empty());
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
            &|recording| recording.named_files[0].ended_ns = Some(900 * MS),
        ];
        silent(&find, &changes);
    }

    #[test]
    fn a_lock_of_a_process_that_has_ended_is_said() {
        let before: RecordingChange<'_> = &|recording| {
            let path = "/t/f.pid".to_owned();
            let ended_ns = Some(52 * MS);
            recording.named_files =
                vec![NamedFile { path, ended_ns, left_by: Some(99), ..used(1, NameUse::Looks, 50) }];
        };
        let find = |change: RecordingChange<'_>| said_after(left_lock, before, change);
        let text = "`grep` found `/t/f.pid` at 50.0 ms, and ended 2.00 ms later. Process 99, whose id that file has, did not run any \
                    more: it had ended without removing the file. A lock of the file (`flock`) ends with its process.";
        assert_eq!(find(&|_| {}), [text]);
        silent(
            &find,
            &[
                &|recording| recording.named_files[0].left_by = None,
                &|recording| recording.named_files[0].ended_ns = None,
                &|recording| recording.named_files[0].does = NameUse::Reads,
                &|recording| recording.named_files.push(used(1, NameUse::Creates, 51)),
            ],
        );
    }
}

//! Files whose parts are overwritten, and such as have no name any more.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameError, NameUse, NamedFile, RecordedProcess, RecordedStream};
use crate::util::text::{clean, counted, grouped};
use std::collections::BTreeMap;

/// What all processes that share an open file wrote to it.
struct Opened<'a> {
    first: &'a RecordedStream,
    bytes: u64,
    range: [u64; 2],
    moved_ns: [u64; 2],
    /// Each call began where the one before had ended.
    goes_on: bool,
}

/// `` `sh` and `tee` write `log` at the same time, and `sh` does not append: they overwrite each other, ... ``
pub(crate) fn overwritten(view: &FindingView<'_>) -> Vec<Finding> {
    let mut files: BTreeMap<(u64, u32), BTreeMap<(u64, usize), Opened<'_>>> = BTreeMap::new();
    // The kernel gives a later opening the address of one that was closed.
    let openings = |stream: &RecordedStream| {
        let opens = view.document.named_files.iter().filter(|file| file.inode == stream.inode && file.error.is_none());
        let writes = opens.filter(|file| (NameUse::Writes..=NameUse::Empties).contains(&file.does));
        writes.filter(|file| file.at_ns[0] <= stream.moved_ns[0]).count()
    };
    for stream in view.document.streams.iter().filter(|stream| stream.writes) {
        let key = (stream.opened, openings(stream));
        let opened = files.entry((stream.inode, stream.device)).or_default().entry(key);
        let known = opened.or_insert(Opened {
            first: stream,
            bytes: 0,
            range: stream.range,
            moved_ns: stream.moved_ns,
            goes_on: true,
        });
        known.bytes += stream.bytes;
        known.range = both(known.range, stream.range);
        known.moved_ns = both(known.moved_ns, stream.moved_ns);
        known.goes_on &= stream.appends || stream.moves == 0;
    }
    // One that is emptied again and again is written anew by each.
    let emptied = |stream: &RecordedStream| {
        let empties = view.document.named_files.iter().filter(|file| file.does == NameUse::Empties);
        empties.filter(|file| file.last_name() == stream.file).map(|file| file.calls).sum::<u64>()
    };
    let written = files.values().map(|opened| opened.values().collect::<Vec<_>>());
    let written = written.filter(|opened| opened.iter().all(|of| emptied(of.first) <= opened.len() as u64));
    written.filter_map(|opened| overwritten_found(view, &opened)).collect()
}

fn both(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0].min(other[0]), one[1].max(other[1])]
}

fn overlap(one: [u64; 2], other: [u64; 2]) -> bool {
    one[0] < other[1] && other[0] < one[1]
}

fn overwritten_found(view: &FindingView<'_>, opened: &[&Opened<'_>]) -> Option<Finding> {
    let pairs = opened.iter().enumerate().flat_map(|(at, one)| opened[..at].iter().map(move |other| [*one, *other]));
    let lost = |[one, other]: &[&Opened<'_>; 2]| {
        let range = both(one.range, other.range);
        (one.bytes + other.bytes).saturating_sub(range[1] - range[0])
    };
    let renames_in_vain = |file: &NamedFile| file.does == NameUse::Renames && file.error == Some(NameError::Missing);
    let is_temporary = view.document.named_files.iter().any(renames_in_vain);
    let is_lost = |pair: &[&Opened<'_>; 2]| {
        let [one, other] = pair;
        let at_once = overlap(one.moved_ns, other.moved_ns) && overlap(one.range, other.range);
        let places = [one, other].iter().any(|opened| !opened.first.appends);
        // Another file can get the number of one that was deleted.
        let same = one.first.file == other.first.file;
        // Who wrote on in an emptied file did not overwrite it; but that each empties a temporary file is the fault.
        let emptied = [one, other].iter().any(|opened| opened.first.hole.is_some());
        let once = [one, other].iter().any(|opened| opened.first.calls < 2);
        let written_on = emptied && !is_temporary && once;
        same && at_once && places && !written_on && one.goes_on && other.goes_on && lost(pair) > 0
    };
    let pair = pairs.filter(is_lost).max_by_key(lost)?;
    let mut streams = pair.map(|opened| opened.first);
    streams.sort_by_key(|stream| (stream.appends, stream.moved_ns));
    let [one, other] = streams;
    let (name, second) = (view.name(one.process), view.name(other.process));
    let (who, both) = if one.process == other.process {
        let several = if opened.len() > 2 { "several" } else { "two" };
        (format!("{name} writes `{}` by {several} openings of it", clean(&one.file)), "neither".to_owned())
    } else {
        let both = if other.appends { format!("{name} does not") } else { "neither".to_owned() };
        (format!("{name} and {second} write `{}` at the same time", clean(&one.file)), both)
    };
    let appends = if both == "neither" { "neither appends" } else { "append" };
    let why = if both == "neither" { appends.to_owned() } else { format!("{both} {appends}") };
    let bytes = pair.iter().map(|opened| opened.bytes).sum::<u64>();
    let files = || view.document.named_files.iter();
    // Who renames what it has written means a file of its own.
    let renamed = files().find(|file| {
        let own = file.does == NameUse::Renames && [one.process, other.process].contains(&file.process);
        own && file.error == Some(NameError::Missing)
    });
    let emptied = files().filter(|file| file.does == NameUse::Empties && file.last_name() == one.file);
    let times: u64 = emptied.map(|file| file.calls).sum();
    let words = |stream: &RecordedStream| view.document.recorded.get(stream.process).map(|process| &process.args);
    let same_command = one.process != other.process && words(one) == words(other);
    let remedy = match renamed {
        Some(_) => format!(
            "{} times, it was emptied to be written anew, and one process renames it away from the others: it is a temporary file, of \
             which each process needs one with a name of its own (`mktemp`, the process id in its name).",
            grouped(times)
        ),
        None if one.block >= BUFFER => format!(
            "{}ne at a time (a lock around it, `flock`), or a file with a name of its own for each, keeps both.",
            if same_command { "It is the same command twice: o" } else { "O" }
        ),
        None => {
            "To append (O_APPEND: `>>`, `\"a\"`) by all of them keeps all; each line by one write keeps lines whole."
                .to_owned()
        }
    };
    let text = format!(
        "{who}, and {why}: they overwrite each other, so that {} of {} are lost. {remedy}",
        grouped(lost(&pair)),
        counted(bytes, "byte")
    );
    let finding = Finding::new(FindingKind::Overwritten, [one.process, other.process], text);
    Some(Finding { bytes: Some(lost(&pair)), ..finding })
}

/// Who writes so much at once, bytes, does not write line by line.
const BUFFER: u64 = 32_768;

/// Who writes to a removed file for so long at most before it ends was about to, ns.
const ENDING_NS: u64 = 100_000_000;

/// `` `node` goes on writing to `app.log`, which `rm` removed at 1.51 s: ... ``
pub(crate) fn deleted(view: &FindingView<'_>) -> Vec<Finding> {
    let found = |stream: &RecordedStream| {
        let [bytes, at] = stream.deleted?;
        // What is removed as the last thing, as by who cleans up, is still written by who is ended with it.
        let is_ended = |of: &RecordedProcess| of.signal.is_some() || of.got_signal.is_some();
        let process = view.document.recorded.get(stream.process);
        let ends = process.is_some_and(|of| is_ended(of) && of.end_ns < at + ENDING_NS);
        if ends && stream.moved_ns[0] < at {
            return None;
        }
        let files = &view.document.named_files;
        let own = |file: &&NamedFile| file.pid == stream.pid && file.inode == stream.inode && file.error.is_none();
        let opened = files.iter().find(own);
        let is_removed = |file: &&NamedFile, opened: &NamedFile| {
            // What had the name before was another file.
            let later = file.at_ns[0] >= opened.at_ns[0] && file.at_ns[0] <= at;
            let gone = matches!(file.does, NameUse::Removes | NameUse::Renames) && later;
            gone && file.error.is_none() && file.is_same_place(opened)
        };
        let by = opened.and_then(|opened| files.iter().rfind(|file| is_removed(file, opened)));
        let again = |opened: &NamedFile| {
            let new = |file: &NamedFile| file.does > NameUse::Reads && file.error.is_none() && file.at_ns[1] > at;
            files.iter().any(|file| file.pid == stream.pid && new(file) && file.is_same_place(opened))
        };
        // Who removes its own file needs no name, and who opens it again knows.
        if by.is_some_and(|by| by.pid == stream.pid) || opened.is_some_and(again) {
            return None;
        }
        let how = by.map_or_else(
            || "which was removed before".to_owned(),
            |by| {
                let how = if by.does == NameUse::Renames { "replaced" } else { "removed" };
                format!("which {} {how} at {}", view.name(by.process), after(by.at_ns[0]))
            },
        );
        let text = format!(
            "{} goes on writing to `{}`, {how}: since then, {} went to a file that has no name, and nobody finds them. It has to \
             open it again, as many programs do after SIGHUP or SIGUSR1; or empty the file instead of removing it.",
            view.name(stream.process),
            clean(&stream.file),
            counted(bytes, "byte")
        );
        let processes = [Some(stream.process), by.map(|by| by.process)];
        let finding = Finding::new(FindingKind::Deleted, processes.into_iter().flatten(), text);
        Some(Finding { bytes: Some(bytes), at_ns: Some(at), ..finding })
    };
    view.document.streams.iter().filter_map(found).collect()
}

/// `` `truncate` emptied `app.log` at 1.01 s, but `python3` wrote on where it was: the file begins with 36,540 zero bytes. ``
pub(crate) fn hole(view: &FindingView<'_>) -> Vec<Finding> {
    let found = |stream: &RecordedStream| {
        let hole = stream.hole?;
        // A process that has executed something else has a row for each; one that is emptied again and again is no log.
        let executed = |process: &RecordedProcess| process.execs > 0 && process.pids.contains(&hole.emptied_by);
        let by = view.document.recorded.iter().rposition(executed);
        let mut others = view.document.streams.iter().filter(|other| {
            other.writes
                && (other.inode, other.device) == (stream.inode, stream.device)
                && other.opened != stream.opened
        });
        let writes_anew = others.clone().any(|other| other.pid == hole.emptied_by);
        // Where both write on, they overwrite each other.
        let goes_on = |other: &RecordedStream| other.pid == hole.emptied_by && other.calls > 1;
        if others.clone().any(goes_on) {
            return None;
        }
        others.all(|other| other.pid == hole.emptied_by).then_some(())?;
        let zeros = counted(hole.bytes, "zero byte");
        let so = if writes_anew {
            format!(
                "what was in it is lost ({zeros} there now). If both open it to append (O_APPEND: `>>`, `\"a\"`, `tee -a`), all is kept."
            )
        } else {
            format!(
                "the file begins with {zeros} now. What is opened to append (O_APPEND: `>>`, `\"a\"`) is always written at the end."
            )
        };
        let who = by.map_or_else(|| "another process".to_owned(), |by| view.name(by));
        let text = format!(
            "{who} emptied `{}` at {}, but {} wrote on at its old position: {so}",
            clean(&stream.file),
            after(hole.at_ns),
            view.name(stream.process)
        );
        let finding = Finding::new(FindingKind::Hole, [Some(stream.process), by].into_iter().flatten(), text);
        Some(Finding { bytes: Some(hole.bytes), at_ns: Some(hole.at_ns), ..finding })
    };
    view.document.streams.iter().filter_map(found).take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{Document, FileHole};

    type Change = dyn Fn(&mut [RecordedStream; 2]);

    fn stream(process: usize, opened: u64, bytes: u64) -> RecordedStream {
        RecordedStream {
            process,
            opened,
            file: "log".to_owned(),
            writes: true,
            calls: 10,
            bytes,
            range: [0, bytes],
            moved_ns: [0, WINDOW],
            ..RecordedStream::default()
        }
    }

    fn two(change: &Change) -> Vec<String> {
        said(overwritten, &|recording: &mut Document| {
            let mut streams = [stream(0, 1, 100), RecordedStream { appends: true, ..stream(1, 2, 900) }];
            change(&mut streams);
            recording.streams = streams.to_vec();
        })
    }

    #[test]
    fn bytes_that_are_overwritten_are_said() {
        let text = "`seq` and `grep` write `log` at the same time, and `seq` does not append: they overwrite each other, so that 100 \
                    of 1,000 bytes are lost. To append (O_APPEND: `>>`, `\"a\"`) by all of them keeps all; each line by one write keeps lines whole.";
        assert_eq!(two(&|_| {}), [text]);
        assert!(two(&|streams| streams[1].appends = false)[0].contains("and neither appends: they"));
        let runs = two(&|streams| (streams[0].block, streams[1].block) = (32_768, 32_768));
        assert!(runs[0].contains("It is the same command twice: one at a time"), "{runs:?}");
        let anew = said(hole, &|recording: &mut Document| {
            let hole = Some(FileHole { bytes: 9, emptied_by: 2, at_ns: 1 });
            let other = RecordedStream { pid: 2, ..stream(1, 2, 900) };
            recording.streams = vec![RecordedStream { hole, ..stream(0, 1, 100) }, other];
        });
        assert!(anew.is_empty(), "both write on: {anew:?}");
    }

    #[test]
    fn what_keeps_apart_is_not() {
        let silent: [&Change; 7] = [
            &|streams| streams[0].appends = true,
            &|streams| streams[0].opened = 2,
            &|streams| streams[0].inode = 9,
            &|streams| {
                (streams[0].file, streams[1].moved_ns) = ("sedaGEJ8o".to_owned(), [0, WINDOW]);
            },
            &|streams| streams[0].moved_ns = [0, 10],
            &|streams| streams[0].range = [900, 1000],
            &|streams| streams[0].moves = 1,
        ];
        for (at, change) in silent.into_iter().enumerate() {
            let found = two(&|streams| {
                streams[1].moved_ns = [20, WINDOW];
                change(streams);
            });
            assert!(found.is_empty(), "{at}: {found:?}");
        }
    }

    #[test]
    fn an_opening_that_has_the_address_of_another_one_is_not_the_same() {
        let of = |emptied: &[u64]| {
            said(overwritten, &|recording: &mut Document| {
                let at = |at: u64, opened| RecordedStream { moved_ns: [at, at + 5], ..stream(0, opened, 100) };
                recording.streams = vec![at(0, 1), at(10, 2), at(20, 1)];
                let empties = |at: &u64| NamedFile { does: NameUse::Empties, at_ns: [*at; 2], ..NamedFile::default() };
                recording.named_files = emptied.iter().map(empties).collect();
            })
        };
        assert_eq!(of(&[]).len(), 1);
        assert!(of(&[0, 9, 19]).is_empty());
    }

    #[test]
    fn what_goes_to_a_file_without_a_name_is_said() {
        let opens = NamedFile { pid: 1, path: "/t/log".to_owned(), does: NameUse::Creates, ..NamedFile::default() };
        let text = |uses: &[&NamedFile]| {
            said(deleted, &|recording: &mut Document| {
                recording.streams =
                    vec![RecordedStream { pid: 1, deleted: Some([72, 2_000_000]), ..stream(0, 1, 100) }];
                recording.named_files = [&opens].into_iter().chain(uses.iter().copied()).cloned().collect();
            })
        };
        let does = NameUse::Removes;
        let removes = NamedFile { process: 1, pid: 2, does, at_ns: [1_500_000; 2], inode: 9, ..opens.clone() };
        let [said] = &text(&[&removes])[..] else { panic!() };
        let start = "`seq` goes on writing to `log`, which `grep` removed at 1.50 ms: since then, 72 bytes went to ";
        assert!(said.starts_with(start), "{said}");
        let of_other = NamedFile { path: "/u/log".to_owned(), ..removes.clone() };
        assert!(text(&[&of_other])[0].contains("`log`, which was removed before: "));
        assert!(text(&[&NamedFile { pid: 1, ..removes.clone() }]).is_empty(), "its own file");
        let again = NamedFile { at_ns: [0, 3_000_000], calls: 2, ..opens.clone() };
        assert!(text(&[&removes, &again]).is_empty(), "it opens it again");
    }

    #[test]
    fn a_temporary_file_of_several_is_said() {
        let file = |does: NameUse, error: Option<NameError>| NamedFile {
            path: "log".to_owned(),
            does,
            error,
            calls: 12,
            ..NamedFile::default()
        };
        let found = said(overwritten, &|recording: &mut Document| {
            recording.streams = vec![stream(0, 1, 100), stream(0, 2, 900)];
            recording.named_files =
                vec![file(NameUse::Renames, Some(NameError::Missing)), file(NameUse::Empties, None)];
            recording.named_files[1].calls = 2;
        });
        assert!(
            found[0].contains("it is a temporary file, of which each process needs one with a name of its own"),
            "{found:?}"
        );
    }

    #[test]
    fn a_hole_in_a_file_that_was_emptied_is_said() {
        let hole = |others: bool| {
            said(hole, &|recording: &mut Document| {
                recording.streams = vec![stream(0, 1, 100)];
                recording.streams.extend(others.then(|| stream(1, 2, 100)));
                recording.streams[0].hole = Some(FileHole { bytes: 36_540, emptied_by: 2, at_ns: 1_010_000_000 });
                recording.recorded[1].execs = 1;
            })
        };
        let text = "`grep` emptied `log` at 1.01 s, but `seq` wrote on at its old position: the file begins with 36,540 zero bytes now. What \
                    is opened to append (O_APPEND: `>>`, `\"a\"`) is always written at the end.";
        assert_eq!(hole(false), [text]);
        assert!(hole(true).is_empty(), "who writes it anew each time");
    }
}

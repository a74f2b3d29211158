//! Files that get another content or another name while others use them.

use crate::record::say::findings::ends::answers::is_answer;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameUse, NamedFile, RecordedProcess, RecordedStream};
use crate::util::text::{clean, counted, grouped};

/// Who writes on for so long after its file got another name does not only end, ns.
const ON_NS: u64 = 300_000_000;

/// A file that is written anew only so often may be so once, when it begins.
const ANEW: u64 = 2;

/// `` `app.sh` writes on to what was `app.log` until 1.02 s, when `mv` gave that name to another file: ... ``
pub(crate) fn writes_on(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |stream: &RecordedStream| {
        let is_own = |file: &&NamedFile| file.pid == stream.pid && file.error.is_none() && file.inode == stream.inode;
        let writes = |does: NameUse| (NameUse::Writes..=NameUse::Empties).contains(&does);
        let opened = files.iter().filter(is_own).find(|file| writes(file.does))?;
        let replaces = |file: &&NamedFile| {
            let other = writes(file.does) && file.inode != stream.inode || file.does == NameUse::Renames;
            other && file.error.is_none() && file.is_same_place(opened) && file.at_ns[0] > opened.at_ns[1]
        };
        let by = files.iter().filter(replaces).min_by_key(|file| file.at_ns[0])?;
        let last = stream.moved_ns[1];
        let again = files.iter().any(|file| {
            file.pid == stream.pid && file.is_same_place(opened) && writes(file.does) && file.at_ns[1] > by.at_ns[0]
        });
        let begins = stream.moved_ns[0] < by.at_ns[0];
        if again || !begins || by.pid == stream.pid || last < by.at_ns[0] + ON_NS {
            return None;
        }
        let (name, file) = (view.name(stream.process), clean(opened.last_name()));
        let text = format!(
            "{name} writes on to what was `{file}` until {}, when {} gave that name to another file: what it wrote since then, until {}, is \
             not in `{file}`. After a rotation, it has to open its log again (a signal, `postrotate`), or the rotation has to copy the log \
             and to empty it (`copytruncate`).",
            after(by.at_ns[0]),
            view.name(by.process),
            after(last)
        );
        let finding = Finding::new(FindingKind::Renamed, [stream.process, by.process], text);
        Some(Finding { at_ns: Some(by.at_ns[0]), ..finding })
    };
    view.document.streams.iter().filter(|stream| stream.writes).find_map(found).into_iter().collect()
}

/// `` `daemon.py (4712)` removed `app.log.1` at 2.16 s, which `daemon.py (4711)` had just made of its log (rename): ... ``
pub(crate) fn rotated_by_several(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let is = |file: &&NamedFile, does: NameUse| file.does == does && file.error.is_none();
    let found = |first: &NamedFile| {
        let later =
            |file: &&NamedFile| file.pid != first.pid && file.at_ns[0] > first.at_ns[0] && file.is_same_place(first);
        let removed = files.iter().filter(later).find(|file| is(file, NameUse::Removes))?;
        let own = |file: &&NamedFile| file.pid == removed.pid && file.at_ns[0] > removed.at_ns[0];
        files.iter().filter(later).filter(own).find(|file| is(file, NameUse::Renames))?;
        let all = &view.document.recorded;
        let same = all.get(first.process)?.program() == all.get(removed.process)?.program();
        // Both write the file of which that is an older part.
        let writes = |pid: u32| {
            let written =
                move |file: &&NamedFile| file.pid == pid && (NameUse::Writes..=NameUse::Empties).contains(&file.does);
            files.iter().filter(written)
        };
        let both = writes(first.pid).any(|log| {
            let is_part = first.path.len() > log.path.len() && first.path.starts_with(&log.path);
            is_part && writes(removed.pid).any(|other| other.is_same_place(log))
        });
        let [own, other] = [removed, first].map(|file| view.name_of_one(file.process, file.pid));
        let (own, other) = (own?, other?);
        let name = clean(first.last_name());
        let text = format!(
            "{own} removed `{name}` at {}, which {other} had made by a rename at {}, and gave that name to a file of its own: what \
             was in the first one is lost, and what the others still write there as well. Only one process may rotate a file and the others open \
             it again, or each has its own.",
            after(removed.at_ns[0]),
            after(first.at_ns[0]),
        );
        let finding = Finding::new(FindingKind::Deleted, [removed.process, first.process], text);
        (same && both).then_some(Finding { at_ns: Some(removed.at_ns[0]), ..finding })
    };
    files.iter().filter(|file| is(file, NameUse::Renames)).find_map(found).into_iter().collect()
}

/// `` `kvexpress` empties `hosts` before it writes it anew (300 times), and 11 of 226 that opened it found it empty: ... ``
pub(crate) fn found_empty(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |empties: &NamedFile| {
        let meanwhile = |file: &&NamedFile| {
            let is_it = (file.inode, file.device) == (empties.inode, empties.device) && file.pid != empties.pid;
            let is_read = file.does == NameUse::Reads && file.at_ns[1] > empties.at_ns[0] && file.error.is_none();
            // What it has started itself comes after that.
            is_it && is_read && !view.with_starters(file.process).any(|of| of == empties.process)
        };
        let all = || files.iter().filter(meanwhile);
        let (empty, opened) = (all().filter(|file| file.size == 0).count() as u64, all().count() as u64);
        let text = format!(
            "{} empties `{}` before it writes it anew ({} times), and {} of {} processes that opened it meanwhile found it empty: they get \
             nothing, or a part. Another file, which gets that name when it is complete (`mv`, `rename`), is never seen so.",
            view.name(empties.process),
            clean(empties.last_name()),
            grouped(empties.calls),
            grouped(empty),
            grouped(opened)
        );
        let finding = Finding::new(FindingKind::Raced, [empties.process], text);
        (empty > 0 && empty < opened).then_some(Finding { count: Some(empty), of: Some(opened), ..finding })
    };
    let anew = |file: &&NamedFile| file.does == NameUse::Empties && file.error.is_none() && file.calls >= ANEW;
    files.iter().filter(anew).find_map(found).into_iter().collect()
}

/// So many bytes of a name are known of the file that a process read last.
const READ_NAME: usize = 31;

/// `` `python3 reader.py` stands at byte 14,504 of `app.log`, which `bash` emptied at 3.53 s: ... ``
pub(crate) fn emptied_under(view: &FindingView<'_>) -> Vec<Finding> {
    let found = |(at, process): (usize, &RecordedProcess)| {
        let read = process.last_read.as_ref().filter(|read| read.bytes > read.size)?;
        let empties = |file: &&NamedFile| {
            let is_it = file.does == NameUse::Empties && file.error.is_none() && file.process != at;
            let is_cut = read.file.len() >= READ_NAME;
            is_it && (file.last_name() == read.file || is_cut && file.last_name().starts_with(&read.file))
        };
        let by = view.document.named_files.iter().filter(empties).max_by_key(|file| file.at_ns[1])?;
        let text = format!(
            "{} stands at byte {} of `{}`, which {} emptied at {} ({} in it since then): its reads get the end of the file, and what is written there now is not read. \
             It has to notice that the file is shorter (`fstat`) and begin anew, as `tail -F` does.",
            view.name(at),
            grouped(read.bytes),
            clean(&read.file),
            view.name(by.process),
            after(by.at_ns[1]),
            counted(read.size, "byte"),
        );
        let finding = Finding::new(FindingKind::Hole, [at, by.process], text);
        Some(Finding { bytes: Some(read.size), of: Some(read.bytes), at_ns: Some(by.at_ns[1]), ..finding })
    };
    view.document.recorded.iter().enumerate().find_map(found).into_iter().collect()
}

/// Who fails because of what it has read ends so much later at most, ns.
const ENDS_NS: u64 = 1_000_000_000;

/// `` `build b` ended with exit code 1 after it had opened `cache/12`, while `build a` still wrote that: ... ``
pub(crate) fn read_half(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |file: &NamedFile| {
        let (code, end) = (file.exit_code?, file.ended_ns?);
        let process = view.document.recorded.get(file.process)?;
        let opened = file.at_ns[1];
        let is_read = file.does == NameUse::Reads && file.error.is_none() && end < opened + ENDS_NS;
        let writes = |stream: &&RecordedStream| {
            let is_it = (stream.inode, stream.device) == (file.inode, file.device) && stream.pid != file.pid;
            is_it
                && stream.writes
                && (stream.moved_ns[0]..stream.moved_ns[1]).contains(&opened)
                && file.size < stream.range[1]
        };
        let stream = view.document.streams.iter().find(writes).filter(|_| is_read && !is_answer(process, code))?;
        if view.with_starters(file.process).any(|of| of == stream.process) {
            return None;
        }
        let writer = view.name(stream.process);
        let text = format!(
            "{} ended with exit code {code} at {}, after it had opened `{}` at {}, while {writer} still wrote that: {} of {} were in it by then. \
             If {writer} writes to another file, which gets that name when it is complete (`rename`), nobody reads a part.",
            view.name(file.process),
            after(end),
            clean(file.last_name()),
            after(opened),
            grouped(file.size),
            counted(stream.range[1], "byte")
        );
        let finding = Finding::new(FindingKind::Raced, [file.process, stream.process], text);
        Some(Finding { at_ns: Some(opened), bytes: Some(file.size), of: Some(stream.range[1]), ..finding })
    };
    files.iter().rev().find_map(found).into_iter().collect()
}

/// Who writes on for so long after another one has copied its file had not finished it, ns.
const UNFINISHED_NS: u64 = 100_000_000;

/// `` `watch.py` copied 80,016 bytes of `scan.pdf` at 1.53 s, while `scanner` still wrote that: ... ``
pub(crate) fn copied_part(view: &FindingView<'_>) -> Vec<Finding> {
    let (files, streams) = (&view.document.named_files, &view.document.streams);
    let found = |file: &NamedFile| {
        let (opened, end) = (file.at_ns[1], file.ended_ns?);
        let goes_on = |stream: &&RecordedStream| {
            (stream.inode, stream.device) == (file.inode, file.device)
                && stream.pid != file.pid
                && stream.writes
                && stream.moved_ns[0] < opened
                && stream.moved_ns[1] > end + UNFINISHED_NS
                && stream.range[1] > file.size
        };
        let is_copy = |stream: &&RecordedStream| {
            stream.pid == file.pid && stream.writes && stream.inode != file.inode && stream.bytes == file.size
        };
        let reads = file.does == NameUse::Reads && file.error.is_none() && file.calls == 1 && file.size > 0;
        let writer = streams.iter().filter(|_| reads).find(goes_on)?;
        let copy = streams.iter().find(is_copy)?;
        let text = format!(
            "{} copied {} of `{}` to `{}` at {}, while {} still wrote that: {} more came until {}. If the writer gives a file its name when \
             it is complete (`rename`), nobody takes a part; who waits for files has to wait until they are closed (IN_CLOSE_WRITE).",
            view.name(file.process),
            counted(file.size, "byte"),
            clean(file.last_name()),
            clean(&copy.file),
            after(opened),
            view.name(writer.process),
            grouped(writer.range[1] - file.size),
            after(writer.moved_ns[1])
        );
        let finding = Finding::new(FindingKind::Raced, [file.process, writer.process], text);
        Some(Finding { at_ns: Some(opened), bytes: Some(file.size), of: Some(writer.range[1]), ..finding })
    };
    files.iter().find_map(found).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, said, silent, used};
    use crate::result::{Document, ReadFile};

    #[test]
    fn who_writes_on_to_a_file_of_another_name_is_said() {
        let on = |change: &dyn Fn(&mut Document)| {
            said(writes_on, &|recording| {
                let moved_ns = [2 * MS, 900 * MS];
                let stream = RecordedStream { pid: 1, inode: 7, writes: true, moved_ns, ..RecordedStream::default() };
                recording.streams = vec![stream];
                let renamed = NamedFile { inode: 0, ..used(1, NameUse::Renames, 400) };
                recording.named_files = vec![used(0, NameUse::Creates, 1), renamed];
                change(recording);
            })
        };
        let text = "`seq` writes on to what was `f` until 0.40 s, when `grep` gave that name to another file: what it wrote since then, \
                    until 0.90 s, is not in `f`. After a rotation, it has to open its log again (a signal, `postrotate`), or the rotation has \
                    to copy the log and to empty it (`copytruncate`).";
        assert_eq!(on(&|_| {}), [text]);
        silent(
            &on,
            &[
                &|recording| recording.streams[0].moved_ns[1] = 500 * MS,
                &|recording| recording.named_files.push(NamedFile { inode: 8, ..used(0, NameUse::Creates, 500) }),
                &|recording| recording.named_files[1].path = "/t/g".to_owned(),
                &|recording| recording.named_files[1].pid = 1,
                &|recording| recording.streams[0].moved_ns[0] = 450 * MS,
            ],
        );
    }

    #[test]
    fn several_that_rotate_one_file_are_said() {
        let rotated = |change: &dyn Fn(&mut Document)| {
            said(rotated_by_several, &|recording| {
                let uses = [(0, NameUse::Renames, 1), (1, NameUse::Removes, 2), (1, NameUse::Renames, 3)];
                let old = |file: NamedFile| NamedFile { path: format!("{}.1", file.path), ..file };
                recording.named_files = uses.map(|(process, does, at)| old(used(process, does, at))).to_vec();
                recording.named_files.splice(0..0, [used(0, NameUse::Creates, 0), used(1, NameUse::Creates, 0)]);
                recording.recorded[1].name = "seq".to_owned();
                change(recording);
            })
        };
        let text = "`seq` (process 2) removed `f.1` at 2.00 ms, which `seq` (process 1) had made by a rename at 1.00 ms, and gave that name to a file \
                    of its own: what was in the first one is lost, and what the others still write there as well. Only one process may rotate a \
                    file and the others open it again, or each has its own.";
        assert_eq!(rotated(&|_| {}), [text]);
        silent(
            &rotated,
            &[
                &|recording| recording.named_files[3].pid = 1,
                &|recording| drop(recording.named_files.pop()),
                &|recording| recording.named_files[2].at_ns = [9 * MS; 2],
                &|recording| recording.named_files[1].does = NameUse::Reads,
                &|recording| recording.recorded[1].name = "mv".to_owned(),
            ],
        );
    }

    #[test]
    fn a_file_that_was_emptied_under_its_reader_is_said() {
        let emptied = |change: &dyn Fn(&mut Document)| {
            said(emptied_under, &|recording| {
                let file = "f".to_owned();
                recording.recorded[1].last_read = Some(ReadFile { file, bytes: 14_504, size: 23 });
                recording.named_files = vec![used(0, NameUse::Empties, 300)];
                change(recording);
            })
        };
        let text = "`grep` stands at byte 14,504 of `f`, which `seq` emptied at 0.30 s (23 bytes in it since then): its reads get the end of the \
                    file, and what is written there now is not read. It has to notice that the file is shorter (`fstat`) and begin anew, as \
                    `tail -F` does.";
        assert_eq!(emptied(&|_| {}), [text]);
        let shorter = |recording: &mut Document| recording.recorded[1].last_read.as_mut().unwrap().bytes = 23;
        let other = |recording: &mut Document| recording.named_files[0].path = "/t/f.old".to_owned();
        silent(&emptied, &[&shorter, &other, &|recording| recording.named_files.clear()]);
    }

    #[test]
    fn a_file_that_is_read_before_it_is_complete_is_said() {
        let half = |change: &dyn Fn(&mut Document)| {
            said(read_half, &|recording| {
                let (moved_ns, range) = ([100 * MS, 200 * MS], [0, 6000]);
                let mut stream = RecordedStream { pid: 1, inode: 7, moved_ns, range, ..RecordedStream::default() };
                stream.writes = true;
                recording.streams = vec![stream];
                let read = NamedFile { size: 1024, exit_code: Some(1), ..used(1, NameUse::Reads, 150) };
                recording.named_files = vec![NamedFile { ended_ns: Some(250 * MS), ..read }];
                change(recording);
            })
        };
        let text = "`grep` ended with exit code 2 at 0.25 s, after it had opened `f` at 0.15 s, while `seq` still wrote that: 1,024 of 6,000 bytes \
                    were in it by then. If `seq` writes to another file, which gets that name when it is complete (`rename`), nobody reads a part.";
        let fails = |recording: &mut Document| recording.named_files[0].exit_code = Some(2);
        assert_eq!(half(&fails), [text]);
        silent(
            &half,
            &[
                &|recording| recording.named_files[0].exit_code = None,
                &|recording| (fails(recording), recording.named_files[0].at_ns = [250 * MS; 2]).1,
                &|recording| (fails(recording), recording.named_files[0].size = 6000).1,
                &|recording| (fails(recording), recording.streams[0].inode = 8).1,
            ],
        );
    }

    #[test]
    fn a_file_that_is_copied_before_it_is_complete_is_said() {
        let copied = |change: &dyn Fn(&mut Document)| {
            said(copied_part, &|recording| {
                let stream = |pid, inode, bytes, moved_ns: [u64; 2]| {
                    let file = format!("f{inode}");
                    let of =
                        RecordedStream { pid, process: pid as usize - 1, inode, bytes, file, ..Default::default() };
                    RecordedStream { writes: true, range: [0, bytes], moved_ns, ..of }
                };
                let own = stream(2, 8, 1024, [150 * MS; 2]);
                recording.streams = vec![stream(1, 7, 6000, [100 * MS, 500 * MS]), own];
                let read = NamedFile { size: 1024, ended_ns: Some(160 * MS), ..used(1, NameUse::Reads, 150) };
                recording.named_files = vec![read];
                change(recording);
            })
        };
        let text = "`grep` copied 1,024 bytes of `f` to `f8` at 0.15 s, while `seq` still wrote that: 4,976 more came until 0.50 s. If the \
                    writer gives a file its name when it is complete (`rename`), nobody takes a part; who waits for files has to wait until \
                    they are closed (IN_CLOSE_WRITE).";
        assert_eq!(copied(&|_| {}), [text]);
        silent(
            &copied,
            &[
                &|recording| recording.streams[0].moved_ns[1] = 200 * MS,
                &|recording| recording.named_files[0].ended_ns = None,
                &|recording| recording.streams[1].bytes = 1000,
                &|recording| recording.named_files[0].calls = 2,
                &|recording| recording.named_files[0].size = 6000,
            ],
        );
    }

    #[test]
    fn a_file_that_is_read_while_it_is_empty_is_said() {
        let empty = |change: &dyn Fn(&mut Document)| {
            said(found_empty, &|recording| {
                let empties = NamedFile { calls: 300, ..used(0, NameUse::Empties, 1) };
                let nothing = NamedFile { size: 0, ..used(1, NameUse::Reads, 3) };
                recording.named_files = vec![empties, used(2, NameUse::Reads, 2), nothing];
                change(recording);
            })
        };
        let text = "`seq` empties `f` before it writes it anew (300 times), and 1 of 2 processes that opened it meanwhile found it empty: they \
                    get nothing, or a part. Another file, which gets that name when it is complete (`mv`, `rename`), is never seen so.";
        assert_eq!(empty(&|_| {}), [text]);
        silent(
            &empty,
            &[
                &|recording| recording.named_files[0].calls = 1,
                &|recording| recording.named_files[2].size = 9,
                &|recording| recording.named_files[1].size = 0,
                &|recording| recording.named_files[2].inode = 8,
                &|recording| recording.recorded[1].started_by = Some(0),
            ],
        );
    }
}

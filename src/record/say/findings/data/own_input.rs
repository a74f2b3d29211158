//! A pipeline that empties the file that it reads.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameUse, NamedFile, RecordedChannel};
use crate::util::text::clean;
use std::collections::BTreeSet;

/// `` `jq` reads `in.json`, which the shell has emptied before: ... ``
pub(crate) fn own_input(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let opened = |does: NameUse| files.iter().filter(move |file| file.does == does && file.error.is_none());
    // The number of a file that was deleted can be that of another one.
    let same = |one: &NamedFile, other: &NamedFile| {
        (one.inode, one.device) == (other.inode, other.device) && one.is_same_place(other)
    };
    let mut found: Vec<(&NamedFile, Finding)> = Vec::new();
    for empties in opened(NameUse::Empties) {
        let mut all = opened(NameUse::Reads).filter(|reads| same(reads, empties));
        let own = if empties.both_ends {
            Some(program_with(view, empties))
        } else {
            all.clone().find_map(|reads| own_output(view, reads, empties))
        };
        let new = own.map(|reader| own_found(view, empties, reader));
        let new = new.or_else(|| all.find_map(|reads| emptied_by(view, reads, empties)));
        if found.iter().all(|(known, _)| !known.is_same_place(empties)) {
            found.extend(new.map(|finding| (empties, finding)));
        }
    }
    found.into_iter().map(|(_, finding)| finding).collect()
}

fn own_found(view: &FindingView<'_>, empties: &NamedFile, reader: usize) -> Finding {
    let (name, file) = (view.name(reader), clean(empties.last_name()));
    let text = format!(
        "{name} reads `{file}`, which the shell has emptied before it starts {name}, because the output goes there, too (`>{file}`): \
         what was in it is lost. {KEEPS}"
    );
    Finding::new(FindingKind::OwnInput, [reader, empties.process], text)
}

const KEEPS: &str =
    "Another file that is renamed afterwards, or `sponge` of moreutils, keeps the input until all of it is read.";

/// The program that reads a file when it is empty, if that is its standard output, too.
fn own_output(view: &FindingView<'_>, reads: &NamedFile, empties: &NamedFile) -> Option<usize> {
    if !reads.both_ends || reads.size > 0 || empties.at_ns[0] > reads.at_ns[0] {
        return None;
    }
    let reader = program_with(view, reads);
    let process = view.document.recorded.get(reader)?;
    // `md5sum * >MD5SUMS`, or `grep -r`, means others, and makes this one again. A shell opened it for its program.
    let files = process.args.iter().skip(1).filter(|word| !word.starts_with('-'));
    let is_named = files.clone().any(|word| word.ends_with(reads.last_name())) && files.count() <= FEW;
    (is_named || process.args.is_empty() || reader != reads.process || process.is_shell()).then_some(reader)
}

/// Words of a command line with one or two files.
const FEW: usize = 3;

/// The program that got an opened file: that of whoever read it as its standard input, or the last of the process that opened it.
fn program_with(view: &FindingView<'_>, file: &NamedFile) -> usize {
    let reads =
        || view.document.streams.iter().filter(|stream| !stream.writes && !stream.script && stream.inode == file.inode);
    let input = |at: &usize| reads().any(|stream| stream.process == *at);
    let all = || 0..view.document.recorded.len();
    let own = |at: &usize| view.document.recorded[*at].pids.contains(&file.pid);
    // A later one reads what is left.
    let by_itself = reads().filter(|stream| stream.pid == file.pid).map(|stream| stream.process).max();
    by_itself.or_else(|| all().rfind(input)).or_else(|| all().rfind(own)).unwrap_or(file.process)
}

/// `` `sort` reads `f`, which `tee` empties at 2.10 ms: ... ``, if what is read goes through pipes to who empties it.
fn emptied_by(view: &FindingView<'_>, reads: &NamedFile, empties: &NamedFile) -> Option<Finding> {
    let [read, emptied] = [reads.at_ns[0], empties.at_ns[0]];
    let ended = reads.ended_ns.unwrap_or(u64::MAX);
    // In the life of who reads; or before it, by one that is there at the same time, and what is read is still empty. A call that
    // empties a file can end later than others see that.
    let before = || reads.size == 0 && view.beside(empties.pid, reads.pid).is_some();
    if reads.pid == empties.pid || !((read..ended).contains(&emptied) || before()) {
        return None;
    }
    let rows =
        |pid: u32| (0..view.document.recorded.len()).filter(move |at| view.document.recorded[*at].pids.contains(&pid));
    let of_reader: BTreeSet<usize> = rows(reads.pid).collect();
    let feeds = |at: &usize| {
        let end = view.document.recorded[*at].end_ns;
        let feeders = feeders(view, *at, [read, end]);
        read < end && feeders.iter().any(|feeder| of_reader.contains(feeder))
    };
    let by = rows(empties.pid).filter(|at| !of_reader.contains(at)).find(feeds)?;
    let reader = of_reader.into_iter().next_back()?;
    let text = format!(
        "{} reads `{}`, which {} empties at {} for the output of the same pipeline: what was not read by then is lost. {KEEPS}",
        view.name(reader),
        clean(reads.last_name()),
        view.name(by),
        after(emptied)
    );
    Some(Finding { at_ns: Some(emptied), ..Finding::new(FindingKind::OwnInput, [reader, by], text) })
}

/// Those whose output goes to a process through pipes.
fn feeders(view: &FindingView<'_>, at: usize, within: [u64; 2]) -> BTreeSet<usize> {
    let mut before = BTreeSet::from([at]);
    loop {
        let reads = view.readers().filter(|(_, _, end)| before.contains(&end.process));
        let more: BTreeSet<usize> = reads.flat_map(|(_, pipe, _)| writers(view, pipe, within)).collect();
        if more.is_subset(&before) {
            before.remove(&at);
            return before;
        }
        before.extend(more);
    }
}

/// Who writes a pipe. If nothing was ever written, all that could have: who wrote to no pipe, and lived in this time (ns). A
/// program whose input was emptied already has nothing to write.
fn writers<'a>(
    view: &'a FindingView<'_>,
    pipe: &'a RecordedChannel,
    within: [u64; 2],
) -> impl Iterator<Item = usize> + use<'a> {
    let silent = move |at: &usize| {
        let process = &view.document.recorded[*at];
        pipe.writers.is_empty()
            && pipe.other_writers.is_empty()
            && process.begin_ns < within[1]
            && process.end_ns > within[0]
            && view.writers().all(|(_, _, end)| end.process != *at)
    };
    let silent = (0..view.document.recorded.len()).filter(silent);
    pipe.writers.iter().map(|end| end.process).chain(silent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, RecordingChange, lives, said_after, silent, used};
    use crate::result::RecordedStream;

    #[test]
    fn what_is_emptied_before_all_is_read_is_said() {
        let before: RecordingChange<'_> = &|recording| {
            lives(recording);
            recording.named_files = vec![used(2, NameUse::Empties, 3), used(0, NameUse::Reads, 2)];
        };
        let find = |change: RecordingChange<'_>| said_after(own_input, before, change);
        let text = "`seq` reads `f`, which `cat` empties at 3.00 ms for the output of the same pipeline: what was not read by then is \
                    lost. Another file that is renamed afterwards, or `sponge` of moreutils, keeps the input until all of it is read.";
        assert_eq!(find(&|_| {}), [text]);
        let empty: RecordingChange<'_> = &|recording| {
            (recording.named_files[1].at_ns, recording.named_files[1].size) = ([4 * MS; 2], 0);
        };
        assert_eq!(find(empty), [text], "it was emptied before it was read");
        let own: RecordingChange<'_> = &|recording| {
            empty(recording);
            (recording.named_files[0].process, recording.named_files[0].pid) = (1, 2);
            recording.named_files[1].both_ends = true;
            recording.channels[0].readers.clear();
        };
        let start = "`seq` reads `f`, which the shell has emptied before it starts `seq`, ";
        assert!(find(own)[0].starts_with(start), "{:?}", find(own));
        // `seq <f >f`: it has got the file before.
        let input: RecordingChange<'_> = &|recording| {
            recording.named_files = vec![NamedFile { pid: 1, both_ends: true, ..used(1, NameUse::Empties, 3) }];
            let stream = RecordedStream { process: 0, inode: 7, ..RecordedStream::default() };
            recording.streams = vec![stream];
        };
        assert!(find(input)[0].starts_with(start), "{:?}", find(input));
        let many: RecordingChange<'_> = &|recording| {
            own(recording);
            recording.recorded[0].args = ["seq", "a", "b", "c", "f"].map(str::to_owned).into();
        };
        let changes: [RecordingChange<'_>; 10] = [
            many,
            &|recording| recording.named_files[1].inode = 8,
            &|recording| recording.named_files[1].path = "/t/g".to_owned(),
            &|recording| recording.named_files[0].does = NameUse::Creates,
            &|recording| recording.named_files[1].ended_ns = Some(MS * 5 / 2),
            &|recording| recording.channels[1].readers.clear(),
            &|recording| {
                empty(recording);
                recording.named_files[1].size = 9;
            },
            &|recording| {
                empty(recording);
                recording.lives[0].parent = 3;
            },
            &|recording| {
                own(recording);
                recording.named_files[1].size = 9;
            },
            &|recording| {
                own(recording);
                recording.named_files[1].both_ends = false;
            },
        ];
        silent(&find, &changes);
    }
}

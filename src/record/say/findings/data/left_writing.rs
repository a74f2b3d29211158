//! Files that are read before a process that was left behind has written all of them.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameUse, NamedFile, RecordedStream};
use crate::util::text::clean;

/// What is written so long after its starter's end is what a program does that goes on on purpose, ns.
const SOON_NS: u64 = 500_000_000;

/// `` `cl.sh` ended at 1.20 s, but `sed`, which it had started, wrote `output` until 1.22 s: ... ``
pub(crate) fn left_writing(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let opened = |file: &&NamedFile| file.does == NameUse::Reads && file.error.is_none() && file.inode > 0;
    let found = files.iter().filter(opened).find_map(|file| {
        let same = |stream: &&RecordedStream| {
            stream.writes && (stream.inode, stream.device) == (file.inode, file.device) && stream.pid != file.pid
        };
        let mut streams = view.document.streams.iter().filter(same);
        streams.find_map(|stream| said(view, file, stream))
    });
    found.into_iter().collect()
}

fn said(view: &FindingView<'_>, file: &NamedFile, stream: &RecordedStream) -> Option<Finding> {
    let all = &view.document.recorded;
    let starter = all.get(stream.process)?.started_by?;
    let left = all.get(starter).filter(|process| process.execs > 0 && view.is_one(starter))?;
    let is_left = left.left.as_ref().is_some_and(|left| left.processes.contains(&stream.process));
    let [opened, last] = [file.at_ns[1], stream.moved_ns[1]];
    // Who reads it was not started by what had ended.
    let is_own = view.with_starters(file.process).any(|of| of == starter);
    let is_soon = left.end_ns < opened && opened < last && last < left.end_ns + SOON_NS;
    let again = view.document.named_files.iter().any(|other| {
        other.does == NameUse::Reads
            && other.inode == file.inode
            && other.device == file.device
            && other.at_ns[1] > last
    });
    if !is_left || is_own || !is_soon || again {
        return None;
    }
    let (name, writer, reader) = (view.name(starter), view.name(stream.process), view.name(file.process));
    let path = clean(file.last_name());
    let text = format!(
        "{name} ended at {}, but {writer}, which it had started, wrote `{path}` until {}: {reader}, which opened that at {}, can lack its end. \
         `wait` before the end of {name} makes it complete.",
        after(left.end_ns),
        after(last),
        after(opened)
    );
    let finding = Finding::new(FindingKind::NotAwaited, [starter, stream.process, file.process], text);
    Some(Finding { at_ns: Some(left.end_ns), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::LeftProcesses;

    #[test]
    fn a_file_that_is_read_too_early_is_said() {
        let read = |opened: u64, last: u64| {
            said(left_writing, &|recording| {
                let [starter, writer, _] = &mut recording.recorded[..] else { panic!() };
                (starter.execs, starter.end_ns) = (1, 100_000_000);
                starter.left = Some(LeftProcesses { count: 1, processes: [1].into(), until_ns: last });
                writer.started_by = Some(0);
                let moved_ns = [0, last];
                let stream = RecordedStream {
                    process: 1,
                    pid: 2,
                    inode: 5,
                    writes: true,
                    moved_ns,
                    ..RecordedStream::default()
                };
                recording.streams = vec![stream];
                let (path, does, at_ns) = ("a/output".to_owned(), NameUse::Reads, [opened; 2]);
                recording.named_files =
                    vec![NamedFile { process: 2, pid: 3, inode: 5, path, does, at_ns, ..NamedFile::default() }];
            })
        };
        let text = "`seq` ended at 0.10 s, but `grep`, which it had started, wrote `output` until 0.12 s: `cat`, which opened that at 0.11 s, can \
                    lack its end. `wait` before the end of `seq` makes it complete.";
        assert_eq!(read(110_000_000, 120_000_000), [text]);
        assert!(read(130_000_000, 120_000_000).is_empty(), "it was complete by then");
        assert!(
            read(90_000_000, 120_000_000).is_empty() && read(110_000_000, 900_000_000).is_empty(),
            "it goes on on purpose"
        );
    }
}

//! Several processes that write one file so that lines of one end in lines of another: in blocks of the size of a buffer, or a
//! line by several calls.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedStream};
use crate::util::text::{clean, counted, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// Buffers of programs are so large, or several times.
const BUFFER: u64 = 4096;

/// So many full blocks of a process are no chance.
const LEAST: u64 = 2;

/// `` 8 processes (`perl`) write `log` at the same time in blocks of 8,192 bytes: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut files: BTreeMap<(u64, u32), Vec<&RecordedStream>> = BTreeMap::new();
    for stream in view.document.streams.iter().filter(|stream| stream.writes) {
        files.entry((stream.inode, stream.device)).or_default().push(stream);
    }
    files.values().filter_map(|streams| torn(view, streams).or_else(|| split(view, streams))).collect()
}

/// Whether all but its last calls wrote a full buffer.
fn in_blocks(stream: &RecordedStream) -> bool {
    stream.block.is_multiple_of(BUFFER) && stream.blocks >= LEAST && stream.calls <= stream.blocks + 1
}

fn torn(view: &FindingView<'_>, streams: &[&RecordedStream]) -> Option<Finding> {
    // Who writes at places of its own, as `dd seek=`, keeps apart.
    let together = |one: &RecordedStream, other: &RecordedStream| {
        let at_once = one.moved_ns[0] < other.moved_ns[1] && other.moved_ns[0] < one.moved_ns[1];
        one.pid != other.pid
            && at_once
            && in_blocks(other)
            && (one.opened == other.opened || one.appends && other.appends)
    };
    let mixed: Vec<&&RecordedStream> =
        streams.iter().filter(|one| in_blocks(one) && streams.iter().any(|other| together(one, other))).collect();
    let first = mixed.first()?;
    let pids: BTreeSet<u32> = mixed.iter().map(|stream| stream.pid).collect();
    let rows: BTreeSet<usize> = mixed.iter().map(|stream| stream.process).collect();
    let blocks: u64 = mixed.iter().map(|stream| stream.blocks).sum();
    let names = crate::profile::few(rows.iter().map(|at| view.name(*at)));
    let text = format!(
        "{} ({names}) write `{}` at the same time, in {} blocks of {}, the size of a buffer: a line at the end of a block \
         goes on behind a block of another process. A file for each, or one call for each line (line buffering), keeps lines \
         whole.",
        counted(pids.len() as u64, "process"),
        clean(&first.file),
        grouped(blocks),
        counted(first.block, "byte")
    );
    Some(Finding { count: Some(blocks), ..Finding::new(FindingKind::Torn, rows, text) })
}

/// Lines of several calls each, between which other processes wrote. Who starts them in between has nothing written within
/// theirs.
fn split(view: &FindingView<'_>, streams: &[&RecordedStream]) -> Option<Finding> {
    let is_text = |stream: &RecordedStream| 4 * stream.lines >= stream.calls;
    let torn: Vec<&&RecordedStream> =
        streams.iter().filter(|stream| stream.appends && stream.split > 0 && is_text(stream)).collect();
    let pids: BTreeSet<u32> = torn.iter().map(|stream| stream.pid).collect();
    let rows: BTreeSet<usize> = torn.iter().map(|stream| stream.process).collect();
    let count: u64 = torn.iter().map(|stream| stream.split).sum();
    let text = format!(
        "{} ({}) append to `{}` at the same time and write a line with several calls: {} times, another one wrote in the middle of \
         a line. One call for each line, or a lock around them (`flock`), keeps lines whole.",
        counted(pids.len() as u64, "process"),
        crate::profile::few(rows.iter().map(|at| view.name(*at))),
        clean(&torn.first()?.file),
        grouped(count)
    );
    (pids.len() > 1 && count >= LEAST)
        .then(|| Finding { count: Some(count), ..Finding::new(FindingKind::Torn, rows, text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};

    type Change = dyn Fn(&mut [RecordedStream; 2]);

    fn two(change: &Change) -> Vec<String> {
        said(find, &|recording| {
            let stream = |pid: u32| RecordedStream {
                pid,
                opened: u64::from(pid),
                file: "log".to_owned(),
                writes: true,
                calls: 4,
                appends: true,
                block: 8192,
                blocks: 3,
                moved_ns: [0, WINDOW],
                ..RecordedStream::default()
            };
            let mut streams = [stream(1), stream(2)];
            change(&mut streams);
            recording.streams = streams.to_vec();
        })
    }

    #[test]
    fn blocks_of_several_in_one_file_are_said() {
        let text = "2 processes (`seq`) write `log` at the same time, in 6 blocks of 8,192 bytes, the size of a buffer: a line at the \
                    end of a block goes on behind a block of another process. A file for each, or one call for each line (line \
                    buffering), keeps lines whole.";
        assert_eq!(two(&|_| {}), [text]);
        let lines = |split: u64, lines: u64| {
            two(&|streams| {
                for stream in streams {
                    (stream.block, stream.calls, stream.lines, stream.split) = (20, 1000, lines, split);
                }
            })
        };
        let text = "2 processes (`seq`) append to `log` at the same time and write a line with several calls: 24 times, another one \
                    wrote in the middle of a line. One call for each line, or a lock around them (`flock`), keeps lines whole.";
        assert_eq!(lines(12, 500), [text]);
        assert!(lines(0, 500).is_empty() && lines(12, 4).is_empty(), "whole lines, and what is no text");
        let silent: [&Change; 5] = [
            &|streams| streams[0].appends = false,
            &|streams| streams[0].block = 8150,
            &|streams| streams[0].calls = 20,
            &|streams| streams[0].inode = 9,
            &|streams| (streams[0].moved_ns, streams[1].moved_ns) = ([0, 10], [20, 30]),
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(two(change).is_empty(), "{at}");
        }
    }
}

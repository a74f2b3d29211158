//! Processes that write one file at the same time, each from its own place on, so that they overwrite each other.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedStream};
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
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut files: BTreeMap<(u64, u32), BTreeMap<u64, Opened<'_>>> = BTreeMap::new();
    for stream in view.document.streams.iter().filter(|stream| stream.writes) {
        let opened = files.entry((stream.inode, stream.device)).or_default().entry(stream.opened);
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
    files.values().filter_map(|opened| overwritten(view, &opened.values().collect::<Vec<_>>())).collect()
}

fn both(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0].min(other[0]), one[1].max(other[1])]
}

fn overlap(one: [u64; 2], other: [u64; 2]) -> bool {
    one[0] < other[1] && other[0] < one[1]
}

fn overwritten(view: &FindingView<'_>, opened: &[&Opened<'_>]) -> Option<Finding> {
    let pairs = opened.iter().enumerate().flat_map(|(at, one)| opened[..at].iter().map(move |other| [*one, *other]));
    let lost = |[one, other]: &[&Opened<'_>; 2]| {
        let range = both(one.range, other.range);
        (one.bytes + other.bytes).saturating_sub(range[1] - range[0])
    };
    let is_lost = |pair: &[&Opened<'_>; 2]| {
        let [one, other] = pair;
        let at_once = overlap(one.moved_ns, other.moved_ns) && overlap(one.range, other.range);
        let places = [one, other].iter().any(|opened| !opened.first.appends);
        // Another file can get the number of one that was deleted.
        let same = one.first.file == other.first.file;
        same && at_once && places && one.goes_on && other.goes_on && lost(pair) > 0
    };
    let pair = pairs.filter(is_lost).max_by_key(lost)?;
    let mut streams = pair.map(|opened| opened.first);
    streams.sort_by_key(|stream| (stream.appends, stream.moved_ns));
    let [one, other] = streams;
    let (name, second) = (view.name(one.process), view.name(other.process));
    let (who, both) = if one.process == other.process {
        (format!("{name} writes `{}` by two openings of it", clean(&one.file)), "neither".to_owned())
    } else {
        let both = if other.appends { format!("{name} does not") } else { "neither".to_owned() };
        (format!("{name} and {second} write `{}` at the same time", clean(&one.file)), both)
    };
    let appends = if both == "neither" { "neither appends" } else { "append" };
    let why = if both == "neither" { appends.to_owned() } else { format!("{both} {appends}") };
    let bytes = pair.iter().map(|opened| opened.bytes).sum::<u64>();
    let text = format!(
        "{who}, and {why}: they overwrite each other, so that {} of {} are lost. `>>` instead of `>` (O_APPEND), for all of \
         them, keeps both.",
        grouped(lost(&pair)),
        counted(bytes, "byte")
    );
    let finding = Finding::new(FindingKind::Overwritten, [one.process, other.process], text);
    Some(Finding { bytes: Some(lost(&pair)), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

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
        said(find, &|recording: &mut Document| {
            let mut streams = [stream(0, 1, 100), RecordedStream { appends: true, ..stream(1, 2, 900) }];
            change(&mut streams);
            recording.streams = streams.to_vec();
        })
    }

    #[test]
    fn bytes_that_are_overwritten_are_said() {
        let text = "`seq` and `grep` write `log` at the same time, and `seq` does not append: they overwrite each other, so that 100 \
                    of 1,000 bytes are lost. `>>` instead of `>` (O_APPEND), for all of them, keeps both.";
        assert_eq!(two(&|_| {}), [text]);
        assert!(two(&|streams| streams[1].appends = false)[0].contains("and neither appends: they"));
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
}

//! What processes wrote to files, and read from files that were their standard input.

use crate::record::observe::raw::{PR_WRITE, PrStream, PrStreamed, PrWho};
use crate::record::observe::reason::text_of;
use crate::result::{FileHole, RecordedStream};
use std::collections::BTreeMap;

/// The streams, by file and time.
pub(crate) fn streams(
    counted: &[(PrStream, PrStreamed)],
    begin: u64,
    index: &BTreeMap<PrWho, usize>,
) -> Vec<RecordedStream> {
    // Addresses of the kernel are nothing to show.
    let opened: BTreeMap<u64, u64> = {
        let mut all: Vec<u64> = counted.iter().map(|(stream, _)| stream.open).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().zip(1..).collect()
    };
    let stream = |(of, counts): &(PrStream, PrStreamed)| {
        Some(RecordedStream {
            process: *index.get(&of.who)?,
            pid: of.who.tgid,
            file: text_of(bytemuck::cast_slice(&counts.name)),
            inode: of.inode,
            device: of.device,
            opened: opened.get(&of.open).copied().unwrap_or(0),
            writes: of.side as usize == PR_WRITE,
            calls: counts.calls,
            bytes: counts.bytes,
            at_end: counts.ended,
            appends: counts.appends > 0,
            script: counts.script > 0,
            range: [counts.from, counts.to],
            moves: counts.moves,
            lines: counts.lines,
            unended: counts.within > 0,
            split: counts.split,
            deleted: (counts.deleted > 0).then(|| [counts.deleted, counts.deleted_at.saturating_sub(begin)]),
            hole: (counts.hole > 0).then(|| FileHole {
                bytes: counts.hole,
                emptied_by: counts.emptied_by as u32,
                at_ns: counts.emptied_at.saturating_sub(begin),
            }),
            doubled: None,
            block: counts.block,
            blocks: counts.blocks,
            moved_ns: [counts.first_at, counts.last_at].map(|at| at.saturating_sub(begin)),
        })
    };
    let mut streams: Vec<RecordedStream> = counted.iter().filter_map(stream).collect();
    streams.sort_by_key(|stream| (stream.inode, stream.device, stream.moved_ns, stream.pid));
    streams
}

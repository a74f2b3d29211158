//! Blocks that are much larger than what a channel holds: each goes through in many turns of both sides.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind};
use crate::util::size::rough;
use crate::util::text::grouped;

/// Fewer calls are no stream of blocks.
const MANY: u64 = 10;

/// So many times what the channel holds, and so many sleeps for each call.
const LARGE: f64 = 4.0;
const SLEEPS: f64 = 2.0;

/// Above this part of user code on either side, the turns are not what takes the time.
const USER: f64 = 0.6;

/// `` `a` writes blocks of 1.3 MiB to the pipe to `b`, which holds 64.0 KiB: it slept 6,305 times, once for every 64.3 KiB. A larger
/// pipe (F_SETPIPE_SZ) or shared memory takes fewer turns. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, channel, end) in view.writers() {
        let holds = channel.slots.map(|[_, slots, _]| 4096 * slots).or(channel.buffer.map(|[_, bytes, _]| bytes));
        let Some(holds) = holds.filter(|holds| *holds > 0) else { continue };
        let calls = end.all_calls();
        let block = end.bytes as f64 / calls.max(1) as f64;
        let is_large = calls >= MANY && block >= LARGE * holds as f64 && end.sleeps as f64 >= SLEEPS * calls as f64;
        let moves = |process: usize| {
            view.document.recorded.get(process).and_then(|of| of.user_share).is_none_or(|user| user <= USER)
        };
        if !is_large || !moves(end.process) || !channel.readers.iter().all(|end| moves(end.process)) {
            continue;
        }
        let larger = if channel.kind.is_pipe() { "pipe (F_SETPIPE_SZ)" } else { "buffer (SO_SNDBUF)" };
        let text = format!(
            "{} writes blocks of {} to {}, which holds {}: it slept {} times, once for every {}. A larger {larger} or shared \
             memory takes fewer turns.",
            view.name(end.process),
            rough(block as u64),
            view.pipe_to(channel),
            rough(holds),
            grouped(end.sleeps),
            rough(end.bytes / end.sleeps.max(1))
        );
        let finding = Finding::new(FindingKind::LargeBlocks, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(end.sleeps), bytes: Some(block as u64), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn blocks(recording: &mut Document, calls: u64, sleeps: u64) {
        let end = &mut recording.channels[0].writers[0];
        (end.bytes, end.calls, end.sleeps) = (100 << 20, [("write".to_owned(), calls)].into(), sleeps);
    }

    #[test]
    fn blocks_that_no_pipe_holds_are_said() {
        let text = "`seq` writes blocks of 1.0 MiB to the pipe to `grep`, which holds 64.0 KiB: it slept 1,600 times, once for \
                    every 64.0 KiB. A larger pipe (F_SETPIPE_SZ) or shared memory takes fewer turns.";
        assert_eq!(said(find, &|recording| blocks(recording, 100, 1600)), [text]);
    }

    #[test]
    fn what_fits_or_is_computed_is_not() {
        assert!(said(find, &|recording| blocks(recording, 1600, 4000)).is_empty(), "as large as the pipe");
        assert!(said(find, &|recording| blocks(recording, 100, 50)).is_empty(), "hardly a sleep");
        let computed = said(find, &|recording| {
            blocks(recording, 100, 1600);
            recording.recorded[1].user_share = Some(0.9);
        });
        assert!(computed.is_empty(), "{computed:?}");
    }
}

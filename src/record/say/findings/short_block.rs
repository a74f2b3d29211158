//! A `dd` that counts short reads as blocks.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind};
use crate::util::text::{counted, grouped};

/// `` `dd` got 10,000 of 1,048,576 bytes with 1 read: `count=1` counts reads, not blocks. `iflag=fullblock` fills each
/// block. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.readers() {
        let Some(process) = view.process(end).filter(|process| process.name == "dd" && process.pids.len() == 1) else {
            continue;
        };
        let words = &process.args;
        let count = words.iter().find(|word| word.starts_with("count="));
        let fills = words.iter().any(|word| word.starts_with("iflag=") && word.contains("fullblock"));
        let reads = end.all_calls() - end.at_end;
        // Otherwise it got all that there was.
        let written: u64 = pipe.writers.iter().map(|writer| writer.bytes).sum();
        let left = pipe.taken() < written || pipe.writers.iter().any(|writer| writer.epipe > 0);
        let cut = end.short > 0 && end.at_end == 0 && end.bytes < end.requested && left;
        let Some(count) = count.filter(|_| cut && !fills) else { continue };
        let text = format!(
            "{} got {} of {} bytes with {}: `{count}` counts reads, not blocks. `iflag=fullblock` fills each block.",
            view.name(end.process),
            grouped(end.bytes),
            grouped(end.requested),
            counted(reads, "read"),
        );
        let finding = Finding::new(FindingKind::ShortBlock, [end.process], text);
        found.push(Finding {
            channels: vec![at],
            count: Some(end.short),
            of: Some(reads),
            bytes: Some(end.requested - end.bytes),
            ..finding
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn dd(recording: &mut Document, line: &str) {
        recording.recorded[1].args = line.split_whitespace().map(str::to_owned).collect();
        recording.recorded[1].name = "dd".to_owned();
        let end = &mut recording.channels[0].readers[0];
        (end.short, end.bytes, end.requested) = (1, 10_000, 1 << 20);
        end.calls = [("read".to_owned(), 1)].into();
        recording.channels[0].writers[0].bytes = 50_000;
    }

    #[test]
    fn a_short_read_that_was_counted_is_said() {
        let text = "`dd` got 10,000 of 1,048,576 bytes with 1 read: `count=1` counts reads, not blocks. `iflag=fullblock` fills \
                    each block.";
        assert_eq!(said(find, &|recording| dd(recording, "dd bs=1M count=1")), [text]);
    }

    #[test]
    fn full_blocks_and_the_end_of_file_are_not() {
        let of = |line: &str| said(find, &|recording| dd(recording, line));
        assert!(of("dd bs=1M count=1 iflag=fullblock").is_empty());
        assert!(of("dd bs=1M").is_empty());
        let at_end = said(find, &|recording| {
            dd(recording, "dd bs=1M count=9");
            recording.channels[0].readers[0].at_end = 1;
        });
        assert!(at_end.is_empty());
        let all = said(find, &|recording| {
            dd(recording, "dd bs=1M count=1");
            recording.channels[0].writers[0].bytes = 10_000;
        });
        assert!(all.is_empty());
    }
}

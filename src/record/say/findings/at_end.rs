//! Reads at the end of file, again and again.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind};
use crate::util::text::grouped;

/// Fewer are a program that looks now and then, or several of one name that each read to the end.
const MANY: u64 = 1000;

/// Of the reads.
const SHARE: f64 = 0.5;

/// `` 1,838,077 of 1,838,078 reads of `python3` from the pipe got the end of file: nobody has its write end open. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe, end) in view.readers() {
        let (count, all) = (end.at_end, end.all_calls());
        let processes = view.process(end).map_or(1, |process| process.pids.len().max(1)) as u64;
        if count / processes < MANY || (count as f64) < SHARE * all as f64 {
            continue;
        }
        let why = if pipe.kind.is_pipe() { "nobody has its write end open" } else { "its other end sends no more" };
        let (name, pipe) = (view.name(end.process), view.pipe_from(pipe));
        let text =
            format!("{} of {} reads of {name} from {pipe} got the end of file: {why}.", grouped(count), grouped(all));
        let finding = Finding::new(FindingKind::AtEnd, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(count), of: Some(all), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn reads(recording: &mut Document, at_end: u64, all: u64) {
        let end = &mut recording.channels[1].readers[0];
        (end.at_end, end.calls) = (at_end, [("read".to_owned(), all)].into());
    }

    #[test]
    fn many_reads_at_the_end_are_said() {
        let text = "1,838,077 of 1,838,078 reads of `cat` from the pipe from `grep` got the end of file: nobody has its write \
                    end open.";
        assert_eq!(said(find, &|recording| reads(recording, 1_838_077, 1_838_078)), [text]);
    }

    #[test]
    fn one_end_for_each_process_and_a_few_of_many_reads_are_not() {
        assert!(said(find, &|recording| reads(recording, 1, 2)).is_empty());
        assert!(said(find, &|recording| reads(recording, 1000, 100_000)).is_empty());
        let several = said(find, &|recording| {
            reads(recording, 5000, 10_000);
            recording.recorded[2].pids = (0..5000).collect();
        });
        assert!(several.is_empty(), "each of them read to the end");
    }
}

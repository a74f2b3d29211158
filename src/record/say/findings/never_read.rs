//! What was written to the standard input of a program that never read it.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedProcess};
use crate::util::text::counted;

/// `` `mclient` ended at 12.0 ms and never read its standard input, to which `seq` had written 2,092 bytes: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || document.skipped > 0 || !document.target.pids().is_empty() || document.was_limited() {
        return Vec::new();
    }
    let channels = document.channels.iter().enumerate();
    channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..unread(view, at, channel)? })).collect()
}

fn unread(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    let used = channel.readers.iter().any(|end| end.all_calls() + end.sleeps > 0);
    let written: u64 = channel.writers.iter().map(|end| end.bytes).sum();
    if used || written == 0 || !channel.kind.is_pipe() || !channel.other_readers.is_empty() {
        return None;
    }
    let all = view.document.recorded.iter().enumerate();
    let mut having = all.filter(|(_, process)| process.input == Some(at));
    let is_over =
        |process: &RecordedProcess| process.signal.is_none() && process.pids.len() == 1 && !process.moves_unseen();
    let (reader, process) = having.next().filter(|(_, process)| is_over(process) && having.next().is_none())?;
    let text = format!(
        "{} ended at {} and never read its standard input, to which {} had written {}: with these options, it takes its input from \
         elsewhere, or it needs one to read it, such as `-`.",
        view.name(reader),
        after(process.end_ns),
        view.names(&channel.writers),
        counted(written, "byte")
    );
    Some(Finding { bytes: Some(written), ..Finding::new(FindingKind::Unread, [reader], text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn ignored(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            recording.channels[0].readers.clear();
            recording.recorded[1].input = Some(0);
            change(recording);
        })
    }

    #[test]
    fn input_that_nobody_read_is_said() {
        let said = ignored(&|_| {});
        assert!(
            said[0].contains("and never read its standard input, to which `seq` had written 1,000 bytes: with"),
            "{said:?}"
        );
        let silent: [&dyn Fn(&mut Document); 3] = [
            &|recording| recording.recorded[1].input = None,
            &|recording| recording.recorded[2].input = Some(0),
            &|recording| recording.channels[0].writers[0].bytes = 0,
        ];
        assert!(silent.into_iter().all(|change| ignored(change).is_empty()));
    }
}

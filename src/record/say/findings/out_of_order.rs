//! Standard output that comes after standard error, because only one of the two is buffered.

use crate::record::say::findings::late::at_once;
use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, WaitReason};
use crate::util::text::{counted, grouped};

/// Fewer lines may have been written first on purpose.
const LEAST: u64 = 3;

/// Before a summary of one program, nothing need have been printed.
const LEAST_CHILDREN: u64 = 2;

/// `` `python3 a.py` wrote 8 times to its standard error before it wrote to its standard output, the same pipe, ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, channel, end) in view.writers() {
        let Some(process) = view.process(end) else { continue };
        let Some(switch) = at_once(process) else { continue };
        // All that was printed came at once.
        if end.aside < LEAST || end.printed != 1 || process.pids.len() != 1 {
            continue;
        }
        let text = format!(
            "{} wrote {} times to its standard error before it first wrote to its standard output, the same {}: only standard \
             output is buffered, so what is printed first can come last. {switch} keeps the order.",
            view.name(end.process),
            grouped(end.aside),
            channel.kind.noun()
        );
        let finding = Finding::new(FindingKind::OutOfOrder, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(end.aside), ..finding });
    }
    found.extend(
        view.writers().filter_map(|(at, channel, end)| {
            Some(Finding { channels: vec![at], ..after_children(view, channel, end)? })
        }),
    );
    found
}

/// What a script printed comes at its end, after what the programs wrote that it had started meanwhile.
fn after_children(view: &FindingView<'_>, channel: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let process = view.process(end)?;
    let switch = at_once(process)?;
    let [first, _] = end.moved_ns?;
    let is_child = |other: &&RecordedEnd| {
        let child = view.process(other).is_some_and(|of| of.started_by == Some(end.process) && of.execs > 0);
        child && other.bytes > 0 && other.moved_ns.is_some_and(|[_, last]| last <= first)
    };
    let children: Vec<&RecordedEnd> = channel.writers.iter().filter(is_child).collect();
    let count: usize = children.iter().filter_map(|child| view.process(child)).map(|of| of.pids.len()).sum();
    let waits = process.waits.get(&WaitReason::Child).is_some_and(|wait| wait.count >= LEAST_CHILDREN);
    if end.all_calls() != 1 || process.pids.len() != 1 || !waits || (count as u64) < LEAST_CHILDREN {
        return None;
    }
    let text = format!(
        "{} wrote all that it printed at its end ({}), behind what the programs that it had started before ({}) wrote to the \
         same {}: it buffers its output, so what it prints before it starts them comes after theirs. {switch} keeps the order, and so does a \
         flush before each start.",
        view.name(end.process),
        counted(end.bytes, "byte"),
        view.names(children),
        channel.kind.noun()
    );
    Some(Finding::new(FindingKind::OutOfOrder, [end.process], text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;

    fn wrote(line: &str, aside: u64, printed: u64) -> Vec<String> {
        said(find, &|recording| {
            recording.recorded[0].args = line.split_whitespace().map(str::to_owned).collect();
            let end = &mut recording.channels[0].writers[0];
            (end.aside, end.printed) = (aside, printed);
        })
    }

    #[test]
    fn output_that_is_buffered_behind_standard_error_is_said() {
        let text = "`seq log.py` wrote 8 times to its standard error before it first wrote to its standard output, the same pipe: only \
                    standard output is buffered, so what is printed first can come last. `python3 -u`, or PYTHONUNBUFFERED=1, keeps the order.";
        assert_eq!(wrote("/usr/bin/python3 log.py", 8, 1), [text]);
        for (line, aside, printed) in
            [("python3 -u log.py", 8, 1), ("curl -v", 8, 1), ("python3 log.py", 1, 1), ("python3 log.py", 8, 9)]
        {
            assert!(wrote(line, aside, printed).is_empty(), "{line}");
        }
    }
}

//! Input and output that nobody read.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::start::command_line::inline_code;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedProcess};
use crate::util::text::counted;

/// Each channel that was written and never read.
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    view.document.channels.iter().enumerate().filter_map(|(at, channel)| never_read(view, at, channel)).collect()
}

/// `` `mclient` ended at 12.0 ms and never read its standard input, to which `seq` had written 2,092 bytes: ... ``
fn never_read(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    if view.document.is_excerpt() || view.document.skipped > 0 {
        return None;
    }
    let used = channel.readers.iter().any(|end| end.all_calls() + end.sleeps > 0);
    let written = channel.written();
    if used || written == 0 || !channel.kind.is_pipe() || !channel.other_readers.is_empty() {
        return None;
    }
    let all = view.document.recorded.iter().enumerate();
    let mut having = all.filter(|(_, process)| process.input == Some(at));
    let is_over = |process: &RecordedProcess| {
        process.signal.is_none() && process.exit_code.is_none() && process.is_one() && !process.moves_unseen()
    };
    let Some(first) = having.next() else { return child_not_read(view, at, channel, written) };
    // Nobody means these to read: what a shell has as its argument says what does.
    let is_told = first.1.is_shell() && inline_code(&first.1.args).is_some();
    if first.1.name == "sleep" || is_told {
        return None;
    }
    let (reader, process) = Some(first).filter(|(_, process)| is_over(process) && having.next().is_none())?;
    let text = format!(
        "{} ended at {} and never read its standard input, to which {} had written {}: with these options, it takes its input from \
         elsewhere, or it needs one to read it, such as `-`.",
        view.name(reader),
        after(process.end_ns),
        view.names(&channel.writers),
        counted(written, "byte")
    );
    Some(Finding { channels: vec![at], bytes: Some(written), ..Finding::new(FindingKind::Unread, [reader], text) })
}

/// The output of a child, which its parent never read: `` `main` never read the pipe from `seq`, its child: ... ``
fn child_not_read(view: &FindingView<'_>, at: usize, channel: &RecordedChannel, written: u64) -> Option<Finding> {
    let [end] = &channel.writers[..] else { return None };
    let child = view.process(end).filter(|of| of.output == Some(at) && of.signal.is_none() && end.epipe == 0)?;
    let parent = child.started_by?;
    let starter = view.document.recorded.get(parent)?;
    let ended_later = starter.end_ns > child.end_ns && starter.signal.is_none() && !starter.moves_unseen();
    let text = format!(
        "{} never read {}, its child: the {} that it had written are lost. All of a child's output has to be read before its pipe is \
         closed, as Go's `Wait` does.",
        view.name(parent),
        view.pipe_from(channel),
        counted(written, "byte")
    );
    let finding = Finding::new(FindingKind::Unread, [parent, end.process], text);
    // A pipe that who started it has as its own output is for others.
    let is_own = view.with_starters(parent).any(|of| view.document.recorded[of].output == Some(at));
    (ended_later && !is_own).then(|| Finding { channels: vec![at], bytes: Some(written), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, silent};
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
        silent(
            &ignored,
            &[
                &|recording| recording.recorded[1].input = None,
                &|recording| recording.recorded[2].input = Some(0),
                &|recording| recording.channels[0].writers[0].bytes = 0,
            ],
        );
    }

    #[test]
    fn output_of_a_child_that_was_never_read_is_said() {
        let lost = |change: &dyn Fn(&mut Document)| {
            ignored(&|recording| {
                recording.recorded[1].input = None;
                (recording.recorded[0].output, recording.recorded[0].started_by) = (Some(0), Some(2));
                change(recording);
            })
        };
        let text = "`cat` never read the pipe from `seq`, its child: the 1,000 bytes that it had written are lost. All of a child's output \
                    has to be read before its pipe is closed, as Go's `Wait` does.";
        assert_eq!(lost(&|_| {}), [text]);
        silent(
            &lost,
            &[
                &|recording| recording.recorded[2].output = Some(0),
                &|recording| recording.recorded[2].end_ns = 0,
                &|recording| recording.recorded[0].signal = Some(15),
                &|recording| recording.channels[0].writers[0].epipe = 1,
            ],
        );
    }
}

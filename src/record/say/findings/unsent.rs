//! Programs that ended before all was written, because their output does not block.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind};
use crate::util::text::counted;

/// `` `python3` ended with 34,464 bytes unsent: its last write to the pipe to `cat` failed with EAGAIN, because the pipe was
/// full and does not block (O_NONBLOCK). ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let is_excerpt = view.document.is_excerpt();
    let mut found = Vec::new();
    for (at, pipe, end) in view.writers() {
        let Some(process) = view.process(end) else { continue };
        // Of several threads or processes, another one may have written it.
        let alone = process.pids.len() == 1 && process.signal.is_none();
        // Who gets the end of file can end before the writer has.
        let to_end = pipe.readers.iter().any(|reader| reader.at_end > 0);
        let is_read = to_end || view.readers_ended(pipe, process.end_ns).is_none();
        if end.unsent == 0 || end.eagain + end.short == 0 || end.epipe > 0 || !alone || is_excerpt || !is_read {
            continue;
        }
        let noun = pipe.kind.noun();
        let (name, pipe, bytes) = (view.name(end.process), view.pipe_to(pipe), counted(end.unsent, "byte"));
        let how = if end.eagain > 0 { "failed with EAGAIN" } else { "wrote only a part" };
        let text = format!(
            "{name} ended with {bytes} unsent: its last write to {pipe} {how}, because the {noun} was full and does not \
             block (O_NONBLOCK)."
        );
        let finding = Finding::new(FindingKind::Unsent, [end.process], text);
        found.push(Finding { channels: vec![at], bytes: Some(end.unsent), at_ns: Some(process.end_ns), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn cut(recording: &mut Document) {
        let end = &mut recording.channels[0].writers[0];
        (end.unsent, end.eagain) = (34_464, 1);
    }

    #[test]
    fn bytes_that_a_program_left_are_said() {
        let text = "`seq` ended with 34,464 bytes unsent: its last write to the pipe to `grep` failed with EAGAIN, because the \
                    pipe was full and does not block (O_NONBLOCK).";
        assert_eq!(said(find, &cut), [text]);
        let part = said(find, &|recording| {
            cut(recording);
            (recording.channels[0].writers[0].eagain, recording.channels[0].writers[0].short) = (0, 1);
        });
        assert!(part[0].contains("wrote only a part"), "{part:?}");
        let soon = said(find, &|recording| {
            cut(recording);
            recording.channels[0].readers[0].at_end = 1;
            recording.recorded[1].end_ns = recording.recorded[0].end_ns - 100;
        });
        assert_eq!(soon, [text]);
    }

    #[test]
    fn who_wrote_all_in_the_end_or_was_ended_is_not() {
        let silent: [&dyn Fn(&mut Document); 5] = [
            &|recording| recording.channels[0].writers[0].unsent = 0,
            &|recording| recording.recorded[0].signal = Some(13),
            &|recording| recording.recorded[1].end_ns = 0,
            &|recording| recording.recorded[0].pids = vec![1, 2],
            &|recording| recording.duration_ns = Some(1),
        ];
        for change in silent {
            let found = said(find, &|recording| {
                cut(recording);
                change(recording);
            });
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

//! A program that ignores SIGPIPE and fails with a message, because its reader has all that it needs.

use crate::record::say::findings::exit::SOON;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd};

/// `` `curl` failed with exit code 23, because `grep` ended at 12.0 ms and did not read on (EPIPE): ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    if view.document.exit_codes.last() != Some(&0) || view.document.is_excerpt() {
        return Vec::new();
    }
    view.writers()
        .filter_map(|(at, pipe, end)| Some(Finding { channels: vec![at], ..failed(view, pipe, end)? }))
        .collect()
}

fn failed(view: &FindingView<'_>, pipe: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let process = view.process(end).filter(|process| process.execs > 0 && process.pids.len() == 1)?;
    let code = process.exit_code?;
    let refused = end.epipe > 0 && pipe.kind.is_pipe() && !pipe.readers.is_empty();
    let ended = view.readers_ended(pipe, process.end_ns + SOON).filter(|_| refused)?;
    let readers = view.names(&pipe.readers);
    let text = format!(
        "{} failed with exit code {code}, because {readers} ended at {} and did not read on (EPIPE): it ignores SIGPIPE, which \
         would have ended it without a message. If {readers} got all that was wanted, nothing is wrong; a reader that reads to the \
         end avoids it.",
        view.name(end.process),
        after(ended)
    );
    let finding = Finding::new(FindingKind::Sigpipe, [end.process], text);
    Some(Finding { count: Some(code.into()), at_ns: Some(process.end_ns), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn refused(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            recording.exit_codes = vec![0];
            recording.recorded[1].end_ns = 12_000_000;
            (recording.recorded[0].exit_code, recording.recorded[0].execs) = (Some(23), 1);
            recording.channels[0].writers[0].epipe = 1;
            change(recording);
        })
    }

    #[test]
    fn a_program_that_fails_as_its_reader_ended_is_said() {
        let said = refused(&|_| {});
        assert!(
            said[0].starts_with("`seq` failed with exit code 23, because `grep` ended at 12.0 ms and did not"),
            "{said:?}"
        );
        let silent: [&dyn Fn(&mut Document); 3] = [
            &|recording| recording.recorded[0].exit_code = None,
            &|recording| recording.channels[0].writers[0].epipe = 0,
            &|recording| recording.exit_codes = vec![23],
        ];
        assert!(silent.into_iter().all(|change| refused(change).is_empty()));
    }
}

//! Programs that failed in the middle of a pipeline whose exit code does not show it.

use crate::record::say::findings::exit::BROKEN_PIPE;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind};

/// Programs whose exit code 1 is an answer, as grep(1) and diff(1) have it.
const ANSWERS: [&str; 9] = ["grep", "egrep", "fgrep", "zgrep", "rg", "diff", "cmp", "pgrep", "jq"];

/// `` `dump` failed with exit code 1 at 0.30 s, and the pipeline's exit code is 0: that of its last program. `set -o pipefail`
/// keeps it. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.exit_codes.last() != Some(&0) || document.is_excerpt() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, process) in document.recorded.iter().enumerate() {
        let Some(code) = process.exit_code.filter(|code| ![0, BROKEN_PIPE].contains(code)) else { continue };
        let is_answer = code == 1 && ANSWERS.contains(&process.name.as_str());
        // Of several with one name, one may have written and another one failed.
        if is_answer || process.execs == 0 || process.pids.len() != 1 || process.signal.is_some() {
            continue;
        }
        let mut written = view.writers().filter(|(_, pipe, end)| {
            let reads_on = pipe.readers.iter().any(|reader| {
                reader.process != at && view.process(reader).is_some_and(|other| other.end_ns >= process.end_ns)
            });
            end.process == at && pipe.kind.is_pipe() && end.bytes > 0 && end.epipe == 0 && reads_on
        });
        let Some((channel, pipe, _)) = written.next() else { continue };
        let text = format!(
            "{} failed with exit code {code} at {}, after it had written to {}, and the pipeline's exit code is 0: that of its \
             last program. `set -o pipefail` keeps it.",
            view.name(at),
            after(process.end_ns),
            view.pipe_to(pipe)
        );
        let finding = Finding::new(FindingKind::HiddenFailure, [at], text);
        found.push(Finding {
            channels: vec![channel],
            count: Some(code.into()),
            at_ns: Some(process.end_ns),
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

    fn fails(recording: &mut Document, at: usize, code: u8) {
        recording.exit_codes = vec![0];
        let process = &mut recording.recorded[at];
        (process.exit_code, process.execs) = (Some(code), 1);
    }

    #[test]
    fn a_failure_that_no_exit_code_shows_is_said() {
        let text = "`seq` failed with exit code 2 at 4.00 s, after it had written to the pipe to `grep`, and the pipeline's exit \
                    code is 0: that of its last program. `set -o pipefail` keeps it.";
        assert_eq!(said(find, &|recording| fails(recording, 0, 2)), [text]);
    }

    #[test]
    fn an_answer_or_what_is_shown_is_not() {
        assert!(said(find, &|recording| fails(recording, 1, 1)).is_empty(), "grep found nothing");
        assert!(said(find, &|recording| fails(recording, 2, 1)).is_empty(), "it writes to no pipe");
        let shown = said(find, &|recording| {
            fails(recording, 0, 2);
            recording.exit_codes = vec![2];
        });
        assert!(shown.is_empty(), "{shown:?}");
    }
}

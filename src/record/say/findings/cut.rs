//! Files that `tee` did not write to their end, because the pipe behind it was closed.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::start::command_line::operands;
use crate::result::{Finding, FindingKind};
use crate::util::text::clean;

/// `` `tee` was ended by SIGPIPE at 12.0 ms, because `head` did not read on: `all.txt` has only what was written until
/// then. `tee -p` writes on. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let mut found = Vec::new();
    for (at, process) in document.recorded.iter().enumerate() {
        let files: Vec<String> = operands(&process.args)
            .iter()
            .filter(|word| !word.starts_with('-'))
            .map(|word| format!("`{}`", clean(word)))
            .collect();
        if process.name != "tee" || process.signal != Some(libc::SIGPIPE.cast_unsigned()) || files.is_empty() {
            continue;
        }
        let Some((channel, pipe, _)) = view.writers().find(|(_, _, end)| end.process == at) else { continue };
        let readers = view.names(&pipe.readers);
        let why = if readers.is_empty() { "nobody read on".to_owned() } else { format!("{readers} did not read on") };
        let have = if files.len() == 1 { "has" } else { "have" };
        let text = format!(
            "{} was ended by SIGPIPE at {}, because {why}: {} {have} only what was written until then. `tee -p` writes on.",
            view.name(at),
            after(process.end_ns),
            few(files)
        );
        let finding = Finding::new(FindingKind::Cut, [at], text);
        found.push(Finding { channels: vec![channel], at_ns: Some(process.end_ns), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn tee(recording: &mut Document, line: &str, signal: i32) {
        let process = &mut recording.recorded[1];
        process.name = "tee".to_owned();
        process.args = line.split_whitespace().map(str::to_owned).collect();
        (process.signal, process.end_ns) = (Some(signal.cast_unsigned()), 12_000_000);
    }

    #[test]
    fn a_file_that_is_cut_is_said() {
        let text = "`tee` was ended by SIGPIPE at 12.0 ms, because `cat` did not read on: `all.txt` has only what was written \
                    until then. `tee -p` writes on.";
        assert_eq!(said(find, &|recording| tee(recording, "tee all.txt", libc::SIGPIPE)), [text]);
        assert!(said(find, &|recording| tee(recording, "tee", libc::SIGPIPE)).is_empty(), "no file");
        assert!(said(find, &|recording| tee(recording, "tee all.txt", libc::SIGTERM)).is_empty());
    }
}

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
        if process.name != "tee" || process.signal != Some(libc::SIGPIPE.cast_unsigned()) {
            continue;
        }
        // It writes to all in turn, so the one that broke has least; standard output is its first.
        let ends = || view.writers().filter(|(_, _, end)| end.process == at);
        let broken = ends().min_by_key(|(channel, _, end)| (end.bytes, process.output != Some(*channel)));
        let Some((channel, pipe, _)) = broken else { continue };
        let readers = view.names(&pipe.readers);
        let why = match readers.is_empty() {
            true if process.output != Some(channel) => "the program in `>(...)` did not read on".to_owned(),
            true => "nobody read on".to_owned(),
            false => format!("{readers} did not read on"),
        };
        let is_file = |word: &&String| !word.starts_with('-') && !word.starts_with("/dev/fd/");
        let files = operands(&process.args).iter().filter(is_file).map(|word| format!("`{}`", clean(word)));
        let others = ends().filter(|(other, pipe, _)| *other != channel && !pipe.readers.is_empty());
        let cut: Vec<String> = files.chain(others.map(|(_, pipe, _)| view.names(&pipe.readers))).collect();
        if cut.is_empty() {
            continue;
        }
        let have = if cut.len() == 1 { "has" } else { "have" };
        let text = format!(
            "{} was ended by SIGPIPE at {}, because {why}: {} {have} only what was written until then. `tee -p` writes on.",
            view.name(at),
            after(process.end_ns),
            few(cut)
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
        let other = said(find, &|recording| {
            tee(recording, "tee /dev/fd/63", libc::SIGPIPE);
            recording.recorded[1].output = Some(1);
            let mut fork = recording.channels[1].clone();
            (fork.inode, fork.writers[0].bytes) = (77, 0);
            fork.readers.clear();
            recording.channels.push(fork);
        });
        let text = "`tee` was ended by SIGPIPE at 12.0 ms, because the program in `>(...)` did not read on: `cat` has only what was \
                    written until then. `tee -p` writes on.";
        assert_eq!(other, [text]);
        assert!(said(find, &|recording| tee(recording, "tee all.txt", libc::SIGTERM)).is_empty());
    }
}

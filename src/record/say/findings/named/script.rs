//! Scripts that change while a shell executes them.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameUse, NamedFile};
use crate::util::text::clean;

/// `` `cp` wrote `update` anew at 1.01 s, while `update` was executed: a shell reads its script as it goes on, ... ``
pub(crate) fn rewritten(view: &FindingView<'_>) -> Vec<Finding> {
    let streams = view.document.streams.iter();
    let found = streams.filter(|stream| stream.script).filter_map(|script| {
        // It was read before and after that.
        let [began, last] = script.moved_ns;
        let opened = |file: &&NamedFile| {
            let same = (file.inode, file.device) == (script.inode, script.device) && file.error.is_none();
            let writes = matches!(file.does, NameUse::Writes | NameUse::Creates | NameUse::Empties);
            same && writes && began < file.at_ns[0] && file.at_ns[0] < last
        };
        let file = view.document.named_files.iter().find(opened)?;
        let text = format!(
            "{} wrote `{}` anew at {}, while {} executed it: a shell reads its script as it goes on, and goes on at the same byte of what is \
             there now. A new file that is put in its place (`mv`, `install`) leaves the old one to who executes it.",
            view.name(file.process),
            clean(&script.file),
            after(file.at_ns[0]),
            view.name(script.process)
        );
        let finding = Finding::new(FindingKind::Overwritten, [file.process, script.process], text);
        Some(Finding { at_ns: Some(file.at_ns[0]), ..finding })
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::RecordedStream;

    #[test]
    fn a_script_that_is_rewritten_is_said() {
        let wrote = |at: u64, inode: u64| {
            said(rewritten, &|recording| {
                let script = RecordedStream {
                    file: "update".to_owned(),
                    inode: 7,
                    moved_ns: [1_000_000, 9_000_000],
                    script: true,
                    ..RecordedStream::default()
                };
                recording.streams = vec![script];
                let path = "update".to_owned();
                let does = NameUse::Empties;
                recording.named_files =
                    vec![NamedFile { process: 1, path, does, inode, at_ns: [at, at], ..NamedFile::default() }];
            })
        };
        let text = "`grep` wrote `update` anew at 5.00 ms, while `seq` executed it: a shell reads its script as it goes on, and goes on at the \
                    same byte of what is there now. A new file that is put in its place (`mv`, `install`) leaves the old one to who executes \
                    it.";
        assert_eq!(wrote(5_000_000, 7), [text]);
        assert!(
            wrote(9_500_000, 7).is_empty() && wrote(5_000_000, 8).is_empty(),
            "not read any more, and another file"
        );
    }
}

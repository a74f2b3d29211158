//! A last line without an end, which `while read` of a shell does not use.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedEnd, RecordedProcess};

/// One line is what `read` is called for once. bash does other calls between two, and none within one.
const LEAST_LINES: u64 = 2;

/// `` The last line that `bash` read from the pipe has no end: `read` gets it, but fails, and `while read` stops before it is
/// used. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    // What asks for the end a second time has used the line.
    let drops = |end: &RecordedEnd| {
        let by_bytes = end.bytes > 0 && end.bytes + end.at_end == end.all_calls();
        by_bytes && end.lines >= LEAST_LINES && end.unended == 1 && end.at_end == 1
    };
    let mut found = Vec::new();
    for (at, channel, end) in view.readers().filter(|(_, _, end)| drops(end)) {
        let process = view.process(end);
        // `read -n`, `-N` and `-d` end elsewhere.
        let limits = |word: &String| ["-n", "-N", "-d", "-k"].iter().any(|option| word.contains(option));
        let is_bash = |process: &RecordedProcess| process.name == "bash" && process.pids.len() == 1;
        if process.is_none_or(|process| !is_bash(process) || process.args.iter().any(limits)) {
            continue;
        }
        let text = format!(
            "The last line that {} read from {} has no newline at its end: `read` gets it, but returns false, and `while read` \
             ends before it is used. `while read line || [ -n \"$line\" ]` uses it.",
            view.name(end.process),
            view.pipe_from(channel)
        );
        let finding = Finding::new(FindingKind::LastLine, [end.process], text);
        found.push(Finding { channels: vec![at], ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn read(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            let end = &mut recording.channels[0].readers[0];
            (end.bytes, end.at_end, end.lines, end.unended) = (30, 1, 2, 1);
            end.calls = [("read".to_owned(), 31)].into();
            recording.recorded[1].name = "bash".to_owned();
            change(recording);
        })
    }

    #[test]
    fn a_last_line_without_an_end_is_said() {
        let text = "The last line that `bash` read from the pipe from `seq` has no newline at its end: `read` gets it, but returns \
                    false, and `while read` ends before it is used. `while read line || [ -n \"$line\" ]` uses it.";
        assert_eq!(read(&|_| {}), [text]);
    }

    #[test]
    fn what_ends_or_is_read_once_more_is_not() {
        let silent: [&dyn Fn(&mut Document); 6] = [
            &|recording| recording.recorded[1].name = "dash".to_owned(),
            &|recording| recording.channels[0].readers[0].unended = 0,
            &|recording| recording.channels[0].readers[0].lines = 0,
            &|recording| recording.channels[0].readers[0].at_end = 2,
            &|recording| recording.channels[0].readers[0].bytes = 3000,
            &|recording| recording.recorded[1].args = vec!["read -n1 x".to_owned()],
        ];
        for change in silent {
            let found = read(change);
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

//! `xargs`, which starts its program once although its input is empty.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedProcess};

/// `` `xargs` read nothing and started `rm` all the same: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let all = &view.document.recorded;
    let started = |end: usize| all.iter().position(|other| other.started_by == Some(end) && other.execs > 0);
    let finds_nothing = |process: &RecordedProcess| process.name == "xargs" && process.forks == 1 && !is_asked(process);
    view.readers()
        .filter(|(at, _, end)| {
            let process = view.process(end).filter(|process| process.input == Some(*at));
            end.bytes == 0 && end.at_end > 0 && process.is_some_and(finds_nothing)
        })
        .map(|(at, channel, end)| {
            let program = started(end.process).map_or_else(|| "its program".to_owned(), |other| view.name(other));
            let text = format!(
                "{} got nothing from {} and started {program} all the same, without arguments: `xargs -r` starts it only if there \
                 are some.",
                view.name(end.process),
                view.pipe_from(channel)
            );
            Finding { channels: vec![at], ..Finding::new(FindingKind::EmptyInput, [end.process], text) }
        })
        .collect()
}

/// Whether it was told not to, or how to replace a word; then it starts none.
fn is_asked(process: &RecordedProcess) -> bool {
    let mut words = process.args.iter().skip(1);
    while let Some(word) = words.next().filter(|word| word.starts_with('-')) {
        let is_short = !word.starts_with("--");
        if word == "--no-run-if-empty" || is_short && word.contains(['r', 'i', 'I', 'L', 'l']) {
            return true;
        }
        // The value is the next word.
        if ["-n", "-P", "-d", "-E", "-s", "-a"].contains(&word.as_str()) {
            words.next();
        }
    }
    process.args.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;

    #[test]
    fn xargs_without_input_is_said() {
        let xargs = |line: &str, bytes: u64| {
            said(find, &|recording| {
                let process = &mut recording.recorded[1];
                process.name = "xargs".to_owned();
                process.args = line.split_whitespace().map(str::to_owned).collect();
                (process.forks, process.input) = (1, Some(0));
                (recording.recorded[2].started_by, recording.recorded[2].execs) = (Some(1), 1);
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.at_end) = (bytes, 1);
            })
        };
        let text = "`xargs` got nothing from the pipe from `seq` and started `cat` all the same, without arguments: `xargs -r` starts it \
                    only if there are some.";
        assert_eq!(xargs("xargs -0 -n 1 rm -r", 0), [text]);
        for (line, bytes) in [("xargs cat", 5), ("xargs -0r cat", 0), ("xargs -I{} cat {}", 0), ("", 0)] {
            assert!(xargs(line, bytes).is_empty(), "{line}");
        }
    }
}

//! A loop of a shell behind a pipe is a process of its own: variables that it sets are gone with it, and `exit` ends only the loop.

use crate::record::say::findings::view::FindingView;
use crate::record::start::command_line::is_shell;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd};
use crate::util::text::counted;

/// `` `bash (4711)`, a copy of `bash a.sh` behind a pipe, read 3 lines, wrote nothing and started nothing: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    if view.document.is_excerpt() || view.document.skipped > 0 {
        return Vec::new();
    }
    view.readers()
        .filter_map(|(at, pipe, end)| {
            Some(Finding { channels: vec![at], ..lost(view, pipe, end).or_else(|| left(view, pipe, end))? })
        })
        .collect()
}

fn lost(view: &FindingView<'_>, pipe: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let part = view.process(end)?;
    let starter = part.started_by?;
    let shell = view.document.recorded.get(starter)?;
    let by_bytes = end.lines > 0 && end.bytes + end.at_end == end.all_calls();
    let is_part = part.execs == 0 && part.pids.len() == 1 && is_shell(&part.name) && is_shell(&shell.name);
    let is_quiet = part.effects == 0 && part.forks == 0 && !part.moves_unseen();
    let ended_well = part.exit_code.is_none() && part.signal.is_none() && part.end_ns < shell.end_ns;
    if !(pipe.kind.is_pipe() && by_bytes && is_part && is_quiet && ended_well) {
        return None;
    }
    let text = format!(
        "{}, a copy of {} behind a pipe, read {}, wrote nothing and started nothing: if it set variables, they are gone since \
         it ended. `while read ...; done < <(command)` instead of `command | while`, or `shopt -s lastpipe`, sets them in the \
         script itself.",
        view.name(end.process),
        view.name(starter),
        counted(end.lines, "line")
    );
    let finding = Finding::new(FindingKind::LostVariables, [end.process, starter], text);
    Some(Finding { count: Some(end.lines), at_ns: Some(part.end_ns), ..finding })
}

/// `` `bash (4711)`, a copy of `bash a.sh` behind a pipe, ended with exit code 1 before it had read all, and ... ``
fn left(view: &FindingView<'_>, pipe: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let part = view.process(end)?;
    let starter = part.started_by?;
    let shell = view.document.recorded.get(starter)?;
    let by_bytes = end.lines > 0 && end.at_end == 0 && end.bytes == end.all_calls();
    let is_part = part.execs == 0 && part.pids.len() == 1 && is_shell(&part.name) && is_shell(&shell.name);
    // Without one, it may have read one line to test it.
    let did_more = part.effects > 0 || part.forks > 0;
    let code = part.exit_code.filter(|_| part.signal.is_none() && part.end_ns < shell.end_ns)?;
    let goes_on = shell.effects > 0 && shell.exit_code.is_none() && view.document.exit_codes.last() == Some(&0);
    if !(pipe.kind.is_pipe() && by_bytes && is_part && did_more && goes_on) {
        return None;
    }
    let text = format!(
        "{}, a copy of {shell} behind a pipe, ended with exit code {code} after {}, before it had read all, and {shell} went on: \
         `exit` in `command | while` ends only the loop. `while read ...; done < <(command)` ends the script, and so does `|| exit` \
         behind `done`.",
        view.name(end.process),
        counted(end.lines, "line"),
        shell = view.name(starter)
    );
    let finding = Finding::new(FindingKind::HiddenFailure, [end.process, starter], text);
    Some(Finding { count: Some(code.into()), at_ns: Some(part.end_ns), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    fn loops(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            recording.recorded[0].name = "bash".to_owned();
            let part = &mut recording.recorded[1];
            part.name = "bash".to_owned();
            (part.execs, part.started_by, part.end_ns) = (0, Some(0), WINDOW / 2);
            let end = &mut recording.channels[0].readers[0];
            (end.bytes, end.at_end, end.lines) = (19, 1, 3);
            change(recording);
        })
    }

    #[test]
    fn variables_of_a_part_that_did_nothing_else_are_said() {
        let said = loops(&|_| {});
        assert!(
            said[0].contains("behind a pipe, read 3 lines, wrote nothing and started nothing: if it set variables"),
            "{said:?}"
        );
        let exits = |effects: u64| {
            loops(&|recording| {
                recording.exit_codes = vec![0];
                (recording.recorded[0].effects, recording.recorded[1].effects) = (1, effects);
                recording.recorded[1].exit_code = Some(1);
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.at_end, end.lines) = (20, 0, 1);
            })
        };
        let text = " behind a pipe, ended with exit code 1 after 1 line, before it had read all, and `bash";
        assert!(exits(1)[0].contains(text) && exits(0).is_empty(), "{:?}", exits(1));
        let silent: [&dyn Fn(&mut Document); 6] = [
            &|recording| recording.recorded[1].effects = 1,
            &|recording| recording.recorded[1].forks = 1,
            &|recording| recording.recorded[1].execs = 1,
            &|recording| recording.recorded[1].exit_code = Some(1),
            &|recording| recording.recorded[0].name = "xargs".to_owned(),
            &|recording| recording.channels[0].readers[0].lines = 0,
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(loops(change).is_empty(), "{at}");
        }
    }
}

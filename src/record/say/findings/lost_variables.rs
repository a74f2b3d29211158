//! A loop of a shell behind a pipe that could only set variables: it is a process of its own, with which they are gone.

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
        .filter_map(|(at, pipe, end)| Some(Finding { channels: vec![at], ..lost(view, pipe, end)? }))
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

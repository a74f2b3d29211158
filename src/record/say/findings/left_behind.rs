//! Jobs in the background of a part of a shell, for which the shell itself cannot wait.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::start::command_line::is_shell;
use crate::result::{Finding, FindingKind};

/// What goes on for so long is not about to end anyway, ns.
const LONG_NS: u64 = 50_000_000;

/// `` What `bash (4711)`, a copy of `bash a.sh` behind a pipe, had started (`sort`) went on until 1.20 s, ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let reads = |at: usize| {
        view.readers().any(|(_, pipe, end)| end.process == at && pipe.kind.is_pipe() && end.bytes > 0 && end.at_end > 0)
    };
    let parts = document.recorded.iter().enumerate().filter(|(at, part)| {
        part.execs == 0 && part.forks > 0 && part.pids.len() == 1 && is_shell(&part.name) && reads(*at)
    });
    let left = |(at, part): (usize, &crate::result::RecordedProcess)| {
        let starter = part.started_by?;
        let shell = document.recorded.get(starter).filter(|shell| is_shell(&shell.name) && shell.pids.len() == 1)?;
        let ended = shell.end_ns.max(part.end_ns);
        let children = document.recorded.iter().enumerate().filter(|(_, child)| {
            child.started_by == Some(at) && child.end_ns > ended + LONG_NS && child.begin_ns < part.end_ns
        });
        let children: Vec<usize> = children.map(|(child, _)| child).collect();
        let last = children.iter().map(|child| document.recorded[*child].end_ns).max()?;
        let text = format!(
            "What {}, a copy of {shell} behind a pipe, had started in the background ({}) went on until {}, although {shell} \
             ended at {}: `wait` waits for the jobs of its own process only. A `wait` before the loop's `done` ends, or `done \
             < <(command)` instead of `command | while`, waits for them.",
            view.name(at),
            few(children.iter().map(|child| view.name(*child))),
            after(last),
            after(ended),
            shell = view.name(starter)
        );
        let _ = shell;
        let finding = Finding::new(FindingKind::NotAwaited, [starter, at].into_iter().chain(children), text);
        Some(Finding { at_ns: Some(ended), ..finding })
    };
    parts.filter_map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    fn jobs(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            for (at, end) in [(0, WINDOW / 4), (1, WINDOW / 8)] {
                recording.recorded[at].name = "bash".to_owned();
                recording.recorded[at].end_ns = end;
            }
            let part = &mut recording.recorded[1];
            (part.execs, part.forks, part.started_by) = (0, 2, Some(0));
            recording.recorded[2].started_by = Some(1);
            recording.channels[0].readers[0].at_end = 1;
            change(recording);
        })
    }

    #[test]
    fn jobs_of_a_part_that_go_on_are_said() {
        let said = jobs(&|_| {});
        assert!(said[0].contains("in the background (`cat`) went on until 4.00 s, although"), "{said:?}");
        let silent: [&dyn Fn(&mut Document); 4] = [
            &|recording| recording.recorded[2].started_by = Some(0),
            &|recording| recording.recorded[2].end_ns = WINDOW / 4,
            &|recording| recording.recorded[1].execs = 1,
            &|recording| recording.channels[0].readers[0].at_end = 0,
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(jobs(change).is_empty(), "{at}");
        }
    }
}

//! Jobs in the background of a part of a shell, for which the shell itself cannot wait.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::start::command_line::is_shell;
use crate::result::{Finding, FindingKind};
use crate::util::text::counted;

/// What goes on for so long is not about to end anyway, ns.
const LONG_NS: u64 = 50_000_000;

/// `` `bash (4711)`, a copy of `bash a.sh` behind a pipe, had started 4 processes in the background (`sleep`) that still ran ... ``
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
        let window = document.processes.window_ns;
        let left = part.left.as_ref()?;
        // What had not ended when nothing was left to wait for.
        let goes_on = left.until_ns > ended + LONG_NS || left.until_ns >= window && ended < window;
        let killed = left.processes.iter().any(|of| document.recorded.get(*of).is_none_or(|of| of.signal.is_some()));
        if !goes_on || killed {
            return None;
        }
        let until = if left.until_ns >= window {
            "still ran".to_owned()
        } else {
            format!("went on until {}", after(left.until_ns))
        };
        let text = format!(
            "{}, a copy of {shell} behind a pipe, had started {} in the background ({}) that {until} when {shell} ended at {}: \
             `wait` waits for the jobs of its own process only. A `wait` before the loop's `done` ends, or `done < <(command)` \
             instead of `command | while`, waits for them.",
            view.name(at),
            counted(left.count, "process"),
            few(left.processes.iter().map(|child| view.name(*child))),
            after(ended),
            shell = view.name(starter)
        );
        let finding = Finding::new(
            FindingKind::NotAwaited,
            [starter, at].into_iter().chain(left.processes.iter().copied()),
            text,
        );
        Some(Finding { at_ns: Some(ended), ..finding })
    };
    parts.filter_map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{Document, LeftProcesses};

    fn jobs(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            for (at, end) in [(0, WINDOW / 4), (1, WINDOW / 8)] {
                recording.recorded[at].name = "bash".to_owned();
                recording.recorded[at].end_ns = end;
            }
            let until_ns = WINDOW;
            recording.recorded[1].left = Some(LeftProcesses { count: 3, processes: [2].into(), until_ns });
            let part = &mut recording.recorded[1];
            (part.execs, part.forks, part.started_by) = (0, 2, Some(0));
            recording.channels[0].readers[0].at_end = 1;
            change(recording);
        })
    }

    #[test]
    fn jobs_of_a_part_that_go_on_are_said() {
        let said = jobs(&|_| {});
        assert!(said[0].contains("had started 3 processes in the background (`cat`) that still ran when"), "{said:?}");
        let silent: [&dyn Fn(&mut Document); 4] = [
            &|recording| recording.recorded[1].left = None,
            &|recording| recording.recorded[2].signal = Some(9),
            &|recording| recording.recorded[1].execs = 1,
            &|recording| recording.channels[0].readers[0].at_end = 0,
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(jobs(change).is_empty(), "{at}");
        }
    }
}

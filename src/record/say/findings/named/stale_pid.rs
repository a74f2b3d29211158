//! Process ids in files that are those of other processes by now.

use crate::record::say::findings::view::FindingView;
use crate::record::say::standstill::full_name;
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::grouped;

/// What lives longer does more than to look whether it runs already, ns.
const SOON: u64 = 1_000_000_000;

/// `` `python3 svc.py` asked whether process 6712 lives, and ended with exit code 1 (8 times): that is `sleep`, ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let all = &view.document.recorded;
    let stale = |(at, process): (usize, &RecordedProcess)| {
        let code = process.exit_code.filter(|_| !process.is_shell())?;
        let count = process.pids.len().max(1) as u64;
        let pid = process.asked_alive.filter(|_| process.lived_ns / count < SOON)?;
        let is_it = |other: &RecordedProcess| other.execs > 0 && other.pids.contains(&pid);
        // What it executed last.
        let other = all.iter().rposition(is_it)?;
        let is_own = all[other].started_by == Some(at) || view.with_starters(at).any(|of| of == other);
        if is_own || all[other].program() == process.program() {
            return None;
        }
        let (name, times) =
            (view.name(at), if count > 1 { format!(" ({} times)", grouped(count)) } else { String::new() });
        let text = format!(
            "{name} asked whether process {pid} lives (`kill` with signal 0), and ended with exit code {code}{times}: that is {}, not {name}. A \
             file with a process id can outlive its process, and another one can get the id. A lock of the file itself (`flock`) ends with who \
             has it; or compare the name and start time in /proc/{pid}, too.",
            view.name(other)
        );
        let finding = Finding::new(FindingKind::LeftLock, [at, other], text);
        Some(Finding { count: Some(count), ..finding })
    };
    all.iter().enumerate().filter_map(stale).collect()
}

/// `` `a.sh` asks whether process 6712 lives, which has ended: `cat`, whose child it is, has not waited for it. ``
pub(crate) fn zombie(view: &FindingView<'_>) -> Vec<Finding> {
    let Some(look) = &view.document.last_look else { return Vec::new() };
    let ended = look.waits.iter().flat_map(|wait| wait.process.unreaped.iter().map(|child| (&wait.process, child)));
    let found = ended.filter_map(|(parent, child)| {
        let asks = |process: &RecordedProcess| process.asked_alive == Some(child.pid);
        let at = view.document.recorded.iter().position(asks).filter(|at| Some(*at) != parent.recorded)?;
        let (name, parent_name) = (view.name(at), full_name(parent));
        let text = format!(
            "{name} asks whether process {} lives (`kill` with signal 0), which has ended: its id is taken until its parent, {parent_name}, \
             waits for it or ends. A program that a shell executes in its own place (`exec`, the last command of a line) knows nothing of \
             what that has started before.",
            child.pid
        );
        let processes = [Some(at), parent.recorded].into_iter().flatten();
        Some(Finding::new(FindingKind::Held, processes, text))
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, silent};
    use crate::result::{Document, EndedChild, LastLook, LastWait, SeenProcess, WaitedFor};

    #[test]
    fn the_id_of_another_process_is_said() {
        let asks = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                recording.recorded[2].execs = 1;
                let process = &mut recording.recorded[1];
                (process.exit_code, process.asked_alive) = (Some(1), Some(3));
                change(recording);
            })
        };
        let text = "`grep` asked whether process 3 lives (`kill` with signal 0), and ended with exit code 1: that is `cat`, not `grep`. A file \
                    with a process id can outlive its process, and another one can get the id. A lock of the file itself (`flock`) ends with who \
                    has it; or compare the name and start time in /proc/3, too.";
        assert_eq!(asks(&|_| {}), [text]);
        silent(
            &asks,
            &[
                &|recording| recording.recorded[1].exit_code = None,
                &|recording| recording.recorded[2].started_by = Some(1),
                &|recording| recording.recorded[2].name = "grep".to_owned(),
                &|recording| recording.recorded[1].lived_ns = SOON,
            ],
        );
    }

    #[test]
    fn a_process_that_has_ended_and_is_asked_for_is_said() {
        let asked = |change: &dyn Fn(&mut Document)| {
            said(zombie, &|recording| {
                recording.recorded[1].asked_alive = Some(9);
                let ended = EndedChild { pid: 9, name: "bash".to_owned(), status: Some(15) };
                let cat = SeenProcess {
                    pid: 3,
                    name: "cat".to_owned(),
                    recorded: Some(2),
                    unreaped: vec![ended],
                    ..SeenProcess::default()
                };
                let wait = LastWait { process: cat, awaited: WaitedFor::Thread, endless: false, stuck: false };
                recording.last_look = Some(LastLook { waits: vec![wait], ..LastLook::default() });
                change(recording);
            })
        };
        let text = "`grep` asks whether process 9 lives (`kill` with signal 0), which has ended: its id is taken until its parent, `cat` \
                    (process 3), waits for it or ends. A program that a shell executes in its own place (`exec`, the last command of a \
                    line) knows nothing of what that has started before.";
        assert_eq!(asked(&|_| {}), [text]);
        silent(
            &asked,
            &[&|recording| recording.recorded[1].asked_alive = Some(8), &|recording| recording.last_look = None],
        );
    }
}

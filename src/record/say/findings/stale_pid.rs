//! Process ids in files that are those of other processes by now.

use crate::record::say::findings::view::FindingView;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, silent};
    use crate::result::Document;

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
}

//! Jobs in the background that a shell waits for.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedProcess, WaitReason};

/// From this part of the window on, a shell waits long.
const LONG: f64 = 0.5;

/// `` `bash a.sh` waits for `server`, which it started in the background: ... ``, although others that it started later have ended.
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let all = &view.document.recorded;
    let waits = |shell: &RecordedProcess| {
        let ns = shell.waits.get(&WaitReason::Child).map_or(0, |wait| wait.ns);
        shell.is_shell() && ns as f64 >= LONG * view.window() && view.document.is_cut_off()
    };
    let found = all.iter().enumerate().filter(|(_, job)| job.execs > 0 && view.goes_on(job)).find_map(|(at, job)| {
        let shell = job.started_by.filter(|shell| all.get(*shell).is_some_and(waits))?;
        // What the job was before is not another one.
        let is_other = |of: &RecordedProcess| !of.pids.iter().all(|pid| job.pids.contains(pid));
        let is_later = |of: &RecordedProcess| of.execs > 0 && of.begin_ns > job.begin_ns && is_other(of);
        let later = |of: &&RecordedProcess| of.started_by == Some(shell) && is_later(of);
        let later: Vec<&RecordedProcess> = all.iter().filter(later).collect();
        // A command in the foreground ends before the next one begins: what goes on beside a later one is a job, too.
        let is_job = |one: &RecordedProcess| {
            let meanwhile = one.begin_ns + 1..one.end_ns;
            all.iter().any(|of| of.started_by == Some(shell) && meanwhile.contains(&of.begin_ns))
        };
        let has_jobs = later.iter().any(|of| is_job(of));
        // Parts of a pipeline are waited for together.
        let is_alone = job.input.is_none() && job.output.is_none() && has_jobs;
        (is_alone && later.iter().all(|of| !view.goes_on(of))).then_some((shell, at))
    });
    let text = |(shell, job): (usize, usize)| {
        let text = format!(
            "{} waits for {}, which it started in the background: `wait` without a process id waits for all that it has started. \
             `wait $!` after each of those that are meant waits for them only, and `kill` ends the others.",
            view.name(shell),
            view.name(job)
        );
        Finding::new(FindingKind::Held, [shell, job], text)
    };
    found.map(text).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, WaitTotal};

    fn jobs(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            let [job, shell, other] = &mut recording.recorded[..] else { panic!() };
            shell.name = "bash".to_owned();
            shell.waits = [(WaitReason::Child, WaitTotal { ns: WINDOW, count: 3 })].into();
            (job.execs, job.started_by, job.end_ns) = (1, Some(1), WINDOW);
            (other.execs, other.started_by, other.begin_ns, other.end_ns) = (1, Some(1), 5, 9);
            let last = RecordedProcess { begin_ns: 7, ..other.clone() };
            recording.recorded.push(last);
            recording.duration_ns = Some(WINDOW);
            change(recording);
        })
    }

    #[test]
    fn a_job_that_a_shell_waits_for_is_said() {
        let text = "`bash` waits for `seq`, which it started in the background: `wait` without a process id waits for all that it has \
                    started.";
        assert!(jobs(&|_| {})[0].starts_with(text), "{:?}", jobs(&|_| {}));
        silent(
            &jobs,
            &[
                &|recording| recording.duration_ns = None,
                &|recording| recording.recorded[0].output = Some(0),
                &|recording| recording.recorded[2].end_ns = WINDOW,
                &|recording| recording.recorded[0].begin_ns = 9,
                // One after the other: commands in the foreground.
                &|recording| recording.recorded[3].begin_ns = 9,
            ],
        );
    }
}

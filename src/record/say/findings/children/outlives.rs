//! Children that go on with the output of a parent that has ended.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed;
use crate::result::{ChannelKind, Finding, FindingKind, RecordedChannel, RecordedProcess};

/// Who writes so long after its parent's end was not about to end, ns.
const ON_NS: u64 = 200_000_000;

/// `` `node child.js`, which `node parent.js` had started, went on when that ended at 1.66 s ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    // Of what was running before, it is not known who waits for it.
    if document.is_excerpt() || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let found = |(at, child): (usize, &RecordedProcess)| {
        let starter = child.started_by?;
        let parent = document.recorded.get(starter)?;
        let is_one = |at: usize| view.is_one(at) && document.recorded[at].signal.is_none();
        // What a shell leaves in the background was meant to be there; others say who was killed.
        let is_left = child.execs > 0 && parent.execs > 0 && !parent.is_shell() && is_one(starter) && view.is_one(at);
        let last = last_write(view, at, parent)?;
        if !is_left || last < parent.end_ns + ON_NS {
            return None;
        }
        let text = format!(
            "{child}, which {parent} had started, went on when that ended at {}, and wrote to the same output until {}. {parent} has to wait \
             for it, or to end it, before it ends itself; or {child} has to end when its input or its connection to {parent} does.",
            after(parent.end_ns),
            after(last),
            child = view.name(at),
            parent = view.name(starter),
        );
        let finding = Finding::new(FindingKind::NotAwaited, [starter, at], text);
        Some(Finding { at_ns: Some(parent.end_ns), ..finding })
    };
    document.recorded.iter().enumerate().filter_map(found).take(1).collect()
}

/// `` `bash a.sh` failed with exit code 1 at 1.01 s, and `bash worker.sh`, its job in the background, went on: ... ``
pub(crate) fn of_failed(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let found = |(at, shell): (usize, &RecordedProcess)| {
        let code = shell.exit_code.filter(|code| *code > 0 && shell.is_shell() && shell.started_by.is_none())?;
        let left = shell.left.as_ref().filter(|left| left.until_ns >= document.processes.window_ns)?;
        let runs = |of: &&usize| document.recorded.get(**of).is_some_and(|job| job.execs > 0 && job.signal.is_none());
        let jobs: Vec<usize> = left.processes.iter().filter(runs).copied().collect();
        if jobs.is_empty() || !view.is_one(at) {
            return None;
        }
        let text = format!(
            "{} failed with exit code {code} at {}, and {}, which it had started in the background, went on: a shell does not end its jobs. \
             `trap 'kill $(jobs -p)' EXIT` does.",
            view.name(at),
            after(shell.end_ns),
            few(jobs.iter().map(|job| view.name(*job)))
        );
        let finding = Finding::new(FindingKind::NotAwaited, [at].into_iter().chain(jobs), text);
        Some(Finding { at_ns: Some(shell.end_ns), ..finding })
    };
    document.recorded.iter().enumerate().find_map(found).into_iter().collect()
}

/// `` `sleep 14`, which `python dl.py` had started, went on when SIGINT ended `python dl.py` at 4.21 s: that did not reach it ... ``
pub(crate) fn missed_signal(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let found = |(at, parent): (usize, &RecordedProcess)| {
        let signal = killed::requested(parent).filter(|_| !parent.is_shell() && view.is_one(at))?;
        let goes_on = |until: u64| until >= document.processes.window_ns && until > parent.end_ns + ON_NS;
        let left = parent.left.as_ref().filter(|left| goes_on(left.until_ns))?;
        // Who got the signal, and ignores or handles it, goes on by itself.
        let missed = |of: &&usize| {
            let child = document.recorded.get(**of);
            child.is_some_and(|of| {
                of.execs > 0 && of.signal.is_none() && of.told_signal.is_none() && of.got_signal.is_none()
            })
        };
        let children: Vec<usize> = left.processes.iter().filter(missed).copied().collect();
        if children.is_empty() {
            return None;
        }
        let (parent_name, names) = (view.name(at), few(children.iter().map(|child| view.name(*child))));
        let how = if signal == "SIGKILL" {
            format!(
                "that signal leaves {parent_name} no time to end what it has started. What is to end with it has to notice that itself: by the end \
                 of file of a pipe from it, or `prctl(PR_SET_PDEATHSIG)`; or SIGTERM comes first"
            )
        } else {
            format!(
                "that signal did not come there, as it was sent to one process, or with a session or process group of its own (`setsid`, \
                 `start_new_session`). {parent_name} has to end it, in a handler of the signal or in `finally`, or leave it in its own group"
            )
        };
        let text = format!(
            "{names}, which {parent_name} had started, went on when {signal} ended {parent_name} at {}: {how}.",
            after(parent.end_ns)
        );
        let finding = Finding::new(FindingKind::LeftRunning, [at].into_iter().chain(children), text);
        Some(Finding { at_ns: Some(parent.end_ns), ..finding })
    };
    document.recorded.iter().enumerate().find_map(found).into_iter().collect()
}

/// `` `python3 watch.py` went on when `beam.smp`, which wrote to its standard input, ended at 2.15 s: ... ``
pub(crate) fn unread_input(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let found = |(at, child): (usize, &RecordedProcess)| {
        let starter = document.recorded.get(child.started_by?)?;
        let goes_on = child.signal.is_none() && child.end_ns >= document.processes.window_ns;
        let is_left = goes_on && child.execs > 0 && view.is_one(at);
        let reads =
            |input: &RecordedChannel| input.readers.iter().any(|end| end.process == at && !end.calls.is_empty());
        let input = document.channels.get(child.input?).filter(|input| {
            let kind_tells = input.kind.is_pipe() || input.kind == ChannelKind::UnixStream;
            kind_tells && input.other_writers.is_empty() && !reads(input)
        })?;
        // Who started it can be a helper of who writes.
        let writers = || input.writers.iter().filter_map(|end| view.process(end));
        let ended = writers().map(|writer| writer.end_ns).max()?.max(starter.end_ns);
        let by_hand = starter.is_shell() || writers().any(|writer| writer.is_shell() || writer.signal.is_some());
        if !is_left || by_hand || child.end_ns < ended + ON_NS {
            return None;
        }
        let text = format!(
            "{child} went on when {writers} ended at {}: nobody sent it a signal, and it never reads its standard input (the {} from {writers}), \
             whose end would tell it. It has to read that and to end with it, or who starts it has to end it first.",
            after(ended),
            input.kind.noun(),
            child = view.name(at),
            writers = view.names(&input.writers),
        );
        let finding = Finding::new(FindingKind::NotAwaited, [at], text);
        Some(Finding { at_ns: Some(ended), ..finding })
    };
    document.recorded.iter().enumerate().find_map(found).into_iter().collect()
}

/// When a process wrote last to what is the standard output of `parent` as well.
fn last_write(view: &FindingView<'_>, at: usize, parent: &RecordedProcess) -> Option<u64> {
    let child = view.document.recorded.get(at)?;
    if let Some(output) = parent.output.filter(|_| child.output == parent.output) {
        let own = view.document.channels.get(output)?.writers.iter().find(|end| end.process == at)?;
        return own.moved_ns.map(|[_, last]| last);
    }
    let file = parent.output_file.filter(|_| child.output_file == parent.output_file)?;
    let streams = view
        .document
        .streams
        .iter()
        .filter(|stream| stream.process == at && stream.writes && [stream.inode, stream.device.into()] == file);
    streams.map(|stream| stream.moved_ns[1]).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, LeftProcesses};

    #[test]
    fn jobs_of_a_script_that_failed_are_said() {
        let failed = |change: &dyn Fn(&mut Document)| {
            said(of_failed, &|recording| {
                let shell = &mut recording.recorded[0];
                (shell.name, shell.exit_code, shell.end_ns) = ("sh".to_owned(), Some(1), WINDOW / 2);
                shell.left = Some(LeftProcesses { count: 1, processes: [1].into(), until_ns: WINDOW });
                recording.recorded[1].execs = 1;
                change(recording);
            })
        };
        let text = "`sh` failed with exit code 1 at 2.00 s, and `grep`, which it had started in the background, went on: a shell does not end \
                    its jobs. `trap 'kill $(jobs -p)' EXIT` does.";
        assert_eq!(failed(&|_| {}), [text]);
        silent(
            &failed,
            &[
                &|recording| recording.recorded[0].exit_code = None,
                &|recording| recording.recorded[0].name = "make".to_owned(),
                &|recording| recording.recorded[1].signal = Some(15),
                &|recording| recording.recorded[0].left.as_mut().unwrap().until_ns = WINDOW - 1,
            ],
        );
    }

    #[test]
    fn who_goes_on_without_its_parent_is_said() {
        let left = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let writer = recording.channels[0].writers[0].clone();
                recording.channels[0].writers.push(crate::result::RecordedEnd { process: 1, ..writer });
                for at in [0, 1] {
                    (recording.recorded[at].output, recording.recorded[at].execs) = (Some(0), 1);
                }
                recording.recorded[1].started_by = Some(0);
                recording.recorded[0].end_ns = WINDOW / 4;
                change(recording);
            })
        };
        let text = "`grep`, which `seq` had started, went on when that ended at 1.00 s, and wrote to the same output until 4.00 s. `seq` has to \
                    wait for it, or to end it, before it ends itself; or `grep` has to end when its input or its connection to `seq` does.";
        assert_eq!(left(&|_| {}), [text]);
        silent(
            &left,
            &[
                &|recording| recording.recorded[0].name = "bash".to_owned(),
                &|recording| recording.recorded[0].signal = Some(15),
                &|recording| recording.recorded[1].output = Some(1),
                &|recording| recording.channels[0].writers[1].moved_ns = Some([0, WINDOW / 4]),
                &|recording| recording.recorded[0].end_ns = WINDOW,
            ],
        );
    }

    #[test]
    fn who_never_reads_the_input_that_ended_is_said() {
        let left = |change: &dyn Fn(&mut Document)| {
            said(unread_input, &|recording| {
                for at in [0, 1] {
                    (recording.recorded[at].execs, recording.recorded[at].stage) = (1, 0);
                }
                (recording.recorded[1].started_by, recording.recorded[1].input) = (Some(0), Some(0));
                (recording.recorded[0].end_ns, recording.recorded[1].end_ns) = (WINDOW / 4, WINDOW);
                recording.channels[0].readers.clear();
                change(recording);
            })
        };
        let text = "`grep` went on when `seq` ended at 1.00 s: nobody sent it a signal, and it never reads its standard input (the pipe from \
                    `seq`), whose end would tell it. It has to read that and to end with it, or who starts it has to end it first.";
        assert_eq!(left(&|_| {}), [text]);
        silent(
            &left,
            &[
                &|recording| recording.recorded[0].name = "bash".to_owned(),
                &|recording| recording.recorded[0].signal = Some(15),
                &|recording| recording.recorded[1].end_ns = WINDOW - 1,
                &|recording| recording.recorded[1].input = None,
                &|recording| {
                    let end = recording.channels[0].writers[0].clone();
                    recording.channels[0].readers.push(crate::result::RecordedEnd { process: 1, ..end });
                },
                &|recording| recording.recorded[0].end_ns = WINDOW,
            ],
        );
    }

    #[test]
    fn whom_a_signal_did_not_reach_is_said() {
        let missed = |change: &dyn Fn(&mut Document)| {
            said(missed_signal, &|recording| {
                let parent = &mut recording.recorded[0];
                (parent.signal, parent.end_ns) = (Some(2), WINDOW / 2);
                parent.left = Some(LeftProcesses { count: 1, processes: [1].into(), until_ns: WINDOW });
                recording.recorded[1].execs = 1;
                change(recording);
            })
        };
        let text = "`grep`, which `seq` had started, went on when SIGINT ended `seq` at 2.00 s: that signal did not come there, as it was sent to \
                    one process, or with a session or process group of its own (`setsid`, `start_new_session`). `seq` has to end it, in a handler of the signal or in `finally`, \
                    or leave it in its own group.";
        assert_eq!(missed(&|_| {}), [text]);
        let killed = missed(&|recording| recording.recorded[0].signal = Some(9));
        assert!(
            killed[0].contains("at 2.00 s: that signal leaves `seq` no time to end what it has started."),
            "{killed:?}"
        );
        silent(
            &missed,
            &[
                &|recording| recording.recorded[0].signal = Some(11),
                &|recording| recording.recorded[0].name = "bash".to_owned(),
                &|recording| recording.recorded[1].signal = Some(15),
                &|recording| recording.recorded[1].got_signal = Some(2),
                &|recording| recording.recorded[0].left.as_mut().unwrap().until_ns = WINDOW - 1,
            ],
        );
    }
}

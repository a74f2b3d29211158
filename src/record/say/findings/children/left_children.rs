//! What is lost between a process and what it has started: variables, exit codes, and processes that go on.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::BOTH_END;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess, RecordedStream, WaitReason};
use crate::util::text::{clean, counted, grouped};
use std::collections::BTreeSet;

/// What goes on for so long is not about to end anyway, ns.
const LONG_NS: u64 = 50_000_000;

/// `` `bash (4711)`, a copy of `bash a.sh` behind a pipe, had started 4 processes in the background (`sleep`) that still ran ... ``
pub(crate) fn left_behind(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let reads = |at: usize| {
        view.readers().any(|(_, pipe, end)| end.process == at && pipe.kind.is_pipe() && end.bytes > 0 && end.at_end > 0)
    };
    let parts = document
        .recorded
        .iter()
        .enumerate()
        .filter(|(at, part)| part.execs == 0 && part.forks > 0 && part.is_one() && part.is_shell() && reads(*at));
    let left = |(at, part): (usize, &crate::result::RecordedProcess)| {
        let starter = part.started_by?;
        let shell = document.recorded.get(starter).filter(|shell| shell.is_shell() && shell.is_one())?;
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

/// A child that reads on for so long afterwards did not only wait for a CPU, ns.
const NOT_AWAITED_LONG_NS: u64 = 50_000_000;

/// From this part of the time since the first write on, what it did otherwise kept it from reading.
const ELSEWHERE: f64 = 0.5;

/// `` `bash log.sh` ended at 5.9 ms and did not wait for `bash (4711)`, which it had started ... ``
pub(crate) fn not_awaited(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || document.skipped > 0 || !document.target.pids().is_empty() {
        return Vec::new();
    }
    let channels = document.channels.iter().enumerate();
    channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..left(view, channel)? })).collect()
}

fn left(view: &FindingView<'_>, channel: &RecordedChannel) -> Option<Finding> {
    let document = view.document;
    let [reader] = &channel.readers[..] else { return None };
    let child = view.process(reader)?;
    let starter = child.started_by?;
    let own = channel.writers.iter().find(|end| end.process == starter && end.bytes > 0)?;
    let parent = view.process(own)?;
    let window = document.processes.window_ns;
    // Others may have written later.
    let others_end = channel.writers.iter().filter_map(|end| view.process(end)).map(|process| process.end_ns).max()?;
    let is_alone = parent.is_one() && child.is_one() && child.signal.is_none() && parent.signal.is_none();
    if !is_alone || others_end > parent.end_ns || parent.end_ns >= window || !channel.other_readers.is_empty() {
        return None;
    }
    let written = channel.written();
    let unread = written.saturating_sub(reader.bytes);
    let (name, reads) = (view.name(own.process), view.name(reader.process));
    let ended = after(parent.end_ns);
    // It has read since, and was not done.
    let reads_on = reader.moved_ns.is_some_and(|[_, last]| last > parent.end_ns);
    let text = if unread > 0 && reader.at_end == 0 && (reads_on || is_elsewhere(child, own, window)) {
        format!(
            "{name} ended at {ended} without waiting for its child {reads}, which had read {} of {} that it had written by the \
             end of the recording: what depends on the rest comes later, or never. `wait` for it before the end.",
            grouped(reader.bytes),
            counted(written, "byte")
        )
    } else if reader.moved_ns.is_some_and(|[_, last]| last >= parent.end_ns + NOT_AWAITED_LONG_NS) {
        format!(
            "{name} ended at {ended} without waiting for its child {reads}, which went on until {}: it still read what {name} had \
             written. `wait` for it before the end.",
            after(child.end_ns)
        )
    } else {
        return None;
    };
    let finding = Finding::new(FindingKind::NotAwaited, [own.process, reader.process], text);
    Some(Finding { bytes: Some(unread), at_ns: Some(parent.end_ns), ..finding })
}

/// Whether a child waited mostly for something else since its parent first wrote to it.
fn is_elsewhere(child: &RecordedProcess, own: &RecordedEnd, window: u64) -> bool {
    let kept = |reason: &WaitReason| !matches!(reason, WaitReason::Stopped | WaitReason::Traced | WaitReason::Frozen);
    let ns: u64 = child.waits.iter().filter(|(reason, _)| kept(reason)).map(|(_, wait)| wait.ns).sum();
    let first = own.moved_ns.map_or(0, |[first, _]| first);
    ns as f64 >= ELSEWHERE * window.saturating_sub(first) as f64
}

/// `` `bash (4711)`, a copy of `bash a.sh` behind a pipe, read 3 lines, wrote nothing and started nothing: ... ``
pub(crate) fn lost_variables(view: &FindingView<'_>) -> Vec<Finding> {
    if view.document.is_excerpt() || view.document.skipped > 0 {
        return Vec::new();
    }
    view.readers()
        .filter_map(|(at, pipe, end)| {
            Some(Finding { channels: vec![at], ..lost(view, pipe, end).or_else(|| left_loop(view, pipe, end))? })
        })
        .collect()
}

/// A copy of a shell that reads a pipe line by line and ends before it, and the number of what started it.
fn part_of_shell<'a>(
    view: &FindingView<'a>,
    pipe: &RecordedChannel,
    end: &RecordedEnd,
) -> Option<(&'a RecordedProcess, usize)> {
    let (part, starter) = view.process(end).and_then(|part| Some((part, part.started_by?)))?;
    let shell = view.document.recorded.get(starter)?;
    let by_bytes = end.lines > 0 && end.bytes + end.at_end == end.all_calls() && pipe.kind.is_pipe();
    let is_part = part.execs == 0 && part.is_one() && part.is_shell() && shell.is_shell();
    (by_bytes && is_part && part.signal.is_none() && part.end_ns < shell.end_ns).then_some((part, starter))
}

fn lost(view: &FindingView<'_>, pipe: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let (part, starter) = part_of_shell(view, pipe, end)?;
    // Who left the loop had found what it waited for.
    let is_left = end.at_end == 0;
    if part.effects > 0 || part.forks > 0 || part.moves_unseen() || part.exit_code.is_some() || is_left {
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
fn left_loop(view: &FindingView<'_>, pipe: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let (part, starter) = part_of_shell(view, pipe, end)?;
    let shell = view.document.recorded.get(starter)?;
    // Without one, it may have read one line to test it.
    let did_more = part.effects > 0 || part.forks > 0;
    let goes_on = shell.effects > 0 && shell.exit_code.is_none() && view.document.exit_codes.last() == Some(&0);
    let code = part.exit_code.filter(|_| did_more && goes_on && end.at_end == 0)?;
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

/// One line is what `read` is called for once. bash does other calls between two, and none within one.
const LEAST_LINES: u64 = 2;

/// `` The last line that `bash` read from the pipe has no end: `read` gets it, but fails, and `while read` stops before it is
/// used. ``
pub(crate) fn last_line(view: &FindingView<'_>) -> Vec<Finding> {
    // What asks for the end a second time has used the line.
    let drops = |end: &RecordedEnd| {
        let by_bytes = end.bytes > 0 && end.bytes + end.at_end == end.all_calls();
        by_bytes && end.lines >= LEAST_LINES && end.unended == 1 && end.at_end == 1
    };
    let commands =
        |end: &RecordedEnd| view.process(end).is_some_and(|process| !process.args.is_empty() && !has_script(process));
    let channels = view.readers().filter(|(_, _, end)| drops(end) && !commands(end));
    let channels = channels.map(|(at, channel, end)| (end.process, Some(at), view.pipe_from(channel)));
    // In a file, it goes back to the end of each line, as long as there is one. Its own script is no list of lines.
    let drops = |stream: &&RecordedStream| {
        let own = view.document.recorded.get(stream.process).is_none_or(|process| !has_script(process));
        !stream.writes && !stream.script && stream.unended && stream.at_end == 1 && stream.moves > 0 && !own
    };
    let files = view.document.streams.iter().filter(drops);
    let files = files.map(|stream| (stream.process, None, format!("`{}`", clean(&stream.file))));
    let is_bash = |at: usize| {
        // `read -n`, `-N` and `-d` end elsewhere.
        let limits = |word: &String| ["-n", "-N", "-d", "-k"].iter().any(|option| word.contains(option));
        let process = view.document.recorded.get(at);
        process.is_some_and(|of| of.name == "bash" && of.is_one() && !of.args.iter().any(limits))
    };
    let say = |(process, channel, from): (usize, Option<usize>, String)| {
        let text = format!(
            "The last line that {} read from {from} has no newline at its end: `read` gets it, but returns false, and `while read` \
             ends before it is used. `while read line || [ -n \"$line\" ]` uses it.",
            view.name(process)
        );
        let finding = Finding::new(FindingKind::LastLine, [process], text);
        Finding { channels: channel.into_iter().collect(), ..finding }
    };
    channels.chain(files).filter(|(process, ..)| is_bash(*process)).map(say).collect()
}

/// Whether a shell does not read its commands from its standard input.
fn has_script(shell: &RecordedProcess) -> bool {
    let mut words = shell.args.iter().skip(1);
    words.any(|word| !word.starts_with('-') || word.contains('c')) && !shell.args.iter().any(|word| word == "-s")
}

/// What lives on for so long is not about to end, ns, and it is waited for this part of that.
const OUTLIVED_LONG_NS: u64 = 300_000_000;
const WAITED: f64 = 0.5;

/// `` `python3 a.py` ended `sh` at 1.04 s, and waited for the end of its pipe: `sleep` (process 9) still had its write end open ... ``
pub(crate) fn outlived(view: &FindingView<'_>) -> Vec<Finding> {
    // Those of whom one was ended by another one: with thousands, not all are looked at for each.
    let ended: BTreeSet<usize> =
        view.document.recorded.iter().filter(|process| process.ended_by.is_some()).filter_map(|of| of.output).collect();
    let channels = view.document.channels.iter().enumerate();
    channels
        .filter(|(at, channel)| channel.kind.is_pipe() && ended.contains(at))
        .filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..outlived_at(view, at, channel)? }))
        .collect()
}

fn outlived_at(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    let reading: Vec<&RecordedEnd> = channel.readers.iter().filter(|end| end.all_calls() + end.sleeps > 0).collect();
    let [reader] = reading[..] else { return None };
    let has = |process: &RecordedProcess| process.output == Some(at);
    let all = || view.document.recorded.iter().enumerate();
    let (ended, target) = all().find(|(_, process)| has(process) && process.ended_by == Some(reader.process))?;
    let holders = all().filter(|(other, process)| {
        *other != ended && *other != reader.process && has(process) && process.end_ns > target.end_ns + OUTLIVED_LONG_NS
    });
    let holders: Vec<(usize, &RecordedProcess)> = holders.collect();
    let last = holders.iter().map(|(_, process)| process.end_ns).max()?;
    let polls = view.process(reader)?.waits.get(&crate::result::WaitReason::Poll).map_or(0, |wait| wait.ns);
    let waited = reader.blocked_ns + polls;
    if (waited as f64) < WAITED * last.saturating_sub(target.end_ns) as f64 {
        return None;
    }
    let (name, killed) = (view.name(reader.process), view.name(ended));
    let one = |(at, process): &(usize, &RecordedProcess)| match process.pids[..] {
        [pid] => view.name_of_one(*at, pid).unwrap_or_else(|| view.name(*at)),
        _ => view.name(*at),
    };
    let text = format!(
        "{name} ended {killed} at {}, and then waited for the end of the pipe from it: {} still had its write end open as standard \
         output, until {}. {BOTH_END}",
        after(target.end_ns),
        few(holders.iter().map(one)),
        after(last)
    );
    let finding = Finding::new(FindingKind::Outlived, [reader.process, ended], text);
    Some(Finding { at_ns: Some(target.end_ns), ns: Some(last - target.end_ns), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, LeftProcesses, WaitTotal};

    fn jobs(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(left_behind, &|recording| {
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
        silent(
            &jobs,
            &[
                &|recording| recording.recorded[1].left = None,
                &|recording| recording.recorded[2].signal = Some(9),
                &|recording| recording.recorded[1].execs = 1,
                &|recording| recording.channels[0].readers[0].at_end = 0,
            ],
        );
    }

    /// `seq` has started `grep` and ends early.
    fn early(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(not_awaited, &|recording| {
            recording.recorded[0].end_ns = WINDOW / 4;
            let child = &mut recording.recorded[1];
            child.started_by = Some(0);
            child.waits = [(WaitReason::Child, WaitTotal { ns: WINDOW / 10 * 8, count: 2 })].into();
            let channel = &mut recording.channels[0];
            (channel.writers[0].bytes, channel.readers[0].bytes) = (71, 7);
            change(recording);
        })
    }

    #[test]
    fn what_a_child_has_not_read_at_the_end_is_said() {
        let text = "`seq` ended at 1.00 s without waiting for its child `grep`, which had read 7 of 71 bytes that it had written by \
                    the end of the recording: what depends on the rest comes later, or never. `wait` for it before the end.";
        assert_eq!(early(&|_| {}), [text]);
        let later = early(&|recording| recording.channels[0].readers[0].bytes = 71);
        assert!(
            later[0].contains("`grep`, which went on until 4.00 s: it still read what `seq` had written."),
            "{later:?}"
        );
    }

    #[test]
    fn others_and_what_was_waited_for_are_not() {
        silent(
            &early,
            &[
                &|recording| recording.recorded[1].started_by = Some(2),
                &|recording| recording.recorded[0].end_ns = WINDOW,
                &|recording| recording.channels[0].writers[0].process = 2,
                &|recording| {
                    recording.channels[0].readers[0].moved_ns = Some([0, WINDOW / 8]);
                    recording.recorded[1].waits.clear();
                },
            ],
        );
    }

    fn loops(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(lost_variables, &|recording| {
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
        silent(
            &loops,
            &[
                &|recording| recording.recorded[1].effects = 1,
                &|recording| recording.recorded[1].forks = 1,
                &|recording| recording.recorded[1].execs = 1,
                &|recording| recording.recorded[1].exit_code = Some(1),
                &|recording| recording.recorded[0].name = "xargs".to_owned(),
                &|recording| recording.channels[0].readers[0].lines = 0,
            ],
        );
    }

    fn read(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(last_line, &|recording| {
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
        let file = |change: &dyn Fn(&mut RecordedStream)| {
            said(last_line, &|recording| {
                let shell = &mut recording.recorded[1];
                (shell.name, shell.args) = ("bash".to_owned(), vec!["bash".to_owned(), "a.sh".to_owned()]);
                let file = "hosts".to_owned();
                let mut stream =
                    RecordedStream { process: 1, file, at_end: 1, moves: 2, unended: true, ..Default::default() };
                change(&mut stream);
                recording.streams = vec![stream];
            })
        };
        assert_eq!(file(&|_| {}), [text.replace("the pipe from `seq`", "`hosts`").replace("`bash`", "`bash a.sh`")]);
        assert!(file(&|stream| stream.at_end = 2).is_empty(), "it was used");
        assert!(file(&|stream| stream.unended = false).is_empty() && file(&|stream| stream.moves = 0).is_empty());
        assert!(file(&|stream| stream.writes = true).is_empty() && file(&|stream| stream.process = 0).is_empty());
        let script = |line: &str| {
            let args = line.split(' ').map(str::to_owned).collect();
            has_script(&RecordedProcess { args, ..RecordedProcess::default() })
        };
        assert!(
            script("bash -c x") && script("bash a.sh") && !script("bash") && !script("bash -s a") && !script("bash -x")
        );
    }

    #[test]
    fn what_ends_or_is_read_once_more_is_not() {
        silent(
            &read,
            &[
                &|recording| recording.recorded[1].name = "dash".to_owned(),
                &|recording| recording.channels[0].readers[0].unended = 0,
                &|recording| recording.channels[0].readers[0].lines = 0,
                &|recording| recording.channels[0].readers[0].at_end = 2,
                &|recording| recording.channels[0].readers[0].bytes = 3000,
                &|recording| recording.recorded[1].args = vec!["read -n1 x".to_owned()],
            ],
        );
    }

    fn kills(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(outlived, &|recording| {
            let target = &mut recording.recorded[0];
            (target.output, target.ended_by, target.signal, target.end_ns) = (Some(0), Some(1), Some(9), WINDOW / 4);
            (recording.recorded[2].output, recording.recorded[2].end_ns) = (Some(0), WINDOW);
            recording.channels[0].readers[0].blocked_ns = WINDOW / 4 * 3;
            change(recording);
        })
    }

    #[test]
    fn what_outlives_a_process_that_was_ended_is_said() {
        let text = "`grep` ended `seq` at 1.00 s, and then waited for the end of the pipe from it: `cat` (process 3) still had its write end \
                    open as standard output, until 4.00 s. Signals to the whole group end both (`start_new_session` and `killpg`, \
                    `setsid` and `kill -- -PID`).";
        assert_eq!(kills(&|_| {}), [text]);
        silent(
            &kills,
            &[
                &|recording| recording.recorded[0].ended_by = Some(2),
                &|recording| recording.recorded[2].output = None,
                &|recording| recording.recorded[2].end_ns = WINDOW / 4,
                &|recording| recording.channels[0].readers[0].blocked_ns = 0,
            ],
        );
    }
}

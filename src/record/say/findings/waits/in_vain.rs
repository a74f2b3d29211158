//! What a process waits for in vain, or would have to notice.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::findings::waits::typed::polling_terminal;
use crate::record::say::killed::TIMEOUT;
use crate::record::say::words;
use crate::report::number::percent;
use crate::result::{
    EventSource, EventWait, Finding, FindingKind, HeldBy, LastWait, NameUse, PathWhat, RecordedEnd, RecordedProcess,
    StaleFile, WaitReason,
};
use crate::util::text::{clean, counted, grouped};
use std::collections::BTreeSet;

/// From this part of the window on, a process is stopped all the time; from this part of the path on, the path says it.
const ALWAYS: f64 = 0.95;
const SAID: f64 = 0.05;

/// From this part of the window on, a process is stopped, or waits, most of the time.
const LONG: f64 = 0.5;

/// Who started all of these, if that is one program and no shell.
fn starter_of(view: &FindingView<'_>, stopped: &[usize]) -> Option<String> {
    let starters: BTreeSet<Option<usize>> =
        stopped.iter().map(|at| view.document.recorded.get(*at)?.started_by).collect();
    let [Some(by)] = starters.into_iter().collect::<Vec<_>>()[..] else { return None };
    view.document.recorded.get(by).filter(|by| !by.is_shell()).map(|_| view.name(by))
}

/// The `timeout` that started these, which puts them into a group of its own unless an option says otherwise: timeout(1).
fn timeout_of(view: &FindingView<'_>, stopped: &[usize]) -> Option<usize> {
    let [one] = stopped else { return None };
    let process = view.document.recorded.get(*one)?;
    let by = process.started_by.filter(|by| view.document.recorded[*by].name == TIMEOUT)?;
    let in_front = |word: &String| ["-f", "--foreground"].contains(&word.as_str());
    let held = process.held_by.get(&WaitReason::Stopped)?;
    let by_terminal = [HeldBy::BackgroundRead, HeldBy::BackgroundWrite].iter().any(|how| held.contains(how));
    (by_terminal && !view.document.recorded[by].args.iter().any(in_front)).then_some(by)
}

/// `` `cat` and `sort` are stopped, and were so all the time: ... ``
pub(crate) fn stopped(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let window = document.processes.window_ns;
    let on_path = |at: usize| view.on_path(at, PathWhat::Asleep { reason: WaitReason::Stopped }) >= SAID;
    // Of each process of the row.
    let part = |at: usize| {
        let process = &document.recorded[at];
        let stopped = process.waits.get(&WaitReason::Stopped).map_or(0, |wait| wait.ns);
        stopped as f64 / (window * process.pids.len().max(1) as u64).max(1) as f64
    };
    let is_stopped = |at: &usize| part(*at) >= LONG && (!on_path(*at) || timeout_of(view, &[*at]).is_some());
    let stopped: Vec<usize> = (0..document.recorded.len()).filter(is_stopped).collect();
    if stopped.is_empty() {
        return Vec::new();
    }
    let [are, were, them] = if stopped.len() == 1 { ["is", "was", "it"] } else { ["are", "were", "them"] };
    let names = few(stopped.iter().map(|at| view.name(*at)));
    let held = |at: &usize| document.recorded[*at].held_by.get(&WaitReason::Stopped).cloned().unwrap_or_default();
    let by: BTreeSet<HeldBy> = stopped.iter().flat_map(held).collect();
    if let Some(by) = timeout_of(view, &stopped) {
        let (name, by) = (view.name(stopped[0]), view.name(by));
        let text = format!(
            "{name} was stopped because it used the terminal from the background: {by} puts what it starts into a process group of its own, which \
             is not in the foreground there, and reads or changes of the terminal stop that (SIGTTIN, SIGTTOU). `timeout --foreground` leaves it \
             in the foreground, `</dev/null` without a terminal to read."
        );
        return vec![Finding { count: Some(1), ..Finding::new(FindingKind::Stopped, stopped, text) }];
    }
    let why = match (&by.into_iter().collect::<Vec<HeldBy>>()[..], starter_of(view, &stopped)) {
        ([], _) => format!(
            "a signal did it, as Ctrl-Z does, or a terminal whose background job wants to read. `fg` or `kill -CONT` lets {them} \
             go on."
        ),
        ([HeldBy::BackgroundRead], _) => format!(
            "by SIGTTIN, because a background job read from its terminal. `fg` brings {them} to the foreground; `</dev/null` \
             gives a background job no terminal to read."
        ),
        ([HeldBy::BackgroundWrite], Some(starter)) => format!(
            "by SIGTTOU, because of a change of the terminal, or a write to it after `stty tostop`, from a process group that is not in the \
             foreground there. {starter}, which started {them}, has to leave {them} in its own group, to give {them} another terminal (`openpty` and \
             `setsid`), or to bring that group to the foreground (`tcsetpgrp`); who ignores SIGTTOU is not stopped."
        ),
        ([HeldBy::BackgroundWrite], None) => format!(
            "by SIGTTOU, because {who} changed the terminal (or wrote to it after `stty tostop`) from a group that is not in the foreground there: a \
             job in the background, or one that has made a group of its own (`setpgid`). `fg` brings {them} to the foreground; with \
             `</dev/null >log 2>&1`, or SIGTTOU ignored, it is not stopped.",
            who = if stopped.iter().all(|at| view.document.recorded[*at].name == STTY) {
                "it"
            } else {
                "it, or another program of its group such as `stty`,"
            }
        ),
        (by, _) => format!("by {}. `fg` or `kill -CONT` lets {them} go on.", few(by.iter().map(words::holder))),
    };
    let text = if stopped.iter().all(|at| part(*at) >= ALWAYS) {
        format!("{names} {are} stopped, and {were} all the time: {why}")
    } else {
        format!("{names} {were} stopped most of the time: {why}")
    };
    vec![Finding { count: Some(stopped.len() as u64), ..Finding::new(FindingKind::Stopped, stopped, text) }]
}

/// `` `tail` follows the file that was `app.log` and is `/var/log/app.log.1` now: ... ``
pub(crate) fn renamed(view: &FindingView<'_>) -> Vec<Finding> {
    let text = |file: &StaleFile| {
        let at = file.process.recorded?;
        let path = clean(&file.path);
        let now = file.now.as_ref().map_or_else(|| "was deleted".to_owned(), |now| format!("is `{}` now", clean(now)));
        let then =
            if file.replaced { format!(": what is written to `{path}` goes to another file") } else { String::new() };
        let text = format!(
            "{} follows the file that was `{path}` and {now}{then}. `tail -F`, or an option such as `--follow=name`, follows the name \
             instead.",
            view.name(at)
        );
        Some(Finding::new(FindingKind::Renamed, [at], text))
    };
    view.document.last_look.iter().flat_map(|look| &look.stale).filter_map(text).collect()
}

/// The program that changes a terminal.
const STTY: &str = "stty";

/// So long, and for this part of the window, nothing is noticed, ns.
const LONG_NS: u64 = 500_000_000;
const MUCH: f64 = 0.3;

/// It waited for data for this part of that time.
const WAITED: f64 = 0.5;

/// `` `grep` had ended at 0.10 s, but `awk` notices only when it writes next: it waited for data from `tail` for 3.90 s more. ``
pub(crate) fn unnoticed(view: &FindingView<'_>) -> Vec<Finding> {
    // What feeds it would end by what somebody types.
    if polling_terminal(view).is_some() {
        return Vec::new();
    }
    let window = view.document.processes.window_ns;
    let mut found = Vec::new();
    for (at, channel, end) in view.writers() {
        let Some(process) = view.process(end) else { continue };
        let until = process.end_ns.min(window);
        let Some(ended) = view.readers_ended(channel, until) else { continue };
        // What executed another program since has not ended.
        let lives = |pid: &u32| view.document.recorded.iter().any(|row| row.end_ns > ended && row.pids.contains(pid));
        let goes_on = |reader: &RecordedEnd| view.process(reader).is_some_and(|of| of.moved_on.iter().any(lives));
        if channel.readers.iter().any(goes_on) {
            continue;
        }
        let unnoticed = until - ended;
        // Who has waited for its child knows: `split --filter` starts the next one.
        let is_child = |reader: &RecordedEnd| view.process(reader).is_some_and(|of| of.started_by == Some(end.process));
        if process.waits.contains_key(&WaitReason::Child) && channel.readers.iter().all(is_child) {
            continue;
        }
        // Of several threads, others wait for something else, unless they do nothing but watch files.
        let watches = watches_files(view, end.process);
        if process.has_threads() && !watches {
            continue;
        }
        // What it wrote since was refused, which it did not care for.
        if end.epipe > 0 {
            continue;
        }
        let wrote_later = end.moved_ns.is_some_and(|[_, last]| last > ended);
        let is_long = unnoticed >= LONG_NS && unnoticed as f64 >= MUCH * window as f64;
        if !channel.kind.is_pipe() || channel.readers.is_empty() || process.pids.len() > 1 || wrote_later || !is_long {
            continue;
        }
        let waits = view.readers().filter(|(_, _, input)| input.process == end.process);
        let input = waits.max_by_key(|(_, _, input)| input.blocked_ns);
        let polled = process.waits.get(&WaitReason::Poll).map_or(0, |wait| wait.ns);
        let waited = match input {
            Some((_, _, waited)) => waited.blocked_ns,
            None if watches => polled.min(unnoticed),
            // It watches the network, for example.
            None if process.threads == 1 => polled,
            None => 0,
        };
        if (waited as f64) < WAITED * unnoticed as f64 {
            continue;
        }
        let (long, name) = (after(unnoticed), view.name(end.process));
        let how = match input {
            Some((_, input, _)) => {
                let from = view.names(input.writers.iter().filter(|writer| writer.process != end.process));
                let from = if from.is_empty() { String::new() } else { format!(" from {from}") };
                format!(
                    "it waited for data{from} for {long} more. If it is to end then, who started it has to end what feeds it: a shell that reads \
                     from `<(...)` instead of a pipe does not wait for that"
                )
            }
            None => format!(
                "it waited in `poll` for {} for {long} more. Who has its output among what it polls (POLLERR) notices at once",
                if watches { "changes of files (inotify)" } else { "something else" }
            ),
        };
        let text = format!(
            "{} had ended at {}, but {name} notices only when it writes next: {how}.",
            view.names(&channel.readers),
            after(ended)
        );
        let finding = Finding::new(FindingKind::Unnoticed, [end.process], text);
        found.push(Finding { channels: vec![at], at_ns: Some(ended), ns: Some(unnoticed), ..finding });
    }
    found
}

/// Whether a process waited for changes of files when it was last looked at, and none of its threads for a channel.
fn watches_files(view: &FindingView<'_>, at: usize) -> bool {
    let Some(look) = &view.document.last_look else { return false };
    let watches =
        |event: &EventWait| event.process.recorded == Some(at) && event.any.contains(&EventSource::FileChanges);
    let elsewhere = |wait: &LastWait| wait.process.recorded == Some(at) && !wait.channels().is_empty();
    look.events.iter().any(watches) && !look.waits.iter().any(elsewhere)
}

/// Fewer, or a smaller part, are those of a program that tries one address after the other.
const MANY: u64 = 10;
const SHARE: f64 = 0.6;

/// A wait for a smaller part of the window is not said.
const REFUSED_LONG: f64 = 0.5;

/// `` 6 of 8 connections of `a.py` failed with EAGAIN: ... `` or `` 600 of 600 connections of `a.py` were refused ... ``
pub(crate) fn refused(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::from_iter(full_queue(view));
    for (at, process) in view.document.recorded.iter().enumerate() {
        let (name, all) = (view.name(at), counted(process.connects, "connection"));
        let said = |count: u64, text: String| Finding {
            count: Some(count),
            of: Some(process.connects),
            ..Finding::new(FindingKind::Refused, [at], text)
        };
        let refused = process.refused_connects;
        if refused >= MANY && refused as f64 >= SHARE * process.connects as f64 {
            let text = format!(
                "{} of {all} of {name} were refused (ECONNREFUSED): nobody listens at that address.",
                grouped(refused)
            );
            found.push(said(refused, text));
        }
    }
    found.extend(waits(view));
    found
}

/// `` 6 connections of `a.py` failed with EAGAIN: the queue of the socket at which `b.py` listens was full. ... ``
fn full_queue(view: &FindingView<'_>) -> Option<Finding> {
    let refused = || view.document.recorded.iter().enumerate().filter(|(_, process)| process.full_queues > 0);
    let (full, all) = refused().fold((0, 0), |(full, all), (_, of)| (full + of.full_queues, all + of.connects));
    let listening =
        view.document.named_files.iter().filter(|file| file.does == NameUse::Listens && file.error.is_none());
    let listening: BTreeSet<usize> = listening.map(|file| file.process).collect();
    let (whose, who) = match listening.into_iter().collect::<Vec<_>>()[..] {
        [one] => (format!("the socket at which {} listens", view.name(one)), "That"),
        _ => ("the listening socket".to_owned(), "Who listens"),
    };
    let text = format!(
        "{} of {} failed with EAGAIN: the queue of {whose} was full. {who} has to accept sooner, or to `listen` with a larger backlog.",
        counted(full, "connection"),
        few(refused().map(|(at, _)| view.name(at)))
    );
    let finding = Finding::new(FindingKind::Refused, refused().map(|(at, _)| at), text);
    (full > 0).then_some(Finding { count: Some(full), of: Some(all), ..finding })
}

/// `` `a.py` waits 96 % of the time in `connect`: ... ``
fn waits(view: &FindingView<'_>) -> Option<Finding> {
    let document = view.document;
    let share = |process: &RecordedProcess| {
        let waited = process.waits.get(&WaitReason::Connect).map_or(0, |wait| wait.ns);
        (waited as f64 / document.processes.window_ns.max(1) as f64).min(1.0)
    };
    let (at, process) = document.recorded.iter().enumerate().max_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)))?;
    let connect = PathWhat::Asleep { reason: WaitReason::Connect };
    // The path says it.
    let is_said = view.on_path(at, connect) > 0.0;
    let text = format!(
        "{} waits {} of the time in `connect`, until who listens accepts a connection.",
        view.name(at),
        percent(share(process))
    );
    (share(process) >= REFUSED_LONG && !is_said).then(|| Finding::new(FindingKind::Waiting, [at], text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, said_after, silent};
    use crate::result::{Document, LastLook, SeenProcess, WaitTotal};

    fn is_stopped_for(recording: &mut Document, share: f64) {
        let ns = (share * recording.processes.window_ns as f64) as u64;
        recording.recorded[1].waits.insert(WaitReason::Stopped, WaitTotal { ns, count: 1 });
    }

    #[test]
    fn who_is_stopped_all_the_time_is_named() {
        let texts = said(stopped, &|recording| {
            recording.processes.window_ns = 1_000_000;
            is_stopped_for(recording, 1.0);
        });
        assert!(texts[0].starts_with("`grep` is stopped, and was all the time: a signal did it,"), "{texts:?}");
        let by = |holder: HeldBy| {
            said(stopped, &|recording| {
                recording.processes.window_ns = 1_000_000;
                is_stopped_for(recording, 1.0);
                recording.recorded[1].held_by = [(WaitReason::Stopped, [holder.clone()].into())].into();
            })
            .concat()
        };
        assert!(by(HeldBy::BackgroundRead).contains("all the time: by SIGTTIN, because a background job read"));
        assert!(by(HeldBy::Suspended).contains("all the time: by SIGTSTP, as Ctrl-Z sends it. `fg`"));
        let under_timeout = |words: [&str; 3]| {
            let stopped = said(stopped, &|recording| {
                is_stopped_for(recording, 1.0);
                let process = &mut recording.recorded[1];
                process.held_by = [(WaitReason::Stopped, [HeldBy::BackgroundWrite].into())].into();
                process.started_by = Some(2);
                let by = &mut recording.recorded[2];
                (by.name, by.args) = (TIMEOUT.to_owned(), words.map(str::to_owned).to_vec());
            });
            stopped.concat().contains("`timeout --foreground` leaves it in the foreground")
        };
        assert!(under_timeout(["timeout", "5", "grep"]));
        assert!(!under_timeout(["timeout", "-f", "5"]));
        let short = said(stopped, &|recording| {
            recording.processes.window_ns = 1_000_000;
            is_stopped_for(recording, 0.5);
        });
        assert!(short[0].starts_with("`grep` was stopped most of the time: a signal did it,"), "{short:?}");
        let shorter = said(stopped, &|recording| {
            recording.processes.window_ns = 1_000_000;
            is_stopped_for(recording, 0.49);
        });
        assert!(shorter.is_empty(), "{shorter:?}");
    }

    #[test]
    fn a_file_that_lost_its_name_is_said() {
        let renamed = |now: Option<&str>, replaced: bool| {
            said(renamed, &|recording| {
                let process = SeenProcess { recorded: Some(1), ..SeenProcess::default() };
                let file = StaleFile { process, path: "app.log".to_owned(), now: now.map(str::to_owned), replaced };
                recording.last_look = Some(LastLook { stale: vec![file], ..LastLook::default() });
            })
        };
        let text = "`grep` follows the file that was `app.log` and is `/a/app.log.1` now: what is written to `app.log` goes to another \
                    file. `tail -F`, or an option such as `--follow=name`, follows the name instead.";
        assert_eq!(renamed(Some("/a/app.log.1"), true), [text]);
        assert!(
            renamed(None, false)[0]
                .starts_with("`grep` follows the file that was `app.log` and was deleted. `tail -F`")
        );
    }

    /// `cat` ends early, and `grep` waits for `seq`.
    fn has_ended(recording: &mut Document) {
        recording.recorded[2].end_ns = WINDOW / 40;
        recording.channels[1].writers[0].moved_ns = Some([0, WINDOW / 50]);
        recording.channels[0].readers[0].blocked_ns = WINDOW / 10 * 9;
    }

    #[test]
    fn a_reader_that_has_ended_is_said() {
        let text = "`cat` had ended at 0.10 s, but `grep` notices only when it writes next: it waited for data from `seq` for \
                    3.90 s more. If it is to end then, who started it has \
                    to end what feeds it: a shell that reads from `<(...)` instead of a pipe does not wait for that.";
        assert_eq!(said(unnoticed, &has_ended), [text]);
        let polls = |ns: u64| {
            said(unnoticed, &|recording| {
                has_ended(recording);
                recording.channels[0].readers.clear();
                let process = &mut recording.recorded[1];
                process.threads = 1;
                process.waits.insert(WaitReason::Poll, WaitTotal { ns, count: 1 });
            })
        };
        let text = "`cat` had ended at 0.10 s, but `grep` notices only when it writes next: it waited in `poll` for something else for 3.90 s \
                    more. Who has its output among what it polls (POLLERR) notices at once.";
        assert_eq!(polls(WINDOW - 1), [text]);
        assert!(polls(1).is_empty());
    }

    #[test]
    fn who_writes_or_does_not_wait_is_not() {
        silent(
            &|change| said_after(unnoticed, &has_ended, change),
            &[
                // It has waited for its child, which it had given the pipe.
                &|recording| {
                    recording.recorded[2].started_by = Some(1);
                    recording.recorded[1].waits = [(WaitReason::Child, WaitTotal { ns: 1, count: 1 })].into();
                },
                &|recording| recording.recorded[2].end_ns = WINDOW / 10 * 9,
                &|recording| recording.channels[1].writers[0].moved_ns = Some([0, WINDOW / 2]),
                &|recording| recording.channels[0].readers[0].blocked_ns = WINDOW / 10,
            ],
        );
    }

    #[test]
    fn a_long_wait_in_connect_is_said() {
        let waits = |ns: u64| {
            said(refused, &|recording| {
                recording.recorded[1].waits = [(WaitReason::Connect, WaitTotal { ns, count: 1 })].into();
            })
        };
        let text = "`grep` waits 75 % of the time in `connect`, until who listens accepts a connection.";
        assert_eq!(waits(WINDOW / 4 * 3), [text]);
        assert!(waits(WINDOW / 4).is_empty());
    }

    #[test]
    fn connections_that_were_not_made_are_said() {
        let connects = |all: u64, failed: u64, full: u64| {
            said(refused, &|recording| {
                let process = &mut recording.recorded[1];
                (process.connects, process.refused_connects, process.full_queues) = (all, failed, full);
            })
        };
        let text = "6 connections of `grep` failed with EAGAIN: the queue of the listening socket was full. Who listens \
                    has to accept sooner, or to `listen` with a larger backlog.";
        assert_eq!(connects(8, 0, 6), [text]);
        let text = "600 of 601 connections of `grep` were refused (ECONNREFUSED): nobody listens at that address.";
        assert_eq!(connects(601, 600, 0), [text]);
        assert!(connects(2, 1, 0).is_empty() && connects(100, 20, 0).is_empty(), "the next address was good");
    }
}

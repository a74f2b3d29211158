//! Processes that are busy without getting on, or beside the critical path: threads that compute while the others sleep, and polls that
//! return at once.

use crate::record::say::findings::view::FindingView;
use crate::report::number::{percent, time};
use crate::result::{Finding, FindingKind, PathWhat, RecordedChannel, RecordedEnd, WaitReason};
use crate::util::text::grouped;

/// The part of its time that a process is on a CPU or waits for one, and the part of the path that it sleeps.
const BUSY: f64 = 0.8;
/// The part that it is on one at least.
const ON_CPU: f64 = 0.3;
/// The part of the time on a CPU that is user code.
const USER: f64 = 0.95;
/// Most system calls in a second of it.
const CALLS: u64 = 200;
/// It is for so long, ns.
const LEAST_NS: u64 = 500_000_000;

/// `` `pumpkin` is on a CPU 100 % of the time in another thread than the one that sleeps: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.document.recorded.iter().enumerate().find_map(|(at, process)| {
        let parts = view.document.path.iter().flat_map(|path| &path.parts);
        let asleep = |what: PathWhat| matches!(what, PathWhat::Asleep { .. });
        let slept: u64 =
            parts.filter(|part| part.process == Some(at) && asleep(part.what)).map(|part| part.ns).sum();
        let part = |ns: u64| ns as f64 / process.lived_ns.max(1) as f64;
        let busy = part(process.cpu_ns);
        let works = busy >= ON_CPU && part(process.cpu_ns + process.runnable_ns) >= BUSY;
        let is_busy = works && process.cpu_ns >= LEAST_NS && process.user_share.is_some_and(|share| share >= USER);
        let is_quiet = process.calls <= CALLS * process.cpu_ns.div_ceil(1_000_000_000);
        let is_hidden = process.threads > 1 && slept as f64 >= BUSY * view.window();
        (is_busy && is_quiet && is_hidden && view.is_one(at)).then(|| {
            let text = format!(
                "{} is on a CPU {} of the time in another thread than the one that sleeps: in user code, with {} system calls in \
                 all. It computes; if it should have nothing to do, it asks again and again for what does not come.",
                view.name(at),
                percent(busy.min(1.0)),
                grouped(process.calls)
            );
            Finding::new(FindingKind::BusyThread, [at], text)
        })
    });
    found.into_iter().collect()
}

/// From so many on, and from this part of its calls on, polls that return at once are all that a process does.
const POLLS: u64 = 10_000;
const ALL: f64 = 0.9;

/// Or so many of a loop whose other calls are for the next poll, and move nothing for so many polls.
const TURN: f64 = 0.25;
const EACH_MOVE: u64 = 1000;

/// `` `h2o` did little else than to poll: 4,035,130 of its 4,035,169 system calls returned at once ... ``, where it is not known for what,
/// as with `epoll`.
pub(crate) fn polls_only(view: &FindingView<'_>) -> Vec<Finding> {
    let ended =
        |at: usize| view.document.recorded.get(at).is_some_and(|of| of.end_ns < view.document.processes.window_ns);
    let found = view.document.recorded.iter().enumerate().find_map(|(at, process)| {
        let (polls, calls) = (process.ready_polls, process.calls);
        // Others set up the next poll, if nothing is read or written meanwhile.
        let own = view.readers().filter(|(_, _, end)| end.process == at).map(|(_, _, end)| end.all_calls());
        let moves = own.sum::<u64>() + process.effects;
        let is_all = polls as f64 >= ALL * calls as f64;
        let is_turn = polls as f64 >= TURN * calls as f64 && moves * EACH_MOVE < polls;
        if polls < POLLS || !is_all && !is_turn {
            return None;
        }
        // Of a channel that is known, more can be said.
        let known = |end: &RecordedEnd| end.process == at && end.ready_polls as f64 >= ALL / 2.0 * polls as f64;
        if view.readers().any(|(_, _, end)| known(end)) {
            return None;
        }
        let closed = view.readers().find(|(_, pipe, end)| {
            let mut others = pipe.writers.iter().filter(|writer| writer.process != at).peekable();
            end.process == at && others.peek().is_some() && others.all(|writer| ended(writer.process))
        });
        let such_as = match &closed {
            Some((_, pipe, _)) => format!("such as {}, which has ended (EPOLLHUP, which epoll always reports)", view.pipe_from(pipe)),
            None if process.ended == Some(0) => "such as its standard input, at whose end it is".to_owned(),
            None => "such as a connection whose other end is closed (EPOLLHUP, which epoll always reports), or data that it does not read".to_owned(),
        };
        let text = format!(
            "{} did little else than to poll: {} of its {} system calls returned at once, because what they wait for is ready all the \
             time, {such_as}. It has to close that, or to take it out of what it waits for (of `epoll` by EPOLL_CTL_DEL).",
            view.name(at),
            grouped(polls),
            grouped(calls)
        );
        let finding = Finding::new(FindingKind::Polls, [at], text);
        Some(Finding { channels: closed.map(|(channel, ..)| channel).into_iter().collect(), count: Some(polls), ..finding })
    });
    found.into_iter().collect()
}

/// From so many in a second on, sleeps are too short, if they are this part of its calls, cost this part of its time at least, and there
/// are so many for each call that others can notice.
const WAKES: u64 = 2000;
const WAKES_PART: f64 = 0.3;
const WAKES_COST: f64 = 0.05;
const WAKES_EACH: u64 = 50;

/// `` `java Server` woke 11,500 times a second by its own timers, and did next to nothing: that cost up to 0.85 s of CPU time. ``
pub(crate) fn wakes(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.document.recorded.iter().enumerate().find_map(|(at, process)| {
        let slept = |reason: WaitReason| process.waits.get(&reason).map_or(0, |wait| wait.count);
        // What waits for another thread, but for so long only, fails when that time is over.
        let timed = process.failed_calls.min(slept(WaitReason::Thread));
        let wakes = slept(WaitReason::Timer) + process.timeouts + timed;
        let seconds = process.lived_ns as f64 / 1e9;
        let cost = process.cpu_ns as f64 / process.lived_ns.max(1) as f64;
        let moved = || -> u64 {
            let ends = view.document.channels.iter().flat_map(RecordedChannel::ends);
            ends.filter(|end| end.process == at).map(RecordedEnd::all_calls).sum()
        };
        let is_often = wakes as f64 >= WAKES as f64 * seconds.max(0.5) && wakes as f64 >= WAKES_PART * process.calls as f64;
        let is_idle = || (moved() + process.effects) * WAKES_EACH < wakes;
        (is_often && cost >= WAKES_COST && is_idle() && view.is_one(at)).then(|| {
            let text = format!(
                "{} woke {} times a second to look for something, and did next to nothing then: that cost up to {} of CPU time. So short a \
                 sleep is mostly one in the wrong unit (ns, \u{b5}s, ms); to wait for the event itself, by `poll`, inotify or a condition, \
                 needs none.",
                view.name(at),
                grouped((wakes as f64 / seconds).round() as u64),
                time(process.cpu_ns as f64 / 1e9)
            );
            Finding { count: Some(wakes), of: Some(process.calls), ..Finding::new(FindingKind::BusyThread, [at], text) }
        })
    });
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{CriticalPath, Document, PathPart, WaitTotal};

    fn busy(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            let process = &mut recording.recorded[0];
            (process.threads, process.cpu_ns, process.lived_ns, process.calls) = (3, WINDOW, WINDOW, 103);
            process.user_share = Some(1.0);
            let what = PathWhat::Asleep { reason: WaitReason::Timer };
            let part = PathPart { process: Some(0), what, ns: WINDOW, ..PathPart::default() };
            recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
            change(recording);
        })
    }

    #[test]
    fn a_thread_that_is_busy_while_the_path_sleeps_is_said() {
        let text = "`seq` is on a CPU 100 % of the time in another thread than the one that sleeps: in user code, with 103 system \
                    calls in all. It computes; if it should have nothing to do, it asks again and again for what does not come.";
        assert_eq!(busy(&|_| {}), [text]);
        silent(
            &busy,
            &[
                &|recording| recording.recorded[0].threads = 1,
                &|recording| recording.recorded[0].cpu_ns = WINDOW / 2,
                &|recording| {
                    let process = &mut recording.recorded[0];
                    (process.cpu_ns, process.runnable_ns) = (WINDOW / 5, WINDOW / 5 * 4);
                },
                &|recording| recording.recorded[0].user_share = Some(0.5),
                &|recording| recording.recorded[0].calls = 100_000,
                &|recording| recording.path = None,
            ],
        );
    }

    #[test]
    fn polls_for_what_is_always_ready_are_said() {
        let all = |change: &dyn Fn(&mut Document)| {
            said(polls_only, &|recording| {
                (recording.recorded[1].ready_polls, recording.recorded[1].calls) = (4_035_130, 4_035_169);
                recording.recorded[0].end_ns = 5;
                change(recording);
            })
        };
        let text = "`grep` did little else than to poll: 4,035,130 of its 4,035,169 system calls returned at once, because what they \
                    wait for is ready all the time, such as the pipe from `seq`, which has ended (EPOLLHUP, which epoll always reports). It has to \
                    close that, or to take it out of what it waits for (of `epoll` by EPOLL_CTL_DEL).";
        assert_eq!(all(&|_| {}), [text]);
        assert!(all(&|recording| recording.recorded[0].end_ns = WINDOW)[0].contains("such as a connection whose"));
        let input = all(&|recording| {
            (recording.recorded[0].end_ns, recording.recorded[1].ended) = (WINDOW, Some(0));
        });
        assert!(input[0].contains("such as its standard input, at whose end it is"), "{input:?}");
        silent(
            &all,
            &[
                &|recording| recording.recorded[1].ready_polls = 4000,
                &|recording| recording.recorded[1].calls = 90_000_000,
                &|recording| recording.channels[0].readers[0].ready_polls = 4_035_130,
            ],
        );
    }

    #[test]
    fn who_wakes_for_nothing_is_said() {
        let woken = |change: &dyn Fn(&mut Document)| {
            said(wakes, &|recording| {
                let process = &mut recording.recorded[1];
                process.waits = [(WaitReason::Thread, WaitTotal { ns: WINDOW, count: 63_204 })].into();
                (process.failed_calls, process.calls, process.effects) = (63_233, 128_301, 15);
                (process.lived_ns, process.cpu_ns) = (5_500_000_000, 850_000_000);
                change(recording);
            })
        };
        let text = "`grep` woke 11,492 times a second to look for something, and did next to nothing then: that cost up to 0.85 s of CPU time. So \
                    short a sleep is mostly one in the wrong unit (ns, \u{b5}s, ms); to wait for the event itself, by `poll`, inotify or a \
                    condition, needs none.";
        assert_eq!(woken(&|_| {}), [text]);
        let timer = woken(&|recording| {
            let process = &mut recording.recorded[1];
            process.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW, count: 63_204 })].into();
            process.failed_calls = 0;
        });
        assert_eq!(timer, [text]);
        silent(
            &woken,
            &[
                // Other threads woke it.
                &|recording| recording.recorded[1].failed_calls = 100,
                &|recording| recording.recorded[1].effects = 5000,
                &|recording| recording.channels[0].readers[0].calls = [("read".to_owned(), 5000)].into(),
                &|recording| recording.recorded[1].calls = 1_000_000,
                &|recording| recording.recorded[1].cpu_ns = 100_000_000,
            ],
        );
    }
}

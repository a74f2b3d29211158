//! A process that waits for its own pipe, and children that ended before what others wait for was done.

use crate::profile::few;
use crate::record::model::labels::labels;
use crate::record::say::findings::view::after;
use crate::record::say::killed;
use crate::record::say::standstill::remedy::LAST_GIVEN;
use crate::record::say::standstill::waiting::{
    LONG, NAMED, channel_name, full_name, is_hung, is_stuck, recorded, role,
};
use crate::report::number::time;
use crate::result::{
    AwaitedChannel, ChannelKind, Document, EndedChild, LastLook, LastWait, RecordedProcess, SeenProcess, WaitReason,
    WaitTotal, WaitedFor,
};
use crate::util::text::{clean, counted, grouped};
use std::collections::BTreeSet;

/// A process that only itself could wake.
pub(super) fn itself(recording: &Document, look: &LastLook, wait: &LastWait) -> Vec<String> {
    if matches!(wait.awaited, WaitedFor::Thread) {
        return without_others(recording, look, wait);
    }
    let WaitedFor::Channels { any, polled: false, .. } = &wait.awaited else { return Vec::new() };
    let Some(channel) = any.first() else { return Vec::new() };
    let name = full_name(&wait.process);
    let unreaped = &wait.process.unreaped;
    let what = channel_name(channel);
    let wrote = !channel.room && has_written(recording, wait, channel);
    if wrote && !unreaped.is_empty() {
        return vec![
            format!(
                "{name} waits for data from its own {}, and {} (zombies).",
                channel.kind.noun(),
                not_waited_for(unreaped)
            ),
            "Several that end at once send one SIGCHLD: at each, `waitpid` has to be called until it finds no more."
                .to_owned(),
        ];
    }
    if wrote {
        return vec![format!(
            "{name} waits for data from its own {}, to which it wrote before: only a signal handler or thread of its own can \
             write to it.",
            channel.kind.noun()
        )];
    }
    let waiting = look.waits.iter().filter(|other| other.process.pid == wait.process.pid).count();
    let threads = waiting.max(wait.process.threads);
    let own = if threads > 1 { "threads of its own have" } else { "it has itself" };
    // Before the recording, a signal handler of its own may have written.
    let is_known = is_seen_whole(recording);
    let nothing = if is_known { "there can be neither data nor an end" } else { "nobody else can write to it" };
    let (end, what_for, wants) =
        if channel.room { ("read", "room in", "there can be no room") } else { ("write", "data from", nothing) };
    let what = format!("{what_for} {what}");
    let mut said = vec![format!("{name} waits for {what}, whose {end} end only {own} open: {wants}.")];
    if channel.room && wakes_itself(recording, wait, channel) {
        let text = "It writes so little to itself as a signal handler does to wake a loop: that end has to be O_NONBLOCK, as a full pipe \
                    wakes it already.";
        said.push(text.to_owned());
    } else if let Some(text) = channel.room.then(|| gone_reader(recording, wait, channel)).flatten() {
        said.push(text);
    } else if channel.room && is_known {
        let text = "Who reads it has to be started before more is written than it holds (64 KiB mostly), or another thread has to write.";
        said.push(text.to_owned());
    }
    // Its first descriptor of that end.
    let fd = channel.holders.iter().find(|holder| holder.process.pid == wait.process.pid).map(|holder| holder.fd);
    said.extend(fd.filter(|_| !channel.room).map(|fd| {
        if fd == channel.fd {
            "It has to open it for reading only.".to_owned()
        } else if channel.fd <= LAST_GIVEN && fd > LAST_GIVEN {
            format!("It has to be started without that end (O_CLOEXEC), which is its descriptor {fd}, or to close it.")
        } else if !unreaped.is_empty() && !is_known {
            format!(
                "It has to close that end (descriptor {fd}) before it reads; or, if its own handler of SIGCHLD writes there, to call \
                 `waitpid` each time until it finds no more: it {}.",
                not_waited_for(unreaped)
            )
        } else {
            let unless = if is_known { "" } else { ", unless a signal handler of its own writes there" };
            format!("It has to close that end (descriptor {fd}) before it reads{unless}.")
        }
    }));
    said
}

/// A thread that waits for another one, if its process has none.
fn without_others(recording: &Document, look: &LastLook, wait: &LastWait) -> Vec<String> {
    let pid = wait.process.pid;
    let waiting = look.waits.iter().filter(|other| other.process.pid == pid).count();
    if waiting.max(wait.process.threads) > 1 {
        return Vec::new();
    }
    let mut said = vec![format!(
        "{} waits for another thread, as for a lock that one of them has, but it has only one thread: nobody can wake it.",
        full_name(&wait.process)
    )];
    // A copy has the row of what it was forked from.
    let row = wait.process.recorded.and_then(|at| recording.recorded.get(at));
    let starter = row.filter(|row| row.execs == 0).and_then(|row| recording.recorded.get(row.started_by?));
    let of_copies = row.is_some_and(|row| row.pids.len() > 1 && row.has_threads());
    if of_copies || starter.is_some_and(RecordedProcess::has_threads) {
        said.push(
            "It was forked from a process with threads, and has only the one that forked: a lock that another thread had then is \
             never unlocked in it. To fork before threads are started, to hold the lock meanwhile (`pthread_atfork`), or to execute a \
             program at once, keeps it from that."
                .to_owned(),
        );
    }
    said
}

/// A process that waits for a lock or semaphore that it shares with processes which it started, and of which some have ended.
pub(super) fn shared(recording: &Document, look: &LastLook) -> Vec<String> {
    let mut waits = look.waits.iter().filter(|wait| matches!(wait.awaited, WaitedFor::Shared { .. }));
    let is_it = |wait: &&LastWait| is_stuck(recording, wait) && !wait.process.unreaped.is_empty();
    let Some(wait) = waits.find(is_it) else { return Vec::new() };
    let unreaped = &wait.process.unreaped;
    let failed = recording.failures.iter().filter(|failed| unreaped.iter().any(|child| child.pid == failed.pid));
    let how: Vec<String> = failed
        .map(|failed| {
            format!("process {} with exit code {} at {}", failed.pid, failed.exit_code, after(failed.lived_ns[1]))
        })
        .collect();
    let how = if how.is_empty() { String::new() } else { format!(": {}", few(how)) };
    let ended = if unreaped.len() == 1 { "1 has ended".to_owned() } else { format!("{} have ended", unreaped.len()) };
    vec![
        format!(
            "{} waits for a lock or semaphore that it shares with other processes. Of its children, {ended}{how}. They cannot release it \
             any more, and it has not looked whether they live.",
            full_name(&wait.process)
        ),
        "Who waits for the work of children has to notice when one ends (`exitcode`, `sentinel`, `waitpid`); and these have to release \
         what they hold also when they fail (`finally`, `task_done()`)."
            .to_owned(),
    ]
}

/// A process that waits for a lock or semaphore in memory that nobody else has any more.
pub(super) fn abandoned(recording: &Document, look: &LastLook) -> Vec<String> {
    let found = look.waits.iter().filter(|wait| wait.endless && wait.process.recorded.is_some()).find_map(|wait| {
        let WaitedFor::Shared { holders, path: Some(path) } = &wait.awaited else { return None };
        let alone = holders.iter().all(|holder| holder.pid == wait.process.pid);
        (alone && is_stuck(recording, wait)).then_some((wait, path))
    });
    let Some((wait, path)) = found else { return Vec::new() };
    let own = wait.process.recorded.and_then(|at| recording.recorded.get(at));
    let same = |of: &&RecordedProcess| own.is_some_and(|own| own.program() == of.program());
    let killed = recording.recorded.iter().filter(same).find_map(|of| Some((of.end_ns, killed::requested(of)?)));
    let by = killed.filter(|(end, _)| *end < look.at_ns).map_or_else(String::new, |(end, signal)| {
        format!(" Another one of this program was ended by {signal} at {}, and may have had it.", after(end))
    });
    vec![
        format!(
            "{} waits for a lock or semaphore in `{}`, and no other process has that memory: nobody that runs can release it.{by}",
            full_name(&wait.process),
            clean(path)
        ),
        "What ends a process does not release such a semaphore, unlike a lock of a file (`flock`) or a robust mutex. Once nobody uses that \
         file, it can be removed (`sem_unlink`)."
            .to_owned(),
    ]
}

/// `has not waited for 4 children of its own that have ended`.
pub(super) fn not_waited_for(unreaped: &[EndedChild]) -> String {
    match unreaped {
        [one] => format!("has not waited for its child `{}`, which has ended", clean(&one.name)),
        all => format!("has not waited for {} children of its own that have ended", grouped(all.len() as u64)),
    }
}

/// Whether all calls from the begin on are known.
fn is_seen_whole(recording: &Document) -> bool {
    recording.target.pids().is_empty() && recording.looks.is_none()
}

/// Who read from the channel and has ended: as who writes has the read end open, too, it gets no SIGPIPE.
fn gone_reader(recording: &Document, wait: &LastWait, channel: &AwaitedChannel) -> Option<String> {
    let own = wait.process.recorded?;
    let fd = channel.holders.iter().find(|holder| holder.process.pid == wait.process.pid)?.fd;
    let pipe = recorded(recording, channel)?;
    let read = pipe.readers.iter().find(|end| end.process != own && end.all_calls() > 0)?;
    let reader = recording.recorded.get(read.process).filter(|reader| reader.end_ns < recording.processes.window_ns)?;
    let how = match reader.exit_code {
        Some(code) if code > 0 => format!(" with exit code {code}"),
        _ => String::new(),
    };
    Some(format!(
        "`{}`, which read {} of it, ended at {}{how}. {} gets no SIGPIPE as long as it has that end open itself: it has to close it \
         (descriptor {fd}) after the `fork`.",
        labels(recording).get(read.process)?,
        counted(read.bytes, "byte"),
        after(reader.end_ns),
        full_name(&wait.process)
    ))
}

/// Whether it wrote only a few bytes at once to its own channel, and nobody else did.
fn wakes_itself(recording: &Document, wait: &LastWait, channel: &AwaitedChannel) -> bool {
    let writers = recorded(recording, channel).map_or(&[][..], |pipe| &pipe.writers[..]);
    matches!(writers, [end] if Some(end.process) == wait.process.recorded
        && end.bytes > 0
        && end.bytes <= TOKEN * end.all_calls())
}

/// What tells a loop only that something has happened has so many bytes at most.
const TOKEN: u64 = 16;

/// Whether it wrote to the channel that it reads.
fn has_written(recording: &Document, wait: &LastWait, channel: &AwaitedChannel) -> bool {
    let ends = recorded(recording, channel).map_or(&[][..], |pipe| &pipe.writers[..]);
    ends.iter().any(|end| Some(end.process) == wait.process.recorded && end.bytes > 0)
}

/// `` its child `dd`, which ended with exit code 1 ``.
fn ended_child(child: &EndedChild) -> String {
    let how = match child.status.map(|status| (status & 0x7f, status >> 8 & 0xff)) {
        Some((0, code)) => format!("which ended with exit code {code}"),
        Some((signal, _)) => format!("which signal {signal} ended"),
        None => "which has ended".to_owned(),
    };
    format!("its child `{}`, {how}", clean(&child.name))
}

/// Who polls only the pipe that it writes, and not for room in it, while its standard input waits to be read.
pub(super) fn watches_output(recording: &Document, look: &LastLook) -> Option<String> {
    look.waits.iter().find_map(|wait| {
        let at = wait.process.recorded.filter(|at| is_hung(recording, *at) && is_stuck(recording, wait))?;
        let WaitedFor::Channels { any, others: 0, polled: true, limited: false } = &wait.awaited else { return None };
        let [channel] = &any[..] else { return None };
        let output = role(channel.fd).filter(|_| channel.fd > 0 && !channel.room && channel.kind.is_pipe())?;
        let input = recording.channels.get(recording.recorded.get(at)?.input?)?;
        let is_read = input.readers.iter().any(|end| end.process == at && end.all_calls() > 0);
        let written = input.written();
        (!is_read && is_seen_whole(recording)).then(|| {
            let there = if written > 0 { format!(", where {} wait", counted(written, "byte")) } else { String::new() };
            format!(
                "{} waits in poll without a time limit, and only for its own {output} (its descriptor {}), where nothing comes as long as \
                 who reads it is there. It has never read its standard input{there}: it has to poll both.",
                full_name(&wait.process),
                channel.fd
            )
        })
    })
}

/// Who sleeps in `poll` or on a timer most of the time, although a child has failed, for which it has not waited.
pub(super) fn neglects(recording: &Document, look: &LastLook) -> Vec<String> {
    let mut known = BTreeSet::new();
    let neglecting = look.waits.iter().flat_map(LastWait::processes).filter_map(|process| {
        let at = process.recorded.filter(|at| known.insert(process.pid) && is_hung(recording, *at))?;
        // What ended by itself has gone on.
        let is_there = |row: &&RecordedProcess| row.end_ns >= recording.processes.window_ns || killed::by_others(row);
        let waits = &recording.recorded.get(at).filter(is_there)?.waits;
        // `merged` names it already.
        let is_told =
            look.parents.iter().any(|parent| parent.pid == process.pid) && dropped(recording, process).is_some();
        let slept = |reason| waits.get(&reason).map_or(0, |wait: &WaitTotal| wait.ns) as f64;
        let [poll, timer] = [WaitReason::Poll, WaitReason::Timer].map(slept);
        let child = process.unreaped.iter().find(|child| child.status.is_some())?;
        let sleeps = if poll > timer { "in poll" } else { "on a timer" };
        (!is_told && poll.max(timer) >= LONG * recording.processes.window_ns as f64).then(|| {
            format!("{} sleeps {sleeps} and has not waited for {} (a zombie).", full_name(process), ended_child(child))
        })
    });
    neglecting.take(NAMED).collect()
}

/// A handler of SIGCHLD has run after so long, ns.
const TOLD_NS: u64 = 200_000_000;

/// Who waits although children have ended, for which it has not waited: its handler of SIGCHLD does so once for each signal, or
/// has not done so since it ended them itself.
pub(super) fn merged(recording: &Document, look: &LastLook) -> Vec<String> {
    let merged = look.parents.iter().filter_map(|process| {
        let waits = &recording.recorded.get(process.recorded?)?.waits;
        let reasons = [WaitReason::Poll, WaitReason::Signal, WaitReason::Timer, WaitReason::Thread];
        let slept: u64 = reasons.iter().filter_map(|reason| waits.get(reason)).map(|wait| wait.ns).sum();
        // Who has just been told waits for them next.
        let told_ns = TOLD_NS.min(recording.processes.window_ns / 10);
        let late = |child: &EndedChild| {
            let row = recording.recorded.iter().find(|row| row.pids.last() == Some(&child.pid));
            row.is_some_and(|row| row.end_ns + told_ns > look.at_ns)
        };
        let is_long = slept as f64 >= LONG * recording.processes.window_ns as f64;
        (is_long && !process.unreaped.iter().all(late)).then(|| {
            dropped(recording, process).unwrap_or_else(|| {
                format!(
                    "{} has a handler of SIGCHLD, but {} (zombies): several that end at once send one signal. At each, `waitpid` has to \
                     be called until it finds no more.",
                    full_name(process),
                    not_waited_for(&process.unreaped)
                )
            })
        })
    });
    merged.take(NAMED).collect()
}

/// Of the only child for which a process has not waited: that the process ended it by a signal itself.
fn dropped(recording: &Document, process: &SeenProcess) -> Option<String> {
    let [child] = &process.unreaped[..] else { return None };
    let by_it = |row: &&RecordedProcess| {
        row.pids.contains(&child.pid) && row.ended_by.is_some() && row.ended_by == process.recorded
    };
    let row = recording.recorded.iter().find(by_it)?;
    let signal = killed::requested(row)?;
    let at = if let [_] = row.pids[..] { format!(" at {}", after(row.end_ns)) } else { String::new() };
    Some(format!(
        "{} ended its child `{}` by {signal}{at}, and has not waited for it since: the child stays as a zombie until it calls `waitpid` \
         for it, or ends.",
        full_name(process),
        clean(&child.name)
    ))
}

/// Of those that could have opened these FIFOs: `` : its child `dd`, which ended with exit code 1, will not ``.
pub(super) fn ended_openers(recording: &Document, process: &SeenProcess, paths: &BTreeSet<String>) -> String {
    let mut gone: Vec<String> = process.unreaped.iter().map(ended_child).collect();
    if gone.is_empty() {
        // Whose command line has the path, and failed.
        let names = |process: &&RecordedProcess| {
            process.args.iter().any(|word| paths.iter().any(|path| word.contains(path.trim_matches('`'))))
        };
        // Not a program around the one that waits, such as `timeout`: that ends later.
        let own_end = process.recorded.and_then(|at| recording.recorded.get(at)).map(|own| own.end_ns);
        let before = |other: &&RecordedProcess| own_end.is_none_or(|end| other.end_ns < end);
        let failed = recording.recorded.iter().filter(names).filter(before);
        let failed = failed.filter_map(|process| Some((process, process.exit_code?)));
        gone = failed.map(|(of, code)| format!("`{}`, which ended with exit code {code}", clean(&of.name))).collect();
    }
    if gone.is_empty() {
        return read_to_end(recording).unwrap_or_default();
    }
    format!(": {}, will not", few(gone))
}

/// Who read the only FIFO of a recording, got its end and has ended, as the writer had closed it meanwhile.
fn read_to_end(recording: &Document) -> Option<String> {
    let mut fifos = recording.channels.iter().filter(|channel| channel.kind == ChannelKind::Fifo);
    let fifo = fifos.next().filter(|_| fifos.next().is_none())?;
    let window = recording.processes.window_ns;
    let ended = |at: usize| recording.recorded.get(at).filter(|of| of.end_ns < window && of.signal.is_none());
    let [reader] = &fifo.readers[..] else { return None };
    let process = ended(reader.process).filter(|_| reader.at_end > 0 && reader.bytes > 0)?;
    Some(format!(
        ": `{}` read it, and ended at {} with its end of file, which comes each time that nobody has it open for writing any more. Who \
         keeps it open meanwhile (`exec 3>FIFO`) writes on",
        clean(&process.name),
        time(process.end_ns as f64 / 1e9)
    ))
}

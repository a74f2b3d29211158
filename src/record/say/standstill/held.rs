//! Channels that others only have open.

use crate::profile::few;
use crate::record::model::labels::labels;
use crate::record::say::findings::view::FindingView;
use crate::record::say::standstill::itself::not_waited_for;
use crate::record::say::standstill::remedy::LAST_GIVEN;
use crate::record::say::standstill::waiting::{
    LONG, NAMED, SOON_NS, channel_name, full_name, is_hung, killed_starter, killed_writer, recorded,
};
use crate::report::number::time;
use crate::result::{
    AwaitedChannel, ChannelHolder, ChannelKind, Document, LastLook, LastWait, RecordLevel, RecordedEnd, SeenProcess,
    WaitReason, WaitedFor,
};
use crate::util::text::{clean, counted};
use std::collections::BTreeSet;

/// Long waits for data from processes that have the write end open, and do nothing.
///
/// Each with the row of the process that waits.
pub(super) fn held(recording: &Document, look: &LastLook) -> Vec<(Option<usize>, String)> {
    // Without calls, it is not known who wrote. What only looks has no more than that they sleep.
    if recording.level == RecordLevel::Sched && recording.looks.is_none() {
        return Vec::new();
    }
    let mut found: Vec<(&LastWait, &AwaitedChannel)> = Vec::new();
    let mut known = BTreeSet::new();
    for wait in &look.waits {
        let WaitedFor::Channels { any, polled, .. } = &wait.awaited else { continue };
        // A socket between a process and its child is used like a pipe.
        let left =
            |of: &AwaitedChannel| was_written(recording, of) || of.holders.iter().all(|of| is_left(recording, of));
        // A terminal is that of a job which its shell has left behind.
        let all_left = |of: &AwaitedChannel| of.holders.iter().all(|of| is_left(recording, of));
        let is_open = |of: &AwaitedChannel| match of.kind {
            ChannelKind::UnixStream => left(of),
            ChannelKind::Pty => all_left(of),
            kind => kind.is_pipe(),
        };
        for channel in any.iter().filter(|channel| !channel.room && !channel.unaccepted && is_open(channel)) {
            let new = known.insert((wait.process.pid, channel.inode));
            let hung = wait.process.recorded.is_some_and(|at| is_hung(recording, at))
                || was_written(recording, channel)
                || !channel.holders.is_empty() && all_left(channel);
            // Who ended that process itself has waited as long as it wanted.
            let ends = |holder: &ChannelHolder| {
                let process = holder.process.recorded.and_then(|at| recording.recorded.get(at));
                process.is_some_and(|process| process.ended_by.is_some() && process.ended_by == wait.process.recorded)
            };
            let wanted =
                !recording.is_excerpt() && channel.holders.iter().any(ends) || went_on(recording, wait, channel);
            if new
                && !wanted
                && hung
                && is_long(recording, wait, channel, *polled)
                && is_only_held(recording, look, wait, channel)
            {
                found.push((wait, channel));
            }
        }
    }
    // Who was left with what another one waits for waits for its own work.
    let leaked: BTreeSet<u32> = found
        .iter()
        .flat_map(|(_, channel)| channel.holders.iter().map(move |holder| (channel, holder)))
        .filter(|(channel, holder)| leaked_by(recording, channel, holder).is_some())
        .map(|(_, holder)| holder.process.pid)
        .collect();
    found.retain(|(wait, _)| !leaked.contains(&wait.process.pid));
    // Both outputs of one child are said once.
    let holders = |channel: &AwaitedChannel| channel.holders.iter().map(|holder| holder.process.pid).collect();
    let mut known: BTreeSet<(u32, BTreeSet<u32>)> = BTreeSet::new();
    found.retain(|(wait, channel)| known.insert((wait.process.pid, holders(channel))));
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    let say = |(wait, channel): (&LastWait, &AwaitedChannel)| {
        (wait.process.recorded, held_text(recording, look, wait, channel))
    };
    let mut said: Vec<(Option<usize>, String)> = found.into_iter().map(say).collect();
    said.extend((more > 0).then(|| (None, format!("The same holds for {}.", counted(more as u64, "further pipe")))));
    said
}

/// Whether the process that waits ended by itself long before all that have the other end open, so that it did not wait for those.
fn went_on(recording: &Document, wait: &LastWait, channel: &AwaitedChannel) -> bool {
    let of = |process: &SeenProcess| process.recorded.and_then(|at| recording.recorded.get(at));
    let Some(own) = of(&wait.process).filter(|own| own.signal.is_none()) else { return false };
    let later = own.end_ns + SOON_NS;
    later < recording.processes.window_ns
        && channel.holders.iter().all(|holder| of(&holder.process).is_none_or(|process| process.end_ns > later))
}

/// Whether a process wrote to it: then what is left has it open still.
fn was_written(recording: &Document, channel: &AwaitedChannel) -> bool {
    recorded(recording, channel).is_some_and(|pipe| pipe.writers.iter().any(|end| end.bytes > 0))
}

/// Whether the recorded process slept long for this.
fn is_long(recording: &Document, wait: &LastWait, channel: &AwaitedChannel, polled: bool) -> bool {
    let Some(at) = wait.process.recorded else { return false };
    let asleep = |end: &&RecordedEnd| end.process == at;
    let at_pipe: u64 = recorded(recording, channel)
        .into_iter()
        .flat_map(|pipe| &pipe.readers)
        .filter(asleep)
        .map(|end| end.blocked_ns)
        .sum();
    let in_poll = recording.recorded.get(at).and_then(|process| process.waits.get(&WaitReason::Poll));
    let ns = at_pipe + in_poll.filter(|_| polled).map_or(0, |wait| wait.ns);
    ns as f64 >= LONG * recording.processes.window_ns as f64
}

/// Whether those that have the write end open were idle and have written nothing, and nobody has written since.
fn is_only_held(recording: &Document, look: &LastLook, wait: &LastWait, channel: &AwaitedChannel) -> bool {
    let ends = recorded(recording, channel).map_or(&[][..], |pipe| &pipe.writers[..]);
    let wrote = |at: usize| ends.iter().any(|end| end.process == at && end.all_calls() > 0);
    // Who was left with it may have said at first that it runs.
    let early = |end: &RecordedEnd| end.moved_ns.is_some_and(|[_, last]| last < recording.processes.window_ns / 2);
    let is_late = |at: usize| ends.iter().any(|end| end.process == at && !early(end));
    let left = |at: usize| {
        channel.holders.iter().any(|holder| holder.process.recorded == Some(at) && is_left(recording, holder))
    };
    let only_holds = |holder: &ChannelHolder| {
        let is_left = is_left(recording, holder);
        let silent = |at: usize| !wrote(at) || is_left && !is_late(at);
        holder.process.pid == wait.process.pid
            || (holder.process.idle
                || is_left
                || awaits_holders(look, channel, holder)
                || leaked_by(recording, channel, holder).is_some())
                && holder.process.recorded.is_none_or(silent)
    };
    let later = |end: &RecordedEnd| {
        let process = recording.recorded.get(end.process);
        // Who has closed its end of a pipe writes no more.
        let has_it = channel.holders.iter().any(|holder| holder.process.recorded == Some(end.process));
        let before = end.moved_ns.is_some_and(|[_, last]| last <= look.at_ns);
        if channel.kind == ChannelKind::Pipe && !has_it && before {
            return false;
        }
        process.is_some_and(|process| end.all_calls() > 0 && process.end_ns > look.at_ns)
            && !(early(end) && left(end.process))
    };
    !channel.holders.is_empty()
        && channel.holders.iter().all(only_holds)
        && channel.holders.iter().any(|holder| holder.process.pid != wait.process.pid)
        && !ends.iter().any(later)
}

/// Whether a holder waits for children that all have inherited its end, and are idle: a loop that calls `sleep`.
fn awaits_holders(look: &LastLook, channel: &AwaitedChannel, holder: &ChannelHolder) -> bool {
    let mut own = look.waits.iter().filter(|wait| wait.process.pid == holder.process.pid).peekable();
    let is_held = |child: &SeenProcess| {
        child.idle && channel.holders.iter().any(|other| other.process.pid == child.pid && other.fd == holder.fd)
    };
    own.peek().is_some()
        && own.all(|wait| match &wait.awaited {
            WaitedFor::Children(children) => children.iter().all(is_held),
            _ => false,
        })
}

/// `` Its descriptor 13 is inherited: in a shell, `13>&-` behind the command that starts it closes that. ``
///
/// None if the holder can have made the channel for the process that waits.
fn inherited(recording: &Document, wait: &LastWait, holders: &[&ChannelHolder]) -> Option<String> {
    let [holder] = holders else { return None };
    let own = holder.process.recorded?;
    let view = FindingView::new(recording);
    let made = view.with_starters(wait.process.recorded?).any(|of| of == own);
    let executed = recording.recorded.get(own).is_some_and(|process| process.execs > 0);
    (holder.fd > LAST_GIVEN && executed && !made).then(|| {
        format!(
            " Its descriptor {} is inherited: in a shell, `{}>&-` behind the command that starts it closes that.",
            holder.fd, holder.fd
        )
    })
}

/// What to do if a process waits for its standard input, of which who started it has the other end, and wrote nothing.
fn given_input(
    recording: &Document,
    wait: &LastWait,
    channel: &AwaitedChannel,
    others: &[&ChannelHolder],
) -> Option<String> {
    let [holder] = others else { return None };
    let own = recording.recorded.get(wait.process.recorded?)?;
    let is_given = channel.fd == 0 && channel.kind == ChannelKind::Pipe && !was_written(recording, channel);
    (is_given && own.started_by.is_some() && own.started_by == holder.process.recorded && recording.looks.is_none()).then(|| {
        let name = format!("`{}`", clean(&wait.process.name));
        format!(
            " That is the standard input of {name}: `{}`, which started it, has to write there and to flush, to close that end (descriptor {}) \
             before it waits for {name}, or to start it with `</dev/null`.",
            clean(&holder.process.name),
            holder.fd
        )
    })
}

/// Who started a holder that has never used the channel, and used it itself before: it left its descriptor to another program.
fn leaked_by(recording: &Document, channel: &AwaitedChannel, holder: &ChannelHolder) -> Option<usize> {
    let own = holder.process.recorded?;
    let process = recording.recorded.get(own).filter(|of| of.execs > 0 && holder.fd > LAST_GIVEN)?;
    let starter = process.started_by?;
    let channel = recorded(recording, channel)?;
    let uses = |at: usize| channel.writers.iter().chain(&channel.readers).any(|end| end.process == at && end.bytes > 0);
    (uses(starter) && !uses(own) && recording.looks.is_none()).then_some(starter)
}

/// Whether what a process has inherited was left to it by one that has ended, and it sleeps on a timer, in `poll` or for a child
/// most of the time.
fn is_left(recording: &Document, holder: &ChannelHolder) -> bool {
    let Some(process) = holder.process.recorded.and_then(|at| recording.recorded.get(at)) else { return false };
    let window = recording.processes.window_ns;
    let starter = process.started_by.and_then(|by| recording.recorded.get(by));
    let slept = [WaitReason::Poll, WaitReason::Timer, WaitReason::Child]
        .map(|of| process.waits.get(&of).map_or(0, |wait| wait.ns));
    // A program does not know what else it has inherited.
    let given = holder.fd <= LAST_GIVEN || process.execs > 0;
    let looked = recording.last_look.as_ref().map_or(window, |look| look.at_ns.min(window));
    given && starter.is_some_and(|of| of.end_ns < looked) && slept.iter().sum::<u64>() as f64 >= LONG * window as f64
}

fn held_text(recording: &Document, look: &LastLook, wait: &LastWait, channel: &AwaitedChannel) -> String {
    let itself = channel.holders.iter().any(|holder| holder.process.pid == wait.process.pid);
    // Children come and go: who waits for them stands for all.
    let parents: Vec<&ChannelHolder> =
        channel.holders.iter().filter(|holder| awaits_holders(look, channel, holder)).collect();
    let is_child = |holder: &ChannelHolder| {
        let child = holder.process.recorded.and_then(|at| recording.recorded.get(at));
        // One that stays is no such.
        let stays = child.is_some_and(|of| of.lived_ns as f64 >= LONG * recording.processes.window_ns as f64);
        let own = child.filter(|_| !stays).and_then(|of| of.started_by);
        parents
            .iter()
            .any(|parent| parent.process.pid != holder.process.pid && own.is_some() && parent.process.recorded == own)
    };
    let others: Vec<&ChannelHolder> =
        channel.holders.iter().filter(|holder| holder.process.pid != wait.process.pid && !is_child(holder)).collect();
    let have = if others.len() + usize::from(itself) == 1 { "has" } else { "have" };
    let itself = itself.then(|| "itself".to_owned());
    let names = few(itself.into_iter().chain(others.iter().map(|holder| full_name(&holder.process))));
    let left = channel.holders.iter().any(|holder| is_left(recording, holder));
    let still = if left || was_written(recording, channel) { "still " } else { "" };
    let what = channel_name(channel);
    let name = full_name(&wait.process);
    let written = channel.holders.iter().filter_map(|holder| {
        let mut ends = recorded(recording, channel).into_iter().flat_map(|pipe| &pipe.writers);
        let own = ends.find(|end| Some(end.process) == holder.process.recorded && end.bytes > 0)?;
        own.moved_ns.map(|[_, last]| last)
    });
    let written = written.max().map(|last| format!("has written nothing since {}", time(last as f64 / 1e9)));
    let does = match (recording.looks, others.len()) {
        (None, _) => written.as_deref().unwrap_or("wrote nothing to it"),
        (_, 1) => "sleeps",
        _ => "sleep",
    };
    let starter_gone = channel.holders.iter().filter(|holder| is_left(recording, holder)).find_map(|holder| {
        let starter = recording.recorded.get(recording.recorded.get(holder.process.recorded?)?.started_by?)?;
        Some(format!("; `{}`, which had started it, has ended", clean(&starter.name)))
    });
    let killed = killed_writer(recording, channel);
    let is_killed = killed.is_some();
    let leaked = channel.holders.iter().find_map(|holder| {
        let starter = leaked_by(recording, channel, holder).filter(|_| holder.process.pid != wait.process.pid)?;
        let labels = labels(recording);
        let closes = if channel.kind.is_pipe() {
            format!("in a shell, `{}>&-` behind a command closes that for it; in a program, O_CLOEXEC does.", holder.fd)
        } else {
            "with O_CLOEXEC (`accept4` and `socket` with SOCK_CLOEXEC), a program that is started does not get it."
                .to_owned()
        };
        Some(format!(
            " `{}`, which had started it, has left that to it (descriptor {}): {closes}",
            labels.get(starter)?,
            holder.fd
        ))
    });
    let gone = killed.or(starter_gone).unwrap_or_default();
    let given = channel.holders.iter().all(|holder| holder.fd <= LAST_GIVEN);
    let frees = given && !still.is_empty() && !is_killed && channel.kind != ChannelKind::Fifo;
    let end = if channel.kind.is_pipe() { "write end" } else { "other end" };
    let from_outside = channel.fd == 0 && channel.holders.iter().all(|holder| holder.process.recorded.is_none());
    let starter = channel.holders.iter().find_map(|holder| killed_starter(recording, holder));
    let frees = if let Some(leaked) = leaked {
        leaked
    } else if let Some(starter) = starter {
        starter
    } else if channel.kind == ChannelKind::Pty {
        let notices = match &wait.process.unreaped[..] {
            [] => String::new(),
            ended => format!(
                " {name} {}: who starts a program in a terminal can stop when that ends (SIGCHLD, `waitpid`), and read then what is left.",
                not_waited_for(ended)
            ),
        };
        format!(
            " With all of its descriptors elsewhere (`</dev/null >/dev/null 2>&1` behind its command), the pipe ends without it.{notices}"
        )
    } else if from_outside && channel.kind == ChannelKind::Pipe {
        " That is the standard input of the whole command: with a file as its argument, or `</dev/null`, it does not read that."
            .to_owned()
    } else if let Some(given) = given_input(recording, wait, channel, &others) {
        given
    } else if frees && channel.holders.iter().any(|holder| holder.fd == 0) {
        " With all of its descriptors elsewhere (`</dev/null >/dev/null 2>&1` behind its command), its input too, that ends.".to_owned()
    } else if frees {
        " With its output elsewhere (`>/dev/null 2>&1` behind its command), the pipe ends without it.".to_owned()
    } else {
        inherited(recording, wait, &others).unwrap_or_default()
    };
    format!("{name} waits for data from {what}: only {names} {still}{have} its {end} open, and {does}{gone}.{frees}")
}

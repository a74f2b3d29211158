//! What is said of one wait.

use crate::profile::few;
use crate::record::model::labels::{labels, with_id};
use crate::record::say::findings::view::FindingView;
use crate::record::say::killed;
use crate::report::number::time;
use crate::result::{
    AwaitedChannel, ChannelHolder, ChannelKind, Document, LastWait, RecordedChannel, RecordedProcess, SeenProcess,
    WaitReason, WaitedFor,
};
use crate::util::text::{clean, counted};
use std::collections::BTreeSet;

/// A wait of less than this part of the window may have been about to end.
pub(super) const LONG: f64 = 0.5;

/// The program that starts another one with a lock.
const FLOCK: &str = "flock";

/// Said of who has a lock that another one took, which has ended.
pub(crate) fn inherited_lock(recording: &Document, holder: &SeenProcess) -> String {
    let row = |at: Option<usize>| recording.recorded.get(at?);
    let starter = row(holder.recorded).and_then(|process| Some((&process.name, row(process.started_by)?)));
    // A shell that is replaced by a later `flock` may have started it, too.
    let named = |words: &[String], name: &str| {
        words.iter().skip(1).any(|word| word.rsplit('/').next().is_some_and(|word| word.starts_with(name)))
    };
    let starter = starter.filter(|(name, starter)| starter.name == FLOCK && named(&starter.args, name));
    let Some((_, flock)) = starter else {
        return " It has inherited the open file, to which the lock belongs: what is started with that open has the lock, too. In a shell \
                that has it as descriptor 9, `9>&-` behind the command closes it there; O_CLOEXEC closes it for all programs."
            .to_owned();
    };
    let name = clean(&holder.name);
    let begin = format!(" It is the program that `{FLOCK}` started with the lock");
    // Of several, the time is that of the last one.
    let when = match flock.pids[..] {
        [_] => format!(" at {}", time(flock.end_ns as f64 / 1e9)),
        _ => String::new(),
    };
    match killed::requested(flock) {
        Some(signal) => format!(
            "{begin}; {signal} ended `{FLOCK}`{when}, but not `{name}`, which has the lock as long as it runs. It has to end at {signal}, \
             too; with `{FLOCK} --no-fork`, both are one process."
        ),
        None => format!(
            "{begin}: signals have to go to it, or to the whole group; with `{FLOCK} --no-fork`, both are one process."
        ),
    }
}

/// A process that a signal ends is gone so long after its last call at most, ns.
pub(super) const SOON_NS: u64 = 20_000_000;

/// Waits of one kind of which more are in result.json only.
pub(super) const NAMED: usize = 3;

/// Whether a thread waited so for most of the window, and what it waits for did not move meanwhile.
pub(super) fn is_stuck(recording: &Document, wait: &LastWait) -> bool {
    let Some((at, process)) = wait.process.recorded.and_then(|at| Some((at, recording.recorded.get(at)?))) else {
        return false;
    };
    let slept = |reason: WaitReason| process.waits.get(&reason).map_or(0, |wait| wait.ns);
    let ns = match &wait.awaited {
        WaitedFor::Channels { any, polled, .. } => {
            let ends = any.iter().filter_map(|channel| Some((recorded(recording, channel)?, channel.room)));
            let ends = ends.flat_map(|(pipe, room)| if room { &pipe.writers } else { &pipe.readers });
            let blocked: u64 = ends.filter(|end| end.process == at).map(|end| end.blocked_ns).sum();
            blocked + if *polled { slept(WaitReason::Poll) } else { 0 } + slept(WaitReason::Network)
        }
        // Also by SIGCHLD.
        WaitedFor::Children(_) => slept(WaitReason::Child) + slept(WaitReason::Poll) + slept(WaitReason::Signal),
        WaitedFor::Thread | WaitedFor::Shared { .. } => slept(WaitReason::Thread),
        WaitedFor::Lock { .. } => slept(WaitReason::FileLock),
        WaitedFor::Opening { .. } => slept(WaitReason::Open),
    };
    ns as f64 >= LONG * recording.processes.window_ns as f64
}

/// Whether a process did not end by itself, or another one was killed meanwhile, which may have left its files to a child. What
/// did end has its pauses.
pub(super) fn is_hung(recording: &Document, process: usize) -> bool {
    // Who wrote to a pipe that nobody read did not stand still.
    let stood = |signal: Option<u32>| signal.is_some_and(|signal| signal != libc::SIGPIPE.cast_unsigned());
    let killed = recording.recorded.get(process).is_some_and(|process| stood(process.signal));
    killed || recording.is_excerpt() || recording.recorded.iter().any(killed::by_others)
}

/// `` `cat` (process 4711)``.
pub(crate) fn full_name(process: &SeenProcess) -> String {
    with_id(&process.name, process.pid, process.inner_pid, process.container.as_ref())
}

/// Whether one of these processes has it open so that it could end the wait.
pub(super) fn has_holder(channel: &AwaitedChannel, members: &BTreeSet<u32>) -> bool {
    channel.holders.iter().any(|holder| members.contains(&holder.process.pid))
}

/// The recorded pipe of a channel.
pub(super) fn recorded<'a>(recording: &'a Document, channel: &AwaitedChannel) -> Option<&'a RecordedChannel> {
    recording.channels.iter().find(|pipe| pipe.is(channel))
}

/// `; `a.py` wrote 65,536 bytes to it until it was killed by SIGKILL at 0.51 s: it cannot write the rest`.
pub(super) fn killed_writer(recording: &Document, channel: &AwaitedChannel) -> Option<String> {
    let writers = recorded(recording, channel)?.writers.iter().filter(|end| end.bytes > 0);
    let killed = writers.filter_map(|end| {
        let process = recording.recorded.get(end.process).filter(|process| process.is_one())?;
        Some((end, process, killed::at_once(process.signal)?))
    });
    let (end, process, signal) = killed.max_by_key(|(_, process, _)| process.end_ns)?;
    Some(format!(
        "; `{}` wrote {} to it until it was killed by {signal} at {}: it cannot write the rest",
        labels(recording).get(end.process)?,
        counted(end.bytes, "byte"),
        time(process.end_ns as f64 / 1e9)
    ))
}

/// Who lives so long after what had started it was not ended by the same signal, ns.
const LEFT_NS: u64 = 100_000_000;

/// `` `sh`, which had started it, was ended by SIGKILL at 0.51 s, and that did not reach it: ... ``
pub(super) fn killed_starter(recording: &Document, holder: &ChannelHolder) -> Option<String> {
    let own = recording.recorded.get(holder.process.recorded?)?;
    let starter = own.started_by?;
    // One signal to the group of both ends them at once.
    let is_left = |of: &&RecordedProcess| {
        of.end_ns < recording.processes.window_ns
            && own.end_ns > of.end_ns + LEFT_NS.min(recording.processes.window_ns / 10)
    };
    let process = recording.recorded.get(starter).filter(is_left)?;
    let signal = killed::requested(process).filter(|_| FindingView::new(recording).is_one(starter))?;
    Some(format!(
        " `{}`, which had started it, was ended by {signal} at {}, and that did not reach it. {}",
        labels(recording).get(starter)?,
        time(process.end_ns as f64 / 1e9),
        killed::BOTH_END
    ))
}

pub(super) fn channel_name(channel: &AwaitedChannel) -> String {
    match (&channel.kind, &channel.path) {
        (ChannelKind::Fifo, path) => format!("the FIFO `{}`", clean(path.as_deref().unwrap_or_default())),
        (ChannelKind::Pipe, _) => "the pipe".to_owned(),
        (kind, Some(path)) => format!("the {} `{}`", kind.noun(), clean(path)),
        (kind, None) => format!("the {}", kind.noun()),
    }
}

/// What the process that waits calls the channel: a shell makes its standard error its standard output for a while (`>&2`).
pub(super) fn role_of(recording: &Document, process: Option<usize>, channel: &AwaitedChannel) -> Option<&'static str> {
    let output = process.and_then(|at| recording.recorded.get(at)?.output);
    let given = output.and_then(|at| recording.channels.get(at));
    let moved = given.is_some_and(|given| !given.is(channel));
    let is_output = channel.fd == libc::STDOUT_FILENO as u32;
    role(if is_output && moved && channel.is_error { libc::STDERR_FILENO as u32 } else { channel.fd })
}

/// ` of its standard output`; nothing of another descriptor.
pub(super) fn of_its(recording: &Document, process: Option<usize>, channel: &AwaitedChannel) -> String {
    role_of(recording, process, channel).map_or_else(String::new, |role| format!(" of its {role}"))
}

pub(super) fn role(fd: u32) -> Option<&'static str> {
    ["standard input", "standard output", "standard error"].get(fd as usize).copied()
}

/// `a and b have`: those that have the open file of a lock, without the process that waits, which may have inherited it.
pub(super) fn that_have(
    waiting: &SeenProcess,
    holders: &[SeenProcess],
    name: &impl Fn(&SeenProcess) -> String,
) -> String {
    let others = || holders.iter().filter(|holder| holder.pid != waiting.pid);
    match others().count() {
        0 => "it has itself".to_owned(),
        1 => format!("{} has", few(others().map(name))),
        _ => format!("{} have", few(others().map(name))),
    }
}

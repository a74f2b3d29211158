//! Why nothing went on when a recording last looked: processes that wait for each other or for themselves, those that only
//! have open what others wait for, FIFOs that nobody opens, and processes that are [`stopped`].

mod full;
mod itself;
mod remedy;
mod stopped;
mod unaccepted;
mod waiting;

use crate::profile::{few, listed};
use crate::record::model::labels::{told_apart, with_id};
use crate::record::say::killed;
use crate::report::number::time;
use crate::result::{
    AwaitedChannel, ChannelHolder, ChannelKind, Document, Finding, FindingKind, LastLook, LastWait, RecordLevel,
    RecordedEnd, SeenProcess, WaitReason, WaitedFor,
};
use crate::util::text::{clean, counted};
use remedy::LAST_GIVEN;
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use waiting::full_name;
use waiting::{
    LONG, NAMED, channel_name, has_holder, is_hung, is_stuck, killed_starter, killed_writer, recorded, role,
};

/// A process that a signal ends is gone so long after its last call at most, ns.
const SOON_NS: u64 = 20_000_000;

/// Members of a circle that are all named.
const LISTED: usize = 8;

/// What stands still in `recording`.
pub(crate) fn standstill(recording: &Document) -> Vec<Finding> {
    let Some(look) = &recording.last_look else { return Vec::new() };
    // What was written to a terminal may be on its way, and nobody sleeps for it.
    if look.waits.iter().any(|wait| wait.endless && has_gone_on(recording, look, wait)) {
        return Vec::new();
    }
    let of_circle = |members: &Vec<&LastWait>, end: &str| -> Vec<Finding> {
        let processes: BTreeSet<usize> = members.iter().filter_map(|wait| wait.process.recorded).collect();
        let texts = circle_text(recording, look, members, end).into_iter();
        let kinds = [FindingKind::Circle, FindingKind::Remedy];
        texts.zip(kinds).map(|(text, kind)| Finding::new(kind, processes.clone(), text)).collect()
    };
    let mut found: Vec<Finding> = circles(look.waits.iter().filter(|wait| wait.endless).collect())
        .iter()
        .flat_map(|members| of_circle(members, "Nothing can go on."))
        .collect();
    if found.is_empty() {
        let long =
            |wait: &&LastWait| wait.stuck && is_stuck(recording, wait) && !has_moved_lately(recording, look, wait);
        found = circles(look.waits.iter().filter(long).collect())
            .iter()
            .filter(|members| members.iter().any(|wait| wait.process.pid != members[0].process.pid))
            .flat_map(|members| of_circle(members, "Nothing goes on."))
            .collect();
    }
    if found.is_empty() {
        let held = held(recording, look).into_iter();
        found.extend(held.map(|text| Finding::new(FindingKind::Held, None, text)));
        found.extend(full::full(recording, look).into_iter().map(|text| Finding::new(FindingKind::Held, None, text)));
        let unaccepted = unaccepted::unaccepted(recording, look).into_iter();
        found.extend(unaccepted.map(|text| Finding::new(FindingKind::Held, None, text)));
        let stopped = stopped::stopped(recording, look).into_iter();
        found.extend(stopped.map(|text| Finding::new(FindingKind::Held, None, text)));
        if found.is_empty() {
            let unread = full::left_unread(recording, look).into_iter();
            found.extend(unread.map(|text| Finding::new(FindingKind::Held, None, text)));
            let watched = itself::watches_output(recording, look).into_iter();
            found.extend(watched.map(|text| Finding::new(FindingKind::Held, None, text)));
            let neglects = itself::neglects(recording, look).into_iter();
            found.extend(neglects.map(|text| Finding::new(FindingKind::Held, None, text)));
        }
        let locked = locked(recording, look).into_iter();
        found.extend(locked.map(|text| Finding::new(FindingKind::FileLock, None, text)));
    }
    let unopened = unopened(recording, look).into_iter();
    found.extend(unopened.map(|text| Finding::new(FindingKind::Unopened, None, text)));
    found
}

/// Whether what a process slept for when it was last looked at has come since.
fn has_gone_on(recording: &Document, look: &LastLook, wait: &LastWait) -> bool {
    let WaitedFor::Channels { any, .. } = &wait.awaited else { return false };
    any.iter().any(|channel| {
        let known = recorded(recording, channel);
        let mut ends = known.into_iter().flat_map(|known| if channel.room { &known.writers } else { &known.readers });
        ends.any(|end| {
            // A signal that ends a process ends its call, too, which then has moved a part.
            let ended = recording.recorded.get(end.process).filter(|process| killed::by_others(process));
            let cut = |last: u64| ended.is_some_and(|process| process.end_ns < last + SOON_NS);
            let moved = end.moved_ns.is_some_and(|[_, last]| last > look.at_ns && !cut(last));
            Some(end.process) == wait.process.recorded && moved
        })
    })
}

/// Whether something moved in the last half of the window at a channel for which a process waits: they only take turns.
fn has_moved_lately(recording: &Document, look: &LastLook, wait: &LastWait) -> bool {
    let WaitedFor::Channels { any, .. } = &wait.awaited else { return false };
    let half = look.at_ns.saturating_sub(recording.processes.window_ns / 2)..=look.at_ns;
    let ends = any.iter().filter_map(|of| recorded(recording, of)).flat_map(|of| of.writers.iter().chain(&of.readers));
    ends.filter_map(|end| end.moved_ns).any(|[_, last]| half.contains(&last))
}

/// Names of processes in one sentence: those of the tables, and short forms of them, if each means one process.
struct ShortNames {
    /// By process id: the name, and its short form.
    names: BTreeMap<u32, [String; 2]>,
}

impl ShortNames {
    fn new<'a>(recording: &Document, processes: impl Iterator<Item = &'a SeenProcess>) -> Self {
        let (names, _) = told_apart(recording);
        // A row can be of several processes.
        let name = |process: &SeenProcess| {
            let at = process.recorded.filter(|at| recording.recorded.get(*at).is_some_and(|of| of.pids.len() == 1));
            let full = at.and_then(|at| names.get(at)).map_or_else(|| clean(&process.name), String::clone);
            // Its script, and what tells it from others.
            let interpreter = clean(&process.name).rsplit_once(' ').map_or(0, |(before, _)| before.len() + 1);
            let short = full.get(interpreter..).unwrap_or(&full).to_owned();
            [full, short]
        };
        Self { names: processes.map(|process| (process.pid, name(process))).collect() }
    }

    /// `` `python3 a.py` (process 4711)``.
    fn full(&self, process: &SeenProcess) -> String {
        let name = self.names.get(&process.pid).map_or(&process.name, |[full, _]| full);
        with_id(name, process.pid, process.inner_pid, process.container.as_ref())
    }

    /// `` `a.py` ``, or `process 4711`.
    fn short(&self, process: &SeenProcess) -> String {
        let own = self.names.get(&process.pid).map(|[_, short]| short);
        let is_one = |own: &&String| self.names.values().filter(|[_, other]| other == *own).count() == 1;
        own.filter(is_one).map_or_else(|| format!("process {}", process.pid), |name| format!("`{name}`"))
    }
}

/// The circles of waits that others could end, each in order: each process waits for the next one.
fn circles(waits: Vec<&LastWait>) -> Vec<Vec<&LastWait>> {
    let begins = |wait: &LastWait| {
        let others_hold =
            |channel: &AwaitedChannel| channel.holders.iter().any(|holder| holder.process.pid != wait.process.pid);
        wait.process.recorded.is_some()
            && match &wait.awaited {
                // What only it has open itself is for its own signals.
                WaitedFor::Channels { any, polled, .. } => !polled || any.iter().any(others_hold),
                WaitedFor::Lock { .. } => true,
                // One with several threads may be idle.
                WaitedFor::Thread => waits.iter().filter(|other| other.process.pid == wait.process.pid).count() == 1,
                _ => false,
            }
    };
    let mut found: Vec<Vec<&LastWait>> = Vec::new();
    // Who sleeps at one channel says more than who polls.
    let polls = |at: &usize| matches!(&waits[*at].awaited, WaitedFor::Channels { polled: true, .. });
    let mut order: Vec<usize> = (0..waits.len()).filter(|at| begins(waits[*at])).collect();
    order.sort_by_key(polls);
    for first in order {
        let mut path: Vec<usize> = vec![first];
        let circle = loop {
            let Some(next) = path.last().and_then(|at| next(&waits, *at)) else { break None };
            if let Some(from) = path.iter().position(|known| *known == next) {
                break Some(path.split_off(from));
            }
            path.push(next);
        };
        let circle = circle.filter(|members| !has_way_out(&waits, members));
        let circle: Vec<&LastWait> = circle.into_iter().flatten().map(|at| waits[at]).collect();
        let known: BTreeSet<u32> = found.iter().flatten().map(|wait| wait.process.pid).collect();
        if !circle.is_empty() && circle.iter().all(|wait| !known.contains(&wait.process.pid)) {
            found.push(circle);
        }
    }
    found.truncate(NAMED);
    found
}

/// Whether a member of a circle waits also for somebody outside of it, who waits for none of them: that one can end all of it.
fn has_way_out(waits: &[&LastWait], circle: &[usize]) -> bool {
    let members: BTreeSet<u32> = circle.iter().map(|at| waits[*at].process.pid).collect();
    let awaited = |at: &usize| match &waits[*at].awaited {
        WaitedFor::Channels { any, .. } => &any[..],
        _ => &[],
    };
    let holders = circle.iter().flat_map(awaited).flat_map(|channel| &channel.holders);
    let outside: BTreeSet<u32> = holders.map(|of| of.process.pid).filter(|pid| !members.contains(pid)).collect();
    let leads_in = |first: usize| {
        let path = std::iter::successors(Some(first), |at| next(waits, *at)).take(waits.len());
        path.into_iter().any(|at| members.contains(&waits[at].process.pid))
    };
    (0..waits.len()).any(|at| outside.contains(&waits[at].process.pid) && !leads_in(at))
}

/// Of the waits of those that could end this one, the one that says most; its own if nobody else could.
fn next(endless: &[&LastWait], at: usize) -> Option<usize> {
    let own = endless[at];
    let enders: Vec<u32> = match &own.awaited {
        WaitedFor::Channels { any, .. } => {
            any.iter().flat_map(|channel| &channel.holders).map(|of| of.process.pid).collect()
        }
        WaitedFor::Children(children) => children.iter().map(|child| child.pid).collect(),
        WaitedFor::Thread => vec![own.process.pid],
        WaitedFor::Lock { holders, .. } => holders.iter().map(|holder| holder.pid).collect(),
        WaitedFor::Opening { .. } => return None,
    };
    let others = endless.iter().enumerate().filter(|(_, wait)| enders.contains(&wait.process.pid));
    others
        .min_by_key(|(other, wait)| {
            let kind = match &wait.awaited {
                WaitedFor::Channels { any, .. } if any.iter().any(|channel| channel.room) => 0,
                WaitedFor::Channels { .. } => 1,
                WaitedFor::Children(_) => 2,
                _ => 3,
            };
            (*other == at, wait.process.pid == own.process.pid, kind, *other)
        })
        .map(|(other, _)| other)
}

fn circle_text(recording: &Document, look: &LastLook, members: &[&LastWait], end: &str) -> Vec<String> {
    // Of the threads of a process, the one at a channel says more than one that waits for it.
    let mut of_processes: Vec<&LastWait> = Vec::new();
    for member in members {
        match of_processes.iter_mut().find(|known| known.process.pid == member.process.pid) {
            Some(known) if matches!(known.awaited, WaitedFor::Thread) => *known = member,
            Some(_) => {}
            None => of_processes.push(member),
        }
    }
    let names = ShortNames::new(recording, of_processes.iter().map(|wait| &wait.process));
    let short = |process: &SeenProcess| names.short(process);
    let reason =
        |wait: &&LastWait| because(recording, wait, &members.iter().map(|of| of.process.pid).collect(), &short);
    if let [alone] = of_processes[..] {
        return itself::itself(recording, look, alone);
    }
    let all = of_processes.iter().map(|wait| names.full(&wait.process));
    let each = of_processes.iter().map(|wait| format!("{} {}", short(&wait.process), reason(wait)));
    let (names, each): (String, Vec<String>) = if of_processes.len() > LISTED {
        (few(all), each.take(NAMED).chain(["and so on".to_owned()]).collect())
    } else {
        (listed(all), each.collect())
    };
    let mut said = vec![format!("{names} wait for each other: {}. {end}", each.join("; "))];
    said.extend(remedy::remedy(recording, &of_processes, &short));
    said
}

/// Why a member of a circle waits: for which of `members`.
fn because(
    recording: &Document,
    wait: &LastWait,
    members: &BTreeSet<u32>,
    name: &impl Fn(&SeenProcess) -> String,
) -> String {
    match &wait.awaited {
        WaitedFor::Channels { any, others, polled, .. } => {
            // What only it has open itself is for its own signals and threads.
            let others_hold =
                |channel: &&AwaitedChannel| channel.holders.iter().any(|holder| holder.process.pid != wait.process.pid);
            let (awaited, rest): (Vec<&AwaitedChannel>, Vec<&AwaitedChannel>) =
                any.iter().filter(others_hold).partition(|channel| has_holder(channel, members));
            let more = *others + rest.len() as u64;
            let more = if more > 0 { format!(", or for {}", counted(more, "other descriptor")) } else { String::new() };
            let reason = |channel: &&AwaitedChannel| awaited_text(recording, channel, wait.process.pid, name);
            // Standard output and error can be alike.
            let mut reasons: Vec<String> = awaited.iter().map(reason).collect();
            reasons.dedup();
            let poll = if *polled { "in poll, " } else { "" };
            if reasons.is_empty() {
                // The others of the circle hold something else that it waits for.
                return format!("{poll}for its own threads and signals{more}");
            }
            format!("{poll}because {}{more}", few(reasons))
        }
        WaitedFor::Children(children) => {
            format!("until {} has ended", few(children.iter().filter(|child| members.contains(&child.pid)).map(name)))
        }
        WaitedFor::Lock { path, holders } => {
            format!("for the lock of `{}`, which {}", clean(path), that_have(&wait.process, holders, name))
        }
        WaitedFor::Thread | WaitedFor::Opening { .. } => "for another of its threads".to_owned(),
    }
}

/// `a and b have`: those that have the open file of a lock, without the process that waits, which may have inherited it.
fn that_have(waiting: &SeenProcess, holders: &[SeenProcess], name: &impl Fn(&SeenProcess) -> String) -> String {
    let others = || holders.iter().filter(|holder| holder.pid != waiting.pid);
    match others().count() {
        0 => "it has itself".to_owned(),
        1 => format!("{} has", few(others().map(name))),
        _ => format!("{} have", few(others().map(name))),
    }
}

/// The lock of a file for which a process waited when it was last looked, and who has it.
pub(crate) fn lock_of(recording: &Document, process: usize) -> Option<String> {
    let waits = recording.last_look.iter().flat_map(|look| &look.waits);
    waits.filter(|wait| wait.process.recorded == Some(process)).find_map(|wait| match &wait.awaited {
        WaitedFor::Lock { path, holders } if !holders.is_empty() => {
            Some(format!("the lock of `{}`, which {}", clean(path), that_have(&wait.process, holders, &full_name)))
        }
        _ => None,
    })
}

/// What a process waited for in poll or its like when it was last looked, if that is known.
pub(crate) fn polled(recording: &Document, process: usize) -> Option<String> {
    let waits = recording.last_look.iter().flat_map(|look| &look.waits);
    let mut polls =
        waits.filter(|wait| wait.process.recorded == Some(process)).filter_map(|wait| match &wait.awaited {
            WaitedFor::Channels { any, others, polled: true, limited } => Some((wait, any, *others, *limited)),
            _ => None,
        });
    // With several threads, it is not known which of them the path ends with.
    let (wait, any, others, limited) = polls.next().filter(|_| polls.next().is_none())?;
    let own = wait.process.pid;
    let mut all: BTreeSet<String> = BTreeSet::new();
    for channel in any {
        let holders = channel.holders.iter().filter(|holder| holder.process.pid != own);
        let names: BTreeSet<String> = holders.map(|holder| format!("`{}`", clean(&holder.process.name))).collect();
        let way = if channel.room { "to" } else { "from" };
        // What only it has open itself is for its own signals and threads.
        all.extend((!names.is_empty()).then(|| format!("{} {way} {}", channel_name(channel), few(names))));
    }
    if all.is_empty() {
        let given = any.iter().find(|channel| (1..=LAST_GIVEN).contains(&channel.fd) && channel.kind.is_pipe());
        let own = given.and_then(|channel| Some(format!("its own {}", role(channel.fd)?)));
        all.insert(own.unwrap_or_else(|| "its own threads and signals".to_owned()));
    }
    let more = others + all.len().saturating_sub(NAMED) as u64;
    let mut said: Vec<String> = all.into_iter().take(NAMED).collect();
    said.extend((more > 0).then(|| counted(more, "other descriptor")));
    said.extend(limited.then(|| "a timer".to_owned()));
    Some(said.join(" or "))
}

/// `the pipe of its standard error is full (16 of 16 slots) and `client` has not read it`.
fn awaited_text(
    recording: &Document,
    channel: &AwaitedChannel,
    pid: u32,
    name: &impl Fn(&SeenProcess) -> String,
) -> String {
    let others = channel.holders.iter().filter(|holder| holder.process.pid != pid);
    let others = few(others.map(|holder| name(&holder.process)));
    let what = channel_name(channel);
    let pipe = recorded(recording, channel);
    if channel.room {
        let of = role(channel.fd).map_or_else(String::new, |role| format!(" of its {role}"));
        let slots = pipe.and_then(|pipe| pipe.slots).map(|[_, slots, _]| format!(" ({slots} of {slots} slots)"));
        let from_begin = recording.target.pids().is_empty();
        let has_read = pipe.is_none_or(|pipe| pipe.readers.iter().any(|end| end.bytes > 0));
        let reads = if from_begin && !has_read { "has never read it" } else { "does not read it" };
        return format!("{what}{of} is full{}, and {others} {reads}", slots.unwrap_or_default());
    }
    // Who has the other end of a socket reads and writes it.
    let role_of = |holder: &ChannelHolder| role(holder.fd).filter(|_| channel.kind.is_pipe());
    let roles: BTreeSet<Option<&str>> = channel.holders.iter().map(role_of).collect();
    let from = match roles.into_iter().collect::<Vec<_>>()[..] {
        [Some(role)] => format!(" from the {role} of {others}"),
        _ => format!(" from {others}"),
    };
    format!("{what}{from} is empty")
}

/// Long waits for data from processes that have the write end open, and do nothing.
fn held(recording: &Document, look: &LastLook) -> Vec<String> {
    // Without calls, it is not known who wrote. What only looks has no more than that they sleep.
    if recording.level == RecordLevel::Sched && recording.looks.is_none() {
        return Vec::new();
    }
    let mut said = Vec::new();
    let mut known = BTreeSet::new();
    for wait in &look.waits {
        let WaitedFor::Channels { any, polled, .. } = &wait.awaited else { continue };
        // A socket between a process and its child is used like a pipe.
        let left =
            |of: &AwaitedChannel| was_written(recording, of) || of.holders.iter().all(|of| is_left(recording, of));
        let is_open = |of: &AwaitedChannel| of.kind.is_pipe() || of.kind == ChannelKind::UnixStream && left(of);
        for channel in any.iter().filter(|channel| !channel.room && !channel.unaccepted && is_open(channel)) {
            let new = known.insert((wait.process.pid, channel.inode));
            let hung =
                wait.process.recorded.is_some_and(|at| is_hung(recording, at)) || was_written(recording, channel);
            if new && hung && is_long(recording, wait, channel, *polled) && is_only_held(recording, look, wait, channel)
            {
                said.push(held_text(recording, wait, channel));
            }
        }
    }
    let more = said.len().saturating_sub(NAMED);
    said.truncate(NAMED);
    said.extend((more > 0).then(|| format!("The same holds for {}.", counted(more as u64, "further pipe"))));
    said
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
            || (holder.process.idle || is_left) && holder.process.recorded.is_none_or(silent)
    };
    let later = |end: &RecordedEnd| {
        let process = recording.recorded.get(end.process);
        process.is_some_and(|process| end.all_calls() > 0 && process.end_ns > look.at_ns)
            && !(early(end) && left(end.process))
    };
    !channel.holders.is_empty()
        && channel.holders.iter().all(only_holds)
        && channel.holders.iter().any(|holder| holder.process.pid != wait.process.pid)
        && !ends.iter().any(later)
}

/// Whether what a process has inherited by 1 or 2 was left to it by one that has ended, and it sleeps on a timer or in `poll`
/// most of the time.
fn is_left(recording: &Document, holder: &ChannelHolder) -> bool {
    let Some(process) = holder.process.recorded.and_then(|at| recording.recorded.get(at)) else { return false };
    let window = recording.processes.window_ns;
    let starter = process.started_by.and_then(|by| recording.recorded.get(by));
    let slept = [WaitReason::Poll, WaitReason::Timer].map(|of| process.waits.get(&of).map_or(0, |wait| wait.ns));
    let given = (1..=LAST_GIVEN).contains(&holder.fd);
    given && starter.is_some_and(|of| of.end_ns < window) && slept.iter().sum::<u64>() as f64 >= LONG * window as f64
}

fn held_text(recording: &Document, wait: &LastWait, channel: &AwaitedChannel) -> String {
    let itself = channel.holders.iter().any(|holder| holder.process.pid == wait.process.pid);
    let others = channel.holders.iter().filter(|holder| holder.process.pid != wait.process.pid);
    let itself = itself.then(|| "itself".to_owned());
    let names = few(itself.into_iter().chain(others.map(|holder| full_name(&holder.process))));
    let have = if channel.holders.len() == 1 { "has" } else { "have" };
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
    let does = match (recording.looks, channel.holders.len()) {
        (None, _) => written.as_deref().unwrap_or("wrote nothing"),
        (_, 1) => "sleeps",
        _ => "sleep",
    };
    let starter_gone = channel.holders.iter().filter(|holder| is_left(recording, holder)).find_map(|holder| {
        let starter = recording.recorded.get(recording.recorded.get(holder.process.recorded?)?.started_by?)?;
        Some(format!("; `{}`, which had started it, has ended", clean(&starter.name)))
    });
    let killed = killed_writer(recording, channel);
    let is_killed = killed.is_some();
    let gone = killed.or(starter_gone).unwrap_or_default();
    let given = channel.holders.iter().all(|holder| holder.fd <= remedy::LAST_GIVEN);
    let frees = given && !still.is_empty() && !is_killed && channel.kind != ChannelKind::Fifo;
    let end = if channel.kind.is_pipe() { "write end" } else { "other end" };
    let from_outside = channel.fd == 0 && channel.holders.iter().all(|holder| holder.process.recorded.is_none());
    let starter = channel.holders.iter().find_map(|holder| killed_starter(recording, holder));
    let frees = if let Some(starter) = starter {
        starter
    } else if from_outside && channel.kind == ChannelKind::Pipe {
        " That is the standard input of the whole command: with a file as its argument, or `</dev/null`, it does not read that."
            .to_owned()
    } else if frees {
        " With its output elsewhere (`>/dev/null 2>&1` behind its command), that ends.".to_owned()
    } else {
        String::new()
    };
    format!("{name} waits for data from {what}: only {names} {still}{have} its {end} open, and {does}{gone}.{frees}")
}

/// Long waits for the locks of files.
fn locked(recording: &Document, look: &LastLook) -> Vec<String> {
    let long =
        |wait: &&LastWait| is_stuck(recording, wait) && wait.process.recorded.is_some_and(|at| is_hung(recording, at));
    let text = |wait: &LastWait| match &wait.awaited {
        WaitedFor::Lock { path, holders } if !holders.is_empty() => {
            let who = that_have(&wait.process, holders, &full_name);
            Some(format!("{} waits for the lock of `{}`, which {who}.", full_name(&wait.process), clean(path)))
        }
        _ => None,
    };
    look.waits.iter().filter(long).filter_map(text).take(NAMED).collect()
}

/// FIFOs that a process opens for the same direction, and whose other ends nobody opens.
struct UnopenedFifos<'a> {
    process: &'a SeenProcess,
    paths: BTreeSet<String>,
    /// Who has deleted ones of these paths open.
    deleted: Vec<&'a SeenProcess>,
    /// None is there any more.
    removed: bool,
}

/// Long waits for FIFOs to be opened, of each process.
fn unopened(recording: &Document, look: &LastLook) -> Vec<String> {
    let mut of_processes: BTreeMap<(u32, bool), UnopenedFifos<'_>> = BTreeMap::new();
    for wait in &look.waits {
        let hung = wait.process.recorded.filter(|at| is_hung(recording, *at));
        let process = hung.and_then(|at| recording.recorded.get(at));
        let opening = process.and_then(|process| process.waits.get(&WaitReason::Open));
        let is_long = opening.is_some_and(|wait| wait.ns as f64 >= LONG * recording.processes.window_ns as f64);
        if let WaitedFor::Opening { path, writes, deleted, removed } = &wait.awaited
            && is_long
        {
            let process = &wait.process;
            let new = || UnopenedFifos { process, paths: BTreeSet::new(), deleted: Vec::new(), removed: *removed };
            let found = of_processes.entry((process.pid, *writes)).or_insert_with(new);
            found.paths.insert(format!("`{}`", clean(path)));
            found.deleted.extend(deleted);
            found.removed &= removed;
        }
    }
    let text = |((_, writes), fifos): ((u32, bool), UnopenedFifos<'_>)| {
        let UnopenedFifos { process, paths, deleted, removed } = fifos;
        let [fifos, it] = if paths.len() == 1 { ["FIFO", "it"] } else { ["FIFOs", "them"] };
        let how = if writes { "reading" } else { "writing" };
        let have = if deleted.len() == 1 { "has" } else { "have" };
        let old = match &deleted[..] {
            [] => String::new(),
            holders => {
                let names = few(holders.iter().map(|holder| full_name(holder)));
                format!(" {names} {have} another one of this path open, which was deleted, and must open {it} again.")
            }
        };
        let gone = if removed {
            format!(", which was removed: nobody can open {it} any more, and who writes to that path makes a file")
        } else {
            itself::ended_openers(recording, process, &paths)
        };
        let program = process.recorded.and_then(|at| recording.recorded.get(at));
        // A folder that is in its command line has it.
        let is_above = |word: &String| {
            let below = |path: &String| {
                path[1..].strip_prefix(word.as_str()).is_some_and(|rest| word.ends_with('/') || rest.starts_with('/'))
            };
            !word.is_empty() && paths.iter().any(below)
        };
        let walks = gone.is_empty() && program.is_some_and(|of| of.args.iter().skip(1).any(is_above));
        let skip = if walks {
            " It goes through a folder, and has to leave out what is not a regular file, or to open with O_NONBLOCK."
        } else {
            ""
        };
        format!(
            "{} waits until another process opens the {fifos} {} for {how}{gone}.{old}{skip}",
            full_name(process),
            few(paths)
        )
    };
    of_processes.into_iter().take(NAMED).map(text).collect()
}

#[cfg(test)]
mod outside_tests;
#[cfg(test)]
mod tests;

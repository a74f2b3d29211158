//! Processes that wait for each other.

use crate::profile::{few, listed};
use crate::record::model::labels::{told_apart, with_id};
use crate::record::say::standstill::waiting::{NAMED, channel_name, has_holder, of_its, recorded, role, that_have};
use crate::record::say::standstill::{itself, remedy};
use crate::result::{AwaitedChannel, ChannelHolder, Document, LastLook, LastWait, SeenProcess, WaitedFor};
use crate::util::text::{clean, counted};
use std::collections::{BTreeMap, BTreeSet};

/// Members of a circle that are all named.
const LISTED: usize = 8;

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
            let at = process.recorded.filter(|at| recording.recorded.get(*at).is_some_and(|of| of.is_one()));
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

    /// `` `a.py` ``, or `process 4711` if several have that name. A process outside of the circle has its full name.
    fn short(&self, process: &SeenProcess) -> String {
        let Some([_, own]) = self.names.get(&process.pid) else { return self.full(process) };
        let is_one = self.names.values().filter(|[_, other]| other == own).count() == 1;
        let full = &self.names[&process.pid][0];
        let is_whole = || self.names.values().filter(|[other, _]| other == full).count() == 1;
        match is_one {
            true => format!("`{own}`"),
            false if is_whole() => format!("`{full}`"),
            false => format!("process {}", process.pid),
        }
    }
}

/// The circles of waits that others could end, each in order: each process waits for the next one.
pub(super) fn circles(waits: Vec<&LastWait>) -> Vec<Vec<&LastWait>> {
    let begins = |wait: &LastWait| {
        let others_hold = |channel: &AwaitedChannel| !is_own(wait, channel);
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
    let holders = circle.iter().flat_map(|at| waits[*at].channels()).flat_map(|channel| &channel.holders);
    let outside: BTreeSet<u32> = holders.map(|of| of.process.pid).filter(|pid| !members.contains(pid)).collect();
    // All that could release it wait, too.
    let is_shared = |at: usize| matches!(waits[at].awaited, WaitedFor::Shared { .. });
    let leads_in = |first: usize| {
        let path = std::iter::successors(Some(first), |at| next(waits, *at)).take(waits.len());
        path.into_iter().any(|at| members.contains(&waits[at].process.pid) || is_shared(at))
    };
    (0..waits.len()).any(|at| outside.contains(&waits[at].process.pid) && !leads_in(at))
}

/// Whether nobody else has the other end of what a process waits for.
fn is_own(wait: &LastWait, channel: &AwaitedChannel) -> bool {
    channel.holders.iter().all(|holder| holder.process.pid == wait.process.pid)
}

/// Whether one waits for data from nothing but what the other one waits for, too.
fn waits_for_same(own: &LastWait, other: &LastWait) -> bool {
    let is_same = |of: &AwaitedChannel, known: &AwaitedChannel| {
        (of.inode, of.device, of.kind) == (known.inode, known.device, known.kind) && !of.room && !known.room
    };
    let known = own.channels();
    let of_other = other.channels();
    !of_other.is_empty() && of_other.iter().all(|of| known.iter().any(|known| is_same(of, known)))
}

/// Of the waits of those that could end this one, the one that says most; its own if nobody else could.
fn next(endless: &[&LastWait], at: usize) -> Option<usize> {
    let own = endless[at];
    let enders: Vec<u32> = match &own.awaited {
        WaitedFor::Channels { any, .. } => {
            let all = any.iter().flat_map(|channel| &channel.holders).map(|of| of.process.pid);
            // Who reads the same writes nothing to it, if another one can.
            let reads_too = |pid: &u32| {
                *pid != own.process.pid
                    && endless.iter().any(|wait| wait.process.pid == *pid && waits_for_same(own, wait))
            };
            let (reading, writing): (Vec<u32>, Vec<u32>) = all.partition(reads_too);
            let is_known = |pid: &u32| *pid != own.process.pid && endless.iter().any(|wait| wait.process.pid == *pid);
            if writing.iter().any(is_known) { writing } else { [writing, reading].concat() }
        }
        WaitedFor::Children(children) => children.iter().map(|child| child.pid).collect(),
        WaitedFor::Thread => vec![own.process.pid],
        WaitedFor::Lock { holders, .. } => holders.iter().map(|holder| holder.pid).collect(),
        // Who waits for the same does not have it.
        WaitedFor::Shared { holders, .. } => {
            let others = holders.iter().map(|holder| holder.pid).filter(|pid| *pid != own.process.pid);
            let waits_too = |pid: &u32| {
                endless.iter().any(|wait| wait.process.pid == *pid && matches!(wait.awaited, WaitedFor::Shared { .. }))
            };
            others.filter(|pid| !waits_too(pid)).collect()
        }
        WaitedFor::Opening { .. } => return None,
    };
    let others = endless.iter().enumerate().filter(|(_, wait)| enders.contains(&wait.process.pid));
    others
        .min_by_key(|(other, wait)| {
            let kind = match &wait.awaited {
                WaitedFor::Channels { any, .. } if any.iter().any(|channel| channel.room) => 0,
                // What only it has open is for its own threads.
                WaitedFor::Channels { any, polled: true, .. } if any.iter().all(|of| is_own(wait, of)) => 4,
                WaitedFor::Channels { .. } => 1,
                WaitedFor::Children(_) => 2,
                _ => 3,
            };
            (*other == at, wait.process.pid == own.process.pid, kind, *other)
        })
        .map(|(other, _)| other)
}

pub(super) fn circle_text(recording: &Document, look: &LastLook, members: &[&LastWait], end: &str) -> Vec<String> {
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
            let (mut awaited, rest): (Vec<&AwaitedChannel>, Vec<&AwaitedChannel>) =
                any.iter().filter(others_hold).partition(|channel| has_holder(channel, members));
            // Who asks epoll for all once (EPOLLET) is not told again of what holds data already: it waits for room elsewhere.
            let has_data = |channel: &AwaitedChannel| {
                !channel.room && recorded(recording, channel).is_some_and(|pipe| pipe.written() > pipe.read())
            };
            if *polled && awaited.iter().any(|channel| channel.room) {
                awaited.retain(|channel| !has_data(channel));
            }
            let more = *others + rest.len() as u64;
            let more = if more > 0 { format!(", or for {}", counted(more, "other descriptor")) } else { String::new() };
            let reason = |channel: &&AwaitedChannel| awaited_text(recording, channel, &wait.process, members, name);
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
        WaitedFor::Lock { path, holders, .. } => {
            format!("for the lock of `{}`, which {}", clean(path), that_have(&wait.process, holders, name))
        }
        WaitedFor::Shared { holders, .. } => {
            let others =
                holders.iter().filter(|holder| members.contains(&holder.pid) && holder.pid != wait.process.pid);
            let others: Vec<String> = others.map(name).collect();
            let with = if others.is_empty() { String::new() } else { format!(" with {}", few(others)) };
            format!("for a lock or semaphore that it shares{with}")
        }
        WaitedFor::Thread | WaitedFor::Opening { .. } => "for another of its threads".to_owned(),
    }
}

/// `the pipe of its standard error is full (16 of 16 slots) and `client` has not read it`.
fn awaited_text(
    recording: &Document,
    channel: &AwaitedChannel,
    process: &SeenProcess,
    members: &BTreeSet<u32>,
    name: &impl Fn(&SeenProcess) -> String,
) -> String {
    let pid = process.pid;
    let of_circle = |holder: &&ChannelHolder| holder.process.pid != pid && members.contains(&holder.process.pid);
    // Copies of `fork` can be many.
    let many = channel.room && channel.holders.len() > NAMED && channel.holders.iter().any(|of| of_circle(&of));
    let others = channel.holders.iter().filter(|of| if many { of_circle(of) } else { of.process.pid != pid });
    let others: Vec<String> = others.map(|holder| name(&holder.process)).collect();
    let [has, does] = if others.len() == 1 { ["has", "does"] } else { ["have", "do"] };
    let others = few(others);
    let what = channel_name(channel);
    let pipe = recorded(recording, channel);
    if channel.room {
        let of = of_its(recording, process.recorded, channel);
        let slots = pipe.and_then(|pipe| pipe.slots).map(|[_, slots, _]| format!(" ({slots} of {slots} slots)"));
        let from_begin = recording.target.pids().is_empty();
        let has_read = pipe.is_none_or(|pipe| pipe.readers.iter().any(|end| end.bytes > 0));
        let reads =
            if from_begin && !has_read { format!("{has} never read it") } else { format!("{does} not read it") };
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

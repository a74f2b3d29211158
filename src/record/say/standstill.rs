//! Why nothing went on when a recording last looked: processes that wait for each other or for themselves, those that only
//! have open what others wait for, FIFOs that nobody opens, and processes that are [`stopped`].

mod circles;
mod full;
mod held;
mod itself;
mod left_data;
mod missed_end;
mod polled;
mod remedy;
mod stopped;
mod taken;
mod unaccepted;
mod waiting;

use crate::profile::few;
use crate::record::say::killed;
use crate::result::{
    Document, Finding, FindingKind, LastLook, LastWait, RecordedProcess, SeenProcess, WaitReason, WaitedFor,
};
use crate::util::text::clean;
use circles::{circle_text, circles};
use held::held;
pub(crate) use polled::{event_of, polled};
use std::collections::{BTreeMap, BTreeSet};
use waiting::{LONG, NAMED, SOON_NS, is_hung, is_stuck, recorded, that_have};
pub(crate) use waiting::{full_name, inherited_lock};

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
    let cut = left_data::cut(recording, look).into_iter();
    let mut found: Vec<Finding> = cut.map(|text| Finding::new(FindingKind::Held, None, text)).collect();
    if found.is_empty() {
        found = circles(look.waits.iter().filter(|wait| wait.endless).collect())
            .iter()
            .flat_map(|members| of_circle(members, "Nothing can go on."))
            .collect();
    }
    if found.is_empty() {
        let long = |wait: &&LastWait| {
            let moves = has_moved_lately(recording, look, wait) || has_gone_on(recording, look, wait);
            wait.stuck && is_stuck(recording, wait) && !moves
        };
        // Servers that were to end, and do not, wait for new requests.
        let in_vain = |wait: &&LastWait| {
            let row = wait.process.recorded.and_then(|at| recording.recorded.get(at));
            row.is_some_and(|process| process.told_to_end_in_vain.is_some())
        };
        found = circles(look.waits.iter().filter(long).collect())
            .iter()
            .filter(|members| members.iter().any(|wait| wait.process.pid != members[0].process.pid))
            .filter(|members| !members.iter().all(in_vain))
            .flat_map(|members| of_circle(members, "Nothing goes on."))
            .collect();
    }
    if found.is_empty() {
        let say = |found: &mut Vec<Finding>, texts: Vec<String>| {
            found.extend(texts.into_iter().map(|text| Finding::new(FindingKind::Held, None, text)));
            found.is_empty()
        };
        say(&mut found, left_data::left_data(recording, look));
        say(&mut found, missed_end::hung_up(recording, look));
        say(&mut found, missed_end::not_passed_on(recording, look));
        let held = held(recording, look).into_iter();
        found.extend(held.map(|(process, text)| Finding::new(FindingKind::Held, process, text)));
        say(&mut found, full::full(recording, look));
        say(&mut found, unaccepted::unaccepted(recording, look));
        if say(&mut found, stopped::stopped(recording, look).into_iter().collect()) {
            say(&mut found, full::left_unread(recording, look));
            say(&mut found, itself::watches_output(recording, look).into_iter().collect());
            say(&mut found, left_data::own_end(recording, look));
            say(&mut found, itself::merged(recording, look));
            say(&mut found, itself::neglects(recording, look));
            say(&mut found, itself::shared(recording, look));
            say(&mut found, itself::abandoned(recording, look));
        }
        let locked = locked(recording, look).into_iter();
        found.extend(locked.map(|text| Finding::new(FindingKind::FileLock, None, text)));
    }
    let unopened = unopened(recording, look).into_iter();
    found.extend(unopened.map(|text| Finding::new(FindingKind::Unopened, None, text)));
    found
}

/// What ends a recording has ended its programs after so long, ns.
const OVER_NS: u64 = 1_000_000_000;

/// Whether what a process slept for when it was last looked at has come since.
fn has_gone_on(recording: &Document, look: &LastLook, wait: &LastWait) -> bool {
    let WaitedFor::Channels { any, .. } = &wait.awaited else { return false };
    // What only looks does not see what moved. Who waits without end does not end by itself, unless another one was ended.
    let ended_by_itself = wait.process.recorded.and_then(|at| recording.recorded.get(at)).is_some_and(|process| {
        let before = |of: &RecordedProcess| killed::by_others(of) && of.end_ns <= process.end_ns;
        let is_over = process.signal.is_none() && process.end_ns < recording.processes.window_ns;
        is_over && !recording.recorded.iter().any(before)
    });
    if recording.looks.is_some() && ended_by_itself {
        return true;
    }
    // Who handles the signal of Ctrl-C, or does something when another one is gone, moves data once more.
    let ended = || recording.recorded.iter().filter(|of| killed::by_others(of)).map(|of| of.end_ns);
    let at_an_end = |last: u64| ended().any(|end| end > look.at_ns && last.abs_diff(end) < OVER_NS);
    any.iter().any(|channel| {
        let known = recorded(recording, channel);
        let mut ends = known.into_iter().flat_map(|known| if channel.room { &known.writers } else { &known.readers });
        ends.any(|end| {
            // A signal that ends a process ends its call, too, which then has moved a part.
            let ended = recording.recorded.get(end.process).filter(|process| killed::by_others(process));
            let cut = |last: u64| ended.is_some_and(|process| process.end_ns < last + SOON_NS);
            let moved = end.moved_ns.is_some_and(|[_, last]| last > look.at_ns && !cut(last) && !at_an_end(last));
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

/// The lock of a file for which a process waited when it was last looked, and who has it.
pub(crate) fn lock_of(recording: &Document, process: usize) -> Option<String> {
    let waits = recording.last_look.iter().flat_map(|look| &look.waits);
    waits.filter(|wait| wait.process.recorded == Some(process)).find_map(|wait| match &wait.awaited {
        WaitedFor::Lock { path, holders, .. } if !holders.is_empty() => {
            Some(format!("the lock of `{}`, which {}", clean(path), that_have(&wait.process, holders, &full_name)))
        }
        _ => None,
    })
}

/// Long waits for the locks of files.
fn locked(recording: &Document, look: &LastLook) -> Vec<String> {
    let long =
        |wait: &&LastWait| is_stuck(recording, wait) && wait.process.recorded.is_some_and(|at| is_hung(recording, at));
    let text = |wait: &LastWait| match &wait.awaited {
        WaitedFor::Lock { path, holders, inherited } if !holders.is_empty() => {
            let who = that_have(&wait.process, holders, &full_name);
            let others: Vec<&SeenProcess> = holders.iter().filter(|holder| holder.pid != wait.process.pid).collect();
            let recorded = |holder: &SeenProcess| recording.recorded.get(holder.recorded?);
            // A shell can have opened it itself, and called `flock` for that.
            let how = match others[..] {
                [holder] if *inherited && recorded(holder).is_some_and(|of| of.execs > 0 && !of.is_shell()) => {
                    inherited_lock(recording, holder)
                }
                _ => String::new(),
            };
            Some(format!("{} waits for the lock of `{}`, which {who}.{how}", full_name(&wait.process), clean(path)))
        }
        _ => None,
    };
    look.waits.iter().filter(long).filter_map(text).take(NAMED).collect()
}

/// A look takes this time at most after the moment that it is of, ns.
const LOOK_NS: u64 = 100_000_000;

/// FIFOs that a process opens for the same direction, and whose other ends nobody opens.
struct UnopenedFifos<'a> {
    process: &'a SeenProcess,
    paths: BTreeSet<String>,
    /// Who has deleted ones of these paths open.
    deleted: Vec<&'a SeenProcess>,
    /// None is there any more.
    removed: bool,
    /// They were made in this recording.
    is_new: bool,
}

/// Long waits for FIFOs to be opened, of each process.
fn unopened(recording: &Document, look: &LastLook) -> Vec<String> {
    let mut of_processes: BTreeMap<(u32, bool), UnopenedFifos<'_>> = BTreeMap::new();
    for wait in &look.waits {
        let hung = wait.process.recorded.filter(|at| is_hung(recording, *at));
        let process = hung.and_then(|at| recording.recorded.get(at));
        let opening = process.and_then(|process| process.waits.get(&WaitReason::Open));
        let is_long = opening.is_some_and(|wait| wait.ns as f64 >= LONG * recording.processes.window_ns as f64);
        if let WaitedFor::Opening { path, writes, deleted, removed, age_ns } = &wait.awaited
            && is_long
        {
            let process = &wait.process;
            let new = || UnopenedFifos {
                process,
                paths: BTreeSet::new(),
                deleted: Vec::new(),
                removed: *removed,
                // What was made meanwhile is not left over.
                is_new: age_ns.is_some_and(|age| age < look.at_ns + LOOK_NS) && recording.target.pids().is_empty(),
            };
            let found = of_processes.entry((process.pid, *writes)).or_insert_with(new);
            found.paths.insert(format!("`{}`", clean(path)));
            found.deleted.extend(deleted);
            found.removed &= removed;
        }
    }
    // Who opens the same side of the same FIFO, although one of them is to have the other one.
    let openers: Vec<(SeenProcess, bool, BTreeSet<String>)> =
        of_processes.iter().map(|((_, writes), of)| (of.process.clone(), *writes, of.paths.clone())).collect();
    let text = |((_, writes), fifos): ((u32, bool), UnopenedFifos<'_>)| {
        let UnopenedFifos { process, paths, deleted, removed, is_new } = fifos;
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
            let is_own = [".", "./"].contains(&word.as_str()) && paths.iter().any(|path| !path.starts_with("`/"));
            !word.is_empty() && (is_own || paths.iter().any(below))
        };
        let walks = gone.is_empty() && !writes && program.is_some_and(|of| of.args.iter().skip(1).any(is_above));
        let same = openers.iter().filter(|(other, side, of)| {
            other.pid != process.pid && other.name != process.name && *side == writes && !of.is_disjoint(&paths)
        });
        let same = few(same.map(|(other, ..)| full_name(other)));
        let skip = if !same.is_empty() && gone.is_empty() && old.is_empty() {
            let side = if writes { "writing" } else { "reading" };
            format!(" {same} opens {it} for {side} as well, and nobody for {how}: one of them has to.")
        } else if walks {
            " It goes through a folder, and has to leave out what is not a regular file, or to open with O_NONBLOCK."
                .to_owned()
        } else if gone.is_empty() && old.is_empty() && is_new {
            " Nothing in this recording does: what is to open it has to be started, or, if it is to have both ends itself, it opens it with \
             O_RDWR."
                .to_owned()
        } else if gone.is_empty() && old.is_empty() {
            " Nothing in this recording does: what is to open it has to be started, or it was left over and can be removed."
                .to_owned()
        } else {
            String::new()
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
mod left_tests;
#[cfg(test)]
mod outside_tests;
#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;

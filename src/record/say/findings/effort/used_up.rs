//! Ports, descriptors and processes of which none was left.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::{self, BOTH_END};
use crate::record::say::standstill::full_name;
use crate::report::number::percent;
use crate::result::{FindingKind, NameUse, NamedFile, RecordedProcess, SeenProcess, WaitReason};
use crate::util::text::{counted, grouped, plural};

/// The kind, how many calls, and the sentence.
pub(crate) type Said = Option<(FindingKind, u64, String)>;

pub(crate) fn used_port(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let used = process.used_port.as_ref()?;
    // Its row can have the id of a process that executes something else by now, and has what it had open.
    let own = |holder: &&SeenProcess| holder.recorded == Some(at) && holder.name.starts_with(&process.name);
    let holders: Vec<&SeenProcess> = used.holders.iter().filter(|holder| !own(holder)).collect();
    // Who has not bound a socket itself has that of another one.
    let inherits = |holder: &&SeenProcess| {
        let executes = |of: &&RecordedProcess| holder.name.starts_with(&of.name);
        let row = holder.recorded.and_then(|at| view.document.recorded.get(at));
        row.is_some_and(|of| of.binds == 0 || holder.recorded == Some(at) && !executes(&of))
    };
    let how = if !holders.is_empty() && holders.iter().all(inherits) {
        " Such a process has inherited the socket from who bound it, and keeps the port as long as it has it open: with FD_CLOEXEC \
         (SOCK_CLOEXEC), no child gets it."
    } else {
        ""
    };
    let who = match &holders[..] {
        [] => bound_before(view, at, used.port).unwrap_or_else(|| "another process had it then".to_owned()),
        [_] => format!("{} has it", few(holders.iter().copied().map(full_name))),
        _ => format!("{} have it", few(holders.iter().copied().map(full_name))),
    };
    let text = format!("{} could not bind a socket to port {} (EADDRINUSE): {who}.{how}", view.name(at), used.port);
    // Who looks for a free one has bound another one.
    (process.exit_code.is_some() || process.binds == 1).then_some((
        FindingKind::AddressInUse,
        holders.len() as u64,
        text,
    ))
}

/// `` `node server.js (16709)`, which had bound it at 0.20 s, had it ``: one that has ended since.
fn bound_before(view: &FindingView<'_>, at: usize, port: u16) -> Option<String> {
    let path = format!("port {port}");
    let tried = view.document.recorded.get(at)?.begin_ns;
    let binds = view.document.named_files.iter().filter(|file| file.does == NameUse::Binds && file.error.is_none());
    // Of several in a row, another one.
    let several = view.document.recorded.get(at)?.pids.len() > 1;
    let mut others = binds.filter(|file| (file.process != at || several) && file.path == path);
    let Some(by) = others.find(|file| file.ended_ns.is_none_or(|end| end > tried)) else {
        return inherited_by(view, &path);
    };
    let stopped = view.document.recorded.get(by.process)?.waits.contains_key(&WaitReason::Stopped);
    let how = if stopped { ". It was stopped, as Ctrl-Z does, and not ended: `kill` ends it" } else { "" };
    let ended = by.ended_ns.map_or_else(String::new, |end| format!(", until {}", after(end)));
    let own = view.name_of_one(by.process, by.pid).filter(|_| by.process == at);
    let name = own.unwrap_or_else(|| view.name(by.process));
    let starter = view.document.recorded.get(by.process)?.started_by;
    let killed = starter.and_then(|of| Some((of, killed::requested(view.document.recorded.get(of)?)?)));
    let left = killed.filter(|(of, _)| *of != at).map_or_else(String::new, |(of, signal)| {
        format!(". {signal} had ended {}, which had started it, but not it. {BOTH_END}", view.name(of))
    });
    let left = left.trim_end_matches('.');
    Some(format!("{name}, which had bound it at {}, had it{ended}{how}{left}", after(by.at_ns[0])))
}

/// `` `server` (process 6845) had bound it and ended at 1.02 s, but 2 processes that it had started ran on: ... ``
fn inherited_by(view: &FindingView<'_>, path: &str) -> Option<String> {
    let binds = view.document.named_files.iter().filter(|file| file.does == NameUse::Binds && file.error.is_none());
    binds.filter(|file| file.path == path).find_map(|by| {
        let ended = by.ended_ns?;
        let left = view.document.recorded.get(by.process)?.left.as_ref().filter(|left| left.until_ns > ended)?;
        Some(format!(
            "{} (process {}) had bound it and ended at {}, but {} that it had started ran on with its socket. A signal to the \
             whole group (`kill -- -PID`, `killpg`) ends all",
            view.name(by.process),
            by.pid,
            after(ended),
            counted(left.count, "process")
        ))
    })
}

/// Fewer connections that could not be accepted are no loop.
const ACCEPTS: u64 = 1000;

/// A process has so many descriptors for each child: its input, its output and its errors.
const FEW_OF_CHILD: u64 = 3;

/// How many processes that this one had started lived at the same time, in the mean.
fn at_once(view: &FindingView<'_>, at: usize) -> u64 {
    let started = view.document.recorded.iter().filter(|of| of.started_by == Some(at) && of.execs > 0);
    started.map(|of| of.lived_ns.div_ceil(of.end_ns.saturating_sub(of.begin_ns).max(1))).sum()
}

pub(crate) fn full_table(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let table = process.full_table?;
    let of = |count: u64, what: &str| (2 * count >= table.looked_at).then(|| (count, plural(count, what)));
    let most = of(table.pipes, "pipe end").or_else(|| of(table.sockets, "socket"));
    let which = match table.looked_at < table.descriptors {
        true => format!("{} that were looked at", grouped(table.looked_at)),
        false => "them".to_owned(),
    };
    let most = most.map_or_else(String::new, |(count, what)| format!(", and {} of {which} are {what}", grouped(count)));
    // What it cannot accept stays in the queue, of which `poll` tells again at once.
    let listens = |file: &NamedFile| file.process == at && file.does == NameUse::Listens && file.error.is_none();
    let accepts = view.document.named_files.iter().any(listens) && table.sockets > 0;
    if accepts && table.calls >= ACCEPTS {
        let text = format!(
            "{} tried {} times in vain to accept a connection, because it has as many files open as it may (EMFILE): {}{most}. What it cannot \
             accept stays in the queue, so that `poll` or `epoll_wait` returns at once: it is on a CPU {} of the time, and the clients get no answer. It has \
             to leave the listening socket out of that until it has closed another one, or to raise its limit (`ulimit -n`).",
            view.name(at),
            grouped(table.calls),
            grouped(table.descriptors),
            percent((process.cpu_ns as f64 / view.window()).min(1.0))
        );
        return Some((FindingKind::FullTable, table.calls, text));
    }
    let children = at_once(view, at);
    let remedy = if FEW_OF_CHILD * children >= table.descriptors / 2 {
        format!(
            "About {} processes that it had started ran at once, each with some of them: fewer at a time need fewer, or `ulimit -n` raises \
             the limit",
            grouped(children)
        )
    } else {
        "It has to close what it does not need any more; `ulimit -n` only raises the limit".to_owned()
    };
    let text = format!(
        "{} could not open another file, pipe or socket {}, because it has as many open as it may (EMFILE): {}{most}. {remedy}.",
        view.name(at),
        if table.calls == 1 { "once".to_owned() } else { format!("{} times", grouped(table.calls)) },
        grouped(table.descriptors)
    );
    Some((FindingKind::FullTable, table.calls, text))
}

/// So many processes that ended later than who had started them have to be waited for by another one.
const ORPHANS: u64 = 10;

pub(crate) fn no_process(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = Some(process.failed_forks).filter(|count| *count > 0)?;
    let all = &view.document.recorded;
    let orphans: u64 = all.iter().filter_map(|process| process.left.as_ref()).map(|left| left.count).sum();
    let ended = if orphans >= ORPHANS {
        format!(
            " So do processes that have ended until somebody waits for them: {} whose parents had ended before are left to process 1 of their \
             container, which has to be one that waits for any child (`tini`, `docker run --init`).",
            grouped(orphans)
        )
    } else {
        String::new()
    };
    let text = format!(
        "{} could not start a process ({}, EAGAIN): there were as many as its user (`ulimit -u`) or its cgroup (`pids.max`) may have.{ended}",
        view.name(at),
        counted(count, "time")
    );
    Some((FindingKind::NoProcess, count, text))
}

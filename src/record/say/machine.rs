//! What `record --all` says: who has waited longest and for whom, then a table of channels.

use crate::profile::few;
use crate::record::model::labels::with_id;
use crate::record::say::tables::ROWS;
use crate::record::say::words;
use crate::report::block::ReportBlock;
use crate::report::number::{number, percent, time};
use crate::report::table::{Table, TableCell};
use crate::result::{
    ChannelKind, Finding, FindingKind, MachineChannel, MachineEnd, MachineView, SeenProcess, StuckWait, WaitCause,
};
use crate::util::text::{clean, counted};
use std::collections::BTreeSet;

/// Sentences about waits that have not ended.
const SENTENCES: usize = 3;

/// A smaller part of the time is not worth a sentence.
const NAMED: f64 = 0.05;

/// A smaller part is shown as nothing.
const LEAST: f64 = 0.005;

const MIB: f64 = (1 << 20) as f64;

/// Fewer bytes have no speed.
const FEW_BYTES: u64 = 10_000;

/// Who has waited longest, and for whom, in a time of `window` ns.
pub(crate) fn findings(machine: &MachineView, window: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known = BTreeSet::new();
    let mut behind = 0;
    for channel in &machine.channels {
        let Some(stuck) = &channel.stuck else { continue };
        // One cause, and the members of one circle, are one sentence.
        let is_new = match &stuck.cause {
            WaitCause::Circle(members) => known.insert(members.iter().map(|member| member.pid).collect()),
            cause => known.insert(BTreeSet::from([cause.process().map_or(stuck.process.pid, |process| process.pid)])),
        };
        if is_new && findings.len() < SENTENCES {
            findings.push(stuck_finding(channel, stuck));
        } else {
            behind += 1;
        }
    }
    if behind > 0 {
        let (more, stands) = (counted(behind, "further channel"), "for one that does not go on");
        let text = format!("At {more}, a process has waited at least half of the time behind these, or {stands}.");
        findings.push(Finding { count: Some(behind), ..Finding::new(FindingKind::Waiting, None, text) });
    }
    let most = machine.channels.iter().filter(|channel| channel.stuck.is_none()).max_by_key(|channel| channel.lost_ns);
    let most = most.filter(|channel| channel.lost_ns as f64 >= NAMED * window as f64);
    findings.extend(most.map(|channel| flowing_finding(channel, window, !findings.is_empty())));
    if findings.is_empty() {
        let channels = counted(machine.channels.len() as u64, "channel");
        let text =
            format!("No time was lost at {channels}: no process waited long for another one that had something to do.");
        findings.push(Finding::new(FindingKind::Path, None, text));
    }
    findings
}

fn full_name(process: &SeenProcess) -> String {
    with_id(&process.name, process.pid, process.inner_pid, process.container.as_ref())
}

/// `the pipe`, ``the FIFO `/tmp/f` ``.
fn channel_noun(channel: &MachineChannel) -> String {
    match &channel.path {
        Some(path) => format!("the {} `{}`", channel.kind.noun(), clean(path)),
        None => format!("the {}", channel.kind.noun()),
    }
}

/// The processes of one side: `` `cat` (process 4711) and 2 more``.
fn names(end: &MachineEnd, except: u32) -> Option<String> {
    let others = || end.holders.iter().filter(|holder| holder.process.pid != except);
    let first = others().next()?;
    let more = others().count() as u64 - 1 + end.more;
    let more = if more > 0 { format!(" and {}", counted(more, "other process")) } else { String::new() };
    Some(full_name(&first.process) + &more)
}

/// `` `cat` (process 7) has waited 5.00 s for room in the pipe to `sleep` (process 8), which does not read: ...``.
fn stuck_finding(channel: &MachineChannel, stuck: &StuckWait) -> Finding {
    let name = full_name(&stuck.process);
    let waited = format!("has waited {}", time(stuck.ns as f64 / 1e9));
    let noun = channel_noun(channel);
    let (wait, does) = if stuck.room {
        (format!("for room in {noun}"), "does not read")
    } else {
        (format!("for data in {noun}"), "does not write")
    };
    let towards = if stuck.room { "to" } else { "from" };
    let end = if stuck.room { &channel.readers } else { &channel.writers };
    let direct = |process: &SeenProcess| stuck.steps <= 1 || end.holders.iter().any(|of| of.process.pid == process.pid);
    let other = || names(end, stuck.process.pid).map_or_else(String::new, |names| format!(" {towards} {names}"));
    // The cause itself, if it has the other end, and else the way to it.
    let caused = |process: &SeenProcess, why: String| match direct(process) {
        true => format!("{name} {waited} {wait} {towards} {}, which {why}.", full_name(process)),
        false => format!(
            "{name} {waited} {wait}{}, which waits, too: in the end for {}, which {why}.",
            other(),
            full_name(process)
        ),
    };
    let (kind, text) = match &stuck.cause {
        WaitCause::Unknown => {
            let side = if stuck.room { "read" } else { "write" };
            (FindingKind::Waiting, format!("{name} {waited} {wait}; who has its {side} end open could not be seen."))
        }
        WaitCause::Circle(members) if members.len() == 1 => {
            (FindingKind::Circle, format!("{name} {waited} {wait}, whose other end only it has open."))
        }
        WaitCause::Circle(members) if members.is_empty() => {
            (FindingKind::Waiting, format!("{name} {waited} {wait}{}: these wait for each other.", other()))
        }
        WaitCause::Circle(members) => {
            let all = few(members.iter().map(full_name));
            (FindingKind::Circle, format!("{all} wait for each other: {name} {waited} {wait}{}.", other()))
        }
        WaitCause::Stopped(process) => (FindingKind::Stopped, caused(process, "is stopped".to_owned())),
        WaitCause::Runs(process) => (FindingKind::Waiting, caused(process, format!("{does}, but runs"))),
        WaitCause::Sleeps { process, reason } => {
            let doing = reason.map_or_else(String::new, |reason| format!(": it is {}", words::doing(reason)));
            (FindingKind::Waiting, caused(process, format!("{does}{doing}")))
        }
    };
    Finding { ns: Some(stuck.ns), ..Finding::new(kind, None, text) }
}

/// Where most was lost, but something moved.
fn flowing_finding(channel: &MachineChannel, window: u64, is_second: bool) -> Finding {
    let full = channel.full_ns >= channel.empty_ns;
    let (side, other, wait, towards) = if full {
        (&channel.writers, &channel.readers, "for room in", "to")
    } else {
        (&channel.readers, &channel.writers, "for data in", "from")
    };
    let who = names(side, 0).unwrap_or_else(|| "a process that has ended".to_owned());
    let to = names(other, side.holders.first().map_or(0, |holder| holder.process.pid));
    let to = to.map_or_else(String::new, |to| format!(" {towards} {to}"));
    let moved = channel.bytes.filter(|bytes| *bytes >= FEW_BYTES).map_or_else(String::new, |bytes| {
        format!(", through which {} MiB/s went", number(bytes as f64 / MIB * 1e9 / window.max(1) as f64))
    });
    let share = percent(channel.lost_ns as f64 / window.max(1) as f64);
    let begin = if is_second { "Where something moves, most is lost at" } else { "Most time was lost at" };
    let text = format!("{begin} {}{to}{moved}: {who} waited {share} of the time {wait} it.", channel_noun(channel));
    Finding { ns: Some(channel.lost_ns), bytes: channel.bytes, ..Finding::new(FindingKind::Waiting, None, text) }
}

/// The channels of which there is something to say, in their order.
pub(crate) fn telling(machine: &MachineView, window_ns: u64) -> Vec<&MachineChannel> {
    let is_telling = |channel: &&MachineChannel| {
        let is_lost = channel.lost_ns as f64 >= LEAST * window_ns as f64 && channel.lost_ns > 0;
        is_lost || channel.stuck.is_some() || channel.bytes.is_some_and(|bytes| bytes >= FEW_BYTES)
    };
    machine.channels.iter().filter(is_telling).collect()
}

/// One channel: who has it open, and whom waits there are for.
pub(crate) fn details(channel: &MachineChannel) -> Vec<ReportBlock> {
    let side = |end: &MachineEnd, does: &str| match names(end, 0) {
        Some(names) => format!("{does} by {names}"),
        None => format!("{does} by nobody"),
    };
    let mut items = vec![side(&channel.writers, "written"), side(&channel.readers, "read")];
    items.extend(channel.slots.map(|[used, slots]| format!("{used} of {slots} slots in use")));
    let stuck = channel.stuck.as_ref().map(|stuck| ReportBlock::Sentence(stuck_finding(channel, stuck).text));
    [ReportBlock::Items(items)].into_iter().chain(stuck).collect()
}

/// The table of channels, as long as there is something to say of them.
pub(crate) fn tables(machine: &MachineView, window_ns: u64) -> Vec<ReportBlock> {
    let telling = telling(machine, window_ns);
    let window = window_ns.max(1) as f64;
    let share = |ns: u64| TableCell::Share((ns as f64 / window).min(1.0));
    let speed = |channel: &MachineChannel| {
        channel.bytes.filter(|bytes| *bytes >= FEW_BYTES).map(|bytes| bytes as f64 / MIB * 1e9 / window)
    };
    let in_use = |channel: &MachineChannel| {
        channel.slots.map_or(TableCell::Missing, |[used, slots]| TableCell::figure(format!("{used} of {slots}")))
    };
    let counts = machine.channels.iter().any(|channel| channel.bytes.is_some());
    let table = Table::of("Channels, where most time is lost first", telling.iter().take(ROWS))
        .column("channel", |channel| TableCell::Name(name(channel)))
        .column("lost", |channel| share(channel.lost_ns))
        .column("full", |channel| share(channel.full_ns))
        .column("empty", |channel| share(channel.empty_ns))
        .when(counts, |table| table.column("MiB/s", |channel| speed(channel)))
        .when(counts, |table| table.less(1, "slots in use", |channel| in_use(channel)))
        .column("waits for", |channel| TableCell::Text(cause(channel)))
        .done();
    let rest = [
        (telling.len().saturating_sub(ROWS), "more at which time was lost or data was moved"),
        (machine.channels.len() - telling.len(), "at which next to nothing was moved"),
    ];
    let of_rest = |is: fn(&MachineChannel) -> bool| machine.channels.iter().filter(|channel| is(channel)).count();
    let only_pipes = of_rest(|channel| channel.kind.is_pipe()) == machine.channels.len();
    let what = if only_pipes { "pipe" } else { "channel" };
    let rest: Vec<String> = rest
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, how)| format!("{} {how}", counted(count as u64, what)))
        .collect();
    let note = format!("{}: all are in result.json", rest.join(" and "));
    match (rest.is_empty(), telling.is_empty()) {
        (true, true) => Vec::new(),
        (true, false) => vec![ReportBlock::Table(table)],
        (false, true) => vec![ReportBlock::Note(note)],
        (false, false) => vec![ReportBlock::Table(table.note(format!("and {note}")))],
    }
}

/// `yes (4711) to gzip (4712)`, with what it is unless a pipe.
pub(crate) fn name(channel: &MachineChannel) -> String {
    let side = |end: &MachineEnd| {
        let mut all = end.holders.iter();
        let Some(first) = all.next() else { return "nobody".to_owned() };
        let more = all.count() as u64 + end.more;
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        format!("{} ({}){more}", clean(&first.process.name), first.process.pid)
    };
    let what = match (&channel.kind, &channel.path) {
        (ChannelKind::Pipe, _) => String::new(),
        (kind, Some(path)) => format!("{} {}: ", kind.noun(), clean(path)),
        (kind, None) => format!("{}: ", kind.noun()),
    };
    format!("{what}{} to {}", side(&channel.writers), side(&channel.readers))
}

/// Whom a wait that has not ended is for.
pub(crate) fn cause(channel: &MachineChannel) -> String {
    let Some(stuck) = &channel.stuck else { return String::new() };
    let named = |process: &SeenProcess| format!("{} ({})", clean(&process.name), process.pid);
    match &stuck.cause {
        WaitCause::Unknown => "unknown".to_owned(),
        WaitCause::Circle(members) if members.len() == 1 => "itself".to_owned(),
        WaitCause::Circle(_) => "each other".to_owned(),
        WaitCause::Stopped(process) => format!("{}, stopped", named(process)),
        WaitCause::Runs(process) | WaitCause::Sleeps { process, .. } => named(process),
    }
}

/// What limits these figures.
pub(crate) fn limits(machine: &MachineView) -> Vec<String> {
    let each = time(machine.cpu_ns as f64 / 1e9 / machine.looks.max(1) as f64);
    let mut lines = vec![format!(
        "from {} into /proc at {}, {each} of a CPU each: a wait that begins and ends between two is not seen",
        counted(machine.looks, "look"),
        counted(machine.processes, "process")
    )];
    if let Some(bytes) = machine.unseen_bytes.filter(|bytes| *bytes >= FEW_BYTES) {
        lines.push(format!(
            "{} MiB went through pipes and sockets that were open at no look",
            number(bytes as f64 / MIB)
        ));
    }
    if machine.unreadable > 0 {
        let count = machine.unreadable;
        lines.push(format!("what {count} of the processes have open could not be read: record as root"));
    }
    if machine.left_out > 0 {
        lines.push(format!("{} processes or channels were left out, because there are too many", machine.left_out));
    }
    lines
}

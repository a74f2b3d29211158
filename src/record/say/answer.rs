//! The answer of a recording: what its time was made of, and what else is worth a sentence. docs/method.md gives the
//! rules. The kind of each finding decides its place.

use crate::profile::few;
use crate::record::model::labels::labels;
use crate::record::model::stage_times::{self, StageTime};
use crate::record::model::stages::{self, Stages};
use crate::record::say::words::{self, SHORT_NS};
use crate::record::say::{advice, findings as rules, holders, killed, standstill};
use crate::report::number::{percent, time};
use crate::result::{
    BusyProgram, Document, ExecutedOn, Finding, FindingKind, PathWhat, RecordedChannel, RecordedProcess, WaitReason,
};
use crate::util::text::{capitalized, counted};
use std::collections::{BTreeMap, BTreeSet};

/// A stage that waits for this part of the window at a pipe whose other side no recorded process used waits for something
/// outside.
const OUTSIDE: f64 = 0.5;

/// Smaller parts of the window are not named.
const NAMED: f64 = 0.05;

/// A stage that lived for a smaller part of the window is no stage that waits.
const LIVES: f64 = 0.3;

/// What is this part of the window comes before its parts.
const MOST: f64 = 0.5;

/// From this part of the path on, waiting for a CPU casts doubt on the answer.
const CROWDED: f64 = 0.2;

/// Findings, and reasons to doubt them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RecordedAnswer {
    pub findings: Vec<Finding>,
    pub cautions: Vec<String>,
}

/// The answer of `recording`.
pub(crate) fn answer(recording: &Document) -> RecordedAnswer {
    let mut findings = findings(recording);
    use FindingKind::{
        Advice, Ceiling, Circle, FileLock, GroupEnded, Held, HiddenFailure, LargeBlocks, NoPipe, OnlyOpen, Outlived,
        Phases, SmallCalls, Unopened, Waiting, Watches,
    };
    let has = |is: fn(FindingKind) -> bool| findings.iter().any(|finding| is(finding.kind));
    let (stands, fails) = (has(|kind| kind == Circle), has(FindingKind::is_fault));
    // The question is not how long it takes.
    let is_failure = fails || has(|kind| matches!(kind, HiddenFailure | FileLock));
    // Without who only looks for its child, the child still works.
    let watches = has(|kind| kind == Watches);
    // Who waits for a FIFO, a socket or a terminal does not ask whether there was a pipe.
    let one = !recording.target.is_several();
    let waits = one && (has(|kind| matches!(kind, Held | Unopened | FileLock)) || waits_elsewhere(recording));
    // Who ended a process and waits for what that had started: all of it is in one finding.
    let outlived: Vec<Vec<usize>> =
        findings.iter().filter(|finding| finding.kind == Outlived).map(|finding| finding.processes.clone()).collect();
    let is_part = |finding: &Finding, who: usize| outlived.iter().any(|of| finding.processes.first() == of.get(who));
    findings.retain(|finding| match finding.kind {
        GroupEnded => !is_part(finding, 1),
        Held => !is_part(finding, 0),
        _ => true,
    });
    // How it came to stand still does not matter, and nothing is made faster that goes wrong.
    findings.retain(|finding| match finding.kind {
        Phases | Waiting | Watches => !stands,
        NoPipe => !stands && !waits,
        Ceiling => !is_failure && !watches,
        Advice | SmallCalls | LargeBlocks => !fails,
        OnlyOpen => !stands && !waits,
        _ => true,
    });
    // Who wants to know what the time was made of has the answer if it is mostly the start of processes.
    let is_most = |finding: &Finding| {
        finding.kind == FindingKind::Started
            && finding.ns.is_some_and(|ns| ns as f64 >= MOST * recording.processes.window_ns as f64)
    };
    findings.sort_by_key(|finding| if is_most(finding) { (FindingKind::Cause, 0) } else { (finding.kind, 1) });
    let mut known = BTreeSet::new();
    findings.retain(|finding| known.insert(finding.text.clone()));
    RecordedAnswer { findings, cautions: cautions(recording) }
}

/// All findings; those of one kind in their order.
fn findings(recording: &Document) -> Vec<Finding> {
    let stages = stages::stages(recording);
    let times = stage_times::times(recording, &stages);
    let mut findings = killed::findings(recording);
    if times.is_empty() {
        findings.push(Finding::new(FindingKind::NotRecorded, None, "No process was recorded.".to_owned()));
        return findings;
    }
    let used = recording.channels.iter().any(|pipe| pipe.is_used() || pipe.between.is_some());
    findings.extend(standstill::standstill(recording));
    findings.extend(rules::all(recording));
    findings.extend(words::findings(recording));
    findings.extend((!used).then(|| Finding::new(FindingKind::NoPipe, None, each(recording, &stages))));
    findings.extend(outside(recording, &stages, &times));
    let main = words::longest(recording).and_then(|process| stages.of(process));
    findings.extend(most_waiting(recording, &stages, &times, main));
    findings.extend(holders::findings(recording, &stages, &times));
    findings.extend(advice::reasons(recording));
    findings
}

/// Whether a process waited for something else that processes use together, or used a channel that is no pipe.
fn waits_elsewhere(recording: &Document) -> bool {
    let reasons =
        [WaitReason::Network, WaitReason::Connect, WaitReason::Device, WaitReason::Open, WaitReason::FileLock];
    let least = NAMED * recording.processes.window_ns as f64;
    let waited = |process: &RecordedProcess| {
        reasons.iter().filter_map(|reason| process.waits.get(reason)).any(|wait| wait.ns as f64 >= least)
    };
    let is_other = |channel: &RecordedChannel| !channel.kind.is_pipe() && channel.ends().any(|end| end.all_calls() > 0);
    recording.recorded.iter().any(waited) || recording.channels.iter().any(is_other)
}

/// Who finds something ready so often may poll a pipe.
const MANY_POLLS: u64 = 1000;

/// What each process did most of the time, if several were watched that have nothing to do with each other.
fn each(recording: &Document, stages: &Stages) -> String {
    // A poll is no use that is counted.
    let polls = |process: &RecordedProcess| process.ready_polls >= MANY_POLLS;
    let unseen = recording.recorded.iter().any(|process| process.moves_unseen() || polls(process));
    let none = if unseen { "No use of a pipe was seen" } else { "No pipe was used" };
    if recording.target.pids().len() < 2 {
        return format!("{none}.");
    }
    let labels = labels(recording);
    let most = |members: &Vec<usize>| {
        let at = members.first().copied()?;
        let process = recording.recorded.get(at)?;
        let running = [(PathWhat::OnCpu, process.cpu_ns), (PathWhat::ForCpu, process.runnable_ns)];
        let asleep = process.waits.iter().map(|(reason, wait)| (PathWhat::Asleep { reason: *reason }, wait.ns));
        let (what, ns) = running.into_iter().chain(asleep).max_by_key(|(_, ns)| *ns)?;
        let part = words::described(recording, &labels, &(Some(at), what, None), false);
        Some(format!("{part} {}", percent(ns as f64 / recording.processes.window_ns.max(1) as f64)))
    };
    format!("{none}: {}.", few(stages.iter().filter_map(most)))
}

/// Whether no recorded process used this side of the pipe with this number.
fn is_unused(recording: &Document, stages: &Stages, pipe: usize, side: usize) -> bool {
    stages::sides(&recording.channels[pipe], stages)[side].is_empty()
}

/// If a stage waits most of the time at a pipe whose other side no recorded process used.
fn outside(recording: &Document, stages: &Stages, times: &[StageTime]) -> Option<Finding> {
    for (stage, time) in times.iter().enumerate() {
        for (shares, side, what) in [(&time.empty, 0, "data from"), (&time.full, 1, "room in")] {
            let is_outside = |at: usize| is_unused(recording, stages, at, side);
            if let Some(share) = shares.iter().find(|(at, share)| **share >= OUTSIDE && is_outside(**at)) {
                // A poll is no use that is counted.
                let polls = |process: &RecordedProcess| process.ready_polls >= MANY_POLLS;
                let unseen = recording.recorded.iter().any(|process| process.moves_unseen() || polls(process));
                // Who wrote nothing has it open.
                let silent = || recording.recorded.iter().position(|process| process.output == Some(*share.0));
                if let Some(at) = silent().filter(|_| side == 0) {
                    let (share_text, noun) = (percent(*share.1), recording.channels[*share.0].kind.noun());
                    let other = labels(recording).swap_remove(at);
                    let text = format!(
                        "`{}` waits {share_text} of the time for `{other}`, which wrote nothing to the {noun}.",
                        time.name
                    );
                    let finding = Finding::new(FindingKind::Outside, stages[stage].iter().copied().chain([at]), text);
                    return Some(Finding { channels: vec![*share.0], ..finding });
                }
                let other = match (side, unseen) {
                    (0, true) => "whose writes were not seen",
                    (0, false) => "that no recorded process wrote to",
                    (_, true) => "whose reads were not seen",
                    (_, false) => "that no recorded process read from",
                };
                let channel = &recording.channels[*share.0];
                let awaited = match side {
                    0 if channel.is_typed() => "something to be typed at its terminal".to_owned(),
                    _ => format!("{what} a {} {other}", channel.kind.noun()),
                };
                let text = format!("`{}` waits {} of the time for {awaited}.", time.name, percent(*share.1));
                let processes = stages[stage].iter().copied();
                let finding = Finding::new(FindingKind::Outside, processes, text);
                return Some(Finding { channels: vec![*share.0], ..finding });
            }
        }
    }
    None
}

/// The stage, other than `main`, that sleeps most at one of its pipes, or until a FIFO is opened.
fn most_waiting(recording: &Document, stages: &Stages, times: &[StageTime], main: Option<usize>) -> Option<Finding> {
    // The pipe, and the side of it at which others are.
    type Place = Option<(usize, usize)>;
    let mut most: Option<(f64, usize, Place)> = None;
    // What only prepared the others, such as a script that finds a program, does not count.
    let lives = |stage: usize| {
        let lived = |at: &usize| recording.recorded[*at].end_ns.saturating_sub(recording.recorded[*at].begin_ns);
        stages[stage].iter().map(lived).max().unwrap_or(0) as f64 >= LIVES * recording.processes.window_ns as f64
    };
    for (stage, time) in times.iter().enumerate().filter(|(stage, _)| Some(*stage) != main && lives(*stage)) {
        let at_pipes = [(&time.empty, 0), (&time.full, 1)]
            .into_iter()
            .flat_map(|(shares, side)| shares.iter().map(move |(pipe, share)| (*share, stage, Some((*pipe, side)))));
        // `outside` has these.
        let is_outside = |place: &Place| place.is_some_and(|(pipe, side)| is_unused(recording, stages, pipe, side));
        let at_pipes = at_pipes.filter(|(share, _, place)| *share < OUTSIDE || !is_outside(place));
        let at_pipes = at_pipes.map(|(share, stage, place)| {
            let mean = place.and_then(|place| mean_wait(recording, stages, stage, place));
            (mean.map_or(share, |(share, _)| share), stage, place)
        });
        for wait in at_pipes.chain([(time.opening, stage, None)]).filter(|(share, ..)| *share >= NAMED) {
            // Of a chain of waits for room, the last one is next to the cause; of waits for data, the first one.
            let for_room = |place: &Place| place.is_some_and(|(_, side)| side == 1);
            let is_next = |(largest, _, before): &(f64, usize, Place)| {
                let same = (wait.0 - largest).abs() < NAMED;
                if same && for_room(&wait.2) == for_room(before) { for_room(before) } else { wait.0 > *largest }
            };
            if most.as_ref().is_none_or(is_next) {
                most = Some(wait);
            }
        }
    }
    let (share, stage, place) = most?;
    let (name, share) = (&times[stage].name, percent(share));
    let of = place.and_then(|place| mean_wait(recording, stages, stage, place));
    let of = of.map_or_else(String::new, |(_, of)| format!(" (mean of its {of})"));
    let said = |text| Finding::new(FindingKind::Waiting, stages[stage].iter().copied(), text);
    let Some((pipe, side)) = place else {
        return Some(said(format!("`{name}` waits until another process opens the other end of a FIFO {share}.")));
    };
    let others = &stages::sides(&recording.channels[pipe], stages)[side];
    let others = few(others.iter().filter(|other| **other != stage).map(|other| format!("`{}`", times[*other].name)));
    let noun = recording.channels[pipe].kind.noun();
    let why = match (side, others.is_empty()) {
        (0, true) => format!("a {noun} is empty"),
        (0, false) => format!("the {noun} from {others} is empty"),
        (_, true) => format!("a {noun} is full"),
        (_, false) => format!("the {noun} to {others} is full"),
    };
    let text = format!("`{name}`{of} waits {share} of the time because {why}.");
    Some(Finding { channels: vec![pipe], ..said(text) })
}

/// The share of the time that one thread of a stage sleeps at a side of a pipe, if several sleep there at once, and which
/// these are.
fn mean_wait(
    recording: &Document,
    stages: &Stages,
    stage: usize,
    (pipe, side): (usize, usize),
) -> Option<(f64, String)> {
    let pipe = &recording.channels[pipe];
    let ends = if side == 0 { &pipe.readers } else { &pipe.writers };
    let own = || ends.iter().filter(|end| stages.of(end.process) == Some(stage));
    let window = recording.processes.window_ns.max(1);
    let ns: u64 = own().map(|end| end.blocked_ns).sum();
    let fewest = ns.div_ceil(window);
    if fewest < 2 {
        return None;
    }
    let processes: u64 = own().map(|end| recording.recorded[end.process].pids.len() as u64).sum();
    let of = if processes < fewest { "threads".to_owned() } else { counted(processes, "process") };
    Some((ns as f64 / (window * processes.max(fewest)) as f64, of))
}

fn cautions(recording: &Document) -> Vec<String> {
    let mut cautions = Vec::new();
    if !recording.on_disk.is_empty() && recording.executed_on == ExecutedOn::Tcg {
        let names = few(recording.on_disk.iter().map(|path| format!("`{path}`")));
        let were = if recording.on_disk.len() == 1 { "was" } else { "were" };
        cautions.push(format!(
            "Not exact: {names} {were} on a disk, which answers at moments that depend on this machine."
        ));
    }
    // What is attached to started before.
    if recording.processes.window_ns < SHORT_NS && recording.target.pids().is_empty() {
        cautions.push("The pipeline took less than 20 ms: most of it is the start of its programs.".to_owned());
    }
    cautions.extend(recording.looks.map(|looks| match looks.events {
        Some(events) => format!(
            "From {} of threads and {} into /proc: who ran when is exact; who ended a sleep is taken to be who ran last of those \
             that could.",
            counted(events, "perf event"),
            counted(looks.looks, "look"),
        ),
        None => format!(
            "From {} into /proc, one each {}: a share of 50 % is good to ±{:.0} points, one of 95 % to ±{:.0}; what lives for \
             less is not seen.",
            counted(looks.looks, "look"),
            time(looks.mean_ns as f64 / 1e9),
            100.0 * looks.margin(0.5),
            (100.0 * looks.margin(0.95)).max(1.0)
        ),
    }));
    // The CPUs of an emulated guest take turns.
    let crowded = if recording.executed_on == ExecutedOn::Tcg { None } else { crowded(recording) };
    let busy: Vec<String> = crowded.into_iter().chain(busy_others(&recording.others)).collect();
    if !busy.is_empty() {
        cautions.push(format!("{}. Times may differ on an idle machine.", capitalized(&busy.join("; "))));
    }
    cautions
}

/// If the end of the pipeline waited for a CPU much of the time.
fn crowded(recording: &Document) -> Option<String> {
    let labels = labels(recording);
    // An idle machine does not shorten waits for processes of the pipeline itself.
    let is_own = |by: &str| recording.recorded.iter().any(|process| process.name == by);
    let mut waits: BTreeMap<Option<usize>, f64> = BTreeMap::new();
    for part in recording.path.as_ref()?.parts.iter().filter(|part| part.what == PathWhat::ForCpu) {
        if !part.by.as_deref().is_some_and(is_own) {
            let share = part.ns as f64 / recording.processes.window_ns.max(1) as f64;
            *waits.entry(part.process).or_default() += share;
        }
    }
    let mut waits: Vec<(Option<usize>, f64)> = waits.into_iter().collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all: f64 = waits.iter().map(|(_, share)| share).sum();
    let name = |process: Option<usize>| process.and_then(|at| labels.get(at)).map_or("another process", String::as_str);
    let named = waits.iter().filter(|(_, share)| *share >= NAMED);
    let names = few(named.map(|(process, share)| format!("`{}` {}", name(*process), percent(*share))));
    (all >= CROWDED && !names.is_empty())
        .then(|| format!("the CPUs are busy: the end waits for {names} of the time without a CPU"))
}

/// Who else used the CPUs, if that is much.
pub(crate) fn busy_others(others: &[BusyProgram]) -> Option<String> {
    let all: f64 = others.iter().map(|program| program.share).sum();
    let names = few(others.iter().map(|program| format!("`{}` {}", program.name, percent(program.share))));
    (all > crate::run::BUSY).then(|| format!("other programs used {} of the CPUs' time: {names}", percent(all)))
}

#[cfg(test)]
mod tests;

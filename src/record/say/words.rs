//! The path in sentences.

use crate::profile::{few, listed};
use crate::record::model::ceilings;
use crate::record::model::forks::by_program;
use crate::record::model::labels::labels;
use crate::record::say::{killed, limits, naps, standstill};
use crate::record::start::launch::SIGNALS;
use crate::report::number::{from_to, number, percent, time};
use crate::result::{
    CriticalPath, Document, ExecutedOn, Finding, FindingKind, HeldBy, PathCeiling, PathKind, PathPart, PathWhat,
    RecordedChannel, WaitReason,
};
use crate::util::text::clean;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Smaller parts of the time are not named, and not more parts than these.
const NAMED: f64 = 0.05;
const MOST_NAMED: usize = 4;

/// Fewer runs of one program are named each.
const RUNS: usize = 3;

/// What [`naps`] has more words for.
const NAP: PathWhat = PathWhat::Asleep { reason: WaitReason::Timer };

/// Less would be rounded to nothing.
const LEAST: f64 = 0.005;

/// Smaller parts of a process's time on a CPU are not divided into user and system.
const DIVIDED: f64 = 0.05;

/// A process that would be on a CPU for this part of the time that is left would be the next limit.
const LIMITS: f64 = 0.7;

/// What would be left without a program that works all the time: less is no pipeline's time. And from this part of the time on a CPU on, it works.
const TRIVIAL: f64 = 0.05;
const WORKS: f64 = 0.5;

/// Phases of which more are not named, and the shortest one, as a part of the time.
const MOST_PHASES: usize = 4;
const PHASE: f64 = 0.1;

/// Shorter windows are mostly the start of programs: they have no phases.
pub(crate) const SHORT_NS: u64 = 20_000_000;

/// Waits of a process for a CPU are one part, whoever had it, and so are those for files, which workers of the kernel end.
fn kind(part: &PathPart) -> PathKind {
    let is_one = matches!(part.what, PathWhat::ForCpu | PathWhat::Asleep { reason: WaitReason::Disk });
    (part.process, part.what, part.by.clone().filter(|_| !is_one))
}

/// Who had the CPU for which a process waited, longest first.
pub(crate) fn cpu_users(path: &CriticalPath, (process, what, _): &PathKind) -> String {
    let waits = path.parts.iter().filter(|part| *what == PathWhat::ForCpu && part.what == *what);
    let mut users: BTreeMap<&str, u64> = BTreeMap::new();
    for (by, ns) in waits.filter(|part| part.process == *process).filter_map(|part| Some((part.by.as_ref()?, part.ns)))
    {
        *users.entry(by).or_default() += ns;
    }
    let mut users: Vec<(&str, u64)> = users.into_iter().collect();
    users.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    few(users.into_iter().map(|(by, _)| by))
}

/// The parts with their time, longest first. Waits for a CPU are one part of a process.
pub(crate) fn sums(path: &CriticalPath) -> Vec<(PathKind, u64)> {
    let mut sums: BTreeMap<PathKind, u64> = BTreeMap::new();
    path.parts.iter().for_each(|part| *sums.entry(kind(part)).or_default() += part.ns);
    let mut sums: Vec<(PathKind, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    sums
}

/// The process with the most time of the path.
pub(crate) fn longest(recording: &Document) -> Option<usize> {
    let mut sums: BTreeMap<usize, u64> = BTreeMap::new();
    for part in recording.path.iter().flat_map(|path| &path.parts) {
        if let Some(process) = part.process {
            *sums.entry(process).or_default() += part.ns;
        }
    }
    sums.into_iter().max_by_key(|(process, ns)| (*ns, std::cmp::Reverse(*process))).map(|(process, _)| process)
}

/// What the time was made of, and its phases.
pub(crate) fn findings(recording: &Document) -> Vec<Finding> {
    let Some((path, parts)) = recording.path.as_ref().zip(made_of(recording)) else { return Vec::new() };
    let labels = labels(recording);
    let clock = if recording.executed_on == ExecutedOn::Tcg { " of the guest's clock" } else { "" };
    let window = time(recording.processes.window_ns as f64 / 1e9);
    let (kind, text) = (path_kind(path, recording), format!("The {window}{clock} were {parts}."));
    let made_of = Finding { ns: Some(recording.processes.window_ns), ..Finding::new(kind, longest(recording), text) };
    let phases = phases(recording, path, &labels).map(|text| Finding::new(FindingKind::Phases, None, text));
    [made_of].into_iter().chain(phases).chain(ceiling(recording, path, &labels)).collect()
}

/// Whether a part is a wait that only others can shorten.
fn waits_for_others(what: PathWhat) -> bool {
    use WaitReason::{Child, Connect, Device, FileLock, Network, Open, Poll, Signal};
    match what {
        PathWhat::Asleep { reason } => {
            matches!(reason, Child | Connect | Device | FileLock | Network | Open | Poll | Signal)
        }
        what => matches!(what, PathWhat::PipeEmpty | PathWhat::PipeFull | PathWhat::PipeLock),
    }
}

/// Whether most of the path is a cause: no wait for another process, nor that of who only ends the pipeline.
fn path_kind(path: &CriticalPath, recording: &Document) -> FindingKind {
    let longest = sums(path).into_iter().next();
    let waits = [
        WaitReason::Child,
        WaitReason::Thread,
        WaitReason::Poll,
        WaitReason::Signal,
        WaitReason::Open,
        WaitReason::FileLock,
    ];
    let watches = |process: Option<usize>| {
        process.and_then(|at| recording.recorded.get(at)).is_some_and(|process| process.name == killed::TIMEOUT)
    };
    let is_limited =
        |process: Option<usize>| process.and_then(|at| limits::rate_limit(recording.recorded.get(at)?)).is_some();
    let is_cause = longest.is_some_and(|((process, what, _), _)| match what {
        PathWhat::Asleep { reason } => is_limited(process) || !waits.contains(&reason) && !watches(process),
        what => !matches!(what, PathWhat::PipeEmpty | PathWhat::PipeFull),
    });
    if is_cause { FindingKind::Cause } else { FindingKind::Path }
}

/// `57 % gzip on a CPU (user code), 12 % waiting for a CPU, 30 % sleep sleeping on a timer and 1 % other parts`.
pub(crate) fn made_of(recording: &Document) -> Option<String> {
    let path = recording.path.as_ref()?;
    let mut labels = labels(recording);
    let whole: u64 = path.parts.iter().map(|part| part.ns).sum();
    let share = |ns: u64| ns as f64 / whole.max(1) as f64;
    // What a process waits for a CPU is named with its work, but apart from it: other programs can be why.
    let mut sums = sums(path);
    let runs = runs(recording, path);
    for (of, count) in &runs {
        labels[of[0]] = format!("{} ({count} processes)", clean(&recording.recorded[of[0]].name));
        let mut of_all: BTreeMap<PathKind, u64> = BTreeMap::new();
        for ((process, what, by), ns) in sums {
            let process = process.map(|at| if of.contains(&at) { of[0] } else { at });
            *of_all.entry((process, what, by)).or_default() += ns;
        }
        sums = of_all.into_iter().collect();
    }
    let split = |process: usize| {
        if runs.iter().any(|(of, _)| of[0] == process) { None } else { user_split(recording, process) }
    };
    let works: BTreeSet<Option<usize>> =
        sums.iter().filter(|((_, what, _), _)| *what == PathWhat::OnCpu).map(|((process, ..), _)| *process).collect();
    let joined = |((process, what, _), _): &(PathKind, u64)| *what == PathWhat::ForCpu && works.contains(process);
    let (waiting, sums): (Vec<_>, Vec<_>) = sums.into_iter().partition(joined);
    let waiting: BTreeMap<Option<usize>, u64> = waiting.into_iter().map(|((process, ..), ns)| (process, ns)).collect();
    let with_wait = |(kind, ns): (PathKind, u64)| {
        let waits = waiting.get(&kind.0).filter(|_| kind.1 == PathWhat::OnCpu).copied().unwrap_or_default();
        (kind, ns, waits)
    };
    let mut sums: Vec<(PathKind, u64, u64)> = sums.into_iter().map(with_wait).collect();
    sums.sort_by_key(|(_, ns, waits)| std::cmp::Reverse(ns + waits));
    // Of two small parts, neither says much.
    let is_named = |(_, ns, waits): &&(PathKind, u64, u64)| {
        share(ns + waits) >= NAMED && (share(*waits) >= NAMED || share(*ns) >= NAMED / 2.0)
    };
    let named = sums.iter().take(MOST_NAMED).take_while(is_named).count().max(1);
    let first = sums.get(..named)?;
    let mut others = whole;
    let mut texts: Vec<String> = Vec::new();
    for (kind, ns, waits) in first {
        // The larger one is first.
        let is_said = share(*waits) >= NAMED;
        let text = match (is_said && waits > ns, kind.0.and_then(split)) {
            (true, split) => {
                let waiting = described(recording, &labels, &(kind.0, PathWhat::ForCpu, None), false);
                let on = format!(", {} on one{}", percent(share(*ns)), split.unwrap_or_default());
                let on = if share(*ns) >= LEAST { on } else { String::new() };
                format!("{} {waiting}{on}", percent(share(*waits)))
            }
            (false, _) => {
                let wait =
                    if is_said { format!(", {} waiting for a CPU", percent(share(*waits))) } else { String::new() };
                let divided = kind.0.and_then(split).is_some();
                let naps = kind.0.filter(|_| kind.1 == NAP).map(|at| naps::naps(recording, &labels, at));
                let what = described(recording, &labels, kind, divided);
                format!("{} {what}{}{wait}", percent(share(*ns)), naps.unwrap_or_default())
            }
        };
        texts.push(text);
        others = others.saturating_sub(ns + if is_said { *waits } else { 0 });
    }
    texts.extend((share(others) >= LEAST).then(|| format!("{} other parts", percent(share(others)))));
    Some(listed(texts))
}

/// Rows of one program that one process started again and again, each with its number of processes: a loop of a shell has a row
/// for each run.
fn runs(recording: &Document, path: &CriticalPath) -> Vec<(Vec<usize>, usize)> {
    let on_path: BTreeSet<usize> = path.parts.iter().filter_map(|part| part.process).collect();
    let apart = |of: &Vec<usize>| {
        let lived: u64 = of.iter().map(|at| recording.recorded[*at].lived_ns).sum();
        of.len() >= RUNS && lived <= recording.processes.window_ns
    };
    let count = |of: &Vec<usize>| -> usize { of.iter().map(|at| recording.recorded[*at].pids.len()).sum() };
    by_program(&recording.recorded, on_path).into_values().filter(apart).map(|of| (of.clone(), count(&of))).collect()
}

/// How much of a process's time on a CPU was in user space: ` (59 % of it user code)`.
fn user_split(recording: &Document, process: usize) -> Option<String> {
    let user = recording.recorded.get(process)?.user_share?;
    Some(match user {
        most if most >= 1.0 - DIVIDED => " (user code)".to_owned(),
        least if least <= DIVIDED => " (in the kernel)".to_owned(),
        _ => format!(" ({} of it user code)", percent(user)),
    })
}

/// What would be left without the process whose absence would help most.
fn ceiling(recording: &Document, path: &CriticalPath, labels: &[String]) -> Option<Finding> {
    // How long a pipeline takes that is ended is not its own doing.
    let is_ended = recording.recorded.iter().any(killed::by_others);
    let can_be = |best: &&PathCeiling| best.ns > 0 && !is_ended && ceilings::can_be(best, &recording.recorded);
    let best = path.ceilings.iter().find(can_be)?;
    let name = labels.get(best.process)?;
    let is_own = |by: &str| recording.recorded.iter().any(|process| process.name == by);
    let waits = path.parts.iter().filter(|part| part.what == PathWhat::ForCpu);
    let outside: u64 = waits.filter(|part| !part.by.as_deref().is_none_or(is_own)).map(|part| part.ns).sum();
    let free = if outside as f64 >= NAMED * recording.processes.window_ns as f64 {
        " and other programs left the CPUs to the pipeline, it"
    } else {
        ", the pipeline"
    };
    let own = path.parts.iter().filter(|part| part.process == Some(best.process));
    let sum = |is: &dyn Fn(PathWhat) -> bool| own.clone().filter(|part| is(part.what)).map(|part| part.ns).sum::<u64>();
    let (all, timer) = (sum(&|_| true), sum(&|what| what == NAP));
    // What it waits for is no cost of its own.
    if 2 * sum(&waits_for_others) > all {
        return None;
    }
    let sleeps = recording.recorded.get(best.process).is_some_and(|process| process.name == naps::SLEEP);
    let (whole_ns, only_sleeps) = (recording.processes.window_ns, 2 * timer > all && !sleeps);
    // What it executes is left without its sleeps.
    let left_ns = if only_sleeps { best.ns.max(whole_ns.saturating_sub(timer)) } else { best.ns };
    // More than it has of the path is not its doing.
    if whole_ns.saturating_sub(left_ns) > 2 * all {
        return None;
    }
    let then = (0..).zip(&recording.recorded).filter(|(at, _)| *at != best.process).max_by_key(|(_, of)| of.cpu_ns);
    let then = then
        .filter(|(_, of)| of.cpu_ns as f64 >= LIMITS * left_ns as f64)
        .and_then(|(at, _): (usize, _)| labels.get(at));
    let then = then.map_or_else(String::new, |name| format!("; then `{name}` would be on a CPU most of the time"));
    let [left, whole] = [left_ns, whole_ns].map(|ns| time(ns as f64 / 1e9));
    let without = match 2 * timer > all {
        true if sleeps => format!("Without `{name}`"),
        true => format!("Without the sleeps of `{name}`"),
        false => format!("If `{name}` cost nothing"),
    };
    let of_best = recording.recorded.get(best.process).map_or(0.0, |of| of.cpu_ns as f64 / whole_ns.max(1) as f64);
    let cpus = recording.environment.cpus;
    let text = if 2 * timer <= all && (left_ns as f64) < TRIVIAL * whole_ns as f64 && of_best >= WORKS {
        let more = match cpus {
            _ if of_best > 1.0 + DIVIDED => format!(" (it used {} of {cpus} CPUs)", number(of_best)),
            1 => String::new(),
            _ => format!(", or one that uses more than one of the {cpus} CPUs,"),
        };
        format!("Only a faster `{name}`{more} would take less time: the other programs need about {left} of {whole}.")
    } else {
        format!("{without}{free} would take about {left} instead of {whole}{then}.")
    };
    let said = Finding { ns: Some(left_ns), ..Finding::new(FindingKind::Ceiling, [best.process], text) };
    (left_ns < whole_ns).then_some(said)
}

/// A part in words.
pub(crate) fn described(
    recording: &Document,
    labels: &[String],
    (process, what, by): &PathKind,
    divided: bool,
) -> String {
    let name = process.and_then(|at| labels.get(at)).map_or("another process".to_owned(), |name| format!("`{name}`"));
    let by = by.as_ref().map(|by| format!("`{by}`"));
    match what {
        PathWhat::OnCpu => {
            let split = process.filter(|_| divided).and_then(|at| user_split(recording, at)).unwrap_or_default();
            format!("{name} on a CPU{split}")
        }
        PathWhat::ForCpu => format!("{name} waiting for a CPU"),
        PathWhat::Throttled => format!("{name} throttled by the CPU quota of its cgroup"),
        PathWhat::Asleep { reason } => asleep(recording, *process, &name, *reason, by),
        PathWhat::PipeEmpty => {
            let killed = process.and_then(|at| recording.recorded.get(at)?.signal).is_some();
            match slept_at(recording, *process, true) {
                // Who types is behind a program or a kernel thread.
                Some(channel) if channel.is_typed() && channel.writers.is_empty() => {
                    format!("{name} waiting for something to be typed at its terminal")
                }
                _ => {
                    let channel = channel_noun(recording, *process, true);
                    format!(
                        "{name} waiting for data in a {channel}{}",
                        if killed { ended(recording, by) } else { from(by) }
                    )
                }
            }
        }
        PathWhat::PipeFull => {
            format!("{name} waiting for room in a {}", channel_noun(recording, *process, false))
        }
        PathWhat::PipeLock => format!("{name} waiting for the lock of a pipe"),
        PathWhat::Outside => by.map_or("outside of the recording".to_owned(), |by| format!("{by} (not recorded)")),
        PathWhat::Begin => "the start of the programs".to_owned(),
        PathWhat::End => "after the last program had ended".to_owned(),
        PathWhat::Others => "small parts".to_owned(),
        PathWhat::Unknown => "unknown".to_owned(),
    }
}

/// The channel at whose side a process slept longest.
fn slept_at(recording: &Document, process: Option<usize>, reads: bool) -> Option<&RecordedChannel> {
    let slept = recording.channels.iter().filter_map(|channel| {
        let ends = if reads { &channel.readers } else { &channel.writers };
        let own = ends.iter().filter(|end| Some(end.process) == process).map(|end| end.blocked_ns);
        Some((own.sum::<u64>(), channel)).filter(|(ns, _)| *ns > 0)
    });
    slept.max_by_key(|(ns, _)| *ns).map(|(_, channel)| channel)
}

/// What a process waits at: the kind of that channel.
fn channel_noun(recording: &Document, process: Option<usize>, reads: bool) -> &'static str {
    slept_at(recording, process, reads).map_or("pipe", |channel| channel.kind.noun())
}

fn from(by: Option<String>) -> String {
    by.map_or_else(String::new, |by| format!(" from {by} (not recorded)"))
}

/// Who ended a sleep. pipeprof itself only passes on signals.
fn ended(recording: &Document, by: Option<String>) -> String {
    // Who ended the recording ended its sleeps, too.
    let is_own = |by: &String| recording.recorded.iter().any(|process| process.name == by.trim_matches('`'));
    let by = by.filter(|by| recording.interrupted_ns.is_none() || is_own(by));
    let text = |by: String| match by.trim_matches('`') {
        SIGNALS => ", ended by a signal that pipeprof passed on".to_owned(),
        // A thread of the kernel passes on what was typed.
        by if by.starts_with("kworker") => String::new(),
        _ => format!(", ended by {by}"),
    };
    by.map_or_else(String::new, text)
}

/// Who stopped or traced a process.
pub(crate) fn holder(holder: &HeldBy) -> String {
    match holder {
        HeldBy::Itself => "itself".to_owned(),
        HeldBy::BackgroundRead => "SIGTTIN, because its job read from the terminal in the background".to_owned(),
        HeldBy::BackgroundWrite => "SIGTTOU, because its job used the terminal in the background".to_owned(),
        HeldBy::Suspended => "SIGTSTP, as Ctrl-Z sends it".to_owned(),
        HeldBy::Signal => "SIGSTOP".to_owned(),
        HeldBy::Program(name) => format!("`{name}`"),
    }
}

fn asleep(recording: &Document, process: Option<usize>, name: &str, reason: WaitReason, by: Option<String>) -> String {
    let held = process.and_then(|at| recording.recorded.get(at)?.held_by.get(&reason));
    let by = match held {
        Some(names) => format!(" by {}", listed(names.iter().map(holder))),
        None if reason == WaitReason::Timer => String::new(),
        None => ended(recording, by),
    };
    let limit = process.and_then(|at| limits::rate_limit(recording.recorded.get(at)?));
    if let Some(limit) = limit.filter(|_| matches!(reason, WaitReason::Timer | WaitReason::Poll)) {
        return format!("{name} waiting on purpose: `{}` limits its rate", clean(&limit));
    }
    let polled = (reason == WaitReason::Poll).then(|| standstill::polled(recording, process?)).flatten();
    if let Some(awaited) = polled {
        return format!("{name} waiting in poll for {awaited}{by}");
    }
    if matches!(reason, WaitReason::Network | WaitReason::Other)
        && let Some(event) = process.and_then(|process| standstill::event_of(recording, process))
    {
        return format!("{name} waiting for {event}{by}");
    }
    if reason == WaitReason::FileLock
        && let Some(lock) = process.and_then(|process| standstill::lock_of(recording, process))
    {
        return format!("{name} waiting for {lock}");
    }
    format!("{name} {}{by}", doing(reason))
}

/// What a thread does.
pub(crate) fn state(what: PathWhat) -> &'static str {
    match what {
        PathWhat::OnCpu => "on a CPU",
        PathWhat::ForCpu => "waiting for a CPU",
        PathWhat::Throttled => "throttled by the CPU quota of its cgroup",
        PathWhat::Asleep { reason } => doing(reason),
        PathWhat::PipeEmpty => "waiting for data",
        PathWhat::PipeFull => "waiting for room",
        PathWhat::PipeLock => "waiting for the lock of a pipe",
        PathWhat::Outside | PathWhat::Begin | PathWhat::End | PathWhat::Others | PathWhat::Unknown => "unknown",
    }
}

/// What a process does that sleeps for this reason.
pub(crate) fn doing(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::Timer => "sleeping on a timer",
        WaitReason::Disk => "waiting for files",
        WaitReason::Network => "waiting for the network",
        WaitReason::Connect => "waiting in connect for who listens",
        WaitReason::Child => "waiting for a child process",
        WaitReason::Thread => "waiting for another thread",
        WaitReason::Poll => "waiting in poll for a timer or another event",
        WaitReason::Device => "waiting for a device",
        WaitReason::Signal => "waiting for a signal",
        WaitReason::Open => "waiting until another process opens the other end of a FIFO",
        WaitReason::FileLock => "waiting for the lock of a file",
        WaitReason::Memory => "waiting for memory",
        WaitReason::Stopped => "stopped",
        WaitReason::Traced => "traced",
        WaitReason::Frozen => "frozen by its cgroup",
        WaitReason::Ending => "ending: waiting before its files are closed",
        WaitReason::Exit => "ending: waiting until its files are closed",
        WaitReason::Other => "waiting for something else",
    }
}

/// What the path is mainly made of in each slice.
pub(crate) fn mains(path: &CriticalPath) -> Vec<Option<PathKind>> {
    let main = |slice: usize| {
        let mut sums: BTreeMap<PathKind, u64> = BTreeMap::new();
        for part in &path.parts {
            *sums.entry(kind(part)).or_default() += part.slices.get(slice).copied().unwrap_or(0);
        }
        sums.into_iter().filter(|(_, ns)| *ns > 0).max_by_key(|(_, ns)| *ns).map(|(kind, _)| kind)
    };
    (0..path.slice_ns.len()).map(main).collect()
}

/// A part of the time: what it is mainly made of, its slices, and how long these are, ns.
type PathPhase = (Option<PathKind>, Range<usize>, u64);

/// Neighbours that are mainly the same are one.
fn joined(phases: impl Iterator<Item = PathPhase>) -> Vec<PathPhase> {
    let mut joined: Vec<PathPhase> = Vec::new();
    for (main, slices, ns) in phases {
        match joined.last_mut() {
            Some((last, of, sum)) if *last == main => (of.end, *sum) = (slices.end, *sum + ns),
            _ => joined.push((main, slices, ns)),
        }
    }
    joined
}

/// What has less of a phase is not what it is made of.
const MAINLY: f64 = 0.4;

/// What a phase is mainly made of, if that is one part.
fn main_of(path: &CriticalPath, (_, slices, ns): &PathPhase) -> Option<PathKind> {
    let mut sums: BTreeMap<PathKind, u64> = BTreeMap::new();
    for part in &path.parts {
        *sums.entry(kind(part)).or_default() += part.slices.get(slices.clone()).unwrap_or_default().iter().sum::<u64>();
    }
    let (kind, most) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    (most as f64 >= MAINLY * *ns as f64).then_some(kind)
}

/// The path over time, if what it is mainly made of changes.
fn phases(recording: &Document, path: &CriticalPath, labels: &[String]) -> Option<String> {
    let whole: u64 = path.slice_ns.iter().sum();
    if whole < SHORT_NS {
        return None;
    }
    let shortest = (whole as f64 * PHASE) as u64;
    // What is too short belongs to its neighbour.
    let slices = mains(path).into_iter().zip(path.slice_ns.iter().copied()).enumerate();
    let mut phases = joined(slices.map(|(at, (main, ns))| (main, at..at + 1, ns)));
    while let Some(at) = (0..phases.len()).min_by_key(|at| phases[*at].2).filter(|at| phases[*at].2 < shortest) {
        if phases.len() == 1 {
            return None;
        }
        let (_, short, ns) = phases.remove(at);
        let before = at.checked_sub(1);
        let longer = match (before, phases.get(at)) {
            (Some(before), Some(after)) if after.2 > phases[before].2 => at,
            (Some(before), _) => before,
            (None, _) => at,
        };
        let (_, slices, sum) = &mut phases[longer];
        *slices = slices.start.min(short.start)..slices.end.max(short.end);
        *sum += ns;
        phases = joined(phases.into_iter());
    }
    // What was merged may have been more than what gave the name.
    let phases = joined(phases.into_iter().map(|phase| (main_of(path, &phase), phase.1, phase.2)));
    if !(2..=MOST_PHASES).contains(&phases.len()) || phases.iter().all(|(main, ..)| main.is_none()) {
        return None;
    }
    let mut at = 0;
    let texts: Vec<String> = phases
        .into_iter()
        .map(|(main, _, ns)| {
            let from = at;
            at += ns;
            let period = from_to(from as f64 / 1e9, at as f64 / 1e9);
            let main = main.map_or("many short parts".to_owned(), |kind| described(recording, labels, &kind, false));
            format!("{period} {main}")
        })
        .collect();
    Some(format!("Over time, mostly: {}.", texts.join("; ")))
}

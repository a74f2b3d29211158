//! What explains a change beyond roles, in words: other work, the schedule, pages used again, work under the locks.

use super::case::CaseMeasure;
use super::locks;
use super::model::{LockChange, Method};
use super::pipelines;
use super::work::{self, PAGES};
use crate::arch::Processor;
use crate::profile::cycles::NOT_AVAILABLE;
use crate::profile::{ProcessName, listed};
use crate::record::model::work as pipeline_work;
use crate::report::number;
use crate::result::LockKind;
use crate::util::text::{capitalized, grouped};

/// In what the processes of two columns did not do the same work.
pub(super) fn unequal([before, after]: [&CaseMeasure; 2]) -> Vec<String> {
    if let (Some(before), Some(after)) = (&before.pipeline, &after.pipeline) {
        return pipeline_work::unequal(before, after);
    }
    let only = |one: &CaseMeasure, other: &CaseMeasure, when: &str| -> Vec<String> {
        one.changes_beyond(other).map(|message| format!("{when}, {message}")).collect()
    };
    [only(before, after, "before"), only(after, before, "after")].concat()
}

/// The remarks on two columns; `locks`: what changed under the locks.
pub(super) fn remarks(sides: [&CaseMeasure; 2], method: Method, locks: &[LockChange]) -> Vec<String> {
    let mut remarks = if method == Method::Recorded { Vec::new() } else { calls_and_switches(sides, method) };
    remarks.extend(pipelines::remarks(sides));
    let first = sides[0].first().map(|(name, _)| name);
    if method == Method::Exact && sides.iter().all(|side| side.profile.is_some()) {
        remarks.extend(work::cached_pages(sides.map(|side| &side.calls)).map(cached_pages));
        remarks
            .extend(first.into_iter().flat_map(|first| locks.iter().filter_map(move |lock| under_lock(lock, first))));
    }
    remarks.extend((method == Method::Exact).then(|| no_cycles(sides)).flatten());
    remarks
}

/// Why two built-in pairs have no estimated cycles, if their processor is the reason.
fn no_cycles(sides: [&CaseMeasure; 2]) -> Option<String> {
    let is_other = |side: &CaseMeasure| {
        side.pipeline.is_none() && Processor::of_machine(&side.kernel.machine) != Processor::X86_64
    };
    let has_all = sides.iter().all(|side| side.classes.is_some());
    (!has_all && sides.into_iter().all(is_other)).then(|| format!("{}.", capitalized(NOT_AVAILABLE)))
}

/// Changes of a twentieth or more in the number of sleeps, preemptions and calls.
fn calls_and_switches([before, after]: [&CaseMeasure; 2], method: Method) -> Vec<String> {
    let (Some((first, old)), Some((_, new))) = (before.first(), after.first()) else { return Vec::new() };
    if old.bytes != new.bytes {
        return Vec::new();
    }
    // Differences below a tenth of a switch per call do not matter.
    let differs = |[a, b]: [u64; 2]| a.abs_diff(b) * 20 > a.max(b) && a.abs_diff(b) * 10 > old.calls;
    let [sleeps, preempted] = [[before.sleeps(), after.sleeps()], [before.preemptions(), after.preemptions()]];
    let mut remarks = Vec::new();
    // For counts, the answer says it with the cost of each.
    if method == Method::Timed && (differs(sleeps) || differs(preempted)) {
        remarks.push(format!(
            "{} slept {} times, then {}; they were preempted {} times, then {} ({} calls of the {first}). \
             The cost is in the roles waiting, wake-up, scheduler and PSI accounting.",
            capitalized(&listed(before.totals.names())),
            grouped(sleeps[0]),
            grouped(sleeps[1]),
            grouped(preempted[0]),
            grouped(preempted[1]),
            grouped(old.calls)
        ));
    }
    if old.calls != new.calls {
        remarks.push(format!(
            "Calls of {first}: {}, then {}, for the same bytes. The cost is in syscall entry/exit, VFS, and the work of \
             each call.",
            grouped(old.calls),
            grouped(new.calls)
        ));
    }
    for (name, process) in before.totals.iter().skip(1) {
        let calls = [process.calls, after.totals.get(name).map_or(0, |process| process.calls)];
        if differs(calls) {
            let [before, after] = calls.map(grouped);
            remarks.push(format!("Calls of {name}: {before}, then {after}, for the same bytes."));
        }
    }
    remarks
}

/// How many of the moved pages were allocated, before and after.
fn cached_pages([before, after]: [f64; 2]) -> String {
    format!(
        "Of {PAGES} pages per MiB, {} are allocated, before {}. The others are pages that the pipe keeps after they are \
         read, and uses again.",
        number::count(after),
        number::count(before)
    )
}

/// `Under the pipe's mutex the writer executes 53,733 instructions per call of the writer, before 66,521 (-19.2 %)`, and
/// what moved out of it or into it; `None` if nothing changed.
fn under_lock(lock: &LockChange, first: ProcessName) -> Option<String> {
    let name = match lock.lock {
        LockKind::Mutex => "the pipe's mutex",
        LockKind::Spinlock => "spin locks of the pipe's functions",
    };
    let who = lock.process;
    let count = number::count;
    let mut parts = match (lock.lock, lock.instructions) {
        (LockKind::Mutex, [Some(before), Some(after)]) if before.round() != after.round() => vec![format!(
            "under {name} the {who} executes {} instructions per call of the {first}, before {} ({})",
            count(after.round()),
            count(before.round()),
            number::change_of(before, after)
        )],
        _ if locks::differ(lock.taken) => vec![format!(
            "the {who} takes {name} {} times per call of the {first}, before {}",
            count(lock.taken[1]),
            count(lock.taken[0])
        )],
        _ => return None,
    };
    if lock.lock == LockKind::Mutex {
        parts.extend(lock.calls.iter().filter(|row| row.moved()).map(|row| {
            let [before, after] = [0, 1].map(|side| [row.held[side], row.all[side]].map(count));
            format!("{}: {} of {} calls under it, before {} of {}", row.title, after[0], after[1], before[0], before[1])
        }));
    }
    Some(format!("{}.", capitalized(&parts.join("; "))))
}

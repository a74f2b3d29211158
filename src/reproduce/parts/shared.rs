//! What parts share.

use crate::reproduce::facts::Fact;
use crate::reproduce::verdict::Readings;
use crate::result::Request;
use prelude::*;

/// What parts use.
pub(super) mod prelude {
    pub(in crate::parts) use crate::profile::{Attributor, Folded, ProcessName, Profile};
    pub(in crate::parts) use crate::report::chart::{Chart, ChartKind, Point};
    pub(in crate::parts) use crate::reproduce::facts::{ArticleTable, Facts};
    pub(in crate::parts) use crate::reproduce::lab::{Contestant, GuestSetup, Lab, Race, Raced, Taken};
    pub(in crate::parts) use crate::reproduce::parts::data::{NamedSpec, PartsData, filled};
    pub(in crate::parts) use crate::reproduce::race::without_huge_pages;
    pub(in crate::parts) use crate::reproduce::reproduced::{DiffGraph, ExtraTable, PartOutput};
    pub(in crate::parts) use crate::reproduce::stacks;
    pub(in crate::parts) use crate::reproduce::verdict::{Missing, Reading, number};
    pub(in crate::parts) use crate::result::{Collector, ExecutedOn, Outcome, Processes};
    pub(in crate::parts) use crate::roles::{RoleId, Skid};
    pub(in crate::parts) use crate::run::bench::request;
    pub(in crate::parts) use crate::util::text::counted;
    pub(in crate::parts) use crate::util::{size, stats};
    pub(in crate::parts) use crate::workload::Spec;
    pub(in crate::parts) use crate::workload::modes::Mode;
    pub(in crate::parts) use crate::workload::spec::{Amount, Pin, Writer};
    pub(in crate::parts) use anyhow::Result;
    pub(in crate::parts) use std::collections::BTreeMap;
}

/// Every fact of the tables `ids` is missing for the same reason.
pub(super) fn all_missing(readings: &mut Readings, facts: &Facts, ids: &[String], missing: &Missing) {
    for fact in ids.iter().filter_map(|id| facts.table(id)).flat_map(|table| &table.rows) {
        readings.insert(fact.id.clone(), Err(missing.clone()));
    }
}

/// Why a value that needs a guest is missing from a quick reproduction of `part`.
pub(super) fn skipped_by_quick(part: &str) -> Missing {
    Missing::new("skipped by --quick: needs a guest", format!("pipeprof reproduce {part}"))
}

/// The samples of the writer, if there are any.
pub(super) fn writer(outcome: &Outcome) -> Option<&Profile> {
    outcome.profiles.iter().find(|profile| profile.process == ProcessName::WRITER && !profile.stacks.is_empty())
}

/// `outcome`, if it has a profile of the writer.
pub(super) fn with_writer(outcome: Outcome, request: &Request) -> Taken<Outcome> {
    if writer(&outcome).is_some() {
        return Ok(outcome);
    }
    let why = outcome.document.collectors.iter().find_map(|collector| collector.reason.clone());
    Err(Missing::new(why.unwrap_or_else(|| "no samples".to_owned()), format!("sudo {}", request.command)))
}

/// Divide the points of two machines by each machine's own at `base`: absolute values can differ so much that those of one
/// machine cannot be seen. Returns false and changes nothing if a machine has none there.
pub(super) fn related(machines: [&mut Vec<Point>; 2], base: &str) -> bool {
    let at = |points: &[Point]| points.iter().find(|point| point.label == base && point.y > 0.0).map(|point| point.y);
    let bases = machines.each_ref().map(|points| at(points));
    let [Some(_), Some(_)] = bases else { return false };
    for (points, base) in machines.into_iter().zip(bases.into_iter().flatten()) {
        divide(points, base);
    }
    true
}

pub(super) fn divide(points: &mut [Point], base: f64) {
    for point in points {
        point.y /= base;
        point.span = point.span.map(|span| span.map(|end| end / base));
    }
}

/// Two series: the article's values, and this machine's.
pub(super) fn both(article: &str, values: Vec<Point>, measured: Vec<Point>) -> [(String, Vec<Point>); 2] {
    [(format!("article {article}"), values), ("this machine".to_owned(), measured)]
}

/// A function that cpu-clock never samples in place: it runs with interrupts off, and the timer waits.
const UNSEEN: &str = "_raw_spin_lock_irq";

/// The share of sampled stacks that `fact` counts, with its interval.
pub(super) fn share_reading(
    stacks: &Folded,
    skid: Skid,
    fact: &Fact,
    executed_on: ExecutedOn,
    whose: &str,
    command: &str,
) -> Taken<Reading> {
    let missing = |why: &str| Missing::new(why, format!("sudo {command}"));
    if skid == Skid::CpuClock && fact.frames.iter().any(|frame| frame == UNSEEN) {
        return Err(missing("cpu-clock cannot sample this function, which runs with interrupts off: needs a PMU"));
    }
    let samples = stacks.total();
    if samples == 0 {
        return Err(Missing::new("no samples", command));
    }
    let part = stacks::weight(stacks, skid, fact);
    if let Some(why) = inlined(stacks, fact, part, samples) {
        return Err(missing(&why));
    }
    let mut how = format!("{} of {whose}", counted(samples, "sample"));
    let hidden = part.saturating_sub(stacks::weight(stacks, Skid::None, fact));
    if hidden > 0 {
        let percent = number(hidden as f64 / samples as f64 * 100.0);
        how = format!(
            "{how}; in {percent} % of the samples a tail call hides the frame of the wake-up, which is identified by the release \
             of the wait queue's lock directly below pipe_write or pipe_read"
        );
    }
    let share = part as f64 / samples as f64 * 100.0;
    let interval = stats::wilson(part, samples).map(|share| share * 100.0);
    Ok(Reading { interval: Some(interval), ..Reading::single(share, "%", executed_on, &how) })
}

/// If a tenth of the article's share would give fewer samples than this, their absence proves nothing.
const TELLING: f64 = 3.0;

/// Why `fact`'s function has no share of its own on this machine: its caller is sampled, and it never.
fn inlined(stacks: &Folded, fact: &Fact, part: u64, samples: u64) -> Option<String> {
    let article = fact.value.unwrap_or_default();
    if part > 0 || fact.caller.is_empty() || article / 100.0 * samples as f64 / 10.0 < TELLING {
        return None;
    }
    let mut callers: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, weight) in stacks.iter() {
        if let Some(name) = stacks::deepest(stack, &fact.caller) {
            *callers.entry(name).or_default() += weight;
        }
    }
    let weight: u64 = callers.values().sum();
    let (caller, _) = callers.into_iter().max_by_key(|(_, weight)| *weight)?;
    let name = fact.frames.first()?;
    let percent = number(weight as f64 / samples as f64 * 100.0);
    Some(format!(
        "inlined or replaced in this kernel: {percent} % of the samples contain {caller}, which calls it in the article's \
         kernel, but none contains {name}: needs the article's kernel"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_two_machines_are_related_to_each_one_s_own() {
        let points = |values: [f64; 2]| -> Vec<Point> {
            let point = |(label, y): (&str, f64)| Point { label: label.into(), y, span: Some([y, 2.0 * y]) };
            ["a", "b"].into_iter().zip(values).map(point).collect()
        };
        let (mut there, mut here) = (points([100.0, 300.0]), points([0.5, 1.0]));
        assert!(related([&mut there, &mut here], "a"));
        assert_eq!((there[1].y, here[1].y, here[1].span), (3.0, 2.0, Some([2.0, 4.0])));
        assert!(!related([&mut there, &mut Vec::new()], "a"));
        assert_eq!(there[1].y, 3.0);
    }

    fn read(id: &str, skid: Skid, text: &str) -> Taken<Reading> {
        let facts = Facts::load().unwrap();
        let (_, fact) = facts.find(id).unwrap();
        share_reading(&Folded::parse(text).unwrap(), skid, fact, ExecutedOn::Hardware, "the writer", "pipeprof x")
    }

    #[test]
    fn a_function_that_is_inlined_has_no_share_and_no_verdict() {
        let entry = "w;entry_SYSCALL_64_after_hwframe";
        let hot = format!("{entry};__x64_sys_vmsplice 900\n{entry};x 100\n");
        let missing = read("B.profile.vmsplice.add", Skid::None, &hot).unwrap_err();
        assert!(
            missing.why.contains("inlined or replaced") && missing.why.contains("__x64_sys_vmsplice"),
            "{missing:?}"
        );
        // Sampled once, it is a function; a caller that is not there calls nothing; few samples tell nothing.
        let once = format!("{hot}{entry};__x64_sys_vmsplice;add_to_pipe 1\n");
        for text in [once, format!("{entry};x 1000\n"), format!("{entry};__x64_sys_vmsplice 9\n")] {
            assert!(read("B.profile.vmsplice.add", Skid::None, &text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_runs_with_interrupts_off_is_not_testable_by_cpu_clock() {
        let text = "w;entry_SYSCALL_64_after_hwframe;pipe_write;_raw_spin_lock_irq 10\nw 90\n";
        for id in ["A.graph.1.spin", "B.profile.write.spin"] {
            let missing = read(id, Skid::CpuClock, text).unwrap_err();
            assert!(missing.why.contains("with interrupts off"), "{missing:?}");
            assert_eq!(read(id, Skid::None, text).unwrap().value, 10.0);
        }
    }

    #[test]
    fn a_hidden_wake_up_counts_and_is_mentioned() {
        let text = "w;entry_SYSCALL_64_after_hwframe;anon_pipe_write;_raw_spin_unlock_irqrestore 20\nw 80\n";
        let reading = read("A.graph.1.wake", Skid::CpuClock, text).unwrap();
        assert_eq!(reading.value, 20.0);
        assert!(reading.how.contains("in 20.0 % of the samples a tail call hides"), "{}", reading.how);
    }
}

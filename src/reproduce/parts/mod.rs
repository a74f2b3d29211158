//! The parts of a reproduction. To add one: a file beside this, a line in [`PARTS`], its facts in `facts.json`.

mod buffers;
mod cat;
mod ladder;
mod memory;
mod profiles;
mod scale;

use super::facts::{Fact, Facts};
use super::lab::{Lab, Taken};
use super::result::Yield;
use super::stacks;
use super::verdict::{Missing, Reading, Readings, number};
use crate::document::ExecutedOn;
use crate::profile::{Attributor, Folded, Profile};
use crate::roles::Skid;
use crate::util::stats;
use anyhow::Result;
use std::collections::BTreeMap;

/// One part.
pub trait Part: Sync {
    /// Its name on the command line.
    fn id(&self) -> &'static str;
    /// For headings.
    fn title(&self) -> &'static str;
    /// One line for `--help`.
    fn about(&self) -> &'static str;
    /// Measure.
    ///
    /// # Errors
    /// On interruption, or when results cannot be kept; what cannot be measured is a [`Missing`] reading.
    fn run(&self, lab: &Lab<'_>, facts: &Facts) -> Result<Yield>;
}

/// All parts, in the order of the report.
pub const PARTS: &[&dyn Part] =
    &[&ladder::Ladder, &memory::Memory, &buffers::Buffers, &cat::Cat, &profiles::Profiles, &scale::Scale];

/// The part called `id`.
#[must_use]
pub fn find(id: &str) -> Option<&'static dyn Part> {
    PARTS.iter().find(|part| part.id() == id).copied()
}

/// Every fact of the tables `ids` is missing for the same reason.
fn all_missing(readings: &mut Readings, facts: &Facts, ids: &[&str], missing: &Missing) {
    for fact in ids.iter().filter_map(|id| facts.table(id)).flat_map(|table| &table.rows) {
        readings.insert(fact.id.clone(), Err(missing.clone()));
    }
}

/// A function whose samples by cpu-clock are never its own: interrupts are off in it, and the timer waits.
const UNSEEN: &str = "_raw_spin_lock_irq";

/// The share of sampled stacks that `fact` is about, with its interval.
///
/// # Errors
/// Why these profiles cannot tell.
fn share_reading(
    profiles: &[&Profile],
    fact: &Fact,
    executed_on: ExecutedOn,
    whose: &str,
    command: &str,
) -> Taken<Reading> {
    let skids = profiles.iter().any(|profile| profile.skid == Skid::CpuClock);
    let skid = if skids { Skid::CpuClock } else { Skid::None };
    if skids && fact.frames.iter().any(|frame| frame == UNSEEN) {
        let why = "sampled by cpu-clock, whose timer cannot fire while interrupts are off: the section cannot be sampled \
             in place (a PMU's interrupt can)";
        return Err(Missing::new(why, format!("sudo {command}")));
    }
    let folded = || profiles.iter().map(|profile| &profile.stacks);
    let samples: u64 = folded().map(Folded::total).sum();
    let Some(share) = stacks::share(folded(), skid, fact) else { return Err(Missing::new("no samples", command)) };
    if let Some(why) = inlined(&folded().collect::<Vec<_>>(), fact, share, samples) {
        return Err(Missing::new(why, format!("sudo {command}")));
    }
    let part = (share / 100.0 * samples as f64).round() as u64;
    let interval = stats::wilson(part, samples).map(|share| share * 100.0);
    let mut how = format!("{samples} samples of {whose}");
    let hidden_in = |profile: &Folded| -> u64 {
        let attributor = Attributor::new(profile, skid);
        let hidden = |stack: &str| stacks::holds(stack, attributor, fact) && !stacks::shown(stack, fact);
        profile.iter().filter(|(stack, _)| hidden(stack)).map(|(_, weight)| weight).sum()
    };
    let hidden: u64 = folded().map(hidden_in).sum();
    if hidden > 0 {
        let percent = number(hidden as f64 / samples as f64 * 100.0);
        how = format!(
            "{how}; {percent} % stand right below pipe_write or pipe_read where the wait queue's lock is released: the \
             wake-up, whose own frame a tail call takes away"
        );
    }
    Ok(Reading { interval: Some(interval), ..Reading::single(share, "%", executed_on, &how) })
}

/// Samples that a tenth of the article's share would have left, from which their absence tells something.
const TELLING: f64 = 3.0;

/// Why `fact`'s function has no share of its own here: its caller is sampled, and it never.
fn inlined(folded: &[&Folded], fact: &Fact, share: f64, samples: u64) -> Option<String> {
    let theirs = fact.value.unwrap_or_default();
    if share > 0.0 || fact.caller.is_empty() || theirs / 100.0 * samples as f64 / 10.0 < TELLING {
        return None;
    }
    let mut callers: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, weight) in folded.iter().flat_map(|folded| folded.iter()) {
        if let Some(name) = stacks::deepest(stack, &fact.caller) {
            *callers.entry(name).or_default() += weight;
        }
    }
    let weight: u64 = callers.values().sum();
    let (caller, _) = callers.into_iter().max_by_key(|(_, weight)| *weight)?;
    let names = fact.frames.first()?;
    let percent = number(weight as f64 / samples as f64 * 100.0);
    Some(format!(
        "no function of its own in this kernel: {percent} % of the samples are of {caller}, which calls it in the \
         article's, and none of {names}: inlined, or replaced; on the article's kernel"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{ProcessName, Unit};

    fn profile(skid: Skid, text: &str) -> Profile {
        let stacks = Folded::parse(text).unwrap();
        Profile { process: ProcessName::WRITER, collector: "sample".into(), unit: Unit::Samples, skid, stacks }
    }

    fn read(id: &str, skid: Skid, text: &str) -> Taken<Reading> {
        let facts = Facts::load().unwrap();
        let (_, fact) = facts.find(id).unwrap();
        share_reading(&[&profile(skid, text)], fact, ExecutedOn::Hardware, "the writer", "pipeprof x")
    }

    #[test]
    fn a_function_that_is_inlined_has_no_share_and_no_verdict() {
        let entry = "w;entry_SYSCALL_64_after_hwframe";
        let hot = format!("{entry};__x64_sys_vmsplice 900\n{entry};x 100\n");
        let missing = read("B.profile.vmsplice.add", Skid::None, &hot).unwrap_err();
        assert!(
            missing.why.contains("no function of its own") && missing.why.contains("__x64_sys_vmsplice"),
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
            assert!(missing.why.contains("interrupts are off"), "{missing:?}");
            assert_eq!(read(id, Skid::None, text).unwrap().value, 10.0);
        }
    }

    #[test]
    fn a_hidden_wake_up_counts_and_is_told() {
        let text = "w;entry_SYSCALL_64_after_hwframe;anon_pipe_write;_raw_spin_unlock_irqrestore 20\nw 80\n";
        let reading = read("A.graph.1.wake", Skid::CpuClock, text).unwrap();
        assert_eq!(reading.value, 20.0);
        assert!(reading.how.contains("20.0 % stand right below"), "{}", reading.how);
    }
}

//! What a reader sees first: the six rungs of article A, theirs and ours, and what makes this machine different.

use crate::profile::listed;
use crate::report::table::{Table, TableCell};
use crate::reproduce::facts::Facts;
use crate::reproduce::parts::data::{LadderStep, PartsData};
use crate::reproduce::verdict::{Readings, number};
use crate::util::stats;

/// The ladder, and one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportLead {
    /// The name of each rung; GiB/s of the article and here; and the ratios of both to rung 1, which do not depend on how fast
    /// the machine is.
    pub rungs: Vec<[String; 5]>,
    /// What differs most from the article; empty if too few rungs were measured.
    pub difference: String,
}

impl ReportLead {
    /// The ladder.
    pub(super) fn table(&self) -> Table {
        let figure = |at: usize| move |rung: &&[String; 5]| TableCell::figure(&*rung[at]);
        Table::of("", &self.rungs)
            .column("rung", |rung| rung[0].clone())
            .column("article, GiB/s", figure(1))
            .column("here, GiB/s", figure(2))
            .column("article, × rung 1", figure(3))
            .column("here, × rung 1", figure(4))
            .done()
    }
}

/// Gains that differ by less than this factor are the same, as for the rungs' own verdicts.
const SAME: f64 = 1.5;

/// The lead of these readings; `None` if the ladder was not run. `hypervisor`: this machine's.
pub(super) fn lead(facts: &Facts, readings: &Readings, hypervisor: Option<&str>) -> Option<ReportLead> {
    let ladder = &PartsData::get().ok()?.ladder;
    let id = |rung: &str| format!("{}.ladder.{rung}", ladder.article);
    let first = ladder.rungs.first()?.id.as_str();
    let theirs = |rung: &str| facts.find(&id(rung)).and_then(|(_, fact)| fact.value);
    let ours = |rung: &str| Some(readings.get(&id(rung))?.as_ref().ok()?.convert("GiB/s")?.value);
    ladder.rungs.iter().any(|rung| readings.contains_key(&id(&rung.id))).then_some(())?;
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let ratio = |value: Option<f64>, base: Option<f64>| shown(value.zip(base).map(|(value, base)| value / base));
    let name = |rung: &str| facts.find(&id(rung)).map_or_else(String::new, |(_, fact)| fact.name().to_owned());
    let shown_rung = |rung: &str| {
        let (theirs, ours) = ([theirs(rung), theirs(first)], [ours(rung), ours(first)]);
        [name(rung), shown(theirs[0]), shown(ours[0]), ratio(theirs[0], theirs[1]), ratio(ours[0], ours[1])]
    };
    let reading = |rung: &str| readings.get(&id(rung))?.as_ref().ok();
    let gains: Vec<Gain<'_>> = ladder
        .steps
        .iter()
        .filter_map(|step| {
            let theirs = theirs(&step.to)? / theirs(&step.from)?;
            let ours = ours(&step.to)? / ours(&step.from)?;
            // A single run has no interval.
            let interval = stats::ratio_of_medians(&reading(&step.to)?.runs, &reading(&step.from)?.runs, 1)?.ci95;
            Some(Gain { step, theirs, ours, interval })
        })
        .collect();
    let difference = difference(&gains, hypervisor);
    Some(ReportLead { rungs: ladder.rungs.iter().map(|rung| shown_rung(&rung.id)).collect(), difference })
}

/// How many times as fast a step makes the rung.
struct Gain<'a> {
    step: &'a LadderStep,
    theirs: f64,
    ours: f64,
    /// 95 %, of ours.
    interval: [f64; 2],
}

impl Gain<'_> {
    /// How far ours is from theirs, as a logarithm.
    fn distance(&self) -> f64 {
        (self.ours / self.theirs).ln().abs()
    }

    /// Whether the whole interval is further from theirs than [`SAME`].
    fn differs(&self) -> bool {
        self.interval[0] > SAME * self.theirs || self.interval[1] < self.theirs / SAME
    }

    /// Whether the whole interval is within [`SAME`] of theirs.
    fn is_same(&self) -> bool {
        self.interval[0] >= self.theirs / SAME && self.interval[1] <= SAME * self.theirs
    }
}

/// The certain difference that is largest; what is undecided is not explained.
fn difference(gains: &[Gain<'_>], hypervisor: Option<&str>) -> String {
    let certain = gains.iter().filter(|gain| gain.differs());
    let Some(Gain { step, theirs, ours, .. }) = certain.max_by(|a, b| a.distance().total_cmp(&b.distance())) else {
        let undecided = gains.iter().filter(|gain| !gain.is_same()).map(|gain| format!("rung {}", gain.step.to));
        let undecided: Vec<String> = undecided.collect();
        return match (gains.is_empty(), undecided.is_empty()) {
            (true, _) => String::new(),
            (_, true) => format!("Each step gains as much as in the article, within a factor of {SAME}."),
            _ => format!(
                "What differs from the article is undecided: the 95 % CI of the gain of {} is too wide. A whole \
                 run (without --quick) on an idle machine may tell.",
                listed(&undecided)
            ),
        };
    };
    let LadderStep { from, to, avoids: what, in_a_guest, .. } = step;
    let costs = if ours > theirs { "more" } else { "less" };
    let why = match hypervisor {
        Some(hypervisor) if ours > theirs && !in_a_guest.is_empty() => format!(" ({hypervisor}: {in_a_guest})"),
        _ => String::new(),
    };
    format!(
        "What differs most: {what} costs {costs} on this machine{why}. Without it, rung {to} is {} times as fast as rung \
         {from}; in the article, {} times.",
        number(*ours),
        number(*theirs)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::verdict::Reading;
    use crate::result::ExecutedOn;

    fn of(speeds: &[(&str, f64)], hypervisor: Option<&str>) -> Option<ReportLead> {
        let facts = Facts::load().unwrap();
        let reading = |(rung, speed): &(&str, f64)| {
            (format!("A.ladder.{rung}"), Ok(Reading::single(*speed, "GiB/s", ExecutedOn::Hardware, "")))
        };
        lead(&facts, &speeds.iter().map(reading).collect(), hypervisor)
    }

    #[test]
    fn the_step_that_differs_most_is_named() {
        // Half of the article's speeds, and a busy loop that helps four times as much.
        let mut speeds = [("1", 1.85), ("2", 6.35), ("3", 16.4), ("3b", 12.5), ("4", 25.5), ("5", 125.0)];
        let found = of(&speeds, Some("KVM")).unwrap();
        assert!(found.difference.contains("sleeping and waking up costs more on this machine (KVM: "), "{found:?}");
        assert!(found.difference.contains("rung 5 is 4.90 times as fast as rung 4; in the article, 1.23 times"));
        assert_eq!([1, 2, 4].map(|at| found.rungs[1][at].as_str()), ["12.7", "6.35", "3.43"]);
        assert!(!of(&speeds, None).unwrap().difference.contains('('));
        // As theirs, twice as slow: no step differs.
        speeds[5].1 = 31.25;
        assert!(of(&speeds, None).unwrap().difference.starts_with("Each step gains as much"));
        speeds[2].1 = 3.0;
        assert!(of(&speeds, None).unwrap().difference.contains("looking up 4 KiB pages costs more"));
    }

    #[test]
    fn what_is_undecided_is_not_explained() {
        let facts = Facts::load().unwrap();
        let reading = |(rung, runs): &(&str, [f64; 3])| {
            let reading = Reading::median(runs.to_vec(), "GiB/s", ExecutedOn::Hardware, "").unwrap();
            (format!("A.ladder.{rung}"), Ok(reading))
        };
        // Rung 3 is at 0.4 to 6 times rung 2.
        let speeds = [("1", [3.7, 3.7, 3.7]), ("2", [5.0, 12.7, 30.0]), ("3", [12.0, 14.0, 32.8])];
        let found = lead(&facts, &speeds.iter().map(reading).collect(), None).unwrap();
        assert!(found.difference.starts_with("What differs from the article is undecided"), "{found:?}");
    }

    #[test]
    fn without_the_ladder_there_is_no_lead() {
        assert_eq!(of(&[], None), None);
        assert_eq!(of(&[("1", 2.0)], None).unwrap().difference, "");
    }
}

//! The answers of a comparison, the same in the terminal, Markdown and HTML: one sentence for each mode and two columns.
//! The facts behind it follow as lines of their own ([`details`]).

use super::details;
use super::model::{Blame, Comparison, Section, Step, Word};
use super::text;
use crate::profile::listed;
use crate::util::text::counted;
use std::fmt::Write as _;

/// One line of the answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// 0 for a sentence, 1 and 2 for the facts behind it.
    pub level: usize,
    pub text: String,
}

/// The answers of all steps, then what could not be measured. Where a mode was counted on several numbers of CPUs, one
/// sentence says whether they agree.
#[must_use]
pub(crate) fn lines(comparison: &Comparison) -> Vec<Line> {
    let mut lines = Vec::new();
    for all in groups(comparison) {
        lines.push(Line { level: 0, text: sentence(comparison, &all) });
        let several = together(&all);
        for (section, step) in all {
            let level = match section.cpus {
                Some(cpus) if several => {
                    lines.push(Line { level: 1, text: format!("{}: {}", cpus_text(cpus), step.verdict.text) });
                    2
                }
                _ => 1,
            };
            let details = details::details(comparison, section, step);
            lines.extend(details.into_iter().map(|text| Line { level, text }));
        }
    }
    for missing in &comparison.missing {
        let title = super::model::section_title(&missing.mode, missing.cpus);
        let text = format!("{title}, {}: not measured: {}", missing.column, missing.reason);
        lines.push(Line { level: 0, text });
    }
    lines
}

/// The sentences alone.
#[must_use]
pub(crate) fn sentences(comparison: &Comparison) -> Vec<String> {
    groups(comparison).iter().map(|all| sentence(comparison, all)).collect()
}

/// The steps of each mode, those of two columns together.
fn groups(comparison: &Comparison) -> Vec<Vec<(&Section, &Step)>> {
    let mut modes: Vec<&str> = comparison.sections.iter().map(|section| section.mode.as_str()).collect();
    modes.dedup();
    let mut groups = Vec::new();
    for mode in modes {
        let sections: Vec<&Section> = comparison.sections.iter().filter(|section| section.mode == mode).collect();
        let Some(first) = sections.first() else { continue };
        for step in &first.steps {
            let same = |other: &&Step| (other.from, other.to) == (step.from, step.to);
            let found = sections.iter().filter_map(|section| Some((*section, section.steps.iter().find(same)?)));
            groups.push(found.collect());
        }
    }
    groups
}

/// Whether the steps are one on several numbers of CPUs.
fn together(all: &[(&Section, &Step)]) -> bool {
    matches!(all, [(section, _), _, ..] if section.cpus.is_some())
}

/// `write, 6.12 -> 7.2: fewer instructions ...; largest contributor: memcg uncharge`.
fn sentence(comparison: &Comparison, all: &[(&Section, &Step)]) -> String {
    let Some((section, step)) = all.first() else { return String::new() };
    let (from, to) = comparison.step_labels(step);
    let title = if together(all) { section.mode.clone() } else { section.title() };
    format!("{title}, {from} -> {to}: {}", answer(comparison, all))
}

/// The verdict of one step, or of one step on several numbers of CPUs, its largest contributor, and whether the total
/// changes in another direction because of the schedule.
#[must_use]
pub(crate) fn answer(comparison: &Comparison, all: &[(&Section, &Step)]) -> String {
    let steps: Vec<&Step> = all.iter().map(|(_, step)| *step).collect();
    let mut text = other_work(&steps);
    match all {
        [(_, step)] => text.push_str(&step.verdict.text),
        _ => text.push_str(&verdicts(all)),
    }
    if let Some(contributors) = contributors(all) {
        let _ = write!(text, "; {contributors}");
    }
    let several = together(all);
    let totals: Vec<String> = all
        .iter()
        .filter_map(|(section, step)| {
            let total = details::other_total(comparison, section, step)?;
            let place = if several { format!(" on {}", cpus_text(section.cpus.unwrap_or(1))) } else { String::new() };
            let reason = total.reason.map(|reason| match several {
                true => format!(", where {reason}"),
                false => format!(", because {reason}"),
            });
            Some(format!("{}{place}{}", text::percent(total.ratio), reason.unwrap_or_default()))
        })
        .collect();
    if !totals.is_empty() {
        let _ = write!(text, "; with scheduling {}", listed(&totals));
    }
    text
}

/// `not the same work (...); `, if the columns did not do the same; otherwise nothing.
fn other_work(steps: &[&Step]) -> String {
    let mut unequal: Vec<&str> = steps.iter().flat_map(|step| &step.unequal).map(String::as_str).collect();
    unequal.dedup();
    if unequal.is_empty() { String::new() } else { format!("not the same work ({}); ", unequal.join("; ")) }
}

fn cpus_text(cpus: u32) -> String {
    counted(u64::from(cpus), "CPU")
}

/// One step on several numbers of CPUs: the verdict that they share, or that they have none in common.
fn verdicts(all: &[(&Section, &Step)]) -> String {
    let has = |word| all.iter().any(|(_, step)| step.verdict.word == word);
    let each: Vec<String> = all
        .iter()
        .map(|(section, step)| {
            let verdict = &step.verdict;
            let margin = verdict.uncertainty.map(text::margin).unwrap_or_default();
            let change = match verdict.word {
                Word::Same => format!("same within {margin}"),
                _ => format!("{} ({margin})", text::percent(verdict.ratio)),
            };
            format!("{change} on {}", cpus_text(section.cpus.unwrap_or(1)))
        })
        .collect();
    let each = each.join(", ");
    let what = "instructions without scheduling";
    match (has(Word::Fewer), has(Word::More)) {
        (true, true) => format!("no common verdict on {what}: {each}"),
        (true, false) => format!("fewer {what}: {each}"),
        (false, true) => format!("more {what}: {each}"),
        (false, false) => format!("same number of {what}: {each}"),
    }
}

/// `largest contributor: memcg uncharge`; where the numbers of CPUs differ in it, that of each.
fn contributors(all: &[(&Section, &Step)]) -> Option<String> {
    let found: Vec<(Option<u32>, &Blame)> =
        all.iter().filter_map(|(section, step)| Some((section.cpus, step.blame.as_ref()?))).collect();
    let (_, first) = found.first()?;
    if found.iter().all(|(_, blame)| blame.title == first.title) {
        return Some(format!("largest contributor: {}", details::blamed(first)));
    }
    let each = found.iter().map(|(cpus, blame)| {
        let place = cpus.map(|cpus| format!(" on {}", cpus_text(cpus))).unwrap_or_default();
        format!("{} ({}){place}", details::blamed(blame), text::signed(blame.delta))
    });
    Some(format!("largest contributors: {}", each.collect::<Vec<_>>().join(", ")))
}

//! The answers of a comparison, the same in the terminal, Markdown and HTML: one sentence for each mode and two columns.
//! The facts behind it follow as lines of their own ([`details`]).

use super::causes;
use super::columns;
use super::details;
use super::model::{Blame, CauseSplit, Comparison, Difference, Section, Step, Word};
use super::settings;
use crate::profile::listed;
use crate::report::number;
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
    let why = split(all).or_else(|| built_otherwise(comparison, step));
    let why = why.map(|text| format!("; {text}")).unwrap_or_default();
    format!("{title}, {from} -> {to}: {}{why}", answer(comparison, all))
}

/// How the change is split by cause, if kernels were built to find out: `by cause: source -7.8 %, ...`.
fn split(all: &[(&Section, &Step)]) -> Option<String> {
    let splits: Vec<(Option<u32>, &CauseSplit)> =
        all.iter().filter_map(|(section, _)| Some((section.cpus, section.causes.as_ref()?))).collect();
    let (_, first) = splits.first()?;
    let names = causes::names(first);
    let parts: Vec<String> = splits
        .iter()
        .map(|(cpus, split)| match cpus {
            Some(cpus) if splits.len() > 1 => {
                format!("{} on {}", causes::parts_in_words(split), counted(u64::from(*cpus), "CPU"))
            }
            _ => causes::parts_in_words(split),
        })
        .collect();
    Some(format!("by cause: {}{names}", parts.join("; ")))
}

/// What else than their source differs between two kernels: `not only the source differs: gcc 14.2.0 and gcc 16.2.0, and 9
/// options`. With another compiler or configuration, counts change in all roles.
pub(crate) fn built_otherwise(comparison: &Comparison, step: &Step) -> Option<String> {
    let differ = |difference: &&Difference| {
        let values = [step.from, step.to].map(|column| difference.values.get(column).map(String::as_str));
        values[0] != values[1] && !values.contains(&Some(columns::UNKNOWN))
    };
    let different = || comparison.differences.iter().filter(differ);
    let compilers = different().find(|difference| difference.what == settings::COMPILER);
    let options = different().filter(|difference| difference.what.starts_with("CONFIG_")).count();
    let compilers = compilers.map(|found| format!("{} and {}", found.values[step.from], found.values[step.to]));
    let options = (options > 0).then(|| format!("{} that matter to pipes", counted(options as u64, "option")));
    // Options alone are usual between two releases; the table below has them.
    let compilers = compilers?;
    let parts: Vec<String> = std::iter::once(compilers).chain(options).collect();
    Some(format!("not only the source differs: {}", parts.join(", and ")))
}

/// The verdict of one step, or of one step on several numbers of CPUs, its largest contributor, and whether the total
/// changes in another direction because of the schedule.
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
            Some(format!("{}{place}{}", number::change(total.ratio), reason.unwrap_or_default()))
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
    let change = |(section, step): &(&Section, &Step)| {
        let verdict = &step.verdict;
        let margin = number::in_parentheses(verdict.uncertainty);
        let on = cpus_text(section.cpus.unwrap_or(1));
        (verdict.word, format!("{}{margin} on {on}", number::change(verdict.ratio)))
    };
    let changes: Vec<(Word, String)> = all.iter().map(change).collect();
    let what = "instructions without scheduling";
    let list = |of: &[(Word, String)]| of.iter().map(|(_, change)| change.clone()).collect::<Vec<_>>().join(", ");
    match changes.first() {
        Some((word, _)) if changes.iter().all(|(other, _)| other == word) => match word {
            Word::Same => format!("same number of {what}: {}", list(&changes)),
            Word::Undecided => format!("undecided whether the number of {what} changed: {}", list(&changes)),
            word => format!("{} {what}: {}", word.text(), list(&changes)),
        },
        _ => {
            let each: Vec<String> = changes.iter().map(|(word, change)| format!("{} {change}", word.text())).collect();
            format!("no common verdict on {what}: {}", each.join(", "))
        }
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
        format!("{} ({}){place}", details::blamed(blame), number::signed(blame.delta))
    });
    Some(format!("largest contributors: {}", each.collect::<Vec<_>>().join(", ")))
}

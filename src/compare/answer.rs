//! The answers of a comparison in sentences, the same in the terminal, Markdown and HTML.

use super::model::{Blame, Comparison, ExactCell, RoleRow, Section, Step, Word};
use super::text;
use crate::util::text::{counted, rounded};
use std::fmt::Write as _;

/// The answers of all steps, then what could not be measured. Where a mode was counted on several numbers of CPUs, the
/// first line of each step says whether they agree.
#[must_use]
pub(crate) fn lines(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for all in groups(comparison) {
        let headline = headline(comparison, &all);
        let several = headline.is_some();
        lines.extend(headline);
        for (section, step) in all {
            let text = answer(comparison, section, step);
            let (from, to) = comparison.step_labels(step);
            lines.push(match section.cpus {
                Some(cpus) if several => format!("  {}: {text}", cpus_text(cpus)),
                _ => format!("{}, {from} -> {to}: {text}", section.title()),
            });
        }
    }
    for missing in &comparison.missing {
        let title = super::model::section_title(&missing.mode, missing.cpus);
        lines.push(format!("{title}, {}: not measured: {}", missing.column, missing.reason));
    }
    lines
}

/// The first lines of steps that were counted on several numbers of CPUs.
#[must_use]
pub(crate) fn headlines(comparison: &Comparison) -> Vec<String> {
    groups(comparison).iter().filter_map(|all| headline(comparison, all)).collect()
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

/// `write, 6.12 -> 7.2: fewer instructions without scheduling: ...`, if there are several numbers of CPUs.
fn headline(comparison: &Comparison, all: &[(&Section, &Step)]) -> Option<String> {
    let [(section, step), _, ..] = all else { return None };
    section.cpus?;
    let (from, to) = comparison.step_labels(step);
    let steps: Vec<&Step> = all.iter().map(|(_, step)| *step).collect();
    Some(format!("{}, {from} -> {to}: {}{}", section.mode, other_work(&steps), together(all)))
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

/// One step on several numbers of CPUs: the verdict that they share, or why they have none in common.
fn together(all: &[(&Section, &Step)]) -> String {
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
        (true, true) => {
            let roles: Vec<String> = all
                .iter()
                .filter_map(|(section, step)| {
                    let blame = step.blame.as_ref()?;
                    let cpus = cpus_text(section.cpus.unwrap_or(1));
                    Some(format!("on {cpus} {} ({})", blame.title, text::signed(blame.delta)))
                })
                .collect();
            format!("no common verdict on {what}: {each}. Largest contributors: {}", roles.join(", "))
        }
        (true, false) => format!("fewer {what}: {each}"),
        (false, true) => format!("more {what}: {each}"),
        (false, false) => format!("same number of {what}: {each}"),
    }
}

/// The verdict and its largest contributors; for counts, also what scheduling adds.
#[must_use]
pub(crate) fn answer(comparison: &Comparison, section: &Section, step: &Step) -> String {
    let mut text = format!("{}{}", other_work(&[step]), step.verdict.text);
    if let Some(blame) = &step.blame {
        let _ = write!(text, ". {}", contributor(step, blame));
    }
    if let Some(schedule) = schedule(comparison, section, step) {
        let _ = write!(text, ". {schedule}");
    }
    text
}

/// The largest contributor, what offsets it, and its functions, or the roles that call it.
fn contributor(step: &Step, blame: &Blame) -> String {
    let offset = offset(step, blame).map(|offset| format!(", offset by {offset}")).unwrap_or_default();
    let listed = |list: &[(String, f64)]| -> Vec<String> {
        list.iter().map(|(name, delta)| format!("{name} {}", text::signed(*delta))).collect()
    };
    if blame.role.is_none() {
        let roles: Vec<(String, f64)> = blame.within.iter().map(|part| (part.title.clone(), part.delta)).collect();
        let (helpers, word) = match blame.functions.as_slice() {
            [_] => (blame.title.clone(), "helper"),
            functions => (listed(functions).join(", "), "helpers"),
        };
        return format!(
            "Largest contributor: the {word} {helpers}, {} in {} roles{offset}. By role: {}",
            text::signed(blame.delta),
            roles.len(),
            listed(&roles[..roles.len().min(NAMED)]).join(", ")
        );
    }
    let work =
        step.roles.iter().find(|row| Some(row.role) == blame.role).and_then(|row| Some(row.work?.text(row.role)));
    let work = work.map(|work| format!(": {work}")).unwrap_or_default();
    let mut line = format!("Largest contributor: {} ({}{work}){offset}", blame.title, text::signed(blame.delta));
    let whole: Vec<(String, f64)> = blame.whole.iter().cloned().collect();
    let lists: Vec<String> = [("self", listed(&blame.functions)), ("total", listed(&whole))]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", names.join(", ")))
        .collect();
    if !lists.is_empty() {
        let _ = write!(line, ". Functions of {}, {}", blame.title, lists.join("; "));
    }
    line
}

/// Roles named as callers of a helper.
const NAMED: usize = 4;

/// What changed in the other direction: the largest role, or all of them if a part would otherwise be larger than the
/// whole without a reason.
fn offset(step: &Step, blame: &Blame) -> Option<String> {
    // Roles that consist of the helpers' change do not offset it.
    let of_helpers =
        |row: &RoleRow| blame.within.iter().find(|part| part.role == row.role).map_or(0.0, |part| part.delta);
    let change = |row: &RoleRow| row.delta - of_helpers(row);
    let against = step.roles.iter().filter(|row| change(row) * blame.delta < 0.0 && (row.certain || !step.exact()));
    let largest = against.max_by(|a, b| change(a).abs().total_cmp(&change(b).abs()));
    let rest = step.verdict.delta - blame.delta;
    match largest {
        Some(row) => Some(format!("{} ({})", row.title, text::signed(change(row)))),
        None if step.exact() && rest * blame.delta < 0.0 => Some(format!("all other roles ({})", text::signed(rest))),
        None => None,
    }
}

/// Differences of rates below this part are not worth a sentence.
const SMALL: f64 = 0.02;

/// What scheduling adds to a count: how often the processes sleep and are preempted, and the cost of each.
fn schedule(comparison: &Comparison, section: &Section, step: &Step) -> Option<String> {
    let total = step.total.as_ref()?;
    let cell = |column: usize| section.cells.get(column)?.as_ref()?.exact.as_ref();
    let (before, after) = (cell(step.from)?, cell(step.to)?);
    let (from, to) = comparison.step_labels(step);
    let differ = |a: f64, b: f64| (a - b).abs() > SMALL * a.max(b) && (a - b).abs() > SMALL;
    let costs = before.per_sleep.zip(after.per_sleep);
    let other_costs = costs.is_some_and(|(a, b)| differ(a, b));
    let rate = |cell: &ExactCell, of: fn(&ExactCell) -> f64| text::rate(of(cell));
    let sleeps: fn(&ExactCell) -> f64 = |cell| cell.sleeps_per_mib;
    let preemptions: fn(&ExactCell) -> f64 = |cell| cell.preemptions_per_mib;
    let mut parts = Vec::new();
    for (of, what) in [(sleeps, "sleep"), (preemptions, "is preempted")] {
        if differ(of(before), of(after)) {
            let (a, b) = (rate(before, of), rate(after, of));
            parts.push(match what {
                "sleep" => format!("{to} sleeps {b} times per MiB, {from} {a} times"),
                _ => format!("{to} is preempted {b} times per MiB, {from} {a} times"),
            });
        }
    }
    if let (true, Some((a, b))) = (other_costs, costs) {
        parts.push(format!("a sleep costs {} instructions, before {}", rounded(b), rounded(a)));
    }
    if parts.is_empty() {
        return None;
    }
    let mut text = format!(
        "With scheduling {}, {} to {}: {}",
        text::percent(total.after / total.before),
        text::value(total.before),
        text::value(total.after),
        parts.join("; ")
    );
    if let Some(equal) = total.at_equal_schedule {
        let _ = write!(text, "; with the sleeps and preemptions of {from} {}", text::percent(equal / total.before));
    }
    Some(text)
}

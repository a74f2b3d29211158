//! The answers of a comparison, the same in the terminal, Markdown and HTML: one sentence for each mode and two columns.
//! The facts behind it follow as lines of their own ([`details`]).

use super::causes;
use super::columns;
use super::cpus::groups;
use super::details;
use super::model::{Blame, CauseSplit, Comparison, CpuReason, CpuSplit, Difference, Section, Step, Word, cpus_text};
use super::pipelines;
use super::settings;
use super::understated::understated;
use crate::profile::{few, listed};
use crate::report::number;
use crate::util::text::counted;
use std::fmt::Write as _;

/// One line of the answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// 0 for a sentence, 1 and 2 for the facts behind it.
    pub level: usize,
    pub text: String,
}

/// The answers of all steps, then what could not be measured. Where a mode was counted on several numbers of CPUs, one
/// sentence says whether they agree.
pub fn lines(comparison: &Comparison) -> Vec<Line> {
    let mut lines = Vec::new();
    for all in groups(&comparison.sections) {
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
pub fn sentences(comparison: &Comparison) -> Vec<String> {
    groups(&comparison.sections).iter().map(|all| sentence(comparison, all)).collect()
}

/// Whether the steps are one on several numbers of CPUs.
fn together(all: &[(&Section, &Step)]) -> bool {
    matches!(all, [(section, _), _, ..] if section.cpus.is_some())
}

/// `write, 6.12 -> 7.2: fewer instructions ...; largest contributor: memcg uncharge`. Where the number of CPUs decides, a second
/// sentence says why.
fn sentence(comparison: &Comparison, all: &[(&Section, &Step)]) -> String {
    let Some((section, step)) = all.first() else { return String::new() };
    let (from, to) = comparison.step_labels(step);
    let title = if together(all) { section.mode.clone() } else { section.title() };
    let built = || built_otherwise(comparison, &section.mode, step).filter(|_| !step.other_processor);
    let why = split(all).or_else(built);
    let why = why.map(|text| format!("; {text}")).unwrap_or_default();
    let split = cpu_split(comparison, all).map(|split| format!(". {}", depends(comparison, all, split)));
    format!("{title}, {from} -> {to}: {}{why}{}", answer(comparison, all), split.unwrap_or_default())
}

/// Why the verdicts of `all` differ, if they do.
fn cpu_split<'a>(comparison: &'a Comparison, all: &[(&Section, &Step)]) -> Option<&'a CpuSplit> {
    let [(section, step), _, ..] = all else { return None };
    let is_of = |split: &&CpuSplit| split.mode == section.mode && (split.from, split.to) == (step.from, step.to);
    comparison.cpu_splits.iter().find(is_of)
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

/// What else than their source differs between two kernels: `not only the source differs: gcc 14.2.0 and gcc 16.2.0, and the
/// option CMA`. With another compiler, counts change in all roles; an option was shown to matter to this mode.
fn built_otherwise(comparison: &Comparison, mode: &str, step: &Step) -> Option<String> {
    let differ = |difference: &&Difference| {
        let values = [step.from, step.to].map(|column| difference.values.get(column).map(String::as_str));
        values[0] != values[1] && !values.contains(&Some(columns::UNKNOWN))
    };
    let different = || comparison.differences.iter().filter(differ);
    let compilers = different().find(|difference| difference.what == settings::COMPILER);
    let compilers = compilers.map(|found| format!("{} and {}", found.values[step.from], found.values[step.to]));
    let matters = |difference: &&Difference| difference.modes.iter().any(|known| known == mode);
    let options: Vec<&str> =
        different().filter(matters).filter_map(|option| option.what.strip_prefix("CONFIG_")).collect();
    let options = match options.as_slice() {
        [] => None,
        [option] => Some(format!("the option {option}")),
        some => Some(format!("the options {}", few(some))),
    };
    let parts: Vec<String> = compilers.into_iter().chain(options).collect();
    (!parts.is_empty()).then(|| format!("not only the source differs: {}", parts.join(", and ")))
}

/// The answer for kernels of two processors, in place of a change of instructions.
const TWO_PROCESSORS: &str = "instructions of two processors cannot be compared. What the kernels do can be";

/// The verdict of one step, or of one step on several numbers of CPUs, its largest contributor, and whether the total
/// changes in another direction because of the schedule.
pub fn answer(comparison: &Comparison, all: &[(&Section, &Step)]) -> String {
    let steps: Vec<&Step> = all.iter().map(|(_, step)| *step).collect();
    let mut text = other_work(&steps);
    // What is certain comes before what is not.
    let (before, after) = match all {
        [(_, step)] if step.verdict.word.is_change() => (None, pipelines::more_calls(step)),
        [(_, step)] if !step.other_processor => (pipelines::more_calls(step), None),
        _ => (None, None),
    };
    if let Some(calls) = before {
        let _ = write!(text, "{calls}; ");
    }
    match all {
        [(_, step)] if step.other_processor => text.push_str(&format!("{TWO_PROCESSORS}: {}", step.verdict.text)),
        [(_, step)] => text.push_str(&step.verdict.text),
        _ => text.push_str(&verdicts(all)),
    }
    text.push_str(&understated(all));
    if cpu_split(comparison, all).is_some() {
        // Contributors and schedules are those of one number of CPUs.
        return text;
    }
    if let Some(calls) = after {
        let _ = write!(text, "; {calls}");
    }
    if let [(_, step)] = all
        && let Some(work) = &step.pipeline.user_work
    {
        let _ = write!(text, "; {}", pipelines::user_work_text(work));
    }
    if let Some(contributors) = contributors(all) {
        let _ = write!(text, "; {contributors}");
    }
    let several = together(all);
    let totals: Vec<String> = all
        .iter()
        .filter_map(|(section, step)| {
            let total = details::other_total(comparison, section, step)?;
            let place = if several { section.place() } else { String::new() };
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

/// One step on several numbers of CPUs: the verdict that they share, or that of each.
fn verdicts(all: &[(&Section, &Step)]) -> String {
    if all.iter().all(|(_, step)| step.other_processor) {
        return TWO_PROCESSORS.to_owned();
    }
    let change = |(section, step): &(&Section, &Step)| {
        let verdict = &step.verdict;
        let margin = number::in_parentheses(verdict.uncertainty);
        (verdict.word, section.place(), format!("{}{margin}", number::change(verdict.ratio)))
    };
    let changes: Vec<(Word, String, String)> = all.iter().map(change).collect();
    let what = "instructions without scheduling";
    let whole = |word: Word| match word {
        Word::Same => format!("same number of {what}"),
        Word::Undecided => format!("undecided whether the number of {what} changed"),
        word => format!("{} {what}", word.text()),
    };
    let Some((word, place, change)) = changes.first() else { return String::new() };
    if changes.iter().all(|(other, ..)| other == word) {
        let each: Vec<String> = changes.iter().map(|(_, place, change)| format!("{change}{place}")).collect();
        return format!("{}: {}", whole(*word), each.join(", "));
    }
    let others = changes.iter().skip(1).map(|(word, place, change)| format!(", but {}{place}, {change}", word.text()));
    format!("{}{place}, {change}{}", whole(*word), others.collect::<String>())
}

/// `What differs most: page free (+1.20 on 1 CPU, +9.10 on 2 CPUs). ...`: why a change depends on the number of CPUs, and
/// which figure a reader should take.
fn depends(comparison: &Comparison, all: &[(&Section, &Step)], split: &CpuSplit) -> String {
    let [first, second] = split.cpus.map(cpus_text);
    let roles = split.roles.iter().map(|role| {
        let [one, other] = role.deltas.map(number::signed);
        format!("{} ({one} on {first}, {other} on {second})", role.title)
    });
    let roles: Vec<String> = roles.collect();
    let mut text = if roles.is_empty() { String::new() } else { format!("What differs most: {}. ", listed(&roles)) };
    let each = format!(
        "Take the value of {first} for processes that share a CPU, and of {second} for processes that run at once"
    );
    text.push_str(&match split.reason {
        CpuReason::PageLists => format!(
            "With more CPUs, pages are freed on another CPU than they were allocated on, and move between the page lists of \
             the CPUs. {each}"
        ),
        CpuReason::Roles => each,
        CpuReason::Schedule => {
            let changed = usize::from(split.switches[1].differ());
            let (here, there) = (&split.cpus[changed], split.cpus[1 - changed]);
            let (from, to) = (&comparison.columns[split.from].label, &comparison.columns[split.to].label);
            let switches = &split.switches[changed];
            let (what, [before, after]) = match switches.sleeps_differ() {
                true => ("sleep", switches.sleeps),
                false => ("are preempted", switches.preemptions),
            };
            let equal = all.iter().find(|(section, _)| section.cpus == Some(there));
            let change = equal.map(|(_, step)| number::change(step.verdict.ratio)).unwrap_or_default();
            format!(
                "On {}, a part of the change is another schedule: the processes {what} {} times per MiB with {to}, and {} \
                 with {from}. On {}, they do so as often as before: take its {change} for the change of the kernel's code",
                cpus_text(*here),
                number::rate(after),
                number::rate(before),
                cpus_text(there)
            )
        }
    });
    text
}

/// `largest contributor: memcg uncharge`; where the numbers of CPUs differ in it, that of each.
fn contributors(all: &[(&Section, &Step)]) -> Option<String> {
    let found: Vec<(&Section, &Blame)> =
        all.iter().filter_map(|(section, step)| Some((*section, step.blame.as_ref()?))).collect();
    let (_, first) = found.first()?;
    if let [(section, step)] = all
        && first.pages.is_some()
    {
        let of = format!("{} of {}", number::signed(first.delta), number::signed(step.verdict.delta));
        return Some(format!("largest contributor: {} ({of}){}", first.title, section.place()));
    }
    if found.iter().all(|(_, blame)| blame.title == first.title) {
        return Some(format!("largest contributor: {}", details::blamed(first)));
    }
    let each = found.iter().map(|(section, blame)| {
        format!("{} ({}){}", details::blamed(blame), number::signed(blame.delta), section.place())
    });
    Some(format!("largest contributors: {}", each.collect::<Vec<_>>().join(", ")))
}

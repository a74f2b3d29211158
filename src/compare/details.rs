//! The facts behind the answer to one step, each a line of its own: the largest contributor and its functions, and
//! what scheduling adds.

use super::exact::PART_FLOOR;
use super::input::NOW;
use super::model::{
    Blame, Cell, Comparison, ExactCell, Method, RepChange, RoleRow, RoleWork, ScheduleChange, Section, Step,
    TotalChange, Verdict,
};
use super::shares;
use super::timed::MINIMUM_PAIRS;
use super::work::PAGES;
use crate::profile::listed;
use crate::report::number;
use crate::roles::{RoleId, SCHEDULING};
use crate::util::size;
use crate::util::text::{counted, rounded};
use std::fmt::Write as _;

/// Roles named as callers of a helper, and helpers that are named in addition.
const NAMED: usize = 4;

/// Changes of the total below this part are not worth a sentence.
const SMALL_TOTAL: f64 = 0.01;

/// Differences of rates below this part are not worth a sentence.
const SMALL: f64 = 0.02;

/// Changes of the number of calls, or of one call, below this part are not worth a sentence.
const SAME_WORK: f64 = 0.001;

/// Helpers with a smaller part of the change are not named.
const SMALL_HELPER: f64 = 0.05;

/// A kernel with two schedules for the same work differed by up to 5 % without scheduling (docs/exactness.md, "Two
/// schedules of one kernel"). Larger changes are not doubted.
const OF_SCHEDULE: f64 = 0.05;

/// Its two schedules had 1.9 times as many sleeps; windows of one schedule differ by less than this.
const OTHER_SCHEDULE: f64 = 1.25;

/// The facts behind the answer to `step`.
pub fn details(comparison: &Comparison, section: &Section, step: &Step) -> Vec<String> {
    let mut lines = recorded(comparison, section, step);
    if let Some(blame) = &step.blame {
        lines.extend(contributor(step, blame));
    }
    lines.extend(step.rep.as_ref().filter(|rep| rep.matters).map(moved));
    lines.extend(schedule(section, step).into_iter().flatten());
    lines.extend(judged(step));
    lines.extend(other_schedule(comparison, section, step));
    lines
}

/// How long two recordings took, and how to decide which takes longer; the largest change of a share; and what the times
/// were made of.
fn recorded(comparison: &Comparison, section: &Section, step: &Step) -> Vec<String> {
    let Verdict { before, after, pairs, .. } = step.verdict;
    let time = |ms: f64| number::time(ms / 1e3);
    let runs = match pairs {
        [1, 1] => "in one run each".to_owned(),
        [first, second] => format!("medians of {first} and {second} runs"),
    };
    let took = step.verdict.more_runs.filter(|_| comparison.method == Method::Recorded).map(|_| {
        let needs = format!(
            ": a verdict needs a folder of {MINIMUM_PAIRS} recordings of each, or `pipeprof record --try`, if it can make \
             the change"
        );
        let needs = if pairs.iter().any(|runs| *runs < MINIMUM_PAIRS) { needs } else { String::new() };
        format!("it took {} instead of {}, {runs}{needs}", time(after), time(before))
    });
    let shares = (!step.pipeline.shares.is_empty()).then(|| shares::largest(&step.pipeline.shares));
    let made_of = [step.from, step.to].map(|column| {
        let made_of = section.cells.get(column)?.as_ref()?.made_of.as_ref()?;
        Some(format!("{}: {made_of}", comparison.columns.get(column)?.label))
    });
    took.into_iter().chain(shares).chain(made_of.into_iter().flatten()).collect()
}

/// The contributor's name: a role's title, or helpers.
pub(crate) fn blamed(blame: &Blame) -> String {
    let names: Vec<&String> = blame.functions.iter().map(|(name, _)| name).collect();
    match (blame.role, names.as_slice()) {
        (Some(_), _) | (None, []) => blame.title.clone(),
        (None, [name]) => format!("the helper {name}"),
        (None, names) => format!("the helpers {}", listed(names)),
    }
}

fn changes(list: &[(String, f64)]) -> String {
    let each = list.iter().map(|(name, delta)| format!("{name} {}", number::signed(*delta)));
    each.collect::<Vec<_>>().join(", ")
}

/// The largest contributor and what offsets it; its functions, or the roles that call it.
fn contributor(step: &Step, blame: &Blame) -> Vec<String> {
    let (offset, named) = offset(step, blame).map_or((String::new(), Vec::new()), |(text, row)| {
        (format!("; offset by {text}"), row.into_iter().collect::<Vec<RoleId>>())
    });
    let offset = format!("{offset}{}", others(step, blame, &named));
    if let Some(pages) = blame.pages {
        return of_pages(step, blame, pages);
    }
    if blame.role.is_none() {
        return helpers(step, blame, &offset);
    }
    let work = step.roles.iter().find(|row| Some(row.role) == blame.role).and_then(|row| Some(work_text(&row.work?)));
    let work = work.map(|work| format!(" ({work})")).unwrap_or_default();
    let mut lines = vec![format!("largest contributor: {} {}{work}{offset}", blame.title, number::signed(blame.delta))];
    let whole: Vec<(String, f64)> = blame.whole.iter().cloned().collect();
    let lists: Vec<String> = [("self", changes(&blame.functions)), ("total", changes(&whole))]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {names}"))
        .collect();
    if !lists.is_empty() {
        lines.push(format!("its functions, {}", lists.join("; ")));
    }
    lines
}

/// `14.0 % fewer pages, each +4.0 %`.
fn work_text(work: &RoleWork) -> String {
    let noun = format!("{}s", work.unit.text());
    let calls = match work.calls_after / work.calls_before - 1.0 {
        calls if calls.abs() < SAME_WORK => format!("as many {noun}"),
        calls => number::more_or_less(1.0 + calls, "fewer", &noun),
    };
    match work.each_after / work.each_before {
        each if (each - 1.0).abs() < SAME_WORK => format!("{calls}, each as before"),
        each => format!("{calls}, each {}", number::change(each)),
    }
}

/// Pages as the largest contributor: by role, and what is left of the change with as many pages as before.
fn of_pages(step: &Step, blame: &Blame, [before, after]: [f64; 2]) -> Vec<String> {
    let Verdict { before: value, delta, .. } = step.verdict;
    let roles: Vec<(String, f64)> = blame.within.iter().map(|part| (part.title.clone(), part.delta)).collect();
    let rest = delta - blame.delta;
    let per_mib = format!("{} to {}", number::rate(before), number::rate(after));
    let per_mib = match step.page_sizes {
        Some(sizes) => {
            let [old, new] = sizes.map(size::format);
            format!("{per_mib} pages per MiB are allocated, of {old} and {new}")
        }
        None => format!("{per_mib} of {PAGES} pages per MiB are allocated"),
    };
    vec![
        format!(
            "largest contributor: {} {} of {} ({per_mib})",
            blame.title,
            number::signed(blame.delta),
            number::signed(delta)
        ),
        format!(
            "by role: {}; with as many pages as before: {} ({})",
            changes(&roles),
            number::signed(rest),
            number::change(1.0 + rest / value)
        ),
    ]
}

/// Helpers as the largest contributor: what they add up to, the roles that call them, and other helpers.
fn helpers(step: &Step, blame: &Blame, offset: &str) -> Vec<String> {
    let roles: Vec<(String, f64)> = blame.within.iter().map(|part| (part.title.clone(), part.delta)).collect();
    let sum = match blame.functions.as_slice() {
        [_] => format!("{} {}", blamed(blame), number::signed(blame.delta)),
        functions => format!("the helpers {}, together {}", changes(functions), number::signed(blame.delta)),
    };
    let mut lines = vec![format!("largest contributor: {sum} in {} roles{offset}", roles.len())];
    lines.push(format!("by role: {}", changes(&roles[..roles.len().min(NAMED)])));
    let least = SMALL_HELPER * step.verdict.delta.abs();
    let mut others: Vec<(String, f64)> = step
        .sums
        .iter()
        .filter(|sum| sum.is_helper())
        .map(|sum| (sum.shown(), sum.without_scheduling()))
        .filter(|(name, delta)| delta.abs() >= least && !blame.functions.iter().any(|(named, _)| named == name))
        .collect();
    others.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    others.truncate(NAMED);
    if !others.is_empty() {
        lines.push(format!("other helpers: {}", changes(&others)));
    }
    lines
}

/// What changed in the other direction: the largest role, or all of them if a part would otherwise be larger than the
/// whole without a reason.
fn offset(step: &Step, blame: &Blame) -> Option<(String, Option<RoleId>)> {
    // Roles that consist of the helpers' change do not offset it.
    let of_helpers =
        |row: &RoleRow| blame.within.iter().find(|part| part.role == row.role).map_or(0.0, |part| part.delta);
    let change = |row: &RoleRow| row.delta - of_helpers(row);
    let against = step.roles.iter().filter(|row| change(row) * blame.delta < 0.0 && (row.certain || !step.exact()));
    let largest = against.max_by(|a, b| change(a).abs().total_cmp(&change(b).abs()));
    let rest = step.verdict.delta - blame.delta;
    match largest {
        Some(row) => Some((format!("{} {}", row.title, number::signed(change(row))), Some(row.role))),
        None if step.exact() && rest * blame.delta < 0.0 => {
            Some((format!("all other roles {}", number::signed(rest)), None))
        }
        None => None,
    }
}

/// What the roles that are not named add up to, so that the parts are the whole: `; 11 other roles -9.92`.
fn others(step: &Step, blame: &Blame, offset: &[RoleId]) -> String {
    if !step.exact() || blame.role.is_none() {
        return String::new();
    }
    let named = |row: &&RoleRow| Some(row.role) == blame.role || offset.contains(&row.role);
    let rows = || step.roles.iter().filter(|row| !SCHEDULING.contains(&row.role) && row.delta != 0.0);
    let rest = step.verdict.delta - rows().filter(named).map(|row| row.delta).sum::<f64>();
    let count = rows().filter(|row| !named(row)).count() as u64;
    // Without a role that offsets, all others are named.
    if count == 0 || rest.abs() < 0.005 || (offset.is_empty() && rest * blame.delta < 0.0) {
        return String::new();
    }
    format!("; {} {}", counted(count, "other role"), number::signed(rest))
}

/// The counted cells of a step.
fn cells<'a>(section: &'a Section, step: &Step) -> Option<[&'a ExactCell; 2]> {
    let cell = |column: usize| -> Option<&ExactCell> {
        let cell: &Cell = section.cells.get(column)?.as_ref()?;
        cell.exact.as_ref()
    };
    Some([cell(step.from)?, cell(step.to)?])
}

fn differ(a: f64, b: f64) -> bool {
    (a - b).abs() > SMALL * a.max(b) && (a - b).abs() > SMALL
}

/// A total that does not change in the direction of the verdict, or changes more by scheduling than by any role.
pub(crate) struct OtherTotal {
    pub ratio: f64,
    /// `7.2 sleeps more often`, if that carries most of the change.
    pub reason: Option<String>,
}

/// The total of `step`, if it changes in another direction than the verdict, or if scheduling changes it more than any role
/// without scheduling does; and the schedule as the reason.
pub(crate) fn other_total(comparison: &Comparison, section: &Section, step: &Step) -> Option<OtherTotal> {
    let total = step.total.as_ref()?;
    let ratio = total.after / total.before;
    let direction = step.verdict.word.direction().unwrap_or(0.0);
    let change = ratio - 1.0;
    let largest = step.roles.iter().filter(|row| !SCHEDULING.contains(&row.role)).map(|row| row.delta.abs());
    let by_schedule = (total.after - total.before) - step.verdict.delta;
    let most = by_schedule.abs() > largest.fold(0.0, f64::max) && by_schedule * change > 0.0;
    if change.abs() < SMALL_TOTAL || (change * direction > 0.0 && !most) {
        return None;
    }
    let (_, to) = comparison.step_labels(step);
    Some(OtherTotal { ratio, reason: reason(cells(section, step)?, total, to) })
}

/// What carries most of a change of the total with the schedule: how often the processes sleep or are preempted, or what
/// that costs each time.
fn reason([before, after]: [&ExactCell; 2], total: &TotalChange, to: &str) -> Option<String> {
    let change = total.after - total.before;
    let kind = |rates: [f64; 2], costs: [Option<f64>; 2]| {
        // What did not happen has no price.
        let prices = [costs[0].or(costs[1]), costs[1].or(costs[0])].map(Option::unwrap_or_default);
        let number = (rates[1] - rates[0]) / 1024.0 * prices[0].midpoint(prices[1]);
        let price = (prices[1] - prices[0]) / 1024.0 * rates[0].midpoint(rates[1]);
        ([number, price], prices.map(rounded))
    };
    let who = if to == NOW { "it now" } else { to };
    let (sleeps, sleep) = kind([before.sleeps_per_mib, after.sleeps_per_mib], [before.per_sleep, after.per_sleep]);
    let (preemptions, preemption) =
        kind([before.preemptions_per_mib, after.preemptions_per_mib], [before.per_preemption, after.per_preemption]);
    let often = if change > 0.0 { "more" } else { "less" };
    let with = if to == NOW { " now".to_owned() } else { format!(" with {to}") };
    let costs = |what: &str, [old, new]: [String; 2]| format!("{what} costs {new} instructions{with}, before {old}");
    let reasons = [
        (sleeps[0], format!("{who} sleeps {often} often")),
        (preemptions[0], format!("{who} is preempted {often} often")),
        (sleeps[1], costs("a sleep", sleep)),
        (preemptions[1], costs("a preemption", preemption)),
    ];
    let most = reasons.into_iter().max_by(|a, b| (a.0 * change).total_cmp(&(b.0 * change)))?;
    (most.0 * change.signum() > change.abs() / 2.0).then_some(most.1)
}

/// What `rep` instructions moved, the functions in which that changed, and what it would be in plain instructions.
fn moved(rep: &RepChange) -> String {
    let functions = changes(&rep.functions[..rep.functions.len().min(NAMED)]);
    let functions = if functions.is_empty() { functions } else { format!(" ({functions})") };
    let [before, after] = [rep.before, rep.after].map(rounded);
    format!(
        "`rep` instructions: {before} to {after} bytes per KiB{functions}; if each counted once per 8 bytes, {}",
        weighed(rep)
    )
}

/// `+18.2 % (±0.04 %), 744.49 to 879.97 instructions per KiB`.
pub fn weighed(rep: &RepChange) -> String {
    let [before, after] = rep.weighed;
    let change = format!("{}{}", number::change(after / before), number::in_parentheses(rep.uncertainty));
    format!("{change}, {} to {} instructions per KiB", number::exact(before), number::exact(after))
}

/// What scheduling adds to a count: the totals, how often the processes sleep and are preempted, and the cost of each.
fn schedule(section: &Section, step: &Step) -> Option<[String; 2]> {
    let total = step.total.as_ref()?;
    let [before, after] = cells(section, step)?;
    let mut parts = Vec::new();
    for (what, a, b) in [
        ("sleeps", before.sleeps_per_mib, after.sleeps_per_mib),
        ("preemptions", before.preemptions_per_mib, after.preemptions_per_mib),
    ] {
        if differ(a, b) {
            parts.push(format!("{what} per MiB {} to {}", number::rate(a), number::rate(b)));
        }
    }
    if let Some((a, b)) = before.per_sleep.zip(after.per_sleep).filter(|(a, b)| differ(*a, *b)) {
        parts.push(format!("instructions per sleep {} to {}", rounded(a), rounded(b)));
    }
    if parts.is_empty() {
        return None;
    }
    let ratio = number::change(total.after / total.before);
    let mut line =
        format!("with scheduling: {} to {}, {ratio}", number::exact(total.before), number::exact(total.after));
    if let Some(equal) = total.at_equal_schedule {
        let _ =
            write!(line, "; with as many sleeps and preemptions as before, {}", number::change(equal / total.before));
    }
    Some([line, format!("schedule: {}", parts.join(", "))])
}

/// How the second column was judged, if its schedule matters.
fn judged(step: &Step) -> Option<String> {
    let ScheduleChange { counted, uncertainty, unknown } = *step.schedule.as_ref()?;
    let Verdict { before, after, .. } = step.verdict;
    let is_moved = step.roles.iter().any(|row| row.moved);
    let matters = unknown && uncertainty > PART_FLOOR * before;
    let moved = format!(
        "judged with as many sleeps, preemptions and reused pages as before: {} to {}; as counted {} to {}, {}",
        number::exact(before),
        number::exact(after),
        number::exact(before),
        number::exact(counted),
        number::change(counted / before)
    );
    let price = format!(
        "windows do not vary in how often the processes sleep or are preempted, so what that costs is not known: the \
         interval has {} for it",
        number::margin(uncertainty / before)
    );
    let lines = [is_moved.then_some(moved), matters.then_some(price)];
    Some(lines.into_iter().flatten().collect::<Vec<_>>().join("; ")).filter(|line| !line.is_empty())
}

/// Doubt about a small change between two kernels that sleep at very different rates.
fn other_schedule(comparison: &Comparison, section: &Section, step: &Step) -> Option<String> {
    let [before, after] = cells(section, step)?.map(|cell| cell.sleeps_per_mib);
    let (most, least) = (before.max(after), before.min(after));
    if step.schedule.is_some()
        || step.verdict.word.direction().is_none()
        || (step.verdict.ratio - 1.0).abs() > OF_SCHEDULE
        || most < OTHER_SCHEDULE * least
    {
        return None;
    }
    let (from, to) = comparison.step_labels(step);
    let (more, other) = if after > before { (to, from) } else { (from, to) };
    let how = if least > 0.0 {
        format!("{} times as often as {other}", number::count(most / least))
    } else {
        format!("and {other} does not")
    };
    let repeat = if step.pipeline.pipes.is_empty() { "another --warmup" } else { "more --runs" };
    Some(format!(
        "{more} sleeps {how}: different schedules alone have changed counts by up to 5 %, so repeat this with {repeat}"
    ))
}

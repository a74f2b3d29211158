//! The largest contributor to a change: another number of pages, a role, or helpers that many roles call.

use super::model::{Blame, FunctionRow, RolePart, RoleRow, Step};
use super::schedule::MOST_UNLIKE;
use super::sums;
use super::work::{self, PAGES};

/// Functions of a role that are named.
const NAMED: usize = 3;

/// What changed most in the direction of the verdict, among certain changes if counted; `None` if nothing did.
pub fn blame(step: &Step) -> Option<Blame> {
    let direction = step.verdict.word.direction()?;
    let of_work = of_helpers(step, direction).or_else(|| of_role(step, direction));
    let of_number = of_pages(step).filter(|pages| {
        let others = of_work.as_ref().map_or(0.0, |blame| blame.delta - number_within(blame, pages));
        pages.delta * direction > (others * direction).max(0.0)
    });
    of_number.or(of_work)
}

/// What of `blame` is in the number of pages: that of its role.
fn number_within(blame: &Blame, pages: &Blame) -> f64 {
    pages.within.iter().find(|part| Some(part.role) == blame.role).map_or(0.0, |part| part.delta)
}

/// Another number of pages that are allocated, charged, uncharged and freed, at the price of before.
fn of_pages(step: &Step) -> Option<Blame> {
    let number = |row: &RoleRow| {
        let work = row.work.filter(|_| row.certain && work::OF_PAGES.contains(&row.role))?;
        let delta = (work.calls_after - work.calls_before) * work.each_before / 1024.0;
        Some(RolePart { role: row.role, title: row.title.clone(), delta })
    };
    let mut within: Vec<RolePart> = step.roles.iter().filter_map(number).collect();
    within.sort_by(|a, b| b.delta.abs().total_cmp(&a.delta.abs()));
    let allocated = step.roles.iter().find(|row| row.role == work::OF_PAGES[0])?.work?;
    let pages = [allocated.calls_before, allocated.calls_after];
    let freed = step.roles.iter().find(|row| row.role == work::OF_PAGES[1]).and_then(|row| row.work);
    let freed = freed.map_or(pages, |freed| [freed.calls_before, freed.calls_after]);
    // Where several are allocated in a call, the number of calls is not that of pages.
    if pages.iter().zip(freed).any(|(pages, freed)| freed > MOST_UNLIKE * pages) {
        return None;
    }
    let all = |pages: f64| work::is_same(pages, PAGES);
    let title = match pages {
        _ if work::is_same(pages[0], pages[1]) => return None,
        _ if step.page_sizes.is_some_and(|[before, after]| before < after) => "larger pages",
        _ if step.page_sizes.is_some() => "smaller pages",
        [before, after] if after > before && all(after) => "pages that are no longer reused",
        [before, after] if after > before => "more pages that are allocated, not reused",
        [before, _] if all(before) => "pages that are now reused",
        _ => "more pages that are reused",
    };
    Some(Blame {
        title: title.to_owned(),
        delta: within.iter().map(|part| part.delta).sum(),
        pages: Some(pages),
        within,
        ..Blame::default()
    })
}

fn of_helpers(step: &Step, direction: f64) -> Option<Blame> {
    let helpers = sums::helpers(&step.sums, &step.roles, direction);
    let functions: Vec<(String, f64)> =
        helpers.iter().map(|helper| (helper.shown(), helper.without_scheduling())).collect();
    let names: Vec<&str> = functions.iter().map(|(name, _)| name.as_str()).collect();
    (!helpers.is_empty() && step.exact()).then(|| Blame {
        title: names.join(", "),
        delta: functions.iter().map(|(_, delta)| delta).sum(),
        within: sums::together(&helpers),
        functions: functions.clone(),
        ..Blame::default()
    })
}

fn of_role(step: &Step, direction: f64) -> Option<Blame> {
    let row = step
        .roles
        .iter()
        .filter(|row| row.delta * direction > 0.0 && (row.certain || !step.exact()))
        .max_by(|a, b| a.delta.abs().total_cmp(&b.delta.abs()))?;
    let within = || step.functions.iter().filter(|function| function.role == row.role && function.certain);
    // Sum over all processes.
    let mut sums: Vec<(String, f64)> = Vec::new();
    for function in within() {
        let shown = function.shown_with_inlined();
        match sums.iter_mut().find(|(name, _)| *name == shown) {
            Some((_, sum)) => *sum += function.self_delta,
            None => sums.push((shown, function.self_delta)),
        }
    }
    sums.retain(|(_, delta)| delta * direction > 0.0);
    sums.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    sums.truncate(NAMED);
    let explained: f64 = sums.iter().map(|(_, delta)| delta).sum();
    let whole = within()
        .filter(|function| function.inclusive_delta * direction > 0.0)
        .max_by(|a, b| a.inclusive_delta.abs().total_cmp(&b.inclusive_delta.abs()))
        .map(|function: &FunctionRow| (function.shown(), function.inclusive_delta))
        .filter(|_| explained.abs() < row.delta.abs() / 2.0);
    Some(Blame {
        role: Some(row.role),
        title: row.title.clone(),
        delta: row.delta,
        functions: sums,
        whole,
        ..Blame::default()
    })
}

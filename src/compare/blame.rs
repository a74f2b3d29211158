//! The largest contributor to a change: a role, or helpers that many roles call.

use super::model::{Blame, FunctionRow, Step};
use super::sums;

/// Functions of a role that are named.
const NAMED: usize = 3;

/// What changed most in the direction of the verdict, among certain changes if counted; `None` if nothing did.
pub(crate) fn blame(step: &Step) -> Option<Blame> {
    let direction = step.verdict.word.direction()?;
    of_helpers(step, direction).or_else(|| of_role(step, direction))
}

fn of_helpers(step: &Step, direction: f64) -> Option<Blame> {
    let helpers = sums::helpers(&step.sums, &step.roles, direction);
    let functions: Vec<(String, f64)> =
        helpers.iter().map(|helper| (helper.shown(), helper.without_scheduling())).collect();
    let names: Vec<&str> = functions.iter().map(|(name, _)| name.as_str()).collect();
    (!helpers.is_empty() && step.exact()).then(|| Blame {
        role: None,
        title: names.join(", "),
        delta: functions.iter().map(|(_, delta)| delta).sum(),
        within: sums::together(&helpers),
        functions: functions.clone(),
        whole: None,
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
        within: Vec::new(),
        functions: sums,
        whole,
    })
}

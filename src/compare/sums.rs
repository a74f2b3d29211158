//! Functions summed over all roles and processes. A helper that many roles call, such as a lock or a counter, is a small
//! change in each of them and can be the largest change of all.

use super::functions::partners_by_path;
use super::measure::{Key, Measure};
use super::model::{FunctionSum, Method, RolePart, RoleRow};
use super::windows;
use crate::roles::{self, RoleId, SCHEDULING};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rows.
const KEPT: usize = 60;

/// Roles that must call a helper: one of fewer roles is a matter of these roles.
pub(crate) const ROLES: usize = 3;

/// A helper whose change, summed over all roles, is larger than that of any role without it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HelperChange {
    pub name: String,
    /// Without the roles that depend on scheduling.
    pub delta: f64,
    pub roles: Vec<RolePart>,
}

impl FunctionSum {
    /// Both names if they differ: `pipe_write / anon_pipe_write`. A name that both kernels have is given once:
    /// `_raw_spin_lock / rt_spin_lock`, if the second kernel has both.
    #[must_use]
    pub fn shown(&self) -> String {
        let other: Vec<&str> =
            self.after_names.iter().filter(|name| !self.before_names.contains(name)).map(String::as_str).collect();
        match (self.before_names.join("+"), other.join("+")) {
            (before, other) if before.is_empty() || other.is_empty() => format!("{before}{other}"),
            (before, other) => format!("{before} / {other}"),
        }
    }

    /// The change without the roles that depend on scheduling.
    #[must_use]
    pub(crate) fn without_scheduling(&self) -> f64 {
        self.roles.iter().filter(|part| !SCHEDULING.contains(&part.role)).map(|part| part.delta).sum()
    }
}

#[derive(Default)]
struct Sum {
    names: [BTreeSet<String>; 2],
    own: [f64; 2],
    whole: [f64; 2],
    roles: BTreeMap<RoleId, f64>,
}

/// The functions whose self weight changed, largest change first.
#[must_use]
pub(crate) fn sums(before: &Measure, after: &Measure, method: Method) -> Vec<FunctionSum> {
    let partners = partners_by_path(before, after);
    // Another name after, by the name before.
    let renamed: BTreeMap<&str, &str> =
        partners.iter().map(|(old, new)| (new.name.as_str(), old.name.as_str())).collect();
    let one_name = |name: &str| renamed.get(name).copied().unwrap_or(name).to_owned();
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for (side, measure) in [before, after].into_iter().enumerate() {
        let sign = if side == 0 { -1.0 } else { 1.0 };
        for (key, weight) in measure.functions.iter().filter(|(key, _)| key.process.is_of_target()) {
            let sum = sums.entry(one_name(&key.name)).or_default();
            let own = measure.per_kib(key.process, weight.own);
            sum.own[side] += own;
            sum.names[side].extend(weight.names.iter().cloned());
            *sum.roles.entry(key.role).or_default() += sign * own;
        }
    }
    let mut sums: Vec<(String, Sum)> = sums.into_iter().filter(|(_, sum)| sum.own[0] != sum.own[1]).collect();
    let change = |sum: &Sum| (sum.own[1] - sum.own[0]).abs();
    sums.sort_by(|a, b| change(&b.1).total_cmp(&change(&a.1)).then_with(|| a.0.cmp(&b.0)));
    sums.truncate(KEPT);
    let mut kept: BTreeMap<String, Sum> = sums.into_iter().collect();
    for (side, measure) in [before, after].into_iter().enumerate() {
        for (process, part) in measure.processes.of_target() {
            for (stack, weight) in part.stacks.iter() {
                let names: BTreeSet<String> = stack.frames().map(|frame| one_name(roles::canonical(frame))).collect();
                for name in names {
                    if let Some(sum) = kept.get_mut(&name) {
                        sum.whole[side] += measure.per_kib(process, weight);
                    }
                }
            }
        }
    }
    // By run, then by window: the weight of each function without the roles that depend on scheduling.
    let unscheduled = |measure: &Measure| -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        let counted = |key: &Key| key.process.is_of_target() && !SCHEDULING.contains(&key.role);
        for (key, weight) in measure.functions.iter().filter(|(key, _)| counted(key)) {
            *sums.entry(one_name(&key.name)).or_default() += measure.per_kib(key.process, weight.own);
        }
        sums
    };
    let of_windows = [before, after].map(|measure| -> Vec<BTreeMap<String, f64>> {
        std::iter::once(measure).chain(&measure.windows).map(unscheduled).collect()
    });
    let least = windows::least_of_part(before);
    let certain = |name: &str| {
        let value = |window: &BTreeMap<String, f64>| window.get(name).copied().unwrap_or(0.0);
        let width = |windows: &[BTreeMap<String, f64>]| {
            let (low, high) = (windows.iter().map(value).fold(f64::INFINITY, f64::min), windows.iter().map(value));
            high.fold(0.0, f64::max) - low
        };
        let [old, new] = &of_windows;
        (value(&new[0]) - value(&old[0])).abs() > width(old).max(width(new)).max(least)
    };
    let mut rows: Vec<FunctionSum> = kept
        .into_iter()
        .map(|(name, sum)| {
            let [before_names, after_names] = sum.names.map(|names| names.into_iter().collect());
            let part =
                |(role, delta): (RoleId, f64)| RolePart { role, title: roles::by_id(role).title.to_owned(), delta };
            let mut parts: Vec<RolePart> = sum.roles.into_iter().map(part).filter(|part| part.delta != 0.0).collect();
            parts.sort_by(|a, b| b.delta.abs().total_cmp(&a.delta.abs()).then(a.role.cmp(&b.role)));
            FunctionSum {
                before_names,
                after_names,
                self_before: sum.own[0],
                self_after: sum.own[1],
                self_delta: sum.own[1] - sum.own[0],
                total_before: sum.whole[0],
                total_after: sum.whole[1],
                total_delta: sum.whole[1] - sum.whole[0],
                certain: method == Method::Timed || certain(&name),
                roles: parts,
                name,
            }
        })
        .collect();
    rows.sort_by(|a, b| b.self_delta.abs().total_cmp(&a.self_delta.abs()).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// The helpers that changed more than any role did without them, in the direction of the total, largest first. A helper
/// has no role of its own, so its weight counts for its callers' roles.
#[must_use]
pub(crate) fn helpers(sums: &[FunctionSum], roles: &[RoleRow], direction: f64) -> Vec<HelperChange> {
    let changed: Vec<&RoleRow> = roles.iter().filter(|row| !SCHEDULING.contains(&row.role)).collect();
    let mut rest: BTreeMap<RoleId, f64> = changed.iter().map(|row| (row.role, row.delta)).collect();
    let parts = |sum: &FunctionSum| -> Vec<RolePart> {
        sum.roles.iter().filter(|part| !SCHEDULING.contains(&part.role)).cloned().collect()
    };
    let mut candidates: Vec<&FunctionSum> = sums
        .iter()
        .filter(|sum| roles::of_frame(&sum.name).is_none() && sum.certain && sum.without_scheduling() * direction > 0.0)
        .filter(|sum| parts(sum).iter().filter(|part| part.delta * direction > 0.0).count() >= ROLES)
        .collect();
    candidates.sort_by(|a, b| b.without_scheduling().abs().total_cmp(&a.without_scheduling().abs()));
    let mut helpers = Vec::new();
    for sum in candidates {
        let delta = sum.without_scheduling();
        let mut without = rest.clone();
        for part in parts(sum) {
            *without.entry(part.role).or_default() -= part.delta;
        }
        let largest = without.values().map(|delta| delta * direction).fold(0.0, f64::max);
        if delta.abs() <= largest {
            break;
        }
        rest = without;
        helpers.push(HelperChange { name: sum.shown(), delta, roles: parts(sum) });
    }
    helpers
}

/// The change of several helpers together, and its parts by role, largest first.
#[must_use]
pub(crate) fn together(helpers: &[HelperChange]) -> (f64, Vec<RolePart>) {
    let mut parts: BTreeMap<RoleId, RolePart> = BTreeMap::new();
    for part in helpers.iter().flat_map(|helper| &helper.roles) {
        match parts.get_mut(&part.role) {
            Some(sum) => sum.delta += part.delta,
            None => {
                parts.insert(part.role, part.clone());
            }
        }
    }
    let mut parts: Vec<RolePart> = parts.into_values().collect();
    parts.sort_by(|a, b| b.delta.abs().total_cmp(&a.delta.abs()).then(a.role.cmp(&b.role)));
    (helpers.iter().map(|helper| helper.delta).sum(), parts)
}

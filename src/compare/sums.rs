//! Functions summed over all roles and processes. A helper that many roles call, such as a lock or a counter, is a small
//! change in each of them and can be the largest change of all.

use super::exact;
use super::functions::partners_by_path;
use super::measure::Measure;
use super::model::{FunctionSum, Method, RolePart, RoleRow};
use super::stripped;
use crate::roles::{self, RoleId, SCHEDULING};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rows.
const KEPT: usize = 60;

/// Roles that must call a helper: one of fewer roles is a matter of these roles.
const ROLES: usize = 3;

impl FunctionSum {
    /// Both names if they differ: `pipe_write / anon_pipe_write`. A name that both kernels have is given once:
    /// `_raw_spin_lock / rt_spin_lock`, if the second kernel has both.
    pub fn shown(&self) -> String {
        let other: Vec<&str> =
            self.after_names.iter().filter(|name| !self.before_names.contains(name)).map(String::as_str).collect();
        match (self.before_names.join("+"), other.join("+")) {
            (before, other) if before.is_empty() || other.is_empty() => format!("{before}{other}"),
            (before, other) => format!("{before} / {other}"),
        }
    }

    /// The changes of the roles that do not depend on scheduling.
    fn unscheduled(&self) -> impl Iterator<Item = &RolePart> {
        self.roles.iter().filter(|part| !SCHEDULING.contains(&part.role))
    }

    /// Their sum.
    pub fn without_scheduling(&self) -> f64 {
        self.unscheduled().map(|part| part.delta).sum()
    }

    /// Whether it is a helper of several roles: it has none of its own.
    pub(crate) fn is_helper(&self) -> bool {
        self.certain && self.roles.len() >= ROLES && roles::of_frame(&self.name).is_none()
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
pub fn sums(before: &Measure, after: &Measure, method: Method) -> Vec<FunctionSum> {
    let mut partners = partners_by_path(before, after);
    partners.extend(stripped::partners(before, after));
    // Another name after, by the name before.
    let renamed: BTreeMap<&str, &str> =
        partners.iter().map(|(old, new)| (new.name.as_str(), old.name.as_str())).collect();
    let one_name = |name: &str| renamed.get(name).copied().unwrap_or(name).to_owned();
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for (side, measure) in [before, after].into_iter().enumerate() {
        let sign = if side == 0 { -1.0 } else { 1.0 };
        for (key, weight, own) in measure.functions_of_target() {
            let sum = sums.entry(one_name(&key.name)).or_default();
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
    // The weight of each function in the measure and in its windows, without the roles that depend on scheduling.
    let unscheduled = |measure: &Measure| -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for (key, _, own) in measure.functions_of_target().filter(|(key, ..)| !SCHEDULING.contains(&key.role)) {
            *sums.entry(one_name(&key.name)).or_default() += own;
        }
        sums
    };
    let by_name = [before, after].map(|measure| {
        (unscheduled(measure), measure.windows.iter().map(unscheduled).collect::<Vec<BTreeMap<String, f64>>>())
    });
    let total = before.without_scheduling();
    let certain = |name: &str, sum: &Sum| {
        let value = |sums: &BTreeMap<String, f64>| sums.get(name).copied().unwrap_or(0.0);
        let windows = by_name.each_ref().map(|(_, windows)| windows.iter().map(value).collect::<Vec<f64>>());
        let parts = sum.roles.keys().filter(|role| !SCHEDULING.contains(role));
        let doubt = parts.map(|role| exact::doubt_of_part([before, after], *role, sum.own)).fold(0.0, f64::hypot);
        exact::is_certain(
            total,
            by_name.each_ref().map(|(shown, _)| value(shown)),
            ([&windows[0], &windows[1]], before.order),
            doubt,
        )
    };
    let mut rows: Vec<FunctionSum> = kept
        .into_iter()
        .map(|(name, sum)| {
            let certain = method != Method::Exact || certain(&name, &sum);
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
                certain,
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
pub fn helpers<'a>(sums: &'a [FunctionSum], roles: &[RoleRow], direction: f64) -> Vec<&'a FunctionSum> {
    let changed = roles.iter().filter(|row| !SCHEDULING.contains(&row.role));
    let mut rest: BTreeMap<RoleId, f64> = changed.map(|row| (row.role, row.delta)).collect();
    let grows = |part: &&RolePart| part.delta * direction > 0.0;
    let is_cause = |sum: &&FunctionSum| {
        sum.is_helper()
            && sum.without_scheduling() * direction > 0.0
            && sum.unscheduled().filter(grows).count() >= ROLES
    };
    let mut candidates: Vec<&FunctionSum> = sums.iter().filter(is_cause).collect();
    candidates.sort_by(|a, b| b.without_scheduling().abs().total_cmp(&a.without_scheduling().abs()));
    let mut helpers = Vec::new();
    for sum in candidates {
        let mut without = rest.clone();
        for part in sum.unscheduled() {
            *without.entry(part.role).or_default() -= part.delta;
        }
        let largest = without.values().map(|delta| delta * direction).fold(0.0, f64::max);
        if sum.without_scheduling().abs() <= largest {
            break;
        }
        rest = without;
        helpers.push(sum);
    }
    helpers
}

/// The change of several helpers together by role, largest first.
pub fn together(helpers: &[&FunctionSum]) -> Vec<RolePart> {
    let mut parts: Vec<RolePart> = Vec::new();
    for part in helpers.iter().flat_map(|helper| helper.unscheduled()) {
        match parts.iter_mut().find(|known| known.role == part.role) {
            Some(sum) => sum.delta += part.delta,
            None => parts.push(part.clone()),
        }
    }
    parts.sort_by(|a, b| b.delta.abs().total_cmp(&a.delta.abs()).then(a.role.cmp(&b.role)));
    parts
}

//! Kernels of two processors: their instructions are not compared, because one of x86-64 does what several of arm64 do, or the
//! other way round. What the kernel does is: calls, pages, wake-ups, sleeps, and the shares of roles.

use super::case::CaseMeasure;
use super::measure::{Measure, as_f64};
use super::model::Verdict;
use crate::report::number;
use crate::roles::{self, RoleId, SCHEDULING};
use std::collections::BTreeSet;

/// Counts of these roles are compared: what one is called.
const COUNTED: [(RoleId, &str); 3] =
    [(RoleId::PageAlloc, "pages allocated"), (RoleId::MemcgCharge, "pages charged"), (RoleId::WakeUp, "wake-ups")];

/// Roles whose shares are named: the largest.
const MOST: usize = 4;

/// Whether the kernels of both sides are of different processors.
pub(super) fn differ([before, after]: [&CaseMeasure; 2]) -> bool {
    let machines = [&before.kernel.machine, &after.kernel.machine];
    machines.iter().all(|machine| !machine.is_empty()) && machines[0] != machines[1]
}

/// The verdict on counts of two processors: none, with what can be compared. `profiles`: of the schedules that were counted.
pub(super) fn verdict(sides: [&CaseMeasure; 2], profiles: [&Measure; 2]) -> Verdict {
    let mib =
        |side: &CaseMeasure| side.first().map_or(1.0, |(_, first)| as_f64(first.bytes.max(1)) / f64::from(1 << 20));
    let both = |what: &str, [before, after]: [f64; 2]| {
        let [before, after] = [before, after].map(number::exact);
        if before == after { format!("{what} {before}") } else { format!("{what} {before} and {after}") }
    };
    let mut counts = vec![both("calls of the writer", sides.map(|side| as_f64(side.first_calls()) / mib(side)))];
    for (role, what) in COUNTED {
        let calls = sides.map(|side| side.calls.of_role(role));
        if let [Some(before), Some(after)] = calls {
            counts.push(both(what, [before, after]));
        }
    }
    counts.push(both("sleeps", sides.map(|side| as_f64(side.sleeps()) / mib(side))));
    Verdict::none(&format!(
        "per MiB, {}; largest shares of the instructions without scheduling: {}",
        counts.join(", "),
        shares(profiles).join(", ")
    ))
}

/// `copy in 49 % and 3 %`: roles by their larger share.
fn shares(profiles: [&Measure; 2]) -> Vec<String> {
    let share = |profile: &Measure, role| profile.of_role(role) / profile.without_scheduling().max(f64::MIN_POSITIVE);
    let all: BTreeSet<RoleId> = profiles.iter().flat_map(|profile| profile.roles()).collect();
    let all = all.into_iter().filter(|role| !SCHEDULING.contains(role));
    let mut rows: Vec<(RoleId, [f64; 2])> =
        all.map(|role| (role, profiles.map(|profile| share(profile, role)))).collect();
    let larger = |row: &(RoleId, [f64; 2])| row.1[0].max(row.1[1]);
    rows.sort_by(|a, b| larger(b).total_cmp(&larger(a)));
    let text = |(role, shares): &(RoleId, [f64; 2])| {
        let [before, after] = shares.map(|share| format!("{:.0} %", share * 100.0));
        format!("{} {before} and {after}", roles::by_id(*role).title)
    };
    rows.iter().take(MOST).map(text).collect()
}

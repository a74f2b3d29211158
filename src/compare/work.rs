//! Split the change of a role into how often its functions are called and what one call costs.

use super::measure::as_f64;
use super::model::{RoleRow, RoleWork, WorkUnit};
use crate::result::Document;
use crate::roles::RoleId;
use std::collections::BTreeMap;

/// Calls per MiB below which a role is not split: the cost of such a call is a matter of chance.
const FEW: f64 = 1.0;

/// Numbers are the same within this part of the pages.
const SMALL: f64 = 0.001;

/// Roles with work for each page that is allocated, and none for one that is reused. The first is its allocation.
pub(crate) const OF_PAGES: [RoleId; 4] =
    [RoleId::PageAlloc, RoleId::PageFree, RoleId::MemcgCharge, RoleId::MemcgUncharge];

/// The unit of `role`, which the processes enter `calls` times per MiB, before and after.
fn unit(role: RoleId, calls: [f64; 2]) -> WorkUnit {
    match role {
        RoleId::WakeUp => WorkUnit::WakeUp,
        // Pipes allocate, charge and free single pages.
        role if OF_PAGES.contains(&role) => WorkUnit::Page,
        // Small reads and writes copy parts of pages, and vmsplice gets several pages at once.
        RoleId::CopyIn | RoleId::CopyOut | RoleId::PipeBuffers | RoleId::UserPages
            if calls.iter().all(|calls| is_same(*calls, PAGES)) =>
        {
            WorkUnit::Page
        }
        _ => WorkUnit::Call,
    }
}

/// Whether two numbers per MiB are the same.
pub fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= SMALL * PAGES
}

/// Pages per MiB.
pub const PAGES: f64 = 256.0;

/// How often the functions of each role are called, per MiB.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoleCalls {
    /// By functions outside of the role; wake-ups, if the role is that. Only roles whose calls were counted.
    roles: BTreeMap<RoleId, f64>,
    /// Of the first process: pages that it copies, and those that it allocates.
    pages: Option<[f64; 2]>,
}

impl RoleCalls {
    pub fn of(document: &Document) -> Self {
        let mib = as_f64(document.processes.first().bytes.max(1)) / f64::from(1 << 20);
        let (mut entered, mut wake_ups) = (BTreeMap::<RoleId, u64>::new(), None);
        for share in document.attribution.of_target() {
            if let Some(calls) = share.entered {
                *entered.entry(share.role).or_default() += calls;
            }
            // Other functions of the role, such as `kill_fasync`, wake up nobody.
            if let Some(calls) = share.calls_per_mib.filter(|_| share.role == RoleId::WakeUp) {
                *wake_ups.get_or_insert(0.0) += calls;
            }
        }
        let mut roles: BTreeMap<RoleId, f64> =
            entered.into_iter().map(|(role, calls)| (role, as_f64(calls) / mib)).collect();
        roles.remove(&RoleId::WakeUp);
        roles.extend(wake_ups.map(|calls| (RoleId::WakeUp, calls)));
        let first = document.processes.totals.names().next();
        let of_first = |role| {
            let share = document.attribution.of(first?).iter().find(|share| share.role == role)?;
            Some(as_f64(share.entered?) / mib)
        };
        Self { roles, pages: of_first(RoleId::CopyIn).zip(of_first(RoleId::PageAlloc)).map(|(a, b)| [a, b]) }
    }

    /// Those of a role, if they were counted.
    pub(super) fn of_role(&self, role: RoleId) -> Option<f64> {
        self.roles.get(&role).copied()
    }

    /// The same with these changes of the calls.
    pub fn with(&self, changes: &BTreeMap<RoleId, f64>) -> Self {
        let mut changed = self.clone();
        for (role, calls) in &mut changed.roles {
            *calls += changes.get(role).copied().unwrap_or(0.0);
        }
        changed
    }
}

/// Enter the calls in the rows of the roles that both called. `factor`: what a role's instructions after are multiplied by, to
/// be those of the schedule before; its calls are, too.
pub fn enter(rows: &mut [RoleRow], both: [&RoleCalls; 2], factor: &dyn Fn(RoleId) -> f64) {
    for row in rows {
        let calls = both.map(|calls| calls.roles.get(&row.role).copied().filter(|calls| *calls >= FEW));
        if let [Some(calls_before), Some(calls_after)] = calls {
            let calls_after = calls_after * if row.moved { factor(row.role) } else { 1.0 };
            row.work = Some(RoleWork {
                unit: unit(row.role, [calls_before, calls_after]),
                calls_before,
                calls_after,
                each_before: row.before * 1024.0 / calls_before,
                each_after: row.after * 1024.0 / calls_after,
            });
        }
    }
}

/// Pages of 256 that were allocated, before and after, if that differs: the others are pages that the pipe had kept.
pub(crate) fn cached_pages(both: [&RoleCalls; 2]) -> Option<[f64; 2]> {
    let [Some([copied, before]), Some([again, after])] = both.map(|calls| calls.pages) else { return None };
    // Pages are copied one by one, in both.
    let one_by_one = is_same(copied, PAGES) && is_same(again, PAGES) && before.max(after) <= copied;
    (one_by_one && !is_same(before, after)).then_some([before, after])
}

//! Split the change of a role into how often its functions are called and what one call costs.

use super::measure::as_f64;
use super::model::{RoleRow, RoleWork, WorkUnit};
use crate::profile::ProcessName;
use crate::report::number;
use crate::result::Outcome;
use crate::roles::RoleId;

/// Calls per MiB below which a role is not split: the cost of such a call is a matter of chance.
const FEW: f64 = 1.0;

/// Changes below this part are not worth a sentence.
const SMALL: f64 = 0.001;

impl WorkUnit {
    /// To follow "per".
    #[must_use]
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Page => "page",
            Self::WakeUp => "wake-up",
        }
    }

    /// The unit of `role`, which the processes enter `calls` times per MiB, before and after.
    fn of(role: RoleId, calls: [f64; 2]) -> Self {
        match role {
            RoleId::WakeUp => Self::WakeUp,
            // Pipes allocate, charge and free single pages.
            RoleId::PageAlloc | RoleId::PageFree | RoleId::MemcgCharge | RoleId::MemcgUncharge => Self::Page,
            // Small reads and writes copy parts of pages, and vmsplice gets several pages at once.
            RoleId::CopyIn | RoleId::CopyOut | RoleId::PipeBuffers | RoleId::UserPages
                if calls.iter().all(|calls| (calls - PAGES).abs() < SMALL * PAGES) =>
            {
                Self::Page
            }
            _ => Self::Call,
        }
    }
}

/// Pages per MiB.
const PAGES: f64 = 256.0;

/// Calls of `role` per MiB by functions of other roles, by `process` or by all of the target; `None` if not counted.
#[must_use]
pub(crate) fn calls_per_mib(outcome: &Outcome, role: RoleId, process: Option<ProcessName>) -> Option<f64> {
    let document = &outcome.document;
    let wanted = |name: &ProcessName| process.is_none_or(|process| process == *name);
    let shares = document.attribution.processes.of_target().filter(|(name, _)| wanted(name));
    let shares = shares.flat_map(|(_, shares)| shares).filter(|share| share.role == role);
    let calls: Vec<u64> = shares.filter_map(|share| share.entered).collect();
    let mib = as_f64(document.processes.first().bytes.max(1)) / f64::from(1 << 20);
    (!calls.is_empty()).then(|| as_f64(calls.iter().sum()) / mib)
}

/// Wake-ups per MiB; `None` if not counted. Other functions of the role, such as `kill_fasync`, wake up nobody.
fn wake_ups_per_mib(outcome: &Outcome) -> Option<f64> {
    let shares = outcome.document.attribution.of_target().filter(|share| share.role == RoleId::WakeUp);
    let calls: Vec<f64> = shares.filter_map(|share| share.calls_per_mib).collect();
    (!calls.is_empty()).then(|| calls.iter().sum())
}

/// Enter the calls of `runs` in the rows of the roles that both called.
pub(crate) fn enter(rows: &mut [RoleRow], runs: [&Outcome; 2]) {
    for row in rows {
        let calls = runs.map(|run| match row.role {
            RoleId::WakeUp => wake_ups_per_mib(run),
            role => calls_per_mib(run, role, None),
        });
        if let [Some(calls_before), Some(calls_after)] = calls.map(|calls| calls.filter(|calls| *calls >= FEW)) {
            row.work = Some(RoleWork {
                unit: WorkUnit::of(row.role, [calls_before, calls_after]),
                calls_before,
                calls_after,
                each_before: row.before * 1024.0 / calls_before,
                each_after: row.after * 1024.0 / calls_after,
            });
        }
    }
}

impl RoleWork {
    /// `14.0 % fewer pages, each +4.0 %`.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let noun = format!("{}s", self.unit.text());
        let calls = self.calls_after / self.calls_before - 1.0;
        let calls = match calls {
            calls if calls.abs() < SMALL => format!("as many {noun}"),
            calls if calls < 0.0 => format!("{:.1} % fewer {noun}", -100.0 * calls),
            calls => format!("{:.1} % more {noun}", 100.0 * calls),
        };
        let each = self.each_after / self.each_before;
        match (each - 1.0).abs() < SMALL {
            true => format!("{calls}, each as before"),
            false => format!("{calls}, each {}", number::change(each)),
        }
    }
}

/// How many of the moved pages were allocated, if that differs: the others are pages that the pipe had kept.
#[must_use]
pub(crate) fn cached_pages(runs: [&Outcome; 2]) -> Option<String> {
    let of = |run: &Outcome| {
        let writer = run.document.processes.totals.names().next()?;
        let calls = |role| calls_per_mib(run, role, Some(writer));
        Some((calls(RoleId::CopyIn)?, calls(RoleId::PageAlloc)?))
    };
    let [(copied, before), (again, after)] = [of(runs[0])?, of(runs[1])?];
    // Pages are copied one by one, in both.
    let pages = PAGES;
    if (copied - pages).abs() > SMALL * pages || (again - pages).abs() > SMALL * pages || before.max(after) > copied {
        return None;
    }
    let differ = (before - after).abs() > SMALL * pages;
    differ.then(|| {
        format!(
            "Of {pages} pages per MiB, {} are allocated, before {}. The others are pages that the pipe keeps after they \
             are read, and uses again.",
            number::count(after),
            number::count(before)
        )
    })
}

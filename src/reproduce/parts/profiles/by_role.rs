//! Two profiles side by side, role by role, with the reason for each large difference.

use crate::document::Outcome;
use crate::profile::Folded;
use crate::reproduce::reasons::{self, Ours};
use crate::reproduce::stacks;
use crate::roles::{self, RoleId, Skid};

/// Differences from this many points on are explained.
pub const LARGE_POINTS: f64 = 3.0;

/// The columns of [`rows`].
pub const HEADER: [&str; 6] =
    ["role", "theirs, %", "ours, % of time", "difference", "ours, % of instructions", "reason"];

/// Of which these are the second, the fourth and the fifth.
pub const THEIRS: usize = 1;
pub const DIFFERENCE: usize = 3;
pub const COUNTED: usize = 4;

/// One row per role that any of the profiles has, largest first; roles in `without` are left out. Of `sampled`, the
/// stacks to compare stand beside the run that they are of.
#[must_use]
pub fn rows(
    theirs: &Folded,
    sampled: Option<(&Outcome, &Folded)>,
    exact: Option<&Folded>,
    without: &[RoleId],
) -> Vec<Vec<String>> {
    let theirs_by_role = stacks::by_role(theirs, Skid::None);
    let ours = sampled.map(|(outcome, stacks)| stacks::by_role(stacks, stacks::skid(&outcome.document)));
    let counts = exact.map(|stacks| stacks::by_role(stacks, Skid::None));
    let mut rows = Vec::new();
    for role in roles::all().iter().filter(|role| !without.contains(&role.id)) {
        let their = theirs_by_role.get(&role.id).copied().unwrap_or_default();
        let our = ours.as_ref().map(|shares| shares.get(&role.id).copied().unwrap_or_default());
        let count = counts.as_ref().map(|shares| shares.get(&role.id).copied().unwrap_or_default());
        if their < 0.05 && our.unwrap_or_default() < 0.05 && count.unwrap_or_default() < 0.05 {
            continue;
        }
        let reason = match (sampled, our) {
            (Some((outcome, stacks)), Some(our)) if (our - their).abs() >= LARGE_POINTS => {
                reasons::reason(role.id, theirs, &Ours::of(&outcome.document, stacks))
            }
            _ => String::new(),
        };
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        let difference = our.map_or_else(|| "-".to_owned(), |our| format!("{:+.1}", our - their));
        let row = vec![role.title.to_owned(), show(Some(their)), show(our), difference, show(count), reason];
        rows.push((their.max(our.unwrap_or_default()), row));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

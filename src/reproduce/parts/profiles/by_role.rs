//! Two profiles compared role by role, with the reason for each large difference.

use crate::document::Outcome;
use crate::profile::Folded;
use crate::reproduce::reasons::{self, OurProfile};
use crate::reproduce::stacks;
use crate::roles::{self, RoleId, Skid};

/// Differences of this many percentage points or more are explained.
pub const LARGE_POINTS: f64 = 3.0;

/// The columns of [`rows`].
pub const HEADER: [&str; 6] =
    ["role", "article, %", "measured, % of time", "difference", "measured, % of instructions", "reason"];

/// The indices of the second, the fourth and the fifth.
pub const ARTICLE: usize = 1;
pub const DIFFERENCE: usize = 3;
pub const INSTRUCTIONS: usize = 4;

/// One row per role that any of the profiles has, largest first; roles in `without` are left out. `sampled` are the run and
/// those of its stacks that are compared.
#[must_use]
pub fn rows(
    article: &Folded,
    sampled: Option<(&Outcome, &Folded)>,
    exact: Option<&Folded>,
    without: &[RoleId],
) -> Vec<Vec<String>> {
    let before = stacks::by_role(article, Skid::None);
    let times = sampled.map(|(outcome, stacks)| stacks::by_role(stacks, stacks::skid(&outcome.document)));
    let counts = exact.map(|stacks| stacks::by_role(stacks, Skid::None));
    let mut rows = Vec::new();
    for role in roles::all().iter().filter(|role| !without.contains(&role.id)) {
        let before = before.get(&role.id).copied().unwrap_or_default();
        let time = times.as_ref().map(|shares| shares.get(&role.id).copied().unwrap_or_default());
        let count = counts.as_ref().map(|shares| shares.get(&role.id).copied().unwrap_or_default());
        if [before, time.unwrap_or_default(), count.unwrap_or_default()].iter().all(|share| *share < 0.05) {
            continue;
        }
        let reason = match (sampled, time) {
            (Some((outcome, stacks)), Some(time)) if (time - before).abs() >= LARGE_POINTS => {
                reasons::reason(role.id, article, &OurProfile::of(&outcome.document, stacks))
            }
            _ => String::new(),
        };
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        let difference = time.map_or_else(|| "-".to_owned(), |time| format!("{:+.1}", time - before));
        let row = vec![role.title.to_owned(), show(Some(before)), show(time), difference, show(count), reason];
        rows.push((before.max(time.unwrap_or_default()), row));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

//! Profiles by role, next to each other.

use crate::reproduce::parts::shared::prelude::*;
use crate::reproduce::reasons::{self, MeasuredProfile};
use crate::roles;
use crate::util::text::signed;

/// Differences of this many percentage points or more are explained.
pub(super) const LARGE_POINTS: f64 = 3.0;

/// One row per role that any of the profiles has, largest first; roles in `without` are left out. `sampled` are the run and
/// those of its stacks that are compared.
pub(super) fn rows(
    article: &Folded,
    sampled: Option<(&Outcome, &Folded)>,
    exact: Option<&Folded>,
    without: &[RoleId],
) -> Vec<Vec<String>> {
    let before = stacks::shares(article, Skid::None);
    let times = sampled.map(|(outcome, stacks)| stacks::shares(stacks, stacks::skid(&outcome.document)));
    let counts = exact.map(|stacks| stacks::shares(stacks, Skid::None));
    let mut rows = Vec::new();
    for role in roles::all().iter().filter(|role| !without.contains(&role.id)) {
        let percent = |shares: &BTreeMap<RoleId, f64>| shares.get(&role.id).copied().unwrap_or_default() * 100.0;
        let (before, time, count) = (percent(&before), times.as_ref().map(percent), counts.as_ref().map(percent));
        if [before, time.unwrap_or_default(), count.unwrap_or_default()].iter().all(|share| *share < 0.05) {
            continue;
        }
        let reason = match (sampled, time) {
            (Some((outcome, stacks)), Some(time)) if (time - before).abs() >= LARGE_POINTS => {
                reasons::reason(role.id, article, &MeasuredProfile::of(&outcome.document, stacks))
            }
            _ => String::new(),
        };
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        let difference = time.map_or_else(|| "-".to_owned(), |time| signed(time - before));
        let row = vec![role.title.to_owned(), show(Some(before)), show(time), difference, show(count), reason];
        rows.push((before.max(time.unwrap_or_default()), row));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

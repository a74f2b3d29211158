//! The table of instructions and estimated cycles.

use super::layout::{TextTable, wrap};
use crate::compare::model::{CycleDelta, CycleWord, Step};
use crate::compare::text;

/// What the table shows.
pub(crate) const MEANING: &str = "\"undecided\": instructions and cycles change in different directions, or the range \
                                  of the cycles, with all weights halved to doubled, contains 0. Estimated cycles are \
                                  not time.";

/// Changes of instructions and of estimated cycles side by side, for the `shown` roles that changed most. Nothing if
/// cycles are not known or nothing changed.
pub(crate) fn table(step: &Step, shown: usize, width: usize) -> String {
    let Some(cycles) = &step.cycles else { return String::new() };
    let changed = |change: &CycleDelta| change.instructions != 0.0 || change.range != [0.0; 2];
    if !changed(&cycles.without_scheduling) {
        return String::new();
    }
    let header = ["change per KiB", "instructions", "estimated cycles", "both"];
    let mut table = TextTable::new(header.map(str::to_owned).to_vec());
    let mut row = |title: &str, change: &CycleDelta| {
        table.row(vec![
            title.to_owned(),
            text::signed(change.instructions),
            range(change.range),
            change.word.map_or("", CycleWord::text).to_owned(),
        ]);
    };
    row("without scheduling", &cycles.without_scheduling);
    for role in cycles.roles.iter().filter(|role| changed(&role.change)).take(shown) {
        row(&role.title, &role.change);
    }
    let mut out = format!("\n{}", table.render(width, 2));
    out.push_str(&wrap(&format!("Cycles by the model {}. {MEANING}", cycles.model), width, 2, ""));
    out
}

/// `+9.10 to +36.4`; one value if both ends are the same.
pub(crate) fn range([low, high]: [f64; 2]) -> String {
    let [low, high] = [low, high].map(text::signed);
    if low == high { low } else { format!("{low} to {high}") }
}

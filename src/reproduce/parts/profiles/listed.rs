//! Article A lists frames of its call graphs with their shares. These shares are turned into stacks: what a frame has beyond
//! the frames listed below it is its own.

use super::by_role::{LARGE_POINTS, rows};
use crate::reproduce::parts::data::ProfilesData;
use crate::reproduce::parts::ladder::rungs;
use crate::reproduce::parts::shared::prelude::*;
use crate::roles;

/// A table by role for each graph of article A.
pub(crate) fn add(lab: &Lab<'_>, facts: &Facts, data: &ProfilesData, out: &mut PartOutput) -> Result<()> {
    for (rung, graph) in &data.rungs {
        let Some(listed) = facts.table(graph) else { continue };
        let Some(sampled) = rungs::profile(lab, rung)? else { continue };
        let article = stacks::listed(listed);
        let (measured, rows) = match &sampled {
            Ok(outcome) => {
                let whole = whole(outcome, listed);
                let mut rows = rows(&article, Some((outcome, &whole)), None, &[RoleId::User]);
                for row in &mut rows {
                    name_functions(row, outcome, listed, whole.total());
                }
                (format!("{} on Linux {}", counted(whole.total(), "sample"), outcome.document.kernel.release), rows)
            }
            Err(Missing { why, command }) => {
                out.notes.push(format!("No profile of rung {rung}: {why}. Command for another machine: {command}"));
                ("not available".to_owned(), rows(&article, None, None, &[RoleId::User]))
            }
        };
        let shares = listed.rows.iter().filter(|row| row.value.is_some() && !stacks::again(row)).count();
        let mut table = data.listed.table(&[
            ("rung", rung.clone()),
            ("shares", shares.to_string()),
            ("measured", measured),
            ("large", LARGE_POINTS.to_string()),
        ]);
        table.rows = rows.into_iter().map(without_instructions).collect();
        out.tables.push(table);
    }
    Ok(())
}

/// The stacks of the writer, cut like the article's, in a whole with the reader's samples.
fn whole(outcome: &Outcome, listed: &ArticleTable) -> Folded {
    let mut whole = Folded::new();
    for profile in &outcome.profiles {
        match profile.process {
            ProcessName::WRITER => {
                for (frames, weight) in cut(profile, listed) {
                    whole.add_stack(frames, weight);
                }
            }
            ProcessName::READER => whole.add(stacks::UNLISTED, profile.stacks.total()),
            _ => {}
        }
    }
    whole
}

/// The stacks of `profile`, each cut below the frames that `listed` lists.
fn cut<'a>(profile: &'a Profile, listed: &'a ArticleTable) -> impl Iterator<Item = (Vec<&'a str>, u64)> + 'a {
    let attributor = Attributor::new(&profile.stacks, profile.skid);
    profile.stacks.iter().map(move |(stack, weight)| (stacks::as_listed(stack.frames(), attributor, listed), weight))
}

/// Add to a reason the two largest functions of this machine below the frames at which the article ends.
fn name_functions(row: &mut [String], outcome: &Outcome, listed: &ArticleTable, samples: u64) {
    let Some((title, reason)) = row.split_first_mut().and_then(|(title, rest)| Some((title, rest.last_mut()?))) else {
        return;
    };
    if reason.is_empty() {
        return;
    }
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for profile in outcome.profiles.iter().filter(|profile| profile.process == ProcessName::WRITER) {
        let attributor = Attributor::new(&profile.stacks, profile.skid);
        for ((stack, weight), (cut, _)) in profile.stacks.iter().zip(cut(profile, listed)) {
            if attributor.place_frames(cut.into_iter()).role.title == title {
                *own.entry(roles::base_name(stack.leaf())).or_default() += weight;
            }
        }
    }
    let mut own: Vec<(&str, u64)> = own.into_iter().collect();
    own.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let share = |weight: u64| weight as f64 / samples.max(1) as f64 * 100.0;
    let large = own.iter().take(2).filter(|(_, weight)| share(*weight) >= 1.0);
    let named: Vec<String> = large.map(|(name, weight)| format!("{name} {:.1} %", share(*weight))).collect();
    if !named.is_empty() {
        reason.push_str(&format!("; largest functions on this machine: {}", named.join(", ")));
    }
}

/// A row without instructions, which are not counted for the article's rungs.
fn without_instructions(mut row: Vec<String>) -> Vec<String> {
    row.remove(4);
    if row[1] == "0.0" {
        row[1] = "not listed".to_owned();
        row[3] = "-".to_owned();
    }
    row
}

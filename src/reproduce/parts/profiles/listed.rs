//! Article A: of its call graphs only the frames that it lists are known, with the share of each. They are stacks
//! nevertheless: what a frame has beyond the frames listed below it is its own.

use super::by_role::{COUNTED, DIFFERENCE, HEADER, LARGE_POINTS, THEIRS, rows};
use crate::document::Outcome;
use crate::profile::{Attributor, Folded, ProcessName};
use crate::reproduce::facts::{Facts, Table};
use crate::reproduce::lab::Lab;
use crate::reproduce::parts::ladder;
use crate::reproduce::result::{ExtraTable, Yield};
use crate::reproduce::stacks;
use crate::roles::{self, RoleId};
use anyhow::Result;
use std::collections::BTreeMap;

/// The rungs whose graphs the article lists.
const RUNGS: [&str; 3] = ["1", "3", "4"];

/// A table by role for each graph of article A.
///
/// # Errors
/// On interruption, or when results cannot be kept.
pub fn add(lab: &Lab<'_>, facts: &Facts, out: &mut Yield) -> Result<()> {
    for rung in RUNGS {
        let Some(listed) = facts.table(&format!("A.graph.{rung}")) else { continue };
        let Some(sampled) = ladder::profile(lab, rung)? else { continue };
        let theirs = stacks::listed(listed);
        let table = match &sampled {
            Ok(outcome) => {
                let mut whole = Folded::new();
                let mut samples = 0;
                for profile in &outcome.profiles {
                    match profile.process {
                        ProcessName::WRITER => {
                            let attributor = Attributor::new(&profile.stacks, profile.skid);
                            for (stack, weight) in profile.stacks.iter() {
                                whole.add(stacks::as_listed(stack, attributor, listed), weight);
                            }
                        }
                        ProcessName::READER => whole.add(stacks::UNLISTED, profile.stacks.total()),
                        _ => continue,
                    }
                    samples += profile.stacks.total();
                }
                let release = &outcome.document.kernel.release;
                let mut rows = rows(&theirs, Some((outcome, &whole)), None, &[RoleId::User]);
                for row in &mut rows {
                    name_functions(row, outcome, listed, samples);
                }
                table(listed, rung, &format!("{samples} samples on {release}"), rows)
            }
            Err(missing) => {
                out.notes.push(format!(
                    "No profile of rung {rung}: {}. For a machine that can: {}",
                    missing.why, missing.command
                ));
                table(listed, rung, "none", rows(&theirs, None, None, &[RoleId::User]))
            }
        };
        out.tables.push(table);
    }
    Ok(())
}

/// Add to a reason what our profile has below the frames that the article ends at: its two largest functions.
fn name_functions(row: &mut [String], outcome: &Outcome, listed: &Table, samples: u64) {
    let Some((title, reason)) = row.split_first_mut().and_then(|(title, rest)| Some((title, rest.last_mut()?))) else {
        return;
    };
    if reason.is_empty() {
        return;
    }
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for profile in outcome.profiles.iter().filter(|profile| profile.process == ProcessName::WRITER) {
        let attributor = Attributor::new(&profile.stacks, profile.skid);
        for (stack, weight) in profile.stacks.iter() {
            if attributor.place(&stacks::as_listed(stack, attributor, listed)).role.title == title {
                *own.entry(roles::base_name(stack.rsplit(';').next().unwrap_or(stack))).or_default() += weight;
            }
        }
    }
    let mut own: Vec<(&str, u64)> = own.into_iter().collect();
    own.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let share = |weight: u64| weight as f64 / samples.max(1) as f64 * 100.0;
    let large = own.iter().take(2).filter(|(_, weight)| share(*weight) >= 1.0);
    let named: Vec<String> = large.map(|(name, weight)| format!("{name} {:.1} %", share(*weight))).collect();
    if !named.is_empty() {
        reason.push_str(&format!("; here in {}", named.join(", ")));
    }
}

fn table(listed: &Table, rung: &str, ours: &str, rows: Vec<Vec<String>>) -> ExtraTable {
    let note = format!(
        "The writer's part, in per cent of all samples of writer and reader. Theirs: made of the {} shares that article A \
         lists (there are no stacks of it), each frame without those listed below it; what it does not list is in the role \
         of the frame above. Ours: {ours}, cut off below the frames that it lists. Reasons are given from {LARGE_POINTS} points on.",
        listed.rows.iter().filter(|row| row.value.is_some() && !stacks::again(row)).count()
    );
    // Without the column of instructions: the article's rungs are counted in no guest here.
    let header: Vec<&str> = HEADER.iter().enumerate().filter(|(column, _)| *column != COUNTED).map(|c| *c.1).collect();
    let mut table = ExtraTable::new(format!("By role: article A, rung {rung}"), &header, note);
    for mut row in rows {
        row.remove(COUNTED);
        if row.get(THEIRS).is_some_and(|theirs| theirs == "0.0") {
            row[THEIRS] = "not listed".to_owned();
            row[DIFFERENCE] = "-".to_owned();
        }
        table.rows.push(row);
    }
    table
}

//! Show what changed between two recordings.

use super::change::samples::ShareChange;
use super::change::{PipeChange, RecordingChange, RoleChange, SideChange, StageChange, ratio};
use crate::report::block::{self, ReportBlock};
use crate::report::number::{millions, number, percent};
use crate::report::table::{Table, TableCell};
use crate::report::terminal::Style;
use crate::roles;
use crate::util::text::{grouped, signed};

/// Rows of the table of roles.
const ROWS: usize = 16;

/// From this increase on, it is given as a multiple.
const MANY_TIMES: f64 = 9.0;

/// Roles that change by less than this part of all instructions are left out.
const SMALL: f64 = 0.001;

/// Shares that change by less are left out.
const SMALL_SHARE: f64 = 0.005;

/// For a terminal.
#[must_use]
pub(crate) fn render(change: &RecordingChange, style: Style) -> String {
    block::text(&blocks(change), style)
}

/// The answer, then the tables.
#[must_use]
pub(crate) fn blocks(change: &RecordingChange) -> Vec<ReportBlock> {
    let cautions = change.cautions.iter().cloned().map(ReportBlock::Note);
    let mut blocks: Vec<ReportBlock> =
        cautions.chain(change.findings.iter().cloned().map(ReportBlock::Sentence)).collect();
    let [before, after] = &change.names;
    blocks.push(ReportBlock::Note(format!("Before: {before}. After: {after}.")));
    let mut tables = Vec::new();
    if let Some(sum) = change.sum() {
        let total = (change.stages.len() > 1).then_some(&sum);
        tables.push(stage_table(change.stages.iter().chain(total)));
        let least = SMALL * sum.instructions[0] as f64;
        let large = |role: &&RoleChange| role.difference().unsigned_abs() as f64 >= least;
        tables.push(role_table(change.roles.iter().filter(large).take(ROWS)));
    }
    tables.push(share_table(change.shares.iter().filter(|one| one.difference().abs() >= SMALL_SHARE).take(ROWS)));
    tables.push(pipe_table(&change.pipes));
    blocks.extend(tables.into_iter().filter(|table| !table.is_empty()).map(ReportBlock::Table));
    blocks
}

fn change_of(pair: [u64; 2]) -> Option<TableCell> {
    Some(TableCell::Figure(match ratio(pair) {
        _ if pair[0] == 0 => return None,
        many if many >= MANY_TIMES => format!("{:.0} times", many + 1.0),
        change => format!("{} %", signed(100.0 * change)),
    }))
}

fn stage_table<'a>(stages: impl Iterator<Item = &'a StageChange>) -> Table {
    Table::of("Instructions", stages)
        .column("stage", |row| &row.name[..])
        .less(1, "before", |row| TableCell::Figure(millions(row.instructions[0])))
        .less(1, "after", |row| TableCell::Figure(millions(row.instructions[1])))
        .column("change", |row| change_of(row.instructions))
        .column("without scheduling", |row| change_of(row.without_scheduling))
        .done()
}

fn role_table<'a>(roles: impl Iterator<Item = &'a RoleChange>) -> Table {
    let signed = |row: &RoleChange| {
        let sign = if row.difference() < 0 { "-" } else { "+" };
        TableCell::Figure(format!(
            "{sign}{}",
            grouped(u64::try_from(row.difference().unsigned_abs()).unwrap_or(u64::MAX))
        ))
    };
    Table::of("Roles, largest difference first", roles)
        .column("role", |row| TableCell::role(roles::by_id(row.role)))
        .less(1, "before", |row| row.instructions[0])
        .less(1, "after", |row| row.instructions[1])
        .column("difference", |row| signed(row))
        .column("change", |row| change_of(row.instructions))
        .column("stage", |row| &row.stage[..])
        .done()
}

fn share_table<'a>(shares: impl Iterator<Item = &'a ShareChange>) -> Table {
    let interval = |row: &ShareChange| {
        let [low, high] = row.difference_ci95.map(|end| 100.0 * end);
        TableCell::Figure(if row.is_certain() { format!("{low:+.1} to {high:+.1}") } else { "not certain".to_owned() })
    };
    Table::of("Time on a CPU by role, certain differences first", shares)
        .column("role", |row| TableCell::role(roles::by_id(row.role)))
        .less(1, "before", |row| TableCell::FineShare(row.shares[0]))
        .less(1, "after", |row| TableCell::FineShare(row.shares[1]))
        .column("points", |row| TableCell::Figure(signed(100.0 * row.difference())))
        .column("95 % CI", |row| interval(row))
        .column("process", |row| &row.process[..])
        .done()
}

fn pipe_table(pipes: &[PipeChange]) -> Table {
    let rows = pipes.iter().flat_map(|pipe| {
        let sides = ["writes", "reads"].into_iter().zip(&pipe.sides);
        sides.map(move |(does, side)| (format!("{} ({does})", pipe.name), pipe, side))
    });
    let pair = |[first, second]: [String; 2]| {
        TableCell::Figure(if first == second { first } else { format!("{first} to {second}") })
    };
    let mib = |bytes: u64| number(bytes as f64 / (1 << 20) as f64);
    type Row<'a> = (String, &'a PipeChange, &'a SideChange);
    Table::of("Pipes, before and after", rows)
        .column("pipe", |(name, ..): &Row<'_>| name.clone())
        .less(1, "MiB", |(_, pipe, _)| pair(pipe.bytes.map(mib)))
        .less(1, "calls", |(.., side)| pair(side.calls.map(grouped)))
        .column("sleeps", |(.., side)| pair(side.sleeps.map(grouped)))
        .column("wake-ups", |(.., side)| pair(side.wakes.map(grouped)))
        .column("full or empty", |(.., side)| pair(side.blocked.map(percent)))
        .done()
}

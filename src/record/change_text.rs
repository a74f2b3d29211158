//! Show what changed between two recordings.

use super::change::samples::ShareChange;
use super::change::{PipeChange, RecordingChange, SideChange};
use crate::report::block::{self, ReportBlock};
use crate::report::number::{number, percent};
use crate::report::table::{Table, TableCell};
use crate::report::terminal::Style;
use crate::roles;
use crate::util::text::{grouped, signed};

/// Rows of the table of shares.
const ROWS: usize = 16;

/// Shares that change by less are left out.
const SMALL_SHARE: f64 = 0.005;

/// For a terminal.
#[must_use]
pub(crate) fn render(change: &RecordingChange, style: Style) -> String {
    block::text(&blocks(change), style)
}

/// What went through the pipes, before and after, for a terminal.
#[must_use]
pub(crate) fn pipes(change: &RecordingChange, style: Style) -> String {
    let table = pipe_table(&change.pipes);
    if table.is_empty() { String::new() } else { block::text(&[ReportBlock::Table(table)], style) }
}

/// The answer, then the tables.
#[must_use]
pub(crate) fn blocks(change: &RecordingChange) -> Vec<ReportBlock> {
    let cautions = change.cautions.iter().cloned().map(ReportBlock::Note);
    let mut blocks: Vec<ReportBlock> =
        cautions.chain(change.findings.iter().cloned().map(ReportBlock::Sentence)).collect();
    let [before, after] = &change.names;
    blocks.push(ReportBlock::Note(format!("Before: {before}. After: {after}.")));
    let shares = change.shares.iter().filter(|one| one.difference().abs() >= SMALL_SHARE).take(ROWS);
    let tables = [share_table(shares), pipe_table(&change.pipes)];
    blocks.extend(tables.into_iter().filter(|table| !table.is_empty()).map(ReportBlock::Table));
    blocks
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

//! Print what changed between two recordings.

use super::answer::percent;
use super::change::samples::ShareChange;
use super::change::{PipeChange, RecordingChange, SideChange};
use super::tables::column;
use crate::report::number::number;
use crate::report::terminal::table::fitted;
use crate::report::terminal::{Style, paragraph};
use crate::roles;
use crate::util::text::{clean, grouped, signed};

/// Rows of the table of roles.
const ROWS: usize = 16;

/// Shares that change by less are left out.
const SMALL_SHARE: f64 = 0.005;

/// The whole text.
#[must_use]
pub(crate) fn render(change: &RecordingChange, style: Style) -> String {
    let mut text = String::new();
    for line in change.cautions.iter().chain(&change.findings) {
        text.push_str(&paragraph("", line, style));
    }
    let [before, after] = &change.names;
    text.push_str(&paragraph("", &format!("Before: {before}. After: {after}."), style));
    let shares: Vec<&ShareChange> =
        change.shares.iter().filter(|share| share.difference().abs() >= SMALL_SHARE).take(ROWS).collect();
    if !shares.is_empty() {
        text.push_str(&format!(
            "\nTime on a CPU by role, certain differences first:\n{}\n",
            share_table(&shares, style)
        ));
    }
    text.push_str(&pipes(change, style));
    text
}

/// What went through the pipes, before and after; empty without pipes.
#[must_use]
pub(crate) fn pipes(change: &RecordingChange, style: Style) -> String {
    if change.pipes.is_empty() {
        return String::new();
    }
    format!("\nPipes, before and after:\n{}\n", pipe_table(&change.pipes, style))
}

fn share_table(rows: &[&ShareChange], style: Style) -> String {
    let names: Vec<String> = rows.iter().map(|row| roles::by_id(row.role).title.to_owned()).collect();
    let each = |cell: &dyn Fn(&ShareChange) -> String| -> Vec<String> { rows.iter().map(|row| cell(row)).collect() };
    let points = |row: &ShareChange| {
        let [low, high] = row.difference_ci95.map(|end| 100.0 * end);
        if row.is_certain() { format!("{low:+.1} to {high:+.1}") } else { "not certain".to_owned() }
    };
    let figures = [
        column("before", 1, each(&|row| format!("{:.1} %", 100.0 * row.shares[0]))),
        column("after", 1, each(&|row| format!("{:.1} %", 100.0 * row.shares[1]))),
        column("points", 0, each(&|row| signed(100.0 * row.difference()))),
        column("95 % CI", 0, each(&points)),
    ];
    let processes: Vec<String> = rows.iter().map(|row| clean(&row.process)).collect();
    fitted(None, ("role", &names), &figures, ("process", &processes), style)
}

fn pipe_table(pipes: &[PipeChange], style: Style) -> String {
    let rows: Vec<(String, &PipeChange, &SideChange)> = pipes
        .iter()
        .flat_map(|pipe| {
            let sides = ["writes", "reads"].iter().zip(&pipe.sides);
            sides.map(move |(does, side)| (format!("{} ({does})", clean(&pipe.name)), pipe, side))
        })
        .collect();
    let names: Vec<String> = rows.iter().map(|(name, ..)| name.clone()).collect();
    let each = |cell: &dyn Fn(&PipeChange, &SideChange) -> String| -> Vec<String> {
        rows.iter().map(|(_, pipe, side)| cell(pipe, side)).collect()
    };
    let pair = |pair: [String; 2]| {
        let [first, second] = pair;
        if first == second { first } else { format!("{first} to {second}") }
    };
    let mib = |bytes: u64| number(bytes as f64 / (1 << 20) as f64);
    let figures = [
        column("MiB", 1, each(&|pipe, _| pair(pipe.bytes.map(mib)))),
        column("calls", 1, each(&|_, side| pair(side.calls.map(grouped)))),
        column("sleeps", 0, each(&|_, side| pair(side.sleeps.map(grouped)))),
        column("wake-ups", 0, each(&|_, side| pair(side.wakes.map(grouped)))),
        column("full or empty", 0, each(&|_, side| pair(side.blocked.map(percent)))),
    ];
    fitted(None, ("pipe", &names), &figures, ("", &vec![String::new(); rows.len()]), style)
}

//! Why two kernels differ, as a sentence and a table.

use crate::compare::causes::{names, parts_in_words};
use crate::compare::model::{CausePart, CauseResidual, CauseRow, CauseSplit};
use crate::report::block::ReportBlock;
use crate::report::number;
use crate::report::table::{Table, TableCell};
use crate::util::text::counted;

/// Roles whose parts are all smaller are left out, as a part of the total.
const SMALLEST: f64 = 0.001;

/// The blocks of a split.
pub(super) fn blocks(split: &CauseSplit) -> Vec<ReportBlock> {
    let change = number::change(split.after / split.before);
    let mut blocks =
        vec![ReportBlock::Sentence(format!("Causes: {change} rebuilt: {}{}.", parts_in_words(split), names(split)))];
    let least = SMALLEST * split.before;
    let is_shown = |row: &&CauseRow| row.parts.iter().any(|part| part.delta.abs() >= least);
    let rows: Vec<&CauseRow> = std::iter::once(&split.total).chain(split.roles.iter().filter(is_shown)).collect();
    let mut table = Table::of("Causes, instructions per KiB", &rows)
        .column("role", |row| match row.role {
            Some(_) => TableCell::Role { title: row.title.clone(), colour: row.colour.clone() },
            None => TableCell::Text(row.title.clone()),
        })
        .column("total", |row| TableCell::Change(row.delta));
    for (index, part) in CausePart::ALL.into_iter().enumerate() {
        if split.differing.iter().any(|names| names.part == part) {
            table = table.column(part.name(), |row| value(row, index));
        }
    }
    let mut table = table.column("order matters by", |row| TableCell::Exact(row.order)).done();
    if rows.iter().any(|row| row.parts.iter().any(|part| !part.certain && part.delta != 0.0)) {
        table = table.note(
            "~: not larger than its uncertainty: half the range over the orders, and what the windows leave open",
        );
    }
    let left_out = split.roles.len() + 1 - rows.len();
    if left_out > 0 {
        let what = counted(left_out as u64, "role");
        table = table.note(format!("{what} with parts below {} of the total left out", number::part(SMALLEST)));
    }
    blocks.push(ReportBlock::Table(table));
    blocks.push(ReportBlock::Note(about(split)));
    blocks
}

fn value(row: &CauseRow, part: usize) -> TableCell {
    let part = row.parts[part];
    let doubt = if part.certain || part.delta == 0.0 { "" } else { "~" };
    TableCell::Figure(format!("{doubt}{}", number::signed(part.delta)))
}

/// How it was found, and how far the rebuilt kernels are from the others.
fn about(split: &CauseSplit) -> String {
    let orders = match split.orders {
        1 => "in one order".to_owned(),
        orders => format!("means of {orders} orders"),
    };
    let residuals: Vec<String> = split.residuals.iter().flatten().map(residual).collect();
    let residuals = match residuals.as_slice() {
        [] => String::new(),
        some => format!(" Rebuilt kernels differ from those compared by {}.", some.join(", and ")),
    };
    format!("One thing was changed at a time, {orders}.{residuals}{} See docs/builds.md.", next(split))
}

/// What finds the cause of a part.
fn next(split: &CauseSplit) -> String {
    let is_known = |part: CausePart| {
        let value = split.total.parts[part as usize];
        value.certain && value.delta != 0.0
    };
    let [before, after] = &split.kernels;
    let options = format!("`pipeprof kernel options {before} {after}` finds the options");
    match [is_known(CausePart::Configuration), is_known(CausePart::Source)] {
        [true, true] => format!(" {options}, `pipeprof bisect --tree DIR` the commits."),
        [true, false] => format!(" {options}."),
        [false, true] => " `pipeprof bisect --tree DIR` finds the commits.".to_owned(),
        [false, false] => String::new(),
    }
}

fn residual(residual: &CauseResidual) -> String {
    const LEAST: f64 = 0.0001;
    let is_tiny = |value: f64| value.abs() < LEAST * residual.image;
    let part = |value: f64| match is_tiny(value) {
        true => "less than 0.01 %".to_owned(),
        false => number::part(value.abs() / residual.image),
    };
    let change = part(residual.rebuilt - residual.image);
    let most = part(residual.role_delta);
    if is_tiny(residual.role_delta) {
        format!("{change} ({}; {most} in every role)", residual.label)
    } else {
        format!("{change} ({}; at most {most}, in {})", residual.label, residual.role)
    }
}

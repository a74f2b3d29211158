//! Print a comparison: the answer first, then the roles and functions that changed.

use super::layout::{TextTable, wrap};
use crate::compare::columns;
use crate::compare::model::{
    Cell, CellProcess, Comparison, Difference, FunctionRow, Matched, RoleRow, Section, Step, Word,
};
use crate::compare::text;
use crate::profile::ProcessName;
use crate::roles::SCHEDULING;
use crate::util::text::clean;
use std::fmt::Write as _;

/// How much of each step to print.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub width: usize,
    pub roles: usize,
    pub functions: usize,
}

/// The whole comparison as text.
#[must_use]
pub fn render(comparison: &Comparison, extent: Extent) -> String {
    let mut out = String::new();
    for line in summary_lines(comparison) {
        out.push_str(&wrap(&line, extent.width, 0, ""));
    }
    for section in &comparison.sections {
        let _ = writeln!(out, "\n== {} ==\n", clean(&section.mode));
        out.push_str(&cells(comparison, section, extent.width));
        for step in &section.steps {
            out.push('\n');
            out.push_str(&step_text(comparison, step, extent));
        }
    }
    out.push('\n');
    out.push_str(&environment(comparison, extent.width));
    out
}

/// The answer of each step in one line, then what could not be measured.
#[must_use]
pub(crate) fn summary_lines(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for section in &comparison.sections {
        for step in &section.steps {
            let (from, to) = comparison.step_labels(step);
            lines.push(format!("{}, {from} -> {to}: {}", section.mode, answer(step)));
        }
    }
    for missing in &comparison.missing {
        lines.push(format!("{}, {}: not measured: {}", missing.mode, missing.column, missing.reason));
    }
    lines
}

/// The verdict and its largest contributors, in sentences.
#[must_use]
pub(crate) fn answer(step: &Step) -> String {
    let verdict = &step.verdict;
    let mut text = match verdict.word {
        Word::More | Word::Fewer => format!("{} ({})", verdict.text, verdict.word.text()),
        _ => verdict.text.clone(),
    };
    let largest = |wanted: &dyn Fn(&RoleRow) -> bool| {
        let largest = step.roles.iter().filter(|row| wanted(row));
        largest.max_by(|a, b| a.delta.abs().total_cmp(&b.delta.abs()))
    };
    let signed = |row: &RoleRow| format!("{} ({})", row.title, text::signed(row.delta));
    if let Some(blame) = &step.blame {
        let functions = blame.functions.iter().map(|(name, delta)| format!("{name} {}", text::signed(*delta)));
        let whole = blame.whole.iter().map(|(name, delta)| format!("{name} {}", text::signed(*delta)));
        let lists = [("self", functions.collect::<Vec<_>>()), ("total", whole.collect::<Vec<_>>())];
        let offset = largest(&|row| row.delta * blame.delta < 0.0);
        let offset = offset.map(|row| format!(", offset by {}", signed(row))).unwrap_or_default();
        let _ = write!(text, ". Largest contributor: {} ({}){offset}", blame.title, text::signed(blame.delta));
        let lists: Vec<String> = lists
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", names.join(", ")))
            .collect();
        if !lists.is_empty() {
            let _ = write!(text, ". Functions of {}, {}", blame.title, lists.join("; "));
        }
    }
    if let Some([before, after]) = step.without_scheduling {
        let delta = after - before;
        let rest = largest(&|row| !SCHEDULING.contains(&row.role) && row.delta * delta > 0.0);
        let most = rest.map(|row| format!(", largest contributor: {}", signed(row)));
        let change = text::percent(after / before);
        let _ = write!(text, ". Without scheduling: {} ({change}){}", text::signed(delta), most.unwrap_or_default());
    }
    text
}

/// Each column's totals.
#[must_use]
pub(crate) fn cells(comparison: &Comparison, section: &Section, width: usize) -> String {
    let mut table = TextTable::new(
        std::iter::once(comparison.per_kib().to_owned())
            .chain(comparison.columns.iter().map(|column| text::cut(&column.label, 24)))
            .collect(),
    );
    let mut row = |name: &str, of: &dyn Fn(&Cell) -> String| {
        let cells = section.cells.iter().map(|cell| cell.as_ref().map_or_else(|| "-".to_owned(), of));
        table.row(std::iter::once(name.to_owned()).chain(cells).collect());
    };
    let timed = comparison.unit == "ns";
    row(if timed { "elapsed, median" } else { "total" }, &|cell| text::value(cell.total));
    if let (true, Some(_)) = (timed, section.cells.iter().flatten().find_map(|cell| cell.gib_s)) {
        row("GiB/s, median", &|cell| cell.gib_s.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}")));
        row("runs (boots)", &|cell| {
            format!("{} ({})", cell.pairs.iter().map(Vec::len).sum::<usize>(), cell.pairs.len())
        });
    }
    if section.cells.iter().flatten().any(|cell| cell.without_scheduling.is_some()) {
        row("without scheduling", &|cell| cell.without_scheduling.map_or_else(|| "-".to_owned(), text::value));
    }
    let names = section.processes();
    let of = |cell: &Cell, name: ProcessName, value: fn(&CellProcess) -> String| {
        cell.processes.get(name).map_or_else(|| "-".to_owned(), value)
    };
    for &name in &names {
        let heading = if timed { format!("{name}, CPU") } else { name.to_string() };
        row(&heading, &|cell| of(cell, name, |process| text::value(process.value)));
    }
    if let Some(first) = names.first() {
        let unit = if timed { ", ns" } else { "" };
        row(&format!("per {first} call{unit}"), &|cell| text::value(cell.per_call));
    }
    for &name in &names {
        row(&format!("calls of {name}"), &|cell| of(cell, name, |process| process.calls.to_string()));
    }
    row("sleeps", &|cell| cell.voluntary_switches.to_string());
    row("preemptions", &|cell| cell.involuntary_switches.to_string());
    table.render(width, 2)
}

/// One step: verdict, roles, functions.
#[must_use]
pub(crate) fn step_text(comparison: &Comparison, step: &Step, extent: Extent) -> String {
    let (from, to) = comparison.step_labels(step);
    let head = format!(
        "{from} -> {to}: {}, {} {}",
        step.verdict.word.text(),
        text::signed(step.verdict.delta),
        comparison.per_kib()
    );
    let mut out = wrap(&format!("{head} ({})", text::percent(step.verdict.ratio)), extent.width, 0, "");
    for remark in &step.remarks {
        out.push_str(&wrap(remark, extent.width, 2, ""));
    }
    if step.verdict.noise_floor.is_some() {
        out.push_str(&wrap(&format!("noise floor from {}", step.verdict.noise_from), extent.width, 2, ""));
    }
    let changed: Vec<_> = step.roles.iter().filter(|row| row.delta != 0.0).take(extent.roles).collect();
    if !changed.is_empty() {
        let header = ["role", "before", "after", "delta", "change"];
        let mut table = TextTable::new(header.map(str::to_owned).to_vec());
        for row in changed {
            let doubt = if row.certain { "" } else { " ?" };
            table.row(vec![
                format!("{}{doubt}", row.title),
                text::value(row.before),
                text::value(row.after),
                text::signed(row.delta),
                text::change(row.before, row.after),
            ]);
        }
        out.push('\n');
        out.push_str(&table.render(extent.width, 2));
        if step.roles.iter().any(|row| row.delta != 0.0 && !row.certain) {
            out.push_str(&wrap("?: within the intervals of the sampled shares", extent.width, 2, ""));
        }
    }
    let functions: Vec<&FunctionRow> =
        step.functions.iter().filter(|row| row.self_delta != 0.0).take(extent.functions).collect();
    if !functions.is_empty() {
        let header = ["function (self)", "before", "after", "delta", "total delta"];
        let mut table = TextTable::new(header.map(str::to_owned).to_vec());
        for row in &functions {
            table.row(vec![
                function_name(row),
                text::value(row.self_before),
                text::value(row.self_after),
                text::signed(row.self_delta),
                text::signed(row.inclusive_delta),
            ]);
        }
        out.push('\n');
        out.push_str(&table.render(extent.width, 2));
        let shown = functions.len();
        let more = step.functions.iter().filter(|row| row.self_delta != 0.0).count() - shown + step.functions_left_out;
        if more > 0 {
            let rest: f64 =
                step.functions.iter().filter(|row| row.self_delta != 0.0).skip(shown).map(|row| row.self_delta).sum();
            let line = format!("and {more} other functions, {} in all", text::signed(rest + step.left_out_delta));
            out.push_str(&wrap(&line, extent.width, 2, ""));
        }
    }
    out
}

/// `W` or `R` for the process, the names before and after, and how they were matched.
#[must_use]
pub fn function_name(row: &FunctionRow) -> String {
    // The built-in workload's names are shortened.
    let process = match row.process {
        ProcessName::WRITER => "W",
        ProcessName::READER => "R",
        other => other.as_str(),
    };
    let mark = match row.matched {
        Matched::Path => " (by path)",
        Matched::Moved => " (other caller)",
        Matched::OnlyBefore | Matched::OnlyAfter | Matched::Name | Matched::Rename => "",
    };
    format!("{process} {}{mark}", row.shown())
}

/// The differences between the columns, and all caveats.
#[must_use]
pub fn environment(comparison: &Comparison, width: usize) -> String {
    let mut out = String::from("What differs\n");
    let short = |difference: &&Difference| difference.values.iter().all(|value| value.chars().count() <= 12);
    for difference in comparison.differences.iter().filter(|difference| !short(difference)) {
        let why = if difference.matters.is_empty() { String::new() } else { format!(" ({})", difference.matters) };
        out.push_str(&wrap(&format!("{}{why}", difference.what), width, 2, ""));
        for (column, value) in comparison.columns.iter().zip(&difference.values) {
            out.push_str(&wrap(value, width, 4, &format!("{}: ", clean(&column.label))));
        }
    }
    let labels = comparison.columns.iter().map(|column| text::cut(&column.label, 24));
    let mut table = TextTable::new(std::iter::once("setting".to_owned()).chain(labels).collect());
    let mut reasons: Vec<String> = Vec::new();
    for difference in comparison.differences.iter().filter(short) {
        table.row(std::iter::once(difference.what.clone()).chain(difference.values.iter().cloned()).collect());
        if let Some(family) = columns::family(&difference.what) {
            let star = if family == difference.what { "" } else { "*" };
            let reason = format!("{family}{star}: {}", difference.matters);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    if !table.is_empty() {
        out.push_str(&table.render(width, 2));
        for reason in reasons {
            out.push_str(&wrap(&reason, width, 2, ""));
        }
    }
    if comparison.differences.is_empty() {
        out.push_str("  nothing: all known settings are equal\n");
    }
    out.push_str("\nCaveats\n");
    for caveat in &comparison.caveats {
        let whose = if caveat.columns.is_empty() { String::new() } else { format!("{}: ", caveat.columns.join(", ")) };
        out.push_str(&wrap(&format!("{whose}{}", caveat.text), width, 2, "- "));
    }
    out
}

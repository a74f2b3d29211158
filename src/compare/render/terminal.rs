//! Print a comparison: the answer first, then the roles and functions that changed.

use super::layout::{TextTable, wrap};
use crate::compare::answer;
use crate::compare::columns;
use crate::compare::model::{Cell, CellProcess, Comparison, Difference, ExactCell, FunctionRow, Inlined, Matched, RoleRow, RoleWork, Section, Step};
use crate::compare::text;
use crate::compare::windows::PART_FLOOR;
use crate::document::LockKind;
use crate::profile::ProcessName;
use crate::roles::{self, SCHEDULING};
use crate::util::text::{clean, counted, rounded};
use std::fmt::Write as _;

/// What the columns of the split say.
pub(crate) const SPLIT: &str = "number, each: how many pages, wake-ups or calls of the role's functions by functions of \
                                other roles there are, and instructions of one";

/// How much of each step to print.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub width: usize,
    pub roles: usize,
    pub functions: usize,
}

/// The answers alone.
#[must_use]
pub(crate) fn answers(comparison: &Comparison, width: usize) -> String {
    let mut out = String::new();
    for line in answer::lines(comparison) {
        out.push_str(&wrap(&line.text, width, 2 * line.level, ""));
    }
    out
}

/// The whole comparison as text.
#[must_use]
pub fn render(comparison: &Comparison, extent: Extent) -> String {
    let mut out = answers(comparison, extent.width);
    for section in &comparison.sections {
        let _ = writeln!(out, "\n== {} ==\n", clean(&section.title()));
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
    let exact =
        |of: fn(&ExactCell) -> String| move |cell: &Cell| cell.exact.as_ref().map_or_else(|| "-".to_owned(), of);
    if timed {
        row("elapsed, median", &|cell| text::value(cell.total));
    } else {
        row("without scheduling", &exact(|cell| text::value(cell.without_scheduling)));
        row("  in all windows", &exact(|cell| text::span(cell.without_scheduling_span)));
        row("total", &|cell| text::value(cell.total));
        row("  in all windows", &exact(|cell| text::span(cell.total_span)));
    }
    if let (true, Some(_)) = (timed, section.cells.iter().flatten().find_map(|cell| cell.gib_s)) {
        row("GiB/s, median", &|cell| cell.gib_s.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}")));
        row("runs (boots)", &|cell| {
            format!("{} ({})", cell.pairs.iter().map(Vec::len).sum::<usize>(), cell.pairs.len())
        });
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
    if !timed {
        let cost = |cost: Option<f64>| cost.map_or_else(|| "-".to_owned(), rounded);
        row("instructions per sleep", &|cell| cost(cell.exact.as_ref().and_then(|cell| cell.per_sleep)));
        row("instructions per preemption", &|cell| cost(cell.exact.as_ref().and_then(|cell| cell.per_preemption)));
    }
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
        comparison.verdict_unit()
    );
    let mut out = wrap(&format!("{head} ({})", text::percent(step.verdict.ratio)), extent.width, 0, "");
    for remark in &step.remarks {
        out.push_str(&wrap(remark, extent.width, 2, ""));
    }
    if !step.verdict.noise_from.is_empty() {
        out.push_str(&wrap(&format!("noise floor from {}", step.verdict.noise_from), extent.width, 2, ""));
    }
    let changed: Vec<_> = changed(step).take(extent.roles).collect();
    if !changed.is_empty() {
        let split = changed.iter().any(|row| row.work.is_some());
        let mut header = ["role", "before", "after", "delta", "change"].map(str::to_owned).to_vec();
        header.extend(["number", "each", "per"].iter().filter(|_| split).map(|name| (*name).to_owned()));
        let mut table = TextTable::new(header);
        for row in changed {
            let doubt = match row.certain {
                true => "",
                false if step.exact() && scheduling(row) => " ~",
                false => " ?",
            };
            let mut cells = vec![
                format!("{}{doubt}", row.title),
                text::value(row.before),
                text::value(row.after),
                text::signed(row.delta),
                text::change(row.before, row.after),
            ];
            let changes = |work: RoleWork| {
                let number = text::change(work.calls_before, work.calls_after);
                [number, text::change(work.each_before, work.each_after), work.unit.text().to_owned()]
            };
            if split {
                cells.extend(row.work.map_or(["-"; 3].map(str::to_owned), changes));
            }
            table.row(cells);
        }
        out.push('\n');
        out.push_str(&table.render(extent.width, 2));
        if split {
            out.push_str(&wrap(SPLIT, extent.width, 2, ""));
        }
        for (mark, reason) in marks(step, extent.roles) {
            out.push_str(&wrap(&format!("{mark}: {reason}"), extent.width, 2, ""));
        }
    }
    out.push_str(&super::cycles::table(step, extent.roles, extent.width));
    let functions: Vec<&FunctionRow> =
        step.functions.iter().filter(|row| row.self_delta != 0.0).take(extent.functions).collect();
    if !functions.is_empty() {
        let header = ["function in a role", "role", "self before", "self after", "self delta", "total delta"];
        let mut table = TextTable::new(header.map(str::to_owned).to_vec());
        let room = if extent.width < 90 { 12 } else { 20 };
        for row in &functions {
            table.row(vec![
                function_name(row),
                text::cut(roles::by_id(row.role).title, room),
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
        if let Some(line) = inlining(comparison, step) {
            out.push_str(&wrap(&line, extent.width, 2, ""));
        }
    }
    out.push_str(&locks(step, extent));
    let sums = sums(step, extent);
    if !sums.is_empty() {
        let _ = write!(out, "\n{}", sums.render(extent.width, 2));
    }
    out
}

/// Calls under the pipe's mutex, of roles for which something changed.
fn locks(step: &Step, extent: Extent) -> String {
    let mut table =
        TextTable::new(["calls under the mutex", "before", "of", "after", "of"].map(str::to_owned).to_vec());
    for lock in step.locks.iter().filter(|lock| lock.lock == LockKind::Mutex) {
        for row in lock.calls.iter().filter(|row| row.changed()) {
            let mut cells = vec![format!("{}, {} ({})", lock.process, row.title, row.function)];
            for side in [0, 1] {
                cells.extend([text::count(row.held[side]), text::count(row.all[side])]);
            }
            table.row(cells);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let rule = "per call of the first process; a function for each role; of: all calls, with or without the mutex";
    format!("\n{}{}", table.render(extent.width, 2), wrap(rule, extent.width, 2, ""))
}

/// Functions summed over all roles and processes.
fn sums(step: &Step, extent: Extent) -> TextTable {
    let header = ["function in all roles", "roles", "self before", "self after", "self delta", "total delta"];
    let mut table = TextTable::new(header.map(str::to_owned).to_vec());
    for row in step.sums.iter().take(extent.functions) {
        table.row(vec![
            row.shown(),
            row.roles.len().to_string(),
            text::value(row.self_before),
            text::value(row.self_after),
            text::signed(row.self_delta),
            text::signed(row.total_delta),
        ]);
    }
    table
}

/// The roles that changed. Counts: without those whose uncertain change is next to nothing.
fn changed(step: &Step) -> impl Iterator<Item = &RoleRow> {
    let least = if step.exact() { PART_FLOOR * step.verdict.before } else { 0.0 };
    step.roles.iter().filter(move |row| row.delta != 0.0 && (row.certain || row.delta.abs() > least))
}

/// The marks of uncertain roles among the first `shown` that changed, and their meaning.
fn marks(step: &Step, shown: usize) -> Vec<(char, &'static str)> {
    let changed = || changed(step).take(shown).filter(|row| !row.certain);
    let within = match step.exact() {
        true => "within the differences between windows: no difference between the kernels",
        false => "within the intervals of the sampled shares",
    };
    let by_schedule = step.exact() && changed().any(scheduling);
    let mut marks = Vec::new();
    if changed().any(|row| !step.exact() || !scheduling(row)) {
        marks.push(('?', within));
    }
    if by_schedule {
        marks.push(('~', "depends on how often the processes sleep and are preempted"));
    }
    marks
}

/// Whether a role depends on the schedule.
fn scheduling(row: &RoleRow) -> bool {
    SCHEDULING.contains(&row.role)
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
    format!("{process} {}{mark}", row.shown_with_inlined())
}

/// Functions named per kernel by [`inlining`].
const INLINED: usize = 5;

/// Which functions are counted with their callers, and why.
#[must_use]
pub(crate) fn inlining(comparison: &Comparison, step: &Step) -> Option<String> {
    let (from, to) = comparison.step_labels(step);
    let list = |before: bool, label: &str| -> Option<String> {
        let mut inlined: Vec<_> = step.inlined.iter().filter(|one| one.before == before).collect();
        inlined.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let name = |one: &&Inlined| format!("{} into {}", one.function, one.caller);
        let mut names: Vec<String> = inlined.iter().take(INLINED).map(name).collect();
        if inlined.len() > INLINED {
            names.push(format!("and {}", counted((inlined.len() - INLINED) as u64, "other")));
        }
        (!names.is_empty()).then(|| format!("{label} inlines {}", names.join(", ")))
    };
    let lists: Vec<String> = [list(true, from), list(false, to)].into_iter().flatten().collect();
    let rule = "both sides count these functions with their callers";
    (!lists.is_empty()).then(|| format!("{}: {rule}", lists.join("; ")))
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
